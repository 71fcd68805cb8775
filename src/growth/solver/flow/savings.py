"""What would be saved if a running pod were elsewhere? Asked by `plan/flow/improvement`.

Its place is priced as if the pod were taken off and put back, by the costs of one pod that is placed alone; so is every
other place that the rules leave it. The difference is what a move saves.

| a move is none | |
| --- | --- |
| to a machine that the pod likes less: soft taints, preferences | |
| `spread`: to one that would then be as full as its own is now; `pack`: to one that would not be fuller | |
| `cheapest`: while other pods keep its machine, or to one that none keeps | |

So there is a rank that falls with every move, in the order of: what all pods dislike; the shares of the machines that
are taken, the fullest first (`pack`: rises); the machines in use (`cheapest`). A world that rests comes to an end of
moves, whatever its pods and machines are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from growth.model.pod import Pod
from growth.model.scheduler import SchedulerSettings
from growth.solver.arrays import FloatArray, IntArray, Mask
from growth.solver.flow.costs import LoadCosts
from growth.solver.flow.entangled import looks_for_pods
from growth.solver.flow.fleet import Fleet
from growth.solver.flow.work import Member, Work
from growth.solver.rules.claims import NO_VOLUMES
from growth.solver.rules.pod_class import PodClass


class Move(Struct, frozen=True):
    """A pod, where it would go, and what its place costs here and there."""

    pod: Pod
    node: str
    cost: int
    then: int

    @property
    def saving(self) -> int:
        return self.cost - self.then


def find_moves(
    fleet: Fleet, pods: Sequence[Pod], settings: SchedulerSettings, is_open: Mask, prices: FloatArray, most: int
) -> list[Move]:
    """Of pods that run, up to so many moves that save more than `improvementSaving`, the best first, each beside those
    before it; one for each owner. `prices` of machines by number. The fleet is left as it was.
    """
    index, found, left, in_use = fleet.index, list[Move](), list(pods), fleet.in_use()
    try:
        while len(found) < most:
            looks = _Looks(fleet, settings, is_open, prices, in_use)
            best = max(looks.moves(left), key=lambda move: (move.saving, move.pod.key), default=None)
            if best is None:
                break
            found.append(best)
            left = [pod for pod in left if pod.owner is None or best.pod.owner is None or pod.owner != best.pod.owner]
            index.remove_pod(best.pod)
            index.add_pod(replace(best.pod, node_name=best.node))
            in_use[index.table.index[best.pod.node_name]] -= 1
            in_use[index.table.index[best.node]] += 1
    finally:
        for move in reversed(found):
            index.remove_pod(replace(move.pod, node_name=move.node))
            index.add_pod(move.pod)
    return found


class _Looks:
    """The machines as they are now."""

    def __init__(
        self, fleet: Fleet, settings: SchedulerSettings, is_open: Mask, prices: FloatArray, in_use: IntArray
    ) -> None:
        self._fleet, self._settings, self._is_open, self._prices = fleet, settings, is_open, prices
        self._in_use = in_use
        self._load, self._loads = fleet.load(), fleet.loads()
        self._upkeep = np.where(self._in_use > 0, 0.0, prices)

    def moves(self, pods: Sequence[Pod]) -> Iterator[Move]:
        """The best one of each class of pods and machine."""
        index = self._fleet.index
        classes: dict[int, PodClass] = {}
        by_place: dict[tuple[int, int], Pod] = {}
        for pod in pods:
            pod_class = index.class_of_pod(pod)
            classes[pod_class.number] = pod_class
            by_place.setdefault((pod_class.number, index.table.index[pod.node_name]), pod)
        here: dict[int, dict[int, Pod]] = {}
        for (number, machine), pod in by_place.items():
            here.setdefault(number, {})[machine] = pod
        for number, standing in here.items():
            pod_class = classes[number]
            if pod_class.needs is NO_VOLUMES and not looks_for_pods(pod_class.shape):
                yield from self._of_class(pod_class, standing)

    def _of_class(self, pod_class: PodClass, standing: dict[int, Pod]) -> Iterator[Move]:
        fleet, member = self._fleet, Member(0, pod_class, 1)
        open_to_it = np.flatnonzero(fleet.index.fits(pod_class)[: len(self._load)] & self._is_open)
        if not len(open_to_it):
            return
        costs = Work(fleet, self._settings, self._is_open, self._upkeep.copy()).costs_for([member])
        share, dislike = fleet.share(member.needs), fleet.dislike(pod_class, self._settings)
        shares = fleet.shares(member.needs)
        there = costs.first(share, self._load)[open_to_it] + dislike[open_to_it]
        after = (self._loads + shares).max(axis=0)[open_to_it]
        for machine, pod in standing.items():
            cost = self._price_here(machine, costs, share, shares) + float(dislike[machine])
            allowed = (dislike[open_to_it] <= dislike[machine]) & (open_to_it != machine)
            allowed &= self._falls(machine, dislike[open_to_it] < dislike[machine], after, open_to_it)
            if not allowed.any():
                continue
            best = int(np.flatnonzero(allowed)[np.argmin(there[allowed])])
            move = Move(
                pod, fleet.index.table.nodes[int(open_to_it[best])].name, round(cost), round(float(there[best]))
            )
            if move.saving > self._settings.improvement_saving:
                yield move

    def _price_here(self, machine: int, costs: LoadCosts, share: FloatArray, shares: FloatArray) -> float:
        """What the pod's own place would cost it, were it not there."""
        if self._settings.cost_model == "cheapest":
            kept = self._in_use[machine] > 1
            return 0.0 if kept else float(self._settings.price_cost * self._prices[machine] * share[machine])
        without = float((self._loads[:, machine] - shares[:, machine]).max(initial=0.0))
        return float(costs.first(share[machine : machine + 1], np.array([without]))[0])

    def _falls(self, machine: int, is_liked_more: Mask, after: FloatArray, numbers: IntArray) -> Mask:
        """For which of the machines does a move there lower the rank?"""
        load = self._load[machine]
        if self._settings.cost_model == "spread":
            falls: Mask = after < load - 1e-9
        elif self._settings.cost_model == "pack":
            falls = after > load + 1e-9
        else:
            falls = (self._in_use[numbers] > 0) & (self._in_use[machine] == 1)
        return is_liked_more | falls
