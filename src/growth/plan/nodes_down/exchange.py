"""What would these nodes' pods need if the nodes went, and how does the answer become orders? Asked by replacement and
renewal.

| asked by | terms |
| --- | --- |
| replacement | what is bought must save money, within all limits |
| renewal | like may replace like, if need be one machine beyond a limit until the old one is gone |

The question to the solver has every room with what is there, virtual pods included, and everything that may be bought.
Rooms that are on their way, marked or closed take nothing. A little more than the pods need must have room (the
consolidation headroom): where they go cannot be steered.

Replacement asks about a few neighbourhoods, guesses that the solver answers in full. A node wastes what it costs beyond
the price of its content, put as a fraction onto the machine that suits it best. Small and large pods fit together
better than either alone, so of those that waste about the same some are drawn, others each time: by a checksum, not by
chance.

| guess | finds |
| --- | --- |
| single nodes that waste most | one node for a cheaper one, or for several small ones |
| as many of one kind as may go, and half as many | many for many of another kind |
| as many as may go, whatever their kind | several small ones for a large one, and what is left |
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.node import Node
from growth.model.noderequest import NodeRequest
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import PODS
from growth.model.settings import Settings
from growth.model.snapshot import DaemonSet, Snapshot
from growth.plan.buffers.placement import BufferPlacement, occupied_rooms, place_buffers
from growth.plan.world import limits
from growth.plan.world.capacity import assignments, promised_node, rooms
from growth.plan.world.limits import Allowance, allowances_now, with_surge
from growth.plan.world.market import (
    NOTHING_LEARNED,
    Market,
    PoolReader,
    corrected,
    learn,
    open_market,
    placement_problem,
)
from growth.plan.world.nodes import Kind, working_pods
from growth.plan.world.orders import Purchases, create_request
from growth.plan.world.pools import by_key, choice_of_type, landing_daemons
from growth.solver.arrays import FloatArray
from growth.solver.existing.exchange import Exchange, ExchangeProblem, Leaving
from growth.solver.purchase.problem import Choice, DemandClass, PlacementProblem, Room

Neighbourhoods = Callable[
    [tuple[Leaving, ...], tuple[DemandClass, ...], tuple[Choice, ...]], tuple[tuple[int, ...], ...]
]  # which of the leaving nodes are tried together


class Terms(Struct, frozen=True):
    """On which terms nodes are exchanged."""

    reason: str  # of the NodeRequests
    must_save: bool  # only what costs less; otherwise like may replace like
    may_surge: bool  # one machine beyond a limit, until the old one is gone


REPLACEMENT: Final = Terms("Replacement", must_save=True, may_surge=False)
RENEWAL: Final = Terms(limits.RENEWAL, must_save=False, may_surge=True)


class ExchangeQuestion(Struct, frozen=True):
    """What is put to the solver, with the names behind its numbers."""

    problem: ExchangeProblem
    nodes: tuple[str, ...]
    allowances: tuple[Allowance, ...]
    terms: Terms

    def names(self, answer: Exchange) -> tuple[str, ...]:
        return tuple(self.nodes[index] for index in answer.leaving)


def ask(
    snapshot: Snapshot,
    settings: Settings,
    nodes: Iterable[tuple[Node, float, float]],
    neighbourhoods: Neighbourhoods,
    terms: Terms,
    closed: Collection[str] = (),
) -> ExchangeQuestion | None:
    """Of these nodes, each with its price and the disruption it costs; None if there is nothing to ask. `closed`: pools
    that refuse orders.
    """
    offered = tuple(nodes)
    if not offered:
        return None
    asking = _Asking(snapshot, settings)
    leaving = {node.name: asking.leaving(node, price, disruption) for node, price, disruption in offered}
    going, market = tuple(leaving.values()), asking.market(closed)
    together = neighbourhoods(going, asking.demands, market.choices)
    if not together:
        return None
    allowed = (*allowances_now(snapshot, settings), *market.bounds)
    allowed = with_surge(allowed) if terms.may_surge else allowed
    world, headroom = asking.world(market, allowed), settings.consolidation_headroom
    problem = ExchangeProblem(world, going, together, terms.must_save, headroom)
    return ExchangeQuestion(problem, tuple(leaving), allowed, terms)


class _Asking:
    """Collects demand classes while nodes are read."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self._snapshot, self._settings = snapshot, settings
        self._kept = place_buffers(snapshot, settings)
        self._rooms = tuple(_closed(room) for room in _all_rooms(snapshot, self._kept))
        self._index = {room.node.name: index for index, room in enumerate(self._rooms)}
        self._classes: dict[DemandClass, int] = {}
        self._known: dict[PodShape, int] = {}  # the classes of shapes
        self._reader = PoolReader(snapshot.pools, snapshot.offerings)

    def leaving(self, node: Node, price: float, disruption: float) -> Leaving:
        counts: dict[int, int] = {}
        for pod in working_pods(self._snapshot, node.name):
            if pod.deleted_at is None:
                number = self._number_of(pod.shape)
                counts[number] = counts.get(number, 0) + 1
        for spare in self._kept.buffers:
            held = self._kept.by_node.get(node.name, {}).get(spare.key, 0)
            if held:
                counts[self._number(DemandClass(spare.shape, 1, spare.pools, is_virtual=True))] = held
        pool, offering = self._snapshot.pools[node.pool], node.offering
        listed = choice_of_type(pool, offering)
        priority = (pool.spec.priority, 0 if listed is None else listed.priority)
        contents = tuple(sorted(counts.items()))
        return Leaving(self._index[node.name], node.pool, offering, price, contents, disruption, priority)

    def _number_of(self, shape: PodShape) -> int:
        known = self._known.get(shape)
        if known is None:
            match, wished = self._reader.read(shape)
            known = self._known[shape] = self._number(DemandClass(wished, 1, match.names))
        return known

    def _number(self, demand: DemandClass) -> int:
        return self._classes.setdefault(demand, len(self._classes))

    @property
    def demands(self) -> tuple[DemandClass, ...]:
        return tuple(self._classes)

    def market(self, closed: Collection[str]) -> Market:
        snapshot = self._snapshot
        offerings = corrected(snapshot.offerings, learn(snapshot, NOTHING_LEARNED, snapshot.nodes.values()))
        pools = sorted({name for demand in self._classes for name in demand.pools if name not in closed})
        return open_market(snapshot, pools, offerings, {}, self._settings).without_braked

    def world(self, market: Market, allowed: tuple[Allowance, ...]) -> PlacementProblem:
        price = self._settings.node_price_per_hour
        return placement_problem(self._snapshot, self.demands, self._rooms, market, allowed, node_price_per_hour=price)


