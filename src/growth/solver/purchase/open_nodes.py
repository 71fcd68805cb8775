"""Which pods of which class go onto which node? When rows have been packed, rows become classes again, and nodes open.

Rules within a node that rows had left out are kept here: each node takes from a row the classes that agree with what it
holds already. From a coarse row, whose pods differ in size, each node takes pods that make up for what the ones before
were larger or smaller than planned, and at last whatever else fits into what is left. Pods that find no such node are
handed back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.dive import Packing
from growth.solver.patterns.stock import Stock
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.rows import Part, Rows
from growth.solver.purchase.tallies import NodeTally, kinds_on_node, node_limits

_MOST_SWAPS_TRIED = 400
_DIFFERS_LITTLE = 1.5  # times


def by_worth(bins: Bins, parts: Sequence[Part], unit: FloatArray) -> list[Part]:
    """In which order rooms are filled: important pods first, then those that can buy nothing, then those whose own
    nodes are dear for the room they would take. What differs little counts as equal: then the large come first.
    """
    layout = bins.layout
    free = np.maximum(bins.left[: bins.rooms], 0).sum(axis=0).astype(np.float64)
    if not free.any():
        return list(parts)
    buyable = bins.openable() > 0

    def rank(part: Part) -> tuple[bool, int, bool, int, int]:
        need, shape = layout.need[part.index], layout.shapes[part.index]
        can_buy = bool((part.choices & buyable & (need <= layout.offer).all(axis=1)).any())
        share = float((need / np.maximum(free, 1.0)).max())
        worth = round(np.log(unit[part.index] / max(share, 1e-12)) / np.log(_DIFFERS_LITTLE))
        return bool(layout.is_virtual[part.index]), -shape.priority, can_buy, -worth, part.index

    return sorted(parts, key=rank)


def fill_bins(bins: Bins, parts: Sequence[Part]) -> list[Part]:
    """Fill rooms and nodes that are planned already; returns what is left of the parts."""
    if not bins.size:
        return list(parts)
    return [left for part in parts if (left := _fill_bins(bins, part)).count]


def _fill_bins(bins: Bins, part: Part) -> Part:
    index, missing = part.index, part.count
    views = bins.layout.spreads[index] + bins.layout.implied[index]
    over_nodes = any(bins.layout.tally_key[view.rule.tally] < 0 for view in views)
    while missing:
        space = bins.space(index, has_zone=part.has_zone)
        space[: bins.rooms][~part.rooms] = 0
        space[bins.rooms :][~part.choices[bins.choice[bins.rooms : bins.size]]] = 0
        takers = np.flatnonzero(space)
        if not len(takers):
            break
        order = bins.in_filling_order(index, takers)
        for number in order[:1] if over_nodes else order:
            taken = 1 if over_nodes else min(int(space[number]), missing)
            bins.put(index, int(number), taken)
            missing -= taken
            if not missing:
                break
        if not over_nodes:
            break
    return replace(part, count=missing)


def open_nodes(bins: Bins, rows: Rows, packing: Packing) -> list[Part]:
    """Open the packed nodes and put pods onto them; returns the parts that are left."""
    if rows.is_coarse:
        return _open_coarse(bins, rows, packing)
    kinds = kinds_on_node(bins.layout)
    pods = [_RowPods(bins.layout, parts, rows.is_exact, kinds) for parts in rows.parts]
    nodes: list[_Node] = []
    for pattern, choice, times in zip(packing.patterns, packing.choices, packing.times, strict=True):
        content = [(int(row), int(pattern[row])) for row in np.flatnonzero(pattern)]
        if all(pods[row].is_plain for row, _ in content):
            _open_alike(bins, pods, choice, content, times)
        else:
            nodes.extend(_fill(_Node(choice, bins.layout, kinds), pods, content) for _ in range(times))
    _swap_into_holes(nodes, pods, rows.stock)
    for node in nodes:
        if node.held:
            number = bins.open(node.choice)
            for index, count in sorted(node.by_class().items()):
                bins.put(index, number, count)
    return [part for of_row in pods for part in of_row.left()]


def _open_alike(bins: Bins, pods: Sequence[_RowPods], choice: int, content: list[tuple[int, int]], times: int) -> None:
    """Nodes whose pods agree with each other anyway: as many at a time as are equal."""
    while times:
        alike = max(1, min([times, *(pods[row].how_often(count) for row, count in content)]))
        dealt: dict[int, int] = {}
        for row, count in content:
            for index, amount in pods[row].deal(count * alike, None):
                dealt[index] = dealt.get(index, 0) + amount // alike
        if not dealt:
            return
        bins.open_alike(choice, dealt, alike)
        times -= alike


def _open_coarse(bins: Bins, rows: Rows, packing: Packing) -> list[Part]:
    """Nodes of coarse rows, one by one: no two hold pods of the same sizes."""
    pods = _MixedPods(bins.layout, rows)
    for pattern, choice, times in zip(packing.patterns, packing.choices, packing.times, strict=True):
        for _ in range(times):
            held = pods.deal(int(choice), pattern)
            if held:
                number = bins.open(choice)
                for index, count in held.items():
                    bins.put(index, number, count)
    return pods.left()


class _MixedPods:
    """The pods of coarse rows that are still to be dealt."""

    def __init__(self, layout: Layout, rows: Rows) -> None:
        self._layout, self._mean = layout, rows.stock.need
        self._parts = [part for parts in rows.parts for part in parts]
        self._count = np.array([part.count for part in self._parts])
        self._need = layout.need[[part.index for part in self._parts]].astype(np.float64)
        self._choices = np.array([part.choices for part in self._parts])
        ends = np.cumsum([len(parts) for parts in rows.parts])
        self._of_row = [np.arange(end - len(parts), end) for end, parts in zip(ends, rows.parts, strict=True)]
        self._least = self._need.min(axis=0)
        self._has_rules = any(_has_node_rules(layout, part.index) for part in self._parts)

    def deal(self, choice: int, pattern: FloatArray) -> dict[int, int]:
        """What one node of the choice holds: so many pods of each row, as far as their true sizes fit, then the largest
        of any row that still do.
        """
        left = self._layout.offer[choice].astype(np.float64)
        scale, beyond = np.maximum(left, 1.0), np.zeros_like(left)
        tally = NodeTally(self._layout, choice) if self._has_rules else None
        held: dict[int, int] = {}
        for row in sorted(np.flatnonzero(pattern), key=lambda row: -float((self._mean[row] / scale).max())):
            for _ in range(int(pattern[row])):
                off = (np.abs(self._need[self._of_row[row]] + beyond - self._mean[row]) / scale).sum(axis=1)
                number = self._first(self._of_row[row], off, left, tally)
                if number is None:
                    break
                self._take(number, held, left, tally)
                beyond += self._need[number] - self._mean[row]
        while held and (number := self._largest(choice, left, scale, tally)) is not None:
            self._take(number, held, left, tally)
        return held

    def _largest(self, choice: int, left: FloatArray, scale: FloatArray, tally: NodeTally | None) -> int | None:
        if (left < self._least).any():
            return None
        numbers = np.flatnonzero(self._choices[:, choice] & (self._count > 0))
        return self._first(numbers, -(self._need[numbers] / scale).max(axis=1), left, tally)

    def _first(self, numbers: IntArray, rank: FloatArray, left: FloatArray, tally: NodeTally | None) -> int | None:
        """The pod of the lowest rank that fits beside the others."""
        usable = (self._count[numbers] > 0) & (self._need[numbers] <= left).all(axis=1)
        for number in numbers[usable][np.argsort(rank[usable], kind="stable")]:
            if tally is None or tally.space(self._parts[number].index) >= 1:
                return int(number)
        return None

    def _take(self, number: int, held: dict[int, int], left: FloatArray, tally: NodeTally | None) -> None:
        index = self._parts[number].index
        self._count[number] -= 1
        left -= self._need[number]
        held[index] = held.get(index, 0) + 1
        if tally is not None:
            tally.add(index, 1)

    def left(self) -> list[Part]:
        return [replace(part, count=int(count)) for part, count in zip(self._parts, self._count, strict=True) if count]


class _Node:
    """A node to be opened: how many of which class of which row, and what its rows still miss."""

    __slots__ = ("_kinds", "_known", "choice", "held", "holes", "tally")

    def __init__(self, choice: int, layout: Layout, kinds: Sequence[int]) -> None:
        self.choice = choice
        self.tally = NodeTally(layout, choice)
        self.held: dict[tuple[int, int], int] = {}
        self.holes: dict[int, int] = {}
        self._kinds = kinds
        self._known: dict[tuple[int, int], bool] = {}

    def hold(self, row: int, index: int, count: int) -> None:
        """What the tally counts already."""
        self.held[row, index] = self.held.get((row, index), 0) + count
        self._known.clear()

    def put(self, row: int, index: int, count: int) -> None:
        self.hold(row, index, count)
        self.tally.add(index, count)

    def take_out(self, row: int, index: int) -> None:
        self.held[row, index] -= 1
        if not self.held[row, index]:
            del self.held[row, index]
        self.tally.add(index, -1)
        self._known.clear()

    def takes(self, coming: int, leaving: int) -> bool:
        """Would the rules allow a pod of one class if one of another left? A node may hold hundreds of classes of few
        kinds.
        """
        key = self._kinds[coming], self._kinds[leaving]
        if key not in self._known:
            self.tally.add(leaving, -1)
            self._known[key] = self.tally.space(coming) >= 1
            self.tally.add(leaving, 1)
        return self._known[key]

    def spare(self, stock: Stock) -> FloatArray:
        """What no pod takes, and none that is missed would."""
        taken = np.zeros(len(stock.count))
        for (row, _), count in self.held.items():
            taken[row] += count
        for row, count in self.holes.items():
            taken[row] += count
        return np.asarray(stock.offer[self.choice] - taken @ stock.need)

    def by_class(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for (_, index), count in self.held.items():
            counts[index] = counts.get(index, 0) + count
        return counts


def _fill(node: _Node, pods: Sequence[_RowPods], content: list[tuple[int, int]]) -> _Node:
    for row, count in content:
        missing = count
        for index, amount in pods[row].deal(count, node.tally):
            node.hold(row, index, amount)
            missing -= amount
        if missing:
            node.holes[row] = missing
    return node


def _swap_into_holes(nodes: Sequence[_Node], pods: Sequence[_RowPods], stock: Stock) -> None:
    """Place pods that agree with no node which misses one of their row: such a pod, or the one in its way there,
    changes places with an equal pod on another node, or at last with one of another size.
    """
    holding: dict[int, list[_Node]] = {}
    wanting = [node for node in nodes if any(pods[row].has_left() for row in node.holes)]
    if not wanting:
        return
    for node in nodes:
        for row in {row for row, _ in node.held}:
            holding.setdefault(row, []).append(node)
    for node in wanting:
        for row in list(node.holes):
            while node.holes[row] and pods[row].has_left():
                is_swapped = _swap(node, row, pods[row], holding.get(row, []))
                is_swapped = is_swapped or _make_way(node, row, pods[row], holding)
                if not (is_swapped or _swap_sizes(node, row, pods[row], nodes, stock)):
                    break
                node.holes[row] -= 1


def _swap(node: _Node, row: int, pods: _RowPods, others: Sequence[_Node]) -> bool:
    """Put a waiting pod onto another node, and one of its row from there here."""
    for waiting in pods.classes_left():
        if node.tally.space(waiting) >= 1:
            node.put(row, waiting, 1)
            pods.take(waiting)
            return True
        found = _exchange(node, row, waiting, others)
        if found is not None:
            other, moving = found
            other.take_out(row, moving)
            other.put(row, waiting, 1)
            node.put(row, moving, 1)
            pods.take(waiting)
            return True
    return False


def _make_way(node: _Node, row: int, pods: _RowPods, holding: Mapping[int, Sequence[_Node]]) -> bool:
    """Send a pod that is in the way of a waiting one to another node, and take one of its row from there."""
    for waiting in pods.classes_left():
        for held_row, leaving in list(node.held):
            if not node.takes(waiting, leaving):
                continue
            node.take_out(held_row, leaving)
            node.put(row, waiting, 1)
            found = _exchange(node, held_row, leaving, holding.get(held_row, ()))
            if found is not None:
                other, moving = found
                other.take_out(held_row, moving)
                other.put(held_row, leaving, 1)
                node.put(held_row, moving, 1)
                pods.take(waiting)
                return True
            node.take_out(row, waiting)
            node.put(held_row, leaving, 1)
    return False


def _swap_sizes(node: _Node, row: int, pods: _RowPods, nodes: Sequence[_Node], stock: Stock) -> bool:
    """Put a waiting pod onto another node, and from there one of any row that fits here."""
    hole = node.spare(stock) + stock.need[row]
    fitting = stock.fits[node.choice] & (stock.need <= hole).all(axis=1)
    for waiting in pods.classes_left():
        for other in [other for other in nodes if other is not node and stock.fits[other.choice, row]][
            :_MOST_SWAPS_TRIED
        ]:
            large = (other.spare(stock) + stock.need >= stock.need[row]).all(axis=1)
            for moving_row, moving in [held for held in other.held if fitting[held[0]] and large[held[0]]]:
                if node.tally.space(moving) >= 1 and other.takes(waiting, moving):
                    other.take_out(moving_row, moving)
                    other.put(row, waiting, 1)
                    node.put(moving_row, moving, 1)
                    pods.take(waiting)
                    return True
    return False


def _exchange(node: _Node, row: int, coming: int, others: Sequence[_Node]) -> tuple[_Node, int] | None:
    """Another node that would take the pod in exchange for one of the row that may be on this one."""
    for other in others[:_MOST_SWAPS_TRIED]:
        if other is not node:
            for moving in [index for held_row, index in other.held if held_row == row and index != coming]:
                if node.tally.space(moving) >= 1 and other.takes(coming, moving):
                    return other, moving
    return None


class _RowPods:
    """The pods of a row that are still to be dealt."""

    def __init__(self, layout: Layout, parts: Sequence[Part], is_exact: bool, kinds: Sequence[int]) -> None:
        self._parts = list(parts)
        self._left = [part.count for part in parts]
        self._kinds = kinds
        self.is_plain = is_exact or not any(_has_node_rules(layout, part.index) for part in parts)
        most_limited = [(-len(node_limits(layout, part.index)), -part.count) for part in parts]
        self._order = sorted(range(len(parts)), key=most_limited.__getitem__)

    def how_often(self, count: int) -> int:
        """How many nodes in a row get so many pods of the class that comes next."""
        return self._left[self._order[0]] // count if self._order else 0

    def deal(self, count: int, tally: NodeTally | None) -> list[tuple[int, int]]:
        dealt = []
        for number in self._order:
            if not count:
                break
            index = self._parts[number].index
            amount = min(count, self._left[number])
            if amount and tally is not None:
                amount = min(amount, tally.space(index))
            if amount:
                self._left[number] -= amount
                count -= amount
                dealt.append((index, amount))
                if tally is not None:
                    tally.add(index, amount)
        self._order = [number for number in self._order if self._left[number]]
        return dealt

    def has_left(self) -> bool:
        return bool(self._order)

    def classes_left(self) -> list[int]:
        """One of each kind: where it finds no place, no other of its kind does."""
        found: dict[int, int] = {}
        for number in self._order:
            index = self._parts[number].index
            found.setdefault(self._kinds[index], index)
        return list(found.values())

    def take(self, index: int) -> None:
        """One pod of the class, put somewhere by others."""
        number = next(number for number in self._order if self._parts[number].index == index)
        self._left[number] -= 1
        self._order = [number for number in self._order if self._left[number]]

    def left(self) -> list[Part]:
        return [replace(part, count=count) for part, count in zip(self._parts, self._left, strict=True) if count]


def _has_node_rules(layout: Layout, index: int) -> bool:
    return bool(node_limits(layout, index)) or any(layout.tally_key[one] < 0 for one in layout.rules[index].adds)
