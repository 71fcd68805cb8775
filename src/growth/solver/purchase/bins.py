"""How many more pods of a class does each node take, now? Every stage that puts pods onto rooms and planned nodes one
after the other asks this.

Bins are rooms (first, in the layout's order) and planned nodes (in the order they were opened). The answer is exact for
the rules between pods at that moment, each bin looked at alone; put pods in, ask again. While `is_strict`, a pod is
also kept from where it would break the spread of pods placed before it, which a scheduler would not mind: so a plan
holds in whatever order it is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

from growth.solver.arrays import MANY, BoolArray, IntArray, SmallCounts
from growth.solver.patterns.stock import openable
from growth.solver.purchase.layout import ON_ITS_WAY, Layout, SpreadView
from growth.solver.purchase.pod_rules import ShapeRules
from growth.solver.purchase.tallies import NodeTally, concerns_no_pods

_Table = TypeVar("_Table", SmallCounts, BoolArray)
UNBOUND: Final = (1 << 31) - 1  # "without bound" in the table of bounds: nodes × tallies is the largest table there is


class Bins:
    """Nodes that take pods, and all counts that the rules look at."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        rooms, tallies = len(layout.room_index), len(layout.tally_key)
        capacity = rooms + 64
        self.size = rooms
        self.rooms = rooms
        self.choice: IntArray = np.full(capacity, -1, dtype=np.int64)
        self.left: IntArray = np.zeros((capacity, len(layout.resources)), dtype=np.int64)
        self.left[:rooms] = layout.room_left
        self.domain: IntArray = np.full((len(layout.domains), capacity), -1, dtype=np.int64)
        self.domain[:, :rooms] = layout.room_domain
        self.tally: SmallCounts = np.zeros((capacity, tallies), dtype=np.int32)
        # what anti-affinity on the node still allows; whether a pod of ours that spreads by the tally is here
        self.bound: SmallCounts = np.full((capacity, tallies), UNBOUND, dtype=np.int32)
        self.spread_here: BoolArray = np.zeros((capacity, tallies), dtype=np.bool_)
        self.contents: list[dict[int, int]] = [{} for _ in range(rooms)]
        self.limit_left = layout.limit_bound.copy()
        self.is_strict = True
        self.keeps_domains = False  # a node more or less among those that a spread compares would break it
        self.home: dict[int, int] = {}  # by tally: the domain where the first of a group went; the others follow
        self.promised: dict[int, IntArray] = {}  # by tally: pods that have a domain but no node yet, in each domain
        self.promised_bound: dict[int, IntArray] = {}  # by tally: what their anti-affinity allows in each domain
        self.daemons = [NodeTally(layout, choice) for choice in range(len(layout.price))]  # of each choice, alone
        self.bounded = frozenset(limit.tally for rules in self._all_rules() for limit in rules.anti)
        for room, content in enumerate(layout.contents):
            for rules, count in content:
                self._count(room, rules, count)

    # ------------------------------------------------------------------------------------- changing

    def put(self, index: int, bin_number: int, count: int) -> None:
        """So many pods of a class into a bin."""
        self.left[bin_number] -= self.layout.need[index] * count
        content = self.contents[bin_number]
        content[index] = content.get(index, 0) + count
        self._count(bin_number, self.layout.rules[index], count)
        for view in self.layout.spreads[index]:
            self.spread_here[bin_number, view.rule.tally] = True
        self._choose_home(index, self.domain[:, bin_number])

    def take_out(self, index: int, bin_number: int, count: int) -> None:
        """So many pods of a class out of a bin again. Bounds that only they brought stay: they err on the safe side."""
        self.left[bin_number] += self.layout.need[index] * count
        content = self.contents[bin_number]
        content[index] -= count
        if not content[index]:
            del content[index]
        for tally in self.layout.rules[index].adds:
            self.tally[bin_number, tally] -= count

    def _choose_home(self, index: int, domain: IntArray) -> None:
        """A group that must be near itself is never split: where its first goes, all go."""
        for tally in self.layout.rules[index].affinity:
            key = int(self.layout.tally_key[tally])
            if key >= 0:
                self.home.setdefault(tally, int(domain[key]))

    def promise(self, index: int, domain: IntArray, count: int) -> None:
        """So many pods of a class will be in these domains (one for each key), on nodes that are still to be found."""
        self._choose_home(index, domain)
        for tally in self.layout.rules[index].adds:
            key = int(self.layout.tally_key[tally])
            if key >= 0 and domain[key] >= 0:
                known = self.promised.setdefault(tally, np.zeros(len(self.layout.domains[key]), dtype=np.int64))
                known[domain[key]] += count
        for limit in self.layout.rules[index].anti:
            key = int(self.layout.tally_key[limit.tally])
            if key >= 0 and domain[key] >= 0:
                unbound = np.full(len(self.layout.domains[key]), MANY, dtype=np.int64)
                limits = self.promised_bound.setdefault(limit.tally, unbound)
                limits[domain[key]] = min(limits[domain[key]], limit.limit)

    def forget_promises(self) -> None:
        self.promised.clear()
        self.promised_bound.clear()

    def open(self, choice: int) -> int:
        """A planned node; the caller has asked `openable` before."""
        number = self.size
        if number == len(self.left):
            self._grow()
        self.size += 1
        self.choice[number] = choice
        self.left[number] = self.layout.offer[choice]
        self.domain[:, number] = self.layout.choice_domain[:, choice]
        self.contents.append({})
        self.limit_left = self.limit_left - self.layout.limit_use[:, choice]
        for rules in self.layout.daemons[choice]:
            self._count(number, rules, 1)
        return number

    def open_alike(self, choice: int, content: Mapping[int, int], times: int) -> None:
        """So many planned nodes with the same content; the limits have been looked at."""
        while self.size + times > len(self.left):
            self._grow()
        first, last = self.size, self.size + times
        pattern = self.open(choice)
        for index, count in content.items():
            self.put(index, pattern, count)
        self.size = last
        for array in (self.choice, self.left, self.tally, self.bound, self.spread_here):
            array[first + 1 : last] = array[first]
        self.domain[:, first + 1 : last] = self.domain[:, first : first + 1]
        self.contents.extend(dict(content) for _ in range(times - 1))
        self.limit_left = self.limit_left - self.layout.limit_use[:, choice] * (times - 1)

    def exchange(self, number: int, choice: int) -> None:
        """A planned node becomes one of another choice, with the same content and the same daemons."""
        before = int(self.choice[number])
        self.left[number] += self.layout.offer[choice] - self.layout.offer[before]
        self.limit_left = self.limit_left + self.layout.limit_use[:, before] - self.layout.limit_use[:, choice]
        self.domain[:, number] = self.layout.choice_domain[:, choice]
        self.choice[number] = choice

    def close_last(self) -> None:
        """The node opened last is not needed after all; nothing may be on it."""
        number = self.size = self.size - 1
        self.limit_left = self.limit_left + self.layout.limit_use[:, self.choice[number]]
        self.contents.pop()
        self.choice[number] = -1
        self.tally[number] = 0
        self.bound[number] = UNBOUND
        self.spread_here[number] = False

    def openable(self) -> IntArray:
        """How many more nodes of each choice the limits allow, each choice looked at alone."""
        return np.minimum(openable(self.layout.limit_use, self.limit_left), MANY).astype(np.int64)

    # --------------------------------------------------------------------------------------- asking

    def space(self, index: int, has_zone: bool = False) -> IntArray:
        """How many more pods of the class each bin takes, the bin looked at alone; `has_zone` if the domains of the
        pods are decided already.
        """
        size = self.size
        need = self.layout.need[index]
        asked = np.flatnonzero(need)
        space: IntArray = (self.left[:size, asked] // need[asked]).min(axis=1)
        space[: self.rooms][~self.layout.room_fits[index]] = 0
        planned = self.choice[self.rooms : size]
        space[self.rooms :][~self.layout.fits[index, planned]] = 0
        np.maximum(space, 0, out=space)
        if not concerns_no_pods(self.layout.rules[index]) and space.any():
            np.minimum(space, self._node_rules(index), out=space)
            if not has_zone:
                np.minimum(space, self.domain_space(index, self.domain[:, :size]), out=space)
        return space

    def domain_space(self, index: int, domain: IntArray) -> IntArray:
        """How many more the rules beyond the single node allow at places in these domains (T × places)."""
        rules = self.layout.rules[index]
        space = np.full(domain.shape[1], MANY, dtype=np.int64)
        for tally, limit in self._bounds_of(rules):
            key = int(self.layout.tally_key[tally])
            if key >= 0:
                np.minimum(space, self._domain_limit(tally, limit, tally in rules.adds)[domain[key]], out=space)
        for view in self._spreads_of(index):
            key = int(self.layout.tally_key[view.rule.tally])
            if key >= 0:
                np.minimum(space, self._domain_spread(index, view)[domain[key]], out=space)
        return self._near_others(rules, domain, space) if rules.affinity else space

    def _near_others(self, rules: ShapeRules, domain: IntArray, space: IntArray) -> IntArray:
        """Affinity: where those are that it must be near; the first of a group anywhere, and the others where the first
        went.
        """
        begins = self._may_begin(rules)
        for tally in rules.affinity:
            key = int(self.layout.tally_key[tally])
            if key >= 0:
                allowed = domain[key] >= 0 if begins else np.append(self.domain_count(tally) > 0, False)[domain[key]]
                if tally in self.home:
                    allowed &= domain[key] == self.home[tally]
                space = np.where(allowed, space, 0)
        return space

    def in_filling_order(self, index: int, numbers: IntArray) -> IntArray:
        """These bins, those that exist before those on their way and planned, marked ones last so that they may go, and
        idle ones after those where pods work; of equals, those with the least left beside a pod of the class.
        """
        kind = np.append(self.layout.room_kind, ON_ITS_WAY)[np.minimum(numbers, self.rooms)]
        need = self.layout.need[index]
        left = (self.left[numbers][:, need > 0] / need[need > 0]).max(axis=1)
        return numbers[np.lexsort((numbers, left, kind))]

    def placed(self) -> IntArray:
        """How many pods of each class are in bins."""
        counts = np.zeros(len(self.layout.count), dtype=np.int64)
        for content in self.contents:
            for index, count in content.items():
                counts[index] += count
        return counts

    def domain_count(self, tally: int, among: BoolArray | None = None) -> IntArray:
        """Matching pods in each domain of the tally's key."""
        key = int(self.layout.tally_key[tally])
        size = self.size
        where = self.domain[key, :size] >= 0
        if among is not None:
            where &= among
        here, weights = self.domain[key, :size][where], self.tally[:size, tally][where]
        counts = np.bincount(here, weights=weights, minlength=len(self.layout.domains[key])).astype(np.int64)
        return counts + self.promised[tally] if tally in self.promised else counts

    # -------------------------------------------------------------------------------------- private

    def _all_rules(self) -> Iterable[ShapeRules]:
        yield from self.layout.rules
        yield from (rules for content in self.layout.contents for rules, _ in content)
        yield from (rules for daemons in self.layout.daemons for rules in daemons)

    def _count(self, bin_number: int, rules: ShapeRules, count: int) -> None:
        for tally in rules.adds:
            self.tally[bin_number, tally] += count
        for limit in rules.anti:
            self.bound[bin_number, limit.tally] = min(self.bound[bin_number, limit.tally], limit.limit)

    def _grow(self) -> None:
        extra = len(self.left)
        self.choice = np.concatenate((self.choice, np.full(extra, -1, dtype=np.int64)))
        self.left = np.concatenate((self.left, np.zeros_like(self.left)))
        self.domain = np.concatenate((self.domain, np.full_like(self.domain, -1)), axis=1)
        self.tally = _doubled(self.tally)
        self.bound = np.concatenate((self.bound, np.full_like(self.bound, UNBOUND)))
        self.spread_here = _doubled(self.spread_here)

    def _bounds_of(self, rules: ShapeRules) -> Iterable[tuple[int, int]]:
        """Tallies under anti-affinity that matter to a class, with its own limit."""
        own = {limit.tally: limit.limit for limit in rules.anti}
        yield from own.items()
        yield from ((tally, MANY) for tally in rules.adds if tally not in own and tally in self.bounded)

    def _node_rules(self, index: int) -> IntArray:
        rules, size = self.layout.rules[index], self.size
        space = np.full(size, MANY, dtype=np.int64)
        for tally, limit in self._bounds_of(rules):
            if self.layout.tally_key[tally] < 0:
                count, bound = self.tally[:size, tally], np.minimum(self.bound[:size, tally].astype(np.int64), limit)
                more = bound - count if tally in rules.adds else np.where(count <= limit, MANY, 0)
                np.minimum(space, more, out=space)
        for view in self._spreads_of(index):
            if self.layout.tally_key[view.rule.tally] < 0:
                np.minimum(space, self._node_spread(view, view not in self.layout.spreads[index]), out=space)
        for tally in rules.affinity:
            if self.layout.tally_key[tally] < 0 and not self._may_begin(rules):
                space[self.tally[:size, tally] == 0] = 0
        return np.maximum(space, 0)

    def _spreads_of(self, index: int) -> tuple[SpreadView, ...]:
        """The spread rules of a class; while strict, also those of others that it counts for."""
        return self.layout.spreads[index] + (self.layout.implied[index] if self.is_strict else ())

    def _node_spread(self, view: SpreadView, is_implied: bool) -> IntArray:
        """While strict, every node is compared with an empty one as soon as new ones are planned: more may come."""
        counts = self.tally[: self.size, view.rule.tally].astype(np.int64)
        emptiest = 0 if self.is_strict and self.size > self.rooms else fewest(counts[self.counted(view)], view)
        space = _skew_space(counts, emptiest, view)
        return np.where(self.spread_here[: self.size, view.rule.tally], space, MANY) if is_implied else space

    def counted(self, view: SpreadView) -> BoolArray:
        """Bins among which a spread rule counts and compares."""
        return np.concatenate((view.rooms, view.choices[self.choice[self.rooms : self.size]]))

    def has_nodes(self, key: int, among: BoolArray) -> BoolArray:
        """For each domain of a key: is any of these bins in it?"""
        exists = np.zeros(len(self.layout.domains[key]), dtype=np.bool_)
        exists[self.domain[key, : self.size][among]] = True
        return exists

    def _domain_spread(self, index: int, view: SpreadView) -> IntArray:
        """For each domain (the last is for an absent label): how many more the rule allows."""
        key, counted = int(self.layout.tally_key[view.rule.tally]), self.counted(view)
        counts, exists = self.domain_count(view.rule.tally, counted), self.has_nodes(key, counted)
        if self.is_strict:  # a domain that can be bought is a domain
            within_reach = view.choices & self.layout.fits[index] & (self.layout.choice_domain[key] >= 0)
            exists[self.layout.choice_domain[key][within_reach]] = True
        return np.append(_skew_space(counts, fewest(counts[exists], view), view), 0)

    def _domain_limit(self, tally: int, limit: int, adds: bool) -> IntArray:
        key, size = int(self.layout.tally_key[tally]), self.size
        counts = self.domain_count(tally)
        bounds = np.full(len(counts) + 1, MANY, dtype=np.int64)
        limited = np.flatnonzero(self.bound[:size, tally] < UNBOUND)
        np.minimum.at(bounds, self.domain[key, limited], self.bound[limited, tally])
        bounds[-1] = MANY
        if tally in self.promised_bound:
            bounds[:-1] = np.minimum(bounds[:-1], self.promised_bound[tally])
        if not adds:
            return np.append(np.where(counts <= limit, MANY, 0), MANY)
        return np.append(np.maximum(np.minimum(bounds[:-1], limit) - counts, 0), MANY)

    def _may_begin(self, rules: ShapeRules) -> bool:
        """No pod matches yet and the class matches itself: the first of a group may go anywhere."""
        return rules.is_first_of_its_kind and not any(self._seen_anywhere(tally) for tally in rules.affinity)

    def _seen_anywhere(self, tally: int) -> bool:
        if tally in self.promised and self.promised[tally].any():
            return True
        key = int(self.layout.tally_key[tally])
        counts = self.tally[: self.size, tally]
        return bool((counts if key < 0 else counts[self.domain[key, : self.size] >= 0]).any())


def _doubled(table: _Table) -> _Table:
    """With as many rows of zeros again; memory that nobody looks at is none."""
    larger = np.zeros((2 * len(table), table.shape[1]), dtype=table.dtype)
    larger[: len(table)] = table
    return larger


def fewest(counts: IntArray, view: SpreadView) -> int:
    """The count of the emptiest domain that a spread rule compares with; 0 if there are fewer domains than it asks."""
    return int(counts.min()) if len(counts) and len(counts) >= view.rule.min_domains else 0


def _skew_space(counts: IntArray, emptiest: int, view: SpreadView) -> IntArray:
    if view.rule.counts_itself:
        return np.maximum(view.rule.max_skew + emptiest - counts, 0)
    return np.where(counts - emptiest <= view.rule.max_skew, MANY, 0)


def planned(bins: Bins) -> list[int]:
    """Planned nodes that hold something."""
    return [number for number in range(bins.rooms, bins.size) if bins.contents[number]]


def price_of(bins: Bins) -> float:
    """What the planned nodes cost, what each costs beside its machine included."""
    return float(sum(float(bins.layout.price[bins.choice[number]]) for number in planned(bins)))
