"""What does each pool say to a pod, offering by offering, and what would have to change for it to get a place? Asked by
`growth explain pod`; it changes nothing.

Each offering is asked about by itself, as one more node of the cluster as it is now, with the DaemonSets that would run
there: by the rules that decide in earnest. A remedy is one change, tried with the plan's own code in a copy of the
world; it is named only where the pod then gets a place, with the price of what would be bought. Tried are:

| change | where |
| --- | --- |
| no limit | the pools the pod may use, and all pools together |
| one more server type, the cheapest that helps | each of those pools |
| a toleration of the pool's taints | the pod |
| no rule of one kind (selector, affinity, spread, …) | the pod |
| another pool | the pod's selector |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.instant import format_instant
from growth.model.labels import NO_LABELS
from growth.model.node import POOL_LABEL
from growth.model.nodepool import NodePool, PoolLimits, ServerTypeChoice
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape, Toleration
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up import scale_up
from growth.plan.nodes_up.demand import identity
from growth.plan.world.limits import allowances_now
from growth.plan.world.market import Market, PoolReader, open_market, struck_out
from growth.plan.world.orders import Purchases
from growth.plan.world.pools import by_key, offerings_of, why_not_buying
from growth.solver.purchase.problem import Choice, planned_node
from growth.solver.purchase.solve import solve
from growth.solver.rules import Neighbours

TAKES: Final = "takes it"
_MOST_REMEDIES: Final = 5
_WITHOUT_END: Final = 1_000_000  # nodes: no limit that anybody reaches

# ----------------------------------------------------------------------------- offering by offering


class Offer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One offering of one pool, and its word to the pod."""

    pool: str
    offering: str
    location: str
    price_per_hour: float
    answer: str


def offers_to(pod: Pod, snapshot: Snapshot, settings: Settings) -> tuple[Offer, ...]:
    """Of every pool: those that take it first, then the cheapest first."""
    market = open_market(snapshot, snapshot.pools, snapshot.offerings, {}, settings)
    choices = {(each.pool, each.offering.name, each.offering.location): each for each in market.choices}
    purchases = Purchases((*allowances_now(snapshot, settings), *market.bounds))
    asker, found = _Asker(pod, snapshot), list[Offer]()
    for pool in snapshot.pools.values():
        for each in offerings_of(pool, snapshot.offerings):
            choice = choices.get((pool.name, each.name, each.location))
            if choice is None:
                answer = _why_not_for_sale(pool, each, market, snapshot, settings)
            else:
                answer = asker.why_not(choice) or purchases.why_not(choice) or TAKES
            found.append(Offer(pool.name, each.name, each.location, each.price_per_hour, answer))
    return tuple(sorted(found, key=lambda each: (each.answer != TAKES, each.price_per_hour, each.pool, each.offering)))


def _why_not_for_sale(
    pool: NodePool, offering: Offering, market: Market, snapshot: Snapshot, settings: Settings
) -> str:
    if paused := why_not_buying(pool, settings.is_paused):
        return paused
    if not offering.is_available:
        return "the provider has none to sell"
    place, now = (offering.name, offering.location), snapshot.now
    until = struck_out(snapshot.requests.values(), now, settings.unmet_seconds).get(place)
    if until is not None:
        return f"could not be had; tried again at {format_instant(until)}"
    pause = market.standings[pool.name].offerings[place]
    return f"machines of it were in vain in this pool; tried again at {format_instant(pause.until)}"


class _Asker:
    """One pod, and one new node at a time beside all that is there."""

    def __init__(self, pod: Pod, snapshot: Snapshot) -> None:
        self._match, shape = PoolReader(snapshot.pools, snapshot.offerings).read(pod.shape)
        self._pod = replace(pod, shape=shape)
        bound = [each for pods in snapshot.pods_by_node.values() for each in pods if not each.is_finished]
        nodes, volumes, names = snapshot.nodes.values(), snapshot.volumes, snapshot.namespaces
        self._index = Neighbours(nodes, bound, volumes, names, shapes=[shape])

    def why_not(self, choice: Choice) -> str:
        """Every rule that refuses it; empty: none."""
        index = self._index
        with index.trial():
            number = index.add_nodes([planned_node(choice, 0)])[0]
            for daemon in choice.daemons:
                index.add(index.class_of(daemon), number)
            reasons = index.every_reason(index.class_of_pod(self._pod), number)
        phrases = [phrase for reason in reasons for phrase in reason.phrases]
        if not phrases and choice.pool not in self._match.names:
            return f"the pod does not ask for this pool ({POOL_LABEL}: {choice.pool})"
        return ", ".join(dict.fromkeys(phrases))


# ------------------------------------------------------------------------------------------ remedies


class Remedy(Struct, frozen=True, rename="camel"):
    """One change, and what would then be bought or used."""

    change: str
    then: str
    price_per_hour: float = 0.0


