"""What may be bought right now, within which limits? Asked by scale-up for the solver, and for the machines that `min`
keeps warm.

Struck out: what is Unmet anywhere, for every pool; what the provider says is out of stock; pools that are paused or
going. An offering whose Unmet has just expired is on probation: one order at a time, until one of them is accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from growth.model.nodepool import NodePool
from growth.model.noderequest import PENDING, PROVISIONING, READY, UNMET, NodeRequestSpec
from growth.model.offering import Offering
from growth.model.resources import CPU, Resources, format_amount
from growth.model.settings import Settings
from growth.model.snapshot import DaemonSet, Snapshot
from growth.plan.world.catalogue import Place, struck_out, unmet_until
from growth.plan.world.limits import Allowance, Member, headroom
from growth.plan.world.pools import choice_of_type, offerings_of, why_not_buying
from growth.plan.world.templates import choice_labels, daemon_shapes, serving_taints
from growth.solver.purchase.problem import Choice, Limit


class Market(Struct, frozen=True):
    """What is for sale, and what is not for the moment."""

    choices: tuple[Choice, ...]
    probations: Mapping[Place, int]  # how many more orders of an offering that is being tried again
    reopens_at: float | None  # when the first Unmet expires


def open_market(
    snapshot: Snapshot,
    pools: Collection[str],
    offerings: tuple[Offering, ...],
    struck_at: Mapping[Place, float],
    settings: Settings,
) -> Market:
    """Everything the named pools may buy."""
    struck = struck_out(snapshot.requests.values(), snapshot.now, settings.unmet_seconds)
    choices: list[Choice] = []
    for name in sorted(pools):
        pool = snapshot.pools[name]
        if not why_not_buying(pool, settings.is_paused):
            choices += [
                _choice(pool, each, snapshot.daemon_sets)
                for each in offerings_of(pool, offerings)
                if is_for_sale(each, struck)
            ]
    probations = {place: _orders_left(place, snapshot) for place in sorted(struck_at) if place not in struck}
    return Market(tuple(choices), probations, min(struck.values(), default=None))


def is_for_sale(offering: Offering, struck: Collection[Place]) -> bool:
    return offering.is_available and (offering.name, offering.location) not in struck


def _choice(pool: NodePool, offering: Offering, daemon_sets: Iterable[DaemonSet]) -> Choice:
    labels, taints = choice_labels(pool, offering), serving_taints(pool)
    listed = choice_of_type(pool, offering.name)
    return Choice(
        pool.name,
        offering,
        labels,
        taints,
        daemon_shapes(daemon_sets, labels, taints),
        pool.spec.priority,
        listed.priority if listed is not None else 0,
    )


def _orders_left(place: Place, snapshot: Snapshot) -> int:
    pending = [
        each
        for each in snapshot.requests.values()
        if each.phase == PENDING and (each.spec.target_offering, each.spec.location) == place
    ]
    return max(0, 1 - len(pending))


def struck_since(snapshot: Snapshot, known: Mapping[Place, float], settings: Settings) -> Mapping[Place, float]:
    """When each offering was last struck out, as seen or as records say, until a later order of it was accepted."""
    struck, accepted = dict(known), dict[Place, float]()
    for request in snapshot.requests.values():
        place = (request.spec.target_offering, request.spec.location)
        if request.phase in (PROVISIONING, READY):
            accepted[place] = max(accepted.get(place, 0.0), request.created_at)
        elif request.phase == UNMET:
            struck[place] = max(
                struck.get(place, 0.0), min(snapshot.now, unmet_until(request, snapshot.now, settings.unmet_seconds))
            )
    return {place: at for place, at in sorted(struck.items()) if at > accepted.get(place, 0.0)}


# ------------------------------------------------------------------------------------------- limits


def limits_for(
    market: Market, allowances: Iterable[Allowance], promised: Mapping[Place, Offering]
) -> tuple[Limit, ...]:
    """The limits in the solver's words. Where nodes turned out smaller, a limit shrinks with them: what is promised
    must fit under it.
    """
    limits = [_limit(allowance, market.choices, promised) for allowance in allowances]
    for (name, location), orders in market.probations.items():
        covered = tuple(
            index
            for index, each in enumerate(market.choices)
            if (each.offering.name, each.offering.location) == (name, location)
        )
        limits.append(Limit(f"{name} in {location} is being tried again, one order at a time", covered, nodes=orders))
    return tuple(limit for limit in limits if limit.choices)


def _limit(allowance: Allowance, choices: tuple[Choice, ...], promised: Mapping[Place, Offering]) -> Limit:
    covered = tuple(
        index for index, choice in enumerate(choices) if allowance.covers(choice.pool, choice.offering.name)
    )
    bounds = {
        name: _shrunk(max(0, left), name, [choices[index].offering for index in covered], promised)
        for name, left in allowance.resources.items()
    }
    price = None if allowance.price_per_hour is None else max(0.0, allowance.price_per_hour)
    return Limit(allowance.name, covered, None if allowance.nodes is None else max(0, allowance.nodes), bounds, price)


def _shrunk(left: int, name: str, offerings: Iterable[Offering], promised: Mapping[Place, Offering]) -> int:
    for offering in offerings:
        whole = promised.get((offering.name, offering.location), offering).allocatable[name]
        if whole > offering.allocatable[name]:
            left = min(left, left * offering.allocatable[name] // whole)
    return left


def orders_possible(market: Market, allowances: tuple[Allowance, ...]) -> dict[str, int]:
    """How many more of each choice could be bought: what a pod that waits compares."""
    found = {}
    for choice in market.choices:
        offering = choice.offering
        rooms = [
            headroom(each, offering.allocatable, offering.price_per_hour)
            for each in allowances
            if each.covers(choice.pool, offering.name)
        ]
        rooms.append(market.probations.get((offering.name, offering.location), 1000))
        found[f"{choice.pool} {offering.name} {offering.location}"] = min(rooms)
    return found


# ------------------------------------------------------------------------------------------- orders


def order(choice: Choice, planned_pods: tuple[str, ...], reason: str) -> NodeRequestSpec:
    """What a NodeRequest for this choice says."""
    offering = choice.offering
    return NodeRequestSpec(
        choice.pool, offering.name, offering.location, quantities(offering.allocatable), planned_pods, reason
    )


def quantities(amounts: Resources) -> dict[str, str]:
    """Exact, as the API reads them."""
    return {name: format_amount(name, amount) if name == CPU else str(amount) for name, amount in amounts.items()}


def member_of(choice: Choice, promised: Mapping[Place, Offering]) -> Member:
    """The node an order becomes, as limits count it: by the larger of what is promised and what experience says."""
    offering = choice.offering
    whole = promised.get((offering.name, offering.location), offering)
    return Member(
        "", choice.pool, offering.name, whole.allocatable.at_least(offering.allocatable), offering.price_per_hour
    )
