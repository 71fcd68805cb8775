"""What can no placement of these pods undercut? Asked by `solver/solve` for every answer.

Give each row of pods a value v and each limit a price m. If no node of any choice can hold more value than it costs (its limits' prices
included), then Σ v·count - Σ m·bound - (most value that the rooms can hold) is a lower bound: Lagrange's. Values that are too high are scaled
down until they pass (Farley). So the proof is the values; how they were found does not matter. The fluid program's values pass by duality;
those of the pattern program are higher, but have to be checked against the best pattern of each choice, or an upper bound of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.knapsack import exact, fractional, priced_uppers
from growth.solver.layout import FloatArray, IntArray
from growth.solver.stock import Stock

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
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(uppers <= own, 0.0, (uppers - own) / stock.price)
    scale = max(1.0, float(ratios.max(initial=0.0)))
    if not np.isfinite(scale):
        return no_proof(stock)
    values, limit_prices = values / scale, limit_prices / scale
    proven = _SAFETY * (float(values @ stock.count - limit_prices @ stock.limit_bound) - room_value(stock, free, values))
    return Proof(max(0.0, proven), values, limit_prices) if proven > 0 else no_proof(stock)


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


def sharpen(stock: Stock, values: FloatArray, most: FloatArray, limit_prices: FloatArray, uppers: FloatArray, pricings: int) -> Sharpened:
    """Lower the upper bounds that stand in the way, the worst first: by the fraction, then, `pricings` times at most, exactly."""
    own = limit_prices @ stock.limit_use
    full = stock.price + own
    uppers, most = uppers.copy(), np.minimum(most, stock.count)
    for choice in np.flatnonzero(uppers > full * (1 + 1e-9)):
        relaxed = fractional(stock, int(choice), values, most)
        fine = priced_uppers(stock.with_choices(np.array([choice])), values, most[[choice]], relaxed.resource_prices[None])
        uppers[choice] = min(uppers[choice], float(fine[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(uppers <= own, 0.0, (uppers - own) / stock.price)
    patterns, choices, done, proven_worst = [], [], 0, 1.0 + 1e-6
    while done < pricings and len(ratios):
        worst = int(ratios.argmax())
        if ratios[worst] <= proven_worst:
            break
        found = exact(stock, worst, values, most, float(full[worst]))
        done += 1
        uppers[worst] = min(uppers[worst], found.upper)
        proven_worst = max(proven_worst, float((uppers[worst] - own[worst]) / stock.price[worst]))
        ratios[worst] = 0.0
        if found.pattern @ values > full[worst] * (1 + 1e-6):
            patterns.append(found.pattern)
            choices.append(worst)
    return Sharpened(uppers, np.array(patterns).reshape(len(patterns), len(values)), np.array(choices, dtype=np.int64), done)
