"""How do we compute in other processes, and end them? Used by the real runtime (the solver) and by sweeps of worlds.

They are spawned, never forked: a fork would copy locks that threads of the event loop may hold. An interrupt from the
keyboard reaches every process of a terminal: workers ignore it, and whoever began them ends them. They log nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, TypeAlias

Begin: TypeAlias = Callable[[], Callable[[Any], Any]]


def open_workers(count: int = 0, begin: Begin | None = None) -> ProcessPoolExecutor:
    """So many, or as many as there are processors, for work that logs nothing by itself. What `begin` returns is kept
    in each: `ask_kept` asks it.
    """
    return ProcessPoolExecutor(count or os.cpu_count() or 1, _Quietly(), initializer=_begin, initargs=(begin,))


class _DeafToInterrupts(SpawnProcess):
    """Ctrl-C reaches every process of a terminal: this one hears nothing of it from its very first moment, also while
    it still imports what it needs. Its parent ends it.
    """

    def start(self) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # what is blocked stays so in a child
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Quietly(SpawnContext):
    Process = _DeafToInterrupts


_kept: list[Callable[[Any], Any]] = []  # in the worker process alone


def _begin(begin: Begin | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        _kept.append(begin())


def _begin_in_silence() -> None:
    from growth.controllers.loop.journal import be_quiet  # noqa: PLC0415  (14 MiB, which the solver can do without)

    _begin(None)
    be_quiet()


def ask_kept(question: Any) -> Any:
    """In the worker process: what was begun there answers."""
    return _kept[0](question)


def end_workers(workers: ProcessPoolExecutor) -> None:
    """At once: work in a process cannot be told to stop, but its process can be ended."""
    for process in list(workers._processes.values()):  # there is no public way to them
        process.kill()
    workers.shutdown(wait=False, cancel_futures=True)


def held_mib(workers: ProcessPoolExecutor) -> int:
    """The most memory that any of them holds now; 0 where the system does not say."""
    held = 0
    for number in list(workers._processes or ()):
        with suppress(OSError, ValueError, IndexError):  # it may have ended meanwhile
            pages = int(Path(f"/proc/{number}/statm").read_text().split()[1])
            held = max(held, pages * os.sysconf("SC_PAGE_SIZE") // (1 << 20))
    return held


@contextmanager
def working(count: int = 0) -> Iterator[ProcessPoolExecutor]:
    """Workers for whole worlds, as long as they are needed; what is interrupted ends at once, with all of them."""
    workers = ProcessPoolExecutor(count or os.cpu_count() or 1, _Quietly(), initializer=_begin_in_silence)
    try:
        yield workers
    except BaseException:
        end_workers(workers)
        raise
    workers.shutdown()
