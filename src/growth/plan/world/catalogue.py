"""What can be bought, as far as experience has shown? Asked by scale-up, provisioning, limits and pool status.

A machine may turn out smaller than its catalogue says: what its real nodes lack is remembered by offering and taken off
for later plans. A device that has not shown up yet (its plug-in starts after the node) is believed missing only once
the node has been Ready for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from growth.model.node import OFFERING_LABEL, Node
from growth.model.noderequest import UNMET, NodeRequest
from growth.model.offering import Offering
from growth.model.resources import Resources
from growth.model.snapshot import Snapshot
from growth.plan.world.records import CLOCKS_DIFFER_SECONDS, instant_of

Learned = Mapping[str, Resources]  # by offering: what its real nodes lack
Place = tuple[str, str]  # an offering's name and its location

BELIEF_SECONDS: Final = 300.0


def by_place(offerings: Iterable[Offering]) -> dict[Place, Offering]:
    return {(offering.name, offering.location): offering for offering in offerings}


def learn(snapshot: Snapshot, known: Learned, nodes: Iterable[Node]) -> Learned:
    """What these live nodes show now; of an offering without any, what was known before."""
    promised = {offering.name: offering.allocatable for offering in snapshot.offerings}
    lacking: dict[str, Resources] = {}
    for node in nodes:
        name = node.labels.get(OFFERING_LABEL, "")
        if name in promised and _speaks_for_its_kind(node):
            lack = _lack(promised[name], node, snapshot.now)
            lacking[name] = lacking[name].at_least(lack) if name in lacking else lack
    return {name: lack for name, lack in sorted({**known, **lacking}.items()) if lack}


def _speaks_for_its_kind(node: Node) -> bool:
    return bool(node.pool) and node.is_ready and not node.malformed and bool(node.allocatable)


def _lack(promised: Resources, node: Node, now: float) -> Resources:
    is_settled = now - node.ready_changed_at >= BELIEF_SECONDS
    missing = {
        name: amount - node.allocatable[name]
        for name, amount in promised.items()
        if name in node.allocatable or is_settled
    }
    return Resources({name: amount for name, amount in missing.items() if amount > 0})


def corrected(offerings: Iterable[Offering], learned: Learned) -> tuple[Offering, ...]:
    """The catalogue without what real nodes turned out to lack."""
    return tuple(_without(offering, learned.get(offering.name)) for offering in offerings)


def _without(offering: Offering, lack: Resources | None) -> Offering:
    if not lack:
        return offering
    rest = {name: max(0, amount - lack[name]) for name, amount in offering.allocatable.items()}
    return replace(offering, allocatable=Resources(rest))


def struck_out(requests: Iterable[NodeRequest], now: float, otherwise_seconds: float) -> dict[Place, float]:
    """Offerings that are Unmet, for every pool, and until when."""
    struck: dict[Place, float] = {}
    for request in requests:
        ends_at = unmet_until(request, now, otherwise_seconds)
        if request.phase == UNMET and ends_at > now:
            place = (request.spec.target_offering, request.spec.location)
            struck[place] = max(struck.get(place, 0.0), ends_at)
    return struck


def unmet_until(request: NodeRequest, now: float, otherwise_seconds: float) -> float:
    """As its status says; a record without a readable time counts from its last change. One changed in the future is
    over: a clock went back.
    """
    if request.changed_at > now + CLOCKS_DIFFER_SECONDS:
        return 0.0
    return instant_of(request.status.expires_at) or request.changed_at + otherwise_seconds
