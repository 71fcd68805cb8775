"""Can some of the nodes be packed better together? Asked by `solver/patterns/packing` after rounding, a few times: ruin
and recreate.

The nodes that hold least for their price are given back with some others beside them, and their pods are rounded anew;
if that is cheaper, it stands."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray
from growth.solver.patterns.carving import Carving
from growth.solver.patterns.dive import dive
from growth.solver.patterns.finish import Finisher
from growth.solver.patterns.generate import Generated
from growth.solver.purchase.problem import Budget

_WORTH_IT = (0.001, 0.004)  # above the program's price: what is worth the first try, and the last
_WORST = 0.06  # share of the nodes that is given back because they hold least
_OTHERS = 0.06  # and at random
_FEWEST, _MOST = 4, 60
_FILLING = 20  # choices × rows that are looked at in the time of one iteration
_PATIENCE = 6  # tries in a row that bring nothing
_MOST_TRIES = 24


def mend(
    carving: Carving, generated: Generated, finisher: Finisher, values: FloatArray, program_price: float, budget: Budget
) -> Carving:
    """The carving, or a cheaper one."""
    chosen, seed, master = finisher.tried, budget.seed, generated.master
    random = np.random.default_rng(seed + 2)
    spent, in_vain, began = 0.0, 0, master.iterations
    for attempt in range(_MOST_TRIES):
        enough = program_price * (1 + np.interp(spent, (0, budget.mending_iterations), _WORTH_IT))
        if (
            spent >= budget.mending_iterations
            or in_vain >= _PATIENCE
            or (carving.price <= enough and not carving.left.any())
        ):
            break
        tried = carving.copy()
        _give_back(tried, values, random)
        small = Carving(master.stock, tried.left, tried.limit_left)
        anew = finisher.finish(
            dive(generated, _rounds(attempt), seed + attempt, small).on(carving.stock, chosen), values
        )
        finisher.shrink(anew)
        spent = master.iterations - began + (attempt + 1) * len(chosen) * len(values) / _FILLING
        for pattern, choice, times in zip(anew.patterns, anew.choices, anew.times, strict=True):
            if times:
                tried.take(pattern, choice, times)
        in_vain = 0 if tried.rank() < carving.rank() else in_vain + 1
        carving = min(tried, carving, key=Carving.rank)  # of equals the new one: it may lead on
    return carving


def _rounds(attempt: int) -> int:
    return 6 + attempt % 3


def _give_back(carving: Carving, values: FloatArray, random: np.random.Generator) -> None:
    """The worst nodes, and some of the others."""
    groups = np.flatnonzero(carving.times)
    prices = carving.stock.price[[carving.choices[number] for number in groups]]
    worth = np.array([carving.patterns[number] for number in groups]) @ values / np.maximum(prices, 1e-12)
    singles = np.repeat(np.arange(len(groups)), np.array(carving.times)[groups])
    order = singles[np.argsort(worth[singles], kind="stable")]
    worst = order[: int(np.clip(_WORST * len(order), _FEWEST, _MOST))]
    others = random.permutation(order[len(worst) :])[: int(np.clip(_OTHERS * len(order), _FEWEST, _MOST))]
    for number in groups[np.concatenate([worst, others])]:
        carving.give_back(int(number), 1)
