"""How does growth wait, and work on several things at once? The real Runtime (asyncio, the system clocks, one worker
process for heavy, pure work, one more for each servant that keeps what it learns), and what is built on any Runtime:
`Signal` and `work_through`."""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from growth.controllers.loop.workers import Begin, ask_kept, end_workers, held_mib, open_workers
from growth.model.settings import Settings
from growth.runtime import Runtime, Servant

Result = TypeVar("Result")
Item = TypeVar("Item")

_MOST_SERVANT_MIB: Final = 800  # of one that keeps what it has learned, which is much of it
_THREADS: Final = 8  # for synchronous clients; the default ones stay free for name lookups

log = structlog.get_logger(__name__)


def run_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Where it can be had, on uvloop: its TLS reserves nothing for the 64 connections until they read, 13 MiB less."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop  # noqa: PLC0415  (not made for Windows)

    return uvloop.run(work)


class _Worker:
    """One process beside us, begun with the first work. Work that takes too long is ended with it; one that has died or
    grown gives way to a new one.
    """

    def __init__(self, most_mib: int, begin: Begin | None = None) -> None:
        self._most_mib = most_mib
        self._begin = begin
        self._pool: ProcessPoolExecutor | None = None

    async def do(self, longest_seconds: float, function: Callable[..., Result], *arguments: Any) -> Result:
        try:
            async with asyncio.timeout(longest_seconds):
                try:
                    return await self._in_worker(function, *arguments)
                except BrokenProcessPool:  # the worker died (out of memory, say): once more with a new one
                    self._pool = None
                    return await self._in_worker(function, *arguments)
        except TimeoutError:
            self._end()
            raise
        finally:
            self._let_go_if_grown()

    async def ask(self, longest_seconds: float, question: Any) -> Any:
        """Of what is kept in the worker."""
        return await self.do(longest_seconds, ask_kept, question)

    async def _in_worker(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.ensure(), function, *arguments)

    def _end(self) -> None:
        """The next work begins a new one."""
        pool, self._pool = self._pool, None
        if pool is not None:
            end_workers(pool)

    def _let_go_if_grown(self) -> None:
        """A worker that has grown ends when its work is done, and the next work begins a new one."""
        pool = self._pool
        if pool is not None and (held := held_mib(pool)) > self._most_mib:
            log.info("the worker process has grown, the next work begins a new one", mib=held)
            self._pool = None
            pool.shutdown(wait=False)

    def ensure(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = open_workers(1, self._begin)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class SystemRuntime:
    """Clock, sleep, tasks and off-loading of a running process."""

    def __init__(self, most_worker_mib: int = Settings().solve_memory_mib) -> None:
        """A large question may leave the worker with memory that it never gives back: one that holds more ends."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.worker = _Worker(most_worker_mib)
        self._servants: list[_Worker] = []
        self._threads: ThreadPoolExecutor | None = None

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def within(self, seconds: float, work: Awaitable[Result]) -> Result:
        async with asyncio.timeout(seconds):
            return await work

    def spawn(self, name: str, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)  # the event loop itself keeps only weak references
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a task failed", task=task.get_name(), exc_info=error)

    async def offload(self, longest_seconds: float, function: Callable[..., Result], *arguments: Any) -> Result:
        return await self.worker.do(longest_seconds, function, *arguments)

    def servant(self, begin: Begin) -> Servant:
        self._servants.append(_Worker(_MOST_SERVANT_MIB, begin))
        return self._servants[-1]

    async def in_thread(self, function: Callable[[], Result]) -> Result:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "growth-call")
        work = partial(copy_context().run, function)  # a thread belongs to the same term as the one that asks
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def jitter(self) -> float:
        return random.random()  # noqa: S311  (spreads retries, guards nothing)

    def new_id(self) -> str:
        return uuid.uuid4().hex

    def close(self) -> None:
        for worker in (self.worker, *self._servants):
            worker.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class Signal:
    """A wake-up to wait for, with a limit. Set from anywhere on the loop's thread; stays set until cleared."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, longest_seconds: float) -> None:
        try:
            await self._runtime.within(longest_seconds, self._event.wait())
        except TimeoutError:
            return


async def work_through(
    runtime: Runtime, name: str, items: Iterable[Item], at_once: int, perform: Callable[[Item], Awaitable[None]]
) -> None:
    """Perform it for each item, in order, with at most `at_once` workers at a time; return when all are done."""
    waiting = deque(items)

    async def work() -> None:
        while waiting:
            await perform(waiting.popleft())

    for worker in [runtime.spawn(name, work()) for _ in range(min(at_once, len(waiting)))]:
        await worker
