"""May this request go out now? A token bucket below the project's limit, and silence after a 429, for 45 s at most.

Asked before every call. Hetzner gives a project 3,600 requests an hour, one back each second, for all its clients
together; our share is smaller, and what Hetzner says is left (RateLimit-Remaining) makes it smaller still. When tokens
are short, what matters goes first:

| rank | may use |
| --- | --- |
| DELETE | everything, down to the last request of the project |
| CREATE, LOOK | our share and half of what is kept for others |
| LIST | all but a tenth of our share |
| CATALOGUE | all but a fifth |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from growth.kube.api.server_time import date_of
from growth.providers.hetzner.errors import Limited
from growth.runtime import Runtime

PROJECT_PER_HOUR: Final = 3600
_NO_RESET_SECONDS: Final = 45.0  # a 429 that does not say until when
_LONGEST_SILENCE_SECONDS: Final = 45.0  # the reset is when the bucket is full again; some of it comes back each second
_LONGEST_RESET_SECONDS: Final = 3700.0  # a whole bucket; more is a clock gone wrong
_MOST_PER_HOUR: Final = 1_000_000.0
_NAP_SECONDS: Final = 1.0


class Rank(IntEnum):
    """How important a request is: a lower rank goes first."""

    DELETE = 0
    CREATE = 1
    LOOK = 2
    LIST = 3
    CATALOGUE = 4


_PATIENCE: Final = {Rank.DELETE: 5.0, Rank.CREATE: 5.0, Rank.LOOK: 10.0, Rank.LIST: 60.0, Rank.CATALOGUE: 60.0}


class Quota:
    """Tokens for one project, seen from one process."""

    def __init__(self, runtime: Runtime, per_hour: int) -> None:
        self.taken = 0
        self.told: tuple[int | None, int | None] = (None, None)  # the project's limit and what is left, by Hetzner
        self._runtime = runtime
        self._per_second = per_hour / 3600
        self._share = float(per_hour)
        self._for_others = float(max(0, PROJECT_PER_HOUR - per_hour))
        self._tokens = float(per_hour)
        self._filled_at = runtime.monotonic()
        self._closed_until = 0.0
        self._full_at: float | None = None
        self._waiting = dict.fromkeys(Rank, 0)

    async def take(self, rank: Rank) -> None:
        """Wait for a token; raises Limited where it would take too long."""
        began = self._runtime.monotonic()
        while True:
            self.check_open()
            seconds = self._seconds_until(rank)
            if seconds <= 0:
                break
            if self._runtime.monotonic() - began + seconds > _PATIENCE[rank]:
                raise Limited(seconds, "our share of Hetzner's limit of requests is used up")
            self._waiting[rank] += 1
            try:
                await self._runtime.sleep(min(seconds, _NAP_SECONDS))
            finally:
                self._waiting[rank] -= 1
        self._tokens -= 1
        self.taken += 1

    def check_open(self) -> None:
        """Raises Limited for a while after a 429."""
        left = self._closed_until - self._runtime.monotonic()
        if left > 0:
            raise Limited(left, "Hetzner's limit of requests is used up")

    def heard(self, headers: Mapping[str, str], is_refused: bool) -> None:
        """Learn from an answer's headers what is left of the limit."""
        remaining, limit = _number(headers.get("ratelimit-remaining")), _number(headers.get("ratelimit-limit"))
        if not _is_plausible(limit, remaining):
            remaining = limit = None
        if limit is not None and remaining is not None:
            self.told = (int(limit), int(remaining))
        if limit is not None:
            self._for_others = max(0.0, limit - self._share)
        if remaining is not None:
            self._refill()
            self._tokens = min(self._tokens, remaining - self._for_others)
        if is_refused:
            now, seconds = self._runtime.monotonic(), self._seconds_to_reset(headers)
            self._closed_until = max(self._closed_until, now + min(seconds, _LONGEST_SILENCE_SECONDS))
            self._full_at = now + seconds if "ratelimit-reset" in headers else None

    def _seconds_to_reset(self, headers: Mapping[str, str]) -> float:
        """By Hetzner's own clock where it tells the time: ours may be wrong."""
        reset = _number(headers.get("ratelimit-reset"))
        if reset is None:
            return _NO_RESET_SECONDS
        seconds = reset - (date_of(headers) or self._runtime.now())
        return min(max(seconds, 1.0), _LONGEST_RESET_SECONDS)

    def _seconds_until(self, rank: Rank) -> float:
        self._refill()
        ahead = sum(count for other, count in self._waiting.items() if other < rank)
        missing = self._floor(rank) + 1 + ahead - self._tokens
        return missing / self._per_second

    def _floor(self, rank: Rank) -> float:
        if rank == Rank.DELETE:
            return -self._for_others
        if rank in (Rank.CREATE, Rank.LOOK):
            return -self._for_others / 2
        return self._share * (0.1 if rank == Rank.LIST else 0.2)

    def _refill(self) -> None:
        """A token at a time; at the reset that Hetzner names, all of them. Its next answer corrects a mistake."""
        now = self._runtime.monotonic()
        if self._full_at is not None and now >= self._full_at:
            self._tokens, self._full_at = self._share, None
        self._tokens = min(self._share, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now


def _is_plausible(limit: float | None, remaining: float | None) -> bool:
    """A number that no account has would close the line for ever."""
    most = _MOST_PER_HOUR if limit is None else limit
    return 0 < most <= _MOST_PER_HOUR and (remaining is None or 0 <= remaining <= most)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None
