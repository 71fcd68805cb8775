"""The question in numbers: classes, choices and rooms as arrays, in an order that does not depend on the order of the
input. Every stage of the solver reads it; nothing in it changes after it is made.

Demand classes that no rule can tell apart are one class here, whatever their labels and names are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
from msgspec.structs import replace

from growth.model.labels import HOSTNAME
from growth.model.node import Node
from growth.model.pod import PodShape, Toleration
from growth.model.resources import PODS, Resources
from growth.solver.arrays import MANY, BoolArray, FloatArray, IntArray
from growth.solver.purchase.pod_rules import (
    EVERYWHERE,
    AllowedNodes,
    Attachments,
    ShapeRules,
    SpreadRule,
    has_preferences_about_pods,
    read_rules,
    without_idle,
)
from growth.solver.purchase.problem import Choice, PlacementProblem, unmarked

_MOST_PAIRS: Final = 500_000  # of a class and a choice that are looked at together
_LARGEST: Final = 1 << 53
ON_ITS_WAY: Final = 2  # after nodes where pods work, and idle ones
_IDLE: Final = 1
_KINDS: Final = {"node": 0, "in-flight": ON_ITS_WAY, "marked": 3}  # filled in this order
_TOLERATES_ALL: Final = (Toleration(operator="Exists"),)


@dataclass(frozen=True, slots=True, eq=False)
class SpreadView:
    """A spread rule of a class, with the nodes among which it counts and compares."""

    rule: SpreadRule
    rooms: BoolArray
    choices: BoolArray


@dataclass(frozen=True, slots=True)
class Layout:
    """C classes, K choices, M rooms, R resources (pods last), T topology keys beside the node itself, L limit rows."""

    problem: PlacementProblem
    resources: tuple[str, ...]
    drivers: tuple[str, ...]  # those resources that are attached volumes
    members: tuple[tuple[int, ...], ...]  # demand classes of each class
    shapes: tuple[PodShape, ...]  # of the first member
    count: IntArray
    need: IntArray  # C × R
    is_virtual: BoolArray
    rules: tuple[ShapeRules, ...]
    spreads: tuple[tuple[SpreadView, ...], ...]
    implied: tuple[tuple[SpreadView, ...], ...]  # of other classes that it counts for, the strictest of each tally
    choice_index: IntArray  # K: its number in the problem
    room_index: IntArray  # M: its number in the problem
    offer: IntArray  # K × R: what daemons leave
    price: FloatArray
    tier: IntArray  # by priority: 0 is used up first
    fits: BoolArray  # C × K
    daemons: tuple[tuple[ShapeRules, ...], ...]  # K
    room_left: IntArray  # M × R
    room_kind: IntArray
    room_fits: BoolArray  # C × M
    contents: tuple[tuple[tuple[ShapeRules, int], ...], ...]  # M: pods that are there already
    tally_key: IntArray  # per tally: index of its key, -1 for the node itself
    domains: tuple[tuple[str, ...], ...]  # T: names of the domains of each key
    room_domain: IntArray  # T × M, -1: the label is absent
    choice_domain: IntArray  # T × K
    limit_use: FloatArray  # L × K
    limit_bound: FloatArray  # L
    limit_name: tuple[str, ...]


def unit_prices(layout: Layout) -> FloatArray:
    """What one pod of each class costs where it is cheapest, by its largest share of a node."""
    cheapest, block = np.full(len(layout.count), np.inf), 1 + _MOST_PAIRS // max(1, len(layout.count))
    for first in range(0, len(layout.price), block):
        some = slice(first, first + block)
        share = np.zeros((len(layout.price[some]), len(layout.count)))
        for need, offer in zip(layout.need.T, np.maximum(layout.offer[some], 0).T, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                np.maximum(share, np.where(need > 0, need / offer[:, None], 0.0), out=share)
        costs = np.where(layout.fits[:, some].T & (share <= 1), layout.price[some, None] * share, np.inf)
        cheapest = np.minimum(cheapest, costs.min(axis=0))
    return np.where(np.isfinite(cheapest), np.maximum(cheapest, 1e-12), 1.0)


def largest_share(layout: Layout, index: int) -> FloatArray:
    """The largest share of any resource that one pod of the class takes of each choice."""
    asked = np.flatnonzero(layout.need[index])
    with np.errstate(divide="ignore"):
        return np.asarray((layout.need[index, asked] / np.maximum(layout.offer[:, asked], 0)).max(axis=1))


def lay_out(problem: PlacementProblem) -> Layout:
    """Put a problem into numbers."""
    return _Draft(problem).layout()


class _Draft:
    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.demand_order = _canonical([demand.shape for demand in problem.demands])
        self.choice_order = sorted(range(len(problem.choices)), key=lambda index: _choice_key(problem.choices[index]))
        self.room_order = sorted(range(len(problem.rooms)), key=lambda index: problem.rooms[index].node.name)
        self.choices = [problem.choices[index] for index in self.choice_order]
        self.rooms = [problem.rooms[index] for index in self.room_order]
        self.shape_id, demanded = self._collect_shapes()
        planned = [_node_of(choice, number) for number, choice in enumerate(self.choices)]
        self.nodes = planned + [unmarked(room) for room in self.rooms]
        book = read_rules(list(self.shape_id), demanded, problem)
        self.book = without_idle(book, self.shape_id, problem, self.nodes)
        self.keys = tuple(sorted({key for key in self.book.keys if key != HOSTNAME}))
        self.allowed = AllowedNodes(self.nodes, problem)
        self.attachments = Attachments(problem, self.rooms)
        names = {name for demand in problem.demands for name, amount in demand.shape.requests.items() if amount > 0}
        self.has_preferences_about_pods = any(has_preferences_about_pods(one.shape) for one in problem.demands)
        self.resources = (*sorted(names - {PODS}), *self.attachments.drivers, PODS)

    def layout(self) -> Layout:
        problem, order = self.problem, self.demand_order
        raw_shapes = [problem.demands[index].shape for index in order]
        allowed = self.allowed.for_shapes(raw_shapes)
        fits = allowed[:, : len(self.choices)] & self._pools_allow(order)
        open_rooms = np.array([room.is_open and not room.node.malformed for room in self.rooms], dtype=np.bool_)
        room_fits = allowed[:, len(self.choices) :] & open_rooms & self._in_flight_allow(order)
        groups = self._merge(order, fits, room_fits)
        first = [group[0] for group in groups]
        members = tuple(tuple(order[position] for position in group) for group in groups)
        shapes = tuple(raw_shapes[position] for position in first)
        rules = tuple(map(self._rules, shapes))
        spreads = self._spread_views(shapes, rules)
        domains, room_domain, choice_domain = self._domains()
        limit_use, limit_bound, limit_name = self._limits()
        prices = [choice.offering.price_per_hour + problem.node_price_per_hour for choice in self.choices]
        key_of_tally = [self.keys.index(key) if key != HOSTNAME else -1 for key in self.book.keys]
        return Layout(
            problem=problem,
            resources=self.resources,
            drivers=self.attachments.drivers,
            members=members,
            shapes=shapes,
            count=np.array([sum(problem.demands[index].count for index in group) for group in members], dtype=np.int64),
            need=self._needs(shapes),
            is_virtual=np.array([problem.demands[group[0]].is_virtual for group in members], dtype=np.bool_),
            rules=rules,
            spreads=spreads,
            implied=_implied(rules, spreads),
            choice_index=np.array(self.choice_order, dtype=np.int64),
            room_index=np.array(self.room_order, dtype=np.int64),
            offer=self._offers(),
            price=np.array(prices, dtype=np.float64),
            tier=_tiers(self.choices),
            fits=fits[first] if first else fits,
            daemons=tuple(tuple(map(self._rules, choice.daemons)) for choice in self.choices),
            room_left=self._room_left(),
            room_kind=np.array([_IDLE if room.is_idle else _KINDS[room.kind] for room in self.rooms], dtype=np.int64),
            room_fits=room_fits[first] if first else room_fits,
            contents=tuple(tuple((self._rules(shape), count) for shape, count in room.contents) for room in self.rooms),
            tally_key=np.array(key_of_tally, dtype=np.int64),
            domains=domains,
            room_domain=room_domain,
            choice_domain=choice_domain,
            limit_use=limit_use,
            limit_bound=limit_bound,
            limit_name=limit_name,
        )

    def _rules(self, shape: PodShape) -> ShapeRules:
        return self.book.rules[self.shape_id[shape]]

    # -------------------------------------------------------------------------------------- classes

    def _collect_shapes(self) -> tuple[dict[PodShape, int], int]:
        """Every shape in an order of its own: demanded ones first."""
        found: dict[PodShape, int] = {}
        for index in self.demand_order:
            found.setdefault(self.problem.demands[index].shape, len(found))
        demanded = len(found)
        others = {shape for room in self.rooms for shape, _ in room.contents}
        others |= {shape for choice in self.choices for shape in choice.daemons}
        remaining = list(others - set(found))
        for index in _canonical(remaining):
            found[remaining[index]] = len(found)
        return found, demanded

    def _pools_allow(self, order: Sequence[int]) -> BoolArray:
        pools: dict[str, int] = {}
        of_choice = [pools.setdefault(choice.pool, len(pools)) for choice in self.choices]
        allowed = np.zeros((len(order), len(pools)), dtype=np.bool_)
        for row, index in enumerate(order):
            allowed[row, [pools[pool] for pool in self.problem.demands[index].pools if pool in pools]] = True
        return allowed[:, of_choice]

    def _in_flight_allow(self, order: Sequence[int]) -> BoolArray:
        """What is on its way was bought for a pool, and waits for the demands of that pool; what is marked is kept for
        them only.
        """
        pools = [room.node.pool if room.kind != "node" else "" for room in self.rooms]
        if not any(pools):
            return np.ones((len(order), len(pools)), dtype=np.bool_)
        allowed = [[not pool or pool in self.problem.demands[index].pools for pool in pools] for index in order]
        return np.array(allowed, dtype=np.bool_).reshape(len(order), len(pools))

    def _merge(self, order: Sequence[int], fits: BoolArray, room_fits: BoolArray) -> list[list[int]]:
        """Positions in `order` that nothing can tell apart: real before virtual, important before unimportant."""
        groups: dict[tuple[object, ...], list[int]] = {}
        masks: dict[bytes, int] = {}
        for position, index in enumerate(order):
            demand, shape = self.problem.demands[index], self.problem.demands[index].shape
            mask = np.packbits(fits[position]).tobytes() + np.packbits(room_fits[position]).tobytes()
            rules = self._rules(shape)
            spread_over = (shape.node_selector, shape.node_affinity, shape.tolerations) if rules.spreads else ()
            key = (
                demand.is_virtual, -shape.priority, shape.requests, masks.setdefault(mask, len(masks)),
                rules, spread_over, self._preferences(shape),
                shape.volumes, shape.namespace if shape.volumes else "",
            )  # fmt: skip
            groups.setdefault(key, []).append(position)

        def rank(group: list[int]) -> tuple[bool, int, int]:
            first = self.problem.demands[order[group[0]]]
            return first.is_virtual, -first.shape.priority, group[0]

        return sorted(groups.values(), key=rank)

    def _preferences(self, shape: PodShape) -> tuple[object, ...]:
        """What preferences look at: where any look at pods, all labels."""
        if self.problem.preferences == "Ignore":
            return ()
        if not self.has_preferences_about_pods:
            return (shape.preferred_nodes,)
        of_pods = shape.preferred_affinity, shape.preferred_anti_affinity, shape.spread
        return (shape.preferred_nodes, *of_pods, shape.labels, shape.namespace)

    # -------------------------------------------------------------------------------------- amounts

    def _vectors(self, amounts: Sequence[Resources]) -> IntArray:
        table = [[min(one[name], _LARGEST) for name in self.resources] for one in amounts]
        return np.maximum(np.array(table, dtype=np.int64).reshape(len(amounts), len(self.resources)), 0)

    def _driver_columns(self) -> Iterable[tuple[int, str]]:
        return enumerate(self.attachments.drivers, start=len(self.resources) - 1 - len(self.attachments.drivers))

    def _needs(self, shapes: Sequence[PodShape]) -> IntArray:
        """What one pod of each shape takes, itself and its attached volumes included."""
        needs = self._vectors([shape.requests for shape in shapes])
        needs[:, -1] = 1
        for column, driver in self._driver_columns():
            needs[:, column] = [self.attachments.count(shape, driver) for shape in shapes]
        return needs

    def _offers(self) -> IntArray:
        """What daemons leave of each choice; attachments of a new node have no known limit."""
        offers = self._vectors([choice.offering.allocatable for choice in self.choices])
        for column, _ in self._driver_columns():
            offers[:, column] = MANY
        for row, choice in enumerate(self.choices):
            if choice.daemons:
                offers[row] -= self._needs(choice.daemons).sum(axis=0)
        return offers

    def _room_left(self) -> IntArray:
        left = self._vectors([room.node.allocatable for room in self.rooms])
        distinct = list(dict.fromkeys(shape for room in self.rooms for shape, _ in room.contents))
        needs = dict(zip(distinct, self._needs(distinct), strict=True))
        for row, room in enumerate(self.rooms):
            for shape, count in room.contents:
                left[row] -= needs[shape] * count
        for column, driver in self._driver_columns():
            left[:, column] = self.attachments.left(driver)
        return left

    # --------------------------------------------------------------------------- domains and limits

    def _domains(self) -> tuple[tuple[tuple[str, ...], ...], IntArray, IntArray]:
        names = []
        numbers = np.full((len(self.keys), len(self.nodes)), -1, dtype=np.int64)
        for row, key in enumerate(self.keys):
            of_nodes = [EVERYWHERE if key == EVERYWHERE else node.labels.get(key) for node in self.nodes]
            values = sorted({value for value in of_nodes if value is not None})
            position = {value: number for number, value in enumerate(values)}
            names.append(tuple(values))
            numbers[row] = [-1 if value is None else position[value] for value in of_nodes]
        return tuple(names), numbers[:, len(self.choices) :], numbers[:, : len(self.choices)]

    def _spread_views(
        self, shapes: Sequence[PodShape], rules: Sequence[ShapeRules]
    ) -> tuple[tuple[SpreadView, ...], ...]:
        known: dict[tuple[object, ...], tuple[BoolArray, BoolArray]] = {}
        views = []
        for shape, rule in zip(shapes, rules, strict=True):
            keys = tuple(sorted({self.book.keys[spread.tally] for spread in rule.spreads} - {HOSTNAME}))
            found = []
            for spread in rule.spreads:
                seen = _shape_seen_by(spread, shape)
                if (seen, keys) not in known:
                    labelled = [all(key in node.labels for key in keys) for node in self.nodes]
                    counted = self.allowed.for_shape(seen) & np.array(labelled, dtype=np.bool_)
                    known[seen, keys] = counted[len(self.choices) :], counted[: len(self.choices)]
                found.append(SpreadView(spread, *known[seen, keys]))
            views.append(tuple(found))
        return tuple(views)

    def _limits(self) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
        """Uses (L × K), bounds and names; a limit has a row for its nodes, for each resource and for its price."""
        uses: list[list[float]] = []
        bounds: list[float] = []
        names: list[str] = []
        for limit in self.problem.limits:
            chosen = np.isin(self.choice_order, np.array(limit.choices, dtype=np.int64))

            def write(name: str, bound: float, use: Callable[[Choice], float], chosen: BoolArray = chosen) -> None:
                uses.append([use(one) if inside else 0.0 for one, inside in zip(self.choices, chosen, strict=True)])
                bounds.append(bound)
                names.append(name)

            if limit.nodes is not None:
                write(limit.words("nodes"), limit.nodes, lambda _: 1.0)
            for name, bound in sorted(limit.resources.items()):
                write(limit.words(name), bound, lambda one, name=name: float(one.amounts[name]))  # type: ignore[misc]
            if limit.price_per_hour is not None:
                write(limit.words("price"), limit.price_per_hour, lambda one: one.offering.price_per_hour)
        table = np.array(uses, dtype=np.float64).reshape(len(uses), len(self.choices))
        return table, np.array(bounds, dtype=np.float64), tuple(names)


def _node_of(choice: Choice, number: int) -> Node:
    """What a choice becomes, as far as the rules look at it; the name can be no real node's."""
    return Node(f"choice {number}", choice.labels, choice.taints, choice.offering.allocatable)


