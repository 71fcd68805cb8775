"""Which are all the ways to fill one node, and which nodes are then the very best? For small questions, where listing
all patterns is quicker than any cleverness.

Only full nodes are listed: patterns to which nothing can be added. The list is given up as soon as it grows long. Over
a complete list whole nodes are chosen by an integer program: with few pods, rounding is a matter of luck, and limits
are hard to meet."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.patterns.stock import Patterns, Stock

_MOST_VISITED = 1_500
_MOST_ROWS = 10
_SEARCH_NODES = 300


def all_full_patterns(stock: Stock, most: FloatArray, longest: int) -> Patterns | None:
    """Those of all choices; None if there are too many."""
    if len(stock.price) * len(stock.count) > longest:
        return None
    contents, owners = [np.zeros((0, len(stock.count)))], [np.zeros(0, dtype=np.int64)]
    for choice in range(len(stock.price)):
        found = full_patterns(stock, choice, most, longest)
        if found is None or sum(len(known) for known in contents) + len(found) > longest:
            return None
        contents.append(found)
        owners.append(np.full(len(found), choice, dtype=np.int64))
    return Patterns(np.concatenate(contents), np.concatenate(owners))


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


class _Listing:
    """A walk over all counts, one row after the other; plain numbers are quicker than arrays here."""

    def __init__(self, stock: Stock, choice: int, rows: list[int], most: list[int], longest: int) -> None:
        self.needs = [tuple(stock.need[row].tolist()) for row in rows]
        self.adds = [tuple(np.flatnonzero(stock.adds[row]).tolist()) for row in rows]
        self.bounds = [tuple(stock.bound[row].tolist()) for row in rows]
        self.most = most
        self.left = stock.offer[choice].tolist()
        self.tally = stock.start_tally[choice].tolist()
        self.start_bound: list[float] = stock.start_bound[choice].tolist()
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
            if not any(self._fits(row) for row in range(len(self.counts))):
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
        if self.counts[row] >= self.most[row]:
            return False
        if any(need > left for need, left in zip(self.needs[row], self.left, strict=True)):
            return False
        return all(
            self.tally[tally] + (tally in self.adds[row]) <= min(self.bounds[row][tally], self._present_bound(tally))
            for tally in range(len(self.tally))
            if tally in self.adds[row] or self.bounds[row][tally] < self.tally[tally]
        )

    def _present_bound(self, tally: int) -> float:
        present = [self.bounds[row][tally] for row, count in enumerate(self.counts) if count]
        return float(min([self.start_bound[tally], *present]))

    def _add(self, row: int, count: int) -> None:
        self.counts[row] += count
        for resource, need in enumerate(self.needs[row]):
            self.left[resource] -= need * count
        for tally in self.adds[row]:
            self.tally[tally] += count


def choose_exactly(stock: Stock, patterns: Patterns, left_out: FloatArray) -> IntArray:
    """How many nodes of each pattern are cheapest, if a pod of each row that is left out costs `left_out`."""
    rows, limits, count = len(stock.count), len(stock.limit_bound), len(patterns.choices)
    scale = np.maximum(stock.limit_use.max(axis=1, initial=0.0), 1e-9)
    covered = np.hstack([patterns.contents.T, np.eye(rows)])
    used = np.hstack([stock.limit_use[:, patterns.choices] / scale[:, None], np.zeros((limits, rows))])
    program = LinearProgram(
        cost=np.concatenate([stock.price[patterns.choices], left_out]),
        upper=np.concatenate([np.full(count, float(stock.count.sum())), stock.count]),
        row_lower=np.concatenate([stock.count, np.full(limits, -INFINITE)]),
        row_upper=np.concatenate([np.full(rows, INFINITE), stock.limit_bound / scale * (1 + 1e-9)]),
        coefficients=coefficients_of(np.vstack([covered, used])),
        is_integer=True,
    )
    found = solve_linear(program, mip_rel_gap=1e-6, mip_max_nodes=_SEARCH_NODES, presolve="on").columns
    if len(found) != count + rows:
        return np.zeros(count, dtype=np.int64)
    return np.round(found[:count]).astype(np.int64)
