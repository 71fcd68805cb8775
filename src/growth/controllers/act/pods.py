"""How actions on pods and their volumes, on what growth says of a CapacityBuffer, and on warm pools are performed.
Called through the table in `controllers/act/apply.py`.

Of a CapacityBuffer only its status and the PodTemplate it owns are written: a PodTemplate of another owner is refused,
not overwritten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from growth.controllers.act.failures import outcome_of
from growth.controllers.act.nodes import Tools, write_status
from growth.controllers.loop.runtime import work_through
from growth.kube.api.errors import AlreadyExists, Conflict, KubeError, NotFound, Status
from growth.kube.api.resources import (
    CAPACITY_BUFFERS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_TEMPLATES,
    PODS,
    POOL_AUTOSCALERS,
    Right,
)
from growth.kube.cache.pods import resource_of
from growth.kube.codec.own import read_scale
from growth.model import action as act
from growth.model import outcome
from growth.model.capacitybuffer import TEMPLATE_DIGEST
from growth.model.instant import format_instant
from growth.model.labels import TEMPLATE_HASH
from growth.model.outcome import Accepted, Failure, Outcome, Refused
from growth.model.pod import FINISHED, WAITING_FOR_VOLUMES
from growth.model.poolautoscaler import PodSelector
from growth.model.volumes import SELECTED_NODE
from growth.model.warmpool import DEPLOYMENT, WarmPoolKind

_TAKEN_SECONDS: Final = 10.0
_BINDS_AT_ONCE: Final = 16  # to one node
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

Item = TypeVar("Item")

# ------------------------------------------------------------------------------------------ one pod


async def fill_node(tools: Tools, action: act.FillNode) -> Outcome:
    """Before each bind the gate has looked at the node and its pods live, a moment ago. The API server looks at the
    pod: it refuses one of another UID, bound already, gated or being deleted.
    """
    node, counted, failed = action.node.name, frozenset(action.beside), list[tuple[str, Failure]]()

    async def bind(pod: act.Seen) -> Outcome:
        closed = await tools.gate.why_not_bind(node, counted)
        if closed is None:
            await _bind(tools, pod, node)
        return closed or Accepted()

    async def attempt(pod: act.Seen) -> None:
        async with tools.gate.binding:
            outcome = await outcome_of(bind(pod))
        if not isinstance(outcome, Accepted):
            failed.append((pod.uid, outcome))

    async with tools.gate.filling:
        await work_through(tools.runtime, "bind", action.pods, _BINDS_AT_ONCE, attempt)
    return Accepted(failed=tuple(failed))


async def _bind(tools: Tools, pod: act.Seen, node: str) -> None:
    asked_at = tools.runtime.monotonic()
    await tools.client.bind(pod.name, pod.namespace, node, uid=pod.uid)
    tools.caches.bound(f"{pod.namespace}/{pod.name}", pod.uid, node, asked_at)


async def nominate_pod(tools: Tools, action: act.NominatePod) -> Outcome:
    patch = {"metadata": {"uid": action.pod.uid}, "status": {"nominatedNodeName": action.node_name or None}}
    body = await tools.client.merge_patch(PODS, action.pod.name, patch, action.pod.namespace, "status")
    tools.caches.learned(PODS, body)
    return Accepted()


async def evict_pod(tools: Tools, action: act.EvictPod) -> Outcome:
    await tools.client.evict(action.pod.name, action.pod.namespace, uid=action.pod.uid)
    return Accepted()


# ------------------------------------------------------------ many pods, for growth's own scheduler


async def bind_pods(tools: Tools, action: act.BindPods) -> Outcome:
    """The API server binds to nodes that do not exist, and beyond what a node has: whether a node is still there is
    read live right before, and so is who stands on it, once for all pods that go there, unless the watch of pods has
    just shown that it does not lag.
    """
    by_node: dict[str, list[act.Assignment]] = {}
    for each in action.assignments:
        by_node.setdefault(each.node_name, []).append(each)
    counted = {
        node: frozenset((*action.beside.get(node, ()), *(each.pod.uid for each in assignments)))
        for node, assignments in by_node.items()
    }

    async def bind(one: act.Assignment) -> None:
        node = one.node_name
        if not tools.caches.has_node(node):
            raise _taken(f"node {node} is gone")
        look = tools.gate.why_not_bind_among(node, counted[node]) if one.wait is None else tools.gate.why_gone(node)
        closed = await look
        if closed is not None:
            raise _taken(closed.reason)
        if one.wait is not None:
            await _ask_for_volumes(tools, one.pod, node, one.wait)
        else:
            await _bind(tools, one.pod, node)

    together = (each for assignments in by_node.values() for each in assignments)
    return await _each(tools, together, action.at_once, bind)


async def write_pods_unscheduled(tools: Tools, action: act.WritePodsUnscheduled) -> Outcome:
    async def write(one: act.Unscheduled) -> None:
        nomination = {"nominatedNodeName": None} if one.is_withdrawn else {}
        await _write_unscheduled(tools, one.pod, one.reason, one.message, one.since, nomination)

    return await _each(tools, action.pods, action.at_once, write)


async def _write_unscheduled(
    tools: Tools, pod: act.Seen, reason: str, message: str, since: float, nomination: Mapping[str, str | None]
) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_instant(since),
    }
    patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition], **nomination}}
    tools.caches.learned(PODS, await tools.client.strategic_patch(PODS, pod.name, patch, pod.namespace, "status"))


async def _each(
    tools: Tools, items: Iterable[Item], at_once: int, perform: Callable[[Item], Awaitable[None]]
) -> Outcome:
    """Perform it for each item, `at_once` at a time. A failure stops no other item; the first is raised when all are
    done.
    """
    failures = list[KubeError]()

    async def attempt(item: Item) -> None:
        try:
            await perform(item)
        except KubeError as error:
            failures.append(error)

    await work_through(tools.runtime, "pods", items, at_once, attempt)
    if failures:
        raise failures[0]
    return Accepted()


# ---------------------------------------------------------- volumes that wait for a first consumer

VOLUME_RIGHTS: Final = tuple(
    Right(resource, ("get", "patch")) for resource in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)
)


async def _ask_for_volumes(tools: Tools, pod: act.Seen, node: str, wait: act.VolumeWait) -> None:
    """The pod last: one that says it waits for volumes has asked for all of them. What was asked for before is not
    written again, and what was promised elsewhere is a Conflict.
    """
    for ask in wait.asks:
        live = msgspec.json.decode(await tools.client.get(PERSISTENT_VOLUME_CLAIMS, ask.claim.name, pod.namespace))
        if live["metadata"]["uid"] != ask.claim.uid or live["metadata"].get("deletionTimestamp"):
            raise _taken(f"claim {pod.namespace}/{ask.claim.name} is gone, or going")
        if live["spec"].get("volumeName"):
            continue
        await (_reserve(tools, ask.volume, live) if ask.volume else _ask_provisioner(tools, node, live))
    nomination = {"nominatedNodeName": node}
    await _write_unscheduled(tools, pod, WAITING_FOR_VOLUMES, wait.message, wait.since, nomination)


async def _ask_provisioner(tools: Tools, node: str, claim: Any) -> None:
    metadata = claim["metadata"]
    selected = (metadata.get("annotations") or {}).get(SELECTED_NODE)
    if selected not in (None, node):
        raise _taken(f"claim {metadata['namespace']}/{metadata['name']} is promised to node {selected}")
    if selected is None:
        patch = {"metadata": {**_as_seen(metadata), "annotations": {SELECTED_NODE: node}}}
        resource, namespace = PERSISTENT_VOLUME_CLAIMS, metadata["namespace"]
        tools.caches.learned(resource, await tools.client.merge_patch(resource, metadata["name"], patch, namespace))


async def _reserve(tools: Tools, volume: str, claim: Any) -> None:
    """As kube-scheduler does it; the volume controller binds the two. One that a user reserved keeps saying so."""
    live = msgspec.json.decode(await tools.client.get(PERSISTENT_VOLUMES, volume))
    held, owner = live["spec"].get("claimRef"), claim["metadata"]
    wanted = {name: owner[name] for name in ("namespace", "name", "uid")}
    if held is not None and any(held.get(name) not in (None, value) for name, value in wanted.items()):
        raise _taken(f"volume {volume} is reserved for another claim")
    if held is not None and held.get("uid"):
        return
    reference = {"apiVersion": "v1", "kind": PERSISTENT_VOLUME_CLAIMS.kind, **wanted}
    marks = {"annotations": {_BOUND_BY_CONTROLLER: "yes"}} if held is None else {}
    patch = {"metadata": {**_as_seen(live["metadata"]), **marks}, "spec": {"claimRef": reference}}
    tools.caches.learned(PERSISTENT_VOLUMES, await tools.client.merge_patch(PERSISTENT_VOLUMES, volume, patch))


def _as_seen(metadata: Any) -> dict[str, str]:
    """What makes a patch fail if the object has changed since."""
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def _taken(message: str) -> Conflict:
    return Conflict(Status(code=409, reason="Conflict", message=message))


# ------------------------------------------------------------------------------------------ buffers


async def write_buffer_status(tools: Tools, action: act.WriteBufferStatus) -> Outcome:
    return await write_status(tools, tools.caches.served(CAPACITY_BUFFERS), action.buffer, action.status)


async def write_pod_template(tools: Tools, action: act.WritePodTemplate) -> Outcome:
    buffer = action.buffer
    owner = {
        "apiVersion": tools.caches.served(CAPACITY_BUFFERS).api_version,
        "kind": CAPACITY_BUFFERS.kind,
        "name": buffer.name,
        "uid": buffer.uid,
        "controller": True,
    }
    metadata = {
        "name": action.name,
        "namespace": buffer.namespace,
        "annotations": {TEMPLATE_DIGEST: action.digest},
        "ownerReferences": [owner],
    }
    template = msgspec.json.decode(action.text)
    item = {"apiVersion": "v1", "kind": POD_TEMPLATES.kind, "metadata": metadata, "template": template}
    try:
        body = await tools.client.create(POD_TEMPLATES, item)
    except AlreadyExists:
        live = msgspec.json.decode(await tools.client.get(POD_TEMPLATES, action.name, buffer.namespace))
        if all(each.get("uid") != buffer.uid for each in live["metadata"].get("ownerReferences") or ()):
            return Refused(f"PodTemplate {buffer.namespace}/{action.name} belongs to somebody else")
        version = live["metadata"]["resourceVersion"]
        body = await tools.client.replace(POD_TEMPLATES, {**item, "metadata": {**metadata, "resourceVersion": version}})
    tools.caches.learned(POD_TEMPLATES, body)
    return Accepted()


# --------------------------------------------------------------------------------------- warm pools


def scale_rights(kinds: tuple[WarmPoolKind, ...]) -> tuple[Right, ...]:
    """What scaling these kinds needs."""
    return tuple(Right(resource_of(kind), ("patch",), "scale") for kind in kinds)


async def scale_warm_pool(tools: Tools, action: act.ScaleWarmPool) -> Outcome:
    """One write, on the version that was seen; the count is known here at once. Before fewer replicas a live look at
    the pods in use: what growth knows of pods may be minutes old.
    """
    began_at, target = tools.runtime.monotonic(), action.target
    direction = "scale_up" if action.replicas > action.before else "scale_down"
    try:
        taken = await _taken_meanwhile(tools, action)
        if taken:
            return outcome.TryLater(f"pod {taken} has been taken into use meanwhile", _TAKEN_SECONDS)
        answer = await tools.client.set_scale(
            resource_of(action.kind), target.name, target.namespace, action.replicas, target.resource_version
        )
    except KubeError as error:
        tools.metrics.reconciled(direction, "internal", tools.runtime.monotonic() - began_at)
        if isinstance(error, NotFound):
            return outcome.Conflict(
                f"{error}; either it is gone, or {resource_of(action.kind)} have no scale subresource here"
            )
        raise
    tools.metrics.reconciled(direction, "none", tools.runtime.monotonic() - began_at)
    tools.caches.scaled(action.kind, f"{target.namespace}/{target.name}", target.uid, read_scale(answer).pool.replicas)
    return Accepted()


async def _taken_meanwhile(tools: Tools, action: act.ScaleWarmPool) -> str:
    """A pod of the pool that is in use, and was not when this was decided; empty: there is none."""
    if action.sparing is None:
        return ""
    items, _ = await tools.client.list(PODS, action.target.namespace, labels=query_of(action.sparing.labels))
    pods = (msgspec.json.decode(item) for item in items)
    return next((str(pod["metadata"]["name"]) for pod in pods if is_taken(pod, action, action.sparing)), "")


def is_taken(pod: Any, action: act.ScaleWarmPool, sparing: act.Sparing) -> bool:
    """A ReplicaSet that growth has not heard of is called after its Deployment and the hash that its pods carry."""
    metadata = pod["metadata"]
    is_over = "deletionTimestamp" in metadata or pod.get("status", {}).get("phase") in FINISHED
    if is_over or metadata["uid"] in sparing.known:
        return False
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    digest = (metadata.get("labels") or {}).get(TEMPLATE_HASH) if action.kind.name == DEPLOYMENT.name else None
    made_since = f"{action.target.name}-{digest}" if digest else None
    return any(owner["uid"] in sparing.owners or owner["name"] == made_since for owner in owners)


def query_of(labels: PodSelector) -> str:
    """As the API server takes a label selector in a query."""
    terms = [f"{key}={value}" for key, value in sorted(labels.match_labels.items())]
    for each in labels.match_expressions:
        values = ",".join(each.values)
        words = {"In": f"{each.key} in ({values})", "NotIn": f"{each.key} notin ({values})", "Exists": each.key}
        terms.append(words.get(each.operator, f"!{each.key}"))
    return ",".join(terms)


async def write_pool_autoscaler_status(tools: Tools, action: act.WritePoolAutoscalerStatus) -> Outcome:
    return await write_status(tools, POOL_AUTOSCALERS, action.autoscaler, action.status)
