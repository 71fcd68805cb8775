"""A batch of cases, made, put to both and compared: the work of one process. Asked by `make oracle`."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from growth.kube.codec import Codec
from tests.oracle.cases import RULES, random_case
from tests.oracle.compare import disagreement
from tests.oracle.draws import Draws, Json
from tests.oracle.mutations import mutated
from tests.oracle.oracle import ask_all

FAMILY = 4  # one random case and three mutations of it


class Batch(Struct):
    """What one batch found."""

    cases: int
    decisive: Counter[str]
    fitting: int
    invalid: int
    given_up: int
    oracle_seconds: float
    failures: list[tuple[str, str]]


def run_batch(binary: Path, seed: str, size: int) -> Batch:
    lines = [msgspec.json.encode(case) for case in make_cases(seed, size)]
    started = time.perf_counter()
    truths = ask_all(binary, lines)
    batch, codec = Batch(size, Counter(), 0, 0, 0, time.perf_counter() - started, []), Codec()
    for line, truth in zip(lines, truths, strict=True):
        batch.decisive.update(truth.decisive)
        batch.fitting += bool(truth.fits)
        batch.invalid += bool(truth.invalid)
        batch.given_up += bool(truth.error)
        problem = disagreement(line, truth, codec)
        if problem:
            batch.failures.append((problem, line.decode()))
    return batch


def make_cases(seed: str, size: int) -> list[Json]:
    random = Random(seed)
    draws = Draws(random)
    cases: list[Json] = []
    while len(cases) < size:
        case = random_case(random, RULES[len(cases) // FAMILY % len(RULES)])
        family = [case, *(mutated(draws, case) for _ in range(FAMILY - 1))]
        cases += [member | {"id": f"{seed}/{len(cases) + position}"} for position, member in enumerate(family)]
    return cases[:size]
