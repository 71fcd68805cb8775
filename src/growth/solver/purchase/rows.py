"""Which pods are alike once their zones are decided? Parts of classes become the rows of a `Stock`, and patterns of
earlier solutions are read and written in the numbers of those rows.

Rows forget all that only matters elsewhere: names, labels no pod on the node asks about, zones. Rules within a node
stay in one of two forms:

| rule within a node | form |
| --- | --- |
| only among the pods of one class | `cap`: so many of the row on a node |
| among several classes | a shared tally |
| spread among several classes, if it makes too many rows | left out; `open_nodes` keeps it |

Column generation with hundreds of rows ends before it is near its best. Beyond `_MOST_ROWS`, rows of nearly equal size
are therefore merged into coarse ones: a pod of a coarse row counts as the mean of its pods. `open_nodes` gives the pods
their true sizes back, and what does not fit then is packed again; the second time it is little.

A pattern names its offering and the shapes of its pods, so it means the same in the next problem, whatever numbers
things have there. It is a head start and nothing more: shapes and offerings that are gone are left out."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from growth.model.pod import PodShape
from growth.solver.arrays import BOUNDLESS, BoolArray, FloatArray, IntArray
from growth.solver.patterns.fluid import Selected
from growth.solver.patterns.packing import Relaxation, Values
from growth.solver.patterns.stock import Patterns, RoomLeft, Stock
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.problem import Pattern
from growth.solver.purchase.tallies import NodeTally, how_often, node_limits

_MOST_KEPT = 3_000  # patterns for the next problem
_MANY_ROWS = 160  # beyond that, mild rules are left out if that makes fewer rows
_MOST_ROWS = 320  # beyond that, rows are merged
_COARSE_ROWS = 200  # about so many are left then: with more the patterns are worse, with fewer too much is packed again


@dataclass(frozen=True, slots=True)
class Part:
    """So many pods of a class, and the choices and rooms they may go to."""

    index: int
    count: int
    choices: BoolArray  # K
    rooms: BoolArray  # M
    has_zone: bool = False  # its domains are decided


def everything(layout: Layout, remaining: IntArray) -> list[Part]:
    """All classes with pods remaining, each with every choice and room it may go to."""
    return [
        Part(int(index), int(remaining[index]), layout.fits[index], layout.room_fits[index])
        for index in np.flatnonzero(remaining)
    ]


@dataclass(frozen=True, slots=True)
class Rows:
    """A stock, and the parts of classes behind each of its rows."""

    stock: Stock
    parts: tuple[tuple[Part, ...], ...]
    is_exact: bool = True  # no rule within a node was left out
    is_coarse: bool = False  # the pods of a row differ in size, and the row has their mean

    def row_of_class(self, classes: int) -> IntArray:
        """The first row of each class, -1 where it has none."""
        found = np.full(classes, -1, dtype=np.int64)
        for row in reversed(range(len(self.parts))):
            for part in self.parts[row]:
                found[part.index] = row
        return found


@dataclass(frozen=True, slots=True)
class RelaxedRows:
    """Rows, and what the program over patterns found for them."""

    rows: Rows
    relaxation: Relaxation


def rows_of(
    layout: Layout,
    parts: Sequence[Part],
    limit_left: FloatArray,
    proven: Mapping[int, float] | None = None,
    may_merge: bool = False,
) -> Rows:
    """Rows for these parts, with every choice of the layout; if they may be merged, not too many.

    A spread over nodes binds the packers as if there were always an empty node. For a bound that is too strict: there,
    only what is `proven` of spreads counts."""
    tallies = _SharedTallies(layout, parts, proven)
    grouped = _grouped(layout, parts, tallies, with_mild=True)
    kept = tallies.shared
    if len(grouped) > _MANY_ROWS:
        plain = _grouped(layout, parts, tallies, with_mild=False)
        if len(plain) < len(grouped):
            grouped, kept = plain, tallies.strict
    groups = _merged(layout, grouped, tallies) if may_merge and len(grouped) > _MOST_ROWS else list(grouped.values())
    ordered = sorted(groups, key=lambda group: group[0].index)
    first = np.array([group[0].index for group in ordered], dtype=np.int64)
    is_coarse = len(groups) < len(grouped)
    need, offer = layout.need[first].astype(np.float64), layout.offer.astype(np.float64)
    if is_coarse:
        need = np.array([_mean_need(layout, group) for group in ordered])
    allowed = np.array([group[0].choices for group in ordered], dtype=np.bool_).reshape(len(ordered), len(layout.price))
    fits = allowed.T & (need[None] <= offer[:, None]).all(axis=2)
    adds, bound, start_tally, start_bound = tallies.tables(first, kept)
    stock = Stock(
        need=need,
        count=np.array([_pods_of(group) for group in ordered], dtype=np.float64),
        cap=np.array([sum(tallies.cap[index] for index in {part.index for part in group}) for group in ordered]),
        offer=offer,
        price=layout.price,
        fits=fits,
        limit_use=layout.limit_use,
        limit_bound=np.maximum(limit_left, 0.0),
        adds=adds,
        bound=bound,
        start_tally=start_tally,
        start_bound=start_bound,
    )
    return Rows(stock, tuple(tuple(group) for group in ordered), kept is tallies.shared, is_coarse)


def _grouped(
    layout: Layout, parts: Sequence[Part], tallies: _SharedTallies, with_mild: bool
) -> dict[tuple[object, ...], list[Part]]:
    groups: dict[tuple[object, ...], list[Part]] = {}
    masks: dict[bytes, int] = {}
    for part in sorted(parts, key=lambda part: (part.index, part.choices.tobytes())):
        mask = masks.setdefault(np.packbits(part.choices).tobytes(), len(masks))
        own = part.index if tallies.cap[part.index] < BOUNDLESS else -1
        signature = tallies.signature(part.index, with_mild)
        key = (layout.need[part.index].tobytes(), mask, own, signature, bool(layout.is_virtual[part.index]))
        groups.setdefault(key, []).append(part)
    return groups


def _merged(
    layout: Layout, grouped: Mapping[tuple[object, ...], list[Part]], tallies: _SharedTallies
) -> list[list[Part]]:
    """Fewer groups: those that differ in size alone are put together, and what is widest then is halved again.

    Classes that need the most nodes for themselves stay as they are: among others, that would be lost."""
    alike: dict[tuple[object, ...], list[list[Part]]] = {}
    nodes = {number: _pods_of(group) / tallies.cap[group[0].index] for number, group in enumerate(grouped.values())}
    alone = {number for number in heapq.nlargest(_COARSE_ROWS // 4, nodes, key=nodes.__getitem__) if nodes[number] > 1}
    for number, ((_, mask, _, *rest), group) in enumerate(grouped.items()):
        if number in alone:
            alike[number,] = [group]
            continue
        index = group[0].index
        usable = np.packbits((layout.need[index] <= layout.offer).all(axis=1)).tobytes()
        asked = (layout.need[index] > 0).tobytes()
        alike.setdefault((mask, usable, asked, float(tallies.cap[index]), *rest), []).append(group)
    scale = np.maximum(layout.offer.max(axis=0), 1).astype(np.float64)
    widest = [_Coarse.of(number, groups, layout, scale) for number, groups in enumerate(alike.values())]
    heapq.heapify(widest)
    made = len(widest)
    while len(widest) < _COARSE_ROWS + len(alone) and widest[0].width < 0:
        for half in heapq.heappop(widest).halves():
            heapq.heappush(widest, _Coarse.of(made, half, layout, scale))
            made += 1
    return [[part for group in coarse.groups for part in group] for coarse in widest]


@dataclass(frozen=True, slots=True, order=True)
class _Coarse:
    """Groups of parts that become one coarse row."""

    width: float  # below zero, and the further the more its pods differ, all together
    number: int
    groups: list[list[Part]] = field(compare=False)
    sizes: IntArray = field(compare=False)  # of the groups, in the resource in which they differ most

    @staticmethod
    def of(number: int, groups: list[list[Part]], layout: Layout, scale: FloatArray) -> _Coarse:
        needs = layout.need[[group[0].index for group in groups]]
        differs = (needs.max(axis=0) - needs.min(axis=0)) / scale
        resource = int(differs.argmax())
        pods = sum(_pods_of(group) for group in groups)
        return _Coarse(-float(differs[resource]) * pods, number, groups, needs[:, resource])

    def halves(self) -> tuple[list[list[Part]], list[list[Part]]]:
        """The small and the large, split where the ratio on both sides is the same."""
        order = np.argsort(self.sizes, kind="stable")
        least, most = float(self.sizes[order[0]]), float(self.sizes[order[-1]])
        below = int(np.searchsorted(self.sizes[order], (least * most) ** 0.5 if least else most / 2))
        cut = min(max(1, below), len(order) - 1)
        return [self.groups[number] for number in order[:cut]], [self.groups[number] for number in order[cut:]]


def _pods_of(group: Sequence[Part]) -> int:
    return sum(part.count for part in group)


def _mean_need(layout: Layout, group: Sequence[Part]) -> FloatArray:
    """The mean size of a group's pods, in whole amounts."""
    counts = np.array([part.count for part in group], dtype=np.float64)
    return np.asarray(np.ceil(counts @ layout.need[[part.index for part in group]] / counts.sum()))


