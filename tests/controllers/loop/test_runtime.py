"""Work in the worker process ends in time, with its process where it must, and the next work is done all the same."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from growth.controllers.loop.runtime import SystemRuntime, run_loop


def test_work_that_does_not_come_back_is_ended_with_its_process_and_the_next_is_done() -> None:
    async def run() -> None:
        runtime = SystemRuntime()
        assert await runtime.offload(60.0, max, 1, 2) == 2
        [process] = runtime.worker.ensure()._processes.values()
        with pytest.raises(TimeoutError):
            await runtime.offload(0.3, time.sleep, 3600)
        process.join(20)
        assert not process.is_alive()
        assert await runtime.offload(60.0, max, 3, 4) == 4
        runtime.close()

    asyncio.run(run())


def test_a_worker_that_has_grown_gives_way_to_a_new_one_and_others_stay() -> None:
    async def run(most_worker_mib: int) -> set[int]:
        runtime = SystemRuntime(most_worker_mib)
        numbers = {await runtime.offload(60.0, os.getpid) for _ in range(3)}
        runtime.close()
        return numbers

    assert len(asyncio.run(run(most_worker_mib=1))) == 3
    assert len(asyncio.run(run(most_worker_mib=10_000))) == 1


class Counting:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.sum = 0

    def __call__(self, number: float) -> int:
        if number < 0:
            time.sleep(-number)
        self.sum += 1
        return self.sum


def test_a_servant_keeps_what_it_has_learned_until_it_is_ended() -> None:
    async def run() -> list[int]:
        runtime = SystemRuntime()
        servant, other = runtime.servant(Counting), runtime.servant(Counting)
        counted = [await servant.ask(60.0, 1), await servant.ask(60.0, 1), await other.ask(60.0, 1)]
        with pytest.raises(TimeoutError):
            await servant.ask(0.3, -3600)
        counted.append(await servant.ask(60.0, 1))
        runtime.close()
        return counted

    assert asyncio.run(run()) == [1, 2, 1, 1]


@pytest.mark.parametrize(("platform", "library"), [("linux", "uvloop"), ("win32", "asyncio")])
def test_growth_runs_on_uvloop_where_it_can_be_had(
    platform: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def of_loop() -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    monkeypatch.setattr(sys, "platform", platform)
    assert run_loop(of_loop()) == library
