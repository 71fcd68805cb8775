"""How is a problem put into numbers? Asked once for each solve by `solver/purchase/solve`; it decides nothing about
where pods go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

import numpy as np
from msgspec.structs import replace

from growth.model.labels import HOSTNAME
from growth.model.node import SCALE_DOWN_TAINT, STARTUP_TAINT, Node
from growth.model.pod import PodShape, Toleration
from growth.model.resources import PODS, Resources
from growth.solver.arrays import MANY, BoolArray, FloatArray, IntArray
from growth.solver.purchase.attachments import Attaching
from growth.solver.purchase.layout import Layout, SpreadView
from growth.solver.purchase.problem import Choice, PlacementProblem, Room
from growth.solver.purchase.rulebook import EVERYWHERE, ShapeRules, Spread, write_rulebook
from growth.solver.purchase.standing import Standing
from growth.solver.purchase.wishes import has_wishes_about_pods

_LARGEST: Final = 1 << 53
_KINDS: Final = {"node": 0, "in-flight": 1, "marked": 2}
_OWN_TAINTS: Final = (SCALE_DOWN_TAINT.key, STARTUP_TAINT.key)
_TOLERATES_ALL: Final = (Toleration(operator="Exists"),)


def lay_out(problem: PlacementProblem) -> Layout:
    """Put a problem into numbers."""
    return _Drafting(problem).finish()


class _Drafting:
    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.demand_order = _canonical([demand.shape for demand in problem.demands])
        self.choice_order = sorted(range(len(problem.choices)), key=lambda index: _choice_key(problem.choices[index]))
        self.room_order = sorted(range(len(problem.rooms)), key=lambda index: problem.rooms[index].node.name)
        self.choices = [problem.choices[index] for index in self.choice_order]
        self.rooms = [problem.rooms[index] for index in self.room_order]
        self.shape_id, self.demanded = self._collect_shapes()
        self.book = write_rulebook(list(self.shape_id), self.demanded, problem)
        self.keys = tuple(sorted({key for key in self.book.keys if key != HOSTNAME}))
        self.nodes = [_node_of(choice, number) for number, choice in enumerate(self.choices)] + [
            _unmarked(room) for room in self.rooms
        ]
        self.standing = Standing(self.nodes, problem)
        self.attaching = Attaching(problem, self.rooms)
        names = {name for demand in problem.demands for name, amount in demand.shape.requests.items() if amount > 0}
        self.has_wishes_about_pods = any(has_wishes_about_pods(demand.shape) for demand in problem.demands)
        self.resources = (*sorted(names - {PODS}), *self.attaching.drivers, PODS)

    def finish(self) -> Layout:
        book, problem, order = self.book, self.problem, self.demand_order
        raw_shapes = [problem.demands[index].shape for index in order]
        allowed = self.standing.of_all(raw_shapes)
        fits = allowed[:, : len(self.choices)] & self._pools_allow(order)
        open_rooms = np.array([room.is_open and not room.node.malformed for room in self.rooms], dtype=np.bool_)
        room_fits = allowed[:, len(self.choices) :] & open_rooms & self._in_flight_allow(order)
        groups = self._merge(order, fits, room_fits)
        first = [group[0] for group in groups]
        members = tuple(tuple(order[position] for position in group) for group in groups)
        shapes = tuple(raw_shapes[position] for position in first)
        rules = tuple(book.rules[self.shape_id[shape]] for shape in shapes)
        spreads = self._spread_views(shapes, rules)
        domains, room_domain, choice_domain = self._domains()
        limit_use, limit_bound, limit_name = self._limits()
        return Layout(
            problem=problem,
            resources=self.resources,
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
            price=np.array(
                [choice.offering.price_per_hour + problem.node_price_per_hour for choice in self.choices],
                dtype=np.float64,
            ),
            level=_levels(self.choices),
            fits=fits[first] if first else fits,
            daemons=tuple(
                tuple(book.rules[self.shape_id[shape]] for shape in choice.daemons) for choice in self.choices
            ),
            room_left=self._room_left(),
            room_kind=np.array([_KINDS[room.kind] for room in self.rooms], dtype=np.int64),
            room_fits=room_fits[first] if first else room_fits,
            contents=tuple(
                tuple((book.rules[self.shape_id[shape]], count) for shape, count in room.contents)
                for room in self.rooms
            ),
            tally_key=np.array([self.keys.index(key) if key != HOSTNAME else -1 for key in book.keys], dtype=np.int64),
            domains=domains,
            room_domain=room_domain,
            choice_domain=choice_domain,
            limit_use=limit_use,
            limit_bound=limit_bound,
            limit_name=limit_name,
        )

    # -------------------------------------------------------------------------------------- classes

    def _collect_shapes(self) -> tuple[dict[PodShape, int], int]:
        """Every shape in an order of its own: demanded ones first."""
        found: dict[PodShape, int] = {}
        for index in self.demand_order:
            found.setdefault(self.problem.demands[index].shape, len(found))
        demanded = len(found)
        standing_ones = {shape for room in self.rooms for shape, _ in room.contents} | {
            shape for choice in self.choices for shape in choice.daemons
        }
        for shape in _sorted_shapes(standing_ones - set(found)):
            found[shape] = len(found)
        return found, demanded

    def _pools_allow(self, order: Sequence[int]) -> BoolArray:
        pools: dict[str, int] = {}
        of_choice = [pools.setdefault(choice.pool, len(pools)) for choice in self.choices]
        allowed = np.zeros((len(order), len(pools)), dtype=np.bool_)
        for row, index in enumerate(order):
            for pool in self.problem.demands[index].pools:
                if pool in pools:
                    allowed[row, pools[pool]] = True
        return allowed[:, of_choice]

    def _in_flight_allow(self, order: Sequence[int]) -> BoolArray:
        """What is on its way was bought for a pool, and waits for the demands of that pool."""
        pools = [room.node.pool if room.kind == "in-flight" else "" for room in self.rooms]
        if not any(pools):
            return np.ones((len(order), len(pools)), dtype=np.bool_)
        allowed = [[not pool or pool in self.problem.demands[index].pools for pool in pools] for index in order]
        return np.array(allowed, dtype=np.bool_).reshape(len(order), len(pools))

    def _merge(self, order: Sequence[int], fits: BoolArray, room_fits: BoolArray) -> list[list[int]]:
        """Positions in `order` that nothing can tell apart."""
        groups: dict[tuple[object, ...], list[int]] = {}
        masks: dict[bytes, int] = {}
        for position, index in enumerate(order):
            demand = self.problem.demands[index]
            mask = np.packbits(fits[position]).tobytes() + np.packbits(room_fits[position]).tobytes()
            shape = demand.shape
            soft = self._soft(shape)
            held = (shape.node_selector, shape.node_affinity, shape.tolerations) if shape.spread else ()
            key = (
                demand.is_virtual, -shape.priority, shape.requests, masks.setdefault(mask, len(masks)),
                self.book.rules[self.shape_id[shape]], held, soft, shape.volumes, shape.namespace if shape.volumes else "",
            )  # fmt: skip
            groups.setdefault(key, []).append(position)
        return sorted(groups.values(), key=lambda group: self._class_key(order[group[0]], group[0]))

    def _soft(self, shape: PodShape) -> tuple[object, ...]:
        """What wishes look at: where any look at pods, all labels."""
        if self.problem.preferences == "Ignore":
            return ()
        about_pods = (
            shape.preferred_affinity,
            shape.preferred_anti_affinity,
            shape.spread,
            shape.labels,
            shape.namespace,
        )
        return (shape.preferred_nodes, *(about_pods if self.has_wishes_about_pods else ()))

    def _class_key(self, index: int, position: int) -> tuple[object, ...]:
        """Real before virtual, important before unimportant; then as the shapes stand."""
        demand = self.problem.demands[index]
        return (demand.is_virtual, -demand.shape.priority, position)

    # -------------------------------------------------------------------------------------- amounts

    def _vectors(self, amounts: Sequence[Resources]) -> IntArray:
        table = [[min(one[name], _LARGEST) for name in self.resources] for one in amounts]
        return np.maximum(np.array(table, dtype=np.int64).reshape(len(amounts), len(self.resources)), 0)

    def _driver_columns(self) -> Iterable[tuple[int, str]]:
        return enumerate(self.attaching.drivers, start=len(self.resources) - 1 - len(self.attaching.drivers))

    def _needs(self, shapes: Sequence[PodShape]) -> IntArray:
        """What one pod of each shape takes, itself and its attached volumes included."""
        needs = self._vectors([shape.requests for shape in shapes])
        needs[:, -1] = 1
        for column, driver in self._driver_columns():
            needs[:, column] = [self.attaching.count(shape, driver) for shape in shapes]
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
            left[:, column] = self.attaching.left(driver)
        return left

    # ---------------------------------------------------------------------------------- domains and
    # limits

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
                    labelled = np.array(
                        [all(key in node.labels for key in keys) for node in self.nodes], dtype=np.bool_
                    )
                    counted = self.standing.of(seen) & labelled
                    known[seen, keys] = counted[len(self.choices) :], counted[: len(self.choices)]
                found.append(SpreadView(spread, *known[seen, keys]))
            views.append(tuple(found))
        return tuple(views)

    def _limits(self) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
        uses: list[FloatArray] = []
        bounds: list[float] = []
        names: list[str] = []

        def write(name: str, chosen: BoolArray, bound: float, amount: Callable[[Choice], float]) -> None:
            uses.append(
                np.array(
                    [
                        amount(choice) if is_chosen else 0.0
                        for choice, is_chosen in zip(self.choices, chosen, strict=True)
                    ],
                    dtype=np.float64,
                )
            )
            bounds.append(bound)
            names.append(name)

        order = np.array(self.choice_order, dtype=np.int64)
        for limit in self.problem.limits:
            chosen = np.isin(order, np.array(limit.choices, dtype=np.int64))
            if limit.nodes is not None:
                write(limit.name, chosen, limit.nodes, lambda _: 1.0)
            for name, bound in sorted(limit.resources.items()):
                write(
                    f"{limit.name} ({name})",
                    chosen,
                    bound,
                    lambda choice, name=name: float(choice.offering.allocatable[name]),  # type: ignore[misc]
                )
            if limit.price_per_hour is not None:
                write(
                    f"{limit.name} (price)", chosen, limit.price_per_hour, lambda choice: choice.offering.price_per_hour
                )
        table = np.array(uses, dtype=np.float64).reshape(len(uses), len(self.choices))
        return table, np.array(bounds, dtype=np.float64), tuple(names)


def _node_of(choice: Choice, number: int) -> Node:
    """What a choice becomes, as far as the rules look at it; the name can be no real node's."""
    return Node(f"choice {number}", choice.labels, choice.taints, choice.offering.allocatable)


