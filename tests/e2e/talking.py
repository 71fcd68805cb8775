"""How e2e tests speak to the real cluster through growth's own client: connections, a cache that remembers, and
waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.http import HttpTransport
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import Resource
from growth.kube.auth.kubeconfig import load_connection
from growth.kube.watch.reflector import Reflector, Selection, Trouble, WatchSettings
from tests.e2e.manifests import Manifest
from tests.kube.scripted import RememberingSink

QUICK = WatchSettings(back_off_seconds=0.1, back_off_limit_seconds=1.0, missing_seconds=1.0)


@asynccontextmanager
async def speaking(
    kubeconfig: Path, settings: ClientSettings | None = None, may_write: Callable[[], bool] = lambda: True
) -> AsyncIterator[Client]:
    runtime = SystemRuntime()
    async with HttpTransport(load_connection(runtime, kubeconfig)) as transport:
        yield Client(transport, runtime, settings, may_write)


class Follower:
    """A reflector, its sink and the troubles it met."""

    def __init__(self, client: Client, resource: Resource, settings: WatchSettings, selection: Selection) -> None:
        self.sink = RememberingSink()
        self.troubles: list[Trouble] = []
        self.reflector = Reflector(
            client, SystemRuntime(), resource, self.sink, settings, selection=selection, report=self.troubles.append
        )

    @property
    def names(self) -> set[str]:
        return set(self.sink.items)

    async def holds(self, *names: str) -> None:
        await wait_until(
            lambda: self.names == set(names),
            lambda: f"the cache to hold {sorted(names)}; it holds {sorted(self.names)}",
        )


@asynccontextmanager
async def following(
    kubeconfig: Path, resource: Resource, settings: WatchSettings = QUICK, namespace: str = "", page_size: int = 500
) -> AsyncIterator[Follower]:
    async with speaking(kubeconfig, ClientSettings(page_size=page_size, timeout_seconds=3.0)) as client:
        follower = Follower(client, resource, settings, Selection(namespace=namespace))
        task = asyncio.get_running_loop().create_task(follower.reflector.run())
        try:
            yield follower
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def wait_until(condition: Callable[[], object], what: Callable[[], str], timeout_seconds: float = 40.0) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"waited {timeout_seconds:.0f} s for {what()}")
        await asyncio.sleep(0.05)


async def wait_for(question: Callable[[], Awaitable[object]], what: str, timeout_seconds: float = 40.0) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    while not await question():
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"waited {timeout_seconds:.0f} s for {what}")
        await asyncio.sleep(0.05)


def read(body: bytes | msgspec.Raw) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.json.decode(body)
    return content


def configuration(name: str, where: str = "default", **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": where}, "data": data}


def waiting_pod(name: str, labels: dict[str, str] | None = None, where: str = "default") -> Manifest:
    """A pod that no scheduler takes care of."""
    container = {"name": "main", "image": "registry.invalid/main:1"}
    spec = {
        "schedulerName": "nobody",
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": where, "labels": labels or {}},
        "spec": spec,
    }
