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


demand = st.tuples(
    st.sampled_from([0.5, 1.5, 3.0, 7.0]), st.integers(1, 4), st.sampled_from(["", "a", "b", "c"]), st.integers(1, 6)
)


ONE = Limit("one at a time", (0, 1), 1, is_step=True)


def test_a_gang_that_only_a_limit_of_steps_keeps_out_gets_its_first_step() -> None:
    problem = asked((1.5, 6, "a", 6), (1.5, 1, "", 0), nodes=3)
    first = replace(problem, limits=(*problem.limits, ONE))
    solution = solve(first)
    assert len(solution.nodes) == 1
    assert placed(first, solution)[0] > 0
    never = replace(first, choices=CHOICES[:1], limits=(Limit("nodes", (0,), 3), replace(ONE, choices=(0,))))
    assert placed(never, solve(never)) == [0, 1]


def test_of_what_makes_a_gang_whole_that_is_bought_first_which_is_in_doubt_most() -> None:
    problem = asked((1.5, 3, "a", 3), (7, 1, "a", 4))
    tried = replace(problem, limits=(Limit("large is tried again", (1,), 1, is_step=True),))
    assert [node.choice for node in solve(tried).nodes] == [1]
    both = replace(tried, limits=(*tried.limits, replace(ONE, nodes=2)))
    assert [node.choice for node in solve(both).nodes] == [1]
    doubted = replace(problem, gangs=tuple(replace(each, is_doubted=True) for each in problem.gangs), limits=())
    assert len(solve(doubted).nodes) == 1
    assert len(solve(replace(problem, limits=())).nodes) > 1


steps = st.lists(st.tuples(st.sampled_from([(0,), (1,), (0, 1)]), st.integers(1, 3)), max_size=2)


@settings(max_examples=30)
@given(st.data(), st.integers(1, 6), steps)
def test_steps_keep_every_limit_and_end_with_the_whole_gang(
    data: st.DataObject, nodes: int, tried: list[tuple[tuple[int, ...], int]]
) -> None:
    problem = asked(*data.draw(st.lists(demand, min_size=1, max_size=4)), nodes=nodes)
    limits = tuple(Limit("step", choices, count, is_step=True) for choices, count in tried)
    stepped = replace(problem, limits=(*problem.limits, *limits))
    solution, whole = solve(stepped), placed(problem, solve(problem))
    for limit in stepped.limits:
        assert sum(node.choice in limit.choices for node in solution.nodes) <= (limit.nodes or 0)
    for gang in problem.gangs:
        got = sum(placed(stepped, solution)[number] for number in gang.demands)
        could = sum(whole[number] for number in gang.demands)
        assert got == 0 or got >= gang.least or could or len(problem.gangs) > 1


@settings(max_examples=30)
@given(st.lists(demand, min_size=1, max_size=5), st.integers(1, 5))
def test_no_gang_is_placed_in_part(demands: list[tuple[float, int, str, int]], nodes: int) -> None:
    problem = asked(*demands, nodes=nodes)
    counts = placed(problem, solve(problem))
    for gang in problem.gangs:
        there = sum(counts[number] for number in gang.demands)
        assert there == 0 or there >= gang.least
