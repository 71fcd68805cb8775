"""The arithmetic of warm pools: the tables of the specification, exactness, and what holds for every size."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth.model.poolautoscaler import CapacityPolicy, CountOrShare, ScalingRules
from growth.plan.warm_pools.size import Watermarks, recommend, share_of, watermarks, why_not_tolerance

shares = st.integers(0, 100).map(lambda each: f"{each}%")
counts = st.integers(0, 60)
policies = st.builds(CapacityPolicy, st.one_of(shares, counts), st.one_of(st.none(), shares, counts)).filter(
    lambda each: not why_not_tolerance(each, 1000)
)
sizes = st.integers(0, 60)


def desired(
    target: CountOrShare, tolerance: CountOrShare | None, replicas: int, available: int, used: int | None = None
) -> int:
    marks = watermarks(CapacityPolicy(target, tolerance), replicas, 10)
    return recommend(marks, replicas=replicas, available=available, used=replicas - available if used is None else used)


@pytest.mark.parametrize(
    ("target", "tolerance", "replicas", "available", "wanted"),
    [
        (7, 1, 5, 4, 8),
        (7, 1, 10, 9, 8),
        (10, 5, 5, 5, 5),
        (3, 1, 0, 0, 3),
        ("70%", "10%", 10, 10, 7),
        ("70%", "10%", 10, 5, 12),
        ("50%", "10%", 1, 0, 2),
        (1, None, 1, 0, 2),
    ],
)
def test_the_table_of_cases(
    target: CountOrShare, tolerance: CountOrShare | None, replicas: int, available: int, wanted: int
) -> None:
    assert desired(target, tolerance, replicas, available) == wanted


@pytest.mark.parametrize(
    ("policy", "replicas", "marks"),
    [
        (CapacityPolicy(5), 9, Watermarks(5, 4, 6)),  # the default tolerance
        (CapacityPolicy(1), 9, Watermarks(1, 1, 2)),  # never lets the last one go
        (CapacityPolicy("5%"), 10, Watermarks(1, 1, 2)),
        (CapacityPolicy("70%", "10%"), 4, Watermarks(3, 3, 4)),
        (CapacityPolicy("70%", "10%"), 36, Watermarks(26, 22, 29)),
        (CapacityPolicy("70%", "10%"), 0, Watermarks(1, 1, 1)),  # counts as one replica
        (CapacityPolicy(10, "25%"), 0, Watermarks(10, 7, 13)),
        (CapacityPolicy("50%", 2), 9, Watermarks(5, 3, 7)),
        (CapacityPolicy(10, 5), 0, Watermarks(10, 5, 15)),
        (CapacityPolicy("0%"), 9, Watermarks(0, 0, 1)),
    ],
)
def test_ruling_1_watermarks_by_the_kinds_of_target_and_tolerance(
    policy: CapacityPolicy, replicas: int, marks: Watermarks
) -> None:
    assert watermarks(policy, replicas, 10) == marks


def test_ruling_1_percentages_are_exact_for_every_size_up_to_5000() -> None:
    wrong = [
        (count, share)
        for count in range(5001)
        for share in range(101)
        if not 0 <= 100 * share_of(count, share) - count * share < 100
    ]
    assert wrong == []
    with_floats = [
        (count, share)
        for count in range(1, 2001)
        for share in range(101)
        if ceil(count * (share / 100)) != share_of(count, share)
    ]
    assert len(with_floats) == 290  # why there are no floats


def test_ruling_7_a_percentage_leaves_zero() -> None:
    assert desired("70%", "10%", 0, 0) == 1


@settings(max_examples=300, deadline=None)
@given(policies, sizes, sizes)
def test_the_more_is_available_the_fewer_are_wanted(policy: CapacityPolicy, replicas: int, available: int) -> None:
    marks = watermarks(policy, replicas, 10)
    answers = [
        recommend(marks, replicas=replicas, available=each, used=replicas - each) for each in range(replicas + 1)
    ]
    assert answers == sorted(answers, reverse=True)
    assert marks.lower <= marks.target <= marks.upper


@settings(max_examples=300, deadline=None)
@given(policies, sizes, sizes)
def test_constant_use_comes_to_rest_without_swinging(policy: CapacityPolicy, used: int, start: int) -> None:
    """Replicas move one way only, and stay where they come to rest; a pool that grows without end meets its upper
    bound.
    """
    replicas, moves = max(start, used), list[int]()
    for _ in range(400):
        marks = watermarks(policy, replicas, 10)
        wanted = min(recommend(marks, replicas=replicas, available=replicas - used, used=used), 5000)
        if wanted == replicas:
            break
        moves.append(wanted - replicas)
        replicas = wanted
    else:
        raise AssertionError("never at rest")
    turns = sum((one > 0) != (other > 0) for one, other in pairwise(moves))
    assert turns <= 1, moves


@pytest.mark.parametrize(
    ("target", "tolerance", "is_refused"),
    [
        (10, 10, True),
        (10, 9, False),
        ("70%", "70%", True),
        ("70%", "69%", False),
        (10, "100%", True),
        (1, "10%", True),
        ("10%", 50, False),
        (5, None, False),
    ],
)
def test_a_tolerance_that_reaches_the_target_is_refused(
    target: CountOrShare, tolerance: CountOrShare | None, is_refused: bool
) -> None:
    assert bool(why_not_tolerance(CapacityPolicy(target, tolerance), 1000)) is is_refused


@pytest.mark.parametrize(
    ("target", "tolerance", "replicas", "marks"),
    [
        ("50%", 3, 4, (2, 1, 5)),
        ("50%", 3, 6, (3, 1, 6)),
        ("10%", 50, 1000, (100, 50, 150)),
        (3, 2, 9, (3, 1, 5)),
        ("0%", 0, 9, (0, 0, 0)),
    ],
)
def test_ruling_17_the_lower_watermark_is_at_least_one_while_the_target_is(
    target: CountOrShare, tolerance: CountOrShare, replicas: int, marks: tuple[int, int, int]
) -> None:
    found = watermarks(CapacityPolicy(target, tolerance), replicas, 10)
    assert (found.target, found.lower, found.upper) == marks


def test_each_direction_may_have_its_own_tolerance() -> None:
    policy = CapacityPolicy(10, 2, ScalingRules(tolerance="50%"), ScalingRules(tolerance=8))
    found = watermarks(policy, 40, 10)
    assert (found.target, found.lower, found.upper) == (10, 5, 18)
    assert "scaleUp.tolerance 10" in why_not_tolerance(CapacityPolicy(10, 2, ScalingRules(tolerance=10)), 100)
    assert not why_not_tolerance(CapacityPolicy(10, 2, scale_down=ScalingRules(tolerance=100)), 100)


def test_a_count_beside_a_share_must_be_smaller_than_the_share_of_the_largest_pool() -> None:
    assert "at maxReplicas 50" in why_not_tolerance(CapacityPolicy("10%", 50), 50)
    assert not why_not_tolerance(CapacityPolicy("50%", 3), 10)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), policies)
def test_ruling_15_nothing_goes_up_for_being_above_or_down_for_being_below(
    replicas: int, available: int, used: int, policy: CapacityPolicy
) -> None:
    marks = watermarks(policy, replicas, 10)
    wanted = recommend(marks, replicas=replicas, available=available, used=used)
    if available > marks.upper:
        assert wanted <= replicas
    if available < marks.lower:
        assert wanted >= replicas
