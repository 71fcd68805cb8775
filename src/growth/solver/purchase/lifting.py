"""How does what was learnt without zones help with them? Asked by `solver/purchase/solve` when rules about zones split
classes into many rows.

Zones of equal machines are alike, so pods whose zones are left open need few rows: patterns and values are found there,
quickly and with proof. Then every pattern is repeated in every zone, with the rows of that zone in place of the open
ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from growth.solver.arrays import BoolArray, IntArray
from growth.solver.patterns.fluid import Fluid, Selected
from growth.solver.patterns.stock import Patterns, Stock
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.rows import RelaxedRows, Rows
from growth.solver.purchase.zones import Part


def without_areas(layout: Layout, parts: Sequence[Part], allowed: BoolArray) -> list[Part]:
    """The same pods, free to go to every zone."""
    counts: dict[int, int] = {}
    for part in parts:
        counts[part.index] = counts.get(part.index, 0) + part.count
    return [
        Part(index, count, layout.fits[index] & allowed, layout.room_fits[index])
        for index, count in sorted(counts.items())
    ]


def lift(relaxed: RelaxedRows, rows: Rows, classes: int) -> tuple[Selected, Patterns]:
    """The selection, values and patterns for rows with zones."""
    stock = rows.stock
    open_row = relaxed.rows.row_of_class(classes)[[group[0].index for group in rows.parts]]
    found = relaxed.relaxation
    master = found.generated.master
    twins = _twins(found.stock, stock, found.selected.choices)
    chosen = np.unique(np.concatenate([*twins.values(), np.zeros(0, dtype=np.int64)])).astype(np.int64)
    most = stock.most_on_node()
    chosen = chosen[most[chosen].any(axis=1)]
    prices = {
        int(first): found.selected.fluid.resource_prices[number] for number, first in enumerate(found.selected.choices)
    }
    first_of = {int(twin): first for first, others in twins.items() for twin in others}
    fluid = Fluid(
        price=master.price,
        values=master.values[open_row],
        limit_prices=master.limit_prices,
        resource_prices=np.array([prices[first_of[int(choice)]] for choice in chosen]).reshape(
            len(chosen), stock.need.shape[1]
        ),
    )
    return Selected(chosen, fluid, most), _lifted(found.used, twins, open_row, stock)


def _twins(small: Stock, stock: Stock, chosen: IntArray) -> dict[int, IntArray]:
    """For each selected choice, all choices with the same room: the same type elsewhere."""
    found = {}
    for choice in chosen:
        same = (stock.offer == small.offer[choice]).all(axis=1) & (stock.start_tally == stock.start_tally[choice]).all(
            axis=1
        )
        found[int(choice)] = np.flatnonzero(same & (stock.start_bound == stock.start_bound[choice]).all(axis=1))
    return found


def _lifted(pool: Patterns, twins: dict[int, IntArray], open_row: IntArray, stock: Stock) -> Patterns:
    """Each pattern on each twin, with the largest row there that stands for an open one."""
    by_size = np.argsort(-stock.count, kind="stable")
    patterns, choices = [], []
    for pattern, choice in zip(pool.contents, pool.choices, strict=True):
        for twin in twins.get(int(choice), ()):
            lifted = np.zeros(len(stock.count))
            for row in np.flatnonzero(pattern):
                standing = by_size[(open_row[by_size] == row) & stock.fits[twin][by_size]]
                if len(standing):
                    lifted[standing[0]] = min(pattern[row], stock.count[standing[0]])
            if lifted.any():
                patterns.append(lifted)
                choices.append(int(twin))
    return Patterns(np.array(patterns).reshape(len(patterns), len(stock.count)), np.array(choices, dtype=np.int64))
