"""Bounds with the most valuable rows whole, beside the cheapest of all plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.solver.arrays import BOUNDLESS
from growth.solver.patterns import bound
from growth.solver.patterns.bound import ProvenBound, of_whole_nodes, prove, prove_whole
from growth.solver.patterns.fluid import select
from growth.solver.patterns.knapsack import priced_uppers
from growth.solver.patterns.packing import choose_exactly
from growth.solver.patterns.stock import Patterns, RoomLeft, Stock


def stock(need: list[list[float]], count: list[float], offer: list[list[float]], price: list[float]) -> Stock:
    """Rows without rules between pods that may go to every choice."""
    needs, offers, rows, choices = np.array(need), np.array(offer), len(count), len(price)
    return Stock(
        need=needs,
        count=np.array(count),
        cap=np.full(rows, BOUNDLESS),
        offer=offers,
        price=np.array(price),
        fits=np.asarray((needs[None] <= offers[:, None]).all(axis=2)),
        limit_use=np.zeros((0, choices)),
        limit_bound=np.zeros(0),
        adds=np.zeros((rows, 0), dtype=np.bool_),
        bound=np.zeros((rows, 0)),
        start_tally=np.zeros((choices, 0)),
        start_bound=np.zeros((choices, 0)),
    )


def bounds(asked: Stock) -> tuple[ProvenBound, ProvenBound]:
    """By the fluid program alone, and with whole rows."""
    left_out, rooms = np.full(len(asked.count), 1_000.0), RoomLeft.none(asked)
    selected = select(asked, left_out)
    fluid, most = selected.fluid, np.minimum(selected.most, asked.count)
    uppers = priced_uppers(asked, fluid.values, most, fluid.resource_prices)
    known = prove(asked, rooms, uppers, fluid.values, fluid.limit_prices)
    return known, prove_whole(asked, selected.choices, rooms, left_out, known)


def cheapest(asked: Stock) -> float:
    """Over every content of every choice."""
    contents: list[tuple[int, ...]] = []
    owners: list[int] = []
    most = np.minimum(asked.count, asked.cap)
    for choice, offer in enumerate(asked.offer):
        for numbers in product(*(range(int(count) + 1) for count in most)):
            if (np.array(numbers) @ asked.need <= offer).all():
                contents.append(numbers)
                owners.append(choice)
    patterns = Patterns(np.array(contents, dtype=np.float64), np.array(owners))
    times = choose_exactly(asked, patterns, np.full(len(asked.count), 1_000.0))
    return float(times @ asked.price[patterns.choices])


def test_pods_of_more_than_half_a_node_need_a_node_each() -> None:
    cut, whole = bounds(stock([[6.0, 2.0]], [10.0], [[10.0, 10.0]], [1.0]))
    assert cut.lower_bound == pytest.approx(6.0, rel=1e-4)
    assert whole.lower_bound == pytest.approx(10.0, rel=1e-4)


def test_what_does_not_fit_beside_them_needs_nodes_of_its_own() -> None:
    asked = stock([[6.0, 2.0], [5.0, 2.0], [1.0, 1.0]], [10.0, 10.0, 4.0], [[10.0, 10.0]], [1.0])
    cut, whole = bounds(asked)
    assert cut.lower_bound == pytest.approx(11.4, rel=1e-4)
    assert whole.lower_bound == pytest.approx(15.0, rel=1e-4)


def test_small_pods_may_as_well_be_cut() -> None:
    cut, whole = bounds(stock([[1.0, 1.0]], [100.0], [[10.0, 10.0]], [1.0]))
    assert whole.lower_bound == pytest.approx(cut.lower_bound)


@st.composite
def stocks(draw: st.DrawFn) -> Stock:
    amounts = st.tuples(st.integers(1, 8), st.integers(1, 8)).map(lambda pair: [float(one) for one in pair])
    need = draw(st.lists(amounts, min_size=1, max_size=4))
    count = [float(draw(st.integers(1, 3))) for _ in need]
    offer = [[8.0, 8.0], *draw(st.lists(amounts, max_size=2))]
    found = stock(need, count, offer, [draw(st.integers(1, 20)) / 4 for _ in offer])
    return replace(found, cap=np.array([draw(st.sampled_from([1.0, BOUNDLESS])) for _ in need]))


@given(stocks())
def test_no_plan_is_cheaper_than_the_bound_and_the_bound_is_never_worse(asked: Stock) -> None:
    cut, whole = bounds(asked)
    assert cut.lower_bound <= whole.lower_bound <= cheapest(asked) + 1e-6


@given(stocks(), st.integers(0, 12))
def test_a_program_that_is_not_solved_to_its_end_proves_nothing_wrong(asked: Stock, iterations: int) -> None:
    with patch.object(bound, "_MOST_ITERATIONS", iterations):
        cut, whole = bounds(asked)
    assert cut.lower_bound <= whole.lower_bound <= cheapest(asked) + 1e-6


def sums(prices: list[int], most: int) -> set[int]:
    found = {0}
    for total in range(1, most + 1):
        if any(total - price in found for price in prices):
            found.add(total)
    return found


@given(st.lists(st.integers(3, 40), min_size=1, max_size=4), st.floats(0.5, 90.0))
def test_whole_nodes_cost_a_sum_of_prices_and_no_sum_lies_between_it_and_the_bound(
    prices: list[int], bound: float
) -> None:
    found = of_whole_nodes(bound / 1000, np.array([price / 1000 for price in prices])) * 1000
    reached = sums(prices, 200)
    assert found >= bound * (1 - 3e-5)
    assert not [each for each in reached if bound * (1 + 1e-6) < each < found - 1e-6]
    if bound <= 12 * min(prices):
        assert min(abs(found - each) for each in reached) < 1e-6
    else:
        assert found == pytest.approx(bound)


def test_of_ten_pods_of_half_a_core_on_nodes_of_four_two_nodes_are_the_least() -> None:
    assert of_whole_nodes(0.01143, np.array([0.008])) == pytest.approx(0.016)
    assert of_whole_nodes(0.016 * (1 - 1e-5), np.array([0.008])) == pytest.approx(0.016)
    assert of_whole_nodes(0.01143, np.array([0.008, 0.0115])) == pytest.approx(0.0115)
    assert of_whole_nodes(0.0, np.array([0.008])) == 0.0
