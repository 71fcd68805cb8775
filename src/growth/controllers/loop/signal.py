"""A wake-up that can be waited for with a limit, on the injected Runtime. Used by the loop; it never carries data."""

from __future__ import annotations

import asyncio

from growth.runtime import Runtime


class Signal:
    """Set from anywhere on the loop's thread; stays set until cleared."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, longest_seconds: float) -> None:
        try:
            await self._runtime.within(longest_seconds, self._event.wait())
        except TimeoutError:
            return
