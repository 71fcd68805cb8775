"""How near to the optimum is the answer? Asked by `solver/purchase/solve` at the end, for the pods that were placed,
whatever stage placed them.

The bound forgets zones, and the order in which anything was done: rows are classes with everything they may stand on.
Two sets of values are tried, those of the fluid program and those of the pattern program; the better proof stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.bound import Proof, no_proof, prove, sharpen
from growth.solver.patterns.fluid import Selected, select
from growth.solver.patterns.knapsack import priced_uppers
from growth.solver.patterns.stock import Stock
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.rows import RelaxedRows, Rows, rows_of
from growth.solver.purchase.zones import everything

_EXACT_ROWS = 64
_DEAREST = 10.0  # times the price of the dearest node: the most that a place under a limit is worth


@dataclass(frozen=True, slots=True)
class Proven:
    """The proof, and the values of classes in it."""

    proof: Proof
    values: FloatArray


def prove_bound(bins: Bins, placed: IntArray, found: Sequence[RelaxedRows], dear: FloatArray) -> Proven:
    """`dear` is the price of leaving out a pod of each class."""
    layout = bins.layout
    parts = everything(layout, placed)
    rows = rows_of(layout, parts, layout.limit_bound, with_spreads=False)
    stock = rows.stock
    free = np.maximum(layout.room_left[layout.room_fits.any(axis=0)], 0).sum(axis=0).astype(np.float64)
    same = next((relaxed for relaxed in found if _is_same(relaxed.rows.stock, stock)), None)
    left_out = dear[[group[0].index for group in rows.parts]]
    selected = same.relaxation.selected if same is not None else select(stock, left_out, free)
    if not len(selected.choices):
        return Proven(no_proof(stock), np.zeros(len(layout.count)))
    limit_prices = _moderate(stock, selected.fluid.limit_prices)
    values = _within_reason(stock, selected.fluid.values, limit_prices)
    proof = prove(stock, free, _uppers(stock, selected, values, limit_prices, None, 0), values, limit_prices)
    for relaxed in found:
        is_same, program = relaxed is same, relaxed.relaxation
        values = program.values
        if not is_same:
            values = _values_for(rows, relaxed.rows, values, selected.fluid.values, len(layout.count))
        limit_prices = _moderate(stock, program.limit_prices)
        values = _within_reason(stock, values, limit_prices)
        is_worth_it = (same is None or is_same) and len(stock.count) <= _EXACT_ROWS
        work = layout.problem.budget.exact_iterations if is_worth_it else 0
        uppers = _uppers(stock, selected, values, limit_prices, program.uppers if is_same else None, work)
        other = prove(stock, free, uppers, values, limit_prices)
        proof = other if other.lower_bound > proof.lower_bound else proof
    of_class = np.zeros(len(layout.count))
    for row, group in enumerate(rows.parts):
        for part in group:
            of_class[part.index] = proof.values[row]
    return Proven(proof, of_class)


def _is_same(one: Stock, other: Stock) -> bool:
    return one.need.shape == other.need.shape and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("need", "count", "cap", "fits", "limit_bound", "adds", "bound")
    )


def _values_for(rows: Rows, packed_rows: Rows, values: FloatArray, otherwise: FloatArray, classes: int) -> FloatArray:
    """Each row's value as the mean over its pods in the packed rows; pods that were packed nowhere count by the fluid
    program's value.
    """
    worth, count = np.zeros(classes), np.zeros(classes)
    for row, group in enumerate(packed_rows.parts):
        for part in group:
            worth[part.index] += values[row] * part.count
            count[part.index] += part.count
    found = otherwise.copy()
    for row, group in enumerate(rows.parts):
        packed = sum(count[part.index] for part in group)
        if packed:
            found[row] = sum(worth[part.index] for part in group) / packed
    return found


def _moderate(stock: Stock, limit_prices: FloatArray) -> FloatArray:
    """A limit that cannot be met has a price without bound: beside it, what nodes cost would be lost in rounding. Any
    price is as valid.
    """
    if not len(limit_prices):
        return limit_prices
    least = np.where(stock.limit_use > 0, stock.limit_use, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(np.minimum(limit_prices, _DEAREST * float(stock.price.max(initial=0.0)) / least))


def _within_reason(stock: Stock, values: FloatArray, limit_prices: FloatArray) -> FloatArray:
    """No pod is worth more than the cheapest node it could have for itself; one that cannot have any is worth nothing
    here.
    """
    full = stock.price + limit_prices @ stock.limit_use
    alone = np.where(stock.fits, full[:, None], np.inf).min(axis=0, initial=np.inf)
    return np.where(np.isfinite(alone), np.minimum(values, alone), 0.0)


def _uppers(
    stock: Stock, selected: Selected, values: FloatArray, limit_prices: FloatArray, known: FloatArray | None, work: int
) -> FloatArray:
    uppers = priced_uppers(stock, values, np.minimum(selected.most, stock.count), selected.fluid.resource_prices)
    if known is not None:
        uppers[selected.choices] = np.minimum(uppers[selected.choices], known)
    return _spread_over_twins(stock, selected, values, uppers, limit_prices, work)


def _spread_over_twins(
    stock: Stock, selected: Selected, values: FloatArray, uppers: FloatArray, limit_prices: FloatArray, work: int
) -> FloatArray:
    """Sharpen one choice of each kind, and hold its equals to the same."""
    kinds: dict[bytes, list[int]] = {}
    for choice in range(len(stock.price)):
        kinds.setdefault(stock.offer[choice].tobytes() + np.packbits(stock.fits[choice]).tobytes(), []).append(choice)
    firsts = np.array(
        [min(kind, key=lambda choice: (stock.price[choice], choice)) for kind in kinds.values()], dtype=np.int64
    )
    small = stock.with_choices(firsts)
    least = np.array([min(float(uppers[choice]) for choice in kind) for kind in kinds.values()])
    sharp = sharpen(small, values, selected.most[firsts], limit_prices, least, work).uppers
    result = uppers.copy()
    for kind, upper in zip(kinds.values(), sharp, strict=True):
        result[kind] = np.minimum(result[kind], upper)
    return result
