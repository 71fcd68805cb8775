"""RFC 3339 instants as the API writes them, and the float seconds since the epoch that growth counts in.

Asked by the codec and by every plan that writes a status. Reads any offset and any number of decimals; writes UTC only.
Never reads a clock.

A clock may go back. A stamp that then lies in the future is never waited for: `since` passes over it, `is_due` looks at
once, `is_from_future` tells it from clocks that differ a little."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_CLOCKS_DIFFER_SECONDS: Final = 60.0  # a stamp further in the future than this was written before a clock went back

_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # all is written in UTC, which is not written twice


class InstantError(ValueError):
    """The text is not an RFC 3339 instant."""


@lru_cache(maxsize=16_384)  # every look reads the same stamps again
def parse_instant(text: str) -> float:
    """Seconds since the epoch; raises InstantError with the text in its message."""
    if _FORM.fullmatch(text) is None:
        raise _not_an_instant(text)
    try:
        return datetime.fromisoformat(text if text[-1] == "Z" else text.upper()).timestamp()
    except (ValueError, OverflowError):
        raise _not_an_instant(text) from None


@lru_cache(maxsize=16_384)
def format_instant(at: float) -> str:
    """To the second, as Kubernetes writes metav1.Time; a fraction is cut off."""
    return f"{_moment(at).isoformat(timespec='seconds')}Z"


def format_precise_instant(at: float) -> str:
    """To the microsecond, as Kubernetes writes metav1.MicroTime."""
    return f"{_moment(at).isoformat(timespec='microseconds')}Z"


def _moment(at: float) -> datetime:
    return _EPOCH + timedelta(microseconds=round(at * 1e6))


def _not_an_instant(text: str) -> InstantError:
    return InstantError(f"{text[:64]!r} is not an RFC 3339 instant (example: 2026-03-29T01:30:00Z)")


def since(now: float, *stamps: float, otherwise: float = 0.0) -> float:
    """The first of these stamps that is not in the future; the epoch, long ago, if all are."""
    return next((stamp for stamp in stamps if stamp <= now), otherwise)


def is_due(now: float, last: float, every_seconds: float) -> bool:
    """Has so much time passed since the last time? Yes also if the last time lies in the future."""
    return not last <= now < last + every_seconds


def is_from_future(now: float, stamp: float) -> bool:
    """Was it written before a clock went back? Clocks of two machines may differ by a minute."""
    return stamp > now + _CLOCKS_DIFFER_SECONDS
