"""RFC 3339 both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.instant import (
    InstantError,
    format_instant,
    format_precise_instant,
    is_due,
    is_from_future,
    parse_instant,
    since,
)

INSTANTS = {
    "1970-01-01T00:00:00Z": 0.0,
    "2026-03-29T01:30:00Z": 1774747800.0,
    "2026-03-29t01:30:00z": 1774747800.0,
    "2026-03-29T03:30:00+02:00": 1774747800.0,
    "2026-03-28T15:45:00-09:45": 1774747800.0,
    "2026-03-29T01:30:00.5Z": 1774747800.5,
    "2026-03-29T01:30:00.123456Z": 1774747800.123456,
    "2026-03-29T01:30:00.123456789Z": 1774747800.123456,
    "1969-12-31T23:59:59Z": -1.0,
}

NO_INSTANTS = [
    "",
    "now",
    "2026-03-29",
    "2026-03-29T01:30:00",
    "20260329T013000Z",
    "2026-03-29 01:30:00Z",
    "2026-13-29T01:30:00Z",
    "2026-03-29T25:30:00Z",
    "2026-W13-7T01:30:00Z",
    "2026-03-29T01:30:60Z",
]


@pytest.mark.parametrize(("text", "at"), INSTANTS.items())
def test_any_offset_and_any_decimals_are_read(text: str, at: float) -> None:
    assert parse_instant(text) == at


@pytest.mark.parametrize("text", NO_INSTANTS)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InstantError, match="is not an RFC 3339 instant"):
        parse_instant(text)


def test_instants_are_written_in_utc_to_the_second_or_the_microsecond() -> None:
    assert format_instant(1774747800.9) == "2026-03-29T01:30:00Z"
    assert format_precise_instant(1774747800.9) == "2026-03-29T01:30:00.900000Z"


@given(st.integers(min_value=0, max_value=4 * 10**15))
def test_an_instant_survives_being_written(microseconds: int) -> None:
    at = microseconds / 1e6
    assert abs(parse_instant(format_precise_instant(at)) - at) < 1e-6
    assert parse_instant(format_instant(at)) == at // 1


@given(st.text(alphabet="0123456789-+:.TZtz ", max_size=30))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        at = parse_instant(text)
    except InstantError as refused:
        assert repr(text)[:10] in str(refused)  # noqa: PT017  (either end is right)
        return
    assert format_instant(at)[4] == "-"


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [((90.0, 80.0), 90.0), ((100.0,), 100.0), ((101.0, 80.0), 80.0), ((101.0, 102.0), 0.0), ((), 0.0)],
)
def test_a_stamp_from_the_future_is_passed_over(stamps: tuple[float, ...], expected: float) -> None:
    assert since(100.0, *stamps) == expected


def test_where_all_stamps_are_from_the_future_the_caller_says_what_counts() -> None:
    assert since(100.0, 101.0, otherwise=100.0) == 100.0


@pytest.mark.parametrize(
    ("last", "expected"), [(100.0, False), (90.5, False), (90.0, True), (0.0, True), (101.0, True)]
)
def test_work_is_due_when_its_time_has_passed_or_the_clock_went_back(last: float, expected: bool) -> None:
    assert is_due(100.0, last, 10.0) is expected


def test_clocks_may_differ_by_a_minute_before_a_stamp_counts_as_from_the_future() -> None:
    assert not is_from_future(100.0, 160.0)
    assert is_from_future(100.0, 160.5)
