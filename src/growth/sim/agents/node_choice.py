"""On which nodes may a pod go, and which of them is best? Cache, filters and scores of the embedded scheduler.

Filters are growth's own `solver/rules`, which are checked against the real kube-scheduler's plugins. Their index is
kept up to date pod by pod and made again when volumes or namespaces change. Scores are like kube-scheduler's defaults:
they spread, and do not pack. Each is 0 to 100; the sum decides, equal sums are drawn by lot.

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

_ONE_POD: Final = Resources({PODS: 1})
_UNSAID: Final = Resources({CPU: 100, MEMORY: 200 * 2**20})  # what a pod that asks for nothing counts as


class NodeInfo:
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


class SchedulerCache:
    """Nodes by name, pods by node. `world` reads volumes and namespaces when the index is made again."""

    def __init__(self, world: Callable[[], tuple[VolumeWorld, Mapping[str, Labels]]]) -> None:
        self.nodes: dict[str, NodeInfo] = {}
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
            info = [pod for one in self.nodes.values() for pod in one.pods.values()]
            volumes, namespaces = self._world()
            self._index = Neighbours([one.node for one in self.nodes.values()], info, volumes, namespaces)
        return self._index

    def learn_node(self, name: str, node: Node | None) -> None:
        known = self.nodes.get(name)
        if node is None and known is not None:
            del self.nodes[name]
            self.forget_index()
        elif node is not None and known is None:
            self._add_node(node)
        elif node is not None and known is not None and _looks_different(known.node, node):
            known.node = node
            self.index.change_node(node)
            self.version += 1

    def _add_node(self, node: Node) -> None:
        info = self.nodes[node.name] = NodeInfo(node)
        self.version += 1
        if self._index is not None:
            self._index.add_nodes([node])
        for key, pod in self._placed.items():
            if pod.node_name == node.name:
                info.put(key, pod)
                self._count(pod, 1)

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

    def fitting(self, pod: Pod, held: Iterable[tuple[Pod, str]]) -> list[NodeInfo]:
        """The nodes where the pod may go, as if the pods in `held` were on the nodes they are nominated for. No node
        offers devices to be claimed, so a pod with such a claim may go nowhere.
        """
        if pod.shape.uses_resource_claims:
            return []
        index = self.index
        with index.trial():
            for other, node_name in held:
                if node_name in self.nodes:
                    index.add(index.class_of_pod(other), index.table.index[node_name])
            fits = index.fits(index.class_of_pod(pod))
            return [info for name, info in self.nodes.items() if fits[index.table.index[name]]]

    def why_nowhere(self, pod: Pod) -> str:
        """The scheduler's familiar message."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        total, index = len(self.nodes), self.index
        reasons = sentence(index.why_nowhere(index.class_of_pod(pod)), total)
        if pod.shape.uses_resource_claims:
            reasons = f"0/{total} nodes are available: {total} cannot allocate all claims"
        return (
            f"{reasons}. preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
        )


def _looks_different(before: Node, after: Node) -> bool:
    seen = ("labels", "taints", "allocatable", "is_unschedulable")
    return any(getattr(before, name) != getattr(after, name) for name in seen)


def best_node(pod: Pod, fitting: Sequence[NodeInfo], everywhere: Sequence[NodeInfo], chance: random.Random) -> NodeInfo:
    """The best of those that fit; `everywhere` is needed to see how the pods of the same owner are spread."""
    by_node, by_zone = _same_owner(pod, everywhere)
    soft = [count_soft_untolerated(info.node.taints, pod.shape.tolerations) for info in fitting]
    totals = []
    for info, count in zip(fitting, soft, strict=True):
        cpu, memory = (_used_share(pod, info, name) for name in (CPU, MEMORY))
        on_node, in_zone = by_node.get(info.node.name, 0), by_zone.get(info.node.labels.get(ZONE, ""), 0)
        least_allocated = int(100 * (1 - (cpu + memory) / 2))
        balanced = int(100 * (1 - abs(cpu - memory) / 2))
        spread = int(100 / (1 + on_node + in_zone / 3))
        taints = 100 if not max(soft) else int(100 * (1 - count / max(soft)))
        totals.append(least_allocated + balanced + 2 * spread + 2 * _preference(pod, info) + 3 * taints)
    return chance.choice([info for info, total in zip(fitting, totals, strict=True) if total == max(totals)])


def _used_share(pod: Pod, info: NodeInfo, name: str) -> float:
    """With the pod on the node."""
    asked = pod.shape.requests[name] or _UNSAID[name]
    return min(1.0, (info.used[name] + asked) / max(1, info.node.allocatable[name]))


def _same_owner(pod: Pod, everywhere: Sequence[NodeInfo]) -> tuple[dict[str, int], dict[str, int]]:
    """How many pods of the same owner there are on each node and in each zone."""
    owner = pod.owner.uid if pod.owner is not None else ""
    by_node: dict[str, int] = {}
    by_zone: dict[str, int] = {}
    for info in everywhere if owner else ():
        count = sum(1 for other in info.pods.values() if other.owner is not None and other.owner.uid == owner)
        by_node[info.node.name] = count
        zone = info.node.labels.get(ZONE, "")
        by_zone[zone] = by_zone.get(zone, 0) + count
    return by_node, by_zone


def _preference(pod: Pod, info: NodeInfo) -> int:
    preferred = pod.shape.preferred_nodes
    wanted = sum(each.weight for each in preferred)
    found = sum(each.weight for each in preferred if _matches(each.term, info.node))
    return int(100 * found / wanted) if wanted else 0


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """A preferred term; one that asks for a node by its name is rare and counts as matched by none."""
    return not term.fields and all(holds(each, node.labels.get(each.key)) for each in term.expressions)
