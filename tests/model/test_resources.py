"""Amounts add, compare and fit as a scheduler expects."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.quantity import QuantityError
from growth.model.resources import CPU, MEMORY, NOTHING, Resources, format_amount, sum_resources

amounts = st.builds(
    Resources, st.dictionaries(st.sampled_from([CPU, MEMORY, "pods", "example.com/gpu"]), st.integers(0, 1000))
)


def test_cpu_is_in_millicores_and_everything_else_in_units() -> None:
    parsed = Resources.parse({"cpu": "1500m", "memory": "1Gi", "example.com/gpu": 2, "pods": "110"})
    assert dict(parsed) == {"cpu": 1500, "memory": 2**30, "example.com/gpu": 2, "pods": 110}


def test_a_bad_quantity_names_its_resource() -> None:
    with pytest.raises(QuantityError, match=r"^memory: 'lots' is not a quantity"):
        Resources.parse({"cpu": "1", "memory": "lots"})


def test_an_absent_name_is_zero_and_zeros_are_not_kept() -> None:
    assert Resources({"cpu": 0}) == NOTHING
    assert NOTHING["anything"] == 0
    assert "cpu" not in Resources({"cpu": 0})


def test_the_order_of_names_does_not_matter() -> None:
    assert Resources({"cpu": 1, "memory": 2}) == Resources({"memory": 2, "cpu": 1})
    assert str(Resources({"memory": 2**30, "cpu": 1500})) == "cpu 1500m, memory 1Gi"


def test_what_is_not_asked_for_need_not_be_there() -> None:
    assert Resources({"cpu": 1}).fits_in(Resources({"cpu": 1}))
    assert not Resources({"example.com/gpu": 1}).fits_in(Resources({"cpu": 1}))
    assert NOTHING.fits_in(NOTHING)
    assert Resources({"cpu": 1}).fits_in(Resources({"cpu": 1, "memory": -5}))


def test_how_often_amounts_fit() -> None:
    assert Resources({"cpu": 3, "memory": 10}).how_often_in(Resources({"cpu": 10, "memory": 25})) == 2
    assert Resources({"cpu": 3}).how_often_in(Resources({"cpu": -1})) == 0
    assert NOTHING.how_often_in(Resources({"cpu": 1})) is None


def test_amounts_are_shown_in_their_own_unit() -> None:
    assert [format_amount(name, 2**30) for name in ("memory", "hugepages-2Mi", "ephemeral-storage")] == ["1Gi"] * 3
    assert format_amount("example.com/gpu", 2048) == "2048"


@given(amounts, amounts, amounts)
def test_addition_is_what_addition_should_be(a: Resources, b: Resources, c: Resources) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == sum_resources((a, b, c))
    assert (a + b) - b == a
    assert a.times(3) == a + a + a
    assert hash(a + b) == hash(b + a)


@given(amounts, amounts)
def test_the_larger_amount_covers_both(a: Resources, b: Resources) -> None:
    assert a.fits_in(a.at_least(b))
    assert b.fits_in(a.at_least(b))


@given(amounts, amounts)
def test_so_often_fits_and_once_more_does_not(asked: Resources, room: Resources) -> None:
    count = asked.how_often_in(room)
    if count is not None:
        assert asked.times(count).fits_in(room)
        assert not asked.times(count + 1).fits_in(room)


@given(amounts)
def test_amounts_survive_the_way_to_the_worker(a: Resources) -> None:
    assert pickle.loads(pickle.dumps(a)) == a  # noqa: S301  (our own bytes)
