"""Must this node be replaced, whatever it costs? Asked by scale-down and renewal.

| node | reason |
| --- | --- |
| not Ready for longer than the setting, though it once was | Unhealthy |
| older than the pool lets nodes be | Expired |
| made from another template than the pool has now, or of a type or place that the pool no longer lists | Drifted |

The template is what a pool puts onto every node: labels, annotations, taints, provider settings. Its digest is written
on the node when it joins; a node without one is never Drifted by its template. A node that must not be disrupted is
none of these, unless it is dead."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from growth.model.node import OFFERING_LABEL, TEMPLATE, Node
from growth.model.nodepool import NodePool, NodePoolSpec
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.idleness import is_protected_node
from growth.plan.world.pools import choice_of_type
from growth.plan.world.removal_reasons import DRIFTED, EXPIRED, UNHEALTHY

_DIGITS: Final = 16


def why_replaced(node: Node, pool: NodePool, snapshot: Snapshot, settings: Settings) -> str:
    """Empty: it need not be."""
    request = snapshot.requests.get(node.name)
    if request is not None and request.is_in_flight:
        return ""
    if not node.is_ready:
        return UNHEALTHY if _has_been_down(node, snapshot.now) >= settings.repair_after_seconds else ""
    if is_protected_node(node):
        return ""
    if pool.spec.expire_after_seconds is not None and snapshot.now >= node.created_at + pool.spec.expire_after_seconds:
        return EXPIRED
    return DRIFTED if has_drifted(node, pool, snapshot) else ""


def changes_at(node: Node, pool: NodePool, snapshot: Snapshot, settings: Settings) -> float | None:
    """When time alone will make it so."""
    if not node.is_ready and node.ready_changed_at > node.created_at:
        at = node.ready_changed_at + settings.repair_after_seconds
        return at if at > snapshot.now else None
    if pool.spec.expire_after_seconds is None:
        return None
    at = node.created_at + pool.spec.expire_after_seconds
    return at if at > snapshot.now else None


def _has_been_down(node: Node, now: float) -> float:
    """0 for a node that never was up: provisioning gives that one up."""
    return now - node.ready_changed_at if node.created_at < node.ready_changed_at <= now else 0.0


def has_drifted(node: Node, pool: NodePool, snapshot: Snapshot) -> bool:
    offering = node.labels.get(OFFERING_LABEL, "")
    machine = snapshot.machines.get(node.name)
    if offering and choice_of_type(pool, offering) is None:
        return True
    if (
        machine is not None
        and pool.spec.locations
        and machine.location.lower() not in {place.lower() for place in pool.spec.locations}
    ):
        return True
    return TEMPLATE in node.annotations and node.annotations[TEMPLATE] != template_digest(pool.spec)


def template_digest(spec: NodePoolSpec) -> str:
    return _digest(
        tuple(sorted(spec.labels.items())),
        tuple(sorted(spec.annotations.items())),
        spec.taints,
        spec.startup_taints,
        spec.provider_settings or "",
    )


@lru_cache(maxsize=1000)
def _digest(*parts: object) -> str:
    """The first word says by which rule, so that another rule in a later version makes no node drift."""
    return f"v1-{hashlib.sha256(repr(parts).encode()).hexdigest()[:_DIGITS]}"
