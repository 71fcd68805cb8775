"""Without these nodes, do all their pods fit on what stays, and where? Asked by scale-down, removal and consolidation.

    what_if = WhatIf(nodes, pods, …)      one index of the whole cluster, shared by all candidates
    what_if.judge(["node-7"])             a Verdict: where each pod goes, or the Block
    what_if.keep(verdict)                 as if it had happened: later questions see it

| asked in this order | no means |
| --- | --- |
| is there anything to move? | may go |
| is any ready, schedulable, unmarked node left? | no_nodes |
| is there room for all pods together, and some headroom, by each resource? | capacity |
| does each pod find a place, by every rule of scheduling, beside those moved before it? | rescheduling_… |

Pods of DaemonSets, mirrors and finished pods need no place, nor do those that are leaving already. Pods that wait for
the scheduler, and virtual pods that stand for spare capacity, hold room: they are lodged first, and move like any
other. What finds no room even now holds none. Nothing is decided here: who may be asked about at all is the plan's
business.

May pods be moved to this node at all? Asked by scale-down, consolidation and removal, before any rule of scheduling.

| the node | is a target |
| --- | --- |
| is the one being removed, or was chosen in the same pass | no |
| is marked for scale-down, whatever a pod tolerates | no |
| is cordoned, not ready, being deleted, or cannot be read | no |
| otherwise | if the rules of scheduling let the pod go there |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from growth.model.labels import Labels
from growth.model.node import SCALE_DOWN_TAINT, Node
from growth.model.pod import Pod, PodShape
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.arrays import FloatArray
from growth.solver.existing.blocking import Block, cannot_move, no_capacity, no_nodes
from growth.solver.existing.relocation import Found, Mover, Purse, Relocation
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules import Neighbours
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.resources import counted_needs

PLAIN_HEADROOM: Final = 0.20
CONSOLIDATION_HEADROOM: Final = 0.05
SEARCH_STEPS: Final = 20_000  # for all questions to one what-if together

_DIVISIBLE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class Holding(Struct, frozen=True):
    """So many pods without a node, which need room all the same: waiting ones, or virtual ones of a buffer."""

    name: str  # for people
    shape: PodShape
    count: int = 1


class Move(NamedTuple):
    pod: str
    target: str


class Verdict(Struct, frozen=True):
    """May these nodes go? If so, where their pods fit."""

    nodes: tuple[str, ...]
    block: Block | None = None
    movers: tuple[Mover, ...] = ()
    targets: tuple[str, ...] = ()

    @property
    def may_go(self) -> bool:
        return self.block is None

    @property
    def moves(self) -> tuple[Move, ...]:
        return tuple(Move(mover.name, target) for mover, target in zip(self.movers, self.targets, strict=True))


class WhatIf:
    """The whole cluster, ready to be asked about many nodes."""

    def __init__(  # noqa: PLR0913  (a world and how to look at it)
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        volumes: VolumeWorld | None = None,
        namespaces: Mapping[str, Labels] = EMPTY,
        *,
        holdings: Sequence[Holding] = (),
        leaving: Iterable[str] = (),
        headroom: float = PLAIN_HEADROOM,
        search_steps: int = SEARCH_STEPS,
    ) -> None:
        """`leaving` are nodes that go anyway: no targets."""
        bound = [pod for pod in pods if not pod.is_finished]
        self._neighbours = Neighbours(nodes, bound, volumes, namespaces, shapes=[each.shape for each in holdings])
        self._headroom = headroom
        self._purse = Purse(search_steps)
        gone = frozenset(leaving)
        table = self._neighbours.table
        self._targets = np.array([why_not_target(node, gone) is None for node in table.nodes], np.bool_)
        self._movers = self._who_must_move(bound)
        classes = {mover.pod_class: None for movers in self._movers.values() for mover in movers}
        classes |= {self._neighbours.class_of(each.shape): None for each in holdings}
        self._relocation = Relocation(self._neighbours, self._targets, list(classes))
        self._needs: dict[int, list[tuple[str, int]]] = {}
        self.unlodged = self._lodge(holdings)
        self._free = self._free_amounts()

    def _who_must_move(self, pods: Iterable[Pod]) -> dict[int, list[Mover]]:
        found: dict[int, list[Mover]] = {}
        known: dict[PodShape, PodClass] = {}
        index = self._neighbours.table.index
        for pod in pods:
            number = index.get(pod.node_name)
            owner = pod.owner
            if (
                number is None
                or pod.deleted_at is not None
                or pod.is_mirror
                or (owner is not None and owner.kind == "DaemonSet")
            ):
                continue
            pod_class = known.get(pod.shape)
            if pod_class is None:
                pod_class = self._neighbours.class_of_pod(pod)
                if not pod_class.first.pod_name:
                    known[pod.shape] = pod_class
            found.setdefault(number, []).append(Mover(pod, pod_class))
        return found

    def _lodge(self, holdings: Sequence[Holding]) -> int:
        """Onto the tightest nodes that take them; returns how many found no room even now."""
        missing = 0
        for holding in holdings:
            mover = Mover(holding.name, self._neighbours.class_of(holding.shape))
            for placed in range(holding.count):
                ways = self._relocation.ways(mover.pod_class)
                if not ways:
                    missing += holding.count - placed
                    break
                self._neighbours.add(mover.pod_class, ways[0])
                self._movers.setdefault(ways[0], []).append(mover)
        return missing

    # ------------------------------------------------------------------------------------ questions

    def judge(self, names: Sequence[str]) -> Verdict:
        """Could all these nodes go together? Leaves the index as it was."""
        numbers = [self._neighbours.table.index[name] for name in names]
        movers = self._relocation.order([mover for number in numbers for mover in self._movers.get(number, ())])
        if not movers:
            return Verdict(tuple(names))
        block = self._why_no_room(numbers, movers)
        if block is not None:
            return Verdict(tuple(names), block)
        found = self._relocate(numbers, movers)
        if isinstance(found, Block):
            return Verdict(tuple(names), found)
        nodes = self._neighbours.table.nodes
        return Verdict(tuple(names), None, tuple(movers), tuple([nodes[target].name for target in found.targets]))

    def judge_each(self, names: Iterable[str]) -> dict[str, Verdict]:
        """Each alone, the others staying."""
        return {name: self.judge([name]) for name in names}

    def keep(self, verdict: Verdict) -> None:
        """As if these nodes had gone: they are targets no more, and their pods stand where they were moved."""
        table = self._neighbours.table
        for name in verdict.nodes:
            number = table.index[name]
            self._targets[number] = False
            self._movers.pop(number, None)
            self._neighbours.take_out(number)
        for mover, name in zip(verdict.movers, verdict.targets, strict=True):
            self._neighbours.add(mover.pod_class, table.index[name])
            self._movers.setdefault(table.index[name], []).append(mover)
        self._free = self._free_amounts()

    # ------------------------------------------------------------------------------------------ all
    # together

    def _free_amounts(self) -> dict[str, tuple[float, FloatArray]]:
        """Of each resource: how much the targets have left in all, and each of them."""
        table, size = self._neighbours.table, len(self._neighbours.table)
        found = {}
        for name, row in table.rows.items():
            each = np.where(self._targets, np.maximum(table.free[row, :size], 0), 0).astype(np.float64)
            found[name] = (float(each.sum()), each)
        return found

    def _why_no_room(self, numbers: Sequence[int], movers: Sequence[Mover]) -> Block | None:
        available = int(self._targets.sum()) - sum(bool(self._targets[number]) for number in numbers)
        if available <= 0:
            return no_nodes()
        for name, amount in sorted(self._load(movers).items()):
            total, each = self._free.get(name, (0.0, np.zeros(0)))
            free = total - sum(float(each[number]) for number in numbers if len(each))
            needed = with_headroom(name, amount, self._headroom)
            if needed > free:
                return no_capacity(name, needed, int(free), self._headroom, available)
        return None

    def _load(self, movers: Sequence[Mover]) -> dict[str, int]:
        """What all movers need; the count of pods is looked at node by node."""
        counts: dict[PodClass, int] = {}
        for mover in movers:
            counts[mover.pod_class] = counts.get(mover.pod_class, 0) + 1
        total: dict[str, int] = {}
        for pod_class, count in counts.items():
            needs = self._needs.get(pod_class.number)
            if needs is None:
                needs = self._needs[pod_class.number] = _divided(pod_class)
            for name, amount in needs:
                total[name] = total.get(name, 0) + amount * count
        return total

    # ------------------------------------------------------------------------------------------ one
    # by one

    def _relocate(self, numbers: Sequence[int], movers: Sequence[Mover]) -> Found | Block:
        neighbours, relocation = self._neighbours, self._relocation
        were = self._targets[list(numbers)]
        self._targets[list(numbers)] = False
        try:
            with neighbours.trial():
                for number in numbers:
                    neighbours.take_out(number)
                found = relocation.quickly(movers)
                if found.stuck is None:
                    return found
                hopeless = relocation.is_hopeless(movers)
                if hopeless is not None:
                    return self._explain(hopeless)
                return relocation.thoroughly(movers, self._purse) or self._explain_beside(
                    movers, found.targets, found.stuck
                )
        finally:
            self._targets[list(numbers)] = were

    def _explain_beside(self, movers: Sequence[Mover], targets: Sequence[int], stuck: Mover) -> Block:
        """With those that found a place standing there."""
        for mover, target in zip(movers, targets, strict=False):
            self._neighbours.add(mover.pod_class, target)
        return self._explain(stuck)

    def _explain(self, mover: Mover) -> Block:
        question = self._neighbours.question(mover.pod_class)
        return cannot_move(mover.name, question, self._neighbours.table, self._targets)


def _divided(pod_class: PodClass) -> list[tuple[str, int]]:
    return [
        (name, amount)
        for name, amount in counted_needs(pod_class.shape.requests).items()
        if name != PODS and amount > 0
    ]


def with_headroom(name: str, amount: int, headroom: float) -> int:
    """What must be free. Devices are whole: a fifth of one GPU is none."""
    extra = amount * headroom
    return amount + (
        int(extra) if name not in _DIVISIBLE and not name.startswith("hugepages-") else int(-(-extra // 1))
    )


NO_TARGETS: Final = refusal(Kind.NO_NODES, Rule.TARGET, "", "no available nodes for rescheduling")


def why_not_target(node: Node, leaving: Collection[str] = ()) -> Reason | None:
    """Why no pod is moved there; `leaving` are the names of the node being removed and of those already chosen."""
    if node.malformed:
        return refusal(Kind.MALFORMED, Rule.TARGET, node.malformed, f"malformed node: {node.malformed}")
    if node.name in leaving:
        return _no_target("leaving", "going away itself")
    if node.is_marked:
        return _no_target(str(SCALE_DOWN_TAINT), "marked for scale-down")
    if node.is_unschedulable:
        return refusal(Kind.UNSCHEDULABLE, Rule.TARGET, "spec.unschedulable", "cordoned")
    if not node.is_ready:
        return _no_target("Ready", "not ready")
    return None if node.deleted_at is None else _no_target("deletionTimestamp", "being deleted")


def _no_target(constraint: str, phrase: str) -> Reason:
    return refusal(Kind.NO_NODES, Rule.TARGET, constraint, phrase)
