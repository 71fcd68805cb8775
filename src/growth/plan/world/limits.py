"""How much may still be bought? Asked by scale-up (for the solver, and again before anything is ordered), provisioning,
the gate and pool status.

Everything is counted once, by name: a node, the request it came from, the removal it is in and its machine at the
provider are one. An order without an answer counts for ten minutes, whatever becomes of its request: it may take effect
when the machine that a second order brought has come and gone.

| limit | over |
| --- | --- |
| serverTypes[].max | the nodes of that type in the pool, all locations together |
| limits of the pool: nodes, cpu, memory, price per hour | all nodes of the pool |
| limits of the settings | all pools together |
| by default 100 nodes, where its types have no `max`, the pool no limits and the settings no count | each pool |
| by default 5 per hour, where machines cost money and the settings say no price | all pools together |

A default blocks nothing that exists: where more stood when it first held for a pool (`exempt` in its status), so much
may stand, and be replaced.

To renew a node, one machine more than `max` (or than a pool's count of nodes) may stand for a while; limits of
resources, of price and of the settings hold. A limit that cannot be read lets nothing be bought: growth spends money
only on what it understands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.node import Node
from growth.model.nodepool import Exempt, NodePool, PoolLimits
from growth.model.noderequest import READY, UNMET, NodeRequest, NodeRequestSpec
from growth.model.offering import Machine, Offering
from growth.model.quantity import QuantityError
from growth.model.resources import CPU, MEMORY, NOTHING, Resources, format_amount, parse_amount
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.machines import pool_of_machine
from growth.plan.world.pools import OfferingKey, by_key, server_type_of
from growth.plan.world.turn import instant_of

_SMALLEST_PRICE: Final = 1e-9  # below this two prices are the same

DEFAULT_NODES: Final = 100  # of a pool for which nobody says how many
DEFAULT_PRICE_PER_HOUR: Final = 5.0  # of all pools, where machines cost money and nobody says how much

LATE_SECONDS: Final = 600.0
DEMAND: Final = "Demand"  # the reason of orders for pods that wait
RENEWAL: Final = "Renewal"  # the reason of orders that replace nodes which are too old, or changed


class Member(Struct, frozen=True, gc=False):
    """A node, planned, on its way, serving or going."""

    name: str
    pool: str
    offering: str
    allocatable: Resources = NOTHING
    price_per_hour: float = 0.0
    count: int = 1
    may_come_until: float | None = None  # its order was not answered; None: it is there, or surely coming


class Allowance(Struct, frozen=True):
    """One limit and how much of it is used. None: not limited in that respect."""

    name: str
    pool: str = ""  # empty: of all pools
    server_type: str = ""  # empty: of all types
    nodes: int | None = None
    resources: Mapping[str, int] = {}
    price_per_hour: float | None = None
    malformed: str = ""
    is_firm: bool = False  # holds for renewals too, and its name says all there is to say
    is_pace: bool = False  # more may be bought soon: pods are planned as if it were not there, and wait for their turn
    is_step: bool = False  # more may be bought once these have come: a gang that needs more is bought for in steps
    stated: Mapping[str, str] = {}  # in words: of "nodes", of each resource by name, of "price"

    def covers(self, pool: str, offering: str) -> bool:
        return self.pool in ("", pool) and self.server_type in ("", server_type_of(offering))


# --------------------------------------------------------------------------------------- who counts


def members(snapshot: Snapshot) -> tuple[Member, ...]:
    """Everybody who counts, once each, by name. Several rows ask at each look, so the answer is kept in the memo:
    nothing in it may depend on the time, which is looked at afterwards.
    """
    made_from = (
        snapshot.nodes, snapshot.requests, snapshot.removals, snapshot.machines, snapshot.machines_at is None,
        snapshot.offerings,
    )  # fmt: skip
    found = snapshot.memo.recall("members", made_from, lambda: _members(snapshot))
    if all(each.may_come_until is None for each in found):
        return found
    return tuple(each for each in found if each.may_come_until is None or snapshot.now < each.may_come_until)


def _members(snapshot: Snapshot) -> tuple[Member, ...]:
    price_list = _PriceList(snapshot.offerings)
    found: dict[str, Member] = {}
    for machine in snapshot.machines.values():
        found[machine.name] = price_list.member(
            machine.name, pool_of_machine(machine), machine.offering, machine.location
        )
    for removal in snapshot.removals.values():
        node = snapshot.nodes.get(removal.name)
        if node is not None and not node.pool:
            continue  # of a stranger's node: it will be refused
        found.setdefault(removal.name, price_list.member(removal.name, removal.spec.pool, removal.spec.offering, ""))
    for request in snapshot.requests.values():
        if _stands_behind(request, snapshot):
            found[request.name] = price_list.of_order(request.name, request.spec)
        elif request.unanswered:  # one of them may bring a machine, also where another one did and it is gone
            doubtful = price_list.of_order(request.name, request.spec)
            found.setdefault(request.name, replace(doubtful, may_come_until=may_come_until(request)))
    for node in snapshot.nodes.values():
        if node.pool:
            found[node.name] = _of_node(node, snapshot, price_list)
    return tuple(found[name] for name in sorted(found))


def _of_node(node: Node, snapshot: Snapshot, price_list: _PriceList) -> Member:
    machine, request = snapshot.machines.get(node.name), snapshot.requests.get(node.name)
    location = machine.location if machine is not None else request.spec.location if request is not None else ""
    return price_list.member(node.name, node.pool, node.offering, location, node.allocatable)


def counts(request: NodeRequest, snapshot: Snapshot) -> bool:
    """Does a machine stand behind this request, or may one come? Whatever has become of it since: an order that was not
    answered a short while ago may still take effect.
    """
    return _stands_behind(request, snapshot) or snapshot.now < may_come_until(request)


def _stands_behind(request: NodeRequest, snapshot: Snapshot) -> bool:
    """That of a Ready one may be gone since, or was handed over."""
    if request.phase == UNMET or request.is_handed_over or request.is_withdrawn:
        return False
    return request.phase != READY or snapshot.machines_at is None or request.name in snapshot.machines


def may_come_until(request: NodeRequest) -> float:
    """So long an order that was not answered may still bring a machine."""
    orders = request.unanswered
    return (instant_of(orders[-1].at) or request.changed_at) + LATE_SECONDS if orders else 0.0


def ordered_amounts(spec: NodeRequestSpec) -> Resources:
    """What was ordered, as far as it can be read."""
    try:
        return Resources.parse(spec.resources)
    except QuantityError:
        return NOTHING


class _PriceList:
    """What each offering promises. Thousands of nodes share a few amounts, so each pair is compared once."""

    def __init__(self, offerings: Iterable[Offering]) -> None:
        listed = sorted(offerings, key=lambda offering: offering.price_per_hour)
        by_name: dict[OfferingKey, Offering] = {
            (offering.name, ""): offering for offering in listed
        }  # the dearest, where only the name is known
        self._sold = {**by_name, **by_key(listed)}
        self._larger: dict[tuple[Resources, Resources], Resources] = {}

    def member(self, name: str, pool: str, offering: str, location: str, known: Resources = NOTHING) -> Member:
        """Of what is promised and what is known the larger counts, so that a limit holds either way."""
        promised = self._sold.get((offering, location)) or self._sold.get((offering, ""))
        if promised is None:
            return Member(name, pool, offering, known)
        pair = (promised.allocatable, known)
        larger = self._larger.get(pair)
        if larger is None:
            larger = self._larger[pair] = promised.allocatable.at_least(known)
        return Member(name, pool, offering, larger, promised.price_per_hour)

    def of_order(self, name: str, spec: NodeRequestSpec) -> Member:
        return self.member(name, spec.pool, spec.target_offering, spec.location, ordered_amounts(spec))


# ------------------------------------------------------------------------------------- what is left


def allowances(pools: Mapping[str, NodePool], settings: Settings, present: Iterable[Member]) -> tuple[Allowance, ...]:
    """What every limit still allows."""
    used = _usage(present)
    whole = [_allowance("limits of the settings", "", settings.limits), *_default_price(pools, settings, used)]
    for name in sorted(pools):
        pool = pools[name]
        whole.append(_allowance(f"limits of NodePool {name}", name, pool.spec.limits))
        whole.extend(
            Allowance(f"max {choice.max} of {choice.name} in NodePool {name}", name, choice.name.lower(), choice.max)
            for choice in pool.spec.server_types
            if choice.max is not None
        )
        whole.extend(_default_nodes(pool, settings, used))
    return tuple(_used_up(each, used) for each in whole if _is_limited(each))


def allowances_now(snapshot: Snapshot, settings: Settings) -> tuple[Allowance, ...]:
    """The same of everybody who is there. Several rows ask at each look, so the answer is kept in the memo."""
    present = members(snapshot)
    made_from = (snapshot.pools, settings, present)
    return snapshot.memo.recall("allowances", made_from, lambda: allowances(snapshot.pools, settings, present))


def needs_default_nodes(pool: NodePool, settings: Settings) -> bool:
    """Does nobody say how many nodes it may have?"""
    is_bounded = any(choice.max is not None for choice in pool.spec.server_types) or pool.spec.limits != PoolLimits()
    return not is_bounded and settings.limits.nodes is None


def needs_default_price(settings: Settings) -> bool:
    return bool(settings.machines_cost_money) and settings.limits.price_per_hour is None


def exempt_now(pool: NodePool, settings: Settings, nodes: int, price_per_hour: float | None) -> Exempt:
    """What is written of a pool: what it had when a default first held for it. None of a price: it is not known."""
    known = pool.status.exempt
    count = (nodes if known.nodes is None else known.nodes) if needs_default_nodes(pool, settings) else None
    price = _rounded_up(price_per_hour) if known.price_per_hour is None and price_per_hour is not None else None
    return Exempt(count, (known.price_per_hour or price) if needs_default_price(settings) else None)


def _default_nodes(pool: NodePool, settings: Settings, used: _Used) -> tuple[Allowance, ...]:
    if not needs_default_nodes(pool, settings):
        return ()
    known, present = pool.status.exempt.nodes, sum(each.count for each in used.values() if each.pool == pool.name)
    most = max(DEFAULT_NODES, present if known is None else known)
    told = f"limits of NodePool {pool.name} by default (it has none of its own)"
    return (_allowance(told, pool.name, PoolLimits(nodes=most)),)


def _default_price(pools: Mapping[str, NodePool], settings: Settings, used: _Used) -> tuple[Allowance, ...]:
    if not needs_default_price(settings):
        return ()
    exempt = {name: pool.status.exempt.price_per_hour for name, pool in pools.items()}
    paid = sum(each.price_per_hour for each in used.values() if exempt.get(each.pool) is None)
    most = max(DEFAULT_PRICE_PER_HOUR, paid + sum(float(text) for text in exempt.values() if text is not None))
    told = "limits of the settings by default (pricePerHour is not set)"
    return (_allowance(told, "", PoolLimits(price_per_hour=_rounded_up(most))),)


def _rounded_up(price: float) -> str:
    """What exists must fit under it."""
    return price_text(ceil(price * 1e6 - 1e-3) / 1e6)


def price_text(price: float) -> str:
    """As a decimal, never with an exponent."""
    return f"{max(0.0, price):.6f}".rstrip("0").rstrip(".")


def _is_limited(allowance: Allowance) -> bool:
    return (
        bool(allowance.malformed or allowance.resources)
        or allowance.nodes is not None
        or allowance.price_per_hour is not None
    )


def _allowance(name: str, pool: str, limits: PoolLimits) -> Allowance:
    try:
        given = {CPU: limits.cpu, MEMORY: limits.memory}
        resources = {key: parse_amount(key, text) for key, text in given.items() if text is not None}
        price = None if limits.price_per_hour is None else float(limits.price_per_hour)
    except (QuantityError, ValueError) as error:
        text = f"{name} cannot be read: {error}"
        return Allowance(name, pool, nodes=0, malformed=str(error), stated={"nodes": text})
    amounts = {key: f"{name}: at most {format_amount(key, most)} {key}" for key, most in resources.items()}
    price_words = f"{name}: at most {limits.price_per_hour} per hour"
    stated = {"nodes": f"{name}: at most {limits.nodes} nodes", "price": price_words, **amounts}
    return Allowance(name, pool, nodes=limits.nodes, resources=resources, price_per_hour=price, stated=stated)


_Used = Mapping[tuple[str, str], Member]


def _usage(present: Iterable[Member]) -> _Used:
    """Everybody of one pool and offering as one: many nodes, few kinds."""
    found: dict[tuple[str, str], list[Member]] = {}
    for member in present:
        found.setdefault((member.pool, member.offering), []).append(member)
    return {kind: _together(kind, some) for kind, some in found.items()}


def _together(kind: tuple[str, str], some: list[Member]) -> Member:
    amounts = Resources({name: sum(member.allocatable[name] for member in some) for name in (CPU, MEMORY)})
    return Member("", *kind, amounts, sum(member.price_per_hour for member in some), len(some))


def _used_up(allowance: Allowance, used: _Used) -> Allowance:
    for kind, member in used.items():
        if allowance.covers(*kind):
            allowance = _less(allowance, member)
    return allowance


def with_member(allowances: Iterable[Allowance], member: Member) -> tuple[Allowance, ...]:
    """What every limit still allows after one more."""
    return tuple(_less(each, member) if each.covers(member.pool, member.offering) else each for each in allowances)


def _less(allowance: Allowance, member: Member) -> Allowance:
    price = allowance.price_per_hour
    return replace(
        allowance,
        nodes=None if allowance.nodes is None else allowance.nodes - member.count,
        resources={name: left - member.allocatable[name] for name, left in allowance.resources.items()},
        price_per_hour=None if price is None else price - member.price_per_hour,
    )


def with_surge(allowances: Iterable[Allowance]) -> tuple[Allowance, ...]:
    """What is left where one node more than a pool allows may stand, until the one it replaces is gone."""
    return tuple(
        replace(each, nodes=each.nodes + 1) if each.nodes is not None and _may_surge(each) else each
        for each in allowances
    )


def _may_surge(allowance: Allowance) -> bool:
    return bool(allowance.pool) and not allowance.malformed and not allowance.is_firm


def headroom(allowance: Allowance, allocatable: Resources, price_per_hour: float, most: int = 1000) -> int:
    """How many more such nodes fit under the limit."""
    rooms = [most if allowance.nodes is None else allowance.nodes]
    rooms += [left // allocatable[name] for name, left in allowance.resources.items() if allocatable[name] > 0]
    if allowance.price_per_hour is not None and price_per_hour > 0:
        rooms.append(
            int((allowance.price_per_hour + _SMALLEST_PRICE) / price_per_hour)
            if allowance.price_per_hour > -_SMALLEST_PRICE
            else 0
        )
    return max(0, min(most, *rooms))


def why_not_one_more(allowances: Iterable[Allowance], member: Member) -> str:
    """The first limit that one more such node would break. Empty: none."""
    return next(filter(None, (_why_not(each, member) for each in allowances)), "")


def _why_not(allowance: Allowance, member: Member) -> str | None:
    if (
        not allowance.covers(member.pool, member.offering)
        or headroom(allowance, member.allocatable, member.price_per_hour) > 0
    ):
        return None
    if allowance.is_firm:
        return allowance.name
    if allowance.nodes is not None and allowance.nodes <= 0:
        return allowance.stated.get("nodes") or f"{allowance.name} is reached"
    for name, left in allowance.resources.items():
        if left < member.allocatable[name]:
            return f"{allowance.stated[name]} ({format_amount(name, max(0, left))} left)"
    left_price = max(0.0, allowance.price_per_hour or 0.0)
    return f"{allowance.stated['price']} ({left_price:.4f} left)"


class Tally:
    """What every limit leaves beside these machines, by the provider's own list, and less with each order that is
    added. Asked by the gate, last of all: counting all machines anew for each of a thousand orders takes longer than
    to buy them.
    """

    def __init__(
        self,
        pools: Mapping[str, NodePool],
        machines: Iterable[Machine],
        offerings: Iterable[Offering],
        settings: Settings,
    ) -> None:
        self._prices = _PriceList(offerings)
        present = [
            self._prices.member(machine.name, pool_of_machine(machine), machine.offering, machine.location)
            for machine in machines
        ]
        self._left = allowances(pools, settings, present)

    def why_over(self, spec: NodeRequestSpec) -> str:
        """The limit that this order would break. Empty: none."""
        left = with_surge(self._left) if spec.reason == RENEWAL else self._left
        return why_not_one_more(left, self._prices.of_order("", spec))

    def add(self, spec: NodeRequestSpec) -> None:
        self._left = with_member(self._left, self._prices.of_order("", spec))