class _SharedTallies:
    """Tallies with the node as their domain, as far as they matter among these parts and the daemons of the choices."""

    def __init__(self, layout: Layout, parts: Sequence[Part], proven: Mapping[int, float] | None) -> None:
        present = sorted({part.index for part in parts})
        self._members: dict[int, set[int]] = {}
        self._limits: dict[int, dict[int, float]] = {}
        for index in present:
            limits = node_limits(layout, index, proven)
            for tally, limit in limits:
                own = self._limits.setdefault(tally, {})
                own[index] = min(limit, own.get(index, BOUNDLESS))
            spread_by = {tally for tally, _ in limits}
            for tally in layout.rules[index].adds:
                is_meant = not proven or tally not in proven or tally in spread_by  # not all who count are spread
                if layout.tally_key[tally] < 0 and is_meant:
                    self._members.setdefault(tally, set()).add(index)
        self._daemons = [NodeTally(layout, choice) for choice in range(len(layout.price))]
        self._of_daemons = {tally for node in self._daemons for tally in (*node.counts, *node.limits)}
        self.cap = np.full(len(layout.count), BOUNDLESS)
        self._anti = {bound.tally for index in present for bound in layout.rules[index].anti}
        relevant = {*self._limits, *(self._of_daemons & set(self._members))}
        on_node = [tally for tally in sorted(relevant) if layout.tally_key[tally] < 0]
        self.shared = [tally for tally in on_node if not self._is_private(tally)]
        self.strict = [tally for tally in self.shared if tally in self._anti or tally in self._of_daemons]

    def _is_private(self, tally: int) -> bool:
        """Concerns one class alone: then it is a cap, or nothing at all."""
        members, limits = self._members.get(tally, set()), self._limits.get(tally, {})
        if tally in self._of_daemons:
            return False
        if not members:
            return True
        if len(members) == 1 and set(limits) <= members:
            for index, limit in limits.items():
                self.cap[index] = min(self.cap[index], limit)
            return True
        return False

    def signature(self, index: int, with_mild: bool) -> tuple[tuple[int, bool, float], ...]:
        kept = self.shared if with_mild else self.strict
        return tuple(
            (tally, index in self._members.get(tally, ()), self._limits.get(tally, {}).get(index, BOUNDLESS))
            for tally in kept
            if index in self._members.get(tally, ()) or index in self._limits.get(tally, {})
        )

    def tables(self, first: IntArray, kept: Sequence[int]) -> tuple[BoolArray, FloatArray, FloatArray, FloatArray]:
        """For the rows of these classes: adds, bounds, and what daemons have counted and bound already."""
        shape = len(first), len(kept)
        adds = [[index in self._members.get(tally, ()) for tally in kept] for index in first]
        bound = [[self._limits.get(tally, {}).get(int(index), BOUNDLESS) for tally in kept] for index in first]
        start_tally = np.zeros((len(self._daemons), len(kept)))
        start_bound = np.full((len(self._daemons), len(kept)), BOUNDLESS)
        for choice, node in enumerate(self._daemons):
            if node.counts or node.limits:
                start_tally[choice] = [node.counts.get(tally, 0) for tally in kept]
                start_bound[choice] = [node.limits.get(tally, BOUNDLESS) for tally in kept]
        return np.array(adds, dtype=np.bool_).reshape(shape), np.array(bound).reshape(shape), start_tally, start_bound


