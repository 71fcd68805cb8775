"""How actions on nodes, machines and pools are performed at the API server and the provider. Called through the table
in `controllers/act/apply.py`.

Each function performs one action, with the preconditions that the action carries, and hands what the server answered to
the caches, so that the next snapshot already contains it. Failures of the API are raised; `apply` turns them into
Outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

import msgspec

from growth.controllers.act.failures import outcome_of
from growth.controllers.act.gate import Gate
from growth.controllers.act.join_tokens import Mint, why_not_minted
from growth.controllers.act.looks import read_live
from growth.controllers.loop.metrics import Metrics
from growth.kube.api.client import Client
from growth.kube.api.errors import AlreadyExists, EffectUnknown, Forbidden, Invalid, KubeError, NotFound
from growth.kube.api.errors import Conflict as ApiConflict
from growth.kube.api.resources import (
    CAPACITY_BUFFERS,
    NODE_POOLS,
    NODE_REMOVAL_REQUESTS,
    NODE_REQUESTS,
    NODES,
    PODS,
    Resource,
)
from growth.model import action as act
from growth.model.action import Seen
from growth.model.api import FINALIZER
from growth.model.instant import format_instant, parse_instant
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL, SCALE_DOWN_AT, Taint
from growth.model.noderequest import DEPROVISIONING, PENDING, PROVISIONING, READY
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater
from growth.model.warmpool import WarmPoolKind
from growth.plan.world.machines import POOL_NAME_LENGTH
from growth.providers.contract import Order, Provider
from growth.runtime import Runtime

Json = dict[str, Any]

_CREATE_ATTEMPTS = 5
_ID_DIGITS = 12
_REFUSED_SECONDS = 30.0
_LIVE_LOOKS = 5  # of the pods of one order
DELETE_LEAVES_SECONDS = 1.0  # after the look at the pods: one that came later would die with the machine


class Caches(Protocol):
    """Where answers to our own writes go, so that the next decision sees them."""

    def learned(self, resource: Resource, body: bytes) -> None: ...

    def forgot(self, resource: Resource, name: str, namespace: str = "") -> None: ...

    def bound(self, pod: str, uid: str, node: str, asked_at: float) -> None: ...

    def has_node(self, name: str) -> bool: ...

    def node_version(self, name: str) -> str: ...

    def scaled(self, kind: WarmPoolKind, key: str, uid: str, replicas: int) -> None: ...

    def served(self, resource: Resource) -> Resource: ...


class Tools(msgspec.Struct):
    """What actions are performed with."""

    client: Client
    provider: Provider
    caches: Caches
    gate: Gate
    runtime: Runtime
    metrics: Metrics
    cluster: str
    machines_changed: Callable[[], None]
    mint: Mint | None = None  # where machines join with tokens of their own


# -------------------------------------------------------------------------------------- NodeRequest


async def create_node_request(tools: Tools, action: act.CreateNodeRequest) -> Outcome:
    """For demand that is real: one of the pods (or buffers) it is for is looked at live, however old the caches are."""
    if action.spec.planned_pods and not await _someone_waits(tools, action.spec.planned_pods):
        return Conflict("the pods it would be for wait no longer")
    if action.spec.replaces and not await _all_stand(tools, action.spec.replaces):
        return Conflict("a node it would replace is gone, or going")
    pool = action.pool
    owner = {"apiVersion": NODE_POOLS.api_version, "kind": NODE_POOLS.kind, "name": pool.name, "uid": pool.uid}
    metadata = {
        "name": f"{pool.name[:POOL_NAME_LENGTH]}-pool-{tools.runtime.new_id()[:_ID_DIGITS]}",
        "finalizers": [FINALIZER],
        "labels": {POOL_LABEL: pool.name},
        "ownerReferences": [owner],
    }
    return await _create_surely(tools, NODE_REQUESTS, metadata, action.spec)


async def _someone_waits(tools: Tools, pods: tuple[str, ...]) -> bool:
    """Of the pods that a request is for the first few are looked at live."""
    for key in pods[:_LIVE_LOOKS]:
        namespace, _, name = key.partition("/")
        buffer, is_virtual, _ = name.rpartition("*")
        resource = tools.caches.served(CAPACITY_BUFFERS) if is_virtual else PODS
        live = await read_live(tools.client, resource, buffer or name, namespace)
        if live is not None and not live["spec"].get("nodeName") and not live["metadata"].get("deletionTimestamp"):
            return True
    return False


async def _all_stand(tools: Tools, nodes: tuple[str, ...]) -> bool:
    """Of the nodes that shall be replaced the first few are looked at live."""
    for name in nodes[:_LIVE_LOOKS]:
        live = await read_live(tools.client, NODES, name)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return False
    return True


async def write_node_request_status(tools: Tools, action: act.WriteNodeRequestStatus) -> Outcome:
    is_given_up = action.status.phase == DEPROVISIONING and not action.status.expires_at
    if is_given_up and await _has_changed_unseen(tools, action.request.name):
        return Conflict(f"node {action.request.name} has changed since it was judged")
    if action.status.phase not in (PENDING, PROVISIONING):
        await _take_token_back(tools, action.request.name)
    written = await _patch_status(tools, NODE_REQUESTS, action.request, action.status)
    if action.status.phase == READY:
        tools.metrics.ready_seconds.labels(written["spec"]["targetOffering"]).observe(_age_seconds(tools, written))
    return Accepted()


async def _has_changed_unseen(tools: Tools, name: str) -> bool:
    """A watch may have fallen silent: before a machine is given up for having no Ready node, the node is looked at."""
    known = tools.caches.node_version(name)
    try:
        body = await tools.client.get(NODES, name)
    except NotFound:
        return False
    tools.caches.learned(NODES, body)
    return bool(msgspec.json.decode(body)["metadata"]["resourceVersion"] != known)


async def release_node_request(tools: Tools, action: act.ReleaseNodeRequest) -> Outcome:
    await _take_token_back(tools, action.request.name)
    return await _release(tools, NODE_REQUESTS, action.request)


async def launch_machine(tools: Tools, action: act.LaunchMachine) -> Outcome:
    """The gate comes last: whatever takes time is done before."""
    try:
        join_token = await tools.mint.token_for(action.request.name) if tools.mint is not None else ""
    except (Forbidden, Invalid) as error:
        return Refused(why_not_minted(error))
    closed = await tools.gate.why_not_launch(action)
    if closed is not None:
        return closed
    order = Order(
        name=action.request.name,
        request_uid=action.request.uid,
        cluster=tools.cluster,
        pool=action.spec.pool,
        offering=action.spec.target_offering,
        location=action.spec.location,
        labels=Labels(dict(action.labels)),
        annotations=Labels(dict(action.annotations)),
        taints=action.taints,
        settings=action.settings,
        join_token=join_token,
    )
    outcome = await tools.provider.launch(order)
    if isinstance(outcome, TryLater):
        outcome = msgspec.structs.replace(outcome, was_asked=True)
    if isinstance(outcome, Accepted):
        tools.metrics.bought.labels(order.pool).inc()
    tools.gate.launched(order.name, outcome)
    tools.machines_changed()
    return outcome


async def _take_token_back(tools: Tools, request: str) -> None:
    if tools.mint is not None:
        await tools.mint.take_back(request)


# -------------------------------------------------------------------------------------------- nodes


async def register_node(tools: Tools, action: act.RegisterNode) -> Outcome:
    await _take_token_back(tools, action.node.name)  # it has joined
    metadata = {"labels": dict(action.labels), "annotations": dict(action.annotations)}
    return await _patch_node(tools, action.node, metadata, action.taints)


async def ready_node(tools: Tools, action: act.ReadyNode) -> Outcome:
    return await _patch_node(tools, action.node, {}, action.taints)


async def mark_scale_down(tools: Tools, action: act.MarkScaleDown) -> Outcome:
    annotations = {SCALE_DOWN_AT: format_instant(action.scale_down_at)}
    return await _patch_node(tools, action.node, {"annotations": annotations}, action.taints)


async def unmark_scale_down(tools: Tools, action: act.UnmarkScaleDown) -> Outcome:
    return await _patch_node(tools, action.node, {"annotations": {SCALE_DOWN_AT: None}}, action.taints)


async def _patch_node(tools: Tools, node: Seen, metadata: dict[str, Any], taints: tuple[Taint, ...] | None) -> Outcome:
    """The list of taints is atomic: it is written whole, and only onto the version it was computed from."""
    patch: dict[str, Any] = {"metadata": {**metadata, **_only_if(node)}}
    if taints is not None:
        wanted = [
            {"key": each.key, "effect": each.effect, **({"value": each.value} if each.value else {})} for each in taints
        ]
        patch["spec"] = {"taints": wanted or None}
    tools.caches.learned(NODES, await tools.client.merge_patch(NODES, node.name, patch))
    return Accepted()


# ----------------------------------------------------------------------------------------- removals


async def create_node_removal_request(tools: Tools, action: act.CreateNodeRemovalRequest) -> Outcome:
    metadata = {"name": action.node.name, "finalizers": [FINALIZER], "labels": {POOL_LABEL: action.spec.pool}}
    return await _create_surely(tools, NODE_REMOVAL_REQUESTS, metadata, action.spec)


async def write_node_removal_status(tools: Tools, action: act.WriteNodeRemovalStatus) -> Outcome:
    return await write_status(tools, NODE_REMOVAL_REQUESTS, action.removal, action.status)


async def delete_machine(tools: Tools, action: act.DeleteMachine) -> Outcome:
    closed = await tools.gate.why_not_delete(action)
    if closed is not None:
        return closed
    with tools.gate.fence.leaving_within(DELETE_LEAVES_SECONDS):
        outcome = await tools.provider.delete(action.machine_id)
    tools.machines_changed()
    return outcome


async def finish_removal(tools: Tools, action: act.FinishRemoval) -> Outcome:
    """Only a positive "gone" from the provider ends a node's life, and only that of the Node that was judged."""
    closed = await tools.gate.why_not_finish(action)
    if closed is not None and not isinstance(closed, Accepted):
        return closed
    outcome = await outcome_of(_finish(tools, action, is_ours=closed is None))
    # the API server's no is nobody's word about the machine
    return TryLater(outcome.reason, _REFUSED_SECONDS) if isinstance(outcome, Refused) else outcome


