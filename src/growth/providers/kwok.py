"""Machines that are only Node objects: where kwok plays the kubelets, making the Node is buying the machine.

For trials and for tests on a real control plane. The machine's id is the node's name. A machine is ours if its Node
carries our cluster id; stock and boot times come from the catalogue. kwok takes up a Node only when it is new, so a
machine that boots slowly is one whose launch takes long: each takes its own time, by its name.

| the API server says | launch | delete |
| --- | --- | --- |
| done | Accepted | Accepted |
| exists already | Accepted if cluster and request UID match, else Refused | |
| not found | | Accepted |
| another object by now | | Conflict |
| 429, unreachable, not leading | TryLater | TryLater |
| any other 4xx | Refused | Refused |
| no answer, 5xx | Unknown | Unknown |"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Mapping
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    NotLeader,
    Refused,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from growth.kube.api.errors import Conflict as ApiConflict
from growth.kube.api.resources import NODES
from growth.model.instant import parse_instant
from growth.model.labels import HOSTNAME, Labels
from growth.model.node import OFFERING_LABEL
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL, Machine, Offering
from growth.model.outcome import Accepted, Conflict, NoCapacity, Outcome, TryLater, Unknown
from growth.model.outcome import Refused as RefusedOutcome
from growth.model.resources import CPU, Resources, format_amount
from growth.providers.catalogue import Catalogue
from growth.providers.contract import Gone, Order, ProviderError
from growth.runtime import Runtime

KWOK_ANNOTATION: Final = "kwok.x-k8s.io/node"
LOCATION_ANNOTATION: Final = "growth.dev/location"


class _Metadata(Struct, rename="camel"):
    name: str
    uid: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(Struct, rename={"provider_id": "providerID"}):
    provider_id: str = ""


class _Node(Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Node).decode


class KwokProvider:
    """The provider contract on Node objects."""

    def __init__(self, client: Client, runtime: Runtime, catalogue: Catalogue) -> None:
        self.name = "kwok"
        self._client = client
        self._runtime = runtime
        self._catalogue = msgspec.structs.replace(catalogue, provider=self.name)
        self._offerings = {(offering.name, offering.location): offering for offering in self._catalogue.offerings()}
        self._counter = Lock()  # between counting what is taken and taking one more, nobody else may

    async def offerings(self) -> tuple[Offering, ...]:
        return tuple(self._offerings.values())

    def credentials(self) -> Mapping[str, str]:
        """Machines are only played: they join without any."""
        return {}

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        return tuple(self._machine(node) for node in await self._nodes(cluster))

    async def describe(self, machine_id: str) -> Machine | Gone:
        try:
            node = _decode(await self._client.get(NODES, machine_id))
        except NotFound:
            return Gone()
        except (KubeError, msgspec.DecodeError) as error:
            raise ProviderError(f"node {machine_id}: {error}") from error
        return self._machine(node)

    async def find(self, name: str) -> Machine | Gone:
        return await self.describe(name)

    async def launch(self, order: Order) -> Outcome:
        offering = self._offerings.get((order.offering, order.location))
        if offering is None:
            return RefusedOutcome(f"the catalogue has no {order.offering} in {order.location}")
        shortest, longest = self._catalogue.boot_seconds
        await self._runtime.sleep(shortest + (longest - shortest) * crc32(order.name.encode()) / 2**32)
        stock = self._catalogue.stock(offering.server_type, offering.location)
        if stock is None:
            return await self._buy(order, offering)
        async with self._counter:
            return await self._buy(order, offering, stock)

    async def _buy(self, order: Order, offering: Offering, stock: int | None = None) -> Outcome:
        try:
            why = "" if stock is None else await self._why_sold_out(order, offering, stock)
            if why:
                return NoCapacity(why)
            node = _decode(await self._client.create(NODES, self._node_for(order, offering)))
        except AlreadyExists:
            return await self._adopt(order)
        except (KubeError, ProviderError) as error:
            return _outcome_of(error)
        return Accepted(node.metadata.name)

    async def delete(self, machine_id: str) -> Outcome:
        """Delete a node, if it is ours and still the same object."""
        try:
            node = _decode(await self._client.get(NODES, machine_id))
            if CLUSTER_LABEL not in (node.metadata.labels or {}):
                return RefusedOutcome(f"node {machine_id} is not ours")
            await self._client.delete(NODES, machine_id, uid=node.metadata.uid)
        except NotFound:
            return Accepted(machine_id)
        except KubeError as error:
            return _outcome_of(error)
        return Accepted(machine_id)

    # ---------------------------------------------------------------------------------------- steps

    async def _nodes(self, cluster: str) -> tuple[_Node, ...]:
        try:
            items, _ = await self._client.list(NODES, labels=f"{CLUSTER_LABEL}={cluster}")
            return tuple(_decode(item) for item in items)
        except (KubeError, msgspec.DecodeError) as error:
            raise ProviderError(f"nodes cannot be listed: {error}") from error

    async def _why_sold_out(self, order: Order, offering: Offering, stock: int) -> str:
        machines = [self._machine(node) for node in await self._nodes(order.cluster)]
        others = [machine for machine in machines if machine.name != order.name]
        taken = sum((machine.offering, machine.location) == (order.offering, order.location) for machine in others)
        sold_out = f"{offering.server_type} is sold out in {offering.location}: all {stock} are taken"
        return sold_out if taken >= stock else ""

    async def _adopt(self, order: Order) -> Outcome:
        """The name is taken: by an earlier launch of the same request, or by another owner."""
        try:
            node = _decode(await self._client.get(NODES, order.name))
        except NotFound:
            return TryLater(f"node {order.name} was there and is gone")
        except KubeError as error:
            return Unknown(f"node {order.name} exists, and whose it is is unknown: {error}")
        labels = node.metadata.labels or {}
        if (labels.get(CLUSTER_LABEL), labels.get(REQUEST_UID_LABEL)) != (order.cluster, order.request_uid):
            return RefusedOutcome(f"the name {order.name} is taken by a node of another request")
        return Accepted(node.metadata.name)

    def _node_for(self, order: Order, offering: Offering) -> dict[str, Any]:
        ours = {HOSTNAME: order.name, OFFERING_LABEL: order.offering}
        ours |= {CLUSTER_LABEL: order.cluster, REQUEST_UID_LABEL: order.request_uid}
        labels = {**offering.labels, **order.labels, **ours}
        annotations = {**order.annotations, LOCATION_ANNOTATION: order.location, KWOK_ANNOTATION: "fake"}
        taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in order.taints]
        amounts = _quantities(order.allocatable or offering.allocatable)
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": order.name, "labels": labels, "annotations": annotations},
            "spec": {"providerID": f"{self.name}://{order.name}", "taints": taints},
            "status": {"capacity": amounts, "allocatable": amounts},
        }

    def _machine(self, node: _Node) -> Machine:
        metadata = node.metadata
        labels, annotations = metadata.labels or {}, metadata.annotations or {}
        kept: dict[str, str] = {key: labels[key] for key in (CLUSTER_LABEL, REQUEST_UID_LABEL) if key in labels}
        return Machine(
            machine_id=metadata.name,
            name=metadata.name,
            offering=labels.get(OFFERING_LABEL, ""),
            location=annotations.get(LOCATION_ANNOTATION, ""),
            labels=Labels(kept),
            state="deleting" if metadata.deletion_timestamp else "running",
            created_at=parse_instant(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0,
            provider_id=node.spec.provider_id or f"{self.name}://{metadata.name}",
        )


def _quantities(amounts: Resources) -> dict[str, str]:
    return {name: format_amount(name, amount) if name == CPU else str(amount) for name, amount in amounts.items()}


def _outcome_of(error: Exception) -> Outcome:
    if isinstance(error, ApiConflict):
        return Conflict(str(error))
    if isinstance(error, TooManyRequests):
        return TryLater(str(error), error.retry_after_seconds or 1.0)
    if isinstance(error, NotLeader | Unreachable | Unauthorized | ProviderError):
        return TryLater(str(error))
    return RefusedOutcome(str(error)) if isinstance(error, Refused) else Unknown(str(error))
