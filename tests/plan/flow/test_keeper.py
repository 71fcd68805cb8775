"""The keeper answers a problem that came in small messages as one that is told everything at once."""

from __future__ import annotations

import pickle

from msgspec.structs import replace

from growth.plan.flow import scheduling
from growth.plan.flow.keeper import Keeper, RoundAnswer, RoundProblem, answer_anew
from growth.solver.flow.changes import FleetChange
from tests.plan.builders import bound, node, world
from tests.plan.flow.test_scheduling import ON, pod


def problem_of(count: int, ledger: scheduling.Ledger | None = None) -> RoundProblem:
    pods = [pod(f"p{number}", 0.001 * (1 + number)) for number in range(count)]
    asked = scheduling.question(world(pods, nodes=[node("n1"), node("n2")]), ledger or scheduling.Ledger(), ON)
    assert asked is not None
    assert asked.problem is not None
    return asked.problem


def told(keeper: Keeper, problem: RoundProblem) -> RoundAnswer:
    answers = [keeper(pickle.loads(pickle.dumps(part))) for part in problem.parts()]  # noqa: S301
    assert all(answer == RoundAnswer() for answer in answers[:-1])
    return answers[-1]


def test_a_large_problem_travels_in_parts_and_is_answered_whole() -> None:
    problem = problem_of(1_100)
    assert len(problem.parts()) == 3
    assert told(Keeper(), problem) == answer_anew(problem)


def test_groups_of_a_problem_that_was_broken_off_are_forgotten() -> None:
    keeper, problem = Keeper(), problem_of(600)
    keeper(problem.parts()[0])
    assert told(keeper, problem) == answer_anew(problem)


def test_a_keeper_that_was_begun_anew_says_that_it_is_behind() -> None:
    first = problem_of(1)
    later = replace(first, change=FleetChange((1, 0), (2, 0)))
    keeper = Keeper()
    assert keeper(later).is_behind
    assert not keeper(first).is_behind
    assert not keeper(later).is_behind


def test_the_fleet_is_after_a_round_as_it_was_before() -> None:
    snapshot = world([bound(pod("r", 3), "n1"), pod("a", 3)], nodes=[node("n1"), node("n2")])
    ledger = scheduling.Ledger()
    keeper = Keeper()
    sent = []
    for _ in range(3):
        asked = scheduling.question(snapshot, ledger, ON)
        assert asked is not None
        assert asked.problem is not None
        answer = keeper(asked.problem)
        sent.append([one.node for one in answer.placed.placed])
        ledger = replace(scheduling.plan(snapshot, ledger, ON, asked, answer).ledger, is_back=True, under_way={})
    assert sent == [["n2"]] * 3
