"""RFC 3339 both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.instant import InstantError, format_instant, format_precise_instant, parse_instant

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
