"""How cheap are the solver's plans, how near to the proven bound, and how long do they take? Beside another planner's
figures on the same input.

Each case runs in a process of its own. `cpu_seconds` is the solve alone, without reading files; `gap_percent` is how
far the price is above the proven lower bound; `mib` is the most memory the solve held beyond what was there before;
`wrong` counts what the independent checker complains about. With `--write FOLDER` the figures are written there as
JSON, as a page and as a plot."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from bench.report import MIB, Figure, Report, main, parser, peak_resident_mib, resident_mib
from bench.solver_inputs import Case, cases, data_folder
from growth.solver.purchase.check import check
from growth.solver.purchase.solve import solve

_SUMS = {
    "generic_5000_and_10000": ("*_generic_5000", "*_generic_10000", 111 / 20),
    "diverse_5000": ("*_diverse_5000", "", 59 / 10),
}


def run(arguments: argparse.Namespace) -> Report:
    report = Report("The solver: price per hour, proven bound, gap")
    if data_folder() is None:
        print("GROWTH_BENCH_DATA names no folder with peer_bench: only generated inputs are run", file=sys.stderr)
    chosen = [case for case in cases() if fnmatch.fnmatch(case.name, arguments.only)]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as worker:
        for case in chosen:
            figures, stages = worker.apply(measure, (case.name,))
            report.add(case.name, **figures)
            _limit(report, case)
            if arguments.stages:
                print(case.name, *stages, sep="\n    ", file=sys.stderr)
    _add_sums(report)
    _compare_preferences(report)
    if arguments.write:
        write_page(report, arguments.write)
    return report


def measure(name: str) -> tuple[dict[str, Figure], list[str]]:
    """The figures of one case, and what each stage of the solver says."""
    case = next(case for case in cases() if case.name == name)
    problem = case.problem()
    before, began = _forget_peak(), time.process_time()
    solution = solve(problem)
    spent = time.process_time() - began
    figures: dict[str, Figure] = {
        "nodes": len(solution.nodes),
        "price": round(solution.price_per_hour, 4),
        "bound": round(solution.lower_bound, 4),
        "gap_percent": round(100 * solution.gap, 3),
        "cpu_seconds": round(spent, 3),
        "mib": round(max(0.0, _peak_mib() - before), 1),
        "unplaced": sum(left.count for left in solution.unplaced),
        "wrong": len(check(problem, solution)),
    }
    if case.peer is not None:
        saved = 100 * (1 - solution.price_per_hour / case.peer.price)
        figures |= {
            "peer_nodes": case.peer.nodes,
            "peer_price": case.peer.price,
            "peer_cpu_seconds": case.peer.cpu_seconds,
            "saved_percent": round(saved, 2),
        }
    return figures, [f"{stage.name}: {stage.price_per_hour:.4f} {stage.detail}" for stage in solution.stages]


def _forget_peak() -> float:
    """Let the kernel count the peak anew; returns what is held now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return resident_mib()


def _peak_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MIB
    return peak_resident_mib()


def _limit(report: Report, case: Case) -> None:
    report.limit(case.name, "wrong", 0)
    report.limit(case.name, "unplaced", 0)
    for figure, most in (
        ("gap_percent", case.most_gap_percent),
        ("cpu_seconds", case.most_cpu_seconds),
        ("mib", case.most_mib),
    ):
        if most is not None:
            report.limit(case.name, figure, most)
    if case.peer is not None and case.least_saved_percent is not None:
        report.limit(case.name, "price", round(case.peer.price * (1 - case.least_saved_percent / 100), 4))


def _add_sums(report: Report) -> None:
    """All inputs of a kind together, as their targets are worded."""
    for name, (first, second, most) in _SUMS.items():
        spent = [
            figures["cpu_seconds"]
            for case, figures in report.cases.items()
            if fnmatch.fnmatch(case, first) or fnmatch.fnmatch(case, second)
        ]
        if spent:
            report.add(f"sum_{name}", cpu_seconds=round(sum(float(seconds) for seconds in spent), 3))
            report.limit(f"sum_{name}", "cpu_seconds", round(most, 2))


def _compare_preferences(report: Report) -> None:
    """Preferences are followed, but no node is bought for them alone."""
    ignored, respected = (f"fake400_preference_1000_{policy}" for policy in ("ignore", "respect"))
    if ignored in report.cases and respected in report.cases:
        report.limit(respected, "nodes", float(report.cases[ignored]["nodes"]))
        report.limit(respected, "price", round(1.01 * float(report.cases[ignored]["price"]), 4))