def _all_rooms(snapshot: Snapshot, kept: BufferPlacement) -> tuple[Room, ...]:
    return occupied_rooms(kept) if kept.rooms else rooms(snapshot, assignments(snapshot))


def _closed(room: Room) -> Room:
    """Only nodes that serve, and stay, take pods that are moved."""
    return room if room.kind == "node" or not room.is_open else replace(room, is_open=False)


# --------------------------------------------------------------------------------------- the answer


def orders(asked: ExchangeQuestion, answer: Exchange, snapshot: Snapshot) -> tuple[CreateNodeRequest, ...] | None:
    """All of them, or none: if one would break a limit, the whole exchange is off."""
    purchases, replaced = Purchases(asked.allowances), asked.names(answer)
    choices = [asked.problem.world.choices[node.choice] for node in answer.bought]
    if any(purchases.add(choice) for choice in choices):
        return None
    return tuple(create_request(choice, snapshot, asked.terms.reason, replaces=replaced) for choice in choices)


def after_buying(snapshot: Snapshot, made: Iterable[CreateNodeRequest]) -> Snapshot:
    """As it will look when these machines serve: so that nothing is bought unless the old nodes can go then, by the
    check that is made then.
    """
    sold, nodes, pods = by_key(snapshot.offerings), dict(snapshot.nodes), dict(snapshot.pods_by_node)
    for number, action in enumerate(made):
        pool = snapshot.pools[action.spec.pool]
        node = promised_node(NodeRequest(f"bought {number}", action.spec), pool, sold)
        nodes[node.name] = node
        daemons = landing_daemons(snapshot.daemon_sets, node.labels, node.taints)
        pods[node.name] = tuple(_daemon(each, node.name) for each in daemons)
    return replace(snapshot, nodes=nodes, pods_by_node=pods)


