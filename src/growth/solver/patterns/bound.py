"""What can no placement of these pods undercut?

Give each row of pods a value v and each limit a price m. If no node of any choice can hold more value than it costs
(its limits' prices included), then Σ v·count - Σ m·bound - (most value that the rooms can hold) is a lower bound:
Lagrange's. Values that are too high are scaled down until they pass (Farley). So the proof is the values; how they were
found does not matter. The fluid program's values pass by duality; those of the pattern program are higher, but have to
be checked against the best pattern of each choice, or an upper bound of it.

Pods are cut in the fluid program, so its bound is low where many pods of one row are large beside the cheapest nodes:
of pods that take half a node and a little more, it puts nearly two onto each. `prove_whole` does not cut a few rows.
Each choice is offered once for every content of such rows that a node of it may begin with; what that leaves is for all
other pods, which are still cut, but only if one of them fits into it. This is the fluid program with more choices, and
nearly as quick. The proof: whatever a node holds begins with one of these contents, so it holds no more value than the
best of them and the most that other pods are worth in what is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from growth.solver.arrays import BoolArray, FloatArray, IntArray
from growth.solver.patterns.fluid import Fluid, solve_fluid
from growth.solver.patterns.knapsack import fractional, priced_uppers, ratios
from growth.solver.patterns.stock import RoomLeft, Stock

_DEAREST = 10.0  # times the price of the dearest node: the most that a place under a limit is worth
_ROUNDING = 1e-11  # of the largest value
_UNIT = 1e-12  # of prices, where their sums are compared
_CLEARLY = 1 - 2e-5  # what is so little below the bound may be equal to it
_FEW_NODES = 12
_MOST_SUMS = 4000
_SAFETY = 1 - 1e-5  # the linear solver's tolerances are never read as proof
_MOST_WHOLE = 4
_MOST_WHOLE_BESIDE_CAPS = 2  # where a node takes few of many rows: more make the program slow, and the proof no better
_LEAST_SHARE = 0.02  # of the bound: what a row must be worth to be whole
_FEW = 6  # of a row on a node: of more, cut ones are no better
_LONGEST = 16  # contents that one choice may begin with
_MOST_GROUPS = 400
_MOST_CAPS = 12_000  # groups of which a node takes few, times the choices that have begun: more take seconds
_MOST_ITERATIONS = 2_000  # of simplex: where it proves more, it does so in half of that; else it may take 30,000
_RATIO = 1.15  # of sizes that are taken together at first
_WIDEST = 4.0  # beyond that, there may be more groups


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
    scale = max(1.0, float(ratios(stock, uppers, own).max(initial=0.0)))
    if not np.isfinite(scale):
        return no_bound(stock)
    values, limit_prices = values / scale, limit_prices / scale
    of_nodes = float(values @ stock.count - limit_prices @ stock.limit_bound)
    proven = _SAFETY * (of_nodes - _room_value(stock, rooms, values))
    is_more_than_rounding = proven > 1e-6 * float(stock.price.max(initial=0.0))
    return ProvenBound(proven, values, limit_prices) if is_more_than_rounding else no_bound(stock)


def of_whole_nodes(bound: float, prices: FloatArray) -> float:
    """Nodes are bought whole: the least sum of such prices that is not below the bound. Where many nodes are bought the
    sums lie close together, and the bound stays as it is.
    """
    units = sorted({round(float(price) / _UNIT) for price in prices if price > _UNIT})
    least = math.ceil(bound * _CLEARLY / _UNIT)
    if least <= 0 or not units or least > _FEW_NODES * units[0]:
        return bound
    sums, found, best = {0}, {0}, math.inf
    while found:
        found = {total + unit for total in found for unit in units} - sums
        best = min(best, min((total for total in found if total >= least), default=best))
        found = {total for total in found if total < least}
        sums |= found
        if len(sums) > _MOST_SUMS:
            return bound
    return best * _UNIT


def moderate(stock: Stock, limit_prices: FloatArray) -> FloatArray:
    """A limit that cannot be met has a price without bound: beside it, what nodes cost would be lost in rounding. Any
    price is as valid.
    """
    if not len(limit_prices):
        return limit_prices
    least = np.where(stock.limit_use > 0, stock.limit_use, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(np.minimum(limit_prices, _DEAREST * float(stock.price.max(initial=0.0)) / least))


def within_reason(stock: Stock, values: FloatArray, limit_prices: FloatArray) -> FloatArray:
    """No pod is worth more than the cheapest node it could have for itself; one that cannot have any is worth nothing
    here, and what is left of rounding is nothing.
    """
    full = stock.price + limit_prices @ stock.limit_use
    alone = np.where(stock.fits, full[:, None], np.inf).min(axis=0, initial=np.inf)
    is_worth_something = np.isfinite(alone) & (values > _ROUNDING * float(values.max(initial=0.0)))
    return np.where(is_worth_something, np.minimum(values, alone), 0.0)


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


# --------------------------------------------------------------------------------- rows that are whole


def prove_whole(
    stock: Stock, choices: IntArray, rooms: RoomLeft, left_out: FloatArray, known: ProvenBound
) -> ProvenBound:
    """A better bound than the one known, if the most valuable rows yield one when they are whole; `choices` are those
    that matter, `left_out` (C) is the price of leaving out a pod.
    """
    worth, is_capped = known.values * stock.count, bool((stock.cap < stock.count).any())
    whole = np.argsort(-worth, kind="stable")[: _MOST_WHOLE_BESIDE_CAPS if is_capped else _MOST_WHOLE]
    whole = whole[worth[whole] > _LEAST_SHARE * worth.sum()]
    if not len(whole):
        return known
    begun = _Begun.of(stock.with_choices(choices), whole)
    alike = _Alike.of(begun.rest, whole)
    if alike.caps(begun.rest) > _MOST_CAPS or len(alike.first) > 2 * _MOST_GROUPS:
        return known
    fluid = alike.fluid(begun, rooms, left_out)
    limit_prices = moderate(stock, fluid.limit_prices)
    values = within_reason(stock, alike.true_values(begun.rest, fluid), limit_prices)
    uppers = priced_uppers(stock, values, np.minimum(stock.most_on_node(), stock.count), fluid.resource_prices)
    for choice in np.flatnonzero(uppers > stock.price + limit_prices @ stock.limit_use):
        one = stock.with_choices(np.array([choice]))
        uppers[choice] = min(uppers[choice], _Begun.of(one, whole).upper(values, fluid.resource_prices))
    found = prove(stock, rooms, uppers, values, limit_prices)
    return found if found.lower_bound > known.lower_bound else known


@dataclass(frozen=True, slots=True)
class _Begun:
    """Choices, each with a content of whole rows that a node of it may begin with."""

    contents: FloatArray  # K' × C
    rest: Stock  # these choices, offering what the content leaves

    @staticmethod
    def of(stock: Stock, whole: IntArray) -> _Begun:
        most = np.minimum(stock.most_on_node(), stock.count)
        contents, owners = [], []
        is_listed = np.zeros(stock.fits.shape, dtype=np.bool_)
        for choice in range(len(stock.price)):
            found = np.zeros((1, len(stock.count)))
            for row in whole[most[choice, whole] <= _FEW]:
                longer = np.repeat(found, int(most[choice, row]) + 1, axis=0)
                longer[:, row] = np.tile(np.arange(most[choice, row] + 1), len(found))
                longer = longer[(longer @ stock.need <= stock.offer[choice]).all(axis=1)]
                if len(longer) <= _LONGEST:
                    found, is_listed[choice, row] = longer, True
            contents.append(found)
            owners.append(np.full(len(found), choice, dtype=np.int64))
        return _Begun._with(stock, np.concatenate(contents), np.concatenate(owners), is_listed)

    @staticmethod
    def _with(stock: Stock, contents: FloatArray, owners: IntArray, is_listed: BoolArray) -> _Begun:
        chosen = stock.with_choices(owners)
        offer = chosen.offer - contents @ stock.need
        fits = chosen.fits & ~is_listed[owners] & (stock.need[None] <= offer[:, None]).all(axis=2)
        return _Begun(contents, replace(chosen, offer=offer, fits=fits))

    def upper(self, values: FloatArray, resource_prices: FloatArray) -> float:
        """At most so much value is on one node, whatever it begins with."""
        most = np.minimum(self.rest.most_on_node(), self.rest.count)
        return float((self.contents @ values + priced_uppers(self.rest, values, most, resource_prices)).max())


@dataclass(frozen=True, slots=True)
class _Alike:
    """Groups of rows that are nearly equal in size and fit into the same rests; a whole row is one by itself."""

    group: IntArray  # C: its number
    first: IntArray  # G: a row of each group
    count: FloatArray  # G
    need: FloatArray  # G × R: the mean of its pods

    @staticmethod
    def of(rest: Stock, whole: IntArray) -> _Alike:
        own = np.zeros((len(rest.count), 1))
        own[whole, 0] = whole + 1
        is_capped = (rest.cap < rest.count)[:, None]
        same = [np.packbits(rest.fits.T, axis=1), rest.need > 0, rest.adds, rest.bound, is_capped, own]
        ratio = _RATIO
        while True:
            sizes = np.floor(np.log(np.maximum(rest.need, 1.0)) / np.log(ratio))
            _, first, group = np.unique(np.hstack([*same, sizes]), axis=0, return_index=True, return_inverse=True)
            if len(first) <= _MOST_GROUPS or ratio > _WIDEST:
                break
            ratio **= 1.5
        group = group.reshape(-1)
        count = _sums(group, rest.count)
        need = np.stack([_sums(group, rest.count * part) / count for part in rest.need.T], axis=1)
        return _Alike(group, first, count, need)

    def caps(self, rest: Stock) -> int:
        """How many bounds of a group on a node of a choice the program has."""
        return len(rest.price) * int((rest.cap < rest.count)[self.first].sum())

    def fluid(self, begun: _Begun, rooms: RoomLeft, left_out: FloatArray) -> Fluid:
        """The fluid program over these groups, on choices that have begun."""
        rest = replace(
            begun.rest,
            need=self.need,
            count=self.count,
            cap=_sums(self.group, begun.rest.cap),
            fits=begun.rest.fits[:, self.first],
            adds=begun.rest.adds[self.first],
            bound=begun.rest.bound[self.first],
        )
        held = np.stack([_sums(self.group, content) for content in begun.contents])
        room_left = replace(rooms, most=_sums(self.group, rooms.most))
        return solve_fluid(rest, left_out[self.first], room_left, held, _MOST_ITERATIONS)

    def true_values(self, rest: Stock, fluid: Fluid) -> FloatArray:
        """C: in proportion to what the true size of a row costs, at the prices of resources where that is cheapest."""
        found = fluid.values[self.group]
        of_row, of_group = fluid.resource_prices @ rest.need.T, fluid.resource_prices @ self.need.T
        cheapest = np.where(rest.fits, of_row, np.inf).min(axis=0)
        mean = np.where(rest.fits, of_group[:, self.group], np.inf).min(axis=0)
        is_cut = np.isfinite(cheapest) & (mean > 0)
        return np.where(is_cut, found * np.where(is_cut, cheapest, 1.0) / np.where(is_cut, mean, 1.0), found)


def _sums(group: IntArray, amounts: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(group, amounts), dtype=np.float64)
