"""Which mixes of pods make the most of a node, at given values of pods? Asked by column generation and by rounding, for
many nodes at once.

A greedy knapsack, all nodes side by side: a row is measured by the largest share it takes of what is *left* on the
node, so that a node fills evenly in all its resources. A little noise in the values gives other good mixes of the same
node."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import BOUNDLESS, BoolArray, FloatArray, IntArray
from growth.solver.patterns.stock import NodeTallies, Stock

_CHUNK = 0.5  # of what would fit is taken at once, so that large counts take few steps


def fill_nodes(
    stock: Stock,
    choices: IntArray,
    values: FloatArray,
    most: FloatArray,
    held: FloatArray | None = None,
    by_sum: FloatArray | None = None,
) -> FloatArray:
    """Nodes × rows: what the nodes of these choices hold in the end, beside what they hold already.

    `values` and `most` (how many of a row may be added) are nodes × rows. `by_sum` (for each node) is how much the sum
    of all shares counts beside the largest."""
    filling = _Filling(stock, choices, values, most, held, by_sum)
    while filling.step():
        pass
    return filling.added


class _Filling:
    """The nodes that still take something; those that are full are dropped from all arrays."""

    def __init__(
        self, stock: Stock, choices: IntArray, values: FloatArray, most: FloatArray,
        held: FloatArray | None, by_sum: FloatArray | None,
    ) -> None:  # fmt: skip
        self.stock = stock
        self.by_sum = None if by_sum is None else by_sum[:, None]
        rows = np.flatnonzero((most > 0).any(axis=0) & (values > 0).any(axis=0))
        self.rows = rows
        self.need = stock.need[rows]
        self.columns = [np.ascontiguousarray(self.need[:, resource]) for resource in range(self.need.shape[1])]
        self.added = np.zeros((len(choices), len(stock.count)))
        self.alive = np.arange(len(choices))
        self.left = stock.offer[choices] - (0.0 if held is None else held @ stock.need)
        self.values = values[:, rows]
        self.most = most[:, rows].copy()
        self.tallies = NodeTallies(stock, choices, rows, held) if stock.adds.shape[1] else None
        if self.tallies is not None:
            self.tallies.restrict(self.most)

    def step(self) -> bool:
        """Add the best row to every node that takes one; False when none does."""
        if not len(self.rows) or not len(self.alive):
            return False
        share, size = self._shares()
        score = np.where((share <= 1.0) & (self.most > 0), self.values / np.maximum(size, 1e-30), 0.0)
        best = score.argmax(axis=1)
        nodes = np.arange(len(best))
        takes = score[nodes, best] > 0
        if not takes.all():
            if not takes.any():
                return False
            best, share = best[takes], share[takes]
            self._keep(takes)
            nodes = np.arange(len(best))
        self._add(nodes, best, share[nodes, best])
        return True

    def _shares(self) -> tuple[FloatArray, FloatArray]:
        """The largest share of what is left, and what counts as the size of a row."""
        left = np.maximum(self.left, 1e-9)  # amounts are whole, so nothing fits there
        share = self.columns[0] / left[:, :1]
        total = share.copy()
        for resource in range(1, len(self.columns)):
            part = self.columns[resource] / left[:, resource : resource + 1]
            np.maximum(share, part, out=share)
            if self.by_sum is not None:
                total += part
        return share, share if self.by_sum is None else share + self.by_sum * total

    def _keep(self, takes: BoolArray) -> None:
        self.alive, self.left = self.alive[takes], self.left[takes]
        self.values, self.most = self.values[takes], self.most[takes]
        if self.by_sum is not None:
            self.by_sum = self.by_sum[takes]
        if self.tallies is not None:
            self.tallies.keep(takes)

    def _add(self, nodes: IntArray, best: IntArray, share: FloatArray) -> None:
        fitting = np.floor(1.0 / np.maximum(share, 1.0 / BOUNDLESS) + 1e-9)
        need = self.need[best]
        fitting -= (fitting[:, None] * need > self.left).any(axis=1)  # the quotient may have been rounded up
        count = np.minimum(np.maximum(np.floor(fitting * _CHUNK), 1.0), self.most[nodes, best])
        self.added[self.alive, self.rows[best]] += count
        self.most[nodes, best] -= count
        self.left -= count[:, None] * need
        if self.tallies is not None:
            self.tallies.count(nodes, best, count)
            self.tallies.restrict(self.most)
