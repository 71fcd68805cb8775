"""The embedded API server behind HTTP, in a process of its own, full of pods that change all the time. For
`bench.scale --embedded`.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe

from aiohttp import web

from bench.manifests import pod_text
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.transport import Request
from growth.sim.apiserver.kinds import NODE, POD
from growth.sim.apiserver.objects import node
from growth.sim.apiserver.server import ApiServer

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
