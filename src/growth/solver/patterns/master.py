"""How many nodes of each pattern, if nodes could be cut? The linear program over the patterns found so far. Asked by
`generate` and `dive`.

    minimise   Σ price_p x_p + Σ penalty_i missing_i
    where      Σ_p pattern_pi x_p + missing_i >= count_i,   Σ_p use_lp x_p <= bound_l

A row may stay uncovered for a penalty a little above its value: that keeps the values within a box while there are few
patterns, and is raised where it still pays in the end. What this program costs is no bound for the problem: patterns
may be missing."""

from __future__ import annotations

import highspy
import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.fluid import quiet_solver
from growth.solver.patterns.stock import Stock

_DUAL_SIMPLEX, _PRIMAL_SIMPLEX, _DEVEX = 1, 4, 1


class Master:
    """Patterns, and the program over them; warm from one solve to the next."""

    def __init__(self, stock: Stock, penalties: FloatArray) -> None:
        self.stock = stock
        self.rows, self.limits = len(stock.count), len(stock.limit_bound)
        self.scale = np.maximum(stock.limit_use.max(axis=1), 1e-9) if self.limits else np.ones(0)
        self.penalties = penalties.copy()
        self._kept = np.zeros((256, self.rows))  # grows by doubling: patterns come a few at a time
        self.choices: IntArray = np.zeros(0, dtype=np.int64)
        self.iterations = 0
        self._seen: set[bytes] = set()
        self._solver = quiet_solver()
        self._solver.setOptionValue("simplex_dual_edge_weight_strategy", _DEVEX)
        self._solver.passModel(self._empty_program())

    def _empty_program(self) -> highspy.HighsLp:
        stock, infinite = self.stock, highspy.kHighsInf
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = self.rows, self.rows + self.limits
        program.col_cost_, program.col_lower_, program.col_upper_ = (
            self.penalties,
            np.zeros(self.rows),
            np.full(self.rows, infinite),
        )
        program.row_lower_ = np.concatenate([stock.count, np.full(self.limits, -infinite)])
        program.row_upper_ = np.concatenate([np.full(self.rows, infinite), stock.limit_bound / self.scale])
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.arange(self.rows + 1, dtype=np.int32)
        program.a_matrix_.index_ = np.arange(self.rows, dtype=np.int32)
        program.a_matrix_.value_ = np.ones(self.rows)
        return program

    # ------------------------------------------------------------------------------------- changing

    def add(self, patterns: FloatArray, choices: IntArray) -> int:
        """Patterns that are not known yet; returns how many were new."""
        fresh = [number for number in range(len(patterns)) if self._is_new(patterns[number], int(choices[number]))]
        if not fresh:
            return 0
        patterns, choices = patterns[fresh], choices[fresh]
        number, row = np.nonzero(patterns)
        used_by, limit = np.nonzero(self.stock.limit_use[:, choices].T)
        columns = np.concatenate([number, used_by])
        indices = np.concatenate([row, self.rows + limit])
        values = np.concatenate(
            [patterns[number, row], self.stock.limit_use[limit, choices[used_by]] / self.scale[limit]]
        )
        order = np.lexsort((indices, columns))
        size = len(fresh)
        starts = np.searchsorted(columns[order], np.arange(size)).astype(np.int32)
        self._solver.addCols(
            size, self.stock.price[choices], np.zeros(size), np.full(size, highspy.kHighsInf),
            len(order), starts, indices[order].astype(np.int32), values[order],
        )  # fmt: skip
        known = len(self.choices)
        while len(self._kept) < known + size:
            self._kept = np.concatenate([self._kept, np.zeros_like(self._kept)])
        self._kept[known : known + size] = patterns
        self.choices = np.concatenate([self.choices, choices])
        return size

    @property
    def patterns(self) -> FloatArray:
        """Patterns × rows, in the order they were added."""
        return self._kept[: len(self.choices)]

    def _is_new(self, pattern: FloatArray, choice: int) -> bool:
        name = choice.to_bytes(4, "little") + pattern.astype(np.int32).tobytes()
        if name in self._seen:
            return False
        self._seen.add(name)
        return True

    def set_counts(self, counts: FloatArray, limit_left: FloatArray) -> None:
        """Go on with what is left of the pods and of the limits."""
        infinite, total = highspy.kHighsInf, self.rows + self.limits
        lower = np.concatenate([counts, np.full(self.limits, -infinite)])
        upper = np.concatenate([np.full(self.rows, infinite), np.maximum(limit_left, 0.0) / self.scale])
        self._solver.changeRowsBounds(total, np.arange(total, dtype=np.int32), lower, upper)  # type: ignore[attr-defined]  # missing in highspy's stubs

    def raise_penalties(self, rows: IntArray, factor: float) -> None:
        for row in rows:
            self.penalties[row] *= factor
            self._solver.changeColCost(int(row), float(self.penalties[row]))

    # -------------------------------------------------------------------------------------- solving

    def solve(self, after_new_patterns: bool) -> float:
        """The price of the program now. New patterns keep the old basis primal feasible, new counts keep it dual
        feasible.
        """
        self._solver.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX if after_new_patterns else _DUAL_SIMPLEX)
        self._solver.run()
        solution, told = self._solver.getSolution(), self._solver.getInfo()
        self.iterations += max(0, int(told.simplex_iteration_count))
        columns, duals = np.array(solution.col_value), np.array(solution.row_dual)
        self.missing: FloatArray = np.maximum(columns[: self.rows], 0.0)
        self.shares: FloatArray = np.maximum(columns[self.rows :], 0.0)
        self.values: FloatArray = np.maximum(duals[: self.rows], 0.0)
        self.limit_prices: FloatArray = np.maximum(-duals[self.rows :], 0.0) / self.scale
        self.price = float(told.objective_function_value)
        return self.price

    def full_prices(self) -> FloatArray:
        """What a node of each choice costs, limits included."""
        full: FloatArray = self.stock.price + self.limit_prices @ self.stock.limit_use
        return full
