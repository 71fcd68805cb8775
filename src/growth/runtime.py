"""What the shell needs from the world around it: time, sleep, tasks, chance and a place for heavy work.

Asked by kube, providers, controllers and sim; never by the core (model, solver, plan), which gets `now` in its
snapshot. Production uses `growth.controllers.loop.runtime`, the embedded cluster uses virtual time: nothing else
differs between the two."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Spawned(Protocol):
    """A running piece of work that can be stopped and waited for."""

    def cancel(self) -> Any: ...

    def done(self) -> bool: ...

    def __await__(self) -> Any: ...


class Servant(Protocol):
    """Answers questions away from the event loop, one after the other, and keeps what it has learned meanwhile."""

    async def ask(self, longest_seconds: float, question: Any) -> Any:
        """Its answer. One that takes longer is ended and begun anew with nothing learned, and TimeoutError raised; so
        is one that has died or has grown, without a word.
        """


class Runtime(Protocol):
    """The only door to clock, chance and concurrency."""

    def now(self) -> float:
        """Seconds since the epoch by the wall clock, which may step: for stamps that people and objects see."""

    def monotonic(self) -> float:
        """Seconds that never step: for timeouts, back-off and leases."""

    async def sleep(self, seconds: float) -> None: ...

    async def within(self, seconds: float, work: Awaitable[Result]) -> Result:
        """The result of work; work that takes longer is cancelled and TimeoutError raised."""

    def spawn(self, name: str, work: Coroutine[Any, Any, Result]) -> Spawned:
        """Start work beside the caller; `name` appears in logs when it fails."""

    async def offload(self, longest_seconds: float, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run pure, picklable work away from the event loop (in production: the worker process). Work that takes longer
        is ended, its process with it, and TimeoutError raised.
        """

    def servant(self, begin: Callable[[], Callable[[Any], Any]]) -> Servant:
        """What `begin` returns answers the questions (in production: in a process of its own). All of it must be
        picklable.
        """

    async def in_thread(self, function: Callable[[], Result]) -> Result:
        """Run a call that waits for others (a synchronous client) without holding up the event loop; in the embedded
        cluster it takes no time.
        """

    def jitter(self) -> float:
        """A number in [0, 1) for back-off; seeded in the embedded cluster."""

    def new_id(self) -> str:
        """A fresh random identifier, 32 hex digits."""
