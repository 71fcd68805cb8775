"""Which pods wait for growth's own scheduler, and which of them are placed in this round? Asked by scheduling.

| pod that names our scheduler | |
| --- | --- |
| gated, being deleted | not yet, or no more: nothing is said |
| cannot be read, needs volumes or claims bound first, belongs to a gang that cannot be read | left, with the reason |
| planned onto a machine on its way | it has its place: joining binds it there |
| found no place a moment ago | when something has changed, and not before its back-off of 1 to 10 seconds is over |
| anything else | now, by priority and age; a gang as a whole |

Pods of a gang start together or not at all:

| annotation | the gang | how many must run |
| --- | --- | --- |
| `growth.dev/gang: train` | pods of the namespace with that name | all that there are |
| `growth.dev/gang: train:3`, `train:75%` | the same | 3; three quarters, rounded up |
| `firmament-gang-scheduling: "true"`, `"75%"`, `"3"` | pods of one controller | all; three quarters, rounded up; 3 |

Members that run already count. What cannot be read is no gang, and is told on the pod.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from growth.model.pod import Pod
from growth.model.settings import SchedulerSettings
from growth.model.snapshot import Snapshot
from growth.plan.world.capacity import why_not_bindable
from growth.solver.flow import Group
from growth.solver.flow.costs import minutes_waited

LONGEST_BACKOFF_SECONDS: Final = 10.0
GANG: Final = "growth.dev/gang"
FIRMAMENT_GANG: Final = "firmament-gang-scheduling"
_AMOUNT = re.compile(r"(?P<number>[1-9][0-9]{0,5})(?P<percent>%?)")


class Gang(Struct, frozen=True):
    """A name that its members share, and how many of them must run: a number, or a percentage of all there are."""

    name: str
    number: int = 0
    percent: int = 0

    def minimum(self, members: int) -> int:
        return self.number or -(-members * self.percent // 100)


class Backoff(Struct, frozen=True, gc=False):
    """A pod that was tried and found no place."""

    failures: int = 0
    until: float = 0.0
    changes: int = -1  # of the fleet, when it was tried
    message: str = ""  # what was told last
    told_at: float = 0.0


class Unplaced(Struct, frozen=True, gc=False):
    """A pod without a place, and what its condition PodScheduled shall say."""

    pod: Pod
    why: str
    reason: str = "Unschedulable"


class Queue(Struct, frozen=True):
    """The pods to place now, in order; those that growth cannot place; when time alone brings the next."""

    due: tuple[Pod, ...] = ()
    unfit: tuple[Unplaced, ...] = ()
    gang_of: Mapping[str, Gang] = {}  # by the pod's UID
    has_more: bool = False  # pods that are due as well, but not in this round
    again_at: float | None = None


def is_ours(pod: Pod, scheduler: SchedulerSettings) -> bool:
    return pod.shape.scheduler_name == scheduler.name and not pod.is_gated and pod.deleted_at is None


def line_up(
    snapshot: Snapshot,
    planned: Collection[str],
    backoffs: Mapping[str, Backoff],
    changes: int,
    scheduler: SchedulerSettings,
) -> Queue:
    """`planned`: keys of pods that are planned onto a machine on its way; `changes`: of the fleet, up to now."""
    gang_of: dict[str, Gang] = {}
    unfit: list[Unplaced] = []
    able: list[Pod] = []
    for pod in snapshot.waiting_pods:
        if not is_ours(pod, scheduler) or pod.key in planned:
            continue
        gang = read_gang(pod) if pod.annotations else None
        reason = pod.shape.malformed or why_not_bindable(pod, snapshot) or (gang if isinstance(gang, str) else "")
        if reason:
            unfit.append(Unplaced(pod, reason, "SchedulerError"))
            continue
        able.append(pod)
        if isinstance(gang, Gang):
            gang_of[pod.uid] = gang
    due = {pod.uid for pod in able if _is_due(backoffs.get(pod.uid), changes, snapshot.now)}
    later = [backoffs[pod.uid].until for pod in able if pod.uid not in due and backoffs[pod.uid].changes != changes]
    called = {gang_of[uid].name for uid in due if uid in gang_of}
    ready = [pod for pod in able if pod.uid in due or (pod.uid in gang_of and gang_of[pod.uid].name in called)]
    ready.sort(key=lambda pod: -pod.shape.priority)  # those of one priority stay in the order of their age
    first = _first(ready, gang_of, scheduler.pods_per_round)
    return Queue(first, tuple(unfit), gang_of, len(first) < len(ready), min(later, default=None))


def _is_due(backoff: Backoff | None, changes: int, now: float) -> bool:
    return backoff is None or (backoff.changes != changes and now >= backoff.until)


def _first(ready: list[Pod], gang_of: Mapping[str, Gang], most: int) -> tuple[Pod, ...]:
    """So many pods, and all others of the gangs among them."""
    taken = ready[:most]
    called = {gang_of[pod.uid].name for pod in taken if pod.uid in gang_of}
    return (*taken, *(pod for pod in ready[most:] if pod.uid in gang_of and gang_of[pod.uid].name in called))


def groups_of(queue: Queue, now: float) -> list[tuple[Group, list[Pod]]]:
    """Groups of pods that no rule tells apart, the oldest pod first in each."""
    members: dict[tuple[object, str, int], list[Pod]] = {}
    for pod in queue.due:
        gang = queue.gang_of.get(pod.uid)
        looks = (pod.shape, pod.uid) if pod.shape.volumes else pod.shape
        members.setdefault((looks, gang.name if gang else "", minutes_waited(now - pod.created_at)), []).append(pod)
    return [(Group(pods[0], len(pods), gang, 60.0 * minutes), pods) for (_, gang, minutes), pods in members.items()]


def gang_needs(queue: Queue, snapshot: Snapshot, scheduler: SchedulerSettings) -> dict[str, int]:
    """How many more of each gang must start, counting those that run and those that wait."""
    asked = {gang.name: gang for gang in queue.gang_of.values()}
    if not asked:
        return {}
    waiting = _members((pod for pod in snapshot.waiting_pods if pod.shape.scheduler_name == scheduler.name), asked)
    running = _members((pod for pods in snapshot.pods_by_node.values() for pod in pods if not pod.is_finished), asked)
    return {
        name: max(0, gang.minimum(waiting.get(name, 0) + running.get(name, 0)) - running.get(name, 0))
        for name, gang in asked.items()
    }


def _members(pods: Iterable[Pod], asked: Mapping[str, Gang]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for pod in pods:
        gang = read_gang(pod) if pod.annotations else None
        if isinstance(gang, Gang) and gang.name in asked:
            counts[gang.name] = counts.get(gang.name, 0) + 1
    return counts


def after_failure(before: Backoff | None, now: float, changes: int) -> Backoff:
    """Twice as long with every failure."""
    known = before or Backoff()
    seconds = min(LONGEST_BACKOFF_SECONDS, 2.0**known.failures)
    return Backoff(known.failures + 1, now + seconds, changes, known.message, known.told_at)


# ------------------------------------------------------------------------------------------ gangs


def read_gang(pod: Pod) -> Gang | str | None:
    """The pod's gang; None if it is in none; a sentence where its annotation cannot be read."""
    ours = pod.annotations.get(GANG)
    if ours is not None:
        name, _, amount = ours.partition(":")
        written = f"{GANG}: {ours}"
        return _gang(f"{pod.namespace}/{name}", amount or "100%", written) if name else f"cannot be read: {written}"
    theirs = pod.annotations.get(FIRMAMENT_GANG)
    if theirs is None or theirs == "false":
        return None
    name = f"{pod.namespace}/{pod.owner.kind}/{pod.owner.uid or pod.owner.name}" if pod.owner is not None else pod.key
    return _gang(name, "100%" if theirs == "true" else theirs, f"{FIRMAMENT_GANG}: {theirs}")


def _gang(name: str, amount: str, written: str) -> Gang | str:
    found = _AMOUNT.fullmatch(amount)
    if found is None or (found["percent"] and int(found["number"]) > 100):
        return f"cannot be read: {written}"
    number = int(found["number"])
    return Gang(name, percent=number) if found["percent"] else Gang(name, number=number)
