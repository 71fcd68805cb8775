"""Leader election on a real API server: one leader, a fence that falls in time, and a quick handover."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.http import HttpTransport
from growth.kube.auth.kubeconfig import load_connection
from growth.kube.election import Election, ElectionThread, LeaseSettings
from growth.kube.fence import Fence
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.talking import wait_until

QUICK = LeaseSettings(
    namespace="default", duration_seconds=4, deadline_seconds=2.5, retry_seconds=0.5, request_seconds=0.4
)


@asynccontextmanager
async def contending(kubeconfig: Path, identity: str) -> AsyncIterator[Election]:
    runtime = SystemRuntime()
    async with HttpTransport(load_connection(runtime, kubeconfig)) as transport:
        election = Election(transport, runtime, identity, QUICK)
        task = asyncio.get_running_loop().create_task(election.run())
        try:
            yield election
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await election.release()


def test_of_two_one_leads_and_when_its_line_is_dead_the_other_follows(cluster: ControlPlane, proxy: Proxy) -> None:
    async def scene() -> None:
        first_line = cluster.kubeconfig_for("first", ["system:masters"], server=proxy.url)
        async with contending(first_line, "first") as first:
            await wait_until(first.fence.holds, lambda: "the first to lead")
            async with contending(cluster.kubeconfig, "second") as second:
                await wait_until(lambda: second.holder == "first", lambda: "the second to see who leads")
                proxy.silence()
                both = False
                deadline = time.monotonic() + 15
                while not second.fence.holds() and time.monotonic() < deadline:
                    await asyncio.sleep(0.02)
                    both = both or (first.fence.holds() and second.fence.holds())
                assert (first.fence.holds(), second.fence.holds(), both) == (False, True, False)
                proxy.forward()
                await wait_until(lambda: first.holder == "second", lambda: "the first to see that it was replaced")
                assert second.fence.holds()

    asyncio.run(scene())


def test_a_leader_that_leaves_hands_over_at_once(cluster: ControlPlane) -> None:
    async def scene() -> None:
        leaving = contending(cluster.kubeconfig, "first")
        first = await leaving.__aenter__()
        await wait_until(first.fence.holds, lambda: "the first to lead")
        async with contending(cluster.kubeconfig, "second") as second:
            await wait_until(lambda: second.holder == "first", lambda: "the second to wait")
            assert not second.fence.holds()
            await leaving.__aexit__(None, None, None)
            assert not first.fence.holds()
            await wait_until(second.fence.holds, lambda: "the second to lead", timeout_seconds=2.0)

    asyncio.run(scene())


def test_it_survives_a_restart_of_the_api_server_and_renews_while_the_main_loop_is_busy(cluster: ControlPlane) -> None:
    fence = Fence(time.monotonic)

    @asynccontextmanager
    async def open_election(fence: Fence) -> AsyncIterator[Election]:
        runtime = SystemRuntime()
        async with HttpTransport(load_connection(runtime, cluster.kubeconfig)) as transport:
            yield Election(transport, runtime, "threaded", QUICK, fence)

    thread = ElectionThread(fence, open_election)
    thread.start()
    cluster.wait_until(fence.holds, "the thread to lead")
    busy_until = time.monotonic() + 4
    while time.monotonic() < busy_until:  # pure Python, as a busy event loop would be
        assert fence.holds()
        sum(range(10_000))
    cluster.restart_apiserver(kill=True)
    cluster.wait_until(fence.holds, "the thread to lead again")
    thread.stop()
    assert not fence.holds()
    [lease] = cluster.objects("leases", "--namespace=default")
    assert not lease["spec"].get("holderIdentity")
