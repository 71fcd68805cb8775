"""In which zones do the pods of a class go, before it is known on which nodes, and which pods must share one node?
Asked by `solve` before it packs, and by the greedy.

Rules beyond the single node (zone anti-affinity, affinity, spread, claims for one pod alone) are decided here by
counts: each class with such a rule, or counted by one, is split over the domains it may go to, in rounds over classes.
What is left for the packers are rules within a node.

| rule | how a class is split |
| --- | --- |
| affinity | all of it into one domain where the others are; the first into the cheapest that holds the whole group |
| anti-affinity | one into each domain free of those it avoids, and that nobody needs whom it would keep away |
| spread, or counted by a spread | evenly: always into the domain with the fewest, so no domain runs ahead |

Affinity with the node as its domain comes before everything else (`place_together`): such a class goes where the pods
are that it must be near. If they are nowhere, a node is opened for the first of the group, large enough for the whole
group if there is such a choice; or one of those it waits for is put onto a new node together with its share.

Zones of equal machines are alike, so pods whose zones are left open need few rows: patterns and values are found there,
quickly and with proof. Then every pattern is repeated in every zone, with the rows of that zone in place of the open
ones (`repeat_in_zones`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from growth.solver.arrays import BoolArray, FloatArray, IntArray
from growth.solver.patterns.fluid import Fluid, Selected
from growth.solver.patterns.stock import Patterns, Stock, openable
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.layout import Layout, largest_share
from growth.solver.purchase.rows import Part, RelaxedRows, Rows, everything
from growth.solver.purchase.tallies import looks_beyond_node, own_limits


def split_by_zones(bins: Bins, remaining: IntArray, unit: FloatArray) -> list[Part]:
    """Every class with pods remaining, as one part or one for each domain. Pods that no domain may take are in none."""
    layout = bins.layout
    concerned = {int(index) for index in np.flatnonzero(remaining) if looks_beyond_node(layout, int(index))}
    parts = [part for part in everything(layout, remaining) if part.index not in concerned]
    if not concerned:
        return parts
    load = _Load(layout)
    waiting = sorted(concerned, key=lambda index: _urgency(layout, index))
    left = remaining.copy()
    reach = _Reach(bins, waiting, unit, load)
    while waiting:
        before = int(left[waiting].sum())
        for index in waiting:
            parts += _split(bins, index, left, unit, load, reach)
        waiting = [index for index in waiting if left[index]]
        if int(left[waiting].sum()) == before:
            break  # an affinity waits for pods that come nowhere
    bins.forget_promises()
    return parts


def _urgency(layout: Layout, index: int) -> tuple[int, int]:
    """Those with the least freedom first; pods that others wait for before those that wait."""
    rules = layout.rules[index]
    if rules.anti:
        return 0, index
    if rules.affinity:
        return (2 if rules.is_first_of_its_kind else 3), index
    return 1, index


class _Reach:
    """The sites of classes that others may be in the way of: those that can go to one site only, and those that must be
    near others and cannot go everywhere. By the tallies that they look at, or are counted in.
    """

    def __init__(self, bins: Bins, waiting: Sequence[int], unit: FloatArray, load: _Load) -> None:
        self._layout, rules = bins.layout, bins.layout.rules
        self._sites: dict[int, IntArray] = {}
        self._counted, self._avoiding, self._near = (dict[int, list[int]]() for _ in range(3))
        if not any(rules[index].anti or rules[index].affinity for index in waiting):
            return
        for index in waiting:
            sites = np.flatnonzero(np.isfinite(_site_prices(bins, index, unit, load)))
            if 0 < len(sites) < load.size:
                self._sites[index] = sites
                self._note(self._near, index, rules[index].affinity)
            if len(sites) == 1:
                self._sites[index] = sites
                self._note(self._counted, index, rules[index].adds)
                self._note(self._avoiding, index, self._avoided(index))

    @staticmethod
    def _note(known: dict[int, list[int]], index: int, tallies: Iterable[int]) -> None:
        for tally in tallies:
            known.setdefault(tally, []).append(index)

    def _avoided(self, index: int) -> set[int]:
        """Tallies beyond the node whose pods the class keeps away from."""
        return {one.tally for one in self._layout.rules[index].anti if self._layout.tally_key[one.tally] >= 0}

    def in_the_way(self, index: int, left: IntArray, sites: IntArray) -> IntArray:
        """For each site: pods that can go nowhere else and would not be let in beside the class, or it not beside them;
        and pods that must be near the class, and cannot go there.
        """
        found, adds = np.zeros(len(sites), dtype=np.int64), self._layout.rules[index].adds
        bound_here = {other for tally in self._avoided(index) for other in self._counted.get(tally, ())}
        bound_here |= {other for tally in adds for other in self._avoiding.get(tally, ())}
        for other in bound_here - {index}:
            found[sites == self._sites[other][0]] += left[other]
        for other in {other for tally in adds for other in self._near.get(tally, ())} - {index}:
            found[~np.isin(sites, self._sites[other])] += left[other]
        return found


class _Load:
    """How much has been sent to each site (a combination of domains), so that equal sites are used equally."""

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
        self.site_prices: dict[int, FloatArray] = {}

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


def _split(bins: Bins, index: int, left: IntArray, unit: FloatArray, load: _Load, reach: _Reach) -> list[Part]:
    """Send the pods of a class to sites as far as the rules allow now."""
    layout = bins.layout
    price = _site_prices(bins, index, unit, load)
    sites = np.flatnonzero(np.isfinite(price))
    if not len(sites):
        return []
    sent = np.zeros(load.size, dtype=np.int64)
    short = reach.in_the_way(index, left, sites)
    if layout.rules[index].affinity:
        short += _short_of_places(bins, index, left, load)[sites]
    while left[index]:
        space = np.minimum(bins.domain_space(index, load.domain[:, sites]), left[index])
        if not space.any():
            break
        amounts = _amounts(layout, index, space, (price[sites], short), load.sent[sites], int(left[index]))
        for site, amount in zip(sites, amounts, strict=True):
            if amount:
                bins.promise(index, load.domain[:, site], int(amount))
                load.sent[site] += float(amount) * unit[index]
                sent[site] += amount
                left[index] -= amount
    parts = []
    for site in np.flatnonzero(sent):
        choices, rooms = layout.fits[index] & (load.of_choice == site), layout.room_fits[index] & (load.of_room == site)
        parts.append(Part(index, int(sent[site]), choices, rooms, has_zone=True))
    return parts


def _site_prices(bins: Bins, index: int, unit: FloatArray, load: _Load) -> FloatArray:
    """What a pod of the class costs on each site in unit prices: nothing in a room, infinite where it cannot go."""
    if index in load.site_prices:
        return load.site_prices[index]
    layout = bins.layout
    prices = load.prices_to_buy(layout, index, bins.openable()).copy()
    if bins.rooms:
        space = bins.space(index, has_zone=True)[: bins.rooms]
        held = np.bincount(load.of_room[space > 0], weights=space[space > 0], minlength=load.size)
        missing = np.maximum(0.0, 1.0 - held / max(1.0, float(layout.count[index])))
        can_buy = np.isfinite(prices)
        prices[can_buy] *= missing[can_buy]
        prices[~can_buy & (held > 0)] = 0.0
    finite = np.isfinite(prices)
    prices[finite] = np.round(prices[finite] / max(1e-12, float(unit[index])), 6)
    load.site_prices[index] = prices
    return prices


def _short_of_places(bins: Bins, index: int, left: IntArray, load: _Load) -> IntArray:
    """For each site: how many pods of the group that begins with the class would find no place there, all of them as
    large as a pod of the class, by rooms and by the nodes that the limits allow.
    """
    layout, need, affinity = bins.layout, bins.layout.need[index], set(bins.layout.rules[index].affinity)
    group = [other for other in np.flatnonzero(left).tolist() if affinity & set(layout.rules[other].affinity)]
    asked = np.flatnonzero(need)
    size = np.ceil((layout.need[group][:, asked] / need[asked]).max(axis=1)).astype(np.int64)
    wanted = int((size * left[group]).sum())
    space = bins.space(index, has_zone=True)[: bins.rooms]
    places = np.bincount(load.of_room, weights=space, minlength=load.size).astype(np.int64)
    own = [limit for tally, limit in own_limits(layout, index) if layout.tally_key[tally] < 0]
    most = np.minimum((np.maximum(layout.offer[:, asked], 0) // need[asked]).min(axis=1), min(own, default=wanted))
    most[~layout.fits[index]] = 0
    for site in range(load.size):
        limit_left = bins.limit_left
        for choice in sorted(np.flatnonzero((load.of_choice == site) & (most > 0)), key=lambda one: -most[one]):
            if places[site] >= wanted:
                break
            allowed = openable(layout.limit_use[:, choice : choice + 1], limit_left)[0]
            times = int(min(allowed, max(0, -(-(wanted - places[site]) // most[choice]))))
            places[site] += times * most[choice]
            limit_left = limit_left - times * layout.limit_use[:, choice]
    return np.maximum(wanted - places, 0)


def _amounts(
    layout: Layout, index: int, space: IntArray, worth: tuple[FloatArray, IntArray], sent: FloatArray, left: int
) -> IntArray:
    """How many pods go to each site in this round; `worth` is what a pod costs there, and how many others would find no
    place.
    """
    amounts = np.zeros(len(space), dtype=np.int64)
    price, short = worth
    rules, keys = layout.rules[index], _keys_of_spreads(layout, index)
    if rules.affinity or not keys:
        best = int(np.lexsort((np.arange(len(space)), sent, price, short, space <= 0))[0])
        amounts[best] = min(int(space[best]), left)
        return amounts
    open_sites = space > 0
    together = left // max(1, int(open_sites.sum()))
    if open_sites.all() and together > 1 and keys == 1 and not rules.anti:
        amounts[:] = together - 1  # every site gets the same, so no site runs ahead
        return amounts
    fullest_space = np.flatnonzero(space == space[open_sites].max())  # the emptiest domains have the most space
    order = np.lexsort((fullest_space, sent[fullest_space], price[fullest_space], short[fullest_space]))
    best = int(fullest_space[order[0]])
    amounts[best] = 1
    return amounts


def _keys_of_spreads(layout: Layout, index: int) -> int:
    """Over how many topology keys beyond the node the class is spread."""
    keys = {int(layout.tally_key[view.rule.tally]) for view in layout.spreads[index] + layout.implied[index]}
    return len(keys - {-1})


def sticks_together(layout: Layout, index: int) -> bool:
    """Does the class have to share a node with others, or with its own?"""
    return any(layout.tally_key[tally] < 0 for tally in layout.rules[index].affinity)


def place_together(bins: Bins, remaining: IntArray) -> IntArray:
    """Place classes that must share nodes, and those of their companions that go with them; returns what remains of all
    classes.
    """
    layout = bins.layout
    remaining = remaining.copy()
    waiting = [int(index) for index in np.flatnonzero(remaining) if sticks_together(layout, int(index))]
    waiting.sort(key=lambda index: (bool(layout.is_virtual[index]), -layout.shapes[index].priority, index))
    for index in waiting:
        while remaining[index]:
            if not (_beside_others(bins, index, remaining) or _beside_companion(bins, index, remaining)):
                break
    return remaining


def _beside_others(bins: Bins, index: int, remaining: IntArray) -> bool:
    space = bins.space(index)
    if not space.any():
        return False
    best = int(space.argmax())
    taken = min(int(space[best]), int(remaining[index]), 1 if bins.layout.spreads[index] else int(remaining[index]))
    bins.put(index, best, taken)
    remaining[index] -= taken
    return True


def _beside_companion(bins: Bins, index: int, remaining: IntArray) -> bool:
    """Open the node that takes most of the class; of equals, the cheapest."""
    layout = bins.layout
    companion = _companion(bins, index, remaining)
    if companion is None:
        return False
    share, free = int(remaining[index]), layout.offer
    if companion != index:
        share, free = -(-share // int(remaining[companion])), layout.offer - layout.need[companion]
    need = layout.need[index]
    asked = np.flatnonzero(need)
    fitting = np.minimum((np.maximum(free[:, asked], 0) // need[asked]).min(axis=1), share)
    fitting[(free < 0).any(axis=1) | ~layout.fits[index] | ~layout.fits[companion] | (bins.openable() <= 0)] = 0
    fitting[bins.domain_space(companion, layout.choice_domain) <= 0] = 0
    is_small = ~_holds_group(bins, index, remaining)
    for choice in np.lexsort((np.arange(len(fitting)), layout.price, is_small, -fitting, layout.tier)):
        if fitting[choice] > 0 and _open_for(bins, int(choice), index, companion, share, remaining):
            return True
    return False


def _holds_group(bins: Bins, index: int, remaining: IntArray) -> IntArray:
    """Choices with room for all that must be there together."""
    layout = bins.layout
    affinity = set(layout.rules[index].affinity)
    group = [other for other in np.flatnonzero(remaining) if affinity & set(layout.rules[other].affinity)]
    total = (layout.need[group] * remaining[group][:, None]).sum(axis=0)
    return np.asarray((layout.offer >= total).all(axis=1))


def _companion(bins: Bins, index: int, remaining: IntArray) -> int | None:
    """A class that it waits for and that still has pods: with one of them beside it, the order of arrival does not
    matter. Else itself, if it may begin.
    """
    rules = bins.layout.rules[index]
    for other in np.flatnonzero(remaining):
        others = bins.layout.rules[other]
        if other != index and not others.affinity and all(tally in others.adds for tally in rules.affinity):
            return int(other)
    begins = rules.is_first_of_its_kind and not any(bins.tally[: bins.size, tally].any() for tally in rules.affinity)
    return index if begins else None


def _open_for(bins: Bins, choice: int, index: int, companion: int, share: int, remaining: IntArray) -> bool:
    """Open a node and see whether the rules agree; if not, it stays empty and is not bought."""
    number, has_companion = bins.open(choice), companion != index
    if has_companion and bins.space(companion)[number] <= 0:
        bins.close_last()
        return False
    if has_companion:
        bins.put(companion, number, 1)
    taken = min(int(bins.space(index)[number]), share)
    if taken <= 0:
        if has_companion:
            bins.take_out(companion, number, 1)
        bins.close_last()
        return False
    bins.put(index, number, taken)
    remaining[index] -= taken
    remaining[companion] -= has_companion
    return True


def without_zones(layout: Layout, parts: Sequence[Part], allowed: BoolArray) -> list[Part]:
    """The same pods, free to go to every zone."""
    counts: dict[int, int] = {}
    for part in parts:
        counts[part.index] = counts.get(part.index, 0) + part.count
    return [
        Part(index, count, layout.fits[index] & allowed, layout.room_fits[index])
        for index, count in sorted(counts.items())
    ]


def repeat_in_zones(relaxed: RelaxedRows, rows: Rows, classes: int) -> tuple[Selected, Patterns]:
    """The selection, values and patterns found without zones, for rows with zones."""
    stock, found = rows.stock, relaxed.relaxation
    open_row = relaxed.rows.row_of_class(classes)[[group[0].index for group in rows.parts]]
    equals = _equal_choices(found.stock, stock, found.selected.choices)
    chosen = np.unique(np.concatenate([*equals.values(), np.zeros(0, dtype=np.int64)])).astype(np.int64)
    most = stock.most_on_node()
    chosen = chosen[most[chosen].any(axis=1)]
    position = {int(first): number for number, first in enumerate(found.selected.choices)}
    source = {int(equal): position[first] for first, others in equals.items() for equal in others}
    resource_prices = [found.selected.fluid.resource_prices[source[int(choice)]] for choice in chosen]
    master = found.generated.master
    fluid = Fluid(
        price=master.price,
        values=master.values[open_row],
        limit_prices=master.limit_prices,
        resource_prices=np.array(resource_prices).reshape(len(chosen), stock.need.shape[1]),
    )
    return Selected(chosen, fluid, most), _repeated(found.used, equals, open_row, stock)


def _equal_choices(small: Stock, stock: Stock, chosen: IntArray) -> dict[int, IntArray]:
    """For each selected choice, all choices that offer the same: the same type elsewhere."""
    found = {}
    for choice in chosen:
        same = (stock.offer == small.offer[choice]).all(axis=1)
        same &= (stock.start_tally == stock.start_tally[choice]).all(axis=1)
        same &= (stock.start_bound == stock.start_bound[choice]).all(axis=1)
        found[int(choice)] = np.flatnonzero(same)
    return found


def _repeated(used: Patterns, equals: dict[int, IntArray], open_row: IntArray, stock: Stock) -> Patterns:
    """Each pattern on each equal choice, with the largest row there in place of an open one."""
    by_size = np.argsort(-stock.count, kind="stable")
    contents, choices = [], []
    for pattern, choice in zip(used.contents, used.choices, strict=True):
        for equal in equals.get(int(choice), ()):
            repeated = np.zeros(len(stock.count))
            for row in np.flatnonzero(pattern):
                there = by_size[(open_row[by_size] == row) & stock.fits[equal][by_size]]
                if len(there):
                    repeated[there[0]] = min(pattern[row], stock.count[there[0]])
            if repeated.any():
                contents.append(repeated)
                choices.append(int(equal))
    return Patterns(np.array(contents).reshape(len(contents), len(stock.count)), np.array(choices, dtype=np.int64))
