"""Which pods need a place that growth should find? Asked by scale-up.

| pod | |
| --- | --- |
| the scheduler says Unschedulable | a demand |
| not looked at yet, gated, going, a DaemonSet's, a mirror | none: growth is not asked |
| below the priority cutoff | none: no machines for filler; it is told so once |
| planned onto a node on its way | none: it has its place |
| nominated to, or expected by us on, a node with room | none: it waits for the scheduler, and holds that room |
| names a missing pool, or none where there is no default | none, and is told so once |
| is not allowed in its pool, or cannot be read | none, and is told so once |
| virtual pods of a buffer that have no room | one demand with their count, of the lowest rank |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from growth.model.decision import About, Note
from growth.model.nodepool import NodePool
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.plan.buffers.placement import BufferPlacement
from growth.plan.world.capacity import is_plannable
from growth.plan.world.market import PoolReader
from growth.plan.world.turn import about

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
    """Of waiting pods, those that need a place. `placed` holds the keys of pods that have one."""
    reader = PoolReader(pools, offerings)
    wanted, problems = [], []
    for pod in pods:
        if pod.unschedulable_at is None or pod.key in placed:
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
    return Demands(tuple(wanted), tuple(problems))


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
