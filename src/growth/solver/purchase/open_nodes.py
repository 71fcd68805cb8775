"""Which pods of which class go onto which node? Asked by `solver/purchase/solve` when rows have been packed: rows
become classes again, and nodes open.

Rules within a node that rows had left out are kept here: each node takes from a row the classes that agree with what it
holds already. Pods that find no such node are handed back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from growth.solver.arrays import BOUNDLESS, IntArray
from growth.solver.patterns.dive import Packing
from growth.solver.purchase.bins import Bins, is_alone
from growth.solver.purchase.greedy import kind_rank, slack
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.rows import Rows
from growth.solver.purchase.rulebook import ShapeRules
from growth.solver.purchase.zones import Part

_MOST_SWAPS_TRIED = 400


def into_bins(bins: Bins, parts: Sequence[Part]) -> list[Part]:
    """Fill what stands there already, the dearest pods first; returns what is left of the parts."""
    if not bins.size:
        return list(parts)
    return [left for part in parts if (left := _into_bins(bins, part)).count]


def _into_bins(bins: Bins, part: Part) -> Part:
    index, missing = part.index, part.count
    over_nodes = any(
        bins.layout.tally_key[view.rule.tally] < 0 for view in bins.layout.spreads[index] + bins.layout.implied[index]
    )
    while missing:
        space = bins.space(index, ignores_areas=part.is_settled)
        space[: bins.rooms][~part.rooms] = 0
        space[bins.rooms :][~part.choices[bins.choice[bins.rooms : bins.size]]] = 0
        takers = np.flatnonzero(space)
        if not len(takers):
            break
        order = takers[np.lexsort((takers, slack(bins, index, takers), kind_rank(bins, takers)))]
        for number in order[:1] if over_nodes else order:
            taken = min(int(space[number]), missing) if not over_nodes else 1
            bins.put(index, int(number), taken)
            missing -= taken
            if not missing:
                break
        if not over_nodes:
            break
    return Part(index, missing, part.choices, part.rooms, part.is_settled)


def open_nodes(bins: Bins, rows: Rows, packing: Packing) -> list[Part]:
    """Open the packed nodes and put pods onto them; returns the parts that are left."""
    hands = [_Hand(bins.layout, parts, rows.is_exact) for parts in rows.parts]
    nodes: list[_Node] = []
    for pattern, choice, times in zip(packing.patterns, packing.choices, packing.times, strict=True):
        content = [(int(row), int(pattern[row])) for row in np.flatnonzero(pattern)]
        if all(hands[row].is_plain for row, _ in content):
            _open_alike(bins, hands, choice, content, times)
        else:
            nodes.extend(_fill(bins.layout, hands, choice, content) for _ in range(times))
    _swap_into_holes(nodes, hands)
    for node in nodes:
        if node.held:
            number = bins.open(node.choice)
            for index, count in sorted(node.by_class().items()):
                bins.put(index, number, count)
    return [part for hand in hands for part in hand.left()]


def _open_alike(bins: Bins, hands: Sequence[_Hand], choice: int, content: list[tuple[int, int]], times: int) -> None:
    """Nodes whose pods agree with each other anyway: as many at a time as are equal."""
    while times:
        alike = min([times, *(hands[row].how_often(count) for row, count in content)])
        dealt: dict[int, int] = {}
        for row, count in content:
            for index, amount in hands[row].deal(count * max(1, alike), None):
                dealt[index] = dealt.get(index, 0) + amount // max(1, alike)
        if not dealt:
            return
        bins.open_alike(choice, dealt, max(1, alike))
        times -= max(1, alike)


class _Node:
    """A node to be opened: how many of which class of which row, and what its rows still miss."""

    __slots__ = ("choice", "held", "holes", "state")

    def __init__(self, choice: int, state: _NodeState) -> None:
        self.choice = choice
        self.state = state
        self.held: dict[tuple[int, int], int] = {}
        self.holes: dict[int, int] = {}

    def hold(self, row: int, index: int, count: int) -> None:
        """What the state knows of already."""
        self.held[row, index] = self.held.get((row, index), 0) + count

    def put(self, row: int, index: int, count: int) -> None:
        self.hold(row, index, count)
        self.state.add(index, count)

    def take_out(self, row: int, index: int) -> None:
        self.held[row, index] -= 1
        if not self.held[row, index]:
            del self.held[row, index]
        self.state = self.state.anew(self.by_class())

    def by_class(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for (_, index), count in self.held.items():
            counts[index] = counts.get(index, 0) + count
        return counts


def _fill(layout: Layout, hands: Sequence[_Hand], choice: int, content: list[tuple[int, int]]) -> _Node:
    node = _Node(choice, _NodeState(layout, choice))
    for row, count in content:
        missing = count
        for index, amount in hands[row].deal(count, node.state):
            node.hold(row, index, amount)
            missing -= amount
        if missing:
            node.holes[row] = missing
    return node


def _swap_into_holes(nodes: Sequence[_Node], hands: Sequence[_Hand]) -> None:
    """A pod that agrees with no node that misses one: it, or who stands in its way there, changes places with an equal
    elsewhere.
    """
    holding: dict[int, list[_Node]] = {}
    wanting = [node for node in nodes if any(hands[row].has_left() for row in node.holes)]
    if not wanting:
        return
    for node in nodes:
        for row in {row for row, _ in node.held}:
            holding.setdefault(row, []).append(node)
    for node in wanting:
        for row in list(node.holes):
            while node.holes[row] and hands[row].has_left():
                if not (
                    _swap(node, row, hands[row], holding.get(row, [])) or _make_way(node, row, hands[row], holding)
                ):
                    break
                node.holes[row] -= 1


def _swap(node: _Node, row: int, hand: _Hand, others: Sequence[_Node]) -> bool:
    """Put a waiting pod onto another node, and one of its row from there here."""
    for waiting in hand.classes_left():
        if node.state.space(waiting) >= 1:
            node.put(row, waiting, 1)
            hand.take(waiting)
            return True
        found = _exchange(node.state, row, waiting, node, others)
        if found is not None:
            other, moving = found
            other.take_out(row, moving)
            other.put(row, waiting, 1)
            node.put(row, moving, 1)
            hand.take(waiting)
            return True
    return False


def _make_way(node: _Node, row: int, hand: _Hand, holding: Mapping[int, Sequence[_Node]]) -> bool:
    """Send a pod that stands in the way of a waiting one to another node, and take one of its row from there."""
    for waiting in hand.classes_left():
        for held_row, leaving in list(node.held):
            without = node.state.anew(node.by_class(), without=leaving)
            if without.space(waiting) < 1:
                continue
            without.add(waiting, 1)
            found = _exchange(without, held_row, leaving, node, holding.get(held_row, ()))
            if found is not None:
                other, moving = found
                node.take_out(held_row, leaving)
                other.take_out(held_row, moving)
                other.put(held_row, leaving, 1)
                node.put(row, waiting, 1)
                node.put(held_row, moving, 1)
                hand.take(waiting)
                return True
    return False


def _exchange(
    state: _NodeState, row: int, coming: int, node: _Node, others: Sequence[_Node]
) -> tuple[_Node, int] | None:
    """Another node that would take the pod in exchange for one of the row that agrees with this state."""
    for other in others[:_MOST_SWAPS_TRIED]:
        if other is not node:
            for moving in [index for held_row, index in other.held if held_row == row and index != coming]:
                if state.space(moving) >= 1 and other.state.anew(other.by_class(), without=moving).space(coming) >= 1:
                    return other, moving
    return None


class _Hand:
    """The pods of a row that are still to be dealt."""

    def __init__(self, layout: Layout, parts: Sequence[Part], is_exact: bool) -> None:
        self._layout = layout
        self._parts = list(parts)
        self._left = [part.count for part in parts]
        self.is_plain = is_exact or all(_no_node_rules(layout, part.index) for part in parts)
        self._order = sorted(
            range(len(parts)),
            key=lambda number: (-len(_limits(layout, parts[number].index)), -parts[number].count, number),
        )

    def how_often(self, count: int) -> int:
        """How many nodes in a row get so many pods of the class that comes next."""
        return self._left[self._order[0]] // count if self._order else 0

    def deal(self, count: int, state: _NodeState | None) -> list[tuple[int, int]]:
        dealt = []
        for number in self._order:
            if not count:
                break
            index = self._parts[number].index
            amount = min(count, self._left[number])
            if amount and state is not None:
                amount = min(amount, state.space(index))
            if amount:
                self._left[number] -= amount
                count -= amount
                dealt.append((index, amount))
                if state is not None:
                    state.add(index, amount)
        self._order = [number for number in self._order if self._left[number]]
        return dealt

    def has_left(self) -> bool:
        return bool(self._order)

    def classes_left(self) -> list[int]:
        return list(dict.fromkeys(self._parts[number].index for number in self._order))

    def take(self, index: int) -> None:
        """One pod of the class, put somewhere by others."""
        number = next(number for number in self._order if self._parts[number].index == index)
        self._left[number] -= 1
        self._order = [number for number in self._order if self._left[number]]

    def left(self) -> list[Part]:
        remaining = zip(self._parts, self._left, strict=True)
        return [
            Part(part.index, count, part.choices, part.rooms, part.is_settled) for part, count in remaining if count
        ]


class _NodeState:
    """Tallies of one node as it is filled. A spread bounds its tally as on a node beside an empty one: that holds
    whatever comes.
    """

    def __init__(self, layout: Layout, choice: int) -> None:
        self._layout, self._choice = layout, choice
        self._tally: dict[int, int] = {}
        self._bound: dict[int, float] = {}
        for rules in layout.daemons[choice]:
            self._count(rules, 1, [(bound.tally, float(bound.limit)) for bound in rules.anti])

    def space(self, index: int) -> int:
        rules, space = self._layout.rules[index], BOUNDLESS
        own = _limits(self._layout, index)
        for tally, limit in own:
            if tally not in rules.adds and self._tally.get(tally, 0) > limit:
                return 0
        limits = dict(own)
        for tally in rules.adds:
            bound = min(self._bound.get(tally, BOUNDLESS), limits.get(tally, BOUNDLESS))
            space = min(space, bound - self._tally.get(tally, 0))
        return int(max(space, 0))

    def anew(self, content: Mapping[int, int], without: int | None = None) -> _NodeState:
        """The state of a node with this content, less one pod of a class."""
        state = _NodeState(self._layout, self._choice)
        for index, count in content.items():
            kept = count - (index == without)
            if kept:
                state.add(index, kept)
        return state

    def add(self, index: int, count: int) -> None:
        self._count(self._layout.rules[index], count, _limits(self._layout, index))

    def _count(self, rules: ShapeRules, count: int, limits: Sequence[tuple[int, float]]) -> None:
        for tally in rules.adds:
            self._tally[tally] = self._tally.get(tally, 0) + count
        for tally, limit in limits:
            self._bound[tally] = min(self._bound.get(tally, BOUNDLESS), limit)


def _limits(layout: Layout, index: int) -> list[tuple[int, float]]:
    """What the class asks of tallies of its node."""
    anti = [
        (bound.tally, float(bound.limit)) for bound in layout.rules[index].anti if layout.tally_key[bound.tally] < 0
    ]
    return anti + [
        (view.rule.tally, float(view.rule.max_skew))
        for view in layout.spreads[index]
        if layout.tally_key[view.rule.tally] < 0
    ]


def _no_node_rules(layout: Layout, index: int) -> bool:
    rules = layout.rules[index]
    return is_alone(rules) or not (_limits(layout, index) or any(layout.tally_key[tally] < 0 for tally in rules.adds))


def counts_of(parts: Sequence[Part], classes: int) -> IntArray:
    counts = np.zeros(classes, dtype=np.int64)
    for part in parts:
        counts[part.index] += part.count
    return counts
