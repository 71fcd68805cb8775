"""Does growth stay small and quick next to a large cluster? 100,000 pods on 5,000 nodes, through transport, watches and
caches.

    python -m bench.scale --embedded [--pods 100000 --nodes 5000 --seconds 20] [--json]

The API server is the embedded one, behind HTTP in a process of its own; pods change all the time. Everything of growth
is real: client, reflectors, caches, loop, and the lease on its own thread. `stall` is how late a timer of the event
loop fires, `lease late` how much later than asked a renewal came, `tick at rest` the CPU time of a turn of the loop in
which nothing changed."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import multiprocessing
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection as Pipe

import structlog
from aiohttp import web

from bench.manifests import pod_text
from bench.report import Report, main, measured, parser, resident_mib
from growth.controllers.growth import Growth, Installation
from growth.controllers.loop.loop import Loop
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.http import HttpTransport
from growth.kube.api.transport import Request
from growth.kube.auth.credentials import Connection, Credential
from growth.kube.election import Election, ElectionThread, LeaseSettings
from growth.kube.fence import Fence
from growth.providers.catalogue import built_in_catalogue
from growth.providers.kwok import KwokProvider
from growth.sim.apiserver.kinds import NODE, POD
from growth.sim.apiserver.objects import node
from growth.sim.apiserver.server import ApiServer

_TIMER_SECONDS = 0.01
_QUIET_TICKS = 200


class Nobody:
    """The benchmark's server asks for no credentials."""

    async def current(self) -> Credential:
        return Credential()

    def refused(self, credential: Credential) -> None:
        raise AssertionError(f"the server refused {credential}")


class TimedFence(Fence):
    """A fence that remembers when the lease was renewed."""

    def __init__(self) -> None:
        super().__init__(time.monotonic)
        self.renewed_at: list[float] = []

    def extend(self, until: float) -> None:
        super().extend(until)
        self.renewed_at.append(time.monotonic())

    def latest_seconds(self, retry_seconds: float) -> float:
        gaps = [after - before for before, after in zip(self.renewed_at, self.renewed_at[1:], strict=False)]
        return max((gap - retry_seconds for gap in gaps), default=float("inf"))


def run(chosen: argparse.Namespace) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    report = Report(f"{chosen.pods:,} pods on {chosen.nodes:,} nodes")
    with served_cluster(chosen.pods, chosen.nodes, chosen.changes) as address:
        asyncio.run(_measure(report, f"pods_{chosen.pods}", address, chosen.seconds))
    return report


async def _measure(report: Report, case: str, address: str, seconds: float) -> None:
    runtime, fence = SystemRuntime(), TimedFence()
    lateness: list[float] = []
    connection = Connection(address, lambda: b"", Nobody())
    lease = LeaseSettings(namespace="default")

    @asynccontextmanager
    async def open_election(own: Fence) -> AsyncIterator[Election]:
        async with HttpTransport(connection) as transport:
            yield Election(transport, runtime, "bench", lease, own)

    thread = ElectionThread(fence, open_election)
    thread.start()
    async with HttpTransport(connection) as transport:
        growth = Growth(
            transport,
            runtime,
            lambda client, _: KwokProvider(client, runtime, built_in_catalogue()),
            Installation(),
            fence,
        )
        stalls = asyncio.create_task(_watch_timer(lateness))
        running = asyncio.create_task(growth.run())
        with measured() as filled:
            loop = await _started(growth)
        gc.collect()
        gc.freeze()
        with measured() as steady:
            await asyncio.sleep(seconds)
        tick_seconds = await _tick_at_rest(loop)
        for task in (stalls, running):
            task.cancel()
    await asyncio.to_thread(thread.stop)
    runtime.close()
    report.add(
        case,
        fill_cpu_seconds=filled.cpu_seconds,
        steady_cpu_share=steady.cpu_seconds / steady.wall_seconds,
        mib=resident_mib(),
    )
    report.add(
        case,
        tick_ms=1000 * tick_seconds,
        stall_p999_ms=1000 * _quantile(lateness, 0.999),
        lease_late_seconds=fence.latest_seconds(lease.retry_seconds),
    )
    for figure, most in {"mib": 600.0, "tick_ms": 10.0, "stall_p999_ms": 200.0, "lease_late_seconds": 2.0}.items():
        report.limit(case, figure, most)


