"""What may be bought right now, and how much of it do limits leave? Asked by scale-up, replacement and renewal for the
solver, for the machines that `min` keeps warm, by the buffers' status and pool status.

Struck out: what is Unmet anywhere, for every pool; what the provider says is out of stock; pools that are paused or
going; what goes on failing in a pool (`plan/world/trials`); while many nodes fail, whatever no pod waits for
(`plan/world/brake`). An offering whose Unmet has just expired is on probation:
one order at a time, until one of them is accepted; where a limit has room for no more than those that are, they are
taken after all others, since an order without an answer counts.

A machine may turn out smaller than its catalogue says: what the smallest of its offering's nodes lacks is taken off for
later plans. Only nodes that are growth's speak for an offering, for a day after they were last seen. A sick one does
not: a node that has more than a tenth less of something than the median is left out, where the catalogue's word counts
as one node more. So one machine of a fifth of its size spoils nothing, and two of two are believed. A device that has
not shown up yet (its plug-in starts after the node) is believed missing only once the node has been Ready for a while.

The question to the solver is made here too, so that all rows see the same pods, rooms, offers and limits: a pod's shape
with what its pools add (`PoolReader`), the rooms of `plan/world/capacity`, and these choices and limits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.instant import is_from_future
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import PENDING, PROVISIONING, READY, UNMET, NodeRequest
from growth.model.offering import Offering
from growth.model.pod import PodShape
from growth.model.resources import NOTHING, Resources
from growth.model.settings import Settings
from growth.model.snapshot import DaemonSet, Snapshot, VolumeWorld
from growth.plan.world.brake import Brake
from growth.plan.world.limits import Allowance, allowances_now, headroom
from growth.plan.world.pools import (
    OfferingKey,
    PoolMatch,
    architectures_of,
    by_key,
    choice_labels,
    choice_of_type,
    daemon_shapes,
    offerings_of,
    pools_for,
    serving_taints,
    why_not_buying,
    with_pool_rules,
)
from growth.plan.world.trials import Standing, standings
from growth.plan.world.turn import instant_of, sooner
from growth.solver.patterns.stock import Budget
from growth.solver.purchase.problem import Choice, DemandClass, Limit, Pattern, PlacementProblem, Room

BELIEF_SECONDS: Final = 300.0
_TELLS_SECONDS: Final = 60.0  # after its last order without an answer
_DEMOTION: Final = 10_000  # beyond every priority that a pool can give
REMEMBERED_SECONDS: Final = 86400.0  # what a node has shown, after it was last seen
_SICK_SHARE: Final = 0.1  # this much below the median is no rule, but one machine's trouble


class NodeSample(Struct, frozen=True, gc=False):
    """What one node of an offering lacks of what the catalogue says, and when it was last seen."""

    seen_at: float
    lack: Resources


class Learned(Struct, frozen=True):
    """What machines have shown: by offering, what its nodes lack, and by offering and node the samples behind it."""

    lacking: Mapping[str, Resources] = {}
    samples: Mapping[str, Mapping[str, NodeSample]] = {}


NOTHING_LEARNED = Learned()


class Market(Struct, frozen=True):
    """What is for sale, and what is not for the moment."""

    choices: tuple[Choice, ...]
    probations: Mapping[OfferingKey, int]  # how many more orders of an offering that is being tried again
    reopens_at: float | None  # when an Unmet expires, a pause after machines in vain ends, or the brake gives more
    standings: Mapping[str, Standing] = {}  # of the pools: how far each may be trusted with money
    braked: tuple[Allowance, ...] = ()  # what waiting pods may have bought while many nodes fail
    probes: Mapping[tuple[str, OfferingKey], int] = {}  # the same of what has gone on failing in a pool

    @property
    def bounds(self) -> tuple[Allowance, ...]:
        """What machines in vain, and the brake, leave of each pool's allowance."""
        trusted = (bound for each in self.standings.values() if (bound := each.allowance()) is not None)
        return (*trusted, *self.braked)

    @property
    def without_braked(self) -> Market:
        """What may be bought that no pod waits for."""
        pools = {each.pool for each in self.braked}
        return replace(self, choices=tuple(each for each in self.choices if each.pool not in pools))


