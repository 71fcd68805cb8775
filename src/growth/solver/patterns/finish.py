"""How is the rest packed, when little is left, and is every node the cheapest for what it holds? Asked by
`solver/patterns/packing` after rounding.

Node by node, always the one whose content is worth most for its price. Before each node the alternative is looked at:
to end here, with nodes that take all that is left. The best ending stands. At last every node becomes the cheapest
choice that holds its content."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.carving import Carving
from growth.solver.patterns.pricing import fill_nodes
from growth.solver.patterns.stock import Stock, keep_tallies

_SHARPNESS = (1.0, 1.1, 1.25)  # how much more a dear row counts than a cheap one of the same size


class Finisher:
    """Finishes carvings of one stock, all its choices at hand; only `tried` ones are filled node by node."""

    def __init__(self, stock: Stock, most: FloatArray, tried: IntArray) -> None:
        self.stock, self.most, self.tried = stock, most, tried

    def finish(self, carving: Carving, values: FloatArray, sharpness: Sequence[float] = _SHARPNESS) -> Carving:
        """Place all that the limits let in, as cheaply as this can."""
        worth = np.maximum(values, 1e-9 * max(1e-9, float(values.max(initial=0.0))))
        best: Carving | None = None
        while carving.left.any():
            ended = self._covered(carving.copy())
            if ended is not None and (best is None or ended.price < best.price - 1e-12):
                best = ended
            if (best is not None and best.price <= carving.price) or not self._one_more(carving, worth, sharpness):
                break
        if best is None or (not carving.left.any() and carving.price < best.price):
            return carving
        return best

    def _one_more(self, carving: Carving, worth: FloatArray, sharpness: Sequence[float]) -> bool:
        stock = self.stock
        waiting = carving.left > 0
        openable = carving.openable()
        choices = self.tried[(openable[self.tried] >= 1) & (self.most[np.ix_(self.tried, waiting)] > 0).any(axis=1)]
        if not len(choices):
            choices = np.flatnonzero((openable >= 1) & (self.most[:, waiting] > 0).any(axis=1))
            if not len(choices):
                return False
        tried = np.tile(choices, len(sharpness))
        powers = np.repeat([worth**power for power in sharpness], len(choices), axis=0)
        found = fill_nodes(stock, tried, powers, np.minimum(self.most[tried], carving.left))
        best = int(((found @ worth) / np.maximum(stock.price[tried], 1e-12)).argmax())
        pattern, choice = found[best], int(tried[best])
        inside = pattern > 0
        if not inside.any():
            return False
        times = int(min(np.floor(carving.left[inside] / pattern[inside]).min(), carving.how_often(choice)))
        carving.take(pattern, choice, max(1, times // 2))
        return True

    def _covered(self, carving: Carving) -> Carving | None:
        """The carving ended by nodes that each take all they may of what is left; None if there are no such nodes."""
        for _ in range(8):
            if not carving.left.any():
                return carving
            row = int(np.flatnonzero(carving.left)[0])
            content = np.where(self.stock.fits, carving.left, 0.0)
            able = np.flatnonzero(
                self.stock.fits[:, row]
                & (content @ self.stock.need <= self.stock.offer).all(axis=1)
                & (carving.openable() >= 1)
            )
            able = able[(content[able] <= self.most[able]).all(axis=1)]
            able = able[keep_tallies(self.stock, content[able], able)]
            if not len(able):
                return None
            best = int(able[np.lexsort((able, -content[able].sum(axis=1), self.stock.price[able]))[0]])
            carving.take(content[best], best, 1)
        return carving if not carving.left.any() else None

    def shrink(self, carving: Carving) -> None:
        """Every node becomes the cheapest choice that holds its content."""
        for number in range(len(carving.times)):
            times = carving.times[number]
            if times:
                pattern, choice = carving.patterns[number], carving.choices[number]
                carving.give_back(number, times)
                carving.take(pattern, self.cheapest(carving, pattern, choice, times), times)

    def cheapest(self, carving: Carving, pattern: FloatArray, choice: int, times: int) -> int:
        stock = self.stock
        inside = pattern > 0
        able = (
            (pattern @ stock.need <= stock.offer).all(axis=1)
            & stock.fits[:, inside].all(axis=1)
            & (stock.price < stock.price[choice] - 1e-12)
        )
        cheaper = np.flatnonzero(able & (carving.openable() >= times) & (pattern <= self.most).all(axis=1))
        cheaper = cheaper[keep_tallies(stock, np.tile(pattern, (len(cheaper), 1)), cheaper)]
        return int(cheaper[stock.price[cheaper].argmin()]) if len(cheaper) else choice
