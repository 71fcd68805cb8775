"""Which nodes must be replaced, and which are being replaced by which? Asked by scale-down, renewal and replacement,
and by every row that must leave such nodes alone meanwhile.

| node | must be replaced, whatever it costs, as |
| --- | --- |
| not Ready for longer than the setting, though it once was | Unhealthy |
| older than the pool lets nodes be | Expired |
| made from another template than the pool has now, or of a type or location that it no longer lists | Drifted |

The template is what a pool puts onto every node: labels, annotations, taints, provider settings. Its digest is written
on the node when it joins; a node without one, or with one by the rule of another version, is never Drifted by its
template, and renewal writes it anew. A node that must not be disrupted is
none of these, unless it is dead.

A swap is written in its NodeRequests: each names the nodes it replaces, so all of it survives a restart. Requests that
replace the same nodes belong together.

| its requests | its old nodes | the swap is |
| --- | --- | --- |
| one on its way | | coming: nothing moves yet |
| all arrived, or given up | some still there | ready: the old ones go, if that still is worth it |
| | all gone | over |
| the last change is older than the settling time | none marked or in removal | over: the old ones stay |
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from msgspec import Struct

from growth.model.node import TEMPLATE, Node
from growth.model.nodepool import NodePool, NodePoolSpec, PoolTaint
from growth.model.noderequest import READY, NodeRequest
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.machines import DRIFTED, EXPIRED, UNHEALTHY, is_surely_absent
from growth.plan.world.nodes import is_protected_node, phase_since, state_of, working_pods
from growth.plan.world.pools import choice_of_type

_LEAST_SECONDS: Final = 120.0  # however soon nodes settle, the old ones get this long to be marked
_DIGITS: Final = 16
_RULE: Final = "v1-"  # of the digest of templates


# -------------------------------------------------------------------------------- must be replaced


def why_replaced(node: Node, pool: NodePool, snapshot: Snapshot, settings: Settings) -> str:
    """The reason of its removal. Empty: it need not be replaced."""
    request = snapshot.requests.get(node.name)
    if request is not None and request.is_in_flight:
        return ""
    if not node.is_ready:
        was_ready = node.created_at < node.ready_changed_at <= snapshot.now  # else provisioning gives it up
        down_seconds = snapshot.now - node.ready_changed_at if was_ready else 0.0
        return UNHEALTHY if down_seconds >= settings.repair_after_seconds else ""
    return _why_renewed(node, pool, snapshot)


def _why_renewed(node: Node, pool: NodePool, snapshot: Snapshot) -> str:
    if is_protected_node(node):
        return ""
    if pool.spec.expire_after_seconds is not None and snapshot.now >= node.created_at + pool.spec.expire_after_seconds:
        return EXPIRED
    return DRIFTED if has_drifted(node, pool, snapshot) else ""


def changes_at(node: Node, pool: NodePool, snapshot: Snapshot, settings: Settings) -> float | None:
    """When time alone will make it so."""
    if not node.is_ready and node.ready_changed_at > node.created_at:
        at = node.ready_changed_at + settings.repair_after_seconds
    elif pool.spec.expire_after_seconds is not None:
        at = node.created_at + pool.spec.expire_after_seconds
    else:
        return None
    return at if at > snapshot.now else None


def fills_minimum(name: str, snapshot: Snapshot) -> bool:
    """Does scale-up count this node, or a request for one, for its pool's minimum? A marked one counts: scale-down
    takes the mark off before the pool is below its minimum. A dead one counts until its machine is surely gone: it may
    come back. So neither is bought twice. An idle one that must be replaced does not: another comes first.
    """
    node, request = snapshot.nodes.get(name), snapshot.requests.get(name)
    if name in snapshot.removals:
        return False
    if node is None or (request is not None and request.is_in_flight):
        return request is not None and request.is_in_flight
    pool = snapshot.pools.get(node.pool)
    if node.is_ready and pool is not None and _why_renewed(node, pool, snapshot):
        return bool(working_pods(snapshot, name))
    return node.is_ready or not is_surely_absent(name, node.created_at, snapshot)


def minimum_ages_at(snapshot: Snapshot) -> float | None:
    """When the next node grows too old of a pool that keeps a minimum: time alone makes it lack one then."""
    ages = {
        name: pool.spec.expire_after_seconds
        for name, pool in snapshot.pools.items()
        if pool.spec.expire_after_seconds is not None and any(choice.min for choice in pool.spec.server_types)
    }
    if not ages:
        return None
    at = (node.created_at + ages[node.pool] for node in snapshot.nodes.values() if node.pool in ages)
    return min((each for each in at if each > snapshot.now), default=None)


def has_drifted(node: Node, pool: NodePool, snapshot: Snapshot) -> bool:
    offering, machine = node.offering, snapshot.machines.get(node.name)
    if offering and choice_of_type(pool, offering) is None:
        return True
    locations = {location.lower() for location in pool.spec.locations}
    if machine is not None and locations and machine.location.lower() not in locations:
        return True
    if not has_known_digest(node):
        return False
    digest = snapshot.memo.recall(f"template of NodePool {pool.name}", (pool,), lambda: template_digest(pool.spec))
    return node.annotations.get(TEMPLATE, "") != digest


def has_known_digest(node: Node) -> bool:
    """Was the digest of its template made by the rule of this version? Others say nothing about a change."""
    return node.annotations.get(TEMPLATE, "").startswith(_RULE)


def template_digest(spec: NodePoolSpec) -> str:
    """By a rule that is spelt out, so that nothing but the template changes it: a field that taints get later counts
    only where it has another value than its default. Where the rule itself changes, its name does.
    """
    labels, annotations = tuple(sorted(spec.labels.items())), tuple(sorted(spec.annotations.items()))
    taints, startup, settings = _spelt(spec.taints), _spelt(spec.startup_taints), spec.provider_settings or ""
    return _digest(f"({labels!r}, {annotations!r}, {taints}, {startup}, {settings!r})")


def _spelt(taints: tuple[PoolTaint, ...]) -> str:
    each = [f"PoolTaint(key={one.key!r}, effect={one.effect!r}, value={one.value!r})" for one in taints]
    return f"({', '.join(each)}{',' if len(each) == 1 else ''})"


@lru_cache(maxsize=1000)
def _digest(text: str) -> str:
    return f"{_RULE}{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"


# ---------------------------------------------------------------------------------- being replaced


class Swap(Struct, frozen=True):
    """Old nodes that still exist, and the new ones that replace them (or the requests for them)."""

    replaced: tuple[str, ...]  # as it was ordered
    old: tuple[str, ...]
    new: tuple[str, ...]
    is_coming: bool
    has_begun: bool  # some of the old ones are going, or gone
    reason: str = ""


def swaps(snapshot: Snapshot, settings: Settings) -> tuple[Swap, ...]:
    """Those under way."""
    groups: dict[tuple[str, ...], list[NodeRequest]] = {}
    for name in sorted(snapshot.requests):
        request = snapshot.requests[name]
        if request.spec.replaces and request.deleted_at is None:
            groups.setdefault(request.spec.replaces, []).append(request)
    found = (_swap(replaced, group, snapshot, settings) for replaced, group in groups.items())
    return tuple(each for each in found if each is not None)


def _swap(replaced: tuple[str, ...], group: list[NodeRequest], snapshot: Snapshot, settings: Settings) -> Swap | None:
    old = tuple(name for name in replaced if name in snapshot.nodes)
    ready = {each.name for each in group if each.phase == READY and each.name in snapshot.nodes}
    live = tuple(each.name for each in group if each.is_in_flight or each.name in ready)
    is_coming = any(each.is_in_flight for each in group)
    is_going = any(state_of(name, snapshot).is_going for name in old)
    is_old = not any(is_settling(each.name, snapshot, settings) for each in group)
    if not old or not live or (is_old and not is_going and not is_coming):
        return None
    return Swap(replaced, old, live, is_coming, is_going or len(old) < len(replaced), group[0].spec.reason)


def is_settling(name: str, snapshot: Snapshot, settings: Settings) -> bool:
    """Was this node bought to replace others, a short while ago? Then it stays even while it is empty: their pods are
    about to come.
    """
    request = snapshot.requests.get(name)
    if request is None or not request.spec.replaces:
        return False
    return snapshot.now < settles_at(request, snapshot, settings)


def settles_at(request: NodeRequest, snapshot: Snapshot, settings: Settings) -> float:
    return min(phase_since(request, snapshot), snapshot.now) + max(settings.settling_seconds, _LEAST_SECONDS)
