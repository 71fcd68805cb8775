"""Which pods of which class go onto which node? Asked by `solver/solve` when rows have been packed: rows become classes again, and nodes open.

Rules within a node that rows had left out are kept here: each node takes from a row the classes that agree with what it holds already. Pods that
find no such node are handed back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from growth.solver.areas import Part
from growth.solver.bins import Bins, is_alone
from growth.solver.greedy import kind_rank, slack
from growth.solver.layout import IntArray, Layout
from growth.solver.packing import Packed
from growth.solver.rows import Rows
from growth.solver.rulebook import ShapeRules
from growth.solver.stock import BOUNDLESS


def into_bins(bins: Bins, parts: Sequence[Part]) -> list[Part]:
    """Fill what stands there already, the dearest pods first; returns what is left of the parts."""
    if not bins.size:
        return list(parts)
    return [left for part in parts if (left := _into_bins(bins, part)).count]


def _into_bins(bins: Bins, part: Part) -> Part:
    index, missing = part.index, part.count
    over_nodes = any(bins.layout.tally_key[view.rule.tally] < 0 for view in bins.layout.spreads[index] + bins.layout.implied[index])
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


def open_nodes(bins: Bins, rows: Rows, packed: Packed) -> list[Part]:
    """Open the packed nodes and put pods onto them; returns the parts that are left."""
    hands = [_Hand(bins.layout, parts) for parts in rows.parts]
    for pattern, choice, times in zip(packed.patterns, packed.choices, packed.times, strict=True):
        content = [(int(row), int(pattern[row])) for row in np.flatnonzero(pattern)]
        for _ in range(int(times)):
            _open_node(bins, hands, int(choice), content)
    return [part for hand in hands for part in hand.left()]


def _open_node(bins: Bins, hands: Sequence[_Hand], choice: int, content: list[tuple[int, int]]) -> None:
    state = _NodeState(bins.layout, choice) if any(not hands[row].is_plain for row, _ in content) else None
    taken: dict[int, int] = {}
    for row, count in content:
        for index, amount in hands[row].deal(count, state):
            taken[index] = taken.get(index, 0) + amount
    if taken:
        number = bins.open(choice)
        for index, amount in sorted(taken.items()):
            bins.put(index, number, amount)


class _Hand:
    """The pods of a row that are still to be dealt."""

    def __init__(self, layout: Layout, parts: Sequence[Part]) -> None:
        self._layout = layout
        self._parts = list(parts)
        self._left = [part.count for part in parts]
        self.is_plain = all(_no_node_rules(layout, part.index) for part in parts)
        self._order = sorted(range(len(parts)), key=lambda number: (-len(_limits(layout, parts[number].index)), -parts[number].count, number))

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

    def left(self) -> list[Part]:
        remaining = zip(self._parts, self._left, strict=True)
        return [Part(part.index, count, part.choices, part.rooms, part.is_settled) for part, count in remaining if count]


class _NodeState:
    """Tallies of one node as it is filled. A spread bounds its tally as on a node beside an empty one: that holds whatever comes."""

    def __init__(self, layout: Layout, choice: int) -> None:
        self._layout = layout
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

    def add(self, index: int, count: int) -> None:
        self._count(self._layout.rules[index], count, _limits(self._layout, index))

    def _count(self, rules: ShapeRules, count: int, limits: Sequence[tuple[int, float]]) -> None:
        for tally in rules.adds:
            self._tally[tally] = self._tally.get(tally, 0) + count
        for tally, limit in limits:
            self._bound[tally] = min(self._bound.get(tally, BOUNDLESS), limit)


def _limits(layout: Layout, index: int) -> list[tuple[int, float]]:
    """What the class asks of tallies of its node."""
    anti = [(bound.tally, float(bound.limit)) for bound in layout.rules[index].anti if layout.tally_key[bound.tally] < 0]
    return anti + [(view.rule.tally, float(view.rule.max_skew)) for view in layout.spreads[index] if layout.tally_key[view.rule.tally] < 0]


def _no_node_rules(layout: Layout, index: int) -> bool:
    rules = layout.rules[index]
    return is_alone(rules) or not (_limits(layout, index) or any(layout.tally_key[tally] < 0 for tally in rules.adds))


def counts_of(parts: Sequence[Part], classes: int) -> IntArray:
    counts = np.zeros(classes, dtype=np.int64)
    for part in parts:
        counts[part.index] += part.count
    return counts
