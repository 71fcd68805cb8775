"""How is a problem put into numbers? Asked once for each solve by `solver/solve`; it decides nothing about where pods go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from growth.model.labels import HOSTNAME, NO_LABELS
from growth.model.node import SCALE_DOWN_TAINT, STARTUP_TAINT, Taint
from growth.model.pod import PodShape, Toleration
from growth.model.resources import PODS, Resources
from growth.solver.layout import FloatArray, IntArray, Layout, SpreadView
from growth.solver.problem import Choice, PlacementProblem, Room
from growth.solver.rulebook import Rulebook, ShapeRules, Spread, write_rulebook
from growth.solver.standing import BoolArray, Ground, standing

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
        self.shapes, self.shape_id = self._collect_shapes()
        self.book = self._write_rules()
        names = {name for demand in problem.demands for name, amount in demand.shape.requests.items() if amount > 0}
        self.resources = (*sorted(names - {PODS}), PODS)

    def finish(self) -> Layout:
        book, problem = self.book, self.problem
        keys = book.keys()
        grounds = [Ground(choice.labels, choice.taints) for choice in self.choices]
        room_grounds = [Ground(room.node.labels, _lasting_taints(room), room.node.name) for room in self.rooms]
        order = self.demand_order
        raw_shapes = [problem.demands[index].shape for index in order]
        fits = standing(raw_shapes, grounds) & self._pools_allow(order)
        open_rooms = np.array([room.is_open and not room.node.malformed for room in self.rooms], dtype=np.bool_)
        room_fits = standing(raw_shapes, room_grounds) & open_rooms & self._in_flight_allow(order)
        groups = self._merge(order, fits, room_fits)
        first = [group[0] for group in groups]
        members = tuple(tuple(order[position] for position in group) for group in groups)
        shapes = tuple(raw_shapes[position] for position in first)
        rules = tuple(book.rules[self.shape_id[shape]] for shape in shapes)
        domains, room_domain, choice_domain = self._domains(keys)
        limit_use, limit_bound, limit_name = self._limits()
        return Layout(
            problem=problem,
            resources=self.resources,
            members=members,
            shapes=shapes,
            count=np.array([sum(problem.demands[index].count for index in group) for group in members], dtype=np.int64),
            need=self._vectors([shape.requests for shape in shapes], pods=1),
            is_virtual=np.array([problem.demands[group[0]].is_virtual for group in members], dtype=np.bool_),
            rules=rules,
            spreads=_spread_views(shapes, rules, grounds, room_grounds, book),
            room_index=np.array(self.room_order, dtype=np.int64),
            choice_index=np.array(self.choice_order, dtype=np.int64),
            offer=self._vectors([choice.offering.allocatable for choice in self.choices]) - self._daemon_needs(),
            price=np.array([choice.offering.price_per_hour + problem.node_price_per_hour for choice in self.choices], dtype=np.float64),
            level=_levels(self.choices),
            fits=fits[first] if first else fits,
            daemons=tuple(tuple(book.rules[self.shape_id[shape]] for shape in choice.daemons) for choice in self.choices),
            room_left=self._room_left(),
            room_kind=np.array([_KINDS[room.kind] for room in self.rooms], dtype=np.int64),
            room_fits=room_fits[first] if first else room_fits,
            contents=tuple(tuple((book.rules[self.shape_id[shape]], count) for shape, count in room.contents) for room in self.rooms),
            tally_key=np.array([keys.index(tally.key) if tally.key != HOSTNAME else -1 for tally in book.tallies], dtype=np.int64),
            domains=domains,
            room_domain=room_domain,
            choice_domain=choice_domain,
            limit_use=limit_use,
            limit_bound=limit_bound,
            limit_name=limit_name,
        )

    def _collect_shapes(self) -> tuple[list[PodShape], dict[PodShape, int]]:
        found: dict[PodShape, int] = {}
        for index in self.demand_order:
            found.setdefault(self.problem.demands[index].shape, len(found))
        self.demanded = len(found)
        standing_ones = {shape for room in self.rooms for shape, _ in room.contents} | {shape for choice in self.choices for shape in choice.daemons}
        for shape in _sorted_shapes(standing_ones - set(found)):
            found[shape] = len(found)
        return list(found), found

    def _write_rules(self) -> Rulebook:
        placed = [number >= self.demanded for number in range(len(self.shapes))]
        return write_rulebook(self.shapes, placed, self.problem.namespaces)

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
        return np.array([[not pool or pool in self.problem.demands[index].pools for pool in pools] for index in order], dtype=np.bool_)

    def _merge(self, order: Sequence[int], fits: BoolArray, room_fits: BoolArray) -> list[list[int]]:
        """Positions in `order` that nothing can tell apart."""
        groups: dict[tuple[object, ...], list[int]] = {}
        masks: dict[bytes, int] = {}
        for position, index in enumerate(order):
            demand = self.problem.demands[index]
            mask = np.packbits(fits[position]).tobytes() + np.packbits(room_fits[position]).tobytes()
            shape = demand.shape
            soft = (shape.preferred_nodes, shape.preferred_affinity, shape.preferred_anti_affinity) if self.problem.preferences == "Respect" else ()
            held = (shape.node_selector, shape.node_affinity, shape.tolerations) if shape.spread else ()
            key = (
                demand.is_virtual, -shape.priority, shape.requests, masks.setdefault(mask, len(masks)),
                self.book.rules[self.shape_id[shape]], held, soft, shape.volumes, shape.namespace if shape.volumes else "",
            )  # fmt: skip
            groups.setdefault(key, []).append(position)
        return sorted(groups.values(), key=lambda group: self._class_key(order[group[0]], group[0]))

    def _class_key(self, index: int, position: int) -> tuple[object, ...]:
        """Real before virtual, important before unimportant; then as the shapes stand."""
        demand = self.problem.demands[index]
        return (demand.is_virtual, -demand.shape.priority, position)

    def _vectors(self, amounts: Sequence[Resources], pods: int | None = None) -> IntArray:
        table = [[min(one[name], _LARGEST) for name in self.resources] for one in amounts]
        vectors = np.array(table, dtype=np.int64).reshape(len(amounts), len(self.resources))
        if pods is not None:
            vectors[:, -1] = pods
        return np.maximum(vectors, 0)

    def _daemon_needs(self) -> IntArray:
        needs = np.zeros((len(self.choices), len(self.resources)), dtype=np.int64)
        for row, choice in enumerate(self.choices):
            for shape in choice.daemons:
                needs[row] += self._vectors([shape.requests], pods=1)[0]
        return needs

    def _room_left(self) -> IntArray:
        left = self._vectors([room.node.allocatable for room in self.rooms])
        distinct = {shape for room in self.rooms for shape, _ in room.contents}
        vectors = {shape: self._vectors([shape.requests], pods=1)[0] for shape in distinct}
        for row, room in enumerate(self.rooms):
            for shape, count in room.contents:
                left[row] -= vectors[shape] * count
        return left

    def _domains(self, keys: Sequence[str]) -> tuple[tuple[tuple[str, ...], ...], IntArray, IntArray]:
        names, of_rooms, of_choices = [], [], []
        for key in keys:
            values = {room.node.labels[key] for room in self.rooms if key in room.node.labels}
            values |= {choice.labels[key] for choice in self.choices if key in choice.labels}
            number = {value: position for position, value in enumerate(sorted(values))}
            names.append(tuple(sorted(values)))
            of_rooms.append([number.get(room.node.labels.get(key, ""), -1) if key in room.node.labels else -1 for room in self.rooms])
            of_choices.append([number.get(choice.labels.get(key, ""), -1) if key in choice.labels else -1 for choice in self.choices])
        rooms = np.array(of_rooms, dtype=np.int64).reshape(len(keys), len(self.rooms))
        choices = np.array(of_choices, dtype=np.int64).reshape(len(keys), len(self.choices))
        return tuple(names), rooms, choices

    def _limits(self) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
        uses: list[FloatArray] = []
        bounds: list[float] = []
        names: list[str] = []

        def write(name: str, chosen: BoolArray, bound: float, amount: Callable[[Choice], float]) -> None:
            uses.append(np.array([amount(choice) if is_chosen else 0.0 for choice, is_chosen in zip(self.choices, chosen, strict=True)], dtype=np.float64))
            bounds.append(bound)
            names.append(name)

        order = np.array(self.choice_order, dtype=np.int64)
        for limit in self.problem.limits:
            chosen = np.isin(order, np.array(limit.choices, dtype=np.int64))
            if limit.nodes is not None:
                write(limit.name, chosen, limit.nodes, lambda _: 1.0)
            for name, bound in sorted(limit.resources.items()):
                write(f"{limit.name} ({name})", chosen, bound, lambda choice, name=name: float(choice.offering.allocatable[name]))  # type: ignore[misc]
            if limit.price_per_hour is not None:
                write(f"{limit.name} (price)", chosen, limit.price_per_hour, lambda choice: choice.offering.price_per_hour)
        table = np.array(uses, dtype=np.float64).reshape(len(uses), len(self.choices))
        return table, np.array(bounds, dtype=np.float64), tuple(names)


def _lasting_taints(room: Room) -> tuple[Taint, ...]:
    """Our own marks come off a room that is open: whoever asks says so."""
    return tuple(taint for taint in room.node.taints if taint.key not in _OWN_TAINTS)


def _canonical(shapes: Sequence[PodShape]) -> list[int]:
    """Indices in an order that depends on the shapes alone, the largest first."""
    cheap = sorted(range(len(shapes)), key=lambda index: _cheap_key(shapes[index]))
    ordered: list[int] = []
    for _, run in groupby(cheap, key=lambda index: _cheap_key(shapes[index])):
        tied = list(run)
        ordered += tied if len(tied) == 1 else sorted(tied, key=lambda index: repr(shapes[index]))
    return ordered


def _cheap_key(shape: PodShape) -> tuple[object, ...]:
    return (tuple((name, -amount) for name, amount in shape.requests.items()), shape.namespace, str(shape.labels), len(shape.spread), len(shape.affinity))


def _sorted_shapes(shapes: Iterable[PodShape]) -> list[PodShape]:
    found = list(shapes)
    return [found[index] for index in _canonical(found)]


def _choice_key(choice: Choice) -> tuple[object, ...]:
    offering = choice.offering
    return (offering.price_per_hour, offering.name, offering.location, choice.pool, str(choice.labels), str(offering.allocatable))


def _levels(choices: Sequence[Choice]) -> IntArray:
    ranks = sorted({(-choice.pool_priority, -choice.type_priority) for choice in choices})
    return np.array([ranks.index((-choice.pool_priority, -choice.type_priority)) for choice in choices], dtype=np.int64)


def _spread_views(
    shapes: Sequence[PodShape], rules: Sequence[ShapeRules], grounds: Sequence[Ground], room_grounds: Sequence[Ground], book: Rulebook
) -> tuple[tuple[SpreadView, ...], ...]:
    known: dict[tuple[object, ...], tuple[BoolArray, BoolArray]] = {}
    views = []
    for shape, rule in zip(shapes, rules, strict=True):
        keys = tuple(sorted({book.tallies[spread.tally].key for spread in rule.spreads} - {HOSTNAME}))
        found = []
        for spread in rule.spreads:
            seen = _shape_seen_by(spread, shape)
            if (seen, keys) not in known:
                known[seen, keys] = (_counted(seen, room_grounds, keys), _counted(seen, grounds, keys))
            rooms, choices = known[seen, keys]
            found.append(SpreadView(spread, spread.tally in rule.adds, rooms, choices))
        views.append(tuple(found))
    return tuple(views)


def _shape_seen_by(spread: Spread, shape: PodShape) -> PodShape:
    """The part of a shape that decides among which nodes a spread rule counts."""
    tolerations = shape.tolerations if spread.honours_taints else _TOLERATES_ALL
    if not spread.honours_affinity:
        return PodShape(tolerations=tolerations)
    return PodShape(tolerations=tolerations, node_selector=shape.node_selector or NO_LABELS, node_affinity=shape.node_affinity)


def _counted(seen: PodShape, grounds: Sequence[Ground], keys: Sequence[str]) -> BoolArray:
    labelled = np.array([all(key in ground.labels for key in keys) for ground in grounds], dtype=np.bool_)
    counted: BoolArray = standing([seen], grounds)[0] & labelled
    return counted