async def _finish(tools: Tools, action: act.FinishRemoval, *, is_ours: bool) -> Outcome:
    try:
        if action.node_uid and is_ours:  # else a stranger has the name of our node, and stays
            await tools.client.delete(NODES, action.node_name, uid=action.node_uid)
            tools.caches.forgot(NODES, action.node_name)
    except NotFound:
        tools.caches.forgot(NODES, action.node_name)
    except ApiConflict:
        pass  # another Node has its name by now: it stays

    def measure(removal: Json) -> None:
        tools.metrics.removal_seconds.labels(removal["spec"].get("offering", "")).observe(_age_seconds(tools, removal))

    return await _release(tools, NODE_REMOVAL_REQUESTS, action.removal, measure)


async def cancel_removal(tools: Tools, action: act.CancelRemoval) -> Outcome:
    return await _release(tools, NODE_REMOVAL_REQUESTS, action.removal)


# -------------------------------------------------------------------------------------------- pools


async def write_node_pool_status(tools: Tools, action: act.WriteNodePoolStatus) -> Outcome:
    return await write_status(tools, NODE_POOLS, action.pool, action.status)


async def hold_node_pool(tools: Tools, action: act.HoldNodePool) -> Outcome:
    live = msgspec.json.decode(await tools.client.get(NODE_POOLS, action.pool.name))
    held = live["metadata"].get("finalizers", [])
    if action.holds != (FINALIZER in held):
        wanted = [*held, FINALIZER] if action.holds else [each for each in held if each != FINALIZER]
        patch = {"metadata": {"finalizers": wanted, "resourceVersion": live["metadata"]["resourceVersion"]}}
        tools.caches.learned(NODE_POOLS, await tools.client.merge_patch(NODE_POOLS, action.pool.name, patch))
    return Accepted()


