"""Nodes decided so far, and what is left of the pods and of the limits: what rounding works on. Asked by `dive`,
`finish`, `mend`, `packing`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.stock import Stock


@dataclass(slots=True)
class Carving:
    """Groups of equal nodes: a pattern, its choice, how many."""

    stock: Stock
    left: FloatArray  # C
    limit_left: FloatArray  # L
    patterns: list[FloatArray] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    price: float = 0.0

    def how_often(self, choice: int) -> float:
        """How many more nodes of a choice the limits allow."""
        use = self.stock.limit_use[:, choice]
        used = use > 0
        if not used.any():
            return np.inf
        return float(np.floor(_with_tolerance(self.limit_left[used]) / use[used]).min())

    def openable(self) -> FloatArray:
        """How many more nodes of each choice the limits allow."""
        use = self.stock.limit_use
        if not len(use):
            return np.full(len(self.stock.price), np.inf)
        slack = _with_tolerance(self.limit_left)[:, None]
        return np.asarray(np.where(use > 0, np.floor(slack / np.where(use > 0, use, 1.0)), np.inf).min(axis=0))

    def take(self, pattern: FloatArray, choice: int, times: int) -> None:
        self.patterns.append(pattern)
        self.choices.append(choice)
        self.times.append(times)
        self._account(pattern, choice, times)

    def give_back(self, number: int, times: int) -> None:
        """So many nodes of a group are not bought after all; an emptied group stays, with no nodes."""
        self.times[number] -= times
        self._account(self.patterns[number], self.choices[number], -times)

    def _account(self, pattern: FloatArray, choice: int, times: int) -> None:
        self.left = self.left - pattern * times
        self.limit_left = self.limit_left - self.stock.limit_use[:, choice] * times
        self.price += float(self.stock.price[choice]) * times

    def rank(self) -> tuple[float, float, int]:
        """The fewer pods are left, the cheaper, and the fewer nodes, the better."""
        return float(self.left.sum()), round(self.price, 9), sum(self.times)

    def copy(self) -> Carving:
        return Carving(
            self.stock,
            self.left,
            self.limit_left,
            list(self.patterns),
            list(self.choices),
            list(self.times),
            self.price,
        )

    def on(self, stock: Stock, choices: IntArray) -> Carving:
        """The same nodes by the numbers of a larger stock; `choices` says where each choice stands there."""
        return Carving(
            stock,
            self.left,
            self.limit_left,
            self.patterns,
            [int(choices[choice]) for choice in self.choices],
            self.times,
            self.price,
        )

    def arrays(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Patterns, choices and times of the groups that have nodes."""
        kept = [number for number, times in enumerate(self.times) if times]
        patterns = np.array([self.patterns[number] for number in kept]).reshape(len(kept), len(self.left))
        choices = np.array([self.choices[number] for number in kept], dtype=np.int64)
        return patterns, choices, np.array([self.times[number] for number in kept], dtype=np.int64)


def _with_tolerance(left: FloatArray) -> FloatArray:
    """Sums of prices are not exact: a limit that is met exactly is met."""
    return np.maximum(left, 0.0) * (1 + 1e-12) + 1e-9
