"""Who notices when a task of growth ends that should never end? Every long task is kept here: the list of machines, the
watches, the loop, the writer of events.

    it ends, or raises ... one log line with the reason, one count, and it begins anew
    again and again ...... after pauses that double to a minute
    it is cancelled ...... it ends: growth stops, or leads no more

Asked by `controllers/growth`, which `/healthz` asks whether all of them are alive."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from growth.controllers.loop.metrics import Metrics
from growth.kube.api.pace import Backoff
from growth.runtime import Runtime, Spawned

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_LIVELY_SECONDS: Final = 300.0  # a task that went on for so long begins its pauses anew
_REMEMBERED: Final = 20

log = structlog.get_logger(__name__)

Work = Callable[[], Coroutine[Any, Any, Any]]


class Supervisor:
    """Keeps tasks alive."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self.failures: deque[tuple[str, BaseException]] = deque(maxlen=_REMEMBERED)  # the latest
        self._runtime = runtime
        self._metrics = metrics
        self._kept: dict[str, Spawned] = {}

    def keep(self, name: str, work: Work) -> Spawned:
        """Begin the work, and begin it anew whenever it ends, until the task is cancelled."""
        self._metrics.task_restarts.labels(name)
        self._kept[name] = self._runtime.spawn(name, self._go_on(name, work))
        return self._kept[name]

    def end(self, name: str) -> None:
        """This task shall end."""
        task = self._kept.pop(name, None)
        if task is not None:
            task.cancel()

    def end_all(self) -> None:
        for name in list(self._kept):
            self.end(name)

    def keeps(self, name: str) -> bool:
        """Whether this task shall be alive."""
        return name in self._kept

    def why_not_alive(self) -> str:
        """The tasks that ended although nobody ended them. Empty: none."""
        dead = [name for name, task in self._kept.items() if task.done()]
        return f"a task has ended: {', '.join(dead)}" if dead else ""

    async def _go_on(self, name: str, work: Work) -> None:
        backoff = Backoff(self._runtime, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        while True:
            began_at, failure = self._runtime.monotonic(), None
            try:
                await work()
            except Exception as error:  # whatever it was: a task that is gone helps nobody
                failure = error
            if self._runtime.monotonic() - began_at >= _LIVELY_SECONDS:
                backoff.reset()
            self._tell(name, failure)
            await backoff.wait()

    def _tell(self, name: str, failure: Exception | None) -> None:
        ended = failure or RuntimeError("it came to its end")
        self.failures.append((name, ended))
        self._metrics.task_restarts.labels(name).inc()
        why = f"{type(ended).__name__}: {ended}"
        log.error("a task of growth failed and begins anew", task=name, error=why, exc_info=failure)
