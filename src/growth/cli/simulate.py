"""`growth simulate`: what would this cost, how long would pods wait, and what if? Runs scenario files in virtual time.

| ends with | when |
| --- | --- |
| 0 | every run kept its expectations and the laws |
| 1 | one did not; says which |
| 2 | a file is wrong; says where and why |
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from growth.cli.session import THE_CLUSTER, ClusterAccess
from growth.controllers.loop.journal import be_quiet
from growth.sim.apiserver.kinds import Json
from growth.sim.clock import run_virtual
from growth.sim.scenarios.reader import ScenarioError, read_scenario
from growth.sim.scenarios.record import read_cluster, recorded_scenario
from growth.sim.scenarios.report import write_report
from growth.sim.scenarios.run import ScenarioRun
from growth.sim.scenarios.schema import scenario_schema
from growth.sim.scenarios.sweep import Engine, Job, Outcome, jobs_of, run_jobs

Output = Annotated[
    str,
    Parameter(
        name=("--output", "-o"),
        help="table for people, or json: an object for each run. With --record: the file; default: standard output.",
    ),
]
OUTPUTS: Final = ("table", "json")
Seeds = Annotated[int | None, Parameter(help="Run so many seeds of each file, from its own on.")]
Changes = Annotated[
    list[str] | None,
    Parameter(name="--set", help="KEY=VALUE: change the file, as in pools.default.consolidation=Full."),
]
Grid = Annotated[
    list[str] | None, Parameter(help="KEY=A,B: run every combination, as in settings.scaleDownDelaySeconds=30,300.")
]


def simulate(  # noqa: PLR0913 - every flag is an argument
    *files: Annotated[str, Parameter(help="Scenario files.")],
    output: Output = "table",
    seeds: Seeds = None,
    set_: Changes = None,
    grid: Grid = None,
    report: Annotated[Path | None, Parameter(help="Write a page with plots to this file.")] = None,
    trace: Annotated[
        bool, Parameter(negative="", help="Print everything that happens; of the first run only.")
    ] = False,
    schema: Annotated[
        bool, Parameter(negative="", help="Print the JSON schema of scenario files, for editors.")
    ] = False,
    jobs: Annotated[int, Parameter(help="Processes; 0: as many as there are processors.")] = 0,
    engine: Annotated[Engine, Parameter(help="Where runs happen: processes of this machine, or Ray.")] = "processes",
    record: Annotated[
        bool, Parameter(negative="", help="Make a scenario file of a real cluster, which is only read.")
    ] = False,
    anonymise: Annotated[bool, Parameter(negative="", help="With --record: other names for everything.")] = False,
    namespace: Annotated[
        list[str] | None, Parameter(negative="", help="With --record: only what is in this one; may be repeated.")
    ] = None,
    access: ClusterAccess = THE_CLUSTER,
) -> int:
    """Run scenarios with growth's production loop in the embedded cluster, in virtual time."""
    if schema:
        print(json.dumps(scenario_schema(), indent=2))
        return 0
    try:
        if record:
            return _record(files, output, access, namespace or (), anonymise=anonymise)
        _check_output(output, anonymise=anonymise, namespace=namespace)
        wanted = _jobs(files, set_, grid, seeds, draws_bounds=report is not None)
        if trace:
            return _print_trace(wanted[0])
        outcomes = _run(wanted, engine, jobs, shows_progress=output == "table")
    except (ScenarioError, ValueError) as error:
        print(f"growth simulate: {error}", file=sys.stderr)
        return 2
    _print_json(outcomes) if output == "json" else _print_table(outcomes)
    if report is not None:
        report.write_text(write_report(outcomes), encoding="utf-8")
    _print_broken(outcomes)
    return 0 if all(outcome.succeeded for outcome in outcomes) else 1


def _check_output(output: str, *, anonymise: bool, namespace: list[str] | None) -> None:
    if output not in OUTPUTS:
        raise ValueError(f"--output is {' or '.join(OUTPUTS)}, not {output}")
    if anonymise or namespace:
        raise ValueError("--anonymise and --namespace go with --record")


