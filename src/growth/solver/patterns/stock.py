"""What is to be packed and what can be bought, as bare numbers: rows of equal pods, choices of nodes, and nothing about
names or zones.

Asked by the stages that look for the cheapest nodes: `fluid`, `pricing`, `master`, `generate`, `dive`, `bound`. A row
stands for pods that are equal in size, in where they may stand, and in what they tolerate beside them on one node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import BOUNDLESS, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Stock:
    """C rows, K choices, R resources, L limits, G tallies that several rows of one node share."""

    need: FloatArray  # C × R
    count: FloatArray  # C
    cap: FloatArray  # C: most of a row on one node
    offer: FloatArray  # K × R
    price: FloatArray  # K
    fits: BoolArray  # K × C: allowed there, and one fits an empty node
    limit_use: FloatArray  # L × K
    limit_bound: FloatArray  # L
    adds: BoolArray  # C × G: counts towards the tally
    bound: FloatArray  # C × G: while the row is there, the tally may not exceed this
    start_tally: FloatArray  # K × G: what daemons have counted already
    start_bound: FloatArray  # K × G

    def with_choices(self, chosen: IntArray) -> Stock:
        """Only some of the choices."""
        return Stock(
            self.need, self.count, self.cap, self.offer[chosen], self.price[chosen], self.fits[chosen],
            self.limit_use[:, chosen], self.limit_bound, self.adds, self.bound, self.start_tally[chosen], self.start_bound[chosen],
        )  # fmt: skip

    def most_on_node(self) -> FloatArray:
        """K × C: how many of a row one empty node takes, by amounts and by rules."""
        most = np.full((len(self.price), len(self.count)), BOUNDLESS)
        for resource in range(self.need.shape[1]):
            asked = self.need[:, resource]
            positive = asked > 0
            most[:, positive] = np.minimum(most[:, positive], np.floor(self.offer[:, resource, None] / asked[positive]))
        most = np.minimum(most, self.cap)
        for tally in range(self.adds.shape[1]):
            own = np.minimum(self.bound[:, tally], self.start_bound[:, tally, None]) - self.start_tally[:, tally, None]
            most = np.where(self.adds[:, tally], np.minimum(most, own), most)
            most[(self.start_tally[:, tally, None] > self.bound[:, tally]) & ~self.adds[:, tally]] = 0
        return np.where(self.fits, np.maximum(most, 0), 0)


def without_dominated(stock: Stock) -> IntArray:
    """Choices that no other choice beats: at least as large, no dearer, open to at least the same rows, within no
    further limit.
    """
    order = np.lexsort((np.arange(len(stock.price)), -stock.offer.sum(axis=1), stock.price))
    kept: list[int] = []
    for choice in order:
        if not (kept and _is_beaten(stock, int(choice), np.array(kept))):
            kept.append(int(choice))
    return np.array(sorted(kept), dtype=np.int64)


def _is_beaten(stock: Stock, choice: int, others: IntArray) -> bool:
    better = (stock.offer[others] >= stock.offer[choice]).all(axis=1) & (stock.price[others] <= stock.price[choice])
    better &= (stock.limit_use[:, others] <= stock.limit_use[:, choice, None]).all(axis=0)
    if not better.any():
        return False
    others = others[better]
    same_daemons = (stock.start_tally[others] <= stock.start_tally[choice]).all(axis=1) & (
        stock.start_bound[others] >= stock.start_bound[choice]
    ).all(axis=1)
    return bool((same_daemons & (stock.fits[others] | ~stock.fits[choice]).all(axis=1)).any())


def keep_tallies(stock: Stock, contents: FloatArray, choices: IntArray) -> BoolArray:
    """For nodes of these choices with these contents: do their rows agree with each other and with the daemons of the
    choice?
    """
    tallied = stock.start_tally[choices] + contents @ stock.adds
    kept = np.ones(len(choices), dtype=np.bool_)
    for tally in range(stock.adds.shape[1]):
        owners = np.flatnonzero(stock.bound[:, tally] < BOUNDLESS)
        own = np.where(contents[:, owners] > 0, stock.bound[owners, tally], BOUNDLESS).min(axis=1, initial=BOUNDLESS)
        kept &= tallied[:, tally] <= np.minimum(stock.start_bound[choices, tally], own)
    return kept
