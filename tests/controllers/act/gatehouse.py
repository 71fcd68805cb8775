"""An embedded API server, a provider that has what the test says, and the gate before it: for tests of the gate."""

from __future__ import annotations

from typing import Any

import msgspec

from growth.controllers.act.gate import Gate
from growth.controllers.loop.journal import Journal
from growth.controllers.loop.metrics import Metrics
from growth.controllers.observe.observer import Observer
from growth.controllers.observe.supply import Supply
from growth.kube.api.client import Client
from growth.kube.api.events import Recorder
from growth.kube.api.resources import Resource
from growth.kube.fence import OpenFence
from growth.model.action import Seen
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL, Machine, Offering
from growth.model.outcome import Accepted, Outcome
from growth.model.settings import Settings
from growth.providers.contract import Gone, Order, ProviderError
from growth.sim.apiserver.server import ApiServer
from growth.sim.clock import SimRuntime

CLUSTER = "cluster-1"


class Shelf:
    """A provider that has what the test says."""

    name = "shelf"

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.is_silent = False
        self.secrets: dict[str, str] = {}

    def put(self, name: str, cluster: str = CLUSTER) -> None:
        labels = Labels({CLUSTER_LABEL: cluster, POOL_LABEL: "default"})
        machine = Machine(f"id-{name}", name, "sim-cx33", "fsn1", labels, provider_id=f"shelf://id-{name}")
        self.machines[machine.machine_id] = machine

    async def offerings(self) -> tuple[Offering, ...]:
        return (Offering("sim-cx33", "CX33", "fsn1", 0.01),)

    def credentials(self) -> dict[str, str]:
        return dict(self.secrets)

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        return tuple(machine for machine in self.machines.values() if machine.cluster == cluster)

    async def describe(self, machine_id: str) -> Machine | Gone:
        if self.is_silent:
            raise ProviderError("no answer")
        return self.machines.get(machine_id, Gone())

    async def find(self, name: str) -> Machine | Gone:
        if self.is_silent:
            raise ProviderError("no answer")
        return next((machine for machine in self.machines.values() if machine.name == name), Gone())

    async def launch(self, order: Order) -> Outcome:
        return Accepted(f"id-{order.name}")

    async def delete(self, machine_id: str) -> Outcome:
        return Accepted(machine_id)


class Gatehouse:
    """Everything the gate looks at, without the loop: only the test acts."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.runtime = SimRuntime("gate")
        self.server = ApiServer(self.runtime)
        self.shelf = Shelf()
        self.fence = OpenFence(self.runtime.monotonic)
        self.client = Client(self.server, self.runtime)
        self.metrics = metrics = Metrics(self.runtime)
        self.supply = Supply(self.shelf, CLUSTER, self.runtime)
        self.observer = Observer(self.client, self.runtime, self.supply, metrics, settings)
        self.gate = Gate(
            self.client,
            self.shelf,
            self.observer,
            settings or Settings(),
            CLUSTER,
            self.fence,
            self.runtime.monotonic,
        )
        self._journal = Journal(Recorder(self.client, self.runtime, "test"), metrics, self.runtime.monotonic)

    async def open(self) -> None:
        """Follow the API server and ask the provider once."""
        await self.supply.refresh()
        for name, work in self.observer.watches(self._journal):
            self.runtime.spawn(name, work())
        while not self.observer.is_synced:
            await self.runtime.sleep(0.1)

    async def put(self, resource: Resource, name: str, **parts: Any) -> Seen:
        """Create an object, with its status, and wait until the caches have it."""
        metadata = {"name": name, **parts.pop("metadata", {})}
        status = parts.pop("status", None)
        item = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **parts}
        made = msgspec.json.decode(await self.client.create(resource, item))
        if status:
            await self.client.merge_patch(resource, name, {"status": status}, metadata.get("namespace", ""), "status")
        await self.runtime.sleep(0.1)
        return Seen(name, made["metadata"]["uid"])
