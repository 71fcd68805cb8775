"""The checker: a right plan passes, and every way to be wrong is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, Labels
from growth.solver.purchase import solve as solving
from growth.solver.purchase.check import check, why_not_bound
from growth.solver.purchase.problem import (
    DemandClass,
    Limit,
    Placement,
    PlacementProblem,
    PlacementSolution,
    PlannedNode,
    Proof,
    Room,
    Unplaced,
)
from growth.solver.purchase.solve import solve
from tests.solver.worlds import amounts, at_most, choice, demand, room, spread, term

APART = demand(2, 1, 512, labels={"app": "db"}, anti_affinity=(term(HOSTNAME, app="db"),))
PROBLEM = PlacementProblem(
    demands=(APART, demand(3, 2, 1024), demand(1, 1, 512, pools=("other",))),
    rooms=(room("there", 1, 1024), room("closed", 8, 8192, is_open=False)),
    choices=(choice("four", price=1.0), choice("other", price=2.0, pool="other")),
    limits=(
        at_most(5, 0),
        Limit("cores", (0, 1), resources=amounts(40, 0, pods=0)),
        Limit("price", (0, 1), price_per_hour=20.0),
    ),
)
RIGHT = solve(PROBLEM)

Change = Callable[[PlacementSolution], PlacementSolution]


def first_node(**changes: object) -> Change:
    return lambda right: replace(right, nodes=(replace(right.nodes[0], **changes), *right.nodes[1:]))


WRONG: dict[str, tuple[Change, str]] = {
    "a pod is lost": (lambda right: replace(right, nodes=right.nodes[1:]), "the solution speaks of"),
    "a pod is placed twice": (
        lambda right: replace(right, nodes=(*right.nodes, right.nodes[0])),
        "the solution speaks of",
    ),
    "a node for nobody": (lambda right: replace(right, nodes=(*right.nodes, PlannedNode(0))), "is bought for nobody"),
    "a number that is not there": (first_node(choice=9), "speaks of what is not there"),
    "an unplaced pod without a reason": (
        lambda right: replace(right, unplaced=(Unplaced(0, 1, ()),)),
        "without a number or a reason",
    ),
    "another pool's node": (first_node(choice=1), "may not buy from pool other"),
    "a closed room": (
        lambda right: replace(right, placements=(*right.placements, Placement(1, 1, 1))),
        "is closed and takes demand",
    ),
    "a wrong price": (
        lambda right: replace(right, price_per_hour=right.price_per_hour / 2, lower_bound=0.0),
        "the solution says",
    ),
    "a wrong name for itself": (lambda right: replace(right, kind="IncompletePlacement"), "it is AllPlaced"),
    "a bound above the price": (
        lambda right: replace(right, lower_bound=right.price_per_hour * 2),
        "is above the price",
    ),
    "a bound that its values do not prove": (
        lambda right: replace(right, lower_bound=right.price_per_hour, proof=type(right.proof)()),
        "is not proven",
    ),
}


def test_what_the_solver_finds_is_right() -> None:
    assert RIGHT.kind == "AllPlaced"
    assert check(PROBLEM, RIGHT) == ()


@pytest.mark.parametrize("case", WRONG)
def test_it_names_what_is_wrong(case: str) -> None:
    change, words = WRONG[case]
    assert words in " ".join(check(PROBLEM, change(RIGHT)))


def test_values_that_a_node_could_exceed_prove_nothing() -> None:
    """Doubling all values doubles what they seem to prove; but nodes then hold more value than they cost, and they are
    scaled down again.
    """
    doubled = replace(RIGHT.proof, values=tuple(2 * value for value in RIGHT.proof.values))
    dear, twice = replace(RIGHT, price_per_hour=2 * RIGHT.price_per_hour), 2 * RIGHT.lower_bound
    assert why_not_bound(PROBLEM, replace(dear, lower_bound=twice, proof=doubled))
    assert not why_not_bound(PROBLEM, replace(dear, proof=doubled))


def full_room(name: str, held: int) -> Room:
    """Nothing but so many pods of `over_nodes` fits there."""
    contents = ((over_nodes(1).shape, held),) if held else ()
    return room(name, held * 0.25, held * 512, contents=contents)


def over_nodes(count: int, **fields: object) -> DemandClass:
    """Small pods that are spread over nodes."""
    rule = replace(spread(HOSTNAME, 1, app="web"), **fields)
    return demand(count, 0.25, 512, labels={"app": "web"}, spread=(rule,))


@pytest.mark.parametrize(
    ("others", "rooms", "most"),
    [
        ((), (full_room("empty", 0),), 1),
        ((), (full_room("two", 2), full_room("three", 3)), 3),
        ((APART,), (), 4),  # two nodes for six pods
        ((demand(6, 3),), (), 2),  # six nodes
    ],
)
def test_a_bound_knows_what_a_spread_over_nodes_lets_one_node_hold(
    others: tuple[DemandClass, ...], rooms: tuple[Room, ...], most: int
) -> None:
    """Values as high as that are believed, and no higher."""
    problem = PlacementProblem((over_nodes(6), *others), rooms, (choice("four", price=1.0),))
    solution = solve(problem)
    values = (1 / most, *(0.0 for _ in others))
    proven = replace(solution, lower_bound=6 / most, proof=Proof(values))
    assert why_not_bound(problem, proven) == ()
    next_but_one = -(-6 // most) + 1.0
    too_high = replace(
        proven, price_per_hour=9.0, lower_bound=next_but_one, proof=Proof((next_but_one / 6, *values[1:]))
    )
    assert "is not proven" in " ".join(why_not_bound(problem, too_high))


def test_a_bound_knows_how_many_nodes_a_spread_asks_for() -> None:
    problem = PlacementProblem((over_nodes(6, min_domains=4),), (), (choice("four", price=1.0),))
    assert why_not_bound(problem, replace(solve(problem), lower_bound=3.0, proof=Proof((0.5,)))) == ()


def test_a_bound_may_be_what_whole_nodes_cost_and_no_more() -> None:
    """Prices are 1 and 2: where more than 2 is proven, 3 is the least."""
    less = replace(RIGHT.proof, values=tuple(0.95 * value for value in RIGHT.proof.values))
    dear = replace(RIGHT, price_per_hour=2 * RIGHT.price_per_hour, proof=less)
    assert RIGHT.lower_bound == RIGHT.price_per_hour == 3.0
    assert not why_not_bound(PROBLEM, dear)
    assert why_not_bound(PROBLEM, replace(dear, lower_bound=4.0))


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ((((0, 2), (1, 1)),), "affinity"),
        ((((0, 1), (1, 2)), ((0, 1), (1, 1))), ""),
        ((((1, 3),), ((0, 1),), ((0, 1),)), "insufficient cpu"),
    ],
)
def test_a_plan_is_carried_out_under_the_rules_of_the_scheduler(
    contents: tuple[tuple[tuple[int, int], ...], ...], words: str
) -> None:
    problem = PlacementProblem(
        demands=PROBLEM.demands[:2], choices=(choice("four", 5 if words != "insufficient cpu" else 4),)
    )
    nodes = tuple(PlannedNode(0, content) for content in contents)
    missing = [
        demand.count - sum(count for node in nodes for index, count in node.contents if index == number)
        for number, demand in enumerate(problem.demands)
    ]
    left = tuple(
        Unplaced(number, count, ("for the sake of the test",)) for number, count in enumerate(missing) if count
    )
    solution = PlacementSolution(
        "IncompletePlacement" if left else "AllPlaced", nodes=nodes, unplaced=left, price_per_hour=float(len(nodes))
    )
    assert (words in " ".join(check(problem, solution))) if words else check(problem, solution) == ()


def test_limits_are_added_up() -> None:
    problem = replace(
        PROBLEM,
        limits=(
            at_most(1, 0),
            Limit("cores", (0,), resources=amounts(5, 0, pods=0)),
            Limit("price", (0,), price_per_hour=1.5),
        ),
    )
    told = " ".join(check(problem, RIGHT))
    assert "nodes, 1 allowed" in told
    assert "of cpu, 5000 allowed" in told
    assert "per hour, 1.5 allowed" in told


def test_a_selector_is_not_forgotten_on_planned_nodes() -> None:
    picky = replace(demand(1), shape=replace(demand(1).shape, node_selector=Labels({"disk": "ssd"})))
    problem = PlacementProblem(demands=(picky,), choices=(choice(),))
    assert "node selector" in " ".join(
        check(problem, PlacementSolution("AllPlaced", nodes=(PlannedNode(0, ((0, 1),)),), price_per_hour=1.0))
    )


# ---------------------------------------------------------------------- in production, by a setting


def test_a_plan_that_the_checker_refuses_is_replaced_by_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([("the first is wrong",), ()])
    monkeypatch.setattr(solving, "check", lambda *_: next(answers))
    solution = solve(replace(PROBLEM, is_checked=True))
    assert solution.complaints == ("the first is wrong",)
    assert [stage.name for stage in solution.stages] == ["greedy"]
    assert check(PROBLEM, solution) == ()


def test_if_that_is_wrong_too_nothing_is_bought_and_everybody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "check", lambda *_: ("wrong again",))
    solution = solve(replace(PROBLEM, is_checked=True))
    assert not solution.nodes
    assert not solution.placements
    assert {one.reasons for one in solution.unplaced} == {("the plan that was found is wrong: wrong again",)}
    assert sum(one.count for one in solution.unplaced) == 6


def test_without_the_setting_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "check", lambda *_: ("wrong",))
    assert solve(PROBLEM).complaints == ()