# ------------------------------------------------------------------------------------- shared steps


def _only_if(seen: Seen) -> dict[str, str]:
    """Preconditions of a patch: the API server answers 409 when the object is another one, or has changed."""
    given = {"uid": seen.uid, "resourceVersion": seen.resource_version}
    return {key: value for key, value in given.items() if value}


async def _create_surely(
    tools: Tools, resource: Resource, metadata: Mapping[str, Any], spec: msgspec.Struct
) -> Outcome:
    """A lost answer is asked for again under the same name, so that it never means a second object."""
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    item = {**kind, "metadata": metadata, "spec": msgspec.to_builtins(spec)}
    is_in_doubt = False
    for attempt in range(_CREATE_ATTEMPTS):
        try:
            tools.caches.learned(resource, await _create_or_find(tools, resource, item, is_in_doubt))
            return Accepted()
        except EffectUnknown:
            is_in_doubt = True
        except KubeError:
            if not is_in_doubt:
                raise
        await tools.runtime.sleep(2.0**attempt * (0.5 + tools.runtime.jitter()))
    raise EffectUnknown(f"whether {resource.kind} {metadata['name']} was created is not known")


async def _create_or_find(tools: Tools, resource: Resource, item: Mapping[str, Any], is_in_doubt: bool) -> bytes:
    try:
        return await tools.client.create(resource, item)
    except (AlreadyExists, ApiConflict):  # a 409 whose body is torn does not say which
        if not is_in_doubt:
            raise
        return await tools.client.get(resource, item["metadata"]["name"])


