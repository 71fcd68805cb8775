"""Which pods make way for a more important one that has no place? Asked by scheduling for the pods that a round left:
`wishes` says who may ask, `find_ways` is answered where the fleet is (`plan/flow/keeper`), `make_way` does it.

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
from msgspec.structs import replace

from growth.model.action import EvictPod, NominatePod
from growth.model.decision import Note
from growth.model.disruption import PodDisruptionBudget
from growth.model.gang import name_of_gang
from growth.model.node import Node
from growth.model.noderequest import READY
from growth.model.pod import Pod, PodShape
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import PodGroups, Snapshot
from growth.plan.world.nodes import is_protected_pod, state_of
from growth.plan.world.turn import Turn, about, seen
from growth.solver.flow.changes import Told
from growth.solver.rules.fit import fits_alone
from growth.solver.rules.selectors import guarding

BUYING_SECONDS: Final = 30.0  # so long scale-up has to order a machine for a pod
QUICK_SECONDS: Final = 120.0  # machines that are Ready by then are worth waiting for
_AGAIN_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0
IN_VAIN_SECONDS: Final = 5.0  # after a look that found no way for anybody
_MOST_ASKED: Final = 100  # pods of which some may be placed before the others are looked at
_MOST_PODS: Final = 10  # in one look
_MOST_NODES: Final = 200  # in one look; the next one goes on with others


class Try(Struct, frozen=True):
    """Others were asked to make way for a pod."""

    again_at: float
    seconds: float


class Preempting(Struct, frozen=True):
    after: float = 0.0  # nobody is asked to make way before
    tries: Mapping[str, Try] = {}  # by UID of the pods they are asked for

    def tried(self, pod: Pod, now: float) -> Preempting:
        """Somebody else may get the room; then others are asked ever more rarely."""
        before = self.tries.get(pod.uid)
        seconds = _AGAIN_SECONDS if before is None else min(2 * before.seconds, _LONGEST_SECONDS)
        return replace(self, tries={**self.tries, pod.uid: Try(now + seconds, seconds)})


class Way(Struct, frozen=True):
    """A node that would take the pod, and who must leave it."""

    pod: Pod
    node: str
    victims: tuple[Pod, ...]

    @property
    def rank(self) -> tuple[int, int, int, float, str]:
        highest = max(pod.shape.priority for pod in self.victims)
        oldest = min(pod.created_at for pod in self.victims if pod.shape.priority == highest)
        return highest, sum(pod.shape.priority for pod in self.victims), len(self.victims), -oldest, self.node


class Ways(Struct, frozen=True):
    found: tuple[Way, ...] = ()
    is_in_vain: bool = False  # there was somebody to look for, and none was found
    has_more: bool = False  # nodes that were not looked at


# ---------------------------------------------------------------------------------------- who may ask


class Wanting(Struct, frozen=True):
    """A pod that others may make way for, if this round leaves it."""

    pod: Pod
    group: int = -1  # of the round; -1: it is in none, and has no place
    position: int = 0  # in the group: the first ones get the places


class Wishes(Struct, frozen=True):
    """Who may preempt now, and what must be known to find a way for them."""

    wanting: tuple[Wanting, ...] = ()
    scheduler: SchedulerSettings = SchedulerSettings()
    now: float = 0.0
    budgets: tuple[PodDisruptionBudget, ...] = ()
    pod_groups: PodGroups = PodGroups()
    shut: frozenset[str] = frozenset()  # nodes that take no pods
    held: frozenset[str] = frozenset()  # UIDs of pods that are only counted on a node: they wait
    again_at: float | None = None  # when others may

    def of_those_without_a_place(self, placed: Mapping[int, int]) -> Wishes:
        """`placed`: by group, how many of it have a place."""
        left = (each for each in self.wanting if each.group < 0 or each.position >= placed.get(each.group, 0))
        return replace(self, wanting=tuple(left)[:_MOST_PODS])


NOBODY: Final = Wishes()


def wishes(
    wanting: Iterable[Wanting], before: Preempting, held: frozenset[str], snapshot: Snapshot, settings: Settings
) -> Wishes:
    """Of pods that have no place, or may be left without one, those that may preempt now."""
    now, at_once = snapshot.now, _preempts_first(snapshot, settings.scheduler)
    if at_once is None or now < before.after:
        return replace(NOBODY, again_at=before.after if now < before.after else None)
    wait, due, later = 0.0 if at_once else BUYING_SECONDS, list[Wanting](), list[float]()
    for each in wanting:
        pod = each.pod
        is_higher = pod.shape.priority > snapshot.lowest_priority
        if not is_higher or not _may_preempt(pod, snapshot, settings) or is_leaving(pod.nominated_node, snapshot):
            continue
        again_at = before.tries[pod.uid].again_at if pod.uid in before.tries else 0.0
        at = max((pod.unschedulable_at or now) + wait, again_at)
        if at <= now:
            due.append(each)
        else:
            later.append(at)
    soonest = min(later, default=None)
    if not due:
        return replace(NOBODY, again_at=soonest)
    due.sort(key=lambda each: (-each.pod.shape.priority, each.pod.created_at, each.pod.key))
    return Wishes(
        tuple(due[:_MOST_ASKED]),
        settings.scheduler,
        now,
        tuple(budget for _, budget in sorted(snapshot.disruption_budgets.items())),
        PodGroups(dict(snapshot.pod_groups.minimums), snapshot.pod_groups.absent),
        frozenset(name for name in snapshot.nodes if not state_of(name, snapshot).takes_pods),
        held,
        soonest,
    )


def _may_preempt(pod: Pod, snapshot: Snapshot, settings: Settings) -> bool:
    is_waiting = pod.unschedulable_at is not None and pod.deleted_at is None
    is_important = pod.shape.priority >= settings.priority_cutoff
    is_alone = not _is_in_gang(pod, snapshot.pod_groups)
    return is_waiting and is_important and is_alone and not pod.shape.never_preempts


def _is_in_gang(pod: Pod, groups: PodGroups) -> bool:
    return bool(name_of_gang(pod, groups))


def is_leaving(name: str, snapshot: Snapshot) -> bool:
    """Is somebody on his way out of this node?"""
    return any(each.deleted_at is not None for each in snapshot.pods_by_node.get(name, ()))


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


# ------------------------------------------------------------------------------------------ doing it


def make_way(ways: Ways, asked: Wishes, before: Preempting, snapshot: Snapshot, turn: Turn) -> Preempting:
    """Pods that a way was found for are nominated to its node, or have their victims there evicted. What is no longer
    true of an answer is not done.
    """
    turn.wake(asked.again_at)
    if not asked.wanting:
        return before
    waiting = {pod.uid: pod for pod in snapshot.waiting_pods}
    after = replace(before, tries={uid: each for uid, each in before.tries.items() if uid in waiting})
    budgets = tuple(snapshot.disruption_budgets.values())
    for way in ways.found:
        pod = waiting.get(way.pod.uid)
        if pod is None or not state_of(way.node, snapshot).takes_pods:
            continue
        if pod.nominated_node != way.node:
            turn.do(NominatePod(seen(pod), way.node))
            continue
        here = {each.uid: each for each in snapshot.pods_by_node.get(way.node, ())}
        victims = [here[each.uid] for each in way.victims if each.uid in here]
        if len(victims) == len(way.victims) and _may_all_leave(victims, budgets):
            after = after.tried(pod, snapshot.now)
            _evict(pod, way.node, victims, turn)
    if not ways.is_in_vain:
        return after
    turn.wake(snapshot.now + IN_VAIN_SECONDS if ways.has_more else None)
    return replace(after, after=snapshot.now + IN_VAIN_SECONDS)


def _may_all_leave(victims: list[Pod], budgets: tuple[PodDisruptionBudget, ...]) -> bool:
    is_any_kept = any(is_protected_pod(each) or each.deleted_at is not None for each in victims)
    return not is_any_kept and do_budgets_allow(victims, budgets)


def _evict(pod: Pod, node: str, victims: list[Pod], turn: Turn) -> None:
    names = ", ".join(each.key for each in victims)
    turn.tell(Note(about(pod), "Preempting", f"{len(victims)} pods make way on node {node}: {names[:500]}"))
    for victim in victims:
        turn.do(EvictPod(seen(victim)))
        told = f"makes way on node {node} for {pod.key}, whose priority {pod.shape.priority} is higher"
        turn.tell(Note(about(victim), "Preempted", told, "Warning"))


def do_budgets_allow(pods: Iterable[Pod], budgets: tuple[PodDisruptionBudget, ...]) -> bool:
    """All of these together."""
    used: Counter[str] = Counter()
    for pod in pods:
        own = guarding(budgets, pod)
        used.update(budget.key for budget in own)
        if len(own) > 1:
            return False
    known = {budget.key: budget for budget in budgets}
    return all(known[key].is_current and known[key].disruptions_allowed >= count for key, count in used.items())


# ------------------------------------------------------------------------------------- finding a way


def find_ways(told: Told, wishes: Wishes, taken: Collection[str]) -> Ways:
    """`taken`: nodes that the round sends pods to: these are not looked at."""
    look = _Look(told, wishes, taken)
    found = [way for each in wishes.wanting if (way := look.way_for(each.pod)) is not None]
    return Ways(tuple(found), not found, look.has_more)


class _Look:
    """The cluster in this round."""

    def __init__(self, told: Told, wishes: Wishes, taken: Collection[str]) -> None:
        self._index, self._nodes, self._wishes = told.fleet.index, told.nodes, wishes
        self._pods = {
            name: tuple(pod for pod in pods if pod.uid not in wishes.held) for name, pods in told.pods.items()
        }
        self._lowest = {
            name: min(pod.shape.priority for pod in pods) if pods else math.inf for name, pods in self._pods.items()
        }
        self._taken = set(taken)
        self._looked = 0
        self.has_more = False  # nodes that were not looked at
        self._ways: dict[PodShape, list[Way]] = {}

    def way_for(self, pod: Pod) -> Way | None:
        """Where it is nominated, if there is one; else the best there is."""
        way = self._way_on(pod, pod.nominated_node) if pod.nominated_node else None
        way = way or self._best_way(pod)
        if way is not None:
            self._taken.add(way.node)
        return way

    def _best_way(self, pod: Pod) -> Way | None:
        """The best of a part of the nodes, another part in each look."""
        if pod.shape in self._ways:  # a way is found once for all pods that are alike
            known = [replace(way, pod=pod) for way in self._ways[pod.shape] if way.node not in self._taken]
            return min(known, key=lambda each: each.rank, default=None)
        names = sorted(name for name, lowest in self._lowest.items() if lowest < pod.shape.priority)
        names = [name for name in names if self._could_take(pod, name)]
        first = int(self._wishes.now / IN_VAIN_SECONDS) * _MOST_NODES % max(1, len(names))
        chosen = [*names[first:], *names[:first]][: max(0, _MOST_NODES - self._looked)]
        self._looked += len(chosen)
        self.has_more |= len(chosen) < len(names)
        ways = self._ways[pod.shape] = [way for name in chosen if (way := self._way_on(pod, name)) is not None]
        return min(ways, key=lambda each: each.rank, default=None)

    def _could_take(self, pod: Pod, name: str) -> bool:
        """Were it empty."""
        node = self._nodes.get(name)
        if node is None or any(each.deleted_at is not None for each in self._pods.get(name, ())):
            return False
        return fits_alone(pod.shape, node, node.allocatable)

    def _way_on(self, pod: Pod, name: str) -> Way | None:
        """The least that must leave this node; None: it cannot take the pod, or takes it as it is."""
        node = self._nodes.get(name)
        if name in self._taken or name in self._wishes.shut or node is None:
            return None
        lower = [each for each in self._pods.get(name, ()) if self._may_leave(each, pod)]
        return self._least(pod, node, lower) if lower else None

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
        is_allowed = bool(victims) and do_budgets_allow(victims, self._wishes.budgets)
        return Way(pod, node.name, tuple(victims)) if is_allowed else None

    def _may_leave(self, other: Pod, pod: Pod) -> bool:
        is_lower = other.shape.priority < pod.shape.priority and other.counts_as_work and other.deleted_at is None
        is_lower &= self._wishes.scheduler.serves(other.shape.scheduler_name)
        return (
            is_lower
            and not is_protected_pod(other)
            and not _is_in_gang(other, self._wishes.pod_groups)
            and do_budgets_allow([other], self._wishes.budgets)
        )
