"""The question and the answer travel to the worker process and back."""

from __future__ import annotations

import pickle
from typing import Any

from growth.solver.purchase.problem import Limit, PlacementProblem, PlacementSolution


def travelled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301  (our own, a moment ago)


def test_questions_and_answers_survive_the_way_to_another_process() -> None:
    problem = PlacementProblem(limits=(Limit("at most one", (0,), nodes=1),))
    assert travelled(problem) == problem
    solution = PlacementSolution("NoDemands")
    assert travelled(solution) == solution


def test_the_gap_is_a_share_of_the_bound() -> None:
    assert PlacementSolution("AllPlaced", price_per_hour=1.02, lower_bound=1.0).gap == 0.020000000000000018
    assert PlacementSolution("NoDemands").gap == 0.0
