"""How fast may requests go out, and how long is the wait after a failure?

Asked by the client, the reflectors and the event recorder. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import heapq
from enum import IntEnum
from itertools import count

from growth.runtime import Runtime, Spawned

_NEARLY_NOTHING = 1e-6  # of a token: so short a sleep might not move a clock at all

_URGENT_SECONDS = 0.1  # how long an urgent request may have to wait behind a pause


class Lane(IntEnum):
    """Who goes first when requests must wait; within a lane, first come, first served."""

    URGENT = 0  # leases, deletes, evictions
    NORMAL = 1
    BACKGROUND = 2  # events, and looks at what tenants name


class Throttle:
    """A token bucket: `burst` requests at once, `per_second` in the long run, urgent ones first. While the server asks
    for a pause, only urgent ones go.
    """

    def __init__(self, runtime: Runtime, per_second: float, burst: int) -> None:
        self._runtime = runtime
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at = runtime.monotonic()
        self._paused_until = self._filled_at
        self._turns = count()
        self._waiting: list[tuple[Lane, int, asyncio.Future[None]]] = []
        self._pump_work: Spawned | None = None

    async def take(self, lane: Lane = Lane.NORMAL) -> None:
        """Wait for a token."""
        is_first = not self._waiting or lane < self._waiting[0][0]
        if is_first and self._refilled() >= 1 and not self._pause_seconds(lane):
            self._tokens -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (lane, next(self._turns), turn))
        if self._pump_work is None:
            self._pump_work = self._runtime.spawn("request throttle", self._pump())
        await turn

    def pause(self, seconds: float) -> None:
        """The server has had too much."""
        self._paused_until = max(self._paused_until, self._runtime.monotonic() + seconds)

    def _pause_seconds(self, lane: Lane) -> float:
        """How much longer requests of this lane must wait."""
        return 0.0 if lane is Lane.URGENT else max(0.0, self._paused_until - self._runtime.monotonic())

    async def _pump(self) -> None:
        try:
            while self._waiting:
                pause_seconds = self._pause_seconds(self._waiting[0][0])
                if pause_seconds > _NEARLY_NOTHING:
                    await self._runtime.sleep(min(pause_seconds, _URGENT_SECONDS))
                    continue
                missing = 1 - self._refilled()
                if missing > _NEARLY_NOTHING:
                    await self._runtime.sleep(missing / self._per_second)
                    continue
                turn = heapq.heappop(self._waiting)[2]
                if not turn.cancelled():
                    self._tokens -= 1
                    turn.set_result(None)
        finally:
            self._pump_work = None

    def _refilled(self) -> float:
        now = self._runtime.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        return self._tokens


class Places:
    """At most so many requests under way at a time; an urgent one goes beside them. More would not be served sooner:
    each opens a connection of its own, and an API server with too many at once refuses them.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._turns = count()
        self._waiting: list[tuple[Lane, int, asyncio.Future[None]]] = []

    async def take(self, lane: Lane) -> None:
        """Wait for a place; it must be given back."""
        if lane is Lane.URGENT:
            return
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (lane, next(self._turns), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(lane)
            raise

    def give_back(self, lane: Lane) -> None:
        if lane is Lane.URGENT:
            return
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Backoff:
    """Waits that double up to a limit, each between half and the whole of its step."""

    def __init__(self, runtime: Runtime, first_seconds: float, limit_seconds: float) -> None:
        self._runtime = runtime
        self._first = first_seconds
        self._limit = limit_seconds
        self.failures = 0

    def reset(self) -> None:
        self.failures = 0

    async def wait(self, at_least_seconds: float | None = None) -> None:
        """Sleep after one more failure, and no less than the server asked for."""
        step = min(self._limit, self._first * 2 ** min(self.failures, 30))
        self.failures += 1
        seconds = step * (1 + self._runtime.jitter()) / 2
        await self._runtime.sleep(max(seconds, at_least_seconds or 0.0))
