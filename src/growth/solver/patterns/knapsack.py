"""What is the most that one node can hold, and in which ways can it be filled? Asked by the bound, by the choice of
machines and, for small questions, in place of the search for patterns.

| upper bound of a node's value | how | cost |
| --- | --- | --- |
| priced | any resource prices w: w·offer + Σ most_i (value_i - w·need_i)+ | all choices at once |
| fractional | the linear program of one node | under a millisecond for each choice |
| exact | the integer program without rows that cannot matter | milliseconds for dozens of rows, far more for hundreds |

Where dozens of types are in the way of a proof, one table answers for many of them nearly exactly: a table over the two
resources that are short, in steps fine enough for small nodes, of what fits into so much of both. Amounts that pods
need are rounded down to steps and all other resources are left out, so every entry is an upper bound.

Where all values are multiples of one unit, so is what a node holds: an upper bound is cut to whole units, which often
says as much as an exact search.

Where a question is small, all full patterns (to which nothing can be added) are listed; the list is given up as soon as
it grows long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from growth.solver.arrays import BOUNDLESS, FloatArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.patterns.stock import Patterns, Stock

_WORTH_A_TABLE = 6
_STEPS = (192, 640)  # of the resource with fewer distinct amounts, and of the other
_LEAST_WORK = 60  # iterations that setting up an exact pricing is worth
_TINY = 1e-10  # of a value: so far may it be from a multiple of a unit
_MOST_PARTS = 4  # of the least value that a unit may be
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
_MIP_NODES = 1_000  # of the search tree


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
    stock: Stock, choice: int, values: FloatArray, most: FloatArray, enough: float, relaxed: Fractional | None = None
) -> Exact:
    """The best pattern of one node, as far as it is worth more than `enough`; `relaxed` if it is known."""
    relaxed = relaxed or fractional(stock, choice, values, most)
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
    found = solve_linear(program, mip_rel_gap=_MIP_GAP, mip_max_nodes=_MIP_NODES, **_NO_HEURISTICS)
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


@dataclass(frozen=True, slots=True)
class Sharpened:
    """Upper bounds (K) after a closer look, and patterns that were found to be worth more than their node."""

    uppers: FloatArray
    patterns: Patterns
    pricings: int
    work: int  # simplex iterations spent on exact pricing
    excess: float  # by how much values are too high at least; the upper bounds say by how much at most


def sharpen(
    stock: Stock, values: FloatArray, most: FloatArray, limit_prices: FloatArray,
    uppers: FloatArray, work: int, near: float = 1e-6,
) -> Sharpened:  # fmt: skip
    """Lower the upper bounds that are in the way, the worst first: by the fraction, then, until `work` iterations are
    spent, exactly. What is `near` enough is left as it is.

    Resource prices found for one choice are tried on all: types of one family are much alike.
    """
    own = limit_prices @ stock.limit_use
    full = stock.price + own
    most = np.minimum(most, stock.count)
    uppers = _with_table(stock, values, most, own, full, uppers)
    relaxed, is_exact = dict[int, Fractional](), np.zeros(len(uppers), dtype=np.bool_)
    patterns, choices, done, spent, excess, unit = [], [], 0, 0, 1.0, _unit_of(values)
    while len(uppers):
        uppers = _whole_units(uppers, unit)
        worst = int(ratios(stock, uppers, own).argmax())
        if is_exact[worst] or uppers[worst] <= full[worst] * (1 + near):
            break
        if worst not in relaxed:
            relaxed[worst] = fractional(stock, worst, values, most)
            uppers = np.minimum(uppers, priced_uppers(stock, values, most, relaxed[worst].resource_prices[None]))
            continue
        if spent >= work:
            break
        is_exact[worst] = True
        found = exact(stock, worst, values, most, float(full[worst]), relaxed[worst])
        uppers[worst] = min(uppers[worst], found.upper)
        done, spent = done + 1, spent + max(_LEAST_WORK, found.work)
        if found.pattern @ values > full[worst] * (1 + 1e-6):
            patterns.append(found.pattern)
            choices.append(worst)
            excess = max(excess, float(found.pattern @ values - own[worst]) / stock.price[worst])
    worthy = Patterns(np.array(patterns).reshape(len(patterns), len(values)), np.array(choices, dtype=np.int64))
    return Sharpened(uppers, worthy, done, spent, excess)


def _unit_of(values: FloatArray) -> float:
    """What all values are whole multiples of; 0 if there is no such thing. Where one resource is short, values are
    often multiples of what the smallest node costs.
    """
    positive = values[values > _TINY * float(values.max(initial=0.0))]
    least = float(positive.min(initial=np.inf))
    for parts in range(1, _MOST_PARTS + 1) if len(positive) else ():
        multiples = positive * (parts / least)
        if (np.abs(multiples - np.round(multiples)) <= _TINY * multiples).all():
            return least / parts
    return 0.0


def _whole_units(uppers: FloatArray, unit: float) -> FloatArray:
    """No node holds a part of a unit."""
    if not unit:
        return uppers
    return np.minimum(uppers, np.floor(uppers / unit * (1 + 1e-9)) * unit * (1 + 1e-9))


def _with_table(
    stock: Stock, values: FloatArray, most: FloatArray, own: FloatArray, full: FloatArray, uppers: FloatArray
) -> FloatArray:
    """The bounds of a table, where several choices are in the way: first by fractions, then by what the table says of
    those that are left.
    """
    uppers, asked = uppers.copy(), np.flatnonzero(uppers > full * (1 + 1e-6))
    if len(asked) < _WORTH_A_TABLE:
        return uppers
    for worst in asked[np.argsort(-ratios(stock, uppers, own)[asked], kind="stable")][:_WORTH_A_TABLE]:
        relaxed = fractional(stock, int(worst), values, most)
        uppers = np.minimum(uppers, priced_uppers(stock, values, most, relaxed.resource_prices[None]))
    asked = np.flatnonzero(uppers > full * (1 + 1e-6))
    if len(asked) >= _WORTH_A_TABLE:
        uppers[asked] = np.minimum(uppers[asked], _table_uppers(stock, values, most, asked))
    return uppers


def ratios(stock: Stock, uppers: FloatArray, own: FloatArray) -> FloatArray:
    """By how much values would have to be scaled down for each choice."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(uppers <= own, 0.0, (uppers - own) / stock.price)


