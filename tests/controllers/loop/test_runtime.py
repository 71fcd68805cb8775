"""Work in the worker process ends in time, with its process where it must, and the next work is done all the same."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from growth.controllers.loop.runtime import SystemRuntime


def test_work_that_does_not_come_back_is_ended_with_its_process_and_the_next_is_done() -> None:
    async def run() -> None:
        runtime = SystemRuntime()
        assert await runtime.offload(60.0, max, 1, 2) == 2
        [process] = runtime._ensure_worker()._processes.values()
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
