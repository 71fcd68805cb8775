"""`growth release`: after growth has been stopped, take our finalizer off every object that carries it, so that all of
them can be deleted.

Nodes, machines and pods stay exactly as they are; nothing is deleted by it, except what a person had deleted already
and our finalizer held. It refuses while some growth still holds the Lease: that one would put the finalizer back. It
tells which machines are left, with a node or without one: from then on nobody looks after them. It works in any order:
with growth's kinds, namespace, role or account gone already."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter
from msgspec import Struct

from growth.cli.orphans import known_objects
from growth.cli.session import THE_CLUSTER, ClusterAccess
from growth.controllers.act.looks import read_live
from growth.controllers.configuration import load_configuration
from growth.kube.api.client import Client
from growth.kube.api.errors import Conflict, EffectUnknown, KubeError, NotFound
from growth.kube.api.resources import LEASES, NODE_POOLS, NODE_REMOVAL_REQUESTS, NODE_REQUESTS, NODES, Resource
from growth.kube.codec import Codec
from growth.kube.election import LeaseSettings
from growth.model.api import FINALIZER
from growth.model.node import POOL_LABEL, SCALE_DOWN_TAINT, STARTUP_TAINT
from growth.model.noderequest import READY, UNMET
from growth.model.snapshot import Snapshot
from growth.runtime import Runtime


def release(
    *,
    settings: Annotated[
        Path | None,
        Parameter(help="The settings file that growth ran with: its installation and namespace name the Lease."),
    ] = None,
    access: ClusterAccess = THE_CLUSTER,
    namespace: Annotated[str | None, Parameter(help="Where growth ran.")] = None,
) -> int:
    """Take growth's finalizer off NodeRequests, NodeRemovalRequests and NodePools. Stop growth first."""
    configuration = load_configuration(settings, os.environ, {"namespace": namespace})
    return asyncio.run(_release(configuration.lease, access))


async def _release(lease: LeaseSettings, access: ClusterAccess) -> int:
    async with access.connect() as (client, runtime):
        why = await why_not_release(client, runtime, lease)
        if why:
            print(f"{why}. Stop it first: helm uninstall, or scale its Deployment to 0.")
            return 1
        released = await release_all(client)
    print(as_text(released))
    return 1 if released.failures else 0


def as_text(released: Released) -> str:
    groups = (
        ("released", released.let_go),
        ("failed", released.failures),
        ("tainted", released.tainted),
        ("left", released.nodes),
        ("open", released.unfinished),
    )
    lines = [f"{word:8} {each}" for word, group in groups for each in group]
    if released.tainted:
        command = "`kubectl taint node NAME KEY:NoSchedule-` takes one off"
        lines.append(f"Those nodes take no new pods while growth's taints are on them: {command}.")
    if released.nodes or released.unfinished:
        machines = f"{len(released.nodes)} nodes and {len(released.unfinished)} unfinished machines"
        lines.append(f"{machines} are left and are paid for: nobody but you gives them back now.")
    if released.unfinished:
        lines.append("`growth orphans` lists machines without a node or a record, and gives them back with --delete.")
    counted = f"{len(released.let_go)} released, {len(released.failures)} failed"
    return "\n".join([*lines, f"{counted}. Nodes and machines were left as they are."])


HELD: Final = (NODE_REQUESTS, NODE_REMOVAL_REQUESTS, NODE_POOLS)
_ATTEMPTS: Final = 5
_OUR_TAINTS: Final = (SCALE_DOWN_TAINT.key, STARTUP_TAINT.key)


class Released(Struct, frozen=True):
    """What was let go, what could not be, the nodes on which a taint of ours is left, and which machines nobody looks
    after from now on.
    """

    let_go: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()  # node: taints
    nodes: tuple[str, ...] = ()  # that growth bought
    unfinished: tuple[str, ...] = ()  # machines that were being bought or given back


async def why_not_release(client: Client, runtime: Runtime, lease: LeaseSettings) -> str:
    """Which growth still leads? The Lease changes while we look, so clocks do not matter. Empty: none does."""
    before = await read_live(client, LEASES, lease.name, lease.namespace)
    if before is None or not before.get("spec", {}).get("holderIdentity"):
        return ""
    await runtime.sleep(2 * lease.retry_seconds)
    after = await read_live(client, LEASES, lease.name, lease.namespace)
    if after is None or after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]:
        return ""
    holder = after.get("spec", {}).get("holderIdentity")
    return f"growth still runs: {holder} keeps renewing the Lease {lease.namespace}/{lease.name}" if holder else ""


async def release_all(client: Client) -> Released:
    """Take our finalizer off everything; a failure is reported and stops nothing. Repeating it does no harm."""
    let_go: list[str] = []
    failures: list[str] = []
    known = await _known_before(client, failures)  # what our finalizer alone holds is gone afterwards
    for resource in HELD:
        for name in await _held(client, resource):
            try:
                await _let_go(client, resource, name)
                let_go.append(f"{resource.kind} {name}")
            except KubeError as error:
                failures.append(f"{resource.kind} {name}: {error}")
    nodes = tuple(
        f"node {node.name} of pool {node.labels[POOL_LABEL]} ({node.provider_id or 'machine not known'})"
        for node in known.nodes.values()
        if node.labels.get(POOL_LABEL)
    )
    return Released(tuple(let_go), tuple(failures), await _tainted(client), nodes, tuple(_unfinished(known)))


async def _known_before(client: Client, failures: list[str]) -> Snapshot:
    try:
        return await known_objects(client)
    except ValueError as error:
        failures.append(str(error))
        return Snapshot(0.0)


def _unfinished(known: Snapshot) -> Iterator[str]:
    """Machines of which no node will tell."""
    for request in known.requests.values():
        if request.phase not in (READY, UNMET) and request.name not in known.nodes:
            machine = request.status.machine_id or "id not known"
            yield f"machine {request.name} ({machine}) of pool {request.spec.pool} was being bought"
    for removal in known.removals.values():
        machine = removal.spec.machine_id or "id not known"
        yield f"machine of node {removal.spec.node_name} ({machine}) was being given back"


async def _held(client: Client, resource: Resource) -> list[str]:
    """The names of those with our finalizer; none where the kind is not installed."""
    try:
        items, _ = await client.list(resource)
    except NotFound:
        return []
    found = [msgspec.json.decode(item)["metadata"] for item in items]
    return [metadata["name"] for metadata in found if FINALIZER in metadata.get("finalizers", ())]


async def _let_go(client: Client, resource: Resource, name: str) -> None:
    """On the version just read: the finalizers of others must survive."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            metadata = msgspec.json.decode(await client.get(resource, name))["metadata"]
            kept = [each for each in metadata.get("finalizers", ()) if each != FINALIZER]
            only_if = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            await client.merge_patch(resource, name, {"metadata": {**only_if, "finalizers": kept}})
            return
        except NotFound:
            return  # gone, which is what the finalizer was in the way of
        except (Conflict, EffectUnknown):
            if attempt == _ATTEMPTS:
                raise


async def _tainted(client: Client) -> tuple[str, ...]:
    """Nodes with a taint of ours, which take no new pods until a person takes it off."""
    codec = Codec()
    items, _ = await client.list(NODES)
    nodes = [codec.decode_node(item) for item in items]
    ours = [(node.name, [str(taint) for taint in node.taints if taint.key in _OUR_TAINTS]) for node in nodes]
    return tuple(f"{name}: {', '.join(taints)}" for name, taints in ours if taints)
