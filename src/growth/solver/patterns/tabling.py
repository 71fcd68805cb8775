"""How much value can nodes of many sizes hold, nearly exactly and all at once? Asked by `bound` when dozens of types
stand in the way of a proof.

A table over the two resources that are short, in steps fine enough for small nodes: what fits into so much of both.
Amounts that pods need are rounded down to steps and all other resources are left out, so every entry is an upper bound.
One table answers for all types that lie within it."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.knapsack import shared_bounds
from growth.solver.patterns.stock import Stock

_STEPS = (192, 640)  # of the resource with fewer distinct amounts, and of the other


def table_uppers(stock: Stock, values: FloatArray, most: FloatArray, asked: IntArray) -> FloatArray:
    """For the choices asked about: at most so much value fits. Infinite for nodes that are too large for the steps of
    the table.
    """
    uppers = np.full(len(asked), np.inf)
    rows = np.flatnonzero((values > 0) & (most[asked] > 0).any(axis=0))
    resources = _short_resources(stock, rows, asked)
    if len(resources) < 2 or not len(rows):
        return uppers
    steps = np.array([_step(stock.need[rows, resource]) for resource in resources])
    cells = np.floor(stock.offer[asked][:, resources] / steps)
    inside = np.flatnonzero((cells < _STEPS).all(axis=1))
    if not len(inside):
        return uppers
    places = cells[inside].astype(np.int64)
    sizes = np.floor(stock.need[np.ix_(rows, resources)] / steps).astype(np.int64)
    copies = np.minimum(most[np.ix_(asked[inside], rows)].max(axis=0), 1e6).astype(np.int64)
    table = _filled(np.zeros(tuple(places.max(axis=0) + 1)), stock, rows, sizes, copies, values)
    uppers[inside] = table[places[:, 0], places[:, 1]]
    return uppers


def _short_resources(stock: Stock, rows: IntArray, asked: IntArray) -> IntArray:
    """The two resources of which the valued pods take the largest shares of a node."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = stock.need[rows] / np.maximum(stock.offer[asked].max(axis=0), 1.0)
    weight = (
        (share * np.minimum(stock.count[rows], 1e6)[:, None]).sum(axis=0)
        if len(rows)
        else np.zeros(stock.need.shape[1])
    )
    short = np.argsort(-weight, kind="stable")[:2]
    short = short[weight[short] > 0]
    distinct = [len(np.unique(stock.need[rows, resource])) for resource in short]
    return short[np.argsort(distinct, kind="stable")]


def _step(needs: FloatArray) -> float:
    """What all amounts are multiples of, or if that is tiny, a quarter of the smallest."""
    positive = needs[needs > 0].astype(np.int64)
    return max(float(np.gcd.reduce(positive)), float(positive.min()) / 4) if len(positive) else 1.0


def _filled(
    table: FloatArray, stock: Stock, rows: IntArray, sizes: IntArray, copies: IntArray, values: FloatArray
) -> FloatArray:
    """First the rows that may come in any number, then at most so many of each set that shares a bound."""
    shared = next(
        ((set(members.tolist()), int(bound)) for members, bound in shared_bounds(stock) if bound <= 1), (set[int](), 0)
    )
    alone = np.array([row not in shared[0] for row in rows], dtype=np.bool_)
    for number in np.flatnonzero(alone):
        taken, step = 0, 1
        while taken < copies[number]:  # 1, 2, 4, … copies make every count up to the last
            step = min(step, int(copies[number]) - taken)
            table = _better(table, sizes[number] * step, float(values[rows[number]]) * step)
            if (sizes[number] * (taken + step) >= np.array(table.shape)).any():
                break
            taken, step = taken + step, step * 2
    best = table
    for number in np.flatnonzero(~alone):
        best = np.maximum(best, _better(table, sizes[number], float(values[rows[number]])))
    return best


def _better(table: FloatArray, size: IntArray, value: float) -> FloatArray:
    """With one more thing of this size and value, where that is better."""
    across, down = int(size[0]), int(size[1])
    if across >= table.shape[0] or down >= table.shape[1]:
        return table
    improved = table.copy()
    inner = improved[across:, down:]
    np.maximum(inner, table[: table.shape[0] - across, : table.shape[1] - down] + value, out=inner)
    return improved
