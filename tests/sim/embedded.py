"""An embedded API server and cluster for tests: make one, run a test in virtual time, talk to it with growth's own
client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from growth.kube.api.client import Client
from growth.kube.api.resources import Resource
from growth.sim.apiserver.server import ApiServer
from growth.sim.clock import SimRuntime, run_virtual
from growth.sim.cluster import Cluster, World

Result = TypeVar("Result")


class Bench:
    """An API server alone, and a client on it."""

    def __init__(self, **options: Any) -> None:
        self.runtime = SimRuntime("test")
        self.api = ApiServer(self.runtime, "test", **options)
        self.client = Client(self.api, self.runtime)

    async def read(self, resource: Resource, name: str, namespace: str = "") -> Any:
        return msgspec.json.decode(await self.client.get(resource, name, namespace))


def on_api_server(test: Callable[[Bench], Awaitable[Result]], **options: Any) -> Result:
    async def run() -> Result:
        return await test(Bench(**options))

    return run_virtual(run())


def in_cluster(test: Callable[[Cluster], Awaitable[Result]], world: World | None = None, seed: str = "test") -> Result:
    async def run() -> Result:
        return await test(Cluster(seed, world))

    return run_virtual(run())


def phases(cluster: Cluster) -> dict[str, int]:
    """How many pods are in which phase."""
    counted: dict[str, int] = {}
    for pod in cluster.objects("Pod"):
        phase = pod["status"]["phase"]
        counted[phase] = counted.get(phase, 0) + 1
    return counted
