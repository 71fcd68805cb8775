"""In which zones do the pods of a class go, before anybody knows on which nodes? Asked by `solver/purchase/solve`, once
for all classes.

Rules beyond the single node (zone anti-affinity, affinity, spread, claims for one pod alone) are settled here by
counts: each class with such a rule, or counted by one, is split over the domains it may go to, in rounds over classes.
What is left for the packers are rules within a node.

| rule | how a class is split |
| --- | --- |
| affinity | all of it into one domain where the others are; the first of a group into the cheapest, the emptiest of equals |
| anti-affinity | one into each domain that is free of those it avoids |
| spread, or counted by a spread | evenly: always into the domain with the fewest, so no domain runs ahead |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import BoolArray, FloatArray, IntArray
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.greedy import largest_share
from growth.solver.purchase.layout import Layout


@dataclass(frozen=True, slots=True)
class Part:
    """So many pods of a class, and the choices and rooms they may go to."""

    index: int
    count: int
    choices: BoolArray  # K
    rooms: BoolArray  # M
    is_settled: bool = False  # its domain is decided


def split_by_areas(bins: Bins, remaining: IntArray, unit: FloatArray) -> list[Part]:
    """Every class with pods remaining, as one part or as one for each domain. Pods that no domain may take are in none."""
    layout = bins.layout
    concerned = frozenset(
        int(index) for index in np.flatnonzero(remaining) if _looks_beyond_the_node(layout, int(index))
    )
    parts = [part for part in everything(layout, remaining) if part.index not in concerned]
    if not concerned:
        return parts
    load = _Load(layout)
    waiting = sorted(concerned, key=lambda index: _urgency(layout, index))
    left = remaining.copy()
    while waiting:
        before = int(left[waiting].sum())
        for index in waiting:
            parts += _split(bins, index, left, unit, load)
        waiting = [index for index in waiting if left[index]]
        if int(left[waiting].sum()) == before:
            break  # an affinity waits for pods that come nowhere
    bins.forget_promises()
    return parts


def _looks_beyond_the_node(layout: Layout, index: int) -> bool:
    rules = layout.rules[index]
    tallies = (
        *rules.adds,
        *rules.affinity,
        *(bound.tally for bound in rules.anti),
        *(view.rule.tally for view in layout.spreads[index]),
    )
    return any(layout.tally_key[tally] >= 0 for tally in tallies)


def _urgency(layout: Layout, index: int) -> tuple[int, int]:
    """Those with the least freedom first; pods that others wait for before those who wait."""
    rules = layout.rules[index]
    if rules.anti:
        return 0, index
    if rules.affinity:
        return (2 if rules.is_first_of_its_kind else 3), index
    return 1, index


class _Load:
    """How much has been sent to each site, so that equal sites are used equally."""

    def __init__(self, layout: Layout) -> None:
        domains = np.concatenate((layout.choice_domain, layout.room_domain), axis=1)
        _, numbers = np.unique(domains, axis=1, return_inverse=True)
        numbers = np.asarray(numbers).ravel()
        self.of_choice: IntArray = numbers[: layout.choice_domain.shape[1]]
        self.of_room: IntArray = numbers[layout.choice_domain.shape[1] :]
        self.size = int(numbers.max(initial=-1)) + 1
        self.sent = np.zeros(self.size)
        first = np.array([int(np.flatnonzero(numbers == site)[0]) for site in range(self.size)], dtype=np.int64)
        self.domain: IntArray = domains[:, first]  # T × sites
        self._prices: dict[bytes, FloatArray] = {}

    def prices_to_buy(self, layout: Layout, index: int, openable: IntArray) -> FloatArray:
        """The least that the share of a node costs which a pod of the class takes, on each site."""
        name = layout.need[index].tobytes() + np.packbits(layout.fits[index]).tobytes()
        if name not in self._prices:
            prices = np.full(self.size, np.inf)
            share = largest_share(layout, index)
            usable = layout.fits[index] & (share <= 1) & (openable > 0)
            np.minimum.at(prices, self.of_choice[usable], (share * layout.price)[usable])
            self._prices[name] = prices
        return self._prices[name]


def _split(bins: Bins, index: int, left: IntArray, unit: FloatArray, load: _Load) -> list[Part]:
    """Send the pods of a class to sites as far as the rules allow now."""
    layout = bins.layout
    price = _site_prices(bins, index, unit, load)
    sites = np.flatnonzero(np.isfinite(price))
    if not len(sites):
        return []
    sent = np.zeros(load.size, dtype=np.int64)
    while left[index]:
        space = np.minimum(bins.area_space(index, load.domain[:, sites]), left[index])
        if not space.any():
            break
        amounts = _amounts(layout, index, space, price[sites], load.sent[sites], int(left[index]))
        for site, amount in zip(sites, amounts, strict=True):
            if amount:
                bins.promise(index, load.domain[:, site], int(amount))
                load.sent[site] += float(amount) * unit[index]
                sent[site] += amount
                left[index] -= amount
    return [
        Part(
            index,
            int(sent[site]),
            layout.fits[index] & (load.of_choice == site),
            layout.room_fits[index] & (load.of_room == site),
            is_settled=True,
        )
        for site in np.flatnonzero(sent)
    ]


def _site_prices(bins: Bins, index: int, unit: FloatArray, load: _Load) -> FloatArray:
    """What a pod of the class costs on each site in unit prices: nothing in a room, infinite where it cannot stand."""
    layout = bins.layout
    prices = load.prices_to_buy(layout, index, bins.openable()).copy()
    if bins.rooms:
        space = bins.space(index, ignores_areas=True)[: bins.rooms]
        held = np.bincount(load.of_room[space > 0], weights=space[space > 0], minlength=load.size)
        missing = np.maximum(0.0, 1.0 - held / max(1.0, float(layout.count[index])))
        can_buy = np.isfinite(prices)
        prices[can_buy] *= missing[can_buy]
        prices[~can_buy & (held > 0)] = 0.0
    finite = np.isfinite(prices)
    prices[finite] = np.round(prices[finite] / max(1e-12, float(unit[index])), 6)
    return prices


def _amounts(layout: Layout, index: int, space: IntArray, price: FloatArray, sent: FloatArray, left: int) -> IntArray:
    """How many pods go to each site in this round."""
    amounts = np.zeros(len(space), dtype=np.int64)
    order = np.lexsort((np.arange(len(space)), sent, price, space <= 0))
    best = int(order[0])
    rules = layout.rules[index]
    if rules.affinity:
        amounts[best] = space[best]
        return amounts
    if not _keys_of_spreads(layout, index):
        amounts[best] = min(int(space[best]), left)
        return amounts
    open_sites = space > 0
    together = left // max(1, int(open_sites.sum()))
    if open_sites.all() and together > 1 and _keys_of_spreads(layout, index) == 1 and not rules.anti:
        amounts[:] = together - 1  # every site gets the same, so nobody runs ahead
        return amounts
    fullest_space = np.flatnonzero(space == space[open_sites].max())  # the emptiest domains have the most space
    best = int(fullest_space[np.lexsort((fullest_space, sent[fullest_space], price[fullest_space]))[0]])
    amounts[best] = 1
    return amounts


def _keys_of_spreads(layout: Layout, index: int) -> int:
    """Over how many topology keys beyond the node the class is spread."""
    keys = {int(layout.tally_key[view.rule.tally]) for view in layout.spreads[index] + layout.implied[index]}
    return len(keys - {-1})


def everything(layout: Layout, remaining: IntArray) -> list[Part]:
    """All classes with pods remaining, each with every choice and room it may stand on."""
    return [
        Part(int(index), int(remaining[index]), layout.fits[index], layout.room_fits[index])
        for index in np.flatnonzero(remaining)
    ]
