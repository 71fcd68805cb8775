"""What time is it by the API server's clock? Asked by all of growth that compares a stamp with now, or writes one.

Nodes, pods and records are stamped by the API server. A clock of growth's own that is an hour ahead would take a
machine that was ordered a moment ago for an old one, and forget that it counts; so growth keeps the server's time, and
two replicas on hosts that disagree keep the same.

Every answer says when it was written (`Date`, in whole seconds, cut off): after its request left and before it came.
Refusals are not listened to: a gateway in front of the API server may have written them, by a clock of its own.
Between two answers the time goes on by the clock that never steps. While it lies within what the answers say, nothing
is moved; where it does not, by as little as possible. Until the first answer, growth's own clock is all there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

from growth.runtime import Runtime

_DATE_SECONDS: Final = 1.0  # what the header cuts off


class ServerTime:
    """A Runtime whose wall clock is the API server's, as far as its answers tell."""

    def __init__(self, runtime: Runtime) -> None:
        self.monotonic, self.jitter, self.new_id = runtime.monotonic, runtime.jitter, runtime.new_id
        self.sleep, self.within, self.spawn = runtime.sleep, runtime.within, runtime.spawn
        self.offload, self.in_thread, self.servant = runtime.offload, runtime.in_thread, runtime.servant
        self.own = runtime
        self._ahead_seconds: float | None = None  # the server's clock, of ours that never steps

    def now(self) -> float:
        return self.own.now() if self._ahead_seconds is None else self.monotonic() + self._ahead_seconds

    def hear(self, headers: Mapping[str, str], asked_at: float) -> None:
        """Of an answer that came just now to a request that left then, by the clock that never steps."""
        written_at, heard_at = date_of(headers), self.monotonic()
        if written_at is not None:
            known = self.now() - heard_at
            self._ahead_seconds = min(max(known, written_at - heard_at), written_at + _DATE_SECONDS - asked_at)


def date_of(headers: Mapping[str, str]) -> float | None:
    """When an answer was written, by the clock of who wrote it; None: it does not say."""
    return _instant_of(headers.get("date", ""))


@lru_cache(maxsize=8)
def _instant_of(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).replace(tzinfo=UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
