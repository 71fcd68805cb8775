"""Which of many choices are worth thinking about? Asked by `solver/patterns/packing` and `bound` before they begin.

Choices that another one beats are struck out. If hundreds are left, the fluid program over a few of all sizes says
which others would pay at its values; those join, until none pays. So four hundred types cost little more than forty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.fluid import Fluid, no_fluid, solve_fluid
from growth.solver.patterns.knapsack import priced_uppers
from growth.solver.patterns.stock import Stock, without_dominated

_FEW = 48  # kinds that are looked at together without selecting
_SIZES = 20  # price ranges that are represented at first
_JOINING = 16  # kinds that join in one round
_MOST = 96


@dataclass(frozen=True, slots=True)
class Selected:
    """The choices that matter, and the fluid program over them."""

    choices: IntArray
    fluid: Fluid
    most: FloatArray  # all K × C


def select(stock: Stock, dear: FloatArray, free: FloatArray | None = None) -> Selected:
    """`dear` is the price of leaving a pod out; `free` (R) is what rooms have left, where that counts."""
    most = stock.most_on_node()
    firsts = _one_of_each_kind(stock, most)
    if not len(firsts):
        return Selected(firsts, no_fluid(stock), most)
    firsts = firsts[without_dominated(stock.with_choices(firsts))]
    chosen = np.arange(len(firsts)) if len(firsts) <= _FEW else _of_all_sizes(stock, firsts, most)
    while True:
        fluid = solve_fluid(stock.with_choices(firsts[chosen]), dear, free)
        uppers = priced_uppers(stock, fluid.values, np.minimum(most, stock.count), fluid.resource_prices)
        ratios = uppers[firsts] / np.maximum(stock.price + fluid.limit_prices @ stock.limit_use, 1e-300)[firsts]
        ratios[chosen] = 0.0
        joining = np.argsort(-ratios, kind="stable")[:_JOINING]
        joining = joining[ratios[joining] > 1 + 1e-6]
        if not len(joining) or len(chosen) > _MOST:
            break
        chosen = np.sort(np.concatenate([chosen, joining]))
    return Selected(firsts[chosen], fluid, most)


def _one_of_each_kind(stock: Stock, most: FloatArray) -> IntArray:
    """Choices that differ in nothing but their names are one; those that hold nothing are none."""
    kinds: dict[bytes, int] = {}
    for choice in np.flatnonzero(most.any(axis=1)):
        described = (
            stock.offer[choice],
            stock.price[choice : choice + 1],
            stock.limit_use[:, choice],
            stock.start_tally[choice],
            stock.start_bound[choice],
        )
        name = b"".join(part.tobytes() for part in described) + np.packbits(stock.fits[choice]).tobytes()
        kinds.setdefault(name, int(choice))
    return np.array(list(kinds.values()), dtype=np.int64)


def _of_all_sizes(stock: Stock, firsts: IntArray, most: FloatArray) -> IntArray:
    """Some of every price range, and for each row the choice where it is cheapest."""
    chosen: set[int] = set()
    by_price = np.argsort(stock.price[firsts], kind="stable")
    prices = stock.price[firsts][by_price]
    steps = np.geomspace(max(prices[0], 1e-9), max(prices[-1], 2e-9), _SIZES)
    chosen.update(int(by_price[position]) for position in np.minimum(np.searchsorted(prices, steps), len(prices) - 1))
    for row in range(len(stock.count)):
        with np.errstate(divide="ignore"):
            per_pod = np.where(
                most[firsts, row] > 0, stock.price[firsts] / np.minimum(most[firsts, row], stock.count[row]), np.inf
            )
        cheapest = int(per_pod.argmin())
        if np.isfinite(per_pod[cheapest]):
            chosen.add(cheapest)
    return np.array(sorted(chosen), dtype=np.int64)
