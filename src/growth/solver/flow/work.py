"""What has been placed so far in this round, and can be taken back? Shared by the steps of one placement; gone when it
ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from growth.model.settings import SchedulerSettings
from growth.solver.arrays import FloatArray, IntArray, Mask
from growth.solver.flow.costs import LoadCosts, fill, load_costs
from growth.solver.flow.fleet import Fleet
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


class Work:
    """The fleet while pods are tried on it."""

    def __init__(self, fleet: Fleet, settings: SchedulerSettings, is_open: Mask, upkeep: FloatArray) -> None:
        self.fleet = fleet
        self.index = fleet.index
        self.settings = settings
        self.is_open = is_open  # which machines may be used at all
        self.upkeep = upkeep  # price per hour of machines that no pod keeps yet
        self._price = upkeep.copy()
        self.placed: list[tuple[Member, IntArray, IntArray]] = []

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

    def take_back(self, gang: str | None = None, *, since: int = 0) -> None:
        """Everything, or what belongs to a gang; or what was placed after so many others."""
        kept: list[tuple[Member, IntArray, IntArray]] = []
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
                mean[name] = mean.get(name, 0.0) + amount * member.left / max(1, pods)
        return load_costs(self.settings, self.fleet.load(), self.fleet.share(mean), self.is_open, self.upkeep)
