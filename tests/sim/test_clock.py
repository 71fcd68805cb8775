"""Virtual time: no waiting, one order of events, failures that are not lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from growth.sim.clock import START_OF_TIME, SimRuntime, Stalled, on_the_beat, run_virtual


def test_an_hour_of_sleep_takes_no_time() -> None:
    async def work() -> tuple[float, float]:
        runtime = SimRuntime("clock")
        await runtime.sleep(3600)
        return runtime.monotonic(), runtime.now()

    began = time.monotonic()
    assert run_virtual(work()) == (3600.0, START_OF_TIME + 3600)
    assert time.monotonic() - began < 5


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    async def work() -> list[tuple[float, str]]:
        runtime, woken = SimRuntime("clock"), []

        async def sleeper(name: str, seconds: float) -> None:
            await runtime.sleep(seconds)
            woken.append((runtime.monotonic(), name))

        tasks = [
            runtime.spawn(name, sleeper(name, seconds)) for name, seconds in [("c", 3), ("a", 1), ("b", 2), ("a2", 1)]
        ]
        for task in tasks:
            await task
        return woken

    assert run_virtual(work()) == [(1, "a"), (1, "a2"), (2, "b"), (3, "c")]


def test_a_timeout_cancels_work_at_its_virtual_moment() -> None:
    async def work() -> float:
        runtime = SimRuntime("clock")
        with pytest.raises(TimeoutError):
            await runtime.within(5, runtime.sleep(60))
        return runtime.monotonic()

    assert run_virtual(work()) == 5.0


def test_waiting_for_nothing_is_an_error_and_not_a_hang() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled):
        run_virtual(work())


def test_sets_of_tasks_come_in_the_order_they_were_made() -> None:
    async def work() -> list[str]:
        tasks = [asyncio.create_task(asyncio.sleep(1), name=f"task {number}") for number in range(50)]
        done, _ = await asyncio.wait(tasks)
        return [task.get_name() for task in done]

    assert run_virtual(work()) == run_virtual(work())


def test_a_failing_callback_fails_the_run() -> None:
    async def work() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(ZeroDivisionError):
        run_virtual(work())


def test_a_run_that_fails_leaves_no_task_behind() -> None:
    ended = []

    async def companion() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    async def work() -> None:
        SimRuntime("clock").spawn("companion", companion())
        await asyncio.sleep(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_virtual(work())
    assert ended == ["cancelled"]


def test_a_failing_task_is_recorded_with_its_name() -> None:
    async def work() -> list[tuple[str, BaseException]]:
        runtime = SimRuntime("clock")

        async def fail() -> None:
            raise ValueError("lost")

        _ = runtime.spawn("the failing one", fail())
        await runtime.sleep(1)
        return runtime.failures

    [(name, error)] = run_virtual(work())
    assert name == "the failing one"
    assert str(error) == "lost"


def test_chance_and_ids_come_from_the_seed() -> None:
    async def draw(seed: str) -> tuple[float, str]:
        runtime = SimRuntime(seed)
        return runtime.jitter(), runtime.new_id()

    assert run_virtual(draw("7")) == run_virtual(draw("7"))
    assert run_virtual(draw("7")) != run_virtual(draw("8"))


def test_a_killed_process_does_nothing_more() -> None:
    async def work() -> list[float]:
        runtime, beats = SimRuntime("clock"), []

        async def beat() -> None:
            while True:
                await runtime.sleep(1)
                beats.append(runtime.monotonic())

        _ = runtime.spawn("beat", beat())
        await asyncio.sleep(3.5)
        runtime.kill()
        await asyncio.sleep(10)
        return beats

    assert run_virtual(work()) == [1.0, 2.0, 3.0]


def test_offloaded_work_takes_virtual_time() -> None:
    async def work() -> tuple[int, float]:
        runtime = SimRuntime("clock", solve_seconds=0.5)
        return await runtime.offload(60.0, max, 1, 2), runtime.monotonic()

    assert run_virtual(work()) == (2, 0.5)


def test_the_beat_is_the_next_whole_multiple_also_after_many_roundings() -> None:
    async def work() -> list[float]:
        runtime, heard = SimRuntime("clock"), list[float]()

        def beat() -> None:
            heard.append(asyncio.get_running_loop().time())
            on_the_beat(5.0, beat)

        for _ in range(70):
            await runtime.sleep(0.1)
        on_the_beat(5.0, beat)
        await runtime.sleep(14)
        return heard

    assert run_virtual(work()) == [10.0, 15.0, 20.0]


def test_timers_that_were_cancelled_never_go_off_and_are_swept_out() -> None:
    async def work() -> tuple[list[int], int]:
        loop, heard = asyncio.get_running_loop(), list[int]()
        timers = [loop.call_later(10, heard.append, number) for number in range(1000)]
        for number, timer in enumerate(timers):
            if number % 100:
                timer.cancel()
        kept = len(loop._timers)  # type: ignore[attr-defined]
        await asyncio.sleep(11)
        return heard, kept

    heard, kept = run_virtual(work())
    assert heard == list(range(0, 1000, 100))
    assert kept < 300
