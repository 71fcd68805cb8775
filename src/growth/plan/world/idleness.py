"""Is a node idle, and may it be touched? Asked by scale-down, and by removal before every attempt.

Idle means: no pods but those of DaemonSets, mirrors and finished ones, nobody on the way to it, and not starting
itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from growth.model.node import DO_NOT_DISRUPT, Node
from growth.model.noderequest import READY
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import Snapshot
from growth.plan.world.arrival import phase_since, working_pods
from growth.plan.world.fitting import charge, free_amounts, stands

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
    return any(charge(shape).fits_in(free) and stands(shape, node.labels, node.taints, node.name) for shape in shapes)


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
