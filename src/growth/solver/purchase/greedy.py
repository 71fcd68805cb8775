"""Where does every pod go, class by class, the largest first? Into rooms, then onto nodes bought where they hold most
for their price. A correct plan at once, and the place for whatever cleverer stages leave over.

It keeps every rule exactly because each step asks `Bins`; it never looks back. But zones are promised before nodes are
found: where a zone then took fewer pods than promised (a limit, a rule within its nodes), the others hold more than
their spread allows. Those pods are taken back in the end, whatever order a scheduler would see them in, and get one
more chance.

A spread over nodes is packed as if there were always an empty node: that holds whatever comes. Where that is dear, the
number of new nodes is decided first (`tallies.even_nodes`), since every node that will be there is a domain, and no
other: each of them begins with an even share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import MANY, BoolArray, FloatArray, IntArray
from growth.solver.purchase.bins import Bins, fewest
from growth.solver.purchase.layout import SpreadView, largest_share, unit_prices
from growth.solver.purchase.rows import Part
from growth.solver.purchase.tallies import looks_beyond_node, own_limits
from growth.solver.purchase.zones import place_together, sticks_together

_MANY_CLASSES = 300
_LOOKAHEAD, _BRIEF_LOOKAHEAD = 60, 12  # classes that are thought of when a node is chosen; where there are many, fewer


@dataclass(frozen=True, slots=True)
class _Prices:
    """What one pod of each class costs where it is cheapest, and the classes in that order."""

    unit: FloatArray
    dearest_first: IntArray


def place_by_rules(bins: Bins, missing: IntArray) -> IntArray:
    """Place these pods of each class; returns how many found no place. In the end every spread and affinity holds."""
    left_over = place_all(bins, missing)
    taken_back = take_back_excess(bins)
    if taken_back.any():
        left_over = place_all(bins, left_over + taken_back)
        left_over = left_over + take_back_excess(bins)
    return left_over


def place_all(bins: Bins, remaining: IntArray) -> IntArray:
    """Put `remaining` pods of each class somewhere; returns how many of each found no place."""
    layout, shapes = bins.layout, bins.layout.shapes
    unit = unit_prices(layout)
    prices = _Prices(unit, np.argsort(-unit, kind="stable"))
    remaining = place_together(bins, remaining)
    # real before virtual, important before unimportant, those that can only go into rooms, then the dearest first
    buyable = layout.fits & (bins.openable() > 0)
    ranks = [
        (bool(layout.is_virtual[index]), -shapes[index].priority, bool(buyable[index].any()), -unit[index])
        for index in range(len(unit))
    ]
    for index in sorted(range(len(unit)), key=ranks.__getitem__):
        if remaining[index]:
            _place_class(bins, index, remaining, prices)
    for waiting in np.flatnonzero(remaining):  # an affinity may have waited for a class that came later
        _place_class(bins, int(waiting), remaining, prices)
    if remaining.any():
        _squeeze_in(bins, remaining)
    return remaining


def _squeeze_in(bins: Bins, remaining: IntArray) -> None:
    """The last resort: no more nodes are coming, so rules are read as they are written, not stricter."""
    bins.is_strict = False
    for waiting in np.flatnonzero(remaining):
        while remaining[waiting] and _into_bins(bins, int(waiting), remaining):
            pass
    bins.is_strict = True


def _place_class(bins: Bins, index: int, remaining: IntArray, prices: _Prices) -> None:
    """All of one class that can be placed."""
    while remaining[index] and (_into_bins(bins, index, remaining) or _onto_new_node(bins, index, remaining, prices)):
        pass


def _into_bins(bins: Bins, index: int, remaining: IntArray) -> bool:
    """Into rooms and nodes that are planned already; False when none takes another pod."""
    space = bins.space(index)
    takers = np.flatnonzero(space)
    if not len(takers):
        return False
    layout = bins.layout
    order = bins.in_filling_order(index, takers)
    if layout.rules[index].affinity or layout.spreads[index] or looks_beyond_node(layout, index):
        # a pod in one bin changes what the others may take
        number = int(order[0])
        over_nodes = any(layout.tally_key[view.rule.tally] < 0 for view in layout.spreads[index])
        taken = 1 if over_nodes else min(int(space[number]), int(remaining[index]))  # no node may run ahead
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


def _onto_new_node(bins: Bins, index: int, remaining: IntArray, prices: _Prices) -> bool:
    """Buy one node, the best for this class and what else is left, and put the class onto it."""
    layout = bins.layout
    space = new_space(bins, index)
    usable = (space > 0) & (bins.openable() > 0)
    if not usable.any():
        return False
    usable &= layout.tier == layout.tier[usable].min()
    candidates = np.flatnonzero(usable)
    first = np.minimum(space[candidates], remaining[index])
    value = _worth(bins, index, candidates, first, remaining, prices)
    for best in np.argsort(layout.price[candidates] / value, kind="stable"):
        number = bins.open(int(candidates[best]))
        taken = min(int(bins.space(index)[number]), int(first[best]))
        if taken > 0:
            bins.put(index, number, taken)
            remaining[index] -= taken
            return True
        bins.close_last()  # a spread counts the daemons of the node: beside them, no pod of the class is allowed
    return False


def open_best(bins: Bins, part: Part) -> None:
    """New nodes for a part, each time of the choice where its share costs least."""
    layout, index, missing = bins.layout, part.index, part.count
    alone = np.where(part.choices, new_space(bins, index, part.has_zone), 0)
    costs = np.where(alone > 0, layout.price * largest_share(layout, index), np.inf)
    costs[layout.tier > layout.tier[alone > 0].min(initial=MANY)] = np.inf
    while missing and np.isfinite(costs).any():
        choice = int(costs.argmin())
        times = min(max(1, missing // int(alone[choice])), int(bins.openable()[choice]))
        if times > 0:
            taken = min(int(alone[choice]), missing)
            bins.open_alike(choice, {index: taken}, times)
            missing -= taken * times
        else:
            costs[choice] = np.inf


def new_space(bins: Bins, index: int, has_zone: bool = False) -> IntArray:
    """How many pods of the class an empty node of each choice takes; `has_zone` if their domains are decided."""
    layout = bins.layout
    need = layout.need[index]
    asked = np.flatnonzero(need)
    space: IntArray = np.maximum((layout.offer[:, asked] // need[asked]).min(axis=1), 0)
    space[~layout.fits[index]] = 0
    if not space.any():
        return space
    if not has_zone:
        np.minimum(space, bins.domain_space(index, layout.choice_domain), out=space)
    for tally, limit in own_limits(layout, index):
        if layout.tally_key[tally] < 0:
            np.minimum(space, limit, out=space)
    if sticks_together(layout, index):
        space[:] = 0  # `place_together` has done what can be done
    rules = layout.rules[index]
    for choice in np.flatnonzero(space) if rules.anti or rules.adds else ():
        alone = bins.daemons[choice]  # host ports and anti-affinity between the class and daemons
        if any(limit.tally in alone.counts for limit in rules.anti) or any(one in alone.limits for one in rules.adds):
            space[choice] = 0
    return space


def _worth(
    bins: Bins, index: int, candidates: IntArray, first: IntArray, remaining: IntArray, prices: _Prices
) -> FloatArray:
    """What a node of each candidate would hold, in unit prices: this class, then the dearest others that still fit
    beside it.
    """
    layout, unit = bins.layout, prices.unit
    left = layout.offer[candidates] - first[:, None] * layout.need[index]
    worth = first * unit[index]
    waiting = prices.dearest_first[remaining[prices.dearest_first] > 0]
    lookahead = _LOOKAHEAD if len(waiting) <= _MANY_CLASSES else _BRIEF_LOOKAHEAD
    for other in waiting[waiting != index][:lookahead].tolist():
        need = layout.need[other]
        asked = np.flatnonzero(need)
        most = min([int(remaining[other]), *(limit for _, limit in own_limits(layout, other))])
        count = np.clip((left[:, asked] // need[asked]).min(axis=1), 0, most)
        count[~layout.fits[other, candidates]] = 0
        left -= count[:, None] * need
        worth = worth + count * unit[other]
    return np.asarray(worth, dtype=np.float64)


def take_back_excess(bins: Bins) -> IntArray:
    """Take pods out where they break a spread or lost those they must be near; returns how many of each class."""
    layout = bins.layout
    taken = np.zeros(len(layout.count), dtype=np.int64)
    concerned = [index for index in range(len(layout.count)) if layout.spreads[index] or layout.rules[index].affinity]
    changed = bool(concerned)
    while changed:
        before = int(taken.sum())
        uneven, companions, holders = _Uneven(bins), _Companions(bins), _bins_by_class(bins)
        for index in reversed(concerned):
            removed = 0
            for view in layout.spreads[index]:
                if uneven.may_be(view):
                    removed += _take_back(bins, index, view, holders.get(index, ()))
            if layout.rules[index].affinity:
                removed += _take_lonely(bins, index, holders.get(index, ()), companions)
            if removed:
                taken[index] += removed
                companions = _Companions(bins)
        changed = int(taken.sum()) > before
    return taken


def _bins_by_class(bins: Bins) -> dict[int, list[int]]:
    """For each class the bins that hold it, the last first."""
    found: dict[int, list[int]] = {}
    for number in reversed(range(bins.size)):
        for index in bins.contents[number]:
            found.setdefault(index, []).append(number)
    return found


class _Uneven:
    """Which spreads are worth a look: those whose fullest domain is too far above the emptiest."""

    def __init__(self, bins: Bins) -> None:
        self._bins, self._bought = bins, _bought(bins)
        self._known: dict[tuple[int, int, int], bool] = {}

    def may_be(self, view: SpreadView) -> bool:
        key = (view.rule.tally, view.rule.max_skew, id(view.choices))
        if key not in self._known:
            domain, counts, emptiest = _counts(self._bins, view, self._bought)
            inside = domain >= 0
            self._known[key] = bool((counts[domain[inside]] - emptiest[inside] > view.rule.max_skew).any())
        return self._known[key]


def _take_back(bins: Bins, index: int, view: SpreadView, holders: Sequence[int]) -> int:
    """Take out pods of a class where its spread does not allow them."""
    layout, tally = bins.layout, view.rule.tally
    domain, counts, emptiest = _counts(bins, view, _bought(bins))
    counts_here = tally in layout.rules[index].adds
    removed = 0
    for number in holders:
        held = bins.contents[number].get(index, 0)
        if held and domain[number] >= 0:
            excess = int(counts[domain[number]] - emptiest[number]) - view.rule.max_skew
            amount = min(held, excess) if view.rule.counts_itself and counts_here else held
            if excess > 0:
                bins.take_out(index, number, amount)
                removed += amount
                counts[domain[number]] -= amount if counts_here else 0
    return removed


def _bought(bins: Bins) -> BoolArray:
    """Rooms, and planned nodes that hold something."""
    return np.array([number < bins.rooms or bool(content) for number, content in enumerate(bins.contents)], np.bool_)


def _counts(bins: Bins, view: SpreadView, bought: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """The domain of each bin, matching pods in each domain, and for each bin the count of the emptiest domain it is
    compared with, among those that are there or bought.
    """
    layout, tally, size = bins.layout, view.rule.tally, bins.size
    key = int(layout.tally_key[tally])
    counted = bins.counted(view) & bought
    if key < 0:
        counts = bins.tally[:size, tally].astype(np.int64)
        emptiest = np.full(size, fewest(counts[counted], view), dtype=np.int64)
        in_rooms = counts[: bins.rooms][counted[: bins.rooms]]
        emptiest[: bins.rooms] = fewest(in_rooms, view)  # rooms are filled before new nodes come
        return np.arange(size), counts, emptiest
    counts = bins.domain_count(tally, counted)
    least = fewest(counts[bins.has_nodes(key, counted)], view)
    return bins.domain[key, :size], counts, np.full(size, least, dtype=np.int64)


class _Companions:
    """Pods that a class must be near, for each bin in its domain: those of its own kind count only if there are no
    others anywhere.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._known: dict[int, IntArray] = {}

    def near(self, tally: int) -> IntArray:
        if tally not in self._known:
            self._known[tally] = self._count(tally)
        return self._known[tally]

    def _count(self, tally: int) -> IntArray:
        bins, layout, size = self._bins, self._bins.layout, self._bins.size
        own_kind = {index for index, one in enumerate(layout.rules) if tally in one.affinity and tally in one.adds}
        others = bins.tally[:size, tally].astype(np.int64)
        for number, content in enumerate(bins.contents):
            others[number] -= sum(count for held, count in content.items() if held in own_kind)
        key = int(layout.tally_key[tally])
        if key < 0:
            return others
        domain = bins.domain[key, :size]
        sums = np.bincount(domain[domain >= 0], weights=others[domain >= 0], minlength=len(layout.domains[key]) + 1)
        return np.where(domain >= 0, sums[domain], 0).astype(np.int64)


def _take_lonely(bins: Bins, index: int, holders: Sequence[int], companions: _Companions) -> int:
    """Take out pods of a class that must be near others, where no others are."""
    removed = 0
    for tally in bins.layout.rules[index].affinity:
        near = companions.near(tally)
        if not near.any() and bins.layout.rules[index].is_first_of_its_kind:
            continue
        for number in holders:
            held = bins.contents[number].get(index, 0)
            if held and near[number] <= 0:
                bins.take_out(index, number, held)
                removed += held
    return removed
