"""Does growth behave among other people's objects? The laws on what it may write, and that what it binds has room.

Rows of `sim/laws`; each function gets the witness and one write.
"""

from __future__ import annotations

from typing import Any, Final

from growth.model.node import POOL_LABEL, SCALE_DOWN_TAINT, STARTUP_TAINT
from growth.model.resources import PODS, Resources, sum_resources
from growth.sim.kinds import NODE, POD, Json
from growth.sim.store import Write
from growth.sim.witness import GROWTH, POOL, Witness

MEDDLING_SECONDS: Final = 30.0

Complaint = str | None


def good_manners(witness: Witness, write: Write) -> Complaint:
    """S10: users' specs are never written; only status, our finalizers, taints, labels, annotations, bindings and evictions."""
    if write.actor != GROWTH or write.kind.name in ("NodeRequest", "NodeRemovalRequest", "Event", "Lease"):
        return None
    if write.kind not in (POD, NODE, POOL):
        return f"growth wrote {write.kind.name} {write.key}"
    if write.type == "ADDED" or write.before is None:
        return f"growth created {write.kind.name} {write.key}"
    before = write.before.decoded()
    if write.kind is POD:
        return _pod_manners(before, write)
    if write.type == "DELETED":
        return _deletion_manners(witness, write)
    return _node_manners(witness, before, write) if write.kind is NODE else _pool_manners(before, write)


def _changed(before: Json, after: Json) -> set[str]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _pod_manners(before: Json, write: Write) -> Complaint:
    spec = _changed(before["spec"], write.item["spec"])
    metadata = _changed(before["metadata"], write.item["metadata"]) - {"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"}
    if spec - {"nodeName"} or metadata:
        return f"growth changed {sorted(spec | metadata)} of pod {write.key}"
    return None


def _deletion_manners(witness: Witness, write: Write) -> Complaint:
    if write.kind is NODE and any(server.name == write.key[1] and server.status == "running" for server in witness.our_servers()):
        return f"growth deleted Node {write.key[1]} while its machine runs"
    if write.kind is NODE and (POOL_LABEL in (write.item["metadata"].get("labels") or {}) or write.key[1] in witness.requests):
        return None
    if write.kind is POOL and write.item["metadata"].get("deletionTimestamp"):
        return None  # the user deleted it; growth only took its finalizer off
    return f"growth deleted {write.kind.name} {write.key[1]}"


def _node_manners(witness: Witness, before: Json, write: Write) -> Complaint:
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
    return sorted((taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or [] if taint["key"] not in own)


def _pool_manners(before: Json, write: Write) -> Complaint:
    metadata = _changed(before["metadata"], write.item["metadata"]) - {"resourceVersion", "finalizers"}
    if before["spec"] != write.item["spec"] or metadata:
        return f"growth changed {sorted(metadata) or 'the spec'} of pool {write.key[1]}"
    return None


# ----------------------------------------------------------------------------------------------------------------- room


def no_node_is_overcommitted(witness: Witness, write: Write) -> Complaint:
    """No bind, of growth or beside growth, gives a node of ours more than it has; while a user takes our taints off, nobody can help it."""
    node_name = write.item["spec"].get("nodeName", "") if write.kind is POD else ""
    was_bound = write.before is not None and bool(write.before.decoded()["spec"].get("nodeName"))
    is_meddled_with = witness.now - witness.meddled_at.get(node_name, -1e9) < MEDDLING_SECONDS
    if not node_name or write.type != "MODIFIED" or was_bound or is_meddled_with:
        return None
    node = witness.node(node_name)
    if node is None:
        return f"growth bound {write.key} to {node_name}, which does not exist" if write.actor == GROWTH else None
    pods = [pod for pod in witness.bound.get(node_name, {}).values() if not pod.is_finished]
    used = sum_resources([pod.shape.requests for pod in pods]) + Resources({PODS: len(pods)})
    return None if not node.pool or used.fits_in(node.allocatable) else f"node {node_name} has {node.allocatable}; {used} after {write.actor} bound {write.key}"
