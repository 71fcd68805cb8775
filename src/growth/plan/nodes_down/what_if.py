"""Could this node be emptied without a pod losing its place? Asked by consolidation and replacement before they choose
a node, and by removal before every batch of evictions.

One index of the cluster answers for all nodes. Nodes that are going already (in removal, or marked) are no targets, and
their pods get their new places first, in the order of names: so two nodes are never promised the same room. Pods that
wait for a scheduler (`plan/nodes_down/awaited`) and the virtual pods of buffers hold room too.

Whether a pod may be evicted at all: `plan/evictions`.

A gang is moved whole or stays: a node from which so many of a gang would go that too few are left is not emptied to
save money, unless all of its running members are there and move together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from sys import intern
from typing import Final

from growth.model.gang import gangs_on, name_of_gang
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import place_buffers
from growth.plan.evictions import Evictability, block
from growth.plan.nodes_down.awaited import holds_room
from growth.plan.world.nodes import going_nodes, is_protected_node, working_pods
from growth.solver.existing.cluster import Cluster
from growth.solver.existing.what_if import Holding, Verdict, WhatIf
from growth.solver.reasons import Block

_MOST_HELD: Final = 2000  # of one kind; more do not change the answer


class Emptying:
    """The cluster as it is, and what would become of it. What it found is kept in the memo: as long as nodes, pods and
    all else that a verdict depends on are the same, no node is judged twice. The index is kept beyond that, and told
    what is new: to make it for a large cluster takes a second.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings, headroom: float) -> None:
        self._snapshot, self._settings, self._headroom = snapshot, settings, headroom
        self._evictability = Evictability(snapshot, settings)
        self._chosen: list[tuple[str, ...]] | None = None  # together, one after the other; None: it does not choose

    @property
    def _index(self) -> _Index:
        """What is chosen here concerns nobody else."""
        index = self._shared_index()
        index.serve(self._chosen)
        return index

    def _shared_index(self) -> _Index:
        snapshot, volumes = self._snapshot, self._snapshot.volumes
        made_from = (
            snapshot.nodes, snapshot.pods_by_node, snapshot.waiting_pods, snapshot.removals, snapshot.namespaces,
            volumes.claims, volumes.volumes, volumes.classes, volumes.nodes,
            place_buffers(snapshot, self._settings), self._waiting_count(),
        )  # fmt: skip
        question = f"emptying with headroom {self._headroom}"
        return snapshot.memo.recall(question, made_from, self._made, most=1)  # each is as large as the cluster

    def _waiting_count(self) -> str:
        """How many of the pods that wait hold room: time alone makes them fewer. Equal numbers are the same object."""
        snapshot, settings = self._snapshot, self._settings

        def count() -> str:
            return intern(str(sum(holds_room(pod, snapshot, settings) for pod in snapshot.waiting_pods)))

        return snapshot.memo.recall_now(
            "pods that hold room", snapshot.now, (snapshot.waiting_pods, settings), count, 1
        )

    def _made(self) -> _Index:
        snapshot, holdings = self._snapshot, tuple(_holdings(self._snapshot, self._settings))
        cluster = snapshot.memo.recall(f"cluster for a headroom of {self._headroom}", (), Cluster)
        shapes = [each.shape for each in holdings]
        cluster.follow(snapshot.nodes, snapshot.pods_by_node, snapshot.volumes, snapshot.namespaces, shapes)
        going = going_nodes(snapshot)
        return _Index(WhatIf(cluster, holdings=holdings, leaving=going, headroom=self._headroom), going)

    def why_stuck(self, name: str, *, waits_for_budgets: bool = False) -> Block | None:
        """Of a node that is going: why its pods can no longer all move. Wishes of pods are looked at as well."""
        pods = working_pods(self._snapshot, name)
        return self._evictability.why_not_all(pods, waits_for_budgets=waits_for_budgets) or self._index.why_stuck(name)

    def why_stays(self, node: Node) -> Block | None:
        """Of a node that is not chosen yet."""
        return self.why_left_alone(node) or self._index.crowded or self._index.judged(node.name).block

    def why_left_alone(self, node: Node) -> Block | None:
        """By what the node and its pods say, wherever there is room."""
        if is_protected_node(node):
            text, kind = "the node must not be disrupted (its annotation says so)", "do_not_disrupt"
            return Block(kind, text, constraint_type=kind, constraint="annotation")
        pods = working_pods(self._snapshot, node.name)
        return self._evictability.why_not_all(pods) or _why_torn(pods, self._snapshot)

    def choose_all(self, nodes: Iterable[Node]) -> list[Node]:
        """All of these if they can go together; else as many as can, asked in this order."""
        movable = [node for node in nodes if self.why_left_alone(node) is None]
        if self._choose([node.name for node in movable], unless_crowded=True):
            return movable
        chosen = []
        for node in movable:
            if self.why_stays(node) is None:
                self.choose(node)
                chosen.append(node)
        return chosen

    def choose(self, node: Node) -> None:
        """It goes: from now on it is no target, and its pods have their places elsewhere."""
        self._choose([node.name])

    def _choose(self, names: Sequence[str], *, unless_crowded: bool = False) -> bool:
        self._chosen = [] if self._chosen is None else self._chosen
        index = self._index
        if unless_crowded and index.crowded is not None:
            return False
        return index.choose(names)


