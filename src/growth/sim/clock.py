"""What time is it in the embedded world? Asked by everything in it: nothing waits, time jumps to the next timer.

`VirtualLoop` is an asyncio event loop without sockets or threads. When no callback is ready, its clock moves to the
next timer at once, and to exactly its time, so hours pass in milliseconds and the order of events depends on nothing
but the program: timers of one moment go off in the order they were set. Agents act on its timers: `after`, `every`,
`on_the_beat`, `Nudge`. `SimRuntime` is the Runtime that runs on it: one for each simulated process,
so that a process can be killed and another started."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import pickle
import random
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, Final, TypeVar, cast

from growth.runtime import Servant, Spawned

Result = TypeVar("Result")

FOREVER_SECONDS: Final = 1e9
_ABOUT_NOW: Final = 1e-6  # in beats: rounding does not make two of one
_CANCELLED_KEPT: Final = 100  # timers; more are swept out once they are half of all
START_OF_TIME: Final = 1_767_225_600.0  # 2026-01-01 00:00:00 UTC


class Stalled(Exception):  # noqa: N818  (says what happened)
    """Nothing is ready and no timer is set: what waits would wait for ever."""


class OrderedTask(asyncio.Task[Result]):
    """A task with a hash from a counter: sets of tasks come out in the same order in every run."""

    def __init__(self, work: Coroutine[Any, Any, Result], order: int, **keywords: Any) -> None:
        self._order = order
        super().__init__(work, **keywords)

    def __hash__(self) -> int:
        return self._order

    def __eq__(self, other: object) -> bool:
        return self is other


class _Timer(TimerHandle):
    """A timer that knows whether it is still set."""

    __slots__ = ("is_set",)
    is_set: bool


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is virtual and starts at zero. Timers are kept apart from those of its base, by time and
    order of setting: most of what a resting world does is to wait.
    """

    _ready: deque[Handle]  # of the base
    _stopping: bool  # of the base

    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._cancelled = 0
        self._tasks_made = 0
        self.failures: list[BaseException] = []
        self.on_leap: Callable[[float], None] = lambda _when: None  # told where the clock is about to move; may wait
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]  # the protocol spells out every overload
        self.set_exception_handler(self._keep_failure)

    def time(self) -> float:
        return self._seconds

    def call_soon(  # type: ignore[override]  # as below
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """As the base does it, with nothing around it."""
        if self.is_closed():
            raise RuntimeError("the loop is closed")
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]  # as below
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return self.call_at(self._seconds + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # the types of the arguments are the caller's business
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        timer.is_set = True
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def _timer_handle_cancelled(self, handle: _Timer) -> None:
        self._cancelled += handle.is_set
        if self._cancelled > _CANCELLED_KEPT and 2 * self._cancelled > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2] is not handle and not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _run_once(self) -> None:
        """What is ready now, each once; if nothing is, first the clock moves to the next timer."""
        ready = self._ready
        if not ready and not self._stopping:
            self._leap()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _leap(self) -> None:
        """To the next timer that was not cancelled, and all of its moment are ready."""
        timers, ready = self._timers, self._ready
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled -= 1
        if timers:
            self.on_leap(timers[0][0])
        while timers and (not ready or timers[0][0] <= self._seconds):
            when, _, timer = heapq.heappop(timers)
            if timer._cancelled:
                self._cancelled -= 1
            else:
                self._seconds = max(self._seconds, when)
                timer.is_set = False
                ready.append(timer)
        if not ready:
            raise Stalled("nothing is ready and no timer is set")

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **keywords: Any
    ) -> asyncio.Task[Any]:
        self._tasks_made += 1
        return OrderedTask(work, self._tasks_made, loop=loop, **keywords)

    def _keep_failure(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(context.get("exception") or RuntimeError(context["message"]))

    def _write_to_self(self) -> None:
        """No thread sleeps in a selector, so none needs waking."""


def run_virtual(
    work: Coroutine[Any, Any, Result],
    on_leap: Callable[[float], None] | None = None,
    make_loop: Callable[[], VirtualLoop] = VirtualLoop,
) -> Result:
    """Run to the end in virtual time, on a fresh loop; a failure in any callback is raised. However it ends, no task is
    left behind: it would wake when it is collected, in the middle of something else. `on_leap` hears of every move of
    the clock before it is made, and may wait, or raise to end it all.
    """
    loop = make_loop()
    if on_leap is not None:
        loop.on_leap = on_leap
    try:
        try:
            result = loop.run_until_complete(work)
        finally:
            loop.on_leap = lambda _when: None
            _cancel_rest(loop)
        if loop.failures:
            raise loop.failures[0]
        return result
    finally:
        loop.close()


def _cancel_rest(loop: VirtualLoop) -> None:
    left = sorted(asyncio.all_tasks(loop), key=hash)
    for task in left:
        task.cancel()
    loop.run_until_complete(_all_ended(left))
    loop.run_until_complete(loop.shutdown_asyncgens())


async def _all_ended(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class SimRuntime:
    """The Runtime of one simulated process. `skew_seconds` steps its wall clock; `kill` ends it at once."""

    def __init__(self, seed: str, solve_seconds: float = 0.0) -> None:
        self.failures: list[tuple[str, BaseException]] = []
        self.skew_seconds = 0.0
        self.solve_seconds = solve_seconds
        self.paused_until = 0.0  # by the loop's clock: as after SIGSTOP
        self.solver_hangs: Callable[[], bool] = lambda: False
        self.is_dead = False
        self.on_offload: Callable[[Any, Any], None] = lambda _asked, _answer: None  # sees heavy work and its answer
        self._loop = asyncio.get_running_loop()
        self.monotonic: Callable[[], float] = self._loop.time
        self._chance = random.Random(seed)
        self._ids = random.Random(f"{seed}/ids")
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def now(self) -> float:
        return START_OF_TIME + self._loop.time() + self.skew_seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.wait_while_paused()

    async def wait_while_paused(self) -> None:
        """Until the process goes on, if it stands still."""
        if self._loop.time() < self.paused_until:
            await asyncio.sleep(self.paused_until - self._loop.time())

    async def within(self, seconds: float, work: Awaitable[Result]) -> Result:
        """As `asyncio.timeout` does it, with less around it: every wait of every watch goes through here."""
        loop, task, is_over = self._loop, cast(asyncio.Task[Any], asyncio.current_task(self._loop)), False

        def expire() -> None:
            nonlocal is_over
            is_over = task.cancel()

        before = task.cancelling()
        timer = loop.call_later(seconds, expire) if seconds > 0 else loop.call_soon(expire)
        try:
            return await work
        except asyncio.CancelledError:
            if is_over and task.cancelling() - 1 <= before:
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
            if is_over:
                task.uncancel()

    def spawn(self, name: str, work: Coroutine[Any, Any, Result]) -> Spawned:
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._finished)
        if self.is_dead:
            task.cancel()
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.is_dead:
            self.failures.append((task.get_name(), error))

    async def offload(self, longest_seconds: float, function: Callable[..., Result], *arguments: Any) -> Result:
        """As in a worker process: what cannot be pickled cannot travel."""
        takes = self.solve_seconds if not self.solver_hangs() else FOREVER_SECONDS
        await asyncio.sleep(min(takes, longest_seconds))
        if takes > longest_seconds:
            raise TimeoutError
        await self.wait_while_paused()
        result: Result = _travelled(function(*_travelled(arguments)))
        self.on_offload(arguments[0] if arguments else None, result)
        return result

    def servant(self, begin: Callable[[], Callable[[Any], Any]]) -> Servant:
        return _SimServant(self, begin)

    async def in_thread(self, function: Callable[[], Result]) -> Result:
        return function()

    def jitter(self) -> float:
        return self._chance.random()

    def new_id(self) -> str:
        return f"{self._ids.getrandbits(128):032x}"

    def kill(self) -> None:
        """As kill -9: every task ends at its next step. The caller shuts the process's doors to the world."""
        self.is_dead = True
        for task in list(self._tasks):
            task.cancel()


class _SimServant:
    """Ended when it hangs, as its process would be; then it begins anew."""

    def __init__(self, runtime: SimRuntime, begin: Callable[[], Callable[[Any], Any]]) -> None:
        self._runtime, self._begin = runtime, begin
        self._kept = begin()

    async def ask(self, longest_seconds: float, question: Any) -> Any:
        try:
            return await self._runtime.offload(longest_seconds, self._answer, question)
        except TimeoutError:
            self._kept = self._begin()
            raise

    def _answer(self, question: Any) -> Any:
        return self._kept(question)


def _travelled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301  (our own, a moment ago)


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


def on_the_beat(seconds: float, work: Callable[[], object]) -> None:
    """Call `work` once, at the next whole multiple of `seconds`."""
    loop = asyncio.get_running_loop()
    loop.call_at((math.floor(loop.time() / seconds + _ABOUT_NOW) + 1) * seconds, work)
