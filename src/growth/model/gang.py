"""Which pods start together or not at all, and how many of them are there? Asked by growth's scheduler, by scale-up (a
gang is bought for whole), by joining (it is bound whole) and by scale-down (it is moved whole).

| annotation | the gang | how many must run |
| --- | --- | --- |
| `growth.dev/gang: train` | pods of the namespace with that name | all that there are |
| `growth.dev/gang: train:3`, `train:75%` | the same | 3; three quarters, rounded up |
| `firmament-gang-scheduling: "true"`, `"75%"`, `"3"` | pods of one controller | all; three quarters, rounded up; 3 |

| a pod without these annotations names | the gang | how many must run |
| --- | --- | --- |
| a PodGroup of Kubernetes: `spec.schedulingGroup.podGroupName` | pods that name it | `schedulingPolicy.gang.minCount` |
| a PodGroup of scheduler-plugins: label `scheduling.x-k8s.io/pod-group` | pods that name it | `minMember` |
| – that has the policy `basic` | none | |
| – that does not exist | pods that name it | none starts until it does |
| – of a kind that this cluster does not serve | none | |

Where members ask for different numbers, the largest counts. Members that have a node count as running, unless they are
finished or being deleted; gated ones are there, but cannot start. What cannot be read is no gang, and is told on the
pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from growth.model.pod import Pod
from growth.model.snapshot import PodGroups, Snapshot

GANG: Final = "growth.dev/gang"
FIRMAMENT_GANG: Final = "firmament-gang-scheduling"
POD_GROUP: Final = "PodGroup.scheduling.k8s.io"
PLUGIN_POD_GROUP: Final = "PodGroup.scheduling.x-k8s.io"
PLUGIN_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_NO_GROUPS: Final = PodGroups()
_AMOUNT = re.compile(r"(?P<number>[1-9][0-9]{0,5})(?P<percent>%?)")


class Gang(Struct, frozen=True):
    """A name that its members share, and how many of them must run: a number, or a percentage of all there are."""

    name: str
    number: int = 0
    percent: int = 0
    is_unknown: bool = False  # what says how many must run does not exist

    def minimum(self, members: int) -> int:
        return members + 1 if self.is_unknown else self.number or -(-members * self.percent // 100)


class PodGroup(Struct, frozen=True, gc=False):
    """An object that says how many of the pods that name it start together."""

    minimum: int = 0  # 0: they start each by itself


class GangStanding(Struct, frozen=True):
    """How a gang stands of which somebody waits."""

    name: str
    minimum: int  # so many must run
    running: int  # have a node
    waiting: tuple[Pod, ...]  # have none, gated ones included
    is_unknown: bool = False  # what says how many must run does not exist

    @property
    def missing(self) -> int:
        """Members that do not exist, or are gated."""
        return max(0, self.minimum - self.running - sum(not pod.is_gated for pod in self.waiting))

    @property
    def needed(self) -> int:
        """How many more must start, all at once."""
        return max(0, self.minimum - self.running)

    @property
    def why_missing(self) -> str:
        """In words; empty if enough of them are there."""
        if not self.missing:
            return ""
        if self.is_unknown:
            return f"gang {self.name}: there is no such object yet, which says how many start together"
        there = self.minimum - self.missing
        return f"gang {self.name}: {self.minimum} must run together, {there} can, and {self.missing} are missing"


_Members: TypeAlias = dict[str, list[tuple[Gang, Pod]]]  # by the gang's name


def read_gang(pod: Pod, groups: PodGroups = _NO_GROUPS) -> Gang | str | None:
    """The pod's gang; None if it is in none; a sentence where its annotation cannot be read."""
    if not pod.annotations:
        return _of_group(pod, groups) if pod.group else None
    ours = pod.annotations.get(GANG)
    if ours is not None:
        name, _, amount = ours.partition(":")
        written = f"{GANG}: {ours}"
        return _gang(f"{pod.namespace}/{name}", amount or "100%", written) if name else f"cannot be read: {written}"
    theirs = pod.annotations.get(FIRMAMENT_GANG)
    if theirs is None or theirs == "false":
        return _of_group(pod, groups) if pod.group else None
    name = f"{pod.namespace}/{pod.owner.kind}/{pod.owner.uid or pod.owner.name}" if pod.owner is not None else pod.key
    return _gang(name, "100%" if theirs == "true" else theirs, f"{FIRMAMENT_GANG}: {theirs}")


