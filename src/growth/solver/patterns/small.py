"""What is the very best for a handful of pods? Asked by `solver/patterns/packing` when all patterns can be listed: then
whole nodes are chosen exactly.

For such small questions rounding is a matter of luck and limits are hard to meet; an integer program over all patterns
is neither."""

from __future__ import annotations

import highspy
import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.carving import Carving
from growth.solver.patterns.fluid import quiet_solver
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
    solver = quiet_solver()
    for name, value in (("mip_rel_gap", 1e-6), ("mip_max_nodes", _SEARCH_NODES), ("presolve", "on")):
        solver.setOptionValue(name, value)
    scale = np.maximum(stock.limit_use.max(axis=1, initial=0.0), 1e-9)
    matrix = np.vstack(
        [
            np.hstack([table.T, np.eye(rows)]),
            np.hstack([stock.limit_use[:, owners] / scale[:, None], np.zeros((limits, rows))]),
        ]
    )
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count + rows, rows + limits
    program.col_cost_ = np.concatenate([stock.price[owners], dear])
    program.col_lower_, program.col_upper_ = (
        np.zeros(count + rows),
        np.concatenate([np.full(count, float(stock.count.sum())), stock.count]),
    )
    program.row_lower_ = np.concatenate([stock.count, np.full(limits, -highspy.kHighsInf)])
    program.row_upper_ = np.concatenate([np.full(rows, highspy.kHighsInf), stock.limit_bound / scale * (1 + 1e-9)])
    filled = matrix != 0
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int32)
    program.a_matrix_.index_ = np.nonzero(filled)[1].astype(np.int32)
    program.a_matrix_.value_ = matrix[filled]
    program.integrality_ = [highspy.HighsVarType.kInteger] * (count + rows)
    solver.passModel(program)
    solver.run()
    columns = np.array(solver.getSolution().col_value)
    return (
        np.round(columns[:count]).astype(np.int64) if len(columns) == count + rows else np.zeros(count, dtype=np.int64)
    )