async def _watch_timer(lateness: list[float]) -> None:
    while True:
        began_at = time.perf_counter()
        await asyncio.sleep(_TIMER_SECONDS)
        lateness.append(time.perf_counter() - began_at - _TIMER_SECONDS)


async def _started(growth: Growth) -> Loop:
    """The loop, once the caches are full and growth leads."""
    while True:
        if growth.loop is not None:
            return growth.loop
        await asyncio.sleep(0.05)


async def _tick_at_rest(loop: Loop) -> float:
    """CPU seconds of a turn in which no row has a reason to look, and of one snapshot."""
    spent = []
    for _ in range(_QUIET_TICKS):
        began_at = time.thread_time()
        loop.observer.snapshot()
        await loop.tick()
        spent.append(time.thread_time() - began_at)
    return statistics.median(spent)


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


def _arguments() -> argparse.ArgumentParser:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--embedded", action="store_true", help="against the embedded API server (the only one there is so far)"
    )
    arguments.add_argument("--pods", type=int, default=100_000)
    arguments.add_argument("--nodes", type=int, default=5_000)
    arguments.add_argument("--changes", type=float, default=200.0, help="pod changes a second")
    arguments.add_argument("--seconds", type=float, default=20.0, help="how long to look on")
    return arguments


# --------------------------------------------------------------- the API server, in its own process

TEMPLATES = 1_200


@contextmanager
def served_cluster(pods: int, nodes: int, changes_per_second: float) -> Iterator[str]:
    """The address of an API server that holds so much, and in which pods change all the time."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(theirs, pods, nodes, changes_per_second), daemon=True
    )
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join(10)


def _serve(pipe: Pipe, pods: int, nodes: int, changes_per_second: float) -> None:
    asyncio.run(_serve_for_ever(pipe, pods, nodes, changes_per_second))


async def _serve_for_ever(pipe: Pipe, pods: int, nodes: int, changes_per_second: float) -> None:
    server = ApiServer(SystemRuntime())
    _fill(server, pods, nodes)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", lambda request: _answer(server, request))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
    number = 0
    while True:
        await asyncio.sleep(1 / changes_per_second)
        number = (number + 7919) % pods
        _touch(server, number)


def _fill(server: ApiServer, pods: int, nodes: int) -> None:
    for number in range(nodes):
        server.verbs.create(NODE, node(_node_name(number), cpu="64", memory="256Gi"), "bench")
    for number in range(pods):
        item = json.loads(pod_text(number, number % TEMPLATES, number % nodes))
        item["spec"]["nodeName"] = _node_name(number % nodes)
        item["metadata"]["namespace"] = "default"
        for field in ("uid", "resourceVersion", "managedFields"):
            item["metadata"].pop(field, None)
        server.verbs.create(POD, item, "bench")


def _node_name(number: int) -> str:
    return f"pool-{number % 12}-pool-{number:012x}"


def _touch(server: ApiServer, number: int) -> None:
    """A pod's status changes as a kubelet would change it: seen by every watch, of no interest to growth."""
    name = json.loads(pod_text(number, number % TEMPLATES, 0))["metadata"]["name"]

    def change(item: dict[str, object]) -> None:
        item["status"] = {**item["status"], "startTime": f"2026-03-01T00:00:{number % 60:02}Z"}  # type: ignore[dict-item]

    server.verbs.modify(POD, name, "default", change, "bench", "status")


async def _answer(server: ApiServer, request: web.Request) -> web.StreamResponse:
    headers = {name.lower(): value for name, value in request.headers.items()}
    found = await server.send(Request(request.method, request.raw_path, headers, await request.read()))
    response = web.StreamResponse(status=found.status, headers={"content-type": "application/json"})
    await response.prepare(request)
    try:
        async for chunk in found.chunks():
            await response.write(chunk)
    except ConnectionResetError:
        pass  # the benchmark has seen enough
    finally:
        await found.close()
    return response


if __name__ == "__main__":
    sys.exit(main(_arguments(), run))