def _of_group(pod: Pod, groups: PodGroups) -> Gang | None:
    """The gang that it is in by naming a group."""
    name, (kind, _, _) = f"{pod.namespace}/{pod.group}", pod.group.partition("/")
    if kind in groups.absent:
        return None
    minimum = groups.minimums.get(name)
    if minimum is None:
        return Gang(name, is_unknown=True)
    return Gang(name, number=minimum) if minimum else None


def _gang(name: str, amount: str, written: str) -> Gang | str:
    found = _AMOUNT.fullmatch(amount)
    if found is None or (found["percent"] and int(found["number"]) > 100):
        return f"cannot be read: {written}"
    number = int(found["number"])
    return Gang(name, percent=number) if found["percent"] else Gang(name, number=number)


def name_of_gang(pod: Pod, groups: PodGroups) -> str:
    """Empty: it is in none. The name of a group alone makes no gang: the cluster must serve its kind."""
    gang = read_gang(pod, groups)
    return gang.name if isinstance(gang, Gang) else ""


def why_missing(pod: Pod, snapshot: Snapshot) -> str:
    """Which others of its gang does a waiting pod wait for? Empty: it is in none, or enough of them are there."""
    gang = waiting_gangs(snapshot).get(name_of_gang(pod, snapshot.pod_groups))
    return "" if gang is None else gang.why_missing


def waiting_gangs(snapshot: Snapshot) -> Mapping[str, GangStanding]:
    """By name, the gangs of which somebody waits. Several rows ask at each look."""
    parts = (snapshot.waiting_pods, snapshot.pods_by_node, snapshot.pod_groups)

    def found() -> Mapping[str, GangStanding]:
        return _gangs(_members(snapshot.waiting_pods, snapshot.pod_groups), snapshot)

    return snapshot.memo.recall("waiting gangs", parts, found)


def gangs_on(pods: Iterable[Pod], snapshot: Snapshot) -> Mapping[str, GangStanding]:
    """By name, the gangs of these pods, which have a node; one whose group is gone is none any more."""
    found = _gangs(_members(pods, snapshot.pod_groups), snapshot)
    return {name: each for name, each in found.items() if not each.is_unknown}


def _gangs(named: Iterable[str], snapshot: Snapshot) -> Mapping[str, GangStanding]:
    if not named:
        return {}
    parts = (snapshot.waiting_pods, snapshot.pods_by_node, snapshot.pod_groups)
    waiting, running = snapshot.memo.recall("members of gangs", parts, lambda: _all_members(snapshot))
    return {name: _standing(name, waiting.get(name, []), running.get(name, [])) for name in named}


def _all_members(snapshot: Snapshot) -> tuple[_Members, _Members]:
    """Those that wait, and those that have a node."""
    bound = (pod for pods in snapshot.pods_by_node.values() for pod in pods if not pod.is_finished)
    return _members(snapshot.waiting_pods, snapshot.pod_groups), _members(bound, snapshot.pod_groups)


def _standing(name: str, waiting: list[tuple[Gang, Pod]], running: list[tuple[Gang, Pod]]) -> GangStanding:
    gangs, there = {gang for gang, _ in (*waiting, *running)}, len(waiting) + len(running)
    least = max(gang.minimum(there) for gang in gangs)
    is_unknown = any(gang.is_unknown for gang in gangs)
    return GangStanding(name, least, len(running), tuple(pod for _, pod in waiting), is_unknown)


def _members(pods: Iterable[Pod], groups: PodGroups) -> _Members:
    found: _Members = {}
    for pod in pods:
        if (pod.annotations or pod.group) and pod.deleted_at is None:
            gang = read_gang(pod, groups)
            if isinstance(gang, Gang):
                found.setdefault(gang.name, []).append((gang, pod))
    return found
