"""What scale-up tells the solver, and what it makes of a plan that the checker threw away."""

from __future__ import annotations

from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.nodepool import NodePoolStatus
from growth.model.settings import Settings
from growth.plan.nodes_up import scale_up
from growth.solver.patterns.stock import Budget
from growth.solver.purchase.problem import PlacementProblem
from growth.solver.purchase.solve import solve
from tests.plan.builders import AT_ONCE, NOW, notes_by_reason, offering, pod, pods, pool, run_scale_up, world

TYPES = tuple(offering(name, cpu, 1024 * cpu, price) for name, cpu, price in (("small", 2, 0.01), ("large", 16, 0.07)))
CORES = (0.3, 0.5, 0.7, 1.1, 1.3, 1.9, 2.3, 2.9, 3.1, 3.7, 4.1, 5.3)
WAITING = [each for number, cpu in enumerate(CORES) for each in pods(9, cpu, 700 + 31 * number, prefix=f"p{number}-")]
BUSY = world(WAITING, [pool("default", "small", "large")], TYPES)


def problem_of(settings: Settings, ledger: scale_up.Ledger | None = None) -> PlacementProblem:
    asked = scale_up.question(BUSY, ledger or scale_up.Ledger(), settings)
    assert asked is not None
    return asked.problem


def test_settings_reach_the_solver() -> None:
    usual = problem_of(AT_ONCE)
    assert (usual.budget, usual.preferences, usual.is_checked, usual.patterns) == (Budget(), "Respect", False, ())
    other = problem_of(replace(AT_ONCE, solve_budget_seconds=3.0, preferences="Ignore", checks_plans=True))
    assert (other.budget, other.preferences, other.is_checked) == (Budget.for_seconds(3.0), "Ignore", True)


def test_what_was_learnt_is_a_head_start_for_the_next_question() -> None:
    learnt = run_scale_up(BUSY).ledger
    assert learnt.patterns
    assert problem_of(AT_ONCE, replace(learnt, known=frozenset(), waits={})).patterns == learnt.patterns


def test_a_plan_that_was_wrong_is_told_to_its_pools() -> None:
    snapshot = world([pod("a")], [pool()], [TYPES[0]])
    asked = scale_up.question(snapshot, scale_up.Ledger(), AT_ONCE)
    assert asked is not None
    solution = replace(solve(asked.problem), complaints=("demand 0 may not stand there",))
    decision = scale_up.plan(snapshot, scale_up.Ledger(), AT_ONCE, asked, solution)
    assert notes_by_reason(decision)["PlanWasWrong"] == [
        "NodePool default: a plan was wrong and is not carried out: demand 0 may not stand there"
    ]
    assert len(decision.actions) == 1


def test_a_pool_that_begins_is_planned_for_whole_and_buys_for_those_who_have_waited_longest() -> None:
    """So the plan is as cheap as that of a pool that has worked; the rest waits for the first five."""
    waiting = [replace(pod(f"p{number}", 1.5, 100), created_at=NOW - number) for number in range(8)]
    new = replace(pool("default", "small"), status=NodePoolStatus())
    snapshot = world(waiting, [new], TYPES)
    asked = scale_up.question(snapshot, scale_up.Ledger(), AT_ONCE)
    assert asked is not None
    solution = solve(asked.problem)
    assert (len(solution.nodes), solution.unplaced) == (8, ())
    decision = scale_up.plan(snapshot, scale_up.Ledger(), AT_ONCE, asked, solution)
    bought = [each.spec.planned_pods for each in decision.actions if isinstance(each, CreateNodeRequest)]
    assert sorted(bought) == [(f"default/p{number}",) for number in (3, 4, 5, 6, 7)]
    assert sorted(notes_by_reason(decision)["Unplaced"]) == [
        f"Pod default/p{number}: no place for this pod: NodePool default has had no machine of use yet: "
        "the first 5 are awaited"
        for number in range(3)
    ]
