"""A running growth under measurement, for `bench.scale`: how late its timers fire and its lease is renewed, and what a
turn of its loop costs.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from growth.controllers.growth import Growth
from growth.controllers.loop.loop import Loop
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.http import HttpTransport
from growth.kube.auth.credentials import Connection
from growth.kube.election import Election, ElectionThread, LeaseSettings
from growth.kube.fence import Fence

_TIMER_SECONDS = 0.01
_QUIET_TICKS = 200


class TimedFence(Fence):
    """A fence that remembers when the lease was renewed."""

    def __init__(self) -> None:
        super().__init__(time.monotonic)
        self.renewed_at: list[float] = []

    def extend(self, until: float) -> None:
        super().extend(until)
        self.renewed_at.append(time.monotonic())

    def latest_seconds(self, retry_seconds: float) -> float:
        gaps = [after - before for before, after in zip(self.renewed_at, self.renewed_at[1:], strict=False)]
        return max((gap - retry_seconds for gap in gaps), default=float("inf"))


def stand_for_election(
    fence: Fence, connection: Connection, runtime: SystemRuntime, lease: LeaseSettings
) -> ElectionThread:
    """As growth does when it runs: in a thread of its own. The caller stops it."""

    @asynccontextmanager
    async def open_election(own: Fence) -> AsyncIterator[Election]:
        async with HttpTransport(connection) as transport:
            yield Election(transport, runtime, "bench", lease, own)

    thread = ElectionThread(fence, open_election)
    thread.start()
    return thread


async def watch_timer(lateness: list[float]) -> None:
    while True:
        began_at = time.perf_counter()
        await asyncio.sleep(_TIMER_SECONDS)
        lateness.append(time.perf_counter() - began_at - _TIMER_SECONDS)


async def started(growth: Growth) -> Loop:
    """The loop, once the caches are full and growth leads."""
    while True:
        if growth.loop is not None:
            return growth.loop
        await asyncio.sleep(0.05)


async def tick_at_rest(loop: Loop) -> float:
    """CPU seconds of a turn in which no row has a reason to look, and of one snapshot."""
    spent = []
    for _ in range(_QUIET_TICKS):
        began_at = time.thread_time()
        loop.observer.snapshot()
        await loop.tick()
        spent.append(time.thread_time() - began_at)
    return statistics.median(spent)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")
