"""What can no placement of these pods undercut? Asked by `solver/purchase/solve` for every answer.

Give each row of pods a value v and each limit a price m. If no node of any choice can hold more value than it costs
(its limits' prices included), then Σ v·count - Σ m·bound - (most value that the rooms can hold) is a lower bound:
Lagrange's. Values that are too high are scaled down until they pass (Farley). So the proof is the values; how they were
found does not matter. The fluid program's values pass by duality; those of the pattern program are higher, but have to
be checked against the best pattern of each choice, or an upper bound of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.knapsack import MIP_NODES, exact, fractional, priced_uppers
from growth.solver.patterns.stock import Stock
from growth.solver.patterns.tabling import table_uppers

_WORTH_A_TABLE = 6
_LEAST_WORK = 60  # iterations that setting up an exact pricing is worth
_SAFETY = 1 - 1e-5  # the linear solver's tolerances are never read as proof


@dataclass(frozen=True, slots=True)
class Proof:
    """Values of rows and prices of limits that pass, and what they prove."""

    lower_bound: float
    values: FloatArray
    limit_prices: FloatArray


def no_proof(stock: Stock) -> Proof:
    return Proof(0.0, np.zeros(len(stock.count)), np.zeros(len(stock.limit_bound)))


def prove(stock: Stock, free: FloatArray, uppers: FloatArray, values: FloatArray, limit_prices: FloatArray) -> Proof:
    """The bound that `values` prove, given upper bounds (K) of what a node of each choice can hold at these values.

    `free` (R) is all that rooms have left.
    """
    own = limit_prices @ stock.limit_use
    scale = max(1.0, float(_ratios(stock, uppers, own).max(initial=0.0)))
    if not np.isfinite(scale):
        return no_proof(stock)
    values, limit_prices = values / scale, limit_prices / scale
    proven = _SAFETY * (
        float(values @ stock.count - limit_prices @ stock.limit_bound) - room_value(stock, free, values)
    )
    is_more_than_rounding = proven > 1e-6 * float(stock.price.max(initial=0.0))
    return Proof(proven, values, limit_prices) if is_more_than_rounding else no_proof(stock)


def room_value(stock: Stock, free: FloatArray, values: FloatArray) -> float:
    """At most so much value fits into the rooms, all of them taken as one node that can be cut."""
    if not (free > 0).any():
        return 0.0
    rooms = Stock(
        stock.need, stock.count, np.full_like(stock.cap, np.inf), np.maximum(free, 0.0)[None], np.ones(1), np.ones((1, len(stock.count)), dtype=np.bool_),
        np.zeros((0, 1)), np.zeros(0), np.zeros((len(stock.count), 0), dtype=np.bool_), np.zeros((len(stock.count), 0)), np.zeros((1, 0)), np.zeros((1, 0)),
    )  # fmt: skip
    most = stock.count[None].copy()
    relaxed = fractional(rooms, 0, values, most)
    return float(priced_uppers(rooms, values, most, relaxed.resource_prices[None])[0])


def quick_uppers(stock: Stock, values: FloatArray, most: FloatArray, resource_prices: FloatArray) -> FloatArray:
    """Upper bounds for all choices by the prices at hand."""
    return priced_uppers(stock, values, np.minimum(most, stock.count), resource_prices)


@dataclass(frozen=True, slots=True)
class Sharpened:
    """Upper bounds (K) after a closer look, and patterns that were found to be worth more than their node."""

    uppers: FloatArray
    patterns: FloatArray
    choices: IntArray
    pricings: int
    work: int  # simplex iterations spent on exact pricing


def sharpen(
    stock: Stock,
    values: FloatArray,
    most: FloatArray,
    limit_prices: FloatArray,
    uppers: FloatArray,
    work: int,
    nodes: int = MIP_NODES,
) -> Sharpened:
    """Lower the upper bounds that stand in the way, the worst first: by the fraction, then, until `work` iterations are
    spent, exactly.

    Resource prices found for one choice are tried on all: types of one family are much alike.
    """
    own = limit_prices @ stock.limit_use
    full = stock.price + own
    uppers, most = uppers.copy(), np.minimum(most, stock.count)
    uppers = _tabled(stock, values, most, own, full, uppers)
    is_fractional, is_exact = np.zeros(len(uppers), dtype=np.bool_), np.zeros(len(uppers), dtype=np.bool_)
    patterns, choices, done, spent = [], [], 0, 0
    while len(uppers):
        worst = int(_ratios(stock, uppers, own).argmax())
        if is_exact[worst] or uppers[worst] <= full[worst] * (1 + 1e-6):
            break
        if not is_fractional[worst]:
            is_fractional[worst] = True
            relaxed = fractional(stock, worst, values, most)
            uppers = np.minimum(uppers, priced_uppers(stock, values, most, relaxed.resource_prices[None]))
            continue
        if spent >= work:
            break
        is_exact[worst] = True
        found = exact(stock, worst, values, most, float(full[worst]), nodes)
        uppers[worst] = min(uppers[worst], found.upper)
        done, spent = done + 1, spent + max(_LEAST_WORK, found.work)
        if found.pattern @ values > full[worst] * (1 + 1e-6):
            patterns.append(found.pattern)
            choices.append(worst)
    return Sharpened(
        uppers, np.array(patterns).reshape(len(patterns), len(values)), np.array(choices, dtype=np.int64), done, spent
    )


def _tabled(
    stock: Stock, values: FloatArray, most: FloatArray, own: FloatArray, full: FloatArray, uppers: FloatArray
) -> FloatArray:
    """The bounds of a table, where several choices stand in the way: first by fractions, then by what the table says of
    those that are left.
    """
    asked = np.flatnonzero(uppers > full * (1 + 1e-6))
    if len(asked) < _WORTH_A_TABLE:
        return uppers
    uppers = uppers.copy()
    for worst in asked[np.argsort(-_ratios(stock, uppers, own)[asked], kind="stable")][:_WORTH_A_TABLE]:
        relaxed = fractional(stock, int(worst), values, most)
        uppers = np.minimum(uppers, priced_uppers(stock, values, most, relaxed.resource_prices[None]))
    asked = np.flatnonzero(uppers > full * (1 + 1e-6))
    if len(asked) >= _WORTH_A_TABLE:
        uppers[asked] = np.minimum(uppers[asked], table_uppers(stock, values, most, asked))
    return uppers


def _ratios(stock: Stock, uppers: FloatArray, own: FloatArray) -> FloatArray:
    """By how much values would have to be scaled down for each choice."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(uppers <= own, 0.0, (uppers - own) / stock.price)
