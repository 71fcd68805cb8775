"""`make oracle`: random cases and small mutations of them, growth against the kube-scheduler's own plugins.

    CASES=200000 make oracle          how many (default 20,000)
    python -m tests.oracle --seed 7   other cases
    python -m tests.oracle --case F   one case again, from a file

Ends with 1 if any answer differs, or if a rule was decisive (the only one to refuse a node) in too few cases to mean
anything."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from growth.kube.codec import Codec
from tests.oracle.batches import Batch, run_batch
from tests.oracle.build import OracleMissingError, build_oracle, is_skip_allowed
from tests.oracle.cases import RULES
from tests.oracle.compare import disagreement
from tests.oracle.draws import Json
from tests.oracle.oracle import Oracle
from tests.oracle.shrink import shrink

BATCH = 1_000
DECISIVE_SHARE = 300 / 20_000


def main() -> int:
    arguments = _arguments()
    try:
        binary = build_oracle()
    except OracleMissingError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 0 if is_skip_allowed() else 1
    if arguments.case is not None:
        return _one(binary, arguments.case)
    started = time.perf_counter()
    batches = _all_batches(binary, arguments.cases, arguments.seed, arguments.jobs)
    return _report(batches, time.perf_counter() - started, binary)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=int(os.environ.get("CASES") or 20_000))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 0))
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or 2))
    parser.add_argument("--case", type=Path)
    return parser.parse_args()


def _all_batches(binary: Path, cases: int, seed: int, jobs: int) -> list[Batch]:
    sizes = [min(BATCH, cases - start) for start in range(0, cases, BATCH)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(
            pool.map(run_batch, [binary] * len(sizes), [f"{seed}-{number}" for number in range(len(sizes))], sizes)
        )


def _report(batches: list[Batch], seconds: float, binary: Path) -> int:
    cases = sum(batch.cases for batch in batches)
    decisive: Counter[str] = sum((batch.decisive for batch in batches), Counter())
    failures = [failure for batch in batches for failure in batch.failures]
    wanted = min(300, int(cases * DECISIVE_SHARE))
    alone = cases / sum(batch.oracle_seconds for batch in batches)
    print(
        f"{cases:,} cases in {seconds:.0f} s: {cases / seconds:,.0f} cases per second (one oracle by itself: "
        f"{alone:,.0f})"
    )
    print(
        f"  {sum(batch.fitting for batch in batches):,} with a node that fits, "
        f"{sum(batch.invalid for batch in batches):,} that no API server would take"
    )
    print("  decisive (the only rule to refuse some node) in so many cases:")
    for rule in RULES:
        print(
            f"    {rule:<20}{decisive[rule]:>8,}" + ("" if decisive[rule] >= wanted else f"  too few: {wanted} wanted")
        )
    print(f"  {len(failures)} disagreements")
    for problem, line in failures[:3]:
        _show(problem, line, binary)
    return 1 if failures or any(decisive[rule] < wanted for rule in RULES) else 0


def _show(problem: str, line: str, binary: Path) -> None:
    with Oracle(binary) as oracle:
        codec = Codec()

        def still_differs(case: Json) -> bool:
            text = msgspec.json.encode(case)
            return bool(disagreement(text, oracle.ask(text), codec))

        smallest: Any = shrink(json.loads(line), still_differs)
    print(f"\n{problem}\nsmallest case (save it and run with --case):\n{json.dumps(smallest)}")


def _one(binary: Path, path: Path) -> int:
    line = msgspec.json.encode(json.loads(path.read_text()))
    with Oracle(binary) as oracle:
        truth = oracle.ask(line)
    problem = disagreement(line, truth, Codec())
    print(msgspec.json.format(msgspec.json.encode(truth)).decode())
    print(problem or "growth agrees")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
