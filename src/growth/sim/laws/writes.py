"""Does growth behave among other people's objects? The laws on what it may write, and that what it binds has room.

Rows of `sim/laws/machines`; each function gets the witness and one write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from growth.model.node import POOL_LABEL, SCALE_DOWN_TAINT, STARTUP_TAINT
from growth.model.resources import PODS, Resources, sum_resources
from growth.sim.apiserver.kinds import POD, Json
from growth.sim.apiserver.store import Write
from growth.sim.laws.witness import GROWTH, Witness

MEDDLING_SECONDS: Final = 30.0
OWN: Final = ("NodeRequest", "NodeRemovalRequest", "Event", "Lease")

Complaint = str | None


def good_manners(witness: Witness, write: Write) -> Complaint:
    """S10: users' specs are never written; only status, our finalizers, taints, labels, annotations, bindings and
    evictions, and `/scale` where asked.
    """
    if write.actor != GROWTH or write.kind.name in OWN:
        return None
    if write.kind.name == "PodTemplate":
        return _template_manners(write)
    look = LOOKS.get(write.kind.name)
    if look is None or write.before is None:
        return f"growth wrote {write.kind.name} {write.key}"
    return look(witness, write.before.decoded(), write)


def _changed(before: Json, after: Json) -> set[str]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _pod_manners(_witness: Witness, before: Json, write: Write) -> Complaint:
    spec = _changed(before["spec"], write.item["spec"])
    metadata = _changed(before["metadata"], write.item["metadata"]) - {
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
    if spec - {"nodeName"} or metadata:
        return f"growth changed {sorted(spec | metadata)} of pod {write.key}"
    return None


def _deletion_manners(witness: Witness, write: Write) -> Complaint:
    if any(server.name == write.key[1] and server.status == "running" for server in witness.our_servers()):
        return f"growth deleted Node {write.key[1]} while its machine runs"
    is_of_a_pool = POOL_LABEL in (write.item["metadata"].get("labels") or {}) or write.key[1] in witness.requests
    return None if is_of_a_pool else f"growth deleted Node {write.key[1]}"


def _node_manners(witness: Witness, before: Json, write: Write) -> Complaint:
    if write.type == "DELETED":
        return _deletion_manners(witness, write)
    name, spec = write.key[1], _changed(before["spec"], write.item["spec"])
    if spec - {"taints", "unschedulable"}:
        return f"growth changed {sorted(spec)} of node {name}"
    pool = witness.pools.get((write.item["metadata"].get("labels") or {}).get(POOL_LABEL, ""), {})
    own = {STARTUP_TAINT.key, SCALE_DOWN_TAINT.key, *(taint["key"] for taint in _pool_taints(pool))}
    old, new = _foreign_taints(before, own), _foreign_taints(write.item, own)
    return f"growth changed foreign taints of node {name}: {old} became {new}" if old != new else None


def _pool_taints(pool: Json) -> list[Any]:
    spec = pool.get("spec") or {}
    return [*(spec.get("taints") or []), *(spec.get("startupTaints") or [])]


def _foreign_taints(node: Json, own: set[str]) -> list[tuple[str, str]]:
    return sorted(
        (taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or [] if taint["key"] not in own
    )


def _pool_manners(_witness: Witness, before: Json, write: Write) -> Complaint:
    if write.type == "DELETED" and write.item["metadata"].get("deletionTimestamp"):
        return None  # the user deleted it; growth only took its finalizer off
    metadata = _changed(before["metadata"], write.item["metadata"]) - {"resourceVersion", "finalizers"}
    if before["spec"] != write.item["spec"] or metadata:
        return f"growth changed {sorted(metadata) or 'the spec'} of pool {write.key[1]}"
    return None


def _template_manners(write: Write) -> Complaint:
    is_owned = any(owner["kind"] == "CapacityBuffer" for owner in write.item["metadata"].get("ownerReferences") or ())
    return None if is_owned else f"growth wrote PodTemplate {write.key}, which belongs to no buffer"


def _status_manners(_witness: Witness, before: Json, write: Write) -> Complaint:
    """Of these only the status."""
    if write.type != "MODIFIED":
        return f"growth deleted {write.kind.name} {write.key}"
    changed = _changed(before["metadata"], write.item["metadata"]) - {"resourceVersion"} | (
        {"spec"} if before["spec"] != write.item["spec"] else set()
    )
    return f"growth changed {sorted(changed)} of {write.kind.name} {write.key}" if changed else None


LOOKS: Final[dict[str, Callable[[Witness, Json, Write], Complaint]]] = {
    "Pod": _pod_manners,
    "Node": _node_manners,
    "NodePool": _pool_manners,
    "CapacityBuffer": _status_manners,
    "PoolAutoscaler": _status_manners,
    "Deployment": lambda *_: None,  # a warm pool: `sim/laws/warm_pools` looks at it
}


# --------------------------------------------------------------------------------------------- room


def no_node_is_overcommitted(witness: Witness, write: Write) -> Complaint:
    """No bind, of growth or beside growth, gives a node of ours more than it has; while a user takes our taints off,
    nobody can help it.
    """
    node_name = write.item["spec"].get("nodeName", "") if write.kind is POD and write.type == "MODIFIED" else ""
    is_meddled_with = witness.now - witness.meddled_at.get(node_name, -1e9) < MEDDLING_SECONDS
    if (
        not node_name
        or is_meddled_with
        or (write.before is not None and write.before.decoded()["spec"].get("nodeName"))
    ):
        return None
    node = witness.node(node_name)
    if node is None:
        return f"growth bound {write.key} to {node_name}, which does not exist" if write.actor == GROWTH else None
    pods = [pod for pod in witness.bound.get(node_name, {}).values() if not pod.is_finished]
    used = sum_resources([pod.shape.requests for pod in pods]) + Resources({PODS: len(pods)})
    return (
        None
        if not node.pool or used.fits_in(node.allocatable)
        else f"node {node_name} has {node.allocatable}; {used} after {write.actor} bound {write.key}"
    )
