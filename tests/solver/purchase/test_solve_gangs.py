"""Of a gang enough pods get a place, or none, whatever else is asked for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.labels import NO_LABELS
from growth.solver.purchase.problem import Choice, DemandClass, GangDemand, Limit, PlacementProblem, PlacementSolution
from growth.solver.purchase.solve import solve, solve_greedily
from tests.plan.builders import offering, shape

CHOICES = (
    Choice("default", offering("small", 2, 4096, 0.01), NO_LABELS),
    Choice("default", offering("large", 8, 16384, 0.05), NO_LABELS),
)


def asked(*demands: tuple[float, int, str, int], nodes: int = 100) -> PlacementProblem:
    """Cores, count, gang and its least number, which the last class of a gang says."""
    classes = tuple(DemandClass(shape(cpu, 256), count, ("default",)) for cpu, count, _, _ in demands)
    least = {gang: number for _, _, gang, number in demands if gang}
    numbers = {gang: tuple(n for n, each in enumerate(demands) if each[2] == gang) for gang in least}
    gangs = tuple(GangDemand(gang, numbers[gang], number) for gang, number in least.items())
    return PlacementProblem(classes, choices=CHOICES, limits=(Limit("nodes", (0, 1), nodes),), gangs=gangs)


def placed(problem: PlacementProblem, solution: PlacementSolution) -> list[int]:
    left = {each.demand: each.count for each in solution.unplaced}
    return [demand.count - left.get(number, 0) for number, demand in enumerate(problem.demands)]


def test_a_gang_that_fits_alone_is_not_kept_out_by_a_larger_one_that_does_not() -> None:
    problem = asked((8, 4, "large", 4), (1.5, 2, "small", 2), nodes=3)
    assert placed(problem, solve(problem)) == [0, 2]


def test_both_ways_to_answer_keep_gangs_whole() -> None:
    problem = asked((8, 2, "a", 3), (1.5, 1, "a", 3), (1.5, 3, "", 0), nodes=2)
    for answer in (solve, solve_greedily):
        assert placed(problem, answer(problem))[:2] == [0, 0]
        assert placed(problem, answer(replace(problem, limits=())))[:2] == [2, 1]


def test_a_gang_that_only_a_limit_of_steps_keeps_out_gets_its_first_step() -> None:
    problem = asked((1.5, 6, "a", 6), (1.5, 1, "", 0), nodes=3)
    one = Limit("one at a time", (0, 1), 1, is_step=True)
    step = replace(problem, limits=(*problem.limits, one))
    assert sum(placed(step, solve(step))) == 5  # one large machine: six and one need two
    small = replace(step, choices=CHOICES[:1], limits=(Limit("nodes", (0,), 3), replace(one, choices=(0,))))
    assert placed(small, solve(small)) == [0, 1]


demand = st.tuples(
    st.sampled_from([0.5, 1.5, 3.0, 7.0]), st.integers(1, 4), st.sampled_from(["", "a", "b", "c"]), st.integers(1, 6)
)


@settings(max_examples=30)
@given(st.lists(demand, min_size=1, max_size=5), st.integers(1, 5))
def test_no_gang_is_placed_in_part(demands: list[tuple[float, int, str, int]], nodes: int) -> None:
    problem = asked(*demands, nodes=nodes)
    counts = placed(problem, solve(problem))
    for gang in problem.gangs:
        there = sum(counts[number] for number in gang.demands)
        assert there == 0 or there >= gang.least