def remedies_for(pod: Pod, snapshot: Snapshot, settings: Settings) -> tuple[Remedy, ...]:
    """Tried with the pod alone: others may need the same room. The cheapest first."""
    alone = replace(snapshot, waiting_pods=(pod,))
    if _placed(pod, alone, settings) is not None:
        return (Remedy("nothing: it waits only because other pods that wait come first", "as it is"),)
    found = list[Remedy]()
    for change, of, world, plans in _changes(pod, alone, settings):
        if len(found) < _MOST_REMEDIES and (placed := _placed(of, world, plans)) is not None:
            found.append(Remedy(change, *placed))
    return tuple(sorted(found, key=lambda each: each.price_per_hour))


def _placed(pod: Pod, world: Snapshot, settings: Settings) -> tuple[str, float] | None:
    """Where the plan puts it, and the price of what is bought; None: nowhere."""
    ledger = scale_up.Ledger()
    question = scale_up.question(world, ledger, settings)
    if question is None or not any(each.name == identity(pod) for hand in question.classes for each in hand):
        return None
    decision = scale_up.plan(world, ledger, settings, question, solve(question.problem))
    orders = [each.spec for each in decision.actions if isinstance(each, CreateNodeRequest)]
    mine = next((spec for spec in orders if pod.key in spec.planned_pods), None)
    if mine is None:
        wait = decision.ledger.waits.get(identity(pod))
        return (f"node {wait.lodged_on} has room", 0.0) if wait is not None and wait.lodged_on else None
    price = by_key(world.offerings)[mine.target_offering, mine.location].price_per_hour
    return f"{mine.target_offering} in {mine.location} of NodePool {mine.pool}", price


Change = tuple[str, Pod, Snapshot, Settings]


def _changes(pod: Pod, world: Snapshot, settings: Settings) -> Iterator[Change]:
    """What is tried, the least of a change first."""
    match, _ = PoolReader(world.pools, world.offerings).read(pod.shape)
    yield _without_limits(pod, world, settings)
    for name in match.names:
        yield from _with_another_type(name, pod, world, settings)
        taints = world.pools[name].spec.taints
        if taints:
            words = f"a toleration of {', '.join(sorted({each.key for each in taints}))}"
            tolerations = (*pod.shape.tolerations, *(Toleration(each.key, "Exists") for each in taints))
            yield _changed(words, pod, replace(pod.shape, tolerations=tolerations), world, settings)
    for name in world.pools:
        if name not in match.names:
            shape = replace(pod.shape, node_selector=pod.shape.node_selector.with_items({POOL_LABEL: name}))
            yield _changed(f"the node selector {POOL_LABEL}: {name}", pod, shape, world, settings)
    for words, shape in _freer(pod.shape):
        yield _changed(words, pod, shape, world, settings)


def _changed(change: str, pod: Pod, shape: PodShape, world: Snapshot, settings: Settings) -> Change:
    other = replace(pod, shape=shape)
    return change, other, replace(world, waiting_pods=(other,)), settings


def _without_limits(pod: Pod, world: Snapshot, settings: Settings) -> Change:
    market = open_market(world, world.pools, world.offerings, {}, settings)
    purchases = Purchases(allowances_now(world, settings))
    reached = dict.fromkeys(filter(None, (purchases.why_not(each) for each in market.choices)))
    no_limits = PoolLimits(nodes=_WITHOUT_END)
    pools = {}
    for name, pool in world.pools.items():
        types = tuple(replace(each, max=None) for each in pool.spec.server_types)
        pools[name] = replace(pool, spec=replace(pool.spec, limits=no_limits, server_types=types))
    words = f"higher limits ({'; '.join(reached)})" if reached else "higher limits"
    return words, pod, replace(world, pools=pools), replace(settings, limits=no_limits, machines_cost_money=False)


def _with_another_type(name: str, pod: Pod, world: Snapshot, settings: Settings) -> Iterator[Change]:
    """The cheapest server type that is large enough and that the pool does not list."""
    pool = world.pools[name]
    listed = {each.name.lower() for each in pool.spec.server_types}
    sold = sorted((each.price_per_hour, each.server_type) for each in world.offerings if each.is_available)
    others = dict.fromkeys(kind for _, kind in sold if kind.lower() not in listed)
    for kind in others:
        types = (*pool.spec.server_types, ServerTypeChoice(kind))
        wider = replace(world, pools={**world.pools, name: replace(pool, spec=replace(pool.spec, server_types=types))})
        if _placed(pod, wider, settings) is not None:
            yield f"{kind} among the serverTypes of NodePool {name}", pod, wider, settings
            return


def _freer(shape: PodShape) -> Iterator[tuple[str, PodShape]]:
    """The pod without one of its own rules."""
    for key, value in shape.node_selector.items():
        rest = {other: text for other, text in shape.node_selector.items() if other != key}
        yield f"no node selector {key}={value}", replace(shape, node_selector=NO_LABELS.with_items(rest))
    rules = {
        "node_affinity": "no node affinity",
        "affinity": "no affinity to other pods",
        "anti_affinity": "no anti-affinity to other pods",
        "spread": "no topology spread",
        "host_ports": "no host port",
        "volumes": "no volume",
    }
    for field, words in rules.items():
        if getattr(shape, field):
            yield words, replace(shape, **{field: None if field == "node_affinity" else ()})