def room_left(layout: Layout, rows: Rows, placed: IntArray) -> RoomLeft:
    """What rooms have left for these pods; limits of attached volumes are not looked at."""
    left = np.maximum(layout.room_left, 0).astype(np.float64)
    most = np.zeros(len(layout.count))
    for index in np.flatnonzero(placed * layout.room_fits.any(axis=1)).tolist():
        fits = how_often(layout, index, layout.room_left, layout.room_fits[index])
        most[index] = min(float(placed[index]), float(fits.sum()))
    free = left[layout.room_fits.any(axis=0)].sum(axis=0)
    free[[number for number, name in enumerate(layout.resources) if name in layout.drivers]] = BOUNDLESS
    return RoomLeft(free, np.array([sum(most[part.index] for part in group) for group in rows.parts]))


def candidate_values(
    layout: Layout, rows: Rows, relaxed: RelaxedRows, is_same: bool, otherwise: FloatArray
) -> list[Values]:
    """What the program found to be the values of pods, in these rows."""
    program = relaxed.relaxation
    if is_same:
        return [one for one in (program.values, program.hopeful) if one is not None]
    return [Values(_values_for(layout, rows, relaxed, otherwise), program.values.of_limits, None)]


def true_values(layout: Layout, merged: Rows, selected: Selected, values: FloatArray) -> FloatArray:
    """For each class what a pod of it is worth, where its row is worth so much: in proportion to what its true size
    costs, at the prices of resources where that is cheapest. The fluid program itself would say the same.
    """
    prices = selected.fluid.resource_prices
    of_class = np.zeros(len(layout.count))
    for row, group in enumerate(merged.parts):
        indices = [part.index for part in group]
        fitting = prices[merged.stock.fits[selected.choices, row]]
        if len(fitting):
            cost = (fitting @ layout.need[indices].T).min(axis=0)
            of_class[indices] = values[row] * cost / max(float((fitting @ merged.stock.need[row]).min()), 1e-300)
    return of_class


