"""How is the rest packed when little is left, is every node the cheapest for what it holds, and can some nodes be packed
better together?

The rest: node by node, always the one whose content is worth most for its price. Before each node the alternative is
looked at: to end here, with nodes that take all that is left. The best ending counts. Then every node becomes the
cheapest choice that holds its content. At last some nodes are packed again (ruin and recreate): those that hold least
for their price are given back with some others, and their pods are rounded again; what is cheaper is kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns import Budget
from growth.solver.patterns.dive import Packing, dive
from growth.solver.patterns.generate import Generated
from growth.solver.patterns.pricing import fill_nodes
from growth.solver.patterns.stock import Stock, rows_agree

_SHARPNESS = (1.0, 1.1, 1.25)  # how much more a dear row counts than a cheap one of the same size
_WORTH_IT = (0.001, 0.004)  # above the program's price: what is worth the first try, and the last
_WORST = 0.06  # share of the nodes that is given back because they hold least
_OTHERS = 0.06  # and at random
_FEWEST, _MOST = 4, 60
_FILLING = 20  # choices × rows that are looked at in the time of one iteration
_PATIENCE = 6  # tries in a row that bring nothing
_MOST_TRIES = 24


class Finisher:
    """Finishes packings of one stock, all its choices at hand; only `tried` ones are filled node by node."""

    def __init__(self, stock: Stock, most: FloatArray, tried: IntArray) -> None:
        self.stock, self.most, self.tried = stock, most, tried

    def finish(self, packing: Packing, values: FloatArray, sharpness: Sequence[float] = _SHARPNESS) -> Packing:
        """Place all that the limits let in, as cheaply as this can."""
        worth = np.maximum(values, 1e-9 * max(1e-9, float(values.max(initial=0.0))))
        best: Packing | None = None
        while packing.left.any():
            ended = self._covered(packing.copy())
            if ended is not None and (best is None or ended.price < best.price - 1e-12):
                best = ended
            if (best is not None and best.price <= packing.price) or not self._one_more(packing, worth, sharpness):
                break
        if best is None or (not packing.left.any() and packing.price < best.price):
            return packing
        return best

    def _one_more(self, packing: Packing, worth: FloatArray, sharpness: Sequence[float]) -> bool:
        stock = self.stock
        waiting = packing.left > 0
        openable = packing.openable()
        choices = self.tried[(openable[self.tried] >= 1) & (self.most[np.ix_(self.tried, waiting)] > 0).any(axis=1)]
        if not len(choices):
            choices = np.flatnonzero((openable >= 1) & (self.most[:, waiting] > 0).any(axis=1))
            if not len(choices):
                return False
        tried = np.tile(choices, len(sharpness))
        powers = np.repeat([worth**power for power in sharpness], len(choices), axis=0)
        found = fill_nodes(stock, tried, powers, np.minimum(self.most[tried], packing.left))
        best = int(((found @ worth) / np.maximum(stock.price[tried], 1e-12)).argmax())
        pattern, choice = found[best], int(tried[best])
        inside = pattern > 0
        if not inside.any():
            return False
        times = int(min(np.floor(packing.left[inside] / pattern[inside]).min(), packing.how_often(choice)))
        packing.take(pattern, choice, max(1, times // 2))
        return True

    def _covered(self, packing: Packing) -> Packing | None:
        """The packing ended by nodes that each take all they may of what is left; None if there are no such nodes."""
        for _ in range(8):
            if not packing.left.any():
                return packing
            row = int(np.flatnonzero(packing.left)[0])
            content = np.where(self.stock.fits, packing.left, 0.0)
            fits = self.stock.fits[:, row] & (content @ self.stock.need <= self.stock.offer).all(axis=1)
            able = np.flatnonzero(fits & (packing.openable() >= 1))
            able = able[(content[able] <= self.most[able]).all(axis=1)]
            able = able[rows_agree(self.stock, content[able], able)]
            if not len(able):
                return None
            best = int(able[np.lexsort((able, -content[able].sum(axis=1), self.stock.price[able]))[0]])
            packing.take(content[best], best, 1)
        return packing if not packing.left.any() else None

    def shrink(self, packing: Packing) -> None:
        """Every node becomes the cheapest choice that holds its content."""
        for number in range(len(packing.times)):
            times = packing.times[number]
            if times:
                pattern, choice = packing.patterns[number], packing.choices[number]
                packing.give_back(number, times)
                packing.take(pattern, self._cheapest(packing, pattern, choice, times), times)

    def _cheapest(self, packing: Packing, pattern: FloatArray, choice: int, times: int) -> int:
        stock = self.stock
        inside = pattern > 0
        able = (pattern @ stock.need <= stock.offer).all(axis=1) & stock.fits[:, inside].all(axis=1)
        able &= stock.price < stock.price[choice] - 1e-12
        cheaper = np.flatnonzero(able & (packing.openable() >= times) & (pattern <= self.most).all(axis=1))
        cheaper = cheaper[rows_agree(stock, np.tile(pattern, (len(cheaper), 1)), cheaper)]
        return int(cheaper[stock.price[cheaper].argmin()]) if len(cheaper) else choice


def repack(
    packing: Packing, generated: Generated, finisher: Finisher, values: FloatArray, program_price: float, budget: Budget
) -> Packing:
    """The packing, or a cheaper one."""
    chosen, seed, master = finisher.tried, budget.seed, generated.master
    random = np.random.default_rng(seed + 2)
    spent, in_vain, began = 0.0, 0, master.iterations
    for attempt in range(_MOST_TRIES):
        enough = program_price * (1 + np.interp(spent, (0, budget.mending_iterations), _WORTH_IT))
        is_near = packing.price <= enough and not packing.left.any()
        if spent >= budget.mending_iterations or in_vain >= _PATIENCE or is_near:
            break
        tried = packing.copy()
        _give_back(tried, values, random)
        small = Packing(master.stock, tried.left, tried.limit_left)
        dived = dive(generated, 6 + attempt % 3, seed + attempt, small)
        again = finisher.finish(dived.on(packing.stock, chosen), values)
        finisher.shrink(again)
        spent = master.iterations - began + (attempt + 1) * len(chosen) * len(values) / _FILLING
        for pattern, choice, times in zip(again.patterns, again.choices, again.times, strict=True):
            if times:
                tried.take(pattern, choice, times)
        in_vain = 0 if tried.rank() < packing.rank() else in_vain + 1
        packing = min(tried, packing, key=Packing.rank)  # of equals the new one: it may lead on
    return packing


def _give_back(packing: Packing, values: FloatArray, random: np.random.Generator) -> None:
    """The worst nodes, and some of the others."""
    groups = np.flatnonzero(packing.times)
    prices = packing.stock.price[[packing.choices[number] for number in groups]]
    worth = np.array([packing.patterns[number] for number in groups]) @ values / np.maximum(prices, 1e-12)
    singles = np.repeat(np.arange(len(groups)), np.array(packing.times)[groups])
    order = singles[np.argsort(worth[singles], kind="stable")]
    worst = order[: int(np.clip(_WORST * len(order), _FEWEST, _MOST))]
    others = random.permutation(order[len(worst) :])[: int(np.clip(_OTHERS * len(order), _FEWEST, _MOST))]
    for number in groups[np.concatenate([worst, others])]:
        packing.give_back(int(number), 1)
