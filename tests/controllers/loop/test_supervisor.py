"""A task that ends is begun anew, with pauses, and told of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise

from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.supervisor import Supervisor
from growth.sim.clock import SimRuntime, run_virtual


def supervised(test: Callable[[Supervisor, SimRuntime], Awaitable[None]]) -> None:
    async def run() -> None:
        runtime = SimRuntime("supervisor")
        await test(Supervisor(runtime, Metrics(runtime)), runtime)
        assert runtime.failures == []

    run_virtual(run())


def test_a_task_that_fails_begins_anew_after_pauses_that_grow_and_each_time_counts() -> None:
    async def test(supervisor: Supervisor, runtime: SimRuntime) -> None:
        began_at: list[float] = []

        async def fails() -> None:
            began_at.append(runtime.monotonic())
            raise KeyError("code")

        supervisor.keep("list", fails)
        await runtime.sleep(3600)
        pauses = [later - sooner for sooner, later in pairwise(began_at)]
        assert max(pauses) <= 60 < 4 * min(pauses[6:])
        assert pauses[0] <= 1
        assert supervisor.why_not_alive() == ""
        assert supervisor.failures[-1][0] == "list"
        counted = supervisor._metrics.registry.get_sample_value("growth_task_restarts_total", {"task": "list"})
        assert counted == len(began_at) - (runtime.monotonic() == began_at[-1])

    supervised(test)


def test_a_task_that_comes_to_its_end_is_begun_anew_too_until_it_is_ended() -> None:
    async def test(supervisor: Supervisor, runtime: SimRuntime) -> None:
        times = 0

        async def ends() -> None:
            nonlocal times
            times += 1

        task = supervisor.keep("watch", ends)
        await runtime.sleep(10)
        assert times > 2
        supervisor.end("watch")
        await runtime.sleep(0)
        before = times
        await runtime.sleep(600)
        assert (times, task.done(), supervisor.why_not_alive()) == (before, True, "")

    supervised(test)


def test_a_task_that_somebody_else_ended_is_named() -> None:
    async def test(supervisor: Supervisor, runtime: SimRuntime) -> None:
        task = supervisor.keep("loop", lambda: runtime.sleep(1e6))
        await runtime.sleep(1)
        task.cancel()
        await runtime.sleep(1)
        assert supervisor.why_not_alive() == "a task has ended: loop"

    supervised(test)