NOTHING_FOR_SALE = Market((), {}, None)


def open_market(
    snapshot: Snapshot,
    pools: Collection[str],
    offerings: tuple[Offering, ...],
    struck_at: Mapping[OfferingKey, float],
    settings: Settings,
) -> Market:
    """Everything the named pools may buy."""
    now, trusted, brake = snapshot.now, standings(snapshot), Brake(snapshot)
    struck = struck_out(snapshot.requests.values(), snapshot.now, settings.unmet_seconds)
    promised, choices = by_key(snapshot.offerings), list[Choice]()
    probations = {place: _orders_left(place, snapshot) for place in sorted(struck_at) if place not in struck}
    limits = allowances_now(snapshot, settings) if probations else ()
    for pool in (snapshot.pools[name] for name in sorted(pools)):
        if not why_not_buying(pool, settings.is_paused):
            listed = (each for each in offerings_of(pool, offerings) if each.is_available)
            standing = trusted[pool.name]
            for each in listed:
                place = (each.name, each.location)
                if place not in struck and not standing.is_closed(place, now):
                    rooms = _rooms_under(limits, pool.name, each, each.allocatable) if place in probations else ()
                    is_gamble = any(left <= len(probations) for left in rooms)
                    demotion = max(standing.demotion(place, now), int(is_gamble))
                    choice = _choice(pool, each, snapshot.daemon_sets, demotion)
                    choices.append(_as_counted(choice, promised.get(place, each)))
    probes = {
        (each.pool, place): _probes_left(each.pool, place, snapshot)
        for each in choices
        if trusted[each.pool].is_probed(place := (each.offering.name, each.offering.location))
    }
    braked = tuple(found for name in sorted(pools) if (found := brake.allowance(name)) is not None)
    silent = (at for each in snapshot.requests.values() if now < (at := _tells_until(each)) < math.inf)
    wakes = (*(each.wakes_at(now) for each in trusted.values()), *(at for _, at in braked), *silent)
    reopens_at = sooner(*struck.values(), *wakes)
    return Market(tuple(choices), probations, reopens_at, trusted, tuple(each for each, _ in braked), probes)


def _choice(pool: NodePool, offering: Offering, daemon_sets: Iterable[DaemonSet], demotion: int) -> Choice:
    """`demotion`: how often it has failed lately."""
    labels, taints = choice_labels(pool, offering), serving_taints(pool)
    listed = choice_of_type(pool, offering.name)
    priority, daemons = 0 if listed is None else listed.priority, daemon_shapes(daemon_sets, labels, taints)
    return Choice(pool.name, offering, labels, taints, daemons, pool.spec.priority, priority - _DEMOTION * demotion)


def _as_counted(choice: Choice, whole: Offering) -> Choice:
    """Limits count the larger of what is promised and what nodes showed."""
    shown = choice.offering.allocatable
    return choice if shown == whole.allocatable else replace(choice, counted=whole.allocatable.at_least(shown))


def _orders_left(place: OfferingKey, snapshot: Snapshot) -> int:
    pending = (each for each in snapshot.requests.values() if each.phase == PENDING)
    return 0 if any(_is_trial_of(each, place, snapshot.now) for each in pending) else 1


def _probes_left(pool: str, place: OfferingKey, snapshot: Snapshot) -> int:
    on_their_way = (each for each in snapshot.requests.values() if each.is_in_flight and each.spec.pool == pool)
    return 0 if any(_is_trial_of(each, place, snapshot.now) for each in on_their_way) else 1


def _is_trial_of(request: NodeRequest, place: OfferingKey, now: float) -> bool:
    """Will it tell whether the offering can be had? An order that nobody has answered for a minute, and whose record
    only waits for what may come late, does not.
    """
    return now < _tells_until(request) and (request.spec.target_offering, request.spec.location) == place


def _tells_until(request: NodeRequest) -> float:
    silent = request.unanswered if request.phase == PENDING else ()
    return (instant_of(silent[-1].at) or request.created_at) + _TELLS_SECONDS if silent else math.inf


