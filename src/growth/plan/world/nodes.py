"""What is this node? How far has it come, is it idle, may it be touched? Asked by every row.

| a node is | when |
| --- | --- |
| joined | the Node object exists, under the request's name |
| registered | growth has written the pool's labels, annotations and taints on it (label growth.dev/node-request) |
| initialised | Ready, its start-up taints gone, the devices it was bought for reported |
| serving | initialised, and growth's own start-up taint taken off |
| idle | no pods but those of DaemonSets, mirrors and finished ones, no pod on its way to it, and not starting |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from growth.model.instant import CLOCKS_DIFFER_SECONDS
from growth.model.node import DO_NOT_DISRUPT, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import READY, NodeRequest
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import ordered_amounts
from growth.plan.world.pools import is_transient
from growth.solver.rules.fit import fits_alone, free_amounts


def is_registered(node: Node) -> bool:
    return node.labels.get(REQUEST_LABEL) == node.name and bool(node.labels.get(POOL_LABEL))


def is_initialised(node: Node, request: NodeRequest, pool: NodePool | None) -> bool:
    if not node.is_ready or not is_registered(node) or node.malformed:
        return False
    if any(is_transient(taint, pool) and taint.key != STARTUP_TAINT.key for taint in node.taints):
        return False
    return all(
        name in node.allocatable for name, amount in ordered_amounts(request.spec).items() if amount > 0 and "/" in name
    )


def is_serving(node: Node, request: NodeRequest, pool: NodePool | None) -> bool:
    return is_initialised(node, request, pool) and not node.is_starting


def phase_since(request: NodeRequest, snapshot: Snapshot) -> float:
    """Since when a request is in its phase. A stamp from the future was written before a clock went back: then its
    node's word counts, or its age.
    """
    node = snapshot.nodes.get(request.name)
    ready_at = (node.ready_changed_at,) if node is not None and request.phase == READY else ()
    stamps = (request.changed_at, *ready_at, request.created_at)
    return next((at for at in stamps if at <= snapshot.now + CLOCKS_DIFFER_SECONDS), 0.0)


def working_pods(snapshot: Snapshot, node: str) -> tuple[Pod, ...]:
    """Those that keep the node from being idle."""
    return tuple(pod for pod in snapshot.pods_by_node.get(node, ()) if pod.counts_as_work)


def is_ours(node: Node, snapshot: Snapshot) -> bool:
    """A node of a pool, made by growth. A label alone is not enough: anybody can write one."""
    if node.pool not in snapshot.pools:
        return False
    return is_registered(node) or node.name in snapshot.machines or node.name in snapshot.requests


UNREACHABLE_SECONDS: Final = 300.0

_PROTECTED_NODE: Final = (
    DO_NOT_DISRUPT,
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
)
_PROTECTED_POD: Final = (DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt")
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def is_protected_node(node: Node) -> bool:
    return any(node.annotations.get(key) == "true" for key in _PROTECTED_NODE)


def is_protected_pod(pod: Pod) -> bool:
    return (
        any(pod.annotations.get(key) == "true" for key in _PROTECTED_POD)
        or pod.annotations.get(_SAFE_TO_EVICT) == "false"
    )


def why_not_idle(node: Node, snapshot: Snapshot, arrival_seconds: float) -> str:
    """In words; empty: it is idle."""
    request = snapshot.requests.get(node.name)
    if request is not None and request.is_in_flight:
        return "it is still starting"
    pods = blocking_pods(node.name, snapshot)
    if pods:
        return (
            f"pod {pods[0].key} runs there"
            if len(pods) == 1
            else f"pod {pods[0].key} and {len(pods) - 1} more run there"
        )
    is_young = (
        request is not None
        and request.phase == READY
        and snapshot.now < phase_since(request, snapshot) + arrival_seconds
    )
    planned = frozenset(request.planned_pods) if request is not None and is_young else frozenset()
    for pod in snapshot.waiting_pods:
        if pod.deleted_at is None and (pod.nominated_node == node.name or pod.key in planned):
            return f"pod {pod.key} is on its way there"
    return ""


def waiting_shapes(snapshot: Snapshot) -> tuple[PodShape, ...]:
    """Of pods that look for a place."""
    looking = (
        pod
        for pod in snapshot.waiting_pods
        if pod.unschedulable_at is not None and pod.deleted_at is None and not pod.is_gated
    )
    return tuple(dict.fromkeys(pod.shape for pod in looking))


def would_take(node: Node, snapshot: Snapshot, shapes: Iterable[PodShape]) -> bool:
    """Does somebody who waits fit there as it is?"""
    free = free_amounts(
        node.allocatable, (pod.shape for pod in snapshot.pods_by_node.get(node.name, ()) if not pod.is_finished)
    )
    return any(fits_alone(shape, node, free) for shape in shapes)


def blocking_pods(node_name: str, snapshot: Snapshot) -> tuple[Pod, ...]:
    """Working pods that would die with the machine."""
    node = snapshot.nodes.get(node_name)
    return tuple(pod for pod in working_pods(snapshot, node_name) if not is_lost(pod, node, snapshot.now))


def lost_at(node_name: str, snapshot: Snapshot) -> float | None:
    """When time alone frees a dead node of its last pods; None: only somebody's deed can."""
    node, pods = snapshot.nodes.get(node_name), working_pods(snapshot, node_name)
    if node is None or node.is_ready or not pods or any(pod.deleted_at is None for pod in pods):
        return None
    at = (
        max(node.ready_changed_at + UNREACHABLE_SECONDS, *((pod.deleted_at or 0.0) + pod.grace_seconds for pod in pods))
        + 1.0
    )
    return at if at > snapshot.now else None


def is_lost(pod: Pod, node: Node | None, now: float) -> bool:
    """On a node that has been unreachable for long, a pod whose deletion is overdue no longer counts: nobody there can
    end it.
    """
    if node is None or node.is_ready or now - node.ready_changed_at <= UNREACHABLE_SECONDS:
        return False
    return pod.deleted_at is not None and now > pod.deleted_at + pod.grace_seconds
