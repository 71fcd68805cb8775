"""Which nodes are bought for these rows of pods? Asked by `solver/solve`: selection, column generation, exact pricing where it is cheap, rounding.

It knows nothing of zones, rooms and names: the answer is how many nodes of which choice, with how many pods of each row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.bound import quick_uppers, sharpen
from growth.solver.dive import dive
from growth.solver.finish import Finisher
from growth.solver.fluid import Fluid
from growth.solver.generate import Generated, extend, generate
from growth.solver.layout import FloatArray, IntArray
from growth.solver.problem import Budget
from growth.solver.selection import Selected
from growth.solver.stock import Stock

_DIVE_ROUNDS = 40
_EXACT_ROWS = 64  # beyond that, one exact pricing costs more than a whole round of greedy ones
_EXACT_ROUNDS = 6
_NEAR = 0.001


@dataclass(frozen=True, slots=True)
class Packed:
    """Nodes in groups of equals, what found no place, and what was learnt on the way."""

    patterns: FloatArray  # n × C
    choices: IntArray  # n, of the whole stock
    times: IntArray  # n
    left: FloatArray  # C
    price: float
    values: FloatArray  # C, of the last program
    limit_prices: FloatArray  # L
    program_price: float
    uppers: FloatArray | None  # K': what a node of each selected choice can hold at these values, if that was found out
    pool: tuple[FloatArray, IntArray]  # patterns worth keeping, and their choices
    detail: str


def pack(stock: Stock, selected: Selected, known: tuple[FloatArray, IntArray], budget: Budget) -> Packed:
    """The cheapest nodes found for all pods of the stock that the limits let in."""
    chosen = selected.choices
    small = stock.with_choices(chosen)
    position = np.full(len(stock.price), -1, dtype=np.int64)
    position[chosen] = np.arange(len(chosen))
    usable = position[known[1]] >= 0
    generated = generate(small, selected.fluid, (known[0][usable], position[known[1][usable]]), budget.pricing_rounds, budget.simplex_iterations, budget.seed)
    pricings, uppers = _price_exactly(generated, selected.fluid, budget)
    master = generated.master
    values, limit_prices, price = master.values.copy(), master.limit_prices.copy(), master.price
    in_use = np.flatnonzero(master.shares > 1e-9)
    pool = master.patterns[in_use], chosen[master.choices[in_use]]
    finisher = Finisher(stock, selected.most, chosen)
    carving = finisher.finish(dive(generated, _DIVE_ROUNDS, budget.seed).on(stock, chosen), values)
    finisher.shrink(carving)
    patterns, choices, times = carving.arrays()
    detail = f"{len(stock.count)} rows, {len(chosen)} choices, {generated.rounds} rounds, {pricings} exact pricings, {len(master.choices)} patterns"
    return Packed(patterns, choices, times, carving.left, carving.price, values, limit_prices, price, uppers, pool, detail)


def _price_exactly(generated: Generated, fluid: Fluid, budget: Budget) -> tuple[int, FloatArray | None]:
    """Add patterns that greedy pricing misses, until the program is proven to be near its optimum; with the proof, if there is one."""
    master, stock = generated.master, generated.master.stock
    if len(stock.count) > _EXACT_ROWS or master.price <= fluid.price * (1 + 4 * _NEAR):
        return 0, None
    pricings = 0
    for _ in range(_EXACT_ROUNDS):
        uppers = quick_uppers(stock, master.values, generated.most, fluid.resource_prices)
        found = sharpen(stock, master.values, generated.most, master.limit_prices, uppers, len(stock.price))
        pricings += found.pricings
        if not master.add(found.patterns, found.choices):
            return pricings, found.uppers
        master.solve(after_new_patterns=True)
        extend(generated, budget.seed + pricings)
    return pricings, None
