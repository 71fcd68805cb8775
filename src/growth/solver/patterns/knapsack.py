"""What is the most that one node can hold, and in which ways can it be filled? Asked by the bound, by the choice of
machines and, for small questions, in place of the search for patterns.

| upper bound of a node's value | how | cost |
| --- | --- | --- |
| priced | any resource prices w: w·offer + Σ most_i (value_i - w·need_i)+ | all choices at once |
| fractional | the linear program of one node | under a millisecond for each choice |
| exact | the integer program without rows that cannot matter | milliseconds for dozens of rows, far more for hundreds |

Where a question is small, all full patterns (to which nothing can be added) are listed; the list is given up as soon as
it grows long. Over a complete list whole nodes are chosen by an integer program: with few pods, rounding is a matter of
luck, and limits are hard to meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from growth.solver.arrays import BOUNDLESS, FloatArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.patterns.stock import Patterns, Stock

_MIP_GAP = 5e-4
_MOST_LISTED = 200
# a bound is wanted; good patterns come from greedy pricing
_NO_HEURISTICS: dict[str, str | float] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_zi_round": False,
    "mip_heuristic_run_shifting": False,
}
MIP_NODES = 1_000  # of the search tree


@dataclass(frozen=True, slots=True)
class Fractional:
    """The most of one node if pods could be cut, and the prices of its resources there."""

    value: float
    resource_prices: FloatArray  # R


@dataclass(frozen=True, slots=True)
class Exact:
    """A pattern, a value that no pattern of the node exceeds, and what it took to find out, in simplex iterations."""

    upper: float
    pattern: FloatArray
    work: int = 0


def priced_uppers(stock: Stock, values: FloatArray, most: FloatArray, resource_prices: FloatArray) -> FloatArray:
    """K: the least of the bounds that the given resource prices (n × R) yield."""
    slack = np.maximum(values - resource_prices @ stock.need.T, 0.0)  # n × C
    slack[slack < 1e-12 * max(1e-300, float(values.max(initial=0.0)))] = 0.0
    uppers = stock.offer @ resource_prices.T  # K × n
    alone = np.ones(len(values), dtype=np.bool_)
    for members, bound in shared_bounds(stock):
        alone[members] = False
        uppers = uppers + bound * (slack[:, members][None] * stock.fits[:, None, members]).max(axis=2)
    return np.asarray((uppers + most[:, alone] @ slack[:, alone].T).min(axis=1))


def shared_bounds(stock: Stock) -> list[tuple[IntArray, float]]:
    """Disjoint sets of rows of which one node takes at most so many together."""
    found: list[tuple[IntArray, float]] = []
    free = np.ones(len(stock.count), dtype=np.bool_)
    for tally in range(stock.adds.shape[1]):
        members = np.flatnonzero(stock.adds[:, tally] & (stock.bound[:, tally] < BOUNDLESS) & free)
        if len(members) > 1:
            free[members] = False
            found.append((members, float(stock.bound[members, tally].max())))
    return found


def fractional(stock: Stock, choice: int, values: FloatArray, most: FloatArray) -> Fractional:
    """The linear program of one node."""
    rows = np.flatnonzero((most[choice] > 0) & (values > 0))
    if not len(rows):
        return Fractional(0.0, np.zeros(stock.need.shape[1]))
    found = solve_linear(_program(stock, choice, values, most[choice], rows))
    duals = found.row_duals[: stock.need.shape[1]]
    return Fractional(-found.objective, np.maximum(-duals, 0.0) / np.maximum(stock.offer[choice], 1.0))


def exact(
    stock: Stock, choice: int, values: FloatArray, most: FloatArray, enough: float, nodes: int = MIP_NODES
) -> Exact:
    """The best pattern of one node, as far as it is worth more than `enough`."""
    relaxed = fractional(stock, choice, values, most)
    nothing = np.zeros(len(values))
    if relaxed.value <= enough:
        return Exact(enough, nothing)
    listed = full_patterns(stock, choice, most, _MOST_LISTED)
    if listed is not None and len(listed):
        best = listed[int((listed @ values).argmax())]
        return Exact(max(enough, float(best @ values)), best)
    slack = np.maximum(relaxed.resource_prices @ stock.need.T - values, 0.0)
    gain = relaxed.value - enough
    # more of the row costs more than there is to gain
    allowed = np.floor(gain / np.maximum(slack, gain * 1e-15) + 1e-9)
    for members, _ in shared_bounds(stock):
        allowed[members] = BOUNDLESS
    usable = np.minimum(most[choice], allowed)
    rows = np.flatnonzero((usable > 0) & (values > 0))
    if not len(rows):
        return Exact(enough, nothing)
    program = replace(_program(stock, choice, values, usable, rows), is_integer=True)
    found = solve_linear(program, mip_rel_gap=_MIP_GAP, mip_max_nodes=nodes, **_NO_HEURISTICS)
    pattern = nothing
    if len(found.columns) == len(rows) and found.is_feasible:
        pattern[rows] = np.round(found.columns)
    upper = min(-found.lower_bound, relaxed.value) if np.isfinite(found.lower_bound) else relaxed.value
    return Exact(max(enough, upper), pattern, found.iterations)


def _program(stock: Stock, choice: int, values: FloatArray, most: FloatArray, rows: IntArray) -> LinearProgram:
    shared = [(np.flatnonzero(np.isin(rows, members)), bound) for members, bound in shared_bounds(stock)]
    shared = [(members, bound) for members, bound in shared if len(members)]
    scale = np.maximum(stock.offer[choice], 1.0)
    table = np.zeros((stock.need.shape[1] + len(shared), len(rows)))
    table[: stock.need.shape[1]] = (stock.need[rows] / scale).T
    for number, (members, _) in enumerate(shared):
        table[stock.need.shape[1] + number, members] = 1.0
    return LinearProgram(
        cost=-values[rows],
        upper=np.minimum(most[rows], stock.count[rows]),
        row_lower=np.full(len(table), -INFINITE),
        row_upper=np.concatenate([stock.offer[choice] / scale, [bound for _, bound in shared]]),
        coefficients=coefficients_of(table),
    )


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
