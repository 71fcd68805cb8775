"""Which nodes are being replaced by which? Asked by replacement, and by every row that must leave such nodes alone
meanwhile.

A swap is written in its NodeRequests: each names the nodes it replaces, so all of it survives a restart. Requests that
replace the same nodes belong together.

| its requests | its old nodes | the swap is |
| --- | --- | --- |
| one on its way | | coming: nothing moves yet |
| all arrived, or given up | some still there | ready: the old ones go, if that still is worth it |
| | all gone | over |
| the last change is older than the settling time | none of them marked or in removal | over: the old ones stay, and what was bought is a node like any other |
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.model.noderequest import READY, NodeRequest
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.arrival import phase_since

_LEAST_SECONDS: Final = 120.0  # however soon nodes settle, the old ones get this long to be marked


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
    live = [
        request
        for request in group
        if request.is_in_flight or (request.phase == READY and request.name in snapshot.nodes)
    ]
    going = [name for name in old if is_going(name, snapshot)]
    is_coming = any(request.is_in_flight for request in live)
    is_old = all(not is_settling(request.name, snapshot, settings) for request in group)
    if not old or not live or (is_old and not going and not is_coming):
        return None
    reason = group[0].spec.reason
    return Swap(
        replaced,
        old,
        tuple(request.name for request in live),
        is_coming,
        bool(going) or len(old) < len(replaced),
        reason,
    )


def is_going(name: str, snapshot: Snapshot) -> bool:
    return name in snapshot.removals or (name in snapshot.nodes and snapshot.nodes[name].is_marked)


def is_settling(name: str, snapshot: Snapshot, settings: Settings) -> bool:
    """Was this node bought to replace others, a short while ago? Then it stays even while it is empty: their pods are
    about to come.
    """
    request = snapshot.requests.get(name)
    return (
        request is not None and bool(request.spec.replaces) and snapshot.now < settles_at(request, snapshot, settings)
    )


def settles_at(request: NodeRequest, snapshot: Snapshot, settings: Settings) -> float:
    return min(phase_since(request, snapshot), snapshot.now) + max(settings.settling_seconds, _LEAST_SECONDS)