def _arguments() -> argparse.ArgumentParser:
    arguments = parser(__doc__)
    arguments.add_argument("--only", default="*", help="names of cases, with * and ?")
    arguments.add_argument("--stages", action="store_true", help="say on stderr what each stage of the solver did")
    arguments.add_argument(
        "--write", type=Path, help="write solver.json, solver-figures.md and solver.svg into this folder"
    )
    return arguments


# --------------------------------------------------------------------- figures in the documentation

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 820, 230, 120, 30, 64
_OURS, _PEERS, _INK, _GRID = "#1b7f5c", "#c9a227", "#444", "#ddd"
_CAP: Final = 160.0  # percent: longer bars are cut, with their figure beside them

_HEAD = """# How good are the plans?

Written by `python -m bench.solver --write docs/reference`; every plan below was looked at by the independent checker. \
The inputs are those of
Karpenter's own scheduling benchmark, with the figures of Karpenter 1.15 on the same kind of machine (empty cluster, \
one pool, on-demand
offerings), a production cluster's pods all at once, and generated clusters. \
*Bound* is proven: no plan for these pods can cost less. *Gap*
is how far above it the plan is. CPU seconds are those of the solve alone.

![Price above the proven bound, and CPU seconds](solver.svg)

| input | nodes | price/h | bound | gap | CPU s | MiB | peer's price/h | peer's CPU s | saved |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def write_page(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "solver.json").write_text(report.as_json() + "\n", encoding="utf-8")
    (folder / "solver-figures.md").write_text(_HEAD + "".join(map(_row, report.cases.items())), encoding="utf-8")
    (folder / "solver.svg").write_text(_plot(report), encoding="utf-8")


def _row(item: tuple[str, dict[str, Figure]]) -> str:
    name, figures = item
    percent = {"gap_percent", "saved_percent"}
    columns = [
        "nodes",
        "price",
        "bound",
        "gap_percent",
        "cpu_seconds",
        "mib",
        "peer_price",
        "peer_cpu_seconds",
        "saved_percent",
    ]
    shown = {column: f"{figure}{' %' if column in percent else ''}" for column, figure in figures.items()}
    if not figures.get("bound", 1.0):  # within its budget there was no time to prove one
        shown |= {"bound": "none", "gap_percent": "not known"}
    cells = [shown.get(column, "") for column in columns]
    return f"| {name} | {' | '.join(cells)} |\n"


def _plot(report: Report) -> str:
    """For each input two bars: how far the peer's price and ours are above the bound, with the CPU seconds at their
    ends.
    """
    rows = [(name, figures) for name, figures in report.cases.items() if "peer_price" in figures]
    height = _TOP + _ROW * len(rows) + 20
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'font-family="sans-serif" font-size="11" fill="{_INK}">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        '<text x="12" y="20" font-size="14">Price above the proven lower bound, and CPU seconds of the solve</text>',
        f'<rect x="12" y="32" width="10" height="10" fill="{_OURS}"/><text x="27" y="41">growth</text>',
        f'<rect x="90" y="32" width="10" height="10" fill="{_PEERS}"/><text x="105" y="41">Karpenter 1.15</text>',
        *(_grid(percent, height) for percent in range(0, int(_CAP) + 1, 40)),
    ]
    for number, (name, figures) in enumerate(rows):
        top = _TOP + number * _ROW
        bound = float(figures["bound"]) or 1.0
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(_bar(top + 2, float(figures["price"]) / bound - 1, float(figures["cpu_seconds"]), _OURS))
        peer_price, peer_seconds = float(figures["peer_price"]), float(figures["peer_cpu_seconds"])
        parts.append(_bar(top + 13, peer_price / bound - 1, peer_seconds, _PEERS))
    return "\n".join([*parts, "</svg>", ""])


def _grid(percent: int, height: int) -> str:
    x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * percent / _CAP
    line = f'<line x1="{x:.0f}" y1="{_TOP - 6}" x2="{x:.0f}" y2="{height - 14}" stroke="{_GRID}"/>'
    return line + f'<text x="{x:.0f}" y="{_TOP - 10}" text-anchor="middle">{percent} %</text>'


def _bar(top: int, over: float, seconds: float, colour: str) -> str:
    width = max(1.0, (_WIDTH - _LEFT - _RIGHT) * min(100 * over, _CAP) / _CAP)
    told = f"{100 * over:.1f} %, {seconds:.2g} s"
    bar = f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="10" fill="{colour}"/>'
    return bar + f'<text x="{_LEFT + width + 4:.1f}" y="{top + 9}" font-size="9">{told}</text>'


if __name__ == "__main__":
    sys.exit(main(_arguments(), run))
