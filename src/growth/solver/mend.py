"""Can some of the nodes be packed better together? Asked by `solver/packing` after rounding, a few times: ruin and recreate.

The nodes that hold least for their price are given back with some others beside them, and their pods are rounded anew; if that is cheaper, it stands.
"""

from __future__ import annotations

import numpy as np

from growth.solver.carving import Carving
from growth.solver.dive import dive
from growth.solver.finish import Finisher
from growth.solver.generate import Generated
from growth.solver.layout import FloatArray
from growth.solver.problem import Budget

_WORTH_IT = 0.002  # above the program's price: nearer than that there is nothing to gain
_WORST = 0.06  # share of the nodes that is given back because they hold least
_OTHERS = 0.06  # and at random
_FEWEST, _MOST = 4, 60
_WORK = 80_000  # choices × rows that all tries together may look at


def mend(carving: Carving, generated: Generated, finisher: Finisher, values: FloatArray, program_price: float, budget: Budget) -> Carving:
    """The carving, or a cheaper one."""
    chosen, seed = finisher.tried, budget.seed
    tries = min(budget.mending_rounds, max(2, _WORK // (len(chosen) * len(values))))
    random = np.random.default_rng(seed + 2)
    for attempt in range(tries):
        if carving.price <= program_price * (1 + _WORTH_IT) and not carving.left.any():
            break
        tried = carving.copy()
        _give_back(tried, values, random)
        kept = tried.price
        small = Carving(generated.master.stock, tried.left, tried.limit_left)
        anew = finisher.finish(dive(generated, _rounds(attempt), seed + attempt, small).on(carving.stock, chosen), values)
        finisher.shrink(anew)
        if (float(anew.left.sum()), kept + anew.price) < (float(carving.left.sum()), carving.price - 1e-9):
            for pattern, choice, times in zip(anew.patterns, anew.choices, anew.times, strict=True):
                if times:
                    tried.take(pattern, choice, times)
            carving = tried
    return carving


def _rounds(attempt: int) -> int:
    return 6 + attempt % 3


def _give_back(carving: Carving, values: FloatArray, random: np.random.Generator) -> None:
    """The worst nodes, and some of the others."""
    groups = np.flatnonzero(carving.times)
    worth = np.array([carving.patterns[number] @ values / max(1e-12, float(carving.stock.price[carving.choices[number]])) for number in groups])
    singles = np.repeat(groups, np.array(carving.times)[groups])
    order = np.argsort(np.repeat(worth, np.array(carving.times)[groups]), kind="stable")
    worst = order[: int(np.clip(_WORST * len(order), _FEWEST, _MOST))]
    others = random.permutation(order[len(worst) :])[: int(np.clip(_OTHERS * len(order), _FEWEST, _MOST))]
    for number in singles[np.concatenate([worst, others])]:
        carving.give_back(int(number), 1)
