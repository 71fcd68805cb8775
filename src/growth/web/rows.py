"""What is said of each thing on the page: one function for each kind of row. Asked by `web/state`; pure.

Amounts are in millicores and mebibytes, instants in seconds since the epoch. Texts from elsewhere are redacted."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from growth.controllers.ask.explain import state_of_pod
from growth.kube.redaction import redact
from growth.model.api import Condition, LifeEvent
from growth.model.instant import InstantError, parse_instant
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.pod import Pod
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.resources import CPU, MEMORY, Resources
from growth.model.settings import WarmPoolSettings
from growth.plan.buffers.virtual_pods import ServedBuffer
from growth.plan.warm_pools.size import watermarks
from growth.plan.world.marks import mark_of

_MEBIBYTE: Final = 1 << 20

Row = Any  # what JSON can say

# ------------------------------------------------------------------------------------ pods and nodes


def node_row(
    node: Node, pods: tuple[Pod, ...], removal: NodeRemovalRequest | None, price: float, is_growths: bool
) -> Row:
    state, why = _state(node, removal)
    mark = mark_of(node)
    alive = [pod for pod in pods if not pod.is_finished]
    return {
        "pool": node.pool if is_growths else "",
        "offering": node.offering,
        "zone": node.labels.get("topology.kubernetes.io/zone", ""),
        "price": price,
        "cpu": node.allocatable[CPU],
        "memory": node.allocatable[MEMORY] // _MEBIBYTE,
        "usedCpu": sum(pod.shape.requests[CPU] for pod in alive),
        "usedMemory": sum(pod.shape.requests[MEMORY] for pod in alive) // _MEBIBYTE,
        "state": state,
        "why": redact(why),
        "since": node.created_at,
        "due": mark.due_at if mark is not None else None,
        "pods": _by_class(alive),
    }


def _state(node: Node, removal: NodeRemovalRequest | None) -> tuple[str, str]:
    if removal is not None:
        waits = f"; waits for {removal.status.waiting_for}" if removal.status.waiting_for else ""
        return "going", f"{removal.spec.reason or 'removal'}: {removal.phase}{waits}"
    if not node.is_ready:
        return "notReady", "the node is not Ready"
    if node.is_starting:
        return "starting", "it has joined, and gets the pods that were planned for it"
    if node.is_marked:
        return "marked", "not needed: it goes when its time has come, unless pods need it"
    return "ready", ""


def _by_class(pods: Iterable[Pod]) -> dict[str, list[list[str]]]:
    """Names of the pods of each class: those that run, those that start, those that are going."""
    found: dict[str, list[list[str]]] = {}
    for pod in pods:
        stage = 2 if pod.deleted_at is not None else 0 if pod.phase == "Running" else 1
        found.setdefault(class_of(pod), [[], [], []])[stage].append(pod.name)
    return dict(sorted(found.items()))


def workload_of(pod: Pod) -> str:
    """The name of what made it: of a ReplicaSet, without the checksum of its template."""
    if pod.owner is None:
        return pod.name
    name, _, checksum = pod.owner.name.rpartition("-")
    return name if name and pod.owner.kind == "ReplicaSet" and checksum.isalnum() else pod.owner.name


def class_of(pod: Pod) -> str:
    return f"{pod.shape.namespace}/{workload_of(pod)}|{_in_words(pod.shape.requests)}"


@lru_cache(maxsize=4096)
def _in_words(requests: Resources) -> str:
    """Thousands of pods share a few amounts."""
    return str(requests)


def class_row(pod: Pod) -> Row:
    requests = pod.shape.requests
    return {
        "namespace": pod.shape.namespace,
        "workload": workload_of(pod),
        "cpu": requests[CPU],
        "memory": requests[MEMORY] // _MEBIBYTE,
        "requests": _in_words(requests) or "nothing",
        "daemon": pod.is_daemon or pod.is_mirror,
    }


def waiting_row(pod: Pod, said: Any) -> Row:
    return {
        "class": class_of(pod),
        "since": pod.unschedulable_at or pod.created_at,
        "reason": said.reason if said is not None else "",
        "message": redact(said.message if said is not None else state_of_pod(pod)),
        "warning": said is not None and said.severity == "Warning",
    }


# --------------------------------------------------------------------------------- growth's own kinds


def pool_row(pool: NodePool, paused: bool) -> Row:
    status = pool.status
    return {
        "types": [each.name for each in pool.spec.server_types],
        "consolidation": pool.spec.consolidation,
        "paused": paused,
        "deleted": pool.deleted_at is not None,
        "inFlight": status.in_flight,
        "limits": {key: value for key, value in msgspec.to_builtins(pool.spec.limits).items() if value is not None},
        "offerings": [
            [each.name, each.location, each.state, each.price_per_hour, each.nodes] for each in status.offerings
        ],
        "conditions": _conditions(status.conditions),
    }


def request_row(request: NodeRequest) -> Row:
    spec, status = request.spec, request.status
    return {
        "kind": "NodeRequest",
        "pool": spec.pool,
        "offering": spec.target_offering,
        "location": spec.location,
        "node": status.node_id or request.name,
        "reason": spec.reason,
        "phase": status.phase,
        "since": request.created_at,
        "pods": len(request.planned_pods),
        "replaces": list(spec.replaces),
        "events": _events(status.events),
    }


def removal_row(removal: NodeRemovalRequest) -> Row:
    spec, status = removal.spec, removal.status
    return {
        "kind": "NodeRemovalRequest",
        "pool": spec.pool,
        "offering": spec.offering,
        "node": spec.node_name,
        "reason": spec.reason,
        "phase": status.phase,
        "since": removal.created_at,
        "waitingFor": redact(status.waiting_for),
        "events": _events(status.events),
    }


def buffer_row(served: ServedBuffer, standing: int, coming: int) -> Row:
    return {
        "wanted": served.count,
        "standing": standing,
        "coming": coming,
        "missing": max(0, served.count - standing - coming),
        "requests": str(served.shape.requests),
        "pools": list(served.pools),
        "problem": redact(served.problem),
        "conditions": _conditions(served.buffer.status.conditions),
    }


def autoscaler_row(autoscaler: PoolAutoscaler, settings: WarmPoolSettings) -> Row:
    spec, status = autoscaler.spec, autoscaler.status
    policy, capacity = spec.capacity_policy, status.current_capacity
    marks = watermarks(policy, status.current_replicas, settings.tolerance_percent) if policy is not None else None
    return {
        "target": f"{spec.scale_target_ref.kind} {spec.scale_target_ref.name}",
        "min": spec.min_replicas,
        "max": spec.max_replicas,
        "marks": [marks.lower, marks.target, marks.upper] if marks is not None else None,
        "schedules": len(spec.cron_policies),
        "replicas": status.current_replicas,
        "desired": status.desired_replicas,
        "available": capacity.available,
        "used": capacity.used,
        "starting": capacity.starting,
        "suspended": spec.suspend,
        "decision": redact(status.last_decision),
        "conditions": _conditions(status.conditions),
    }


def _conditions(conditions: Iterable[Condition]) -> list[list[str]]:
    return [[each.type, each.status, each.reason, redact(each.message)] for each in conditions]


def _events(events: Iterable[LifeEvent]) -> list[list[Any]]:
    return [[_seconds(each.at), each.name, redact(each.reason)] for each in events]


def _seconds(instant: str) -> float | None:
    try:
        return parse_instant(instant)
    except InstantError:
        return None
