"""Which pods need a place that growth should find? Asked by scale-up.

| pod | |
| --- | --- |
| the scheduler says Unschedulable, or it is foreseen (`plan/nodes_up/verdict`) | a demand |
| gated, going, a DaemonSet's, a mirror, or the verdict is awaited | none: growth is not asked |
| below the priority cutoff | none: no machines for filler; it is told so once |
| planned onto a node on its way | none: it has its place |
| nominated to, or expected by us on, a node with room | none: it waits for the scheduler, and holds that room |
| names a missing pool, or none where there is no default | none, and is told so once |
| is not allowed in its pool, or cannot be read | none, and is told so once |
| the same, and not judged yet | none: the scheduler may have a place for it |
| virtual pods of a buffer that have no room | one demand with their count, of the lowest rank |

A gang (`model/gang`) is bought for whole or not at all, and bound whole:

| the gang | then |
| --- | --- |
| members are missing, or gated | nothing is bought for it; its pods are told how many |
| enough are there, but the scheduler has not said yet that they have no place | waited for |
| enough ask for a place | one question for all of them: the solver places enough, or none |
| something it needs is on trial | if it could be whole, in steps: what is in doubt first, of use once it came |
| the brake allows too few | nothing is bought for it |
| an order is refused when it is counted | nothing is bought for it in this look, unless more may be bought soon |
| a machine has come for some of its pods | it waits behind its start-up taint until enough run or have such a machine |
| – for longer than the setting `gangSeconds` | it opens as any other, and its pods ask for a place again |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from growth.model.decision import About, Note
from growth.model.gang import GangStanding, name_of_gang, waiting_gangs
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import BufferPlacement
from growth.plan.world.capacity import Assignments, awaits_pods, is_plannable
from growth.plan.world.market import PoolReader
from growth.plan.world.turn import about
from growth.solver.purchase.problem import GangDemand

MALFORMED: Final = "Malformed"
BELOW_CUTOFF: Final = "BelowCutoff"
UNPLACED: Final = "Unplaced"


class Demand(Struct, frozen=True):
    """A pod with the pools it may buy from, and its needs as the solver shall see them. The virtual pods of a buffer
    are one demand: they differ in nothing.
    """

    pod: Pod  # of a buffer: its name, its UID and the shape of its virtual pods
    pools: tuple[str, ...]
    shape: PodShape
    count: int = 1
    is_virtual: bool = False

    @property
    def name(self) -> str:
        """What it is remembered by."""
        return buffer_name(self.pod.key) if self.is_virtual else identity(self.pod)

    @property
    def about(self) -> About:
        pod = self.pod
        return About("CapacityBuffer", pod.name, pod.namespace, pod.uid) if self.is_virtual else about(pod)


def identity(pod: Pod) -> str:
    return pod.uid or pod.key


def buffer_name(key: str) -> str:
    """No UID and no key of a pod has a space."""
    return f"CapacityBuffer {key}"


class Problem(Struct, frozen=True):
    """A pod for which nothing can be bought, and why."""

    pod: Pod
    reason: str
    message: str

    @property
    def told(self) -> str:
        return f"{self.reason}: {self.message}"

    def note(self) -> Note:
        reason = UNPLACED if self.reason == BELOW_CUTOFF else self.reason
        return Note(about(self.pod), reason, self.message, "Warning")


class Demands(Struct, frozen=True):
    wanted: tuple[Demand, ...] = ()
    problems: tuple[Problem, ...] = ()


def demands(
    pods: Iterable[Pod],
    placed: Collection[str],
    pools: Mapping[str, NodePool],
    offerings: tuple[Offering, ...],
    priority_cutoff: int,
) -> Demands:
    """Of pods that growth is asked about, those that need a place. `placed` holds the keys of pods that have one."""
    reader = PoolReader(pools, offerings)
    wanted, problems = list[Demand](), list[Problem]()
    for pod in pods:
        if pod.key in placed:
            continue
        if pod.shape.malformed and pod.deleted_at is None:
            problems.append(Problem(pod, MALFORMED, pod.shape.malformed))
        elif is_plannable(pod) and pod.shape.priority < priority_cutoff:
            problems.append(_below(pod, priority_cutoff))
        elif is_plannable(pod):
            match, shape = reader.read(pod.shape)
            if match.names:
                wanted.append(Demand(pod, match.names, shape))
            else:
                problems.append(Problem(pod, match.reason, match.message))
    return Demands(tuple(wanted), tuple(each for each in problems if each.pod.unschedulable_at is not None))


def _below(pod: Pod, priority_cutoff: int) -> Problem:
    told = f"no place for this pod: its priority {pod.shape.priority} is below the cutoff {priority_cutoff}"
    return Problem(pod, BELOW_CUTOFF, f"{told}, so no machine is bought for it")


def _is_asked_for(pod: Pod, priority_cutoff: int) -> bool:
    """The scheduler has no place for it, and it is worth a machine."""
    return pod.unschedulable_at is not None and pod.shape.priority >= priority_cutoff


def is_demand(pod: Pod, priority_cutoff: int) -> bool:
    """Does it need a place that growth may find?"""
    return _is_asked_for(pod, priority_cutoff) and is_plannable(pod)


def buffer_demands(placed: BufferPlacement) -> tuple[Demand, ...]:
    """The virtual pods without room of every buffer that a pool may buy for."""
    found = []
    for served in placed.buffers:
        count, buffer = placed.missing.get(served.key, 0), served.buffer
        if count and served.pools:
            virtual = Pod(buffer.name, served.shape, uid=buffer.uid, created_at=buffer.created_at)
            found.append(Demand(virtual, served.pools, served.shape, count, is_virtual=True))
    return tuple(found)


# -------------------------------------------------------------------------------------------- gangs


def why_gangs_wait(demands: Iterable[Demand], assigned: Assignments, snapshot: Snapshot) -> dict[str, str]:
    """By the name of a demand: why nothing can be bought for its gang now."""
    standings = waiting_gangs(snapshot)
    if not standings:
        return {}
    wanted = tuple(demands)
    asking = Counter(name_of_gang(each.pod, snapshot.pod_groups) for each in wanted)
    placed = _placed(assigned, snapshot)
    reasons = {name: _why_waits(each, asking[name] + placed[name]) for name, each in standings.items()}
    return {each.name: why for each in wanted if (why := reasons.get(name_of_gang(each.pod, snapshot.pod_groups)))}


def _why_waits(gang: GangStanding, served: int) -> str:
    if gang.why_missing:
        return gang.why_missing
    others = gang.needed - served
    return f"gang {gang.name}: {others} more must ask for a place, it starts as a whole" if others > 0 else ""


def _placed(assigned: Assignments, snapshot: Snapshot) -> Counter[str]:
    """Members that hold room, by gang."""
    planned = (pod for each in assigned.expected for pod in each.planned)
    holding = (pod for pods in assigned.holders.values() for pod in pods)
    return Counter(name_of_gang(pod, snapshot.pod_groups) for pod in (*planned, *holding))


def gang_demands(
    classes: Iterable[tuple[Demand, ...]], assigned: Assignments, doubted: Collection[str], snapshot: Snapshot
) -> tuple[GangDemand, ...]:
    """What the solver must know; `doubted`: gangs for whose pods machines came in vain."""
    standings = waiting_gangs(snapshot)
    if not standings:
        return ()
    placed, numbers = _placed(assigned, snapshot), dict[str, list[int]]()
    for number, hand in enumerate(classes):
        name = name_of_gang(hand[0].pod, snapshot.pod_groups)
        if name in standings:
            numbers.setdefault(name, []).append(number)
    least = {name: standings[name].needed - placed[name] for name in numbers}
    gangs = (GangDemand(name, tuple(of), least[name], name in doubted) for name, of in numbers.items())
    return tuple(each for each in gangs if each.least > 0)


def called_with(eligible: Iterable[Demand], demands: Iterable[Demand], snapshot: Snapshot) -> tuple[Demand, ...]:
    """These demands, and all others of their gangs: a gang is tried as a whole."""
    chosen = {each.name for each in eligible}
    named = [(each, name_of_gang(each.pod, snapshot.pod_groups)) for each in demands]
    called = {gang for each, gang in named if gang and each.name in chosen}
    return tuple(each for each, gang in named if each.name in chosen or gang in called)


def held_gangs(assigned: Assignments, snapshot: Snapshot, scheduler: SchedulerSettings) -> frozenset[str]:
    """Gangs whose pods must not be bound yet, though machines have come for some of them. Members that are planned onto
    no machine hold room elsewhere: growth's own scheduler binds them first, another one has no need to.
    """
    ready: Counter[str] = Counter()
    coming: Counter[str] = Counter()
    for each in assigned.expected:
        names = (name_of_gang(pod, snapshot.pod_groups) for pod in each.planned)
        (ready if awaits_pods(each, snapshot) else coming).update(names)

    def is_whole(gang: GangStanding) -> bool:
        is_ours = scheduler.enabled and scheduler.serves(gang.waiting[0].shape.scheduler_name)
        others = 0 if is_ours or coming[gang.name] else len(gang.waiting) - ready[gang.name]
        return ready[gang.name] + others >= gang.needed

    return frozenset(name for name, gang in waiting_gangs(snapshot).items() if not is_whole(gang))


def gang_wait_seconds(request: NodeRequest, snapshot: Snapshot, settings: Settings) -> float:
    """How much longer it may take until its node serves, since its pods wait for the others of a gang."""
    waiting = {pod.key for gang in waiting_gangs(snapshot).values() for pod in gang.waiting}
    return 0.0 if waiting.isdisjoint(request.planned_pods) else settings.gang_seconds
