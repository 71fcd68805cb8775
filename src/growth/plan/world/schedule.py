"""When does a schedule fire? Five cron fields in an IANA time zone, computed from a given instant; no clock is read.

Fields are matched against local time. Local time has holes and repeats, and every matching local time fires once:

| the local time | fires |
| --- | --- |
| exists once | then |
| does not exist (clocks go forward) | at the first instant after the gap |
| occurs twice (clocks go back) | the first time |

Day of the month and weekday both restricted: either is enough, as cron has it. Asked by `plan/warm_pools/warm_pools`
and `growth explain`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_FIELDS = 5
_ONE_SECOND = timedelta(seconds=1)
_TRIED_FROM = datetime(2024, 1, 1)  # noqa: DTZ001  (local time of no zone: only whether there is any)


class ScheduleError(ValueError):
    """The schedule can never fire, or is none."""


class UnknownTimeZoneError(ValueError):
    """No such zone in the database."""


class Schedule:
    """A schedule in its zone; raises ScheduleError or UnknownTimeZoneError."""

    def __init__(self, expression: str, zone: str) -> None:
        self.expression = expression
        self.zone = read_zone(zone)
        _check(expression)

    def next_after(self, at: float) -> float:
        """The first firing later than `at`."""
        for local in CronSim(self.expression, _local(at, self.zone)):
            firing = instant_of(local, self.zone)
            if firing > at:
                return firing
        raise ScheduleError(f"{self.expression!r} never fires again")

    def last_until(self, at: float) -> float | None:
        """The latest firing that is not later than `at`."""
        here = datetime.fromtimestamp(at, UTC).astimezone(self.zone)
        local = here.replace(tzinfo=None, fold=0, microsecond=0) + _repeated(here) + _ONE_SECOND
        for earlier in CronSim(self.expression, local, reverse=True):
            firing = instant_of(earlier, self.zone)
            if firing <= at:
                return firing
        return None


@lru_cache(maxsize=50_000)
def read_schedule(expression: str, zone: str) -> Schedule:
    """The same schedule is read once."""
    return Schedule(expression, zone)


def why_no_schedule(expression: str, zone: str) -> str:
    """What is wrong with it. Empty: it can be read."""
    try:
        read_schedule(expression, zone)
    except (ScheduleError, UnknownTimeZoneError) as error:
        return str(error)
    return ""


@lru_cache(maxsize=1_000)
def read_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, a path, a directory
        raise UnknownTimeZoneError(f"there is no time zone {name!r}") from None


def _check(expression: str) -> None:
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise ScheduleError(
            f"{expression!r} has {len(fields)} fields; a schedule has five: minute, hour, day, month, weekday"
        )
    try:
        next(CronSim(expression, _TRIED_FROM))
    except (CronSimError, AssertionError, ValueError) as error:
        raise ScheduleError(f"{expression!r} is no schedule: {error}") from None
    except StopIteration:
        raise ScheduleError(f"{expression!r} never fires") from None


def _local(at: float, zone: ZoneInfo) -> datetime:
    """What the clocks on the wall show, without saying whose."""
    return datetime.fromtimestamp(at, UTC).astimezone(zone).replace(tzinfo=None, fold=0, microsecond=0)


def _repeated(here: datetime) -> timedelta:
    """By how much the clocks went back, if this local time is the second of two: times shown up to then have fired."""
    if not here.fold:
        return timedelta()
    return (here.replace(fold=0).utcoffset() or timedelta()) - (here.utcoffset() or timedelta())


def instant_of(local: datetime, zone: ZoneInfo) -> float:
    """When the clocks of a zone show this local time, by the table above."""
    first = local.replace(tzinfo=zone, fold=0)
    at = first.timestamp()
    if first.utcoffset() == first.replace(fold=1).utcoffset():
        return at
    shown = datetime.fromtimestamp(at, UTC).astimezone(zone)
    return at if shown.replace(tzinfo=None, fold=0) == local else _end_of_gap(local, zone)


def _end_of_gap(local: datetime, zone: ZoneInfo) -> float:
    """The first whole second at which the clocks show a later time than one they skip."""
    early = int(local.replace(tzinfo=zone, fold=1).timestamp())  # before the gap
    late = int(local.replace(tzinfo=zone, fold=0).timestamp())  # after it
    while late - early > 1:
        middle = (early + late) // 2
        if _local(middle, zone) > local:
            late = middle
        else:
            early = middle
    return float(late)
