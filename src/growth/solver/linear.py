"""What is the optimum of a linear program? The only file that knows HiGHS; `patterns` and `flow` build their programs
with it.

    minimise   cost · x
    where      row_lower <= A x <= row_upper,   0 <= x <= upper

One thread, one seed, no presolve, no output: the same program gets the same answer on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import highspy
import numpy as np

from growth.solver.arrays import FloatArray, IntArray, Mask

INFINITE: Final = highspy.kHighsInf
DUAL_SIMPLEX: Final = 1
PRIMAL_SIMPLEX: Final = 4
DEVEX: Final = 1
_FEASIBLE = 2
_OPTIONS: dict[str, str | float] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "presolve": "off",
    "parallel": "off",
}


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Those of a matrix that are not zero, in any order."""

    rows: IntArray
    columns: IntArray
    values: FloatArray

    def by_column(self, columns: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Where each column begins (and the last one ends), then rows and values, column after column."""
        order = np.lexsort((self.rows, self.columns))
        starts = np.searchsorted(self.columns[order], np.arange(columns + 1))
        return starts, self.rows[order], self.values[order]


def coefficients_of(matrix: FloatArray) -> Coefficients:
    rows, columns = np.nonzero(matrix)
    return Coefficients(rows, columns, matrix[rows, columns])


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    cost: FloatArray
    upper: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    coefficients: Coefficients
    is_integer: bool | Mask = False  # all of x, none, or these


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """What the solver found, and what it took to find it."""

    columns: FloatArray  # x
    row_duals: FloatArray
    objective: float
    lower_bound: float  # of an integer program that was not searched to its end
    is_feasible: bool
    iterations: int  # of simplex


class LinearSolver:
    """A program that may grow and change; each run begins where the last one ended."""

    def __init__(self, program: LinearProgram, **options: str | float) -> None:
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy says nothing about it
        self._set(_OPTIONS | options)
        self._highs.passModel(_for_highs(program))

    def _set(self, options: dict[str, str | float]) -> None:
        for name, value in options.items():
            self._highs.setOptionValue(name, value)

    def add_columns(self, cost: FloatArray, coefficients: Coefficients) -> None:
        size = len(cost)
        starts, rows, values = coefficients.by_column(size)
        lower, upper = np.zeros(size), np.full(size, INFINITE)
        starts, rows = starts[:size].astype(np.int32), rows.astype(np.int32)
        self._highs.addCols(size, cost, lower, upper, len(rows), starts, rows, values)

    def set_row_bounds(self, lower: FloatArray, upper: FloatArray) -> None:
        numbers = np.arange(len(lower), dtype=np.int32)
        # missing in highspy's stubs
        self._highs.changeRowsBounds(len(lower), numbers, lower, upper)  # type: ignore[attr-defined]

    def set_cost(self, column: int, cost: float) -> None:
        self._highs.changeColCost(column, cost)

    def run(self, **options: str | float) -> Optimum:
        self._set(options)
        self._highs.run()
        solution, info = self._highs.getSolution(), self._highs.getInfo()
        return Optimum(
            columns=np.array(solution.col_value),
            row_duals=np.array(solution.row_dual),
            objective=float(info.objective_function_value),
            lower_bound=float(info.mip_dual_bound),
            is_feasible=info.primal_solution_status == _FEASIBLE,
            iterations=max(0, int(info.simplex_iteration_count)),
        )


def solve_linear(program: LinearProgram, **options: str | float) -> Optimum:
    """The optimum of a program that is asked once."""
    return LinearSolver(program, **options).run()


def _for_highs(program: LinearProgram) -> highspy.HighsLp:
    columns, lp = len(program.cost), highspy.HighsLp()
    starts, rows, values = program.coefficients.by_column(columns)
    lp.num_col_, lp.num_row_ = columns, len(program.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, np.zeros(columns), program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = starts.astype(np.int32), rows.astype(np.int32)
    lp.a_matrix_.value_ = values
    whole = np.broadcast_to(program.is_integer, columns)
    if whole.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(one)] for one in whole]
    return lp
