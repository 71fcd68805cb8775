"""When does a schedule fire, told by walking minute by minute through real time? Slow and simple: the judge of
`plan/world/schedule`.

A matching local minute fires at the first real minute at which the clocks show it or have jumped over it, and never
again. It shares no code with what it judges: it reads the five fields itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@lru_cache(maxsize=1000)
def fields(expression: str) -> tuple[frozenset[int], ...]:
    return tuple(_numbers(text, *bounds) for text, bounds in zip(expression.split(), RANGES, strict=True))


def _numbers(text: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        start, end = (low, high) if span == "*" else (int(first), int(last) if dash else high if step else int(first))
        found |= set(range(start, end + 1, int(step or 1)))
    return frozenset(found)


def matches(expression: str, local: datetime) -> bool:
    minutes, hours, days, months, weekdays = fields(expression)
    if local.minute not in minutes or local.hour not in hours or local.month not in months:
        return False
    weekday = local.isoweekday()
    on_day, on_weekday = local.day in days, weekday in weekdays or weekday % 7 in weekdays
    stars = [text.startswith("*") for text in (expression.split()[2], expression.split()[4])]
    return (on_day and on_weekday) if any(stars) else (on_day or on_weekday)


def wall(at: float, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(zone).replace(tzinfo=None, fold=0)


def walls(zone: ZoneInfo, begin: float, end: float) -> list[tuple[float, datetime]]:
    """What the clocks show at every real minute from `begin` to `end`."""
    return [(at, wall(at, zone)) for at in _minutes(begin, end)]


def firings(expression: str, shown: list[tuple[float, datetime]]) -> list[float]:
    """Every firing at one of these minutes but the first, which only says what the clocks showed before."""
    found, latest = [], shown[0][1]
    for at, local in shown[1:]:
        if local == latest + MINUTE:
            latest = local
            if matches(expression, local):
                found.append(at)
        elif local > latest:
            if any(matches(expression, latest + MINUTE * step) for step in range(1, (local - latest) // MINUTE + 1)):
                found.append(at)
            latest = local
    return found


def _minutes(begin: float, end: float) -> Iterator[float]:
    at = begin - begin % 60
    while at <= end:
        yield at
        at += 60


def transitions(zone: ZoneInfo, first_year: int, last_year: int) -> list[float]:
    """Every instant in these years at which the clocks of a zone jump. No zone jumps twice in one day."""
    at, end = datetime(first_year, 1, 1, tzinfo=UTC).timestamp(), datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp()
    found, before = [], _offset(at, zone)
    while at < end:
        after = _offset(at + 86400, zone)
        if after != before:
            found.append(_jump(zone, int(at), int(at) + 86400))
        at, before = at + 86400, after
    return found


def _jump(zone: ZoneInfo, early: int, late: int) -> float:
    before = _offset(early, zone)
    while late - early > 1:
        middle = (early + late) // 2
        early, late = (middle, late) if _offset(middle, zone) == before else (early, middle)
    return float(late)


def _offset(at: float, zone: ZoneInfo) -> timedelta:
    return datetime.fromtimestamp(at, UTC).astimezone(zone).utcoffset() or timedelta()
