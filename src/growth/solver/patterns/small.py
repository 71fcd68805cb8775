"""What is the very best for a handful of pods? Asked by `solver/patterns/packing` when all patterns can be listed: then
whole nodes are chosen exactly.

For such small questions rounding is a matter of luck and limits are hard to meet; an integer program over all patterns
is neither."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.patterns.carving import Carving
from growth.solver.patterns.generate import Generated
from growth.solver.patterns.stock import Stock

_SEARCH_NODES = 300


def carve_exactly(generated: Generated, dear: float) -> Carving:
    """The cheapest nodes over the patterns of the program. A pod left out counts `dear` times the most its row can be
    worth.
    """
    master, stock = generated.master, generated.master.stock
    times = _choose(stock, master.patterns, master.choices, generated.highest * dear)
    carving = Carving(stock, stock.count.copy(), stock.limit_bound.copy())
    for number in np.flatnonzero(times):
        for _ in range(int(times[number])):
            pattern = np.minimum(master.patterns[number], carving.left)
            if pattern.any() and carving.how_often(int(master.choices[number])) >= 1:
                carving.take(pattern, int(master.choices[number]), 1)
    return carving


def _choose(stock: Stock, table: FloatArray, owners: IntArray, dear: FloatArray) -> IntArray:
    """How many nodes of each pattern."""
    rows, limits, count = len(stock.count), len(stock.limit_bound), len(owners)
    scale = np.maximum(stock.limit_use.max(axis=1, initial=0.0), 1e-9)
    matrix = np.vstack(
        [
            np.hstack([table.T, np.eye(rows)]),
            np.hstack([stock.limit_use[:, owners] / scale[:, None], np.zeros((limits, rows))]),
        ]
    )
    program = LinearProgram(
        cost=np.concatenate([stock.price[owners], dear]),
        upper=np.concatenate([np.full(count, float(stock.count.sum())), stock.count]),
        row_lower=np.concatenate([stock.count, np.full(limits, -INFINITE)]),
        row_upper=np.concatenate([np.full(rows, INFINITE), stock.limit_bound / scale * (1 + 1e-9)]),
        coefficients=coefficients_of(matrix),
        is_integer=True,
    )
    found = solve_linear(program, mip_rel_gap=1e-6, mip_max_nodes=_SEARCH_NODES, presolve="on").columns
    if len(found) != count + rows:
        return np.zeros(count, dtype=np.int64)
    return np.round(found[:count]).astype(np.int64)
