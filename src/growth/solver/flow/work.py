"""What has been placed so far in this round, and can be taken back, and who was overtaken by it? Shared by the steps of
one placement; gone when it ends.

A band of one priority in which somebody was overtaken is placed again, in turns: those who have waited at least as long
first.

| left | overtaken by |
| --- | --- |
| has waited less than an hour | a younger pod with rules between pods, ports or volumes: these are placed first |
| an hour or more | any younger pod: the price of leaving it out does not rise any more |

Room counts by amounts, on machines that the pod may use whatever is on them. A gang is as old as its oldest member, and
has its turn as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from growth.model.scheduler import SchedulerSettings
from growth.solver.arrays import FloatArray, IntArray, Mask
from growth.solver.flow.costs import PRICED_MINUTES, LoadCosts, fill, load_costs
from growth.solver.flow.fleet import Fleet
from growth.solver.rules.claims import NO_VOLUMES
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.resources import counted_needs


@dataclass(slots=True)
class Member:
    """A group that is being placed."""

    number: int  # of the group
    pod_class: PodClass
    left: int
    minutes: int = 0
    gang: str = ""
    needs: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.needs = counted_needs(self.pod_class.shape.requests)


PlacedGroup: TypeAlias = tuple[Member, IntArray, IntArray]  # machines, and how many on each


class Work:
    """The fleet while pods are tried on it."""

    def __init__(self, fleet: Fleet, settings: SchedulerSettings, is_open: Mask, upkeep: FloatArray) -> None:
        self.fleet = fleet
        self.index = fleet.index
        self.settings = settings
        self.is_open = is_open  # which machines may be used at all
        self.upkeep = upkeep  # price per hour of machines that no pod keeps yet
        self._price = upkeep.copy()
        self.placed: list[PlacedGroup] = []
        self.columns: dict[int, tuple[IntArray, bool]] = {}  # by column: as `entangled` has read it
        self.why_short: dict[str, str] = {}  # by gang: for how many there is room, and what is missing

    def put(self, member: Member, numbers: IntArray, counts: IntArray) -> int:
        """So many pods of the group onto each of these machines."""
        used = counts > 0
        numbers, counts = numbers[used], counts[used]
        total = int(counts.sum())
        if total:
            self.index.count_in_many(member.pod_class, numbers, counts)
            self.upkeep[numbers] = 0.0
            self.placed.append((member, numbers, counts))
            member.left -= total
        return total

    def put_cheapest(
        self, member: Member, numbers: IntArray, room: IntArray, count: int, costs: LoadCosts, *more: FloatArray
    ) -> int:
        """So many pods, or as many as there is room for, onto the cheapest of these machines; `more` is what a pod
        costs on each beside its load. Returns how many.
        """
        load, share = self.fleet.load(numbers), self.fleet.share(member.needs, numbers)
        first = sum(more, costs.first(share, load, numbers))
        return self.put(member, numbers, fill(first, costs.slope(share), room, count, rank=-load))

    def put_alone(
        self, member: Member, numbers: IntArray, room: IntArray, count: int, costs: LoadCosts, *more: FloatArray
    ) -> int:
        """The same, with costs for this member alone, on machines that nothing was put onto since they were made."""
        load, share = costs.load[numbers], costs.unit[numbers]
        first = sum(more, costs.first(share, load, numbers))
        return self.put(member, numbers, fill(first, costs.slope(share), room, count, rank=-load))

    def take_back(self, gang: str | None = None, *, since: int = 0) -> None:
        """Everything, or what belongs to a gang; or what was placed after so many others."""
        kept: list[PlacedGroup] = []
        for position, (member, numbers, counts) in enumerate(self.placed):
            if position < since or (gang is not None and member.gang != gang):
                kept.append((member, numbers, counts))
                continue
            self.index.count_in_many(member.pod_class, numbers, -counts)
            member.left += int(counts.sum())
            self.upkeep[numbers] = self._price[numbers]
        self.placed = kept
        for _, numbers, _ in kept:
            self.upkeep[numbers] = 0.0

    def count_of(self, gang: str) -> int:
        return sum(int(counts.sum()) for member, _, counts in self.placed if member.gang == gang)

    def costs_for(self, members: list[Member]) -> LoadCosts:
        """As the machines are now, for these pods."""
        pods = sum(member.left for member in members)
        mean: dict[str, float] = {}
        for member in members:
            for name, amount in member.needs.items():
                mean[name] = mean.get(name, 0.0) + amount * (member.left / max(1, pods))
        return load_costs(self.settings, self.fleet.load(), self.fleet.share(mean), self.is_open, self.upkeep)


# ---------------------------------------------------------------------------------------- overtaking


def oldest_overtaken(work: Work, members: list[Member], begun: int, cuts: Collection[int]) -> int | None:
    """How many minutes has the oldest one waited that was overtaken, apart from those of `cuts`? `begun`: so many were
    placed before this band.
    """
    ages = _ages(members)
    placed = [(ages[one[0].number], one) for one in work.placed[begun:]]
    if not placed:
        return None
    youngest = min(age for age, _ in placed)
    left = {ages[each.number]: each for each in members if each.left and ages[each.number] not in cuts}
    for age in sorted(left, reverse=True):
        if age <= youngest:
            return None
        waiting = [each for each in members if each.left and ages[each.number] == age]
        younger = [one for own, one in placed if own < age and (age >= PRICED_MINUTES or _looks_around(one[0]))]
        if younger and any(_could_have_had(work, each, younger) for each in _unlike(waiting)):
            return age
    return None


def in_turns(members: list[Member], cuts: Collection[int]) -> Iterator[list[Member]]:
    """The oldest first."""
    ages = _ages(members)
    bounds = sorted(cuts, reverse=True)
    for upper, lower in zip((None, *bounds), (*bounds, -1), strict=True):
        turn = [each for each in members if lower <= ages[each.number] and (upper is None or ages[each.number] < upper)]
        if turn:
            yield turn


def _ages(members: list[Member]) -> dict[int, int]:
    """By the number of a group, how many minutes it has waited."""
    oldest: dict[str, int] = {}
    for each in members:
        oldest[each.gang] = max(oldest.get(each.gang, 0), each.minutes)
    return {each.number: oldest[each.gang] if each.gang else each.minutes for each in members}


def _looks_around(member: Member) -> bool:
    shape = member.pod_class.shape
    rules = shape.affinity or shape.anti_affinity or shape.spread or shape.host_ports
    wishes = shape.preferred_affinity or shape.preferred_anti_affinity
    return bool(rules or wishes) or member.pod_class.needs is not NO_VOLUMES


def _unlike(members: list[Member]) -> list[Member]:
    """One of each class."""
    return list({each.pod_class.number: each for each in members}.values())


def _could_have_had(work: Work, member: Member, younger: list[PlacedGroup]) -> bool:
    """Would it fit on a machine if these had not come there?"""
    table, size = work.index.table, len(work.index.table)
    allowed = work.index.question(member.pod_class).allowed_by_nodes() & work.is_open
    reclaimed = np.zeros(size, np.bool_)
    for _, numbers, _ in younger:
        reclaimed[numbers] = True
    allowed &= reclaimed
    for name, need in member.needs.items():
        if need:
            free = table.free[table.row(name), :size].copy()
            for other, numbers, counts in younger:
                free[numbers] += other.needs.get(name, 0) * counts
            allowed &= free >= need
    return bool(allowed.any())