def struck_since(
    snapshot: Snapshot, known: Mapping[OfferingKey, float], settings: Settings
) -> Mapping[OfferingKey, float]:
    """When each offering was last struck out, as seen or as records say, until a later order of it was accepted."""
    struck, accepted = dict(known), dict[OfferingKey, float]()
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


def limits_for(market: Market, allowances: Iterable[Allowance], most_nodes: int | None) -> tuple[Limit, ...]:
    """The limits in the solver's words, those left out that so few nodes cannot reach."""
    limits = [_limit(allowance, market.choices) for allowance in allowances]
    tried = [("", *each, "is being tried again, one order at a time") for each in market.probations.items()]
    for (pool, place), left in market.probes.items():
        tried.append((pool, place, left, f"has failed in NodePool {pool}, one at a time"))
    for pool, place, left, told in tried:
        covered = tuple(
            index
            for index, each in enumerate(market.choices)
            if pool in ("", each.pool) and (each.offering.name, each.offering.location) == place
        )
        limits.append(Limit(f"{place[0]} in {place[1]} {told}", covered, nodes=left, is_step=left > 0))
    return tuple(limit for limit in limits if limit.choices and not _is_out_of_reach(limit, most_nodes))


def _is_out_of_reach(limit: Limit, most_nodes: int | None) -> bool:
    is_of_nodes_alone = not limit.resources and limit.price_per_hour is None
    return is_of_nodes_alone and most_nodes is not None and limit.nodes is not None and limit.nodes >= most_nodes


def _limit(allowance: Allowance, choices: tuple[Choice, ...]) -> Limit:
    covered = tuple(
        index for index, choice in enumerate(choices) if allowance.covers(choice.pool, choice.offering.name)
    )
    bounds = {name: max(0, left) for name, left in allowance.resources.items()}
    price = None if allowance.price_per_hour is None else max(0.0, allowance.price_per_hour)
    nodes = None if allowance.nodes is None else max(0, allowance.nodes)
    return Limit(allowance.name, covered, nodes, bounds, price, allowance.stated, allowance.is_step)


def orders_possible(market: Market, allowances: tuple[Allowance, ...]) -> dict[str, int]:
    """How many more of each choice could be bought: what a pod that waits compares."""
    found = {}
    for choice in market.choices:
        offering = choice.offering
        rooms = _rooms_under(allowances, choice.pool, offering, choice.amounts)
        place = (offering.name, offering.location)
        rooms += [market.probations.get(place, 1000), market.probes.get((choice.pool, place), 1000)]
        found[f"{choice.pool} {offering.name} {offering.location}"] = min(rooms)
    return found


def _rooms_under(allowances: Iterable[Allowance], pool: str, offering: Offering, amounts: Resources) -> list[int]:
    """How many more of it each limit has room for."""
    covering = (each for each in allowances if each.covers(pool, offering.name))
    return [headroom(each, amounts, offering.price_per_hour) for each in covering]


# ------------------------------------------------------------------------ what experience has shown


def learn(snapshot: Snapshot, known: Learned, nodes: Iterable[Node]) -> Learned:
    """What these live nodes show now, and what others have shown within a day."""
    promised, now = {offering.name: offering.allocatable for offering in snapshot.offerings}, snapshot.now
    samples = {name: _still_known(some, now) for name, some in known.samples.items() if name in promised}
    for node in nodes:
        if node.offering in promised and _speaks_for_its_kind(node):
            sample = NodeSample(now, _lack(promised[node.offering], node, now))
            samples.setdefault(node.offering, {})[node.name] = sample
    lacking = {name: _believed(promised[name], some.values()) for name, some in sorted(samples.items())}
    return Learned(
        {name: lack for name, lack in lacking.items() if lack}, {name: some for name, some in samples.items() if some}
    )


def _still_known(samples: Mapping[str, NodeSample], now: float) -> dict[str, NodeSample]:
    """A sample from the future was taken before a clock went back: it is forgotten."""
    return {node: each for node, each in samples.items() if 0.0 <= now - each.seen_at <= REMEMBERED_SECONDS}