def _why_torn(pods: Iterable[Pod], snapshot: Snapshot) -> Block | None:
    """A gang of which some would leave with these pods, and too few would stay."""
    there = tuple(pods)
    for name, gang in sorted(gangs_on(there, snapshot).items()):
        members = [pod for pod in there if name_of_gang(pod, snapshot.pod_groups) == name and pod.deleted_at is None]
        if len(members) < gang.running and gang.running - len(members) < gang.minimum:
            text = f"is one of gang {name}, of which {gang.minimum} must run together: it is moved whole, or stays"
            return block("do_not_disrupt", members[0], text, "gang")
    return None


class _Index:
    """One index of the cluster, in which the pods of nodes that are going have their new places."""

    def __init__(self, what_if: WhatIf, going: tuple[str, ...]) -> None:
        self._what_if, self._going = what_if, going
        self._verdicts: dict[str, Verdict] = {}
        self._of_all: dict[str, Verdict] = self._verdicts  # where nobody has chosen anything
        self._chosen: list[tuple[str, ...]] | None = None  # by whom it is asked now
        self._choice = ExitStack()
        self.crowded: Block | None = None
        self._place_those_going()

    def serve(self, chosen: list[tuple[str, ...]] | None) -> None:
        """Be as if these had been chosen, and none that others chose. Whoever chooses keeps one list for it."""
        if chosen is self._chosen:
            return
        self._choice.close()
        self._chosen, self._verdicts = None, self._of_all
        if chosen is not None:
            self._choice.enter_context(self._what_if.trial())
            self._chosen, before, chosen[:] = chosen, list(chosen), []
            self._verdicts = {name: self._verdicts[name] for name in self._going}
            for names in before:
                self.choose(names)

    def _place_those_going(self) -> None:
        """Together if they all fit so, since then the large pods of all of them find their places first; else one node
        after the other.
        """
        together = self._what_if.judge(self._going) if len(self._going) > 1 else None
        if together is not None and together.may_go:
            self._what_if.keep(together)
            self._verdicts |= dict.fromkeys(self._going, together)
            return
        for name in self._going:
            verdict = self._verdicts[name] = self._what_if.judge([name])
            if verdict.may_go:
                self._what_if.keep(verdict)
            elif self.crowded is None:
                text = f"node {name} is going, and its pods have no other place yet"
                self.crowded = Block("capacity", text, constraint_type="capacity", constraint=name)

    def why_stuck(self, name: str) -> Block | None:
        verdict = self._verdicts.get(name)
        return None if verdict is None else verdict.block

    def judged(self, name: str) -> Verdict:
        """Of a node that is not going."""
        if name not in self._verdicts:
            self._verdicts[name] = self._what_if.judge([name])
        return self._verdicts[name]

    def choose(self, names: Sequence[str]) -> bool:
        """If these can go together, they do: whoever was judged before is judged anew."""
        verdict = self._what_if.judge(names)
        if verdict.may_go and self._chosen is not None:
            self._what_if.keep(verdict)
            self._chosen.append(tuple(names))
            self._verdicts = {name: self._verdicts[name] for name in self._going} | dict.fromkeys(names, verdict)
        return verdict.may_go


def _holdings(snapshot: Snapshot, settings: Settings) -> Iterator[Holding]:
    """Room that waiting pods and the virtual pods of buffers hold."""
    waiting: dict[object, Holding] = {}
    for pod in snapshot.waiting_pods:
        if holds_room(pod, snapshot, settings):
            known = waiting.get(pod.shape)
            waiting[pod.shape] = Holding(pod.key, pod.shape, 1 if known is None else min(_MOST_HELD, known.count + 1))
    yield from waiting.values()
    for spare in place_buffers(snapshot, settings).buffers:
        if spare.count:
            yield Holding(f"of CapacityBuffer {spare.key}", spare.shape, min(_MOST_HELD, spare.count))
