"""How does a plan read as an answer, why is no place left for the rest, and how near to the optimum is it? Asked at the
end, whatever stage placed the pods.

Counts of classes go back to the demand classes they were made of. Reasons add up over all rooms and all choices. The
bound forgets zones, and the order in which anything was done: rows are classes with everything they may go to. Two sets
of values are tried, those of the fluid program and those of the pattern program; the better proof counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from growth.model.resources import format_amount
from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.bound import ProvenBound, no_bound, prove, sharpen
from growth.solver.patterns.fluid import Selected, select
from growth.solver.patterns.knapsack import priced_uppers
from growth.solver.patterns.stock import Stock
from growth.solver.purchase.bins import Bins, planned, price_of
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.problem import Pattern, Placement, PlacementSolution, PlannedNode, Proof, Stage, Unplaced
from growth.solver.purchase.rows import RelaxedRows, Rows, everything, rows_of

_EXACT_ROWS = 64
_DEAREST = 10.0  # times the price of the dearest node: the most that a place under a limit is worth


def write_answer(
    bins: Bins, left_over: IntArray, bound: ProvenBound, stages: tuple[Stage, ...], patterns: tuple[Pattern, ...]
) -> PlacementSolution:
    """The solution of what is in the bins; `left_over` pods of each class found no place."""
    layout = bins.layout
    dealer = Dealer(layout)
    placements = dealer.placements(bins)
    nodes = [
        PlannedNode(int(layout.choice_index[bins.choice[number]]), dealer.deal(bins.contents[number]))
        for number in planned(bins)
    ]
    unplaced = []
    for index in np.flatnonzero(left_over):
        reasons = _why_unplaced(bins, int(index))
        dealt = dealer.deal({int(index): int(left_over[index])})
        unplaced += [Unplaced(demand, count, reasons) for demand, count in dealt]
    values = [0.0] * len(layout.problem.demands)
    for value, members in zip(bound.values, layout.members, strict=True):
        for demand in members:
            values[demand] = float(value)
    return PlacementSolution(
        "IncompletePlacement" if unplaced else "AllPlaced",
        placements=placements,
        nodes=tuple(nodes),
        unplaced=tuple(sorted(unplaced, key=lambda one: one.demand)),
        price_per_hour=price_of(bins),
        lower_bound=bound.lower_bound,
        stages=stages,
        proof=Proof(tuple(values), tuple(float(price) for price in bound.limit_prices)),
        patterns=patterns,
    )


class Dealer:
    """Turns counts of classes into counts of the demand classes they were made of, one demand class after the other."""

    def __init__(self, layout: Layout) -> None:
        demands = layout.problem.demands
        self._left = [[[demand, demands[demand].count] for demand in members] for members in layout.members]

    def deal(self, counts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
        dealt: dict[int, int] = {}
        for index, wanted in sorted(counts.items()):
            left, missing = self._left[index], wanted
            while missing:
                demand, most = left[-1]
                taken = min(most, missing)
                dealt[demand] = dealt.get(demand, 0) + taken
                missing -= taken
                left[-1][1] -= taken
                if not left[-1][1]:
                    left.pop()
        return tuple(sorted(dealt.items()))

    def placements(self, bins: Bins) -> tuple[Placement, ...]:
        """What is in the rooms."""
        found = []
        for room in range(bins.rooms):
            number = int(bins.layout.room_index[room])
            found += [Placement(demand, number, count) for demand, count in self.deal(bins.contents[room])]
        return tuple(sorted(found, key=lambda one: (one.room, one.demand)))


# ---------------------------------------------------------------------------------------- no place


def _why_unplaced(bins: Bins, index: int) -> tuple[str, ...]:
    """Why pods of a class found no place: sentences for people, the most frequent reason first."""
    shape = bins.layout.shapes[index]
    if shape.malformed:
        return (shape.malformed,)
    counted = Counter(_room_reason(bins, index, room) for room in range(bins.rooms))
    rooms = tuple(f"{count} of {bins.rooms} nodes: {reason}" for reason, count in counted.most_common())
    return rooms + _choices_refuse(bins, index)


def _room_reason(bins: Bins, index: int, room: int) -> str:
    layout = bins.layout
    if not layout.problem.rooms[int(layout.room_index[room])].is_open:
        return "takes no pods"
    if not layout.room_fits[index, room]:
        return "selector, affinity or taints do not agree"
    amounts = zip(layout.resources, layout.need[index], bins.left[room], strict=True)
    short = [name for name, need, left in amounts if need > left]
    return f"insufficient {', '.join(short)}" if short else "rules between pods"


def _choices_refuse(bins: Bins, index: int) -> tuple[str, ...]:
    layout = bins.layout
    if not len(layout.price):
        return ("no offering can be bought",)
    pools = layout.problem.demands[layout.members[index][0]].pools
    numbers = enumerate(layout.choice_index)
    offered = [choice for choice, number in numbers if layout.problem.choices[int(number)].pool in pools]
    if not offered:
        return (f"no offering in its pools ({', '.join(pools) or 'none'})",)
    openable = bins.openable()
    counted = Counter(_choice_reason(bins, index, choice, int(openable[choice])) for choice in offered)
    return tuple(f"{count} of {len(offered)} offerings: {reason}" for reason, count in counted.most_common())


def _choice_reason(bins: Bins, index: int, choice: int, openable: int) -> str:
    layout = bins.layout
    if not layout.fits[index, choice]:
        return "selector, affinity or taints do not agree"
    amounts = zip(layout.resources, layout.need[index], layout.offer[choice], strict=True)
    short = [
        f"{name} (needs {format_amount(name, int(need))})" for name, need, offer in amounts if need > max(offer, 0)
    ]
    if short:
        return f"too small in {', '.join(short)}"
    if openable > 0:
        return "rules between pods"
    limits = zip(layout.limit_name, layout.limit_use[:, choice], bins.limit_left, strict=True)
    reached = [name for name, use, left in limits if use > left + 1e-9]
    return f"limit reached: {', '.join(reached)}" if reached else "limit reached"


# --------------------------------------------------------------------------------------- the bound


def prove_bound(bins: Bins, placed: IntArray, found: Sequence[RelaxedRows], left_out: FloatArray) -> ProvenBound:
    """What no placement of these pods can undercut, with the values of classes that prove it; `left_out` is the price
    of leaving out a pod of each class.
    """
    layout = bins.layout
    rows = rows_of(layout, everything(layout, placed), layout.limit_bound, with_spreads=False)
    stock = rows.stock
    free = np.maximum(layout.room_left[layout.room_fits.any(axis=0)], 0).sum(axis=0).astype(np.float64)
    same = next((relaxed for relaxed in found if _is_same(relaxed.rows.stock, stock)), None)
    selected = same.relaxation.selected if same is not None else _select(layout, rows, placed, free, left_out)
    if not len(selected.choices):
        return replace(no_bound(stock), values=np.zeros(len(layout.count)))
    limit_prices = _moderate(stock, selected.fluid.limit_prices)
    values = _within_reason(stock, selected.fluid.values, limit_prices)
    best = prove(stock, free, _uppers(stock, selected, values, limit_prices, None, 0), values, limit_prices)
    for relaxed in found:
        is_same, program = relaxed is same, relaxed.relaxation
        values = program.values
        if not is_same:
            values = _values_for(layout, rows, relaxed, selected.fluid.values)
        limit_prices = _moderate(stock, program.limit_prices)
        values = _within_reason(stock, values, limit_prices)
        is_worth_it = (same is None or is_same) and len(stock.count) <= _EXACT_ROWS
        work = layout.problem.budget.exact_iterations if is_worth_it else 0
        uppers = _uppers(stock, selected, values, limit_prices, program.uppers if is_same else None, work)
        other = prove(stock, free, uppers, values, limit_prices)
        best = other if other.lower_bound > best.lower_bound else best
    of_class = np.zeros(len(layout.count))
    for row, group in enumerate(rows.parts):
        of_class[[part.index for part in group]] = best.values[row]
    return replace(best, values=of_class)


def _is_same(one: Stock, other: Stock) -> bool:
    names = ("need", "count", "cap", "fits", "limit_bound", "adds", "bound")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _select(layout: Layout, rows: Rows, placed: IntArray, free: FloatArray, left_out: FloatArray) -> Selected:
    """The choices that matter and the fluid program over them; of very many rows, by the program over merged ones."""
    merged = rows_of(layout, everything(layout, placed), layout.limit_bound, with_spreads=False, may_merge=True)
    found = select(merged.stock, left_out[[group[0].index for group in merged.parts]], free)
    if not merged.is_coarse:
        return found
    of_class = _true_values(layout, merged, found, found.fluid.values)
    values = np.array([of_class[group[0].index] for group in rows.parts])
    return replace(found, fluid=replace(found.fluid, values=values), most=rows.stock.most_on_node())


def _true_values(layout: Layout, merged: Rows, selected: Selected, values: FloatArray) -> FloatArray:
    """For each class what a pod of it is worth, where its row is worth so much: in proportion to what its true size
    costs, at the prices of resources where that is cheapest. The fluid program itself would say the same.
    """
    prices = selected.fluid.resource_prices
    of_class = np.zeros(len(layout.count))
    for row, group in enumerate(merged.parts):
        indices = [part.index for part in group]
        fitting = prices[merged.stock.fits[selected.choices, row]]
        if len(fitting):
            cost = (fitting @ layout.need[indices].T).min(axis=0)
            of_class[indices] = values[row] * cost / max(float((fitting @ merged.stock.need[row]).min()), 1e-300)
    return of_class


def _values_for(layout: Layout, rows: Rows, packed: RelaxedRows, otherwise: FloatArray) -> FloatArray:
    """Each row's value as the mean over its pods in the packed rows; pods that were packed nowhere count by the fluid
    program's value.
    """
    worth, count = np.zeros(len(layout.count)), np.zeros(len(layout.count))
    program = packed.relaxation
    of_class = _true_values(layout, packed.rows, program.selected, program.values) if packed.rows.is_coarse else None
    for row, group in enumerate(packed.rows.parts):
        for part in group:
            worth[part.index] += (program.values[row] if of_class is None else of_class[part.index]) * part.count
            count[part.index] += part.count
    found = otherwise.copy()
    for row, group in enumerate(rows.parts):
        packed_pods = sum(count[part.index] for part in group)
        if packed_pods:
            found[row] = sum(worth[part.index] for part in group) / packed_pods
    return found


def _moderate(stock: Stock, limit_prices: FloatArray) -> FloatArray:
    """A limit that cannot be met has a price without bound: beside it, what nodes cost would be lost in rounding. Any
    price is as valid.
    """
    if not len(limit_prices):
        return limit_prices
    least = np.where(stock.limit_use > 0, stock.limit_use, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(np.minimum(limit_prices, _DEAREST * float(stock.price.max(initial=0.0)) / least))


def _within_reason(stock: Stock, values: FloatArray, limit_prices: FloatArray) -> FloatArray:
    """No pod is worth more than the cheapest node it could have for itself; one that cannot have any is worth nothing
    here.
    """
    full = stock.price + limit_prices @ stock.limit_use
    alone = np.where(stock.fits, full[:, None], np.inf).min(axis=0, initial=np.inf)
    return np.where(np.isfinite(alone), np.minimum(values, alone), 0.0)


def _uppers(
    stock: Stock, selected: Selected, values: FloatArray, limit_prices: FloatArray, known: FloatArray | None, work: int
) -> FloatArray:
    """The most that a node of each choice can hold: one choice of each kind is looked at closely, and its equals are
    held to the same.
    """
    uppers = priced_uppers(stock, values, np.minimum(selected.most, stock.count), selected.fluid.resource_prices)
    if known is not None:
        uppers[selected.choices] = np.minimum(uppers[selected.choices], known)
    found: dict[bytes, list[int]] = {}
    for choice in range(len(stock.price)):
        found.setdefault(stock.offer[choice].tobytes() + np.packbits(stock.fits[choice]).tobytes(), []).append(choice)
    kinds = list(found.values())
    firsts = np.array([min(kind, key=lambda choice: (stock.price[choice], choice)) for kind in kinds], dtype=np.int64)
    least = np.array([min(float(uppers[choice]) for choice in kind) for kind in kinds])
    sharp = sharpen(stock.with_choices(firsts), values, selected.most[firsts], limit_prices, least, work).uppers
    for kind, upper in zip(kinds, sharp, strict=True):
        uppers[kind] = np.minimum(uppers[kind], upper)
    return uppers
