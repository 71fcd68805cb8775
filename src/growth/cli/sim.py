"""`growth sim`: seeds of trouble in the embedded cluster. Says which laws were broken, and how to see it again."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from growth.controllers.loop.journal import be_quiet
from growth.controllers.loop.workers import working
from growth.sim.stories.behaviours import BEHAVIOURS
from growth.sim.stories.simulation import CALM, Report, Wish, deaths, die_at, differences, reference, simulate

_LAWS_SHOWN = 5


def sim(  # noqa: PLR0913 - every flag is an argument
    *,
    seeds: Annotated[int, Parameter(help="How many seeds to run, from the first one on.")] = 20,
    first: Annotated[int, Parameter(help="The first seed.")] = 0,
    seed: Annotated[str | None, Parameter(help="Run this one seed only.")] = None,
    trace: Annotated[bool, Parameter(negative="", help="With --seed: print everything that happens.")] = False,
    calm: Annotated[bool, Parameter(negative="", help="Users only, no faults.")] = False,
    only: Annotated[
        tuple[str, ...],
        Parameter(consume_multiple=False, help="These behaviours instead of drawn ones; may be repeated."),
    ] = (),
    crash_points: Annotated[
        bool, Parameter(negative="", help="Kill growth before and after each of its writes, and lose each answer.")
    ] = False,
    jobs: Annotated[int, Parameter(help="Processes; 0: as many as there are processors.")] = 0,
) -> int:
    """Run growth in the embedded cluster under random faults and check the laws after every write."""
    be_quiet()
    if crash_points:
        return _die_everywhere(jobs)
    if unknown := sorted({*only} - {each.name for each in BEHAVIOURS}):
        known = ", ".join(each.name for each in BEHAVIOURS)
        print(f"growth sim: no behaviour is called {', '.join(unknown)}; there are: {known}", file=sys.stderr)
        return 2
    wish = Wish(only, CALM.faults if calm else None)
    if seed is not None:
        return _run_one(seed, trace, wish)
    return _run_many(range(first, first + seeds), wish, jobs)


def _run_one(seed: str, trace: bool, wish: Wish) -> int:
    report = simulate(seed, print if trace else lambda _line: None, wish=wish)
    behaviours, faults = ", ".join(report.behaviours), ", ".join(report.faults) or "none"
    print(f"seed {seed}: behaviours {behaviours}; faults {faults}; trace {report.trace_hash}")
    _print_ending(report, wish)
    return 0 if report.succeeded else 1


def _run_many(seeds: range, wish: Wish, jobs: int) -> int:
    began, failed, settled, machines, virtual = time.monotonic(), 0, [0.0], 0, 0.0
    for report in _reports(seeds, wish, jobs):
        machines += report.machines
        virtual += report.virtual_seconds
        settled.append(report.settled_after_seconds or 0.0)
        if not report.succeeded:
            failed += 1
            _print_ending(report, wish)
    lived = f"{machines} machines in {virtual / 3600:.1f} virtual hours"
    print(f"{len(seeds)} seeds, {failed} failed; {lived}; settled within {max(settled):.0f} s of the last fault")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _reports(seeds: range, wish: Wish, jobs: int) -> Iterator[Report]:
    with working(jobs) as workers:
        yield from workers.map(_simulate, [str(seed) for seed in seeds], [wish] * len(seeds))


def _simulate(seed: str, wish: Wish) -> Report:
    return simulate(seed, wish=wish)


def _print_ending(report: Report, wish: Wish) -> None:
    if report.succeeded:
        print(f"  all laws held; settled {report.settled_after_seconds:.0f} s after the last fault")
        return
    print(f"seed {report.seed} FAILED: {len(report.violations)} violations ({', '.join(report.behaviours)})")
    for violation in report.violations[:_LAWS_SHOWN]:
        print(f"  {violation}")
    only = "".join(f" --only {shlex.quote(name)}" for name in wish.behaviours)
    calm = " --calm" if wish.faults == CALM.faults else ""
    print(f"  see it again: growth sim --seed {report.seed} --trace{calm}{only}", flush=True)


def _die_everywhere(jobs: int) -> int:
    """However growth dies, the same machines are bought and given back, and the same pods run."""
    wanted = reference()
    ways = list(deaths(wanted.writes))
    machines = f"{len(wanted.bought)} machines bought, {len(wanted.given_back)} given back"
    print(f"{wanted.writes} writes, {machines}, {len(wanted.bound)} pods running")
    failed = 0
    with working(jobs) as workers:
        for death, found in zip(ways, workers.map(die_at, ways), strict=True):
            differing = differences(wanted, found)
            failed += bool(differing)
            for line in differing[:_LAWS_SHOWN]:
                print(f"{death}: {line}", flush=True)
    print(f"{len(ways)} deaths, {failed} with another ending")
    return 1 if failed else 0
