"""Could this node be emptied without anybody losing a place? Asked by consolidation before it chooses, and by removal
after every batch.

One index of the cluster answers for all nodes. Nodes that are going already (in removal, or marked) are no targets, and
their pods are given their new places first, in the order of names: so two nodes are never promised the same room. Pods
that wait for the scheduler and the virtual pods of buffers hold room too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from growth.model.action import MarkScaleDown
from growth.model.node import SCALE_DOWN_TAINT, Node, Taint
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import keep
from growth.plan.nodes_down.evictability import Evictability
from growth.plan.world.arrival import working_pods
from growth.plan.world.idleness import is_protected_node
from growth.plan.world.records import seen
from growth.solver.existing.blocking import Block
from growth.solver.existing.what_if import Holding, Verdict, WhatIf

EMPTYING_TAINT = Taint(SCALE_DOWN_TAINT.key, "consolidation")
_MOST_HELD = 2000  # of one kind; more do not change the answer


def is_being_emptied(node: Node) -> bool:
    """Marked by consolidation, so that its pods shall move: its mark is not scale-down's to take off."""
    return EMPTYING_TAINT in node.taints


def empty_from(node: Node, due_at: float) -> MarkScaleDown:
    """From now on no pod comes, and from then on those that are there move."""
    return MarkScaleDown(seen(node), (*without_mark(node), EMPTYING_TAINT), due_at)


def without_mark(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if taint.key != SCALE_DOWN_TAINT.key)


class Emptying:
    """The cluster as it is, and what would become of it."""

    def __init__(self, snapshot: Snapshot, settings: Settings, headroom: float) -> None:
        self._snapshot = snapshot
        self._evictability = Evictability(snapshot, settings)
        self._going = _going(snapshot)
        pods = [pod for pods in snapshot.pods_by_node.values() for pod in pods]
        self._what_if = WhatIf(
            snapshot.nodes.values(),
            pods,
            snapshot.volumes,
            snapshot.namespaces,
            holdings=tuple(_holdings(snapshot, settings)),
            leaving=self._going,
            headroom=headroom,
        )
        self._verdicts: dict[str, Verdict] = {}
        self._crowded: Block | None = None
        self._settle_those_going()

    def _settle_those_going(self) -> None:
        """Together if they all fit so, else one after the other: the large pods of all of them find their places first."""
        together = self._what_if.judge(self._going) if len(self._going) > 1 else None
        if together is not None and together.may_go:
            self._what_if.keep(together)
            self._verdicts |= dict.fromkeys(self._going, together)
            return
        for name in self._going:
            verdict = self._verdicts[name] = self._what_if.judge([name])
            if verdict.may_go:
                self._what_if.keep(verdict)
            elif self._crowded is None:
                text = f"node {name} is going, and its pods have no other place yet"
                self._crowded = Block("capacity", text, constraint_type="capacity", constraint=name)

    def why_stuck(self, name: str, *, waits_for_budgets: bool = False) -> Block | None:
        """Of a node that is going: why its pods can no longer all move. Wishes of pods are looked at as well."""
        pods = working_pods(self._snapshot, name)
        verdict = self._verdicts.get(name)
        return self._evictability.why_not_all(pods, waits_for_budgets=waits_for_budgets) or (
            None if verdict is None else verdict.block
        )

    def why_stays(self, node: Node) -> Block | None:
        """Of a node that nobody has chosen yet."""
        return self.why_left_alone(node) or self._crowded or self._judged(node.name).block

    def why_left_alone(self, node: Node) -> Block | None:
        """By what the node and its pods say, wherever there is room."""
        if is_protected_node(node):
            return Block(
                "do_not_disrupt",
                "the node must not be disrupted (its annotation says so)",
                constraint_type="do_not_disrupt",
                constraint="annotation",
            )
        return self._evictability.why_not_all(working_pods(self._snapshot, node.name))

    def choose_all(self, nodes: Iterable[Node]) -> list[Node]:
        """All of these if they can go together; else as many as can, asked in this order."""
        movable = [node for node in nodes if self.why_left_alone(node) is None]
        together = self._what_if.judge([node.name for node in movable])
        if together.may_go and self._crowded is None:
            self._what_if.keep(together)
            return movable
        chosen = []
        for node in movable:
            if self.why_stays(node) is None:
                self.choose(node)
                chosen.append(node)
        return chosen

    def _judged(self, name: str) -> Verdict:
        verdict = self._verdicts[name] = self._what_if.judge([name])
        return verdict

    def choose(self, node: Node) -> None:
        """It goes: from now on it is no target, and its pods stand elsewhere."""
        self._what_if.keep(self._judged(node.name))


def _going(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(sorted(name for name, node in snapshot.nodes.items() if node.is_marked or name in snapshot.removals))


def _holdings(snapshot: Snapshot, settings: Settings) -> Iterator[Holding]:
    waiting: dict[object, Holding] = {}
    for pod in snapshot.waiting_pods:
        if pod.deleted_at is None and not pod.is_gated:
            known = waiting.get(pod.shape)
            waiting[pod.shape] = Holding(pod.key, pod.shape, 1 if known is None else min(_MOST_HELD, known.count + 1))
    yield from waiting.values()
    for spare in keep(snapshot, settings).spares:
        if spare.count:
            yield Holding(f"of CapacityBuffer {spare.key}", spare.shape, min(_MOST_HELD, spare.count))
