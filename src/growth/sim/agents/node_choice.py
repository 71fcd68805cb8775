"""Who is where, as the embedded scheduler sees it? Nodes, the pods on them, and the index that the rules of placement
are asked through.

Used by the scheduler alone. The index is growth's own `solver.feasible`, so the embedded scheduler filters by the rules
that are checked against the real kube-scheduler's plugins. It is kept up to date pod by pod and made anew when volumes
or namespaces change.

Which of the nodes that fit is best? Scores like kube-scheduler's defaults: it spreads, and does not pack.

Asked by the embedded scheduler for one pod at a time. Each score is 0 to 100; the sum decides, equal sums are drawn by
lot.

| score | weight | best is |
| --- | --- | --- |
| least allocated | 1 | the most room left for cpu and memory |
| balanced allocation | 1 | cpu and memory used alike |
| spread | 2 | few pods of the same owner on the node and in its zone |
| preferred node affinity | 2 | the most weight matched |
| taints | 3 | few PreferNoSchedule taints that are not tolerated |
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from growth.model.labels import ZONE, Labels, NodeSelectorTerm
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.resources import CPU, MEMORY, NOTHING, PODS, Resources
from growth.model.snapshot import VolumeWorld
from growth.sim.apiserver.store import Key
from growth.solver.reasons import sentence
from growth.solver.rules import Neighbours
from growth.solver.rules.selectors import holds
from growth.solver.rules.taints import count_soft_untolerated

_ONE_POD = Resources({PODS: 1})


class HostedNode:
    """A node and what is on it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pods: dict[Key, Pod] = {}
        self.used = NOTHING

    def put(self, key: Key, pod: Pod) -> None:
        self.pods[key] = pod
        self.used = self.used + pod.shape.requests + _ONE_POD

    def take(self, key: Key) -> None:
        self.used = self.used - self.pods.pop(key).shape.requests - _ONE_POD


class Census:
    """Nodes by name, pods by node. `world` reads volumes and namespaces when the index is made anew."""

    def __init__(self, world: Callable[[], tuple[VolumeWorld, Mapping[str, Labels]]]) -> None:
        self.nodes: dict[str, HostedNode] = {}
        self.version = 0  # grows with every change that could let a pod fit
        self._placed: dict[Key, Pod] = {}
        self._world = world
        self._index: Neighbours | None = None

    def forget_index(self) -> None:
        """Something the index was made from has changed."""
        self._index = None
        self.version += 1

    @property
    def index(self) -> Neighbours:
        if self._index is None:
            hosted = [pod for one in self.nodes.values() for pod in one.pods.values()]
            volumes, namespaces = self._world()
            self._index = Neighbours([one.node for one in self.nodes.values()], hosted, volumes, namespaces)
        return self._index

    # ---------------------------------------------------------------------------------------- nodes

    def learn_node(self, name: str, node: Node | None) -> None:
        if node is None:
            if self.nodes.pop(name, None) is not None:
                self._index = None
                self.version += 1
        elif name not in self.nodes:
            self._welcome(node)
        elif _looks_different(self.nodes[name].node, node):
            self.nodes[name].node = node
            self.index.change_node(node)
            self.version += 1

    def _welcome(self, node: Node) -> None:
        hosted = self.nodes[node.name] = HostedNode(node)
        self.version += 1
        if self._index is not None:
            self._index.add_nodes([node])
        for key, pod in self._placed.items():
            if pod.node_name == node.name:
                hosted.put(key, pod)
                self._count(pod, 1)

    # ----------------------------------------------------------------------------------------- pods

    def place(self, key: Key, pod: Pod, node_name: str) -> None:
        """The pod is on that node (again): only its latest state counts."""
        self.displace(key)
        placed = self._placed[key] = msgspec.structs.replace(pod, node_name=node_name)
        if node_name in self.nodes:
            self.nodes[node_name].put(key, placed)
            self._count(placed, 1)

    def displace(self, key: Key) -> bool:
        """The pod is nowhere any more; False if it was nowhere before."""
        pod = self._placed.pop(key, None)
        if pod is not None and pod.node_name in self.nodes:
            self.nodes[pod.node_name].take(key)
            self._count(pod, -1)
        return pod is not None

    def _count(self, pod: Pod, change: int) -> None:
        if self._index is not None:
            (self._index.add_pod if change > 0 else self._index.remove_pod)(pod)

    # ------------------------------------------------------------------------------------ questions

    def fitting(self, pod: Pod, held: Iterable[tuple[Pod, str]]) -> list[HostedNode]:
        """The nodes where the pod may go, as if the pods in `held` were on the nodes they are nominated for."""
        index = self.index
        with index.trial():
            for other, node_name in held:
                if node_name in self.nodes:
                    index.add(index.class_of_pod(other), index.table.index[node_name])
            fits = index.fits(index.class_of_pod(pod))
            return [hosted for name, hosted in self.nodes.items() if fits[index.table.index[name]]]

    def why_nowhere(self, pod: Pod) -> str:
        """The scheduler's familiar message."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        total, index = len(self.nodes), self.index
        told = sentence(index.why_nowhere(index.class_of_pod(pod)), total)
        return f"{told}. preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."


def _looks_different(before: Node, after: Node) -> bool:
    seen = ("labels", "taints", "allocatable", "is_unschedulable")
    return any(getattr(before, name) != getattr(after, name) for name in seen)


_UNSAID: Final = Resources({CPU: 100, MEMORY: 200 * 2**20})  # what a pod that asks for nothing counts as


def best_node(
    pod: Pod, fitting: Sequence[HostedNode], everywhere: Sequence[HostedNode], chance: random.Random
) -> HostedNode:
    """The best of those that fit; `everywhere` is needed to see how the pod's fellows are spread."""
    fellows = _fellows(pod, everywhere)
    soft = [count_soft_untolerated(hosted.node.taints, pod.shape.tolerations) for hosted in fitting]
    totals = [
        _least_allocated(pod, hosted)
        + _balanced(pod, hosted)
        + 2 * _spread(hosted, fellows)
        + 2 * _preference(pod, hosted)
        + 3 * _rank(count, soft)
        for hosted, count in zip(fitting, soft, strict=True)
    ]
    best = max(totals)
    return chance.choice([hosted for hosted, total in zip(fitting, totals, strict=True) if total == best])


