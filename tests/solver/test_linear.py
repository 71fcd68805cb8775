"""The builder of linear programs: optima, duals, whole numbers, and a program that grows and changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from growth.solver.linear import (
    INFINITE,
    Coefficients,
    LinearProgram,
    LinearSolver,
    coefficients_of,
    solve_linear,
)


def knapsack(is_integer: bool) -> LinearProgram:
    """Two things of sizes 3 and 4, worth 4 and 5, into 10."""
    return LinearProgram(
        cost=np.array([-4.0, -5.0]),
        upper=np.array([2.0, 5.0]),
        row_lower=np.array([-INFINITE]),
        row_upper=np.array([10.0]),
        coefficients=coefficients_of(np.array([[3.0, 4.0]])),
        is_integer=is_integer,
    )


def test_the_optimum_comes_with_its_duals() -> None:
    found = solve_linear(knapsack(is_integer=False))
    assert found.is_feasible
    assert found.objective == pytest.approx(-13)
    assert found.columns == pytest.approx([2, 1])
    assert found.row_duals == pytest.approx([-1.25])


def test_an_integer_program_has_a_bound_on_its_optimum() -> None:
    found = solve_linear(replace(knapsack(is_integer=True), row_upper=np.array([9.0])))
    assert found.columns == pytest.approx(np.round(found.columns))
    assert found.lower_bound <= found.objective + 1e-9
    assert found.objective == pytest.approx(-10)


def test_coefficients_may_come_in_any_order() -> None:
    mixed = Coefficients(np.array([1, 0, 0]), np.array([1, 1, 0]), np.array([5.0, 4.0, 3.0]))
    starts, rows, values = mixed.by_column(3)
    assert (starts.tolist(), rows.tolist(), values.tolist()) == ([0, 1, 3, 3], [0, 0, 1], [3.0, 4.0, 5.0])


def test_a_program_may_grow_and_change_between_runs() -> None:
    solver = LinearSolver(
        LinearProgram(
            cost=np.array([10.0]),
            upper=np.array([INFINITE]),
            row_lower=np.array([4.0]),
            row_upper=np.array([INFINITE]),
            coefficients=coefficients_of(np.ones((1, 1))),
        )
    )
    assert solver.run().objective == pytest.approx(40)
    solver.add_columns(np.array([6.0]), coefficients_of(np.array([[2.0]])))
    assert solver.run().objective == pytest.approx(12)
    solver.set_row_bounds(np.array([6.0]), np.array([INFINITE]))
    assert solver.run().objective == pytest.approx(18)
    solver.set_cost(0, 1.0)
    assert solver.run().objective == pytest.approx(6)
