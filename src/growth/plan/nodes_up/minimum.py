"""Which machines must exist even without load? Asked by scale-up, before it looks at pods.

`min` of a server type counts nodes that serve or come; those in removal do not, and neither do dead ones whose machine
is surely gone. The cheapest location that is for sale is taken, within all limits; while none is, the pool simply has
fewer."""

from __future__ import annotations

from collections.abc import Mapping

from growth.model.node import OFFERING_LABEL
from growth.model.nodepool import NodePool, ServerTypeChoice
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import Allowance, Member
from growth.plan.world.machines import is_surely_absent
from growth.plan.world.market import Market
from growth.plan.world.orders import Purchases
from growth.plan.world.pools import OfferingKey, server_type_of
from growth.solver.purchase.problem import Choice


def lacks_minimum(snapshot: Snapshot) -> bool:
    """Is any minimum not kept? A cheap look, before everything is counted exactly."""
    least = {
        (pool.name, choice.name.lower()): choice.min
        for pool in snapshot.pools.values()
        for choice in pool.spec.server_types
        if choice.min
    }
    if not least:
        return False
    for node in snapshot.nodes.values():
        kind = (node.pool, server_type_of(node.labels.get(OFFERING_LABEL, "")))
        if kind in least and _stays(node.name, snapshot):
            least[kind] -= 1
    for request in snapshot.requests.values():
        kind = (request.spec.pool, server_type_of(request.spec.target_offering))
        if kind in least and request.name not in snapshot.nodes and _stays(request.name, snapshot):
            least[kind] -= 1
    return any(count > 0 for count in least.values())


def missing_minimum(
    snapshot: Snapshot,
    market: Market,
    present: tuple[Member, ...],
    allowances: tuple[Allowance, ...],
) -> tuple[Choice, ...]:
    """What to order now so that every minimum is kept."""
    wanted, purchases = list[Choice](), Purchases(snapshot, allowances)
    probations = dict(market.probations)
    for name in sorted(snapshot.pools):
        pool = snapshot.pools[name]
        for server_type in pool.spec.server_types:
            for _ in range(server_type.min - _standing(pool, server_type, snapshot, present)):
                choice = _cheapest(pool, server_type, market, purchases, probations)
                if choice is None:
                    break
                place = (choice.offering.name, choice.offering.location)
                if place in probations:
                    probations[place] -= 1
                purchases.add(choice)
                wanted.append(choice)
    return tuple(wanted)


def _standing(pool: NodePool, server_type: ServerTypeChoice, snapshot: Snapshot, present: tuple[Member, ...]) -> int:
    """Members that are there to stay: a node, or a request for one."""
    return sum(
        1
        for member in present
        if member.pool == pool.name and is_of_type(member, server_type) and _stays(member.name, snapshot)
    )


def is_of_type(member: Member, server_type: ServerTypeChoice) -> bool:
    return server_type_of(member.offering) == server_type.name.lower()


def _stays(name: str, snapshot: Snapshot) -> bool:
    if name in snapshot.removals:
        return False
    request, node = snapshot.requests.get(name), snapshot.nodes.get(name)
    is_coming = request is not None and request.is_in_flight
    return is_coming or (node is not None and (node.is_ready or not is_surely_absent(name, node.created_at, snapshot)))


def _cheapest(
    pool: NodePool,
    server_type: ServerTypeChoice,
    market: Market,
    purchases: Purchases,
    probations: Mapping[OfferingKey, int],
) -> Choice | None:
    """For sale, on no probation that is used up, and under every limit."""
    fitting = [
        choice
        for choice in market.choices
        if choice.pool == pool.name
        and choice.offering.server_type.lower() == server_type.name.lower()
        and probations.get((choice.offering.name, choice.offering.location), 1) > 0
        and not purchases.why_not(choice)
    ]
    return min(
        fitting,
        key=lambda choice: (choice.offering.price_per_hour, choice.offering.name, choice.offering.location),
        default=None,
    )
