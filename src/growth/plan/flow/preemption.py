"""Which pods make way for a more important one that has no place? Asked by scheduling for the pods that a round left.

    chosen: a node, and the least that must leave it → NominatePod → seen: EvictPod for each → gone: bound there

| a pod | preempts |
| --- | --- |
| its PriorityClass, or it itself, says `preemptionPolicy: Never` | never |
| is one of a gang | never: room for one of them is room for none |
| its priority is below the cutoff of scale-up or not above anybody's | never |
| is nominated to a node that others are leaving | not now: its room is coming |
| others left for it, and somebody else got the room | after a minute, then two, then four, up to an hour; it is told |
| a machine can be bought for it | as the setting `preemption` says |

| the setting | |
| --- | --- |
| `Never` | nobody makes way |
| `BuyFirst` | only for a pod that has waited half a minute and is still planned onto no machine |
| `PreemptFirst` | as soon as a pod has no place |
| `Auto` | BuyFirst while half of the machines that came lately were Ready within two minutes, else PreemptFirst |
| any but `Never`, and there is no NodePool | as soon as a pod has no place: there is nothing to buy |

| no victim is | |
| --- | --- |
| a pod of the same or a higher priority, of a DaemonSet, a mirror | |
| a pod of another scheduler | that would put its successor back into the room at once |
| `growth.dev/do-not-disrupt` and its like say no; its budget allows none, or it has several | |
| one of a gang | its others would stand still |

Of the pods that may go as many stay as can, the most important and then the oldest first. Of the nodes that one is
taken whose most important victim is the least important; then the one with the smallest sum of priorities, the fewest
victims, and the youngest. Pods go through the Eviction API only, which has the last word on budgets. All of it is read
off the objects but how often somebody has made way already.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import Final

from msgspec import Struct

from growth.model.action import EvictPod, NominatePod
from growth.model.decision import Note
from growth.model.gang import name_of_gang
from growth.model.node import Node
from growth.model.noderequest import READY
from growth.model.pod import Pod, PodShape
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.nodes import is_protected_pod, state_of
from growth.plan.world.turn import Turn, about, seen
from growth.solver.rules import Neighbours
from growth.solver.rules.fit import fits_alone
from growth.solver.rules.selectors import guarding

BUYING_SECONDS: Final = 30.0  # so long scale-up has to order a machine for a pod
QUICK_SECONDS: Final = 120.0  # machines that are Ready by then are worth waiting for
_AGAIN_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0
IN_VAIN_SECONDS: Final = 5.0  # after a look that found no way for anybody
_MOST_PODS: Final = 10  # in one look
_MOST_NODES: Final = 200  # in one look; the next one goes on with others


class Try(Struct, frozen=True):
    """Others were asked to make way for a pod."""

    again_at: float
    seconds: float


class Preempting(Struct, frozen=True):
    after: float = 0.0  # nobody is asked to make way before
    tries: Mapping[str, Try] = {}  # by UID of the pods they are asked for


class Way(Struct, frozen=True):
    """A node that would take the pod, and who must leave it."""

    node: str
    victims: tuple[Pod, ...]

    @property
    def rank(self) -> tuple[int, int, int, float, str]:
        highest = max(pod.shape.priority for pod in self.victims)
        oldest = min(pod.created_at for pod in self.victims if pod.shape.priority == highest)
        return highest, sum(pod.shape.priority for pod in self.victims), len(self.victims), -oldest, self.node


def make_way(
    fleet: tuple[Neighbours, Collection[str]],
    left: Iterable[Pod],
    before: Preempting,
    snapshot: Snapshot,
    settings: Settings,
    turn: Turn,
) -> Preempting:
    """Of the pods without a place, those that may preempt are nominated to a node, or have their victims there evicted.
    `fleet`: the nodes, and which of them the round sends pods to: these are not looked at.
    """
    now, at_once = snapshot.now, _preempts_first(snapshot, settings.scheduler)
    waiting = {pod.uid for pod in snapshot.waiting_pods} if before.tries else set()
    tries = {uid: each for uid, each in before.tries.items() if uid in waiting}
    wanting = [] if at_once is None else [pod for pod in left if _may_preempt(pod, snapshot, settings)]
    if not wanting:
        return Preempting(now, tries)
    look = _Look(*fleet, snapshot, settings.scheduler, tries)
    wanting = [pod for pod in wanting if pod.shape.priority > look.lowest and not look.is_leaving(pod.nominated_node)]
    wait = 0.0 if at_once else BUYING_SECONDS
    due_at = {pod: max((pod.unschedulable_at or now) + wait, look.again_at(pod)) for pod in wanting}
    due = [pod for pod, at in due_at.items() if at <= now]
    turn.wake(min((at for at in due_at.values() if at > now), default=None))
    due.sort(key=lambda each: (-each.shape.priority, each.created_at, each.key))
    ways = [_preempt(pod, look, turn) for pod in due[:_MOST_PODS]]
    if any(ways) or not due:
        return Preempting(now, look.tries)
    turn.wake(now + IN_VAIN_SECONDS if look.has_more else None)
    return Preempting(now + IN_VAIN_SECONDS, look.tries)


def _preempt(pod: Pod, look: _Look, turn: Turn) -> bool:
    """Was a way found?"""
    way = look.way_on(pod, pod.nominated_node) if pod.nominated_node else None
    if way is None:
        best = look.best_way(pod)
        if best is not None:
            look.taken.add(best.node)
            turn.do(NominatePod(seen(pod), best.node))
        return best is not None
    look.taken.add(way.node)
    look.tried(pod)
    names = ", ".join(each.key for each in way.victims)
    turn.tell(Note(about(pod), "Preempting", f"{len(way.victims)} pods make way on node {way.node}: {names[:500]}"))
    for victim in way.victims:
        turn.do(EvictPod(seen(victim)))
        told = f"makes way on node {way.node} for {pod.key}, whose priority {pod.shape.priority} is higher"
        turn.tell(Note(about(victim), "Preempted", told, "Warning"))
    return True


def _may_preempt(pod: Pod, snapshot: Snapshot, settings: Settings) -> bool:
    is_waiting = pod.unschedulable_at is not None and pod.deleted_at is None
    is_important = pod.shape.priority >= settings.priority_cutoff
    return is_waiting and is_important and not pod.shape.never_preempts and not _is_in_gang(pod, snapshot)


def _is_in_gang(pod: Pod, snapshot: Snapshot) -> bool:
    return bool(name_of_gang(pod, snapshot.pod_groups))


def _preempts_first(snapshot: Snapshot, scheduler: SchedulerSettings) -> bool | None:
    """None: nobody makes way at all."""
    if scheduler.preemption == "Never":
        return None
    if scheduler.preemption == "PreemptFirst" or not snapshot.pools:
        return True
    if scheduler.preemption == "BuyFirst":
        return False
    ready = [each for each in snapshot.requests.values() if each.phase == READY]
    taken = [max(0.0, each.changed_at - each.created_at) for each in ready]
    return bool(taken) and median(taken) > QUICK_SECONDS


class _Look:
    """The cluster in this round."""

    def __init__(
        self,
        index: Neighbours,
        taken: Collection[str],
        snapshot: Snapshot,
        scheduler: SchedulerSettings,
        tries: dict[str, Try],
    ) -> None:
        self.taken, self.tries = set(taken), tries
        self._index, self._snapshot, self._scheduler = index, snapshot, scheduler
        self._budgets = tuple(budget for _, budget in sorted(snapshot.disruption_budgets.items()))
        self._lowest = snapshot.memo.recall("lowest priorities", (snapshot.pods_by_node,), self._lowest_by_node, most=1)
        self._looked = 0
        self.has_more = False  # nodes that were not looked at
        self._ways: dict[PodShape, list[Way]] = {}

    @property
    def lowest(self) -> float:
        """The priority of the least important pod that has a node."""
        return min(self._lowest.values(), default=math.inf)

    def _lowest_by_node(self) -> dict[str, int]:
        return {
            name: min(pod.shape.priority for pod in pods) for name, pods in self._snapshot.pods_by_node.items() if pods
        }

    def again_at(self, pod: Pod) -> float:
        return self.tries[pod.uid].again_at if pod.uid in self.tries else 0.0

    def tried(self, pod: Pod) -> None:
        """Somebody else may get the room; then others are asked ever more rarely."""
        before = self.tries.get(pod.uid)
        seconds = _AGAIN_SECONDS if before is None else min(2 * before.seconds, _LONGEST_SECONDS)
        self.tries[pod.uid] = Try(self._snapshot.now + seconds, seconds)

    def is_leaving(self, name: str) -> bool:
        """Is somebody on his way out of this node?"""
        return any(each.deleted_at is not None for each in self._snapshot.pods_by_node.get(name, ()))

    def best_way(self, pod: Pod) -> Way | None:
        """The best of a part of the nodes, another part in each look."""
        if pod.shape in self._ways:  # a way is found once for all pods that are alike
            known = [way for way in self._ways[pod.shape] if way.node not in self.taken]
            return min(known, key=lambda each: each.rank, default=None)
        names = sorted(name for name, lowest in self._lowest.items() if lowest < pod.shape.priority)
        names = [name for name in names if self._could_take(pod, name)]
        first = int(self._snapshot.now / IN_VAIN_SECONDS) * _MOST_NODES % max(1, len(names))
        chosen = [*names[first:], *names[:first]][: max(0, _MOST_NODES - self._looked)]
        self._looked += len(chosen)
        self.has_more |= len(chosen) < len(names)
        ways = self._ways[pod.shape] = [way for name in chosen if (way := self.way_on(pod, name)) is not None]
        return min(ways, key=lambda each: each.rank, default=None)

    def _could_take(self, pod: Pod, name: str) -> bool:
        """Were it empty."""
        node = self._snapshot.nodes.get(name)
        return node is not None and not self.is_leaving(name) and fits_alone(pod.shape, node, node.allocatable)

    def way_on(self, pod: Pod, name: str) -> Way | None:
        """The least that must leave this node; None: it cannot take the pod, or takes it as it is."""
        state = state_of(name, self._snapshot)
        if name in self.taken or state.node is None or not state.takes_pods or name not in self._index.table.index:
            return None
        lower = [each for each in self._snapshot.pods_by_node.get(name, ()) if self._may_leave(each, pod)]
        return self._least(pod, state.node, lower) if lower else None

    def _least(self, pod: Pod, node: Node, lower: list[Pod]) -> Way | None:
        index, number = self._index, self._index.table.index[node.name]

        def fits() -> bool:
            return index.fits_on(index.class_of_pod(pod), number)

        if fits():
            return None
        for each in lower:
            index.remove_pod(each)
        victims = list[Pod]()
        is_enough = fits()
        for each in sorted(lower, key=lambda one: (-one.shape.priority, one.created_at, one.key)):
            index.add_pod(each)
            if is_enough and not fits():
                index.remove_pod(each)
                victims.append(each)
        for each in victims:
            index.add_pod(each)
        return Way(node.name, tuple(victims)) if victims and self._do_budgets_allow(victims) else None

    def _may_leave(self, other: Pod, pod: Pod) -> bool:
        is_lower = other.shape.priority < pod.shape.priority and other.counts_as_work and other.deleted_at is None
        is_lower &= self._scheduler.serves(other.shape.scheduler_name)
        return (
            is_lower
            and not is_protected_pod(other)
            and not _is_in_gang(other, self._snapshot)
            and self._do_budgets_allow([other])
        )

    def _do_budgets_allow(self, pods: Iterable[Pod]) -> bool:
        """All of these together."""
        used: Counter[str] = Counter()
        for pod in pods:
            budgets = guarding(self._budgets, pod)
            used.update(budget.key for budget in budgets)
            if len(budgets) > 1:
                return False
        known = {budget.key: budget for budget in self._budgets}
        return all(known[key].is_current and known[key].disruptions_allowed >= count for key, count in used.items())
