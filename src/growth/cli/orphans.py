"""`growth orphans`: machines of this cluster that nothing in it speaks of. Lists them; deletes those a person names.

The rule of what is an orphan is that of `plan/nodes_down/orphans`; here it is asked of fresh lists, and once more right
before a machine is deleted."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from growth.cli.session import THE_CLUSTER, ClusterAccess, SettingsFile, provider_of
from growth.controllers.configuration import Configuration, cluster_id, load_configuration
from growth.kube.api.client import Client
from growth.kube.api.errors import NotFound
from growth.kube.api.resources import NODE_REMOVAL_REQUESTS, NODE_REQUESTS, NODES
from growth.kube.cache import Cache
from growth.kube.codec import Codec
from growth.model.node import Node
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.offering import Machine
from growth.model.outcome import Accepted, Conflict, Outcome, Refused
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.orphans import is_alone
from growth.providers.careful import CarefulProvider
from growth.providers.contract import Gone, Provider


def orphans(
    *,
    settings: SettingsFile = None,
    access: ClusterAccess = THE_CLUSTER,
    delete: Annotated[
        list[str] | None, Parameter(negative="", help="Names of orphaned machines to give back; may be repeated.")
    ] = None,
) -> int:
    """List machines without a NodeRequest, Node or NodeRemovalRequest, or give back those named with --delete."""
    configuration = load_configuration(settings, os.environ, {})
    return asyncio.run(_orphans(configuration, access, delete or []))


async def _orphans(configuration: Configuration, access: ClusterAccess, names: list[str]) -> int:
    async with access.connect() as (client, runtime):
        provider = CarefulProvider(provider_of(configuration)(client, runtime), runtime)
        cluster = await cluster_id(client, configuration.installation)
        found = {machine.name: machine for machine in await find_orphans(client, provider, cluster)}
        if not names:
            Console().print(_table(list(found.values())) if found else "no orphaned machines")
            return 0
        unknown = [name for name in names if name not in found]
        if unknown:
            print(f"not an orphaned machine of this cluster: {', '.join(unknown)}. Nothing was deleted.")
            return 1
        outcomes = [(name, await give_back(client, provider, cluster, found[name])) for name in names]
    for name, outcome in outcomes:
        print(f"{name}: {'given back' if isinstance(outcome, Accepted) else outcome.reason}")
    return 0 if all(isinstance(outcome, Accepted) for _, outcome in outcomes) else 1


def _table(machines: list[Machine]) -> Table:
    table = Table("machine", "id", "offering", "location", "state", box=None)
    for machine in machines:
        table.add_row(machine.name, machine.machine_id, machine.offering, machine.location, machine.state)
    return table


async def find_orphans(client: Client, provider: Provider, cluster: str) -> tuple[Machine, ...]:
    """The machines are listed first: whatever is written down about them afterwards still counts. Raises KubeError,
    ProviderError.
    """
    machines = await provider.list(cluster)
    snapshot = await known_objects(client)
    return tuple(machine for machine in sorted(machines, key=lambda each: each.name) if is_alone(machine, snapshot))


async def give_back(client: Client, provider: Provider, cluster: str, machine: Machine) -> Outcome:
    """Delete one orphan, if it still is one and still ours."""
    there = await provider.describe(machine.machine_id)
    if isinstance(there, Gone):
        return Conflict(f"machine {machine.name} is gone already")
    if there.cluster != cluster or there.name != machine.name:
        return Refused(f"machine {machine.machine_id} is not {machine.name} of this cluster")
    if not is_alone(there, await known_objects(client)):
        return Conflict(f"machine {machine.name} is no longer an orphan")
    return await provider.delete(machine.machine_id)


async def known_objects(client: Client) -> Snapshot:
    """All that may speak of a machine, listed now; where a kind is not installed, nothing of it does. Raises KubeError,
    and ValueError where something cannot be read.
    """
    codec = Codec()
    nodes: Cache[Node] = Cache(NODES, codec)
    requests: Cache[NodeRequest] = Cache(NODE_REQUESTS, codec)
    removals: Cache[NodeRemovalRequest] = Cache(NODE_REMOVAL_REQUESTS, codec)
    caches: tuple[Cache[Any], ...] = (nodes, requests, removals)
    for cache in caches:
        try:
            items, _ = await client.list(cache.resource)
        except NotFound:
            items = []
        cache.listed(items)
        if cache.malformed or cache.unnamed:
            raise ValueError(f"some {cache.resource} cannot be read: which machines they speak of is not known")
    return Snapshot(0.0, nodes=nodes.view(), requests=requests.view(), removals=removals.view())