def _believed(promised: Resources, samples: Iterable[NodeSample]) -> Resources:
    """What the smallest of them lacks, those left out that are far below the median."""
    lacks = list(dict.fromkeys(counted := [sample.lack for sample in samples]))
    if not any(lacks):
        return NOTHING
    names = {name for lack in lacks for name in lack}
    medians = {name: median([promised[name], *(promised[name] - lack[name] for lack in counted)]) for name in names}
    healthy = [
        lack
        for lack in lacks
        if all(promised[name] - lack[name] >= (1.0 - _SICK_SHARE) * medians[name] for name in names)
    ]
    return Resources({name: most for name in names if (most := max((lack[name] for lack in healthy), default=0)) > 0})


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
    """The catalogue without what real nodes turned out to lack; itself if they lack nothing."""
    if not learned.lacking:
        return tuple(offerings)
    return tuple(_without(offering, learned.lacking.get(offering.name)) for offering in offerings)


def _without(offering: Offering, lack: Resources | None) -> Offering:
    if not lack:
        return offering
    rest = {name: max(0, amount - lack[name]) for name, amount in offering.allocatable.items()}
    return replace(offering, allocatable=Resources(rest))


def struck_out(requests: Iterable[NodeRequest], now: float, otherwise_seconds: float) -> dict[OfferingKey, float]:
    """Offerings that are Unmet, for every pool, and until when."""
    struck: dict[OfferingKey, float] = {}
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
    if is_from_future(now, request.changed_at):
        return 0.0
    return instant_of(request.status.expires_at) or request.changed_at + otherwise_seconds


# ------------------------------------------------------------------------- the question to the solver


class PoolReader:
    """The pools of a pod, and its shape with what they add. Each distinct shape is read once: thousands of pods share
    one.
    """

    def __init__(self, pools: Mapping[str, NodePool], offerings: tuple[Offering, ...]) -> None:
        self._pools, self._offerings = pools, offerings
        self._architectures: dict[str, tuple[str, ...]] = {}
        self._known: dict[PodShape, tuple[PoolMatch, PodShape]] = {}

    def read(self, shape: PodShape) -> tuple[PoolMatch, PodShape]:
        known = self._known.get(shape)
        if known is None:
            match = pools_for(shape, self._pools)
            for name in match.names:
                if name not in self._architectures:
                    self._architectures[name] = architectures_of(self._pools[name], self._offerings)
            wished = with_pool_rules(shape, match, self._architectures)
            known = self._known[shape] = (match, wished)
        return known


def placement_problem(
    snapshot: Snapshot,
    demands: Iterable[DemandClass],
    rooms: tuple[Room, ...],
    market: Market = NOTHING_FOR_SALE,
    allowances: tuple[Allowance, ...] = (),
    *,
    node_price_per_hour: float = 0.0,
    most_nodes: int | None = None,
) -> PlacementProblem:
    """The question where these demands go; `most_nodes`: surely no answer buys more. It may travel to another process,
    so it holds plain dictionaries, and volumes only where a demand has some.
    """
    asked, volumes = tuple(demands), snapshot.volumes
    has_volumes = any(demand.shape.volumes for demand in asked)
    return PlacementProblem(
        demands=asked,
        rooms=rooms,
        choices=market.choices,
        limits=limits_for(market, allowances, most_nodes) if market.choices else (),
        namespaces=dict(snapshot.namespaces),
        volumes=VolumeWorld(dict(volumes.claims), dict(volumes.volumes), dict(volumes.classes), dict(volumes.nodes))
        if has_volumes
        else VolumeWorld(),
        node_price_per_hour=node_price_per_hour,
    )


def with_settings(
    problem: PlacementProblem, settings: Settings, patterns: tuple[Pattern, ...] = ()
) -> PlacementProblem:
    """The question with the care and the work that the settings ask for; `patterns` of an earlier answer help."""
    return replace(
        problem,
        preferences=settings.preferences,
        node_price_per_hour=settings.node_price_per_hour,
        budget=Budget.for_seconds(settings.solve_budget_seconds),
        patterns=patterns,
        is_checked=settings.checks_plans,
    )
