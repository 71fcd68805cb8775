"""Without these nodes, do all their pods fit on what stays, and where? Asked by scale-down, removal and consolidation.

    what_if = WhatIf(cluster, …)          one index of the whole cluster, shared by all candidates
    what_if.judge(["node-7"])             a Verdict: where each pod goes, or the Block
    what_if.keep(verdict)                 as if it had happened: later questions see it

| asked in this order | no means |
| --- | --- |
| is there anything to move? | may go |
| is any ready, schedulable, unmarked node left? | no_nodes |
| is there room for all pods together, and some headroom, by each resource? | capacity |
| does each pod find a place, by every rule of scheduling, beside those moved before it? | rescheduling_… |

Pods of DaemonSets, mirrors and finished pods need no place, nor do those that are leaving already. Pods that wait for
the scheduler, and virtual pods of buffers, hold room: they are placed first, and move like any other. Those that find
no room even now hold none. A node that is removed, chosen in the same pass, marked for scale-down (whatever a pod
tolerates), cordoned, not ready, being deleted or unreadable is no target. Nothing is decided here: which nodes may be
asked about is the plan's business."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
from msgspec import Struct

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.arrays import FloatArray, Mask
from growth.solver.existing.cluster import Cluster
from growth.solver.existing.relocation import Mover, Relocated, Relocation, StepBudget
from growth.solver.reasons import Block, Kind, no_capacity, no_nodes, plural
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.question import Question, RefusedNodes
from growth.solver.rules.resources import counted_needs

PLAIN_HEADROOM: Final = 0.20
SEARCH_STEPS: Final = 20_000  # for all questions to one what-if together

_DIVISIBLE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_RENAMED: Final = {Kind.NODENAME: Kind.NODEAFFINITY, Kind.UNSCHEDULABLE: Kind.TOLERATION}


class Holding(Struct, frozen=True):
    """So many pods without a node, which need room all the same: waiting ones, or virtual ones of a buffer."""

    name: str  # for people
    shape: PodShape
    count: int = 1


class Verdict(Struct, frozen=True):
    """May these nodes go? If so, where their pods fit."""

    nodes: tuple[str, ...]
    block: Block | None = None
    movers: tuple[Mover, ...] = ()
    targets: tuple[str, ...] = ()

    @property
    def may_go(self) -> bool:
        return self.block is None


class WhatIf:
    """The whole cluster, ready to be asked about many nodes, until it is followed again."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        holdings: Sequence[Holding] = (),
        leaving: Collection[str] = (),
        headroom: float = PLAIN_HEADROOM,
    ) -> None:
        """`holdings` hold room without a node, and the cluster knows their shapes; `leaving` are nodes that go anyway:
        no targets.
        """
        self._cluster, self._neighbours, self._headroom = cluster, cluster.index, headroom
        cluster.try_out()
        self.steps = StepBudget(SEARCH_STEPS)
        self._targets = cluster.targets(leaving)
        self._movers = dict(cluster.movers)
        self._relocation = Relocation(self._neighbours, self._targets, cluster.ranks(each.shape for each in holdings))
        self._needs: dict[int, list[tuple[str, int]]] = {}
        self.without_room = self._hold_room(holdings)
        self._free = self._free_amounts()

    @classmethod
    def once(
        cls,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        volumes: VolumeWorld | None = None,
        namespaces: Mapping[str, Labels] = EMPTY,
        *,
        holdings: Sequence[Holding] = (),
        leaving: Collection[str] = (),
        headroom: float = PLAIN_HEADROOM,
    ) -> WhatIf:
        """Of a cluster that is not followed."""
        by_node: dict[str, tuple[Pod, ...]] = {}
        for pod in pods:
            by_node[pod.node_name] = (*by_node.get(pod.node_name, ()), pod)
        cluster, shapes = Cluster(), [each.shape for each in holdings]
        cluster.follow({node.name: node for node in nodes}, by_node, volumes or VolumeWorld(), namespaces, shapes)
        return cls(cluster, holdings=holdings, leaving=leaving, headroom=headroom)

    def _hold_room(self, holdings: Sequence[Holding]) -> int:
        """On the tightest nodes that take them; returns how many found no room even now."""
        without_room = 0
        for holding in holdings:
            pod_class = self._neighbours.class_of(holding.shape)
            for placed in range(holding.count):
                targets = self._relocation.targets_for(pod_class)
                if not targets:
                    without_room += holding.count - placed
                    break
                self._neighbours.add(pod_class, targets[0])
                self._move_in(Mover(holding.name, pod_class), targets[0])  # each its own object
        return without_room

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

    def keep(self, verdict: Verdict) -> None:
        """As if these nodes had gone: they are targets no more, and their pods are where they were moved."""
        table = self._neighbours.table
        for name in verdict.nodes:
            number = table.index[name]
            self._targets[number] = False
            self._movers.pop(number, None)
            self._neighbours.take_out(number)
        for mover, name in zip(verdict.movers, verdict.targets, strict=True):
            self._neighbours.add(mover.pod_class, table.index[name])
            self._move_in(mover, table.index[name])
        self._free = self._free_amounts()

    def _move_in(self, mover: Mover, number: int) -> None:
        self._movers[number] = (*self._movers.get(number, ()), mover)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What is kept inside is taken back at the end; inside, the search begins as if nothing had been asked."""
        before = (self._targets.copy(), self._movers, self._free, self.steps)
        self._movers, self.steps = dict(self._movers), StepBudget(SEARCH_STEPS)
        try:
            with self._cluster.try_out(), self._relocation.begun_anew():
                yield
        finally:
            self._targets[:], self._movers, self._free, self.steps = before

    # -------------------------------------------------------------------------------- all together

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
                counted = counted_needs(pod_class.shape.requests)
                needs = [(name, amount) for name, amount in counted.items() if name != PODS and amount > 0]
                self._needs[pod_class.number] = needs
            for name, amount in needs:
                total[name] = total.get(name, 0) + amount * count
        return total

    # ---------------------------------------------------------------------------------- one by one

    def _relocate(self, numbers: Sequence[int], movers: Sequence[Mover]) -> Relocated | Block:
        neighbours, relocation = self._neighbours, self._relocation
        were = self._targets[list(numbers)]
        self._targets[list(numbers)] = False
        try:
            with neighbours.trial():
                for number in numbers:
                    neighbours.take_out(number)
                found = relocation.first_fit(movers)
                if found.stuck is None:
                    return found
                refused = relocation.first_that_fits_nowhere(movers)
                if refused is not None:
                    return self._explain(refused)
                better = relocation.search(movers, self.steps)
                if better is not None:
                    return better
                for mover, target in zip(movers, found.targets, strict=False):
                    neighbours.add(mover.pod_class, target)
                return self._explain(found.stuck)
        finally:
            self._targets[list(numbers)] = were

    def _explain(self, mover: Mover) -> Block:
        return cannot_move(mover.name, self._neighbours.question(mover.pod_class), self._targets)


def with_headroom(name: str, amount: int, headroom: float) -> int:
    """What must be free. Devices are whole: a fifth of one GPU is none."""
    is_divisible = name in _DIVISIBLE or name.startswith("hugepages-")
    return amount + (math.ceil(amount * headroom) if is_divisible else math.floor(amount * headroom))


def cannot_move(pod: str, question: Question, targets: Mask) -> Block:
    """A pod that none of the targets takes: `pod myapp/web-abc123 cannot be rescheduled: taint gpu=true:NoSchedule on 3
    of 4 remaining nodes is not tolerated; 1 node: insufficient memory (needs 4Gi, has 1Gi)`.
    """
    available = int(targets.sum())
    refused = question.refusals(targets)
    first = refused[0].reason
    kind = _RENAMED.get(first.kind, first.kind)
    message = f"pod {pod} cannot be rescheduled: {'; '.join(_in_words(each, available) for each in refused)}"
    return Block(f"rescheduling_{kind}", message, pod, str(kind), first.constraint, available, available)


def _in_words(refused: RefusedNodes, available: int) -> str:
    reason, count = refused.reason, refused.nodes
    if reason.kind is Kind.TOLERATION:
        return f"taint {reason.constraint} on {count} of {available} remaining nodes is not tolerated"
    return f"{count} node{plural(count)}: {refused}"