def _unmarked(room: Room) -> Node:
    """Our own marks come off a room that is open: whoever asks says so."""
    return replace(room.node, taints=tuple(taint for taint in room.node.taints if taint.key not in _OWN_TAINTS))


def _canonical(shapes: Sequence[PodShape]) -> list[int]:
    """Indices in an order that depends on the shapes alone, the largest first."""
    cheap = sorted(range(len(shapes)), key=lambda index: _cheap_key(shapes[index]))
    ordered: list[int] = []
    for _, run in groupby(cheap, key=lambda index: _cheap_key(shapes[index])):
        tied = list(run)
        ordered += tied if len(tied) == 1 else sorted(tied, key=lambda index: repr(shapes[index]))
    return ordered


def _cheap_key(shape: PodShape) -> tuple[object, ...]:
    return (
        tuple((name, -amount) for name, amount in shape.requests.items()),
        shape.namespace,
        str(shape.labels),
        len(shape.spread),
        len(shape.affinity),
    )


def _sorted_shapes(shapes: Iterable[PodShape]) -> list[PodShape]:
    found = list(shapes)
    return [found[index] for index in _canonical(found)]


def _choice_key(choice: Choice) -> tuple[object, ...]:
    offering = choice.offering
    return (
        offering.price_per_hour,
        offering.name,
        offering.location,
        choice.pool,
        str(choice.labels),
        str(offering.allocatable),
    )


def _levels(choices: Sequence[Choice]) -> IntArray:
    ranks = sorted({(-choice.pool_priority, -choice.type_priority) for choice in choices})
    return np.array([ranks.index((-choice.pool_priority, -choice.type_priority)) for choice in choices], dtype=np.int64)


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


def _shape_seen_by(spread: Spread, shape: PodShape) -> PodShape:
    """The part of a shape that decides among which nodes a spread rule counts."""
    tolerations = shape.tolerations if spread.honours_taints else _TOLERATES_ALL
    if not spread.honours_affinity:
        return PodShape(tolerations=tolerations)
    return PodShape(tolerations=tolerations, node_selector=shape.node_selector, node_affinity=shape.node_affinity)
