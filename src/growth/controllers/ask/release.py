"""How does a cluster go on without growth? Takes our finalizer off every object that carries it, so that all of them
can be deleted.

Asked by `growth release`, once growth has been stopped. Nodes, machines and pods stay exactly as they are; nothing is
deleted by it, except what a person had deleted already and our finalizer held. It refuses while some growth still holds
the Lease: that one would put it back."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import Conflict, EffectUnknown, KubeError, NotFound
from growth.kube.api.resources import LEASES, NODE_POOLS, NODE_REMOVAL_REQUESTS, NODE_REQUESTS, NODES, Resource
from growth.kube.codec import Codec
from growth.kube.election import LeaseSettings
from growth.model.api import FINALIZER
from growth.model.node import SCALE_DOWN_TAINT, STARTUP_TAINT
from growth.runtime import Runtime

HELD: Final = (NODE_REQUESTS, NODE_REMOVAL_REQUESTS, NODE_POOLS)
_ATTEMPTS: Final = 5
_OUR_TAINTS: Final = (SCALE_DOWN_TAINT.key, STARTUP_TAINT.key)


class Released(Struct, frozen=True):
    """What was let go, what could not be, and the nodes on which a taint of ours is left."""

    let_go: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()  # node: taints


async def why_not_release(client: Client, runtime: Runtime, lease: LeaseSettings) -> str:
    """Who still leads? Told by the Lease changing while we look, so clocks do not matter. Empty: nobody."""
    before = await _lease(client, lease)
    if before is None or not before.get("spec", {}).get("holderIdentity"):
        return ""
    await runtime.sleep(2 * lease.retry_seconds)
    after = await _lease(client, lease)
    if after is None or after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]:
        return ""
    holder = after.get("spec", {}).get("holderIdentity")
    return f"growth still runs: {holder} keeps renewing the Lease {lease.namespace}/{lease.name}" if holder else ""


async def release(client: Client) -> Released:
    """Let go of everything; what fails is told, and does not stop the rest. Repeating it does no harm."""
    let_go: list[str] = []
    failures: list[str] = []
    for resource in HELD:
        for name in await _held(client, resource):
            try:
                await _let_go(client, resource, name)
                let_go.append(f"{resource.kind} {name}")
            except KubeError as error:
                failures.append(f"{resource.kind} {name}: {error}")
    return Released(tuple(let_go), tuple(failures), await _tainted(client))


async def _lease(client: Client, lease: LeaseSettings) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = msgspec.json.decode(await client.get(LEASES, lease.name, lease.namespace))
    except NotFound:
        return None
    return found


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
    """Nodes that would take no pods for ever: whoever took growth away must decide about them."""
    codec = Codec()
    items, _ = await client.list(NODES)
    nodes = [codec.decode_node(item) for item in items]
    ours = [(node.name, [str(taint) for taint in node.taints if taint.key in _OUR_TAINTS]) for node in nodes]
    return tuple(f"{name}: {', '.join(taints)}" for name, taints in ours if taints)