async def write_status(tools: Tools, resource: Resource, seen: Seen, status: msgspec.Struct) -> Outcome:
    await _patch_status(tools, resource, seen, status)
    return Accepted()


async def _patch_status(tools: Tools, resource: Resource, seen: Seen, status: msgspec.Struct) -> Json:
    patch = {"metadata": _only_if(seen), "status": _whole(status)}
    body = await tools.client.merge_patch(resource, seen.name, patch, seen.namespace, "status")
    tools.caches.learned(resource, body)
    written: Json = msgspec.json.decode(body)
    return written


def _age_seconds(tools: Tools, item: Json) -> float:
    return max(0.0, tools.runtime.now() - parse_instant(item["metadata"]["creationTimestamp"]))


def _whole(status: msgspec.Struct) -> dict[str, Any]:
    """Every field, so that a merge patch leaves nothing of the old status behind: what is not set becomes null."""
    given: dict[str, Any] = msgspec.to_builtins(status)
    return {name: given.get(name) for name in _written_names(type(status))}


@cache
def _written_names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


async def _release(
    tools: Tools, resource: Resource, seen: Seen, ended: Callable[[Json], None] = lambda _item: None
) -> Outcome:
    """Delete, then drop our finalizer: a growth that dies in between leaves a deletion that waits only for that.
    `ended` is called with the object that is gone.
    """
    try:
        live = msgspec.json.decode(await tools.client.get(resource, seen.name))
        if live["metadata"]["uid"] != seen.uid:
            return Conflict(f"{resource.kind} {seen.name} is another one by now")
        if not live["metadata"].get("deletionTimestamp"):
            await tools.client.delete(resource, seen.name, uid=seen.uid)
        kept = [each for each in live["metadata"].get("finalizers", []) if each != FINALIZER]
        await tools.client.merge_patch(resource, seen.name, {"metadata": {"uid": seen.uid, "finalizers": kept}})
        ended(live)
    except NotFound:
        pass  # gone already, which is what was wanted
    tools.caches.forgot(resource, seen.name)
    return Accepted()
