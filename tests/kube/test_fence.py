"""What leaves is fenced, not only what begins: by the lease, by the term it began in, by the time it was decided."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from growth.kube.api.client import Client
from growth.kube.api.errors import EffectUnknown, NotLeader
from growth.kube.api.resources import NODES
from growth.kube.api.transport import Request, Response, Withheld
from growth.kube.fence import Fence, OpenFence, belong_to_no_term
from growth.sim.apiserver.streams import Answer
from growth.sim.clock import SimRuntime, run_virtual


class Waiting:
    """Waits, as for credentials, before it asks whether the request may leave; then the line is slow."""

    def __init__(self, runtime: SimRuntime, before: float = 0.0, after: float = 0.0) -> None:
        self.sent: list[str] = []
        self._runtime, self._before, self._after = runtime, before, after

    async def send(self, request: Request) -> Response:
        await self._runtime.sleep(self._before)
        if request.may_leave is not None and not request.may_leave():
            raise Withheld("no")
        self.sent.append(request.method)
        await self._runtime.sleep(self._after)
        return Answer(200, b"{}")


def client_of(line: Waiting, runtime: SimRuntime, fence: Fence) -> Client:
    return Client(line, runtime, may_write=fence.holds, write_seconds=fence.seconds_left)


def test_a_write_that_waited_until_the_fence_fell_does_not_leave_and_a_read_does() -> None:
    async def test() -> None:
        runtime = SimRuntime("fence")
        fence, line = Fence(runtime.monotonic), Waiting(runtime, before=2.0)
        fence.extend(1.0)
        with pytest.raises(NotLeader):
            await client_of(line, runtime, fence).delete(NODES, "a")
        await client_of(line, runtime, fence).get(NODES, "a")
        assert line.sent == ["GET"]

    run_virtual(test())


def test_a_write_ends_before_another_process_can_lead() -> None:
    async def test() -> None:
        runtime = SimRuntime("fence")
        fence = Fence(runtime.monotonic, gap_seconds=5.0)
        fence.extend(4.0)
        with pytest.raises(EffectUnknown):
            await client_of(Waiting(runtime, after=22.0), runtime, fence).delete(NODES, "a")
        assert runtime.monotonic() == 9.0

    run_virtual(test())


def test_what_was_begun_in_an_earlier_term_is_not_finished() -> None:
    async def test() -> None:
        runtime = SimRuntime("fence")
        fence = Fence(runtime.monotonic)
        fence.extend(10.0)

        async def work() -> list[bool]:
            fence.enter_term()
            said = [fence.holds()]
            await asyncio.sleep(20)
            fence.extend(runtime.monotonic() + 10)  # won again, after another may have led
            belonging = contextvars.copy_context()
            belonging.run(belong_to_no_term)
            return [*said, fence.holds(), belonging.run(fence.holds)]

        assert await asyncio.get_running_loop().create_task(work()) == [True, False, True]
        assert fence.holds()
        assert fence.term == 2

    run_virtual(test())


def test_what_should_have_left_within_a_second_does_not_leave_later() -> None:
    async def test() -> None:
        runtime = SimRuntime("fence")
        fence = OpenFence(runtime.monotonic)
        with fence.leaving_within(1.0):
            assert fence.holds()
            await runtime.sleep(1.5)
            assert not fence.holds()
        assert fence.holds()
        assert fence.seconds_left() == float("inf")

    run_virtual(test())