def _canonical(shapes: Sequence[PodShape]) -> list[int]:
    """Indices in an order that depends on the shapes alone, the largest first."""

    def quick_key(index: int) -> tuple[object, ...]:
        shape = shapes[index]
        amounts = tuple((name, -amount) for name, amount in shape.requests.items())
        return amounts, shape.namespace, str(shape.labels), len(shape.spread), len(shape.affinity)

    ordered: list[int] = []
    keys = [quick_key(index) for index in range(len(shapes))]
    for _, run in groupby(sorted(range(len(shapes)), key=keys.__getitem__), key=keys.__getitem__):
        tied = list(run)
        ordered += tied if len(tied) == 1 else sorted(tied, key=lambda index: repr(shapes[index]))
    return ordered


def _choice_key(choice: Choice) -> tuple[object, ...]:
    one = choice.offering
    return one.price_per_hour, one.name, one.location, choice.pool, str(choice.labels), str(one.allocatable)


def _tiers(choices: Sequence[Choice]) -> IntArray:
    priorities = [(-choice.pool_priority, -choice.type_priority) for choice in choices]
    ranks = sorted(set(priorities))
    return np.array([ranks.index(one) for one in priorities], dtype=np.int64)


def _implied(
    rules: Sequence[ShapeRules], spreads: Sequence[Sequence[SpreadView]]
) -> tuple[tuple[SpreadView, ...], ...]:
    strictest: dict[int, SpreadView] = {}
    for view in (view for views in spreads for view in views):
        known = strictest.get(view.rule.tally)
        if known is None or view.rule.max_skew < known.rule.max_skew:
            strictest[view.rule.tally] = SpreadView(replace(view.rule, counts_itself=True), view.rooms, view.choices)
    own = [{view.rule.tally for view in views} for views in spreads]
    return tuple(
        tuple(strictest[tally] for tally in rule.adds if tally in strictest and tally not in mine)
        for rule, mine in zip(rules, own, strict=True)
    )


def _shape_seen_by(spread: SpreadRule, shape: PodShape) -> PodShape:
    """The part of a shape that decides among which nodes a spread rule counts."""
    tolerations = shape.tolerations if spread.honours_taints else _TOLERATES_ALL
    if not spread.honours_affinity:
        return PodShape(tolerations=tolerations)
    return PodShape(tolerations=tolerations, node_selector=shape.node_selector, node_affinity=shape.node_affinity)
