"""What holds for every plan, on small random problems with every kind of rule, limit and room."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.solver.purchase.check import check
from growth.solver.purchase.layout import lay_out
from growth.solver.purchase.problem import PlacementProblem, PlacementSolution
from growth.solver.purchase.solve import Attempt, _by_greedy, solve, solve_greedily
from tests.solver.brute import cheapest_of_all
from tests.solver.problems import problems

TINY = 1e-6


def placed(solution: PlacementSolution) -> int:
    return sum(placement.count for placement in solution.placements) + sum(
        count for node in solution.nodes for _, count in node.contents
    )


def in_words(problem: PlacementProblem, solution: PlacementSolution) -> tuple[object, ...]:
    """The plan without any numbers of the input."""
    shapes = [demand.shape for demand in problem.demands]
    nodes = [
        (
            problem.choices[node.choice].offering,
            frozenset(Counter({shapes[one]: count for one, count in node.contents}).items()),
        )
        for node in solution.nodes
    ]
    into = Counter(
        (problem.rooms[one.room].node.name, shapes[one.demand]) for one in solution.placements for _ in range(one.count)
    )
    left = Counter(shapes[one.demand] for one in solution.unplaced for _ in range(one.count))
    return (
        solution.price_per_hour,
        solution.lower_bound,
        Counter(map(repr, nodes)).total(),
        sorted(map(repr, into.items())),
        sorted(map(repr, left.items())),
    )


@given(problem=problems())
def test_no_plan_breaks_a_rule_a_limit_or_its_own_bound(problem: PlacementProblem) -> None:
    assert check(problem, solve(problem)) == ()


@given(problem=problems())
def test_no_plan_is_worse_than_the_greedy_one(problem: PlacementProblem) -> None:
    plain: Attempt = _by_greedy(lay_out(problem))
    solution = solve(replace(problem, preferences="Ignore"))
    left = sum(one.count for one in solution.unplaced)
    assert left <= plain.left_over.sum()
    if left == plain.left_over.sum() and len({choice.type_priority for choice in problem.choices}) == 1:
        price = sum(
            float(plain.bins.layout.price[plain.bins.choice[number]])
            for number in range(plain.bins.rooms, plain.bins.size)
            if plain.bins.contents[number]
        )
        assert solution.price_per_hour <= price + TINY


@given(problem=problems(), random=st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(problem: PlacementProblem, random: st.Random) -> None:  # type: ignore[name-defined]
    order = list(range(len(problem.choices)))
    random.shuffle(order)
    demands, rooms = list(problem.demands), list(problem.rooms)
    random.shuffle(demands)
    random.shuffle(rooms)
    position = {before: after for after, before in enumerate(order)}
    shuffled = replace(
        problem,
        demands=tuple(demands),
        rooms=tuple(rooms),
        choices=tuple(problem.choices[index] for index in order),
        limits=tuple(
            replace(limit, choices=tuple(position[index] for index in limit.choices)) for limit in problem.limits
        ),
    )
    assert in_words(problem, solve(problem)) == in_words(shuffled, solve(shuffled))


@given(problem=problems(), cheaper=st.integers(0, 3), factor=st.sampled_from((0.3, 0.8)))
def test_lower_prices_never_cost_more_than_the_gap(problem: PlacementProblem, cheaper: int, factor: float) -> None:
    before = solve(problem)
    index = cheaper % len(problem.choices)
    lowered = replace(
        problem.choices[index].offering, price_per_hour=problem.choices[index].offering.price_per_hour * factor
    )
    choices = (
        *problem.choices[:index],
        replace(problem.choices[index], offering=lowered),
        *problem.choices[index + 1 :],
    )
    _never_dearer(before, solve(replace(problem, choices=choices)))


@given(problem=problems())
def test_more_stock_never_costs_more_than_the_gap(problem: PlacementProblem) -> None:
    more = tuple(replace(limit, nodes=(limit.nodes or 0) + 2) for limit in problem.limits)
    before, after = solve(problem), solve(replace(problem, limits=more))
    assert placed(after) >= placed(before)
    _never_dearer(before, after)


def _never_dearer(before: PlacementSolution, after: PlacementSolution) -> None:
    if before.kind == after.kind == "AllPlaced":
        assert after.price_per_hour <= before.price_per_hour * (1 + after.gap) + TINY
        assert after.lower_bound <= before.price_per_hour + TINY


@given(problem=problems(most_pods=6, with_rules=False, with_rooms=False))
def test_hard_limits_never_make_it_give_up_while_a_placement_exists(problem: PlacementProblem) -> None:
    problem = replace(problem, choices=tuple(replace(choice, type_priority=0) for choice in problem.choices))
    best, solution = cheapest_of_all(problem), solve(problem)
    assert (solution.kind == "AllPlaced") == (best is not None)
    if best is not None:
        assert solution.price_per_hour == pytest.approx(best)
        assert solution.lower_bound <= best + TINY


@given(problems())
def test_the_simpler_answer_places_what_the_checker_accepts_and_proves_nothing(problem: PlacementProblem) -> None:
    solution = solve_greedily(problem)
    assert check(problem, solution) == ()
    assert solution.lower_bound == 0
    assert placed(solution) + sum(one.count for one in solution.unplaced) == sum(one.count for one in problem.demands)
