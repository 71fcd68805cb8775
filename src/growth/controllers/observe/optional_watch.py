"""How does growth follow kinds that it can do without? What the watches of buffers, of warm pools
and of pod groups have in common.

    begin ........ the watch on the kind itself, and what else is needed from the start
    follow ....... after each change of that kind, and every 30 s: watch what its objects name now
    tell ......... after each change of anything watched: a new version, and the loop wakes

Nothing here holds up the rest of growth. When the watch ends, everything that it began ends with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from msgspec import Struct

from growth.controllers.loop.runtime import Signal
from growth.kube.api.client import Client
from growth.kube.cache import Cache
from growth.kube.watch.reflector import Reflector, Selection, Trouble
from growth.runtime import Runtime, Spawned

_LOOK_SECONDS: Final = 30.0

log = structlog.get_logger(__name__)


class Watched(Struct):
    """A kind, or one object of it, under watch."""

    cache: Cache[Any]
    reflector: Reflector
    task: Spawned

    @property
    def is_answered(self) -> bool:
        return self.reflector.synced or self.reflector.trouble is not None


class OptionalWatch(ABC):
    def __init__(self, client: Client, runtime: Runtime, report: Callable[[Trouble], None]) -> None:
        self.version = 0  # moves with every change
        self._client, self._runtime, self._report_on = client, runtime, report
        self._tasks: set[Spawned] = set()
        self._wake = Signal(runtime)
        self._changed: Callable[[], None] = lambda: None

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changed = callback

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._begin()
            while True:
                await self._wake.wait(_LOOK_SECONDS)
                self._wake.clear()
                self._follow_safely()
        finally:
            for task in self._tasks:
                task.cancel()

    def _follow_safely(self) -> None:
        """What is watched already stays so, whatever one object names."""
        try:
            self._follow()
        except Exception:
            log.exception("what objects name could not be followed; it is tried again", watch=type(self).__name__)

    @abstractmethod
    async def _begin(self) -> None:
        """Watch the kind itself."""

    @abstractmethod
    def _follow(self) -> None:
        """Watch what its objects name now."""

    def _watch(self, cache: Cache[Any], selection: Selection | None = None, client: Client | None = None) -> Watched:
        cache.subscribe(self._tell)
        reflector = Reflector(
            client or self._client, self._runtime, cache.resource, cache, selection=selection, report=self._report
        )
        return Watched(cache, reflector, self._spawn(f"watch {cache.resource}", reflector.run()))

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> Spawned:
        task = self._runtime.spawn(name, work)
        self._tasks.add(task)
        return task

    def _end(self, task: Spawned) -> None:
        self._tasks.discard(task)
        task.cancel()

    def _report(self, trouble: Trouble) -> None:
        self._report_on(trouble)
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        self._changed()