def _values_for(layout: Layout, rows: Rows, packed: RelaxedRows, otherwise: FloatArray) -> FloatArray:
    """Each row's value as the mean over its pods in the packed rows; pods that were packed nowhere count by the fluid
    program's value.
    """
    worth, count = np.zeros(len(layout.count)), np.zeros(len(layout.count))
    program = packed.relaxation
    values = program.values.of_rows
    of_class = true_values(layout, packed.rows, program.selected, values) if packed.rows.is_coarse else None
    for row, group in enumerate(packed.rows.parts):
        for part in group:
            worth[part.index] += (values[row] if of_class is None else of_class[part.index]) * part.count
            count[part.index] += part.count
    found = otherwise.copy()
    for row, group in enumerate(rows.parts):
        packed_pods = sum(count[part.index] for part in group)
        if packed_pods:
            found[row] = sum(worth[part.index] for part in group) / packed_pods
    return found


def recall(layout: Layout, rows: Rows) -> Patterns:
    """The problem's patterns in the numbers of these rows."""
    row_of = rows.row_of_class(len(layout.count))
    row_of_shape: dict[PodShape, int] = {}
    for index, members in enumerate(layout.members):
        for demand in members:
            if row_of[index] >= 0:
                row_of_shape.setdefault(layout.problem.demands[demand].shape, int(row_of[index]))
    numbers = {_offering_name(layout, number): number for number in reversed(range(len(layout.price)))}
    patterns, choices = [], []
    for known in layout.problem.patterns:
        choice = numbers.get((known.pool, known.offering, known.location))
        pattern = np.zeros(len(rows.stock.count))
        for shape, count in known.contents:
            row = row_of_shape.get(shape)
            if row is not None and choice is not None and rows.stock.fits[choice, row]:
                pattern[row] += count
        if choice is not None and pattern.any() and (pattern @ rows.stock.need <= rows.stock.offer[choice]).all():
            patterns.append(np.minimum(pattern, rows.stock.count))
            choices.append(choice)
    return Patterns(np.array(patterns).reshape(len(patterns), len(rows.stock.count)), np.array(choices, dtype=np.int64))


def remember(layout: Layout, found: Iterable[RelaxedRows]) -> tuple[Pattern, ...]:
    """Patterns that the programs used, or nearly used."""
    kept: dict[Pattern, None] = {}
    for relaxed in found:
        used = relaxed.relaxation.used
        shapes = [layout.shapes[group[0].index] for group in relaxed.rows.parts]
        for pattern, choice in zip(used.contents, used.choices, strict=True):
            contents = tuple((shapes[row], int(pattern[row])) for row in np.flatnonzero(pattern))
            kept[Pattern(*_offering_name(layout, int(choice)), contents)] = None
    return tuple(kept)[:_MOST_KEPT]


def _offering_name(layout: Layout, choice: int) -> tuple[str, str, str]:
    found = layout.problem.choices[int(layout.choice_index[choice])]
    return found.pool, found.offering.name, found.offering.location