def _table_uppers(stock: Stock, values: FloatArray, most: FloatArray, asked: IntArray) -> FloatArray:
    """For the choices asked about: at most so much value fits. Infinite for nodes that are too large for the steps of
    the table.
    """
    uppers = np.full(len(asked), np.inf)
    rows = np.flatnonzero((values > 0) & (most[asked] > 0).any(axis=0))
    resources = _short_resources(stock, rows, asked)
    if len(resources) < 2 or not len(rows):
        return uppers
    steps = np.array([_step(stock.need[rows, resource]) for resource in resources])
    cells = np.floor(stock.offer[asked][:, resources] / steps)
    inside = np.flatnonzero((cells < _STEPS).all(axis=1))
    if not len(inside):
        return uppers
    places = cells[inside].astype(np.int64)
    sizes = np.floor(stock.need[np.ix_(rows, resources)] / steps).astype(np.int64)
    copies = np.minimum(most[np.ix_(asked[inside], rows)].max(axis=0), 1e6).astype(np.int64)
    table = _fill_table(np.zeros(tuple(places.max(axis=0) + 1)), stock, rows, sizes, copies, values)
    uppers[inside] = table[places[:, 0], places[:, 1]]
    return uppers


def _short_resources(stock: Stock, rows: IntArray, asked: IntArray) -> IntArray:
    """The two resources of which the valued pods take the largest shares of a node."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = stock.need[rows] / np.maximum(stock.offer[asked].max(axis=0), 1.0)
    weight = (share * np.minimum(stock.count[rows], 1e6)[:, None]).sum(axis=0)
    short = np.argsort(-weight, kind="stable")[:2]
    short = short[weight[short] > 0]
    distinct = [len(np.unique(stock.need[rows, resource])) for resource in short]
    return np.asarray(short[np.argsort(distinct, kind="stable")])


def _step(needs: FloatArray) -> float:
    """What all amounts are multiples of, or if that is tiny, a quarter of the smallest."""
    positive = needs[needs > 0].astype(np.int64)
    return max(float(np.gcd.reduce(positive)), float(positive.min()) / 4) if len(positive) else 1.0


def _fill_table(
    table: FloatArray, stock: Stock, rows: IntArray, sizes: IntArray, copies: IntArray, values: FloatArray
) -> FloatArray:
    """First the rows that may come in any number, then at most so many of each set that shares a bound."""
    shared = next((members for members, bound in shared_bounds(stock) if bound <= 1), np.zeros(0, dtype=np.int64))
    alone = ~np.isin(rows, shared)
    for number in np.flatnonzero(alone):
        taken, step = 0, 1
        while taken < copies[number]:  # 1, 2, 4, … copies make every count up to the last
            step = min(step, int(copies[number]) - taken)
            table = _better(table, sizes[number] * step, float(values[rows[number]]) * step)
            if (sizes[number] * (taken + step) >= np.array(table.shape)).any():
                break
            taken, step = taken + step, step * 2
    best = table
    for number in np.flatnonzero(~alone):
        best = np.maximum(best, _better(table, sizes[number], float(values[rows[number]])))
    return best


def _better(table: FloatArray, size: IntArray, value: float) -> FloatArray:
    """With one more thing of this size and value, where that is better."""
    across, down = int(size[0]), int(size[1])
    if across >= table.shape[0] or down >= table.shape[1]:
        return table
    improved = table.copy()
    inner = improved[across:, down:]
    np.maximum(inner, table[: table.shape[0] - across, : table.shape[1] - down] + value, out=inner)
    return improved


_MOST_VISITED = 1_500
_MOST_ROWS = 10


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
