"""Who is where, as the embedded scheduler sees it? Nodes, the pods on them, and the index that the rules of placement
are asked through.

Used by the scheduler alone. The index is growth's own `solver.feasible`, so the embedded scheduler filters by the rules
that are checked against the real kube-scheduler's plugins. It is kept up to date pod by pod and made anew when volumes
or namespaces change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.resources import NOTHING, PODS, Resources
from growth.model.snapshot import VolumeWorld
from growth.sim.apiserver.store import Key
from growth.solver.reasons import sentence
from growth.solver.rules import Neighbours

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
