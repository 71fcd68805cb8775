"""Schedules in time zones: by example around the changes of the clocks, and against a reference that walks minute by
minute.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth.model.instant import format_instant, parse_instant
from growth.plan.world.schedule import Schedule, ScheduleError, UnknownTimeZoneError
from tests.plan.world.cron_reference import firings, walls
from tests.plan.world.cron_sweep import SHORT_ZONES, mismatches, zones


def next_of(expression: str, zone: str, after: str, count: int = 1) -> list[str]:
    schedule, at, found = Schedule(expression, zone), parse_instant(after), []
    for _ in range(count):
        at = schedule.next_after(at)
        found.append(format_instant(at))
    return found


def test_every_day_at_eight() -> None:
    assert next_of("0 8 * * *", "UTC", "2026-05-01T08:00:00Z", 2) == ["2026-05-02T08:00:00Z", "2026-05-03T08:00:00Z"]
    assert next_of("0 8 * * *", "Asia/Shanghai", "2026-05-01T12:00:00Z") == ["2026-05-02T00:00:00Z"]


def test_ruling_6_a_time_that_does_not_exist_fires_at_the_first_instant_after_the_gap() -> None:
    assert next_of("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2) == [
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
    ]
    assert next_of("10,50 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2) == [
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:10:00Z",
    ]


def test_ruling_6_a_time_that_occurs_twice_fires_once() -> None:
    assert next_of("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2) == [
        "2026-10-25T00:30:00Z",
        "2026-10-26T01:30:00Z",
    ]
    between = parse_instant("2026-10-25T01:15:00Z")  # 02:15 for the second time
    assert format_instant(Schedule("30 2 * * *", "Europe/Berlin").last_until(between) or 0) == "2026-10-25T00:30:00Z"


def test_half_an_hour_of_summer_time() -> None:
    assert next_of("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z") == ["2026-10-03T15:30:00Z"]


def test_weekday_or_day_of_the_month_when_both_are_given() -> None:
    assert next_of("0 0 13 * 5", "UTC", "2026-05-09T00:00:00Z", 3) == [
        "2026-05-13T00:00:00Z",
        "2026-05-15T00:00:00Z",
        "2026-05-22T00:00:00Z",
    ]


def test_a_firing_is_later_than_the_instant_asked_about_and_the_last_is_not() -> None:
    schedule, at = Schedule("0 8 * * *", "UTC"), parse_instant("2026-05-01T08:00:00Z")
    assert schedule.next_after(at) == at + 86400
    assert schedule.next_after(at - 0.5) == at
    assert schedule.last_until(at) == at
    assert schedule.last_until(at + 0.5) == at
    assert schedule.last_until(at - 0.5) == at - 86400


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 8 * *",
        "0 0 8 * * *",
        "60 8 * * *",
        "0 24 * * *",
        "0 0 31 2 *",
        "0 0 30 2 *",
        "a b c d e",
        "@daily",
        "5-1 * * * *",
    ],
)
def test_what_is_no_schedule_or_never_fires_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        Schedule(text, "UTC")


@pytest.mark.parametrize("name", ["", "Mars/Phobos", "../etc/passwd", "/etc/localtime", "America", "europe/berlin2"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(UnknownTimeZoneError):
        Schedule("0 8 * * *", name)


def test_every_transition_of_ten_difficult_zones_agrees_with_the_reference() -> None:
    """All zones, all years: `python -m tests.plan.world.cron_sweep`."""
    assert list(mismatches(SHORT_ZONES, last_year=2027)) == []


def test_the_reference_can_disagree() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    jump = datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()
    assert firings("30 2 * * *", walls(berlin, jump - 3600, jump + 3600)) == [jump]
    assert firings("30 2 * * *", walls(ZoneInfo("UTC"), jump - 3600, jump + 3600)) == []


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(zones()),
    st.sampled_from(["7 * * * *", "0 0 * * *", "30 1-3 * * *", "*/45 2 * * *"]),
    st.integers(1_704_067_200, 2_240_000_000),
)
def test_any_day_in_any_zone_agrees_with_the_reference(name: str, text: str, begin: int) -> None:
    shown = walls(ZoneInfo(name), begin - 3 * 3600, begin + 26 * 3600)  # from before any hour that is shown twice
    schedule, at, found = Schedule(text, name), float(begin), []
    while (at := schedule.next_after(at)) <= shown[-1][0]:
        found.append(at)
    assert found == [firing for firing in firings(text, shown) if firing > begin]
