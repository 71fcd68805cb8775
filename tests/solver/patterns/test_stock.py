"""What nodes take, by amounts, by shared tallies and by limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from growth.solver.arrays import BOUNDLESS
from growth.solver.patterns.stock import Stock, openable, rows_agree, without_dominated


def stock() -> Stock:
    """Two rows that share a tally of at most 2, and two choices of 4 and 8."""
    return Stock(
        need=np.array([[1.0], [2.0]]),
        count=np.array([10.0, 10.0]),
        cap=np.array([BOUNDLESS, BOUNDLESS]),
        offer=np.array([[4.0], [8.0]]),
        price=np.array([1.0, 1.5]),
        fits=np.ones((2, 2), dtype=np.bool_),
        limit_use=np.zeros((0, 2)),
        limit_bound=np.zeros(0),
        adds=np.array([[True], [True]]),
        bound=np.array([[BOUNDLESS], [2.0]]),
        start_tally=np.zeros((2, 1)),
        start_bound=np.full((2, 1), BOUNDLESS),
    )


def test_an_empty_node_takes_what_amounts_and_its_own_bound_allow() -> None:
    assert stock().most_on_node().tolist() == [[4.0, 2.0], [8.0, 2.0]]


def test_what_daemons_count_is_taken_off() -> None:
    counted = replace(stock(), start_tally=np.array([[1.0], [3.0]]))
    assert counted.most_on_node().tolist() == [[4.0, 1.0], [8.0, 0.0]]


def test_rows_agree_while_no_bound_of_a_present_row_is_exceeded() -> None:
    contents, choices = np.array([[4.0, 0.0], [1.0, 1.0], [2.0, 1.0]]), np.array([0, 1, 1])
    assert rows_agree(stock(), contents, choices).tolist() == [True, True, False]


def test_a_limit_that_is_met_exactly_is_met() -> None:
    use, left = np.array([[0.1, 0.2, 0.0]]), np.array([0.3])
    assert openable(use, left - 0.1 - 0.1).tolist() == [1.0, 0.0, np.inf]
    assert openable(use, np.array([-1e-12])).tolist() == [0.0, 0.0, np.inf]


def test_a_dearer_and_smaller_choice_is_left_out() -> None:
    assert without_dominated(stock()).tolist() == [0, 1]
    assert without_dominated(replace(stock(), price=np.array([2.0, 1.5]))).tolist() == [1]
