"""The same question has the same answer: in this process and another, with whatever seed of hashes, and after a
journey; earlier answers help.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from bench.generated import generate
from growth.model.settings import Settings
from growth.solver.patterns.stock import Budget
from growth.solver.purchase.bins import price_of
from growth.solver.purchase.check import check
from growth.solver.purchase.layout import lay_out
from growth.solver.purchase.problem import PlacementProblem
from growth.solver.purchase.solve import _by_greedy, solve

ROOT = Path(__file__).parents[3]
SCRIPT = """
import msgspec
from bench.generated import generate
from growth.solver.purchase.solve import solve
print(msgspec.json.encode(solve(generate(600, 30, apart=0.2, limited=True, zones=2, seed=3)).nodes).decode())
"""


def told(problem: PlacementProblem) -> str:
    return msgspec.json.encode(solve(problem).nodes).decode()


@pytest.fixture(scope="module")
def medium() -> PlacementProblem:
    return generate(600, 30, apart=0.2, limited=True, zones=2, seed=3)


def test_hashes_do_not_matter(medium: PlacementProblem) -> None:
    answers = set()
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        answers.add(done.stdout.strip())
    assert answers == {told(medium)}


def test_a_question_and_its_answer_travel_and_stay_small(medium: PlacementProblem) -> None:
    travelled = pickle.loads(pickle.dumps(medium))  # noqa: S301  (our own)
    assert told(travelled) == told(medium)
    large = generate(100_000, 300)
    solution = solve(large)
    assert len(pickle.dumps(replace(large, patterns=solution.patterns))) < 5_000_000
    assert check(large, solution) == ()


def test_a_head_start_saves_work_and_costs_nothing() -> None:
    problem, hasty = (
        generate(3_000, 120, apart=0.1, limited=True),
        Budget(pricing_rounds=2, exact_iterations=1, mending_iterations=1),
    )
    cold = solve(problem)
    warm, few = solve(replace(problem, patterns=cold.patterns, budget=hasty)), solve(replace(problem, budget=hasty))
    assert warm.price_per_hour <= cold.price_per_hour * 1.01
    assert warm.price_per_hour < few.price_per_hour * 0.99


def test_patterns_of_another_world_do_no_harm(medium: PlacementProblem) -> None:
    other = generate(300, 20, seed=9)
    assert check(other, solve(replace(other, patterns=solve(medium).patterns))) == ()


def test_there_is_an_answer_however_small_the_budget(medium: PlacementProblem) -> None:
    hasty = replace(medium, budget=Budget.for_seconds(0.001))
    solution = solve(hasty)
    assert solution.kind == "AllPlaced"
    assert check(hasty, solution) == ()


def test_seconds_become_units_of_work() -> None:
    assert Budget.for_seconds(Settings().solve_budget_seconds) == Budget()
    assert Budget.for_seconds(10).simplex_iterations == 2 * Budget().simplex_iterations


@pytest.mark.parametrize("kind", ["plain", "apart", "spread"])
def test_a_question_that_is_too_large_for_its_budget_is_answered_by_best_fit(kind: str) -> None:
    problem = generate(3_000, 2_500, apart=float(kind == "apart"), spread=float(kind == "spread"), zones=2, seed=5)
    solution = solve(replace(problem, budget=Budget.for_seconds(0.1)))
    assert [stage.name for stage in solution.stages] == ["best fit"]
    assert solution.kind == "AllPlaced"
    assert check(problem, solution) == ()


@pytest.mark.parametrize("kind", ["plain", "apart", "spread"])
def test_very_many_classes_are_packed_nearly_as_well_as_few_and_better_than_by_the_greedy(kind: str) -> None:
    problem = generate(900, 800, apart=float(kind == "apart"), spread=float(kind == "spread"), zones=2, seed=5)
    solution, plain = solve(problem), _by_greedy(lay_out(problem))
    assert check(problem, solution) == ()
    assert not solution.unplaced
    assert solution.price_per_hour < price_of(plain.bins)
    assert solution.gap < 0.05


def test_what_many_classes_leave_to_be_packed_again_stays_in_its_zones() -> None:
    solution = solve(generate(2_000, 400, spread=1.0, zones=3, seed=2))
    packed = [stage.price_per_hour for stage in solution.stages if stage.name == "patterns"]
    rest = next(stage for stage in solution.stages if stage.name == "rest")
    assert len(packed) > 1
    assert rest.price_per_hour <= sum(packed) + 1e-9  # nothing had to be taken back from a zone that held too many
