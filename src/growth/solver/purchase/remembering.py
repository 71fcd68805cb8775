"""Which patterns of an earlier solution help with this problem, and which of this one are worth keeping? Asked by
`solver/purchase/solve` at both ends.

A pattern names its offering and the shapes of its pods, so it means the same in the next problem, whatever numbers
things have there. It is a head start and nothing more: shapes and offerings that are gone are left out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from growth.model.pod import PodShape
from growth.solver.patterns.stock import Patterns
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.problem import Pattern
from growth.solver.purchase.rows import RelaxedRows, Rows

_MOST_KEPT = 3_000


def recall(layout: Layout, rows: Rows) -> Patterns:
    """The problem's patterns in the numbers of these rows."""
    row_of = rows.row_of_class(len(layout.count))
    row_of_shape: dict[PodShape, int] = {}
    for index, members in enumerate(layout.members):
        for demand in members:
            if row_of[index] >= 0:
                row_of_shape.setdefault(layout.problem.demands[demand].shape, int(row_of[index]))
    places = {_place(layout, number): number for number in reversed(range(len(layout.price)))}
    patterns, choices = [], []
    for known in layout.problem.patterns:
        choice = places.get((known.pool, known.offering, known.location))
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
            kept[Pattern(*_place(layout, int(choice)), contents)] = None
    return tuple(kept)[:_MOST_KEPT]


def _place(layout: Layout, choice: int) -> tuple[str, str, str]:
    found = layout.problem.choices[int(layout.choice_index[choice])]
    return found.pool, found.offering.name, found.offering.location
