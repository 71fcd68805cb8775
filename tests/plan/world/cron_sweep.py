"""Does every schedule fire when it should around every change of the clocks? `python -m tests.plan.world.cron_sweep`
asks about every IANA zone.

For each zone and each transition from 2024 to 2040, and for schedules that hit, span and miss it, all firings of the
hours around it are compared with `tests/plan/world/cron_reference.py`: forwards (next_after) and backwards
(last_until). `make test` asks about a few zones only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

from growth.plan.world.schedule import Schedule, read_schedule
from tests.plan.world.cron_reference import firings, transitions, walls

FIRST_YEAR, LAST_YEAR = 2024, 2040
BEFORE_SECONDS, AFTER_SECONDS = 3 * 3600, 4 * 3600
SCHEDULES = (
    "30 2 * * *",
    "0,30 0-3 * * *",
    "*/20 * * * *",
    "15 * * * 0",
    "59 23 * * *",
    "0 3 1-7,25-31 3,10,11 *",
    "5 0-4 * * 1-6",
)
SHORT_ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Antarctica/Troll",
    "America/Scoresbysund", "Pacific/Chatham", "Asia/Kolkata", "America/Havana", "Asia/Gaza",
)  # fmt: skip


def zones() -> list[str]:
    """Every name in the database, without the ways some systems file them."""
    return sorted(
        name
        for name in available_timezones()
        if not name.startswith(("posix/", "right/")) and name not in ("localtime", "Factory")
    )


def mismatches(names: Iterable[str], last_year: int = LAST_YEAR) -> Iterator[str]:
    for name in names:
        zone = ZoneInfo(name)
        for jump in transitions(zone, FIRST_YEAR, last_year):
            shown = walls(zone, jump - BEFORE_SECONDS, jump + AFTER_SECONDS)
            yield from (
                f"{name} at {jump:.0f}, {text!r}: {why}"
                for text in SCHEDULES
                for why in _compared(read_schedule(text, name), text, shown)
            )


def _compared(schedule: Schedule, text: str, shown: list[tuple[float, datetime]]) -> Iterator[str]:
    wanted, found = firings(text, shown), []
    begin, end = shown[0][0], shown[-1][0]
    at = begin
    while (at := schedule.next_after(at)) <= end:
        found.append(at)
    if found != wanted:
        yield f"fires at {found}, not at {wanted}"
    for place, instant in enumerate(wanted):
        for later in (instant, (wanted[place + 1] if place + 1 < len(wanted) else end + 1) - 1):
            if schedule.last_until(later) != instant:
                yield f"last before {later} is {schedule.last_until(later)}, not {instant}"


def main() -> int:
    names = zones()
    count = sum(len(transitions(ZoneInfo(name), FIRST_YEAR, LAST_YEAR)) for name in names)
    found = list(mismatches(names))
    print(
        f"{len(names)} zones, {count} transitions, {count * len(SCHEDULES)} comparisons: {len(found)} mismatches in "
        f"{time.process_time():.0f} CPU s"
    )
    print("\n".join(found[:20]), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