def _record(
    files: Sequence[str], output: str, access: ClusterAccess, namespaces: Sequence[str], *, anonymise: bool
) -> int:
    if files:
        raise ValueError("--record reads a cluster, no files")

    async def read() -> list[Json]:
        async with access.connect(may_write=lambda: False) as (client, _runtime):
            return await read_cluster(client, namespaces)

    written = recorded_scenario(asyncio.run(read()), anonymise=anonymise)
    if output in ("table", "-"):
        print(written, end="")
    else:
        Path(output).write_text(written, encoding="utf-8")
    return 0


def _jobs(
    files: Sequence[str], changes: list[str] | None, grid: list[str] | None, seeds: int | None, *, draws_bounds: bool
) -> list[Job]:
    if not files:
        raise ValueError("name at least one scenario file")
    lists = {key: value.split(",") for key, value in _pairs(grid).items()}
    return jobs_of(files, _pairs(changes), lists, seeds, draws_bounds=draws_bounds)


def _pairs(given: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text}: write KEY=VALUE")
        found[key] = value
    return found


def _run(jobs: Sequence[Job], engine: Engine, workers: int, *, shows_progress: bool) -> list[Outcome]:
    outcomes = []
    with Progress(console=Console(stderr=True), transient=True, disable=not shows_progress) as bar:
        task = bar.add_task("simulating", total=len(jobs))
        for outcome in run_jobs(jobs, engine, workers):
            outcomes.append(outcome)
            bar.advance(task)
    return outcomes


def _print_trace(job: Job) -> int:
    be_quiet()
    read = read_scenario(Path(job.path), job.changes)

    async def run() -> None:
        await ScenarioRun(read, lambda at, line: print(f"{at:10.2f}  {line}")).run()

    run_virtual(run())
    return 0


def _print_json(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        print(msgspec.json.encode(outcome.result).decode())


_COLUMNS: Final = (
    "seed", "cost", "per hour", "bought", "most", "pods", "pending", "p50 s", "p95 s", "p99 s",
    "evicted", "ms/pod", "× real",
)  # fmt: skip
_NARROWEST: Final = 110


def _print_table(outcomes: Sequence[Outcome]) -> None:
    """A heading for each scenario and policy, the figures of its seeds below."""
    console = Console()
    console = console if console.width >= _NARROWEST else Console(width=_NARROWEST)
    for heading, group in itertools.groupby(outcomes, lambda each: f"{each.result.scenario} {each.job.policy}".strip()):
        console.print(heading, style="bold", highlight=False)
        table = Table(box=None, header_style="dim")
        for name in _COLUMNS:
            table.add_column(name, justify="right", no_wrap=True)
        for outcome in group:
            table.add_row(*_figures(outcome), style="" if outcome.succeeded else "red")
        console.print(table)


def _figures(outcome: Outcome) -> tuple[str, ...]:
    result, waits = outcome.result, outcome.result.waiting_seconds
    return (
        str(result.seed),
        f"{result.cost.total:.4f}",
        f"{result.cost.per_hour_at_end:.4f}",
        *map(str, (result.machines.bought, result.machines.most, result.pods.made, result.pods.pending)),
        *(f"{seconds:.0f}" for seconds in (waits.p50, waits.p95, waits.p99)),
        str(result.pods.evicted),
        f"{1000 * outcome.cpu_seconds / max(1, result.pods.made):.1f}",
        f"{result.virtual_seconds / max(outcome.cpu_seconds, 1e-9):,.0f}",
    )


def _print_broken(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        for reason in (*outcome.broken, *(f"law broken: {law}" for law in outcome.result.laws_broken)):
            where = ", ".join(part for part in (outcome.job.policy, f"seed {outcome.result.seed}") if part)
            print(f"{outcome.job.path} ({where}): {reason}", file=sys.stderr)
