"""Which are all the ways to fill one node? Asked for small questions, where listing them is quicker than any
cleverness.

Only full nodes are listed: patterns to which nothing can be added. The list is given up as soon as it grows long.
"""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.stock import Stock

_MOST_VISITED = 1_500
_MOST_ROWS = 10


def full_patterns(stock: Stock, choice: int, most: FloatArray, longest: int) -> FloatArray | None:
    """n × C; None if there are too many."""
    rows = [int(row) for row in np.flatnonzero(most[choice])]
    if len(rows) > _MOST_ROWS:
        return None
    listing = _Listing(stock, choice, rows, [int(min(most[choice, row], stock.count[row])) for row in rows], longest)
    if not listing.visit(0):
        return None
    patterns = np.zeros((len(listing.found), len(stock.count)))
    patterns[:, rows] = np.array(listing.found).reshape(len(listing.found), len(rows))
    return patterns


def all_full_patterns(stock: Stock, most: FloatArray, longest: int) -> tuple[FloatArray, IntArray] | None:
    """Those of all choices, with their choices; None if there are too many."""
    if len(stock.price) * len(stock.count) > longest:
        return None
    patterns, owners = [np.zeros((0, len(stock.count)))], [np.zeros(0, dtype=np.int64)]
    for choice in range(len(stock.price)):
        found = full_patterns(stock, choice, most, longest)
        if found is None or sum(len(known) for known in patterns) + len(found) > longest:
            return None
        patterns.append(found)
        owners.append(np.full(len(found), choice, dtype=np.int64))
    return np.concatenate(patterns), np.concatenate(owners)


class _Listing:
    """A walk over all counts, one row after the other; plain numbers are quicker than arrays here."""

    def __init__(self, stock: Stock, choice: int, rows: list[int], most: list[int], longest: int) -> None:
        self.needs = [tuple(stock.need[row].tolist()) for row in rows]
        self.adds = [tuple(np.flatnonzero(stock.adds[row]).tolist()) for row in rows]
        self.bounds = [tuple(stock.bound[row].tolist()) for row in rows]
        self.most = most
        self.left = stock.offer[choice].tolist()
        self.tally = stock.start_tally[choice].tolist()
        self.bound = [stock.start_bound[choice].tolist()]
        self.counts = [0] * len(rows)
        self.found: list[list[int]] = []
        self.longest = longest
        self.visited = 0

    def visit(self, depth: int) -> bool:
        """False when there are too many."""
        self.visited += 1
        if self.visited > _MOST_VISITED or len(self.found) > self.longest:
            return False
        if depth == len(self.counts):
            if self._is_full():
                self.found.append(list(self.counts))
            return True
        added = 0
        while self._fits(depth):
            self._add(depth, 1)
            added += 1
        complete = self.visit(depth + 1)
        while added and complete:
            self._add(depth, -1)
            added -= 1
            complete = self.visit(depth + 1)
        return complete

    def _fits(self, row: int) -> bool:
        if self.counts[row] >= self.most[row] or any(
            need > left for need, left in zip(self.needs[row], self.left, strict=True)
        ):
            return False
        return all(
            self.tally[tally] + (tally in self.adds[row]) <= min(self.bounds[row][tally], self._present_bound(tally))
            for tally in range(len(self.tally))
            if tally in self.adds[row] or self.bounds[row][tally] < self.tally[tally]
        )

    def _present_bound(self, tally: int) -> float:
        present = [float(self.bounds[row][tally]) for row, count in enumerate(self.counts) if count]
        return min([float(self.bound[0][tally]), *present])

    def _is_full(self) -> bool:
        return not any(self._fits(row) for row in range(len(self.counts)))

    def _add(self, row: int, count: int) -> None:
        self.counts[row] += count
        for resource, need in enumerate(self.needs[row]):
            self.left[resource] -= need * count
        for tally in self.adds[row]:
            self.tally[tally] += count
