"""Machines that nothing in the cluster speaks of, looked up live, and given back one by one when a person says so.

Asked by `growth orphans`. The rule of what is an orphan is that of `plan/nodes_down/orphans`; here it is asked of fresh
lists, and once more right before a machine is deleted."""

from __future__ import annotations

from typing import Any

from growth.kube.api.client import Client
from growth.kube.api.resources import NODE_REMOVAL_REQUESTS, NODE_REQUESTS, NODES
from growth.kube.cache import Cache
from growth.kube.codec import Codec
from growth.model.node import Node
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.offering import Machine
from growth.model.outcome import Conflict, Outcome, Refused
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.orphans import is_alone
from growth.providers.contract import Gone, Provider


async def find_orphans(client: Client, provider: Provider, cluster: str) -> tuple[Machine, ...]:
    """The machines are listed first: whatever is written down about them afterwards still counts. Raises KubeError,
    ProviderError.
    """
    machines = await provider.list(cluster)
    snapshot = await _known(client)
    return tuple(machine for machine in sorted(machines, key=lambda each: each.name) if is_alone(machine, snapshot))


async def give_back(client: Client, provider: Provider, cluster: str, machine: Machine) -> Outcome:
    """Delete one orphan, if it still is one and still ours."""
    there = await provider.describe(machine.machine_id)
    if isinstance(there, Gone):
        return Conflict(f"machine {machine.name} is gone already")
    if there.cluster != cluster or there.name != machine.name:
        return Refused(f"machine {machine.machine_id} is not {machine.name} of this cluster")
    if not is_alone(there, await _known(client)):
        return Conflict(f"machine {machine.name} is no longer an orphan")
    return await provider.delete(machine.machine_id)


async def _known(client: Client) -> Snapshot:
    codec = Codec()
    nodes: Cache[Node] = Cache(NODES, codec)
    requests: Cache[NodeRequest] = Cache(NODE_REQUESTS, codec)
    removals: Cache[NodeRemovalRequest] = Cache(NODE_REMOVAL_REQUESTS, codec)
    for cache in (nodes, requests, removals):
        await _fill(cache, client)
    return Snapshot(0.0, nodes=nodes.view(), requests=requests.view(), removals=removals.view())


async def _fill(cache: Cache[Any], client: Client) -> None:
    items, _ = await client.list(cache.resource)
    cache.listed(items)
    if cache.malformed or cache.unnamed:
        raise ValueError(f"some {cache.resource} cannot be read: which machines they speak of is not known")