def _shares(pod: Pod, hosted: HostedNode) -> list[float]:
    """The used shares of cpu and memory with the pod on the node."""
    shares = []
    for name in (CPU, MEMORY):
        asked = pod.shape.requests[name] or _UNSAID[name]
        shares.append(min(1.0, (hosted.used[name] + asked) / max(1, hosted.node.allocatable[name])))
    return shares


def _least_allocated(pod: Pod, hosted: HostedNode) -> int:
    shares = _shares(pod, hosted)
    return int(100 * (1 - sum(shares) / len(shares)))


def _balanced(pod: Pod, hosted: HostedNode) -> int:
    cpu, memory = _shares(pod, hosted)
    return int(100 * (1 - abs(cpu - memory) / 2))


def _fellows(pod: Pod, everywhere: Sequence[HostedNode]) -> Callable[[str, str], int]:
    """How many pods of the same owner there are with a given value of a label; counted once for a pod."""
    owner = pod.owner.uid if pod.owner is not None else ""
    by_node: dict[str, int] = {}
    by_zone: dict[str, int] = {}
    for hosted in everywhere if owner else ():
        count = sum(1 for other in hosted.pods.values() if other.owner is not None and other.owner.uid == owner)
        by_node[hosted.node.name] = count
        zone = hosted.node.labels.get(ZONE, "")
        by_zone[zone] = by_zone.get(zone, 0) + count
    return lambda kind, value: (by_node if kind == "node" else by_zone).get(value, 0)


def _spread(hosted: HostedNode, fellows: Callable[[str, str], int]) -> int:
    on_node, in_zone = fellows("node", hosted.node.name), fellows("zone", hosted.node.labels.get(ZONE, ""))
    return int(100 / (1 + on_node + in_zone / 3))


def _preference(pod: Pod, hosted: HostedNode) -> int:
    wanted = sum(preferred.weight for preferred in pod.shape.preferred_nodes)
    found = sum(preferred.weight for preferred in pod.shape.preferred_nodes if _matches(preferred.term, hosted.node))
    return int(100 * found / wanted) if wanted else 0


def _rank(count: int, counts: Sequence[int]) -> int:
    return 100 if not max(counts) else int(100 * (1 - count / max(counts)))


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """A preferred term; one that asks for a node by its name is rare and counts as matched by none."""
    return not term.fields and all(
        holds(requirement, node.labels.get(requirement.key)) for requirement in term.expressions
    )
