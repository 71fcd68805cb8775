"""What can no placement of these pods undercut?

Give each row of pods a value v and each limit a price m. If no node of any choice can hold more value than it costs
(its limits' prices included), then Σ v·count - Σ m·bound - (most value that the rooms can hold) is a lower bound:
Lagrange's. Values that are too high are scaled down until they pass (Farley). So the proof is the values; how they were
found does not matter. The fluid program's values pass by duality; those of the pattern program are higher, but have to
be checked against the best pattern of each choice, or an upper bound of it.

Where dozens of types are in the way of a proof, one table answers for many of them nearly exactly: a table over the two
resources that are short, in steps fine enough for small nodes, of what fits into so much of both. Amounts that pods
need are rounded down to steps and all other resources are left out, so every entry is an upper bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.knapsack import MIP_NODES, exact, fractional, priced_uppers, shared_bounds
from growth.solver.patterns.stock import Patterns, RoomLeft, Stock

_WORTH_A_TABLE = 6
_STEPS = (192, 640)  # of the resource with fewer distinct amounts, and of the other
_LEAST_WORK = 60  # iterations that setting up an exact pricing is worth
_SAFETY = 1 - 1e-5  # the linear solver's tolerances are never read as proof


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """Values of rows and prices of limits that pass, and what they prove."""

    lower_bound: float
    values: FloatArray
    limit_prices: FloatArray


def no_bound(stock: Stock) -> ProvenBound:
    return ProvenBound(0.0, np.zeros(len(stock.count)), np.zeros(len(stock.limit_bound)))


def prove(
    stock: Stock, rooms: RoomLeft, uppers: FloatArray, values: FloatArray, limit_prices: FloatArray
) -> ProvenBound:
    """The bound that `values` prove, given upper bounds (K) of what a node of each choice can hold at these values."""
    own = limit_prices @ stock.limit_use
    scale = max(1.0, float(_ratios(stock, uppers, own).max(initial=0.0)))
    if not np.isfinite(scale):
        return no_bound(stock)
    values, limit_prices = values / scale, limit_prices / scale
    of_nodes = float(values @ stock.count - limit_prices @ stock.limit_bound)
    proven = _SAFETY * (of_nodes - _room_value(stock, rooms, values))
    is_more_than_rounding = proven > 1e-6 * float(stock.price.max(initial=0.0))
    return ProvenBound(proven, values, limit_prices) if is_more_than_rounding else no_bound(stock)


def _room_value(stock: Stock, left: RoomLeft, values: FloatArray) -> float:
    """At most so much value fits into the rooms, all of them taken as one node that can be cut; of each row no more
    than fits into them one by one.
    """
    if not left:
        return 0.0
    rows = len(stock.count)
    rooms = Stock(
        stock.need, stock.count, np.full_like(stock.cap, np.inf),
        np.maximum(left.free, 0.0)[None], np.ones(1), (left.most > 0)[None], np.zeros((0, 1)), np.zeros(0),
        np.zeros((rows, 0), dtype=np.bool_), np.zeros((rows, 0)), np.zeros((1, 0)), np.zeros((1, 0)),
    )  # fmt: skip
    most = np.minimum(stock.count, left.most)[None]
    relaxed = fractional(rooms, 0, values, most)
    return float(priced_uppers(rooms, values, most, relaxed.resource_prices[None])[0])


@dataclass(frozen=True, slots=True)
class Sharpened:
    """Upper bounds (K) after a closer look, and patterns that were found to be worth more than their node."""

    uppers: FloatArray
    patterns: Patterns
    pricings: int
    work: int  # simplex iterations spent on exact pricing


def sharpen(
    stock: Stock, values: FloatArray, most: FloatArray, limit_prices: FloatArray,
    uppers: FloatArray, work: int, nodes: int = MIP_NODES,
) -> Sharpened:  # fmt: skip
    """Lower the upper bounds that are in the way, the worst first: by the fraction, then, until `work` iterations are
    spent, exactly.

    Resource prices found for one choice are tried on all: types of one family are much alike.
    """
    own = limit_prices @ stock.limit_use
    full = stock.price + own
    most = np.minimum(most, stock.count)
    uppers = _with_table(stock, values, most, own, full, uppers)
    is_fractional, is_exact = np.zeros(len(uppers), dtype=np.bool_), np.zeros(len(uppers), dtype=np.bool_)
    patterns, choices, done, spent = [], [], 0, 0
    while len(uppers):
        worst = int(_ratios(stock, uppers, own).argmax())
        if is_exact[worst] or uppers[worst] <= full[worst] * (1 + 1e-6):
            break
        if not is_fractional[worst]:
            is_fractional[worst] = True
            relaxed = fractional(stock, worst, values, most)
            uppers = np.minimum(uppers, priced_uppers(stock, values, most, relaxed.resource_prices[None]))
            continue
        if spent >= work:
            break
        is_exact[worst] = True
        found = exact(stock, worst, values, most, float(full[worst]), nodes)
        uppers[worst] = min(uppers[worst], found.upper)
        done, spent = done + 1, spent + max(_LEAST_WORK, found.work)
        if found.pattern @ values > full[worst] * (1 + 1e-6):
            patterns.append(found.pattern)
            choices.append(worst)
    worthy = Patterns(np.array(patterns).reshape(len(patterns), len(values)), np.array(choices, dtype=np.int64))
    return Sharpened(uppers, worthy, done, spent)


def _with_table(
    stock: Stock, values: FloatArray, most: FloatArray, own: FloatArray, full: FloatArray, uppers: FloatArray
) -> FloatArray:
    """The bounds of a table, where several choices are in the way: first by fractions, then by what the table says of
    those that are left.
    """
    uppers, asked = uppers.copy(), np.flatnonzero(uppers > full * (1 + 1e-6))
    if len(asked) < _WORTH_A_TABLE:
        return uppers
    for worst in asked[np.argsort(-_ratios(stock, uppers, own)[asked], kind="stable")][:_WORTH_A_TABLE]:
        relaxed = fractional(stock, int(worst), values, most)
        uppers = np.minimum(uppers, priced_uppers(stock, values, most, relaxed.resource_prices[None]))
    asked = np.flatnonzero(uppers > full * (1 + 1e-6))
    if len(asked) >= _WORTH_A_TABLE:
        uppers[asked] = np.minimum(uppers[asked], _table_uppers(stock, values, most, asked))
    return uppers


def _ratios(stock: Stock, uppers: FloatArray, own: FloatArray) -> FloatArray:
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
