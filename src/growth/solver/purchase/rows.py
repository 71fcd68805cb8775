"""Which pods are alike once their zones are decided? Asked by `solver/purchase/solve`: it turns parts of classes into
the rows of a `Stock`.

Rows forget all that only matters elsewhere: names, labels nobody on the node asks about, zones. Rules within a node
stay in one of two forms:

| rule within a node | form |
| --- | --- |
| only among the pods of one class | `cap`: so many of the row on a node |
| among several classes | a shared tally |
| spread among several classes, when keeping it would make too many rows | left out here; whoever puts pods onto nodes keeps it |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import BOUNDLESS, BoolArray, FloatArray, IntArray
from growth.solver.patterns.packing import Relaxation
from growth.solver.patterns.stock import Stock
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.zones import Part

_MANY_ROWS = 160  # beyond that, mild rules are left out if that makes fewer rows


@dataclass(frozen=True, slots=True)
class Rows:
    """A stock, and the parts of classes behind each of its rows."""

    stock: Stock
    parts: tuple[tuple[Part, ...], ...]
    is_exact: bool = True  # no rule within a node was left out

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


def rows_of(layout: Layout, parts: Sequence[Part], limit_left: FloatArray, with_spreads: bool = True) -> Rows:
    """Rows for these parts, with every choice of the layout.

    A spread over nodes binds the packers as if there were always an empty node. For a bound that is too strict: there,
    do without."""
    tallies = _NodeTallies(layout, parts, with_spreads)
    grouped = _grouped(layout, parts, tallies, with_mild=True)
    kept = tallies.shared
    if len(grouped) > _MANY_ROWS:
        plain = _grouped(layout, parts, tallies, with_mild=False)
        if len(plain) < len(grouped):
            grouped, kept = plain, tallies.strict
    ordered = sorted(grouped.values(), key=lambda group: group[0].index)
    first = np.array([group[0].index for group in ordered], dtype=np.int64)
    need, offer = layout.need[first].astype(np.float64), layout.offer.astype(np.float64)
    allowed = np.array([group[0].choices for group in ordered], dtype=np.bool_).reshape(len(ordered), len(layout.price))
    fits = allowed.T & (need[None] <= offer[:, None]).all(axis=2)
    adds, bound, start_tally, start_bound = tallies.tables(first, kept)
    stock = Stock(
        need=need,
        count=np.array([sum(part.count for part in group) for group in ordered], dtype=np.float64),
        cap=tallies.cap[first],
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
    return Rows(stock, tuple(tuple(group) for group in ordered), kept is tallies.shared)


def _grouped(
    layout: Layout, parts: Sequence[Part], tallies: _NodeTallies, with_mild: bool
) -> dict[tuple[object, ...], list[Part]]:
    groups: dict[tuple[object, ...], list[Part]] = {}
    masks: dict[bytes, int] = {}
    for part in sorted(parts, key=lambda part: (part.index, part.choices.tobytes())):
        mask = masks.setdefault(np.packbits(part.choices).tobytes(), len(masks))
        own = part.index if tallies.cap[part.index] < BOUNDLESS else -1
        key = (
            layout.need[part.index].tobytes(),
            mask,
            own,
            tallies.signature(part.index, with_mild),
            bool(layout.is_virtual[part.index]),
        )
        groups.setdefault(key, []).append(part)
    return groups


class _NodeTallies:
    """Tallies with the node as their domain, as far as they matter among these parts and the daemons of the choices."""

    def __init__(self, layout: Layout, parts: Sequence[Part], with_spreads: bool) -> None:
        self._layout = layout
        self._with_spreads = with_spreads
        present = sorted({part.index for part in parts})
        self._members: dict[int, set[int]] = {}
        self._limits: dict[int, dict[int, float]] = {}
        for index in present:
            for tally in layout.rules[index].adds:
                if layout.tally_key[tally] < 0:
                    self._members.setdefault(tally, set()).add(index)
            for tally, limit in self._bounds(index):
                own = self._limits.setdefault(tally, {})
                own[index] = min(limit, own.get(index, BOUNDLESS))
        self._of_daemons = {
            tally
            for daemons in layout.daemons
            for rules in daemons
            for tally in (*rules.adds, *(bound.tally for bound in rules.anti))
        }
        self.cap = np.full(len(layout.count), BOUNDLESS)
        self._anti = {bound.tally for index in present for bound in layout.rules[index].anti}
        relevant = {*self._limits, *(self._of_daemons & set(self._members))}
        self.shared = [
            tally for tally in sorted(relevant) if layout.tally_key[tally] < 0 and not self._is_private(tally)
        ]
        self.strict = [tally for tally in self.shared if tally in self._anti or tally in self._of_daemons]

    def _bounds(self, index: int) -> list[tuple[int, float]]:
        layout = self._layout
        anti = [
            (bound.tally, float(bound.limit)) for bound in layout.rules[index].anti if layout.tally_key[bound.tally] < 0
        ]
        views = layout.spreads[index] if self._with_spreads else ()
        return anti + [
            (view.rule.tally, float(view.rule.max_skew)) for view in views if layout.tally_key[view.rule.tally] < 0
        ]

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
        layout = self._layout
        adds = np.array(
            [[index in self._members.get(tally, ()) for tally in kept] for index in first], dtype=np.bool_
        ).reshape(len(first), len(kept))
        bound = np.array(
            [[self._limits.get(tally, {}).get(int(index), BOUNDLESS) for tally in kept] for index in first]
        ).reshape(len(first), len(kept))
        start_tally = np.zeros((len(layout.price), len(kept)))
        start_bound = np.full((len(layout.price), len(kept)), BOUNDLESS)
        position = {tally: number for number, tally in enumerate(kept)}
        for choice, daemons in enumerate(layout.daemons):
            for rules in daemons:
                for tally in rules.adds:
                    if tally in position:
                        start_tally[choice, position[tally]] += 1
                for limit in rules.anti:
                    if limit.tally in position:
                        start_bound[choice, position[limit.tally]] = min(
                            start_bound[choice, position[limit.tally]], limit.limit
                        )
        return adds, bound, start_tally, start_bound
