"""How many nodes of each pattern, if nodes could be cut? The linear program over the patterns found so far. Asked by
`generate` and `dive`.

    minimise   Σ price_p x_p + Σ penalty_i missing_i
    where      Σ_p pattern_pi x_p + missing_i >= count_i,   Σ_p use_lp x_p <= bound_l

A row may stay uncovered for a penalty a little above its value: that keeps the values within a box while there are few
patterns, and is raised where it still pays in the end. What this program costs is no bound for the problem: patterns
may be missing."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.linear import (
    DEVEX,
    DUAL_SIMPLEX,
    INFINITE,
    PRIMAL_SIMPLEX,
    Coefficients,
    LinearProgram,
    LinearSolver,
)
from growth.solver.patterns.stock import Stock


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
        self._solver = LinearSolver(self._without_patterns(), simplex_dual_edge_weight_strategy=DEVEX)

    def _without_patterns(self) -> LinearProgram:
        lower, upper = self._row_bounds(self.stock.count, self.stock.limit_bound)
        each = np.arange(self.rows)
        missing = Coefficients(each, each, np.ones(self.rows))
        return LinearProgram(self.penalties, np.full(self.rows, INFINITE), lower, upper, missing)

    def _row_bounds(self, counts: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower = np.concatenate([counts, np.full(self.limits, -INFINITE)])
        return lower, np.concatenate([np.full(self.rows, INFINITE), limits / self.scale])

    # ------------------------------------------------------------------------------------- changing

    def add(self, patterns: FloatArray, choices: IntArray) -> int:
        """Patterns that are not known yet; returns how many were new."""
        fresh = [number for number in range(len(patterns)) if self._is_new(patterns[number], int(choices[number]))]
        if not fresh:
            return 0
        patterns, choices = patterns[fresh], choices[fresh]
        number, row = np.nonzero(patterns)
        used_by, limit = np.nonzero(self.stock.limit_use[:, choices].T)
        added = Coefficients(
            rows=np.concatenate([row, self.rows + limit]),
            columns=np.concatenate([number, used_by]),
            values=np.concatenate(
                [patterns[number, row], self.stock.limit_use[limit, choices[used_by]] / self.scale[limit]]
            ),
        )
        self._solver.add_columns(self.stock.price[choices], added)
        size = len(fresh)
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
        self._solver.set_row_bounds(*self._row_bounds(counts, np.maximum(limit_left, 0.0)))

    def raise_penalties(self, rows: IntArray, factor: float) -> None:
        for row in rows:
            self.penalties[row] *= factor
            self._solver.set_cost(int(row), float(self.penalties[row]))

    # -------------------------------------------------------------------------------------- solving

    def solve(self, after_new_patterns: bool) -> float:
        """The price of the program now. New patterns keep the old basis primal feasible, new counts keep it dual
        feasible.
        """
        found = self._solver.run(simplex_strategy=PRIMAL_SIMPLEX if after_new_patterns else DUAL_SIMPLEX)
        self.iterations += found.iterations
        columns, duals = found.columns, found.row_duals
        self.missing: FloatArray = np.maximum(columns[: self.rows], 0.0)
        self.shares: FloatArray = np.maximum(columns[self.rows :], 0.0)
        self.values: FloatArray = np.maximum(duals[: self.rows], 0.0)
        self.limit_prices: FloatArray = np.maximum(-duals[self.rows :], 0.0) / self.scale
        self.price = found.objective
        return self.price

    def full_prices(self) -> FloatArray:
        """What a node of each choice costs, limits included."""
        full: FloatArray = self.stock.price + self.limit_prices @ self.stock.limit_use
        return full
