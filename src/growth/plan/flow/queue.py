"""Which pods wait for growth's own scheduler, and which of them are placed in this round? Asked by scheduling.

| pod that names our scheduler | |
| --- | --- |
| gated, being deleted | not yet, or no more: nothing is said |
| cannot be read, has resource claims, belongs to a gang that cannot be read | left, with the reason |
| planned onto a machine on its way | it has its place: joining binds it there |
| waits on its node for volumes, and its gang | not now (`plan/flow/volumes`) |
| found no place a moment ago | when something has changed, and not before its back-off of 1 to 10 seconds is over |
| – and is older than a pod that is due now | with it, if it is among the oldest: nobody overtakes it in its back-off |
| anything else | now, by priority and age; a gang as a whole |

Pods of a gang (`model/gang`) start together or not at all: whoever has a node counts, and so do members that are
planned onto a machine that has come and waits for them alone, since joining binds them as soon as the others run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.decision import About, Note
from growth.model.gang import Gang, name_of_gang, read_gang, waiting_gangs
from growth.model.instant import format_instant
from growth.model.labels import NodeSelectorTerm, Requirement
from growth.model.pod import Pod
from growth.model.scheduler import DEFAULT_SCHEDULER, LEASE_NAME, LEASE_NAMESPACE, SchedulerSettings
from growth.model.snapshot import Snapshot
from growth.plan.world.capacity import Assignments, awaits_pods, why_not_allocated
from growth.plan.world.turn import Turn
from growth.solver.flow import Group
from growth.solver.flow.costs import minutes_waited
from growth.solver.rules.selectors import NODE_NAME_FIELD

LONGEST_BACKOFF_SECONDS: Final = 10.0
_OLDEST: Final = 100  # pods that are never overtaken in their back-off


class Backoff(Struct, frozen=True, gc=False):
    """A pod that was tried and found no place."""

    failures: int = 0
    until: float = 0.0
    changes: int = -1  # of the fleet, when it was tried
    message: str = ""  # what was told last
    told_at: float = 0.0
    avoided: tuple[str, ...] = ()  # nodes for which no volume could be made: others are tried first


class Tried(Struct, frozen=True):
    """Who was tried, and when."""

    backoffs: Mapping[str, Backoff]
    changes: int  # of the fleet, up to now

    def without_success(self, pod: Pod) -> bool:
        """Does it have no place in the fleet as it is now?"""
        backoff = self.backoffs.get(pod.uid)
        return backoff is not None and backoff.failures > 0 and backoff.changes == self.changes


class Unplaced(Struct, frozen=True, gc=False):
    """A pod without a place, and what its condition PodScheduled shall say."""

    pod: Pod
    why: str
    reason: str = "Unschedulable"
    is_withdrawn: bool = False  # from the node that it is nominated to
    avoided: str = ""  # that node, if no volume could be made for it


class Queue(Struct, frozen=True):
    """The pods to place now, in order; those that growth cannot place; when time alone brings the next."""

    due: tuple[Pod, ...] = ()
    unfit: tuple[Unplaced, ...] = ()
    gang_of: Mapping[str, Gang] = {}  # by the pod's UID
    has_more: bool = False  # pods that are due as well, but not in this round
    again_at: float | None = None


def is_ours(pod: Pod, scheduler: SchedulerSettings) -> bool:
    return scheduler.serves(pod.shape.scheduler_name) and not pod.is_gated and pod.deleted_at is None


def line_up(
    snapshot: Snapshot,
    planned: Collection[str],
    backoffs: Mapping[str, Backoff],
    changes: int,
    scheduler: SchedulerSettings,
) -> Queue:
    """`planned`: keys of pods that are not placed now: most are planned onto a machine on its way; `changes`: of the
    fleet, up to now.
    """
    gang_of: dict[str, Gang] = {}
    unfit: list[Unplaced] = []
    able: list[Pod] = []
    for pod in snapshot.waiting_pods:
        if not is_ours(pod, scheduler) or pod.key in planned:
            continue
        gang = read_gang(pod, snapshot.pod_groups)
        reason = pod.shape.malformed or why_not_allocated(pod) or (gang if isinstance(gang, str) else "")
        if reason:
            unfit.append(Unplaced(pod, reason, "SchedulerError"))
            continue
        able.append(pod)
        if isinstance(gang, Gang):
            gang_of[pod.uid] = gang
    due = {pod.uid for pod in able if _is_due(backoffs.get(pod.uid), changes, snapshot.now, pod)}
    due |= _older(able, due, backoffs, changes)
    later = [backoffs[pod.uid].until for pod in able if pod.uid not in due and backoffs[pod.uid].changes != changes]
    called = {gang_of[uid].name for uid in due if uid in gang_of}
    ready = [pod for pod in able if pod.uid in due or (pod.uid in gang_of and gang_of[pod.uid].name in called)]
    ready.sort(key=lambda pod: -pod.shape.priority)  # those of one priority stay in the order of their age
    first = _first(ready, gang_of, scheduler.pods_per_round)
    return Queue(first, tuple(unfit), gang_of, len(first) < len(ready), min(later, default=None))


def _is_due(backoff: Backoff | None, changes: int, now: float, pod: Pod) -> bool:
    """One that is nominated to a node does not wait for its time: its room may just have come."""
    return backoff is None or (backoff.changes != changes and (now >= backoff.until or bool(pod.nominated_node)))


def _older(able: list[Pod], due: set[str], backoffs: Mapping[str, Backoff], changes: int) -> set[str]:
    """Of the pods that have waited longest, those that something has changed for and that are older than one that is
    due.
    """
    latest = max((pod.created_at for pod in able if pod.uid in due), default=0.0)
    oldest = (pod for pod in able[:_OLDEST] if pod.uid not in due and pod.created_at < latest)
    return {pod.uid for pod in oldest if backoffs[pod.uid].changes != changes}


def _first(ready: list[Pod], gang_of: Mapping[str, Gang], most: int) -> tuple[Pod, ...]:
    """So many pods, and all others of the gangs among them."""
    taken = ready[:most]
    called = {gang_of[pod.uid].name for pod in taken if pod.uid in gang_of}
    return (*taken, *(pod for pod in ready[most:] if pod.uid in gang_of and gang_of[pod.uid].name in called))


def groups_of(queue: Queue, now: float, backoffs: Mapping[str, Backoff]) -> list[tuple[Group, list[Pod]]]:
    """Groups of pods that no rule tells apart, the oldest pod first in each."""
    members: dict[tuple[object, str, int], list[Pod]] = {}
    for pod in queue.due:
        gang = queue.gang_of.get(pod.uid)
        looks = (pod.shape, pod.uid) if pod.shape.volumes else pod.shape
        members.setdefault((looks, gang.name if gang else "", minutes_waited(now - pod.created_at)), []).append(pod)
    return [
        (Group(_elsewhere(pods[0], backoffs), len(pods), gang, 60.0 * minutes), pods)
        for (_, gang, minutes), pods in members.items()
    ]


def _elsewhere(pod: Pod, backoffs: Mapping[str, Backoff]) -> Pod:
    """One that avoids nodes is asked about as if it said so itself. It has volumes, so it is a group of its own."""
    names = backoffs[pod.uid].avoided if pod.uid in backoffs else ()
    if not names:
        return pod
    apart = tuple(Requirement(NODE_NAME_FIELD, "NotIn", (name,)) for name in names)
    own = pod.shape.node_affinity
    telling = (NodeSelectorTerm(),) if own is None else (term for term in own if term.expressions or term.fields)
    terms = tuple(replace(term, fields=(*term.fields, *apart)) for term in telling)
    return replace(pod, shape=replace(pod.shape, node_affinity=terms))


def gang_needs(queue: Queue, snapshot: Snapshot, assigned: Assignments) -> dict[str, int]:
    """How many more of each gang must start, counting those that run and those whose machine waits for them."""
    named = {gang.name for gang in queue.gang_of.values()}
    if not named:
        return {}
    joined = (each for each in assigned.expected if awaits_pods(each, snapshot))
    ready = Counter(name_of_gang(pod, snapshot.pod_groups) for each in joined for pod in each.planned)
    return {
        name: max(0, standing.needed - ready[name])
        for name, standing in waiting_gangs(snapshot).items()
        if name in named
    }


def after_failure(before: Backoff | None, now: float, changes: int) -> Backoff:
    """Twice as long with every failure. A pod that nothing fits may fail thousands of times."""
    known = before or Backoff()
    seconds = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(10, known.failures))
    return Backoff(known.failures + 1, now + seconds, changes, known.message, known.told_at)


def beside_kube_scheduler(told: str, snapshot: Snapshot, scheduler: SchedulerSettings, turn: Turn) -> str:
    """Whose the pods of the default scheduler are is told when it is first known and when it changes; while nothing is
    known the readiness probe tells it. `told`: the reason that was given last; returns that of now.
    """
    other = snapshot.kube_scheduler
    if not scheduler.stands_in or not other.is_known:
        return told
    lease = About("Lease", LEASE_NAME, LEASE_NAMESPACE)
    if other.is_away(snapshot.now):
        since = f"has held it since {format_instant(other.until)}" if other.until else "holds it"
        text = f"nobody {since}: growth places the pods of {DEFAULT_SCHEDULER}"
        note = Note(lease, "ServesDefaultScheduler", text)
    else:
        turn.wake(other.until)
        text = f"{other.holder} renews it: the pods of {DEFAULT_SCHEDULER} are left to kube-scheduler until that ends"
        note = Note(lease, "LeftToKubeScheduler", text, "Warning")
    if note.reason != told:
        turn.tell(note)
    return note.reason
