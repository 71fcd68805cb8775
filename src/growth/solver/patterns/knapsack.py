"""What is the most that one node can hold, in value? Upper bounds, from quick to exact.

| bound | how | cost |
| --- | --- | --- |
| priced | any resource prices w: w·offer + Σ most_i (value_i - w·need_i)+ | all choices at once |
| fractional | the linear program of one node | under a millisecond for each choice |
| exact | the integer program without rows that cannot matter | milliseconds for dozens of rows, far more for hundreds |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from growth.solver.arrays import BOUNDLESS, FloatArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.patterns.enumeration import full_patterns
from growth.solver.patterns.stock import Stock

_MIP_GAP = 5e-4
_MOST_LISTED = 200
# a bound is wanted; good patterns come from greedy pricing
_NO_HEURISTICS: dict[str, str | float] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_zi_round": False,
    "mip_heuristic_run_shifting": False,
}
MIP_NODES = 1_000  # of the search tree


@dataclass(frozen=True, slots=True)
class Fractional:
    """The most of one node if pods could be cut, and the prices of its resources there."""

    value: float
    resource_prices: FloatArray  # R


@dataclass(frozen=True, slots=True)
class Exact:
    """A pattern, a value that no pattern of the node exceeds, and what it took to find out, in simplex iterations."""

    upper: float
    pattern: FloatArray
    work: int = 0


def priced_uppers(stock: Stock, values: FloatArray, most: FloatArray, resource_prices: FloatArray) -> FloatArray:
    """K: the least of the bounds that the given resource prices (n × R) yield."""
    slack = np.maximum(values - resource_prices @ stock.need.T, 0.0)  # n × C
    slack[slack < 1e-12 * max(1e-300, float(values.max(initial=0.0)))] = 0.0
    uppers = stock.offer @ resource_prices.T  # K × n
    alone = np.ones(len(values), dtype=np.bool_)
    for members, bound in shared_bounds(stock):
        alone[members] = False
        uppers = uppers + bound * (slack[:, members][None] * stock.fits[:, None, members]).max(axis=2)
    return np.asarray((uppers + most[:, alone] @ slack[:, alone].T).min(axis=1))


def shared_bounds(stock: Stock) -> list[tuple[IntArray, float]]:
    """Disjoint sets of rows of which one node takes at most so many together."""
    found: list[tuple[IntArray, float]] = []
    free = np.ones(len(stock.count), dtype=np.bool_)
    for tally in range(stock.adds.shape[1]):
        members = np.flatnonzero(stock.adds[:, tally] & (stock.bound[:, tally] < BOUNDLESS) & free)
        if len(members) > 1:
            free[members] = False
            found.append((members, float(stock.bound[members, tally].max())))
    return found


def fractional(stock: Stock, choice: int, values: FloatArray, most: FloatArray) -> Fractional:
    """The linear program of one node."""
    rows = np.flatnonzero((most[choice] > 0) & (values > 0))
    if not len(rows):
        return Fractional(0.0, np.zeros(stock.need.shape[1]))
    found = solve_linear(_program(stock, choice, values, most[choice], rows))
    duals = found.row_duals[: stock.need.shape[1]]
    return Fractional(-found.objective, np.maximum(-duals, 0.0) / np.maximum(stock.offer[choice], 1.0))


def exact(
    stock: Stock, choice: int, values: FloatArray, most: FloatArray, enough: float, nodes: int = MIP_NODES
) -> Exact:
    """The best pattern of one node, as far as it is worth more than `enough`."""
    relaxed = fractional(stock, choice, values, most)
    nothing = np.zeros(len(values))
    if relaxed.value <= enough:
        return Exact(enough, nothing)
    listed = full_patterns(stock, choice, most, _MOST_LISTED)
    if listed is not None and len(listed):
        best = listed[int((listed @ values).argmax())]
        return Exact(max(enough, float(best @ values)), best)
    slack = np.maximum(relaxed.resource_prices @ stock.need.T - values, 0.0)
    gain = relaxed.value - enough
    # more of the row costs more than there is to gain
    allowed = np.floor(gain / np.maximum(slack, gain * 1e-15) + 1e-9)
    for members, _ in shared_bounds(stock):
        allowed[members] = BOUNDLESS
    usable = np.minimum(most[choice], allowed)
    rows = np.flatnonzero((usable > 0) & (values > 0))
    if not len(rows):
        return Exact(enough, nothing)
    program = replace(_program(stock, choice, values, usable, rows), is_integer=True)
    found = solve_linear(program, mip_rel_gap=_MIP_GAP, mip_max_nodes=nodes, **_NO_HEURISTICS)
    pattern = nothing
    if len(found.columns) == len(rows) and found.is_feasible:
        pattern[rows] = np.round(found.columns)
    upper = min(-found.lower_bound, relaxed.value) if np.isfinite(found.lower_bound) else relaxed.value
    return Exact(max(enough, upper), pattern, found.iterations)


def _program(stock: Stock, choice: int, values: FloatArray, most: FloatArray, rows: IntArray) -> LinearProgram:
    shared = [(np.flatnonzero(np.isin(rows, members)), bound) for members, bound in shared_bounds(stock)]
    shared = [(members, bound) for members, bound in shared if len(members)]
    scale = np.maximum(stock.offer[choice], 1.0)
    table = np.zeros((stock.need.shape[1] + len(shared), len(rows)))
    table[: stock.need.shape[1]] = (stock.need[rows] / scale).T
    for number, (members, _) in enumerate(shared):
        table[stock.need.shape[1] + number, members] = 1.0
    return LinearProgram(
        cost=-values[rows],
        upper=np.minimum(most[rows], stock.count[rows]),
        row_lower=np.full(len(table), -INFINITE),
        row_upper=np.concatenate([stock.offer[choice] / scale, [bound for _, bound in shared]]),
        coefficients=coefficients_of(table),
    )
