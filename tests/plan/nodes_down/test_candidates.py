"""A pool rests after an attempt that came to nothing, four times as long after each further one in a row, and a batch
counts once.
"""

from __future__ import annotations

from growth.plan.nodes_down.candidates import Setback, with_attempts


def test_each_failure_in_a_row_makes_the_rest_four_times_as_long_and_a_day_is_the_longest() -> None:
    known, now, rests = dict[str, Setback](), 1000.0, list[float]()
    for _ in range(6):
        known = with_attempts(known, (), ("a",), now, 600.0)
        rests.append(known["a"].until - now)
        now = known["a"].until
    assert rests == [600, 2400, 9600, 38400, 86400, 86400]
    assert known["a"].count == 6


def test_what_fails_while_the_pool_rests_counts_no_more() -> None:
    known = with_attempts({}, (), ("a",), 1000.0, 600.0)
    assert with_attempts(known, (), ("a",), 1599.0, 600.0) == known


def test_a_success_ends_the_row_and_other_pools_are_left_alone() -> None:
    known = {"a": Setback(3, 900.0), "b": Setback(2, 5000.0)}
    assert with_attempts(known, ("a",), (), 1000.0, 600.0) == {"b": Setback(2, 5000.0)}
    assert with_attempts(known, ("a",), ("a",), 1000.0, 600.0) == {"a": Setback(1, 1600.0), "b": Setback(2, 5000.0)}
