"""Upper bounds of what one node can hold, beside a list of everything that fits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.solver.patterns.knapsack import Sharpened, sharpen
from growth.solver.patterns.stock import Stock
from tests.solver.patterns.test_bound import stock, stocks


def sharpened(asked: Stock, values: list[float], work: int) -> Sharpened:
    choices = len(asked.price)
    return sharpen(asked, np.array(values), asked.most_on_node(), np.zeros(0), np.full(choices, np.inf), work)


def test_where_all_values_are_multiples_of_one_a_node_holds_no_part_of_it() -> None:
    asked = stock([[3.0, 1.0], [6.0, 1.0]], [9.0, 9.0], [[20.0, 99.0]], [5.0])
    assert sharpened(asked, [1.0, 2.0], work=0).uppers == pytest.approx([6.0])
    assert sharpened(asked, [1.0, 2.1], work=0).uppers == pytest.approx([3 * 2.1 + 2 / 3])


@given(stocks(), st.lists(st.integers(0, 4), min_size=4, max_size=4), st.sampled_from([0, 4_000]))
def test_no_node_holds_more_than_its_upper_bound_and_values_are_too_high_by_what_is_said(
    asked: Stock, steps: list[int], work: int
) -> None:
    values = [0.0315 * step for step in steps[: len(asked.count)]]
    found = sharpened(asked, values, work)
    best = []
    for choice, offer in enumerate(asked.offer):
        most = np.minimum(asked.count, asked.cap) * asked.fits[choice]
        numbers = [np.array(one) for one in product(*(range(int(count) + 1) for count in most))]
        best.append(max(float(one @ values) for one in numbers if (one @ asked.need <= offer).all()))
    assert (found.uppers >= np.array(best) * (1 - 1e-6) - 1e-9).all()
    assert found.excess <= max(1.0, float((np.array(best) / asked.price).max())) + 1e-6
