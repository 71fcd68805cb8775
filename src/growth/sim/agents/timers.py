"""When does an agent of the embedded cluster act? On timers of the running event loop, never on threads.

Agents (scheduler, kubelets, controllers) are plain objects that hear of writes and act some time later, in one
synchronous step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def after(seconds: float, work: Callable[[], object]) -> None:
    """Call `work` once, that much later."""
    asyncio.get_running_loop().call_later(seconds, work)


class Nudge:
    """Many calls, one step: the first call sets a timer, calls until it fires change nothing."""

    def __init__(self, seconds: float, step: Callable[[], object]) -> None:
        self._seconds = seconds
        self._step = step
        self._is_set = False

    def __call__(self) -> None:
        if not self._is_set:
            self._is_set = True
            after(self._seconds, self._fire)

    def _fire(self) -> None:
        self._is_set = False
        self._step()


def every(seconds: float, step: Callable[[], object]) -> None:
    """Call `step` again and again, first after `seconds`."""

    def tick() -> None:
        step()
        after(seconds, tick)

    after(seconds, tick)
