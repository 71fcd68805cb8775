"""Does every spread and affinity hold in the end? Asked by `solver/purchase/solve` after all pods that can be placed
are placed.

Zones are promised before nodes are found. Where a zone then took fewer pods than promised (a limit, a rule within its
nodes), the others hold more than their spread allows. Those pods are taken back, whatever order a scheduler would see
them in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from growth.solver.arrays import BoolArray, IntArray
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.layout import SpreadView


def take_back_excess(bins: Bins) -> IntArray:
    """Take pods out where they break a spread or lost those they must be near; returns how many of each class."""
    layout = bins.layout
    taken = np.zeros(len(layout.count), dtype=np.int64)
    concerned = [index for index in range(len(layout.count)) if layout.spreads[index] or layout.rules[index].affinity]
    changed = bool(concerned)
    while changed:
        before = int(taken.sum())
        uneven, companions, holders = _Uneven(bins), _Companions(bins), _holders(bins)
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


def _holders(bins: Bins) -> dict[int, list[int]]:
    """For each class the bins that hold it, the last first."""
    found: dict[int, list[int]] = {}
    for number in reversed(range(bins.size)):
        for index in bins.contents[number]:
            found.setdefault(index, []).append(number)
    return found


class _Uneven:
    """Which spreads are worth a look: those whose fullest domain is too far above the emptiest."""

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._known: dict[tuple[int, int, int], bool] = {}

    def may_be(self, view: SpreadView) -> bool:
        key = (view.rule.tally, view.rule.max_skew, id(view.choices))
        if key not in self._known:
            domain, counts, emptiest = _counts(self._bins, view)
            inside = domain >= 0
            self._known[key] = bool((counts[domain[inside]] - emptiest[inside] > view.rule.max_skew).any())
        return self._known[key]


def _take_back(bins: Bins, index: int, view: SpreadView, holders: Sequence[int]) -> int:
    """Pods of a class that stand where its spread does not let them."""
    layout, tally = bins.layout, view.rule.tally
    domain, counts, emptiest = _counts(bins, view)
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


def _counts(bins: Bins, view: SpreadView) -> tuple[IntArray, IntArray, IntArray]:
    """The domain of each bin, matching pods in each domain, and for each bin the count of the emptiest domain it is
    compared with.
    """
    layout, tally, size = bins.layout, view.rule.tally, bins.size
    key = int(layout.tally_key[tally])
    counted = bins.counted(view) & _is_bought(bins)
    if key < 0:
        counts = bins.tally[:size, tally].copy()
        emptiest = np.full(size, _fewest(counts[counted], view), dtype=np.int64)
        emptiest[: bins.rooms] = _fewest(
            counts[: bins.rooms][counted[: bins.rooms]], view
        )  # rooms are filled before new nodes come
        return np.arange(size), counts, emptiest
    counts = bins.area_count(tally, counted)
    exists = np.zeros(len(counts), dtype=np.bool_)
    exists[bins.domain[key, :size][counted]] = True
    return bins.domain[key, :size], counts, np.full(size, _fewest(counts[exists], view), dtype=np.int64)


def _is_bought(bins: Bins) -> BoolArray:
    bought = np.array([bool(content) for content in bins.contents], dtype=np.bool_)
    bought[: bins.rooms] = True
    return bought


def _fewest(counts: IntArray, view: SpreadView) -> int:
    return int(counts.min()) if len(counts) and len(counts) >= view.rule.min_domains else 0


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
        own_kind = {
            index for index, rules in enumerate(layout.rules) if tally in rules.affinity and tally in rules.adds
        }
        others = bins.tally[:size, tally].copy()
        for number, content in enumerate(bins.contents):
            others[number] -= sum(count for held, count in content.items() if held in own_kind)
        key = int(layout.tally_key[tally])
        if key < 0:
            return others
        domain = bins.domain[key, :size]
        sums = np.bincount(domain[domain >= 0], weights=others[domain >= 0], minlength=len(layout.domains[key]) + 1)
        return np.where(domain >= 0, sums[domain], 0).astype(np.int64)


def _take_lonely(bins: Bins, index: int, holders: Sequence[int], companions: _Companions) -> int:
    """Pods of a class that must be near others, where no others are."""
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
