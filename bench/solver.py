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

from bench.report import MIB, Figure, Report, main, parser, peak_resident_mib, resident_mib
from bench.solver_inputs import Case, cases, data_folder
from bench.solver_page import write_page
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
    """Wishes are heard, but no node is bought for them alone."""
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


if __name__ == "__main__":
    sys.exit(main(_arguments(), run))