def _daemon(daemon_set: DaemonSet, node: str) -> Pod:
    key = daemon_set.key
    return Pod(key, daemon_set.shape, f"{node}/{key}", Owner("DaemonSet", key), node, phase="Running")


MOST_TOGETHER: Final = 100
_MOST_GUESSES: Final = 10
_KINDS: Final = 3
_BUCKETS: Final = 5

Guess = tuple[int, ...]


def neighbourhoods(
    leaving: Sequence[Leaving],
    demands: Sequence[DemandClass],
    choices: Sequence[Choice],
    left: Mapping[str, int],
    above_minimum: Mapping[Kind, int],
    draw: int,
) -> tuple[Guess, ...]:
    """At most as many of a pool as `left`, and of a kind as `above_minimum`; `draw` numbers the draws."""
    waste = _waste(leaving, demands, choices)
    share = waste / np.array([max(each.price_per_hour, 1e-9) for each in leaving])
    lots = [zlib.crc32(f"{draw}/{each.room}".encode()) for each in leaving]
    order = sorted(range(len(leaving)), key=lambda index: (-int(share[index] * _BUCKETS), lots[index]))
    by_kind: dict[Kind, list[int]] = {}
    for index in order:
        by_kind.setdefault((leaving[index].pool, leaving[index].offering), []).append(index)
    dearest = sorted(by_kind.values(), key=lambda some: (-sum(waste[some]), leaving[some[0]].offering))[:_KINDS]
    most_wasteful = sorted(range(len(leaving)), key=lambda index: (-waste[index], leaving[index].room))[:2]
    guesses = [_within([index], leaving, left, above_minimum) for index in (*most_wasteful, order[0])]
    for some in (*dearest, order):
        whole = _within(some, leaving, left, above_minimum)
        guesses += [whole, whole[: (len(whole) + 1) // 2]]
    return tuple(dict.fromkeys(tuple(sorted(guess)) for guess in guesses if guess))[:_MOST_GUESSES]


def _within(
    some: Iterable[int], leaving: Sequence[Leaving], left: Mapping[str, int], above_minimum: Mapping[Kind, int]
) -> Guess:
    """The first of them that may go together."""
    pools, kinds, found = dict(left), dict(above_minimum), list[int]()
    for index in some:
        pool, kind = leaving[index].pool, (leaving[index].pool, leaving[index].offering)
        if len(found) < MOST_TOGETHER and pools.get(pool, 0) > 0 and kinds.get(kind, 0) > 0:
            pools[pool] -= 1
            kinds[kind] -= 1
            found.append(index)
    return tuple(found)


def _waste(leaving: Sequence[Leaving], demands: Sequence[DemandClass], choices: Sequence[Choice]) -> FloatArray:
    prices = np.array([each.price_per_hour for each in leaving])
    asked = [demand.shape.requests for demand in demands]
    names = sorted({name for each in asked for name, amount in each.items() if amount > 0 and name != PODS})
    if not choices or not names:
        return prices
    needs, nothing = (
        np.array([[each[name] for name in names] for each in asked], dtype=np.float64),
        np.zeros(len(names)),
    )
    content = np.array([sum((needs[index] * count for index, count in each.contents), nothing) for each in leaving])
    fair = np.full(len(leaving), np.inf)
    for offering in (choice.offering for choice in choices):
        amounts = np.array([max(offering.allocatable[name], 1e-3) for name in names])
        fair = np.minimum(fair, offering.price_per_hour * (content / amounts).max(axis=1))
    wasted: FloatArray = np.maximum(prices - fair, 0.0)
    return wasted
