"""The solver before the exact judge, on random instances by seed: `python -m tests.solver.judged --count 1000` runs so
many of every family and says what it found; a few hundred are part of `make test`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import get_args

from growth.solver.purchase.check import check
from growth.solver.purchase.problem import PlacementProblem
from growth.solver.purchase.solve import solve
from tests.solver.instances import FAMILIES, Family, instance
from tests.solver.judge import Judge, by_importance, left_out, spent

_TINY = 1e-5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one plan."""

    complaints: tuple[str, ...] = ()  # rules broken, bounds above the optimum, pods left out that could run
    dearer: float = 0.0  # than need be for the same pods, as a share of the optimum
    is_judged: bool = True  # False: the judge itself did not come to an end


def judge(problem: PlacementProblem) -> Verdict:
    """The solver's plan for a problem, held to the best there is."""
    solution = solve(problem)
    complaints = [f"wrong: {complaint}" for complaint in check(problem, solution)]
    missing = left_out(problem, solution)
    if any(missing):
        fewest = Judge(problem).fewest_missing()
        if fewest is None:
            return Verdict(is_judged=False)
        if fewest < by_importance(problem, missing):
            complaints.append(f"left out: {by_importance(problem, missing)} where {fewest} is the least")
    best, paid = Judge(problem).least_spent(missing), spent(problem, solution)
    if best is None:  # a plan that holds only because its rooms are filled first is no plan to the judge
        return Verdict(tuple(complaints), is_judged=False)
    if solution.lower_bound > sum(best) * (1 + _TINY) + _TINY:
        complaints.append(f"bound: {solution.lower_bound} above the optimum {sum(best)}")
    first = next((pair for pair in zip(paid, best, strict=True) if abs(pair[0] - pair[1]) > _TINY), (0.0, 0.0))
    dearer = max(0.0, first[0] - first[1]) / max(sum(best), min(sum(paid), 1.0), 1e-9)
    return Verdict(tuple(complaints), dearer)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--family", choices=get_args(Family), action="append", help="every one unless said")
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--count", type=int, default=100)
    asked, failed = arguments.parse_args(), 0
    for family in asked.family or FAMILIES:
        counts, dearer, began = Counter[str](), list[float](), time.process_time()
        for seed in range(asked.first, asked.first + asked.count):
            verdict = judge(instance(family, seed))
            counts.update(complaint.partition(":")[0] for complaint in verdict.complaints)
            failed += len(verdict.complaints)
            counts["judged"] += verdict.is_judged
            dearer.append(verdict.dearer)
            if verdict.complaints or verdict.dearer > 0.01:
                print(family, seed, *verdict.complaints, f"dearer by {100 * verdict.dearer:.2f} %", flush=True)
        mean, worst = 100 * sum(dearer) / len(dearer), 100 * max(dearer)
        seconds = time.process_time() - began
        print(f"{family}: {dict(counts)}, dearer by {mean:.3f} %, at worst {worst:.2f} %; {seconds:.0f} s", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
