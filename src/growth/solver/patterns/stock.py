"""What is packed and what can be bought, as bare numbers: rows of equal pods, choices of nodes, limits; and how much
work that is worth.

A row is a number of pods that are equal in size, in the choices they may go to, and in what they tolerate beside them
on one node. Names, zones and labels are not known here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec import Struct

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
            self.limit_use[:, chosen], self.limit_bound, self.adds, self.bound,
            self.start_tally[chosen], self.start_bound[chosen],
        )  # fmt: skip

    def most_on_node(self) -> FloatArray:
        """K × C: how many of a row one empty node takes, by amounts and by rules."""
        most = np.full((len(self.price), len(self.count)), BOUNDLESS)
        for resource in range(self.need.shape[1]):
            asked = self.need[:, resource]
            positive = asked > 0
            most[:, positive] = np.minimum(most[:, positive], np.floor(self.offer[:, resource, None] / asked[positive]))
        most = np.minimum(most, self.cap)
        NodeTallies(self, np.arange(len(self.price)), np.arange(len(self.count))).restrict(most)
        return np.where(self.fits, np.maximum(most, 0), 0)


@dataclass(frozen=True, slots=True)
class RoomLeft:
    """What nodes that are there already have left, all together, and how many pods of each row fit into them one by
    one: what fits into none of them must be bought for.
    """

    free: FloatArray  # R
    most: FloatArray  # C

    @staticmethod
    def none(stock: Stock) -> RoomLeft:
        return RoomLeft(np.zeros(stock.need.shape[1]), np.zeros(len(stock.count)))

    def __bool__(self) -> bool:
        return bool((self.free > 0).any() and (self.most > 0).any())


@dataclass(frozen=True, slots=True)
class Patterns:
    """What a node may hold (n × C), and the choice of each of these nodes."""

    contents: FloatArray
    choices: IntArray


class NodeTallies:
    """The shared tallies of nodes of these choices while they are filled with these rows."""

    def __init__(self, stock: Stock, choices: IntArray, rows: IntArray, held: FloatArray | None = None) -> None:
        self.adds, self.own = stock.adds[rows], stock.bound[rows]
        self.tally, self.bound = stock.start_tally[choices].copy(), stock.start_bound[choices].copy()
        tallies = range(self.adds.shape[1])
        if held is not None:
            self.tally += held @ stock.adds
            for tally in tallies:
                owners = np.flatnonzero(stock.bound[:, tally] < BOUNDLESS)
                asked = np.where(held[:, owners] > 0, stock.bound[owners, tally], BOUNDLESS)
                self.bound[:, tally] = np.minimum(self.bound[:, tally], asked.min(axis=1, initial=BOUNDLESS))
        self._members = [np.flatnonzero(self.adds[:, tally]) for tally in tallies]
        self._owners = [np.flatnonzero((self.own[:, tally] < BOUNDLESS) & ~self.adds[:, tally]) for tally in tallies]

    def keep(self, nodes: BoolArray) -> None:
        self.tally, self.bound = self.tally[nodes], self.bound[nodes]

    def count(self, nodes: IntArray, rows: IntArray, count: FloatArray) -> None:
        self.tally[nodes] += self.adds[rows] * count[:, None]
        self.bound[nodes] = np.minimum(self.bound[nodes], self.own[rows])

    def restrict(self, most: FloatArray) -> None:
        """Lower `most` (nodes × rows) to what the tallies still allow."""
        for tally, (members, owners) in enumerate(zip(self._members, self._owners, strict=True)):
            tallied = self.tally[:, tally, None]
            if len(members):
                more = np.minimum(self.bound[:, tally, None], self.own[members, tally]) - tallied
                most[:, members] = np.minimum(most[:, members], np.maximum(more, 0))
            if len(owners):
                most[:, owners] = np.where(tallied > self.own[owners, tally], 0, most[:, owners])


def rows_agree(stock: Stock, contents: FloatArray, choices: IntArray) -> BoolArray:
    """For nodes of these choices with these contents: do their rows agree with each other and with the daemons?"""
    tallies = NodeTallies(stock, choices, np.arange(len(stock.count)), contents)
    return np.asarray((tallies.tally <= tallies.bound).all(axis=1))


def openable(limit_use: FloatArray, limit_left: FloatArray) -> FloatArray:
    """How many more nodes of each choice the limits allow, each choice by itself.

    Sums of prices are not exact: a limit that is met exactly is met.
    """
    if not len(limit_use):
        return np.full(limit_use.shape[1], np.inf)
    slack = np.maximum(limit_left, 0.0)[:, None] * (1 + 1e-12) + 1e-9
    return np.asarray(
        np.where(limit_use > 0, np.floor(slack / np.where(limit_use > 0, limit_use, 1.0)), np.inf).min(axis=0)
    )


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
    better = (stock.start_tally[others] <= stock.start_tally[choice]).all(axis=1)
    better &= (stock.start_bound[others] >= stock.start_bound[choice]).all(axis=1)
    return bool((better & (stock.fits[others] | ~stock.fits[choice]).all(axis=1)).any())


class Budget(Struct, frozen=True):
    """How much work may be spent, in units that do not depend on the machine. The defaults are five seconds at most;
    most questions take a fraction of one.
    """

    seconds: float = 5.0  # what all of it shall take at most, on a usual core
    pricing_rounds: int = 60
    simplex_iterations: int = 7_000  # of the program over patterns, while patterns are looked for
    exact_iterations: int = 4_000  # of exact pricing, for nearer bounds and for patterns that greedy pricing misses
    mending_iterations: int = 5_000  # of rounding again what was rounded badly
    seed: int = 0

    @classmethod
    def for_seconds(cls, seconds: float) -> Budget:
        """What takes about so long; easy questions take less."""
        usual = cls()
        share = seconds / usual.seconds
        units = usual.pricing_rounds, usual.simplex_iterations, usual.exact_iterations, usual.mending_iterations
        return cls(seconds, *(max(1, round(unit * share)) for unit in units))
