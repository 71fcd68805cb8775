"""A correct plan at once: class by class, the largest first, into rooms, then onto nodes bought where they hold most
for their price.

Asked by `solver/purchase/solve` for the first answer, and again for whatever cleverer stages leave over. It keeps every
rule exactly because each step asks `Bins`; it never looks back."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import MANY, BoolArray, FloatArray, IntArray
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.together import place_together, sticks_together

_LOOKAHEAD = 60  # classes that are thought of when a node is chosen


def place_all(bins: Bins, remaining: IntArray) -> IntArray:
    """Put `remaining` pods of each class somewhere; returns how many of each found no place."""
    layout = bins.layout
    unit = unit_prices(layout)
    remaining = place_together(bins, remaining)
    for index in placing_order(layout, unit):
        if remaining[index]:
            place_class(bins, index, remaining, unit)
    for waiting in np.flatnonzero(remaining):  # an affinity may have waited for a class that came later
        place_class(bins, int(waiting), remaining, unit)
    if remaining.any():
        _squeeze_in(bins, remaining)
    return remaining


def _squeeze_in(bins: Bins, remaining: IntArray) -> None:
    """The last resort: no more nodes are coming, so rules are read as they stand, and not one bit stricter."""
    bins.is_strict = False
    for waiting in np.flatnonzero(remaining):
        while remaining[waiting] and _into_bins(bins, int(waiting), remaining):
            pass
    bins.is_strict = True


def unit_prices(layout: Layout) -> FloatArray:
    """What one pod of each class costs where it is cheapest, by its largest share of a node."""
    if not len(layout.price):
        return np.ones(len(layout.count))
    known: dict[bytes, float] = {}
    prices = np.ones(len(layout.count))
    for index in range(len(layout.count)):
        name = layout.need[index].tobytes() + np.packbits(layout.fits[index]).tobytes()
        if name not in known:
            share = largest_share(layout, index)
            usable = layout.fits[index] & (share <= 1)
            known[name] = max(1e-12, float((layout.price * share)[usable].min())) if usable.any() else 1.0
        prices[index] = known[name]
    return prices


def largest_share(layout: Layout, index: int) -> FloatArray:
    """The largest share of any resource that one pod of the class takes of each choice."""
    asked = np.flatnonzero(layout.need[index])
    with np.errstate(divide="ignore"):
        return np.asarray((layout.need[index, asked] / np.maximum(layout.offer[:, asked], 0)).max(axis=1))


def placing_order(layout: Layout, unit: FloatArray) -> list[int]:
    """Real before virtual, important before unimportant, those with few choices before the others, then the dearest
    first.
    """
    shapes = layout.shapes
    return sorted(
        range(len(unit)),
        key=lambda index: (bool(layout.is_virtual[index]), -shapes[index].priority, -unit[index], index),
    )


def place_class(bins: Bins, index: int, remaining: IntArray, unit: FloatArray) -> None:
    """All of one class that can be placed."""
    while remaining[index]:
        if _into_bins(bins, index, remaining) or _onto_new_node(bins, index, remaining, unit):
            continue
        return


def _into_bins(bins: Bins, index: int, remaining: IntArray) -> bool:
    """Into what stands there already; False when nothing takes another pod."""
    space = bins.space(index)
    takers = np.flatnonzero(space)
    if not len(takers):
        return False
    layout = bins.layout
    order = takers[np.lexsort((takers, slack(bins, index, takers), kind_rank(bins, takers)))]
    if _shares_a_budget(layout, index):
        number = int(order[0])
        taken = min(
            int(space[number]), int(remaining[index]), _fair_share(bins, index, len(order), int(remaining[index]))
        )
        bins.put(index, number, taken)
        remaining[index] -= taken
        return True
    for number in order:
        taken = min(int(space[number]), int(remaining[index]))
        bins.put(index, int(number), taken)
        remaining[index] -= taken
        if not remaining[index]:
            break
    return True


def _fair_share(bins: Bins, index: int, takers: int, remaining: int) -> int:
    """Spread over nodes goes on one by one, so that no bin runs ahead of the others."""
    spread_over_nodes = any(bins.layout.tally_key[view.rule.tally] < 0 for view in bins.layout.spreads[index])
    return 1 if spread_over_nodes else max(1, remaining, takers)


def _shares_a_budget(layout: Layout, index: int) -> bool:
    """Does a pod in one bin change what another bin may take?"""
    rules = layout.rules[index]
    if rules.affinity or layout.spreads[index]:
        return True
    return any(layout.tally_key[tally] >= 0 for tally in (*rules.adds, *(bound.tally for bound in rules.anti)))


def kind_rank(bins: Bins, numbers: IntArray) -> IntArray:
    """Nodes that are there, then those on their way and those planned, and marked ones last so that they may go."""
    kinds = np.append(bins.layout.room_kind, 1)
    return kinds[np.minimum(numbers, bins.rooms)]


def slack(bins: Bins, index: int, numbers: IntArray) -> FloatArray:
    """How empty a bin is beside this class: the fullest first."""
    need = bins.layout.need[index]
    left = bins.left[numbers][:, need > 0]
    return np.asarray((left / need[need > 0]).max(axis=1), dtype=np.float64)


def _onto_new_node(bins: Bins, index: int, remaining: IntArray, unit: FloatArray) -> bool:
    """Buy one node, the best for this class and what else is left, and put the class onto it."""
    layout = bins.layout
    space = _new_space(bins, index)
    usable = (space > 0) & (bins.openable() > 0)
    if not usable.any():
        return False
    usable &= layout.level == layout.level[usable].min()
    candidates = np.flatnonzero(usable)
    first = np.minimum(space[candidates], remaining[index])
    value = _worth(bins, index, candidates, first, remaining, unit)
    best = int(np.argmin(layout.price[candidates] / value))
    number = bins.open(int(candidates[best]))
    taken = min(int(bins.space(index)[number]), int(first[best]))
    if taken <= 0:
        raise AssertionError("a new node took nothing")
    bins.put(index, number, taken)
    remaining[index] -= taken
    return True


def _new_space(bins: Bins, index: int) -> IntArray:
    """How many pods of the class an empty node of each choice takes."""
    layout = bins.layout
    need = layout.need[index]
    asked = np.flatnonzero(need)
    space: IntArray = np.maximum((layout.offer[:, asked] // need[asked]).min(axis=1), 0)
    space[~layout.fits[index]] = 0
    if not space.any():
        return space
    rules = layout.rules[index]
    np.minimum(space, bins.area_space(index, layout.choice_domain), out=space)
    for bound in rules.anti:
        if layout.tally_key[bound.tally] < 0 and bound.tally in rules.adds:
            np.minimum(space, bound.limit, out=space)
    for view in layout.spreads[index]:
        if layout.tally_key[view.rule.tally] < 0 and view.rule.counts_itself:
            np.minimum(space, view.rule.max_skew, out=space)
    if sticks_together(layout, index):
        space[:] = 0  # `place_together` has done what can be done
    return np.where(_daemons_allow(layout, index), space, 0)


def _daemons_allow(layout: Layout, index: int) -> BoolArray:
    """Host ports and anti-affinity between the class and the daemons of each choice."""
    rules = layout.rules[index]
    allowed = np.ones(len(layout.price), dtype=np.bool_)
    if not rules.anti and not rules.adds:
        return allowed
    own = {bound.tally: bound.limit for bound in rules.anti}
    for choice, daemons in enumerate(layout.daemons):
        for daemon in daemons:
            hit = any(tally in own for tally in daemon.adds) or any(bound.tally in rules.adds for bound in daemon.anti)
            if hit:
                allowed[choice] = False
    return allowed


def _worth(
    bins: Bins, index: int, candidates: IntArray, first: IntArray, remaining: IntArray, unit: FloatArray
) -> FloatArray:
    """What a node of each candidate would hold, in unit prices: this class, then the dearest others that still fit
    beside it.
    """
    layout = bins.layout
    left = layout.offer[candidates] - first[:, None] * layout.need[index]
    worth = first * unit[index]
    others = [int(other) for other in np.flatnonzero(remaining) if other != index]
    others.sort(key=lambda other: -unit[other])
    for other in others[:_LOOKAHEAD]:
        need = layout.need[other]
        asked = np.flatnonzero(need)
        count = np.clip(
            (left[:, asked] // need[asked]).min(axis=1), 0, min(int(remaining[other]), _most_on_a_node(layout, other))
        )
        count[~layout.fits[other, candidates]] = 0
        left -= count[:, None] * need
        worth = worth + count * unit[other]
    return np.asarray(worth, dtype=np.float64)


def _most_on_a_node(layout: Layout, index: int) -> int:
    rules = layout.rules[index]
    limits = [bound.limit for bound in rules.anti if bound.tally in rules.adds]
    limits += [
        view.rule.max_skew
        for view in layout.spreads[index]
        if view.rule.counts_itself and layout.tally_key[view.rule.tally] < 0
    ]
    return min(limits, default=MANY)
