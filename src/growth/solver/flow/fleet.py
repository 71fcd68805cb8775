"""Which machines are there, how full is each, and what does a pod dislike about one? Asked by all of `solver/flow`,
and kept from round to round by `plan/flow/keeper`; `plan/nodes_up/joining` keeps one of the world as it is planned.

`follow` takes in what has changed and nothing else: an index that has followed equals a new one. Nodes that went are
only taken out; when there are many of them, the index is made again. A fleet changes in place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from operator import is_
from typing import Any, Final

import numpy as np

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.model.resources import CPU, MEMORY, PODS
from growth.model.scheduler import SchedulerSettings
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.arrays import FloatArray, IntArray
from growth.solver.rules import Neighbours
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.selectors import any_term_matches
from growth.solver.rules.taints import count_soft_untolerated

LOAD: Final = (CPU, MEMORY, PODS)  # what makes a machine full
_NO_WORLD: Final = VolumeWorld()
_MOST_CLASSES: Final = 20_000  # classes are never forgotten: an index that has seen so many is made again


class Fleet:
    """Nodes, the pods on them, and their amounts side by side."""

    def __init__(self) -> None:
        self._world: tuple[VolumeWorld, Mapping[str, Labels]] = (_NO_WORLD, EMPTY)
        self._begin({}, {})

    def _begin(
        self, nodes: Mapping[str, Node], pods_by_node: Mapping[str, tuple[Pod, ...]], shapes: Iterable[PodShape] = ()
    ) -> None:
        pods = [pod for name in nodes for pod in pods_by_node.get(name, ())]
        self.index = Neighbours(nodes.values(), pods, *self._world, shapes=shapes)
        self._nodes = dict(nodes)
        self._pods = {name: pods_by_node.get(name, ()) for name in nodes}
        self._allocatable: FloatArray = np.zeros((len(LOAD), 0))
        self._work: list[int] = []
        self._soft: dict[Hashable, IntArray] = {}
        self._describe(range(len(self.index.table)))
        self._work = [_work(self._pods[node.name]) for node in self.index.table.nodes]

    # -------------------------------------------------------------------------- following a cluster

    def follow(
        self,
        nodes: Mapping[str, Node],
        pods_by_node: Mapping[str, tuple[Pod, ...]],
        volumes: VolumeWorld = _NO_WORLD,
        namespaces: Mapping[str, Labels] = EMPTY,
        shapes: Iterable[PodShape] = (),
    ) -> None:
        """Be as this cluster is. Tuples of pods that are the very same as last time are not looked into."""
        if self._is_worn_out(nodes, volumes, namespaces):
            self._world = (volumes, namespaces)
            self._begin(nodes, pods_by_node, shapes)
            return
        self._follow_nodes(nodes)
        for name in nodes:
            before, after = self._pods.get(name, ()), pods_by_node.get(name, ())
            if before is not after:
                self._follow_pods(name, before, after)

    def _is_worn_out(self, nodes: Mapping[str, Node], volumes: VolumeWorld, namespaces: Mapping[str, Labels]) -> bool:
        before = (*parts_of_world(self._world[0]), self._world[1])
        if not self._nodes or not all(map(is_, before, (*parts_of_world(volumes), namespaces))):
            return True
        gone = len(self.index.table) - len(self._nodes)
        return 10 * gone > len(nodes) + 100 or len(self.index.classes.all) > _MOST_CLASSES

    def _follow_nodes(self, nodes: Mapping[str, Node]) -> None:
        for name in [name for name in self._nodes if name not in nodes]:
            self.index.take_out(self.index.table.index[name])
            del self._nodes[name]
            self._pods.pop(name, None)
        changed = [node for name, node in nodes.items() if name in self._nodes and self._nodes[name] is not node]
        for node in changed:
            if looks(self._nodes[node.name]) != looks(node):
                self.index.change_node(node)
                self._describe((self.index.table.index[node.name],))
            self._nodes[node.name] = node
        new = [node for name, node in nodes.items() if name not in self._nodes]
        self._describe(self.index.add_nodes(new))
        self._nodes.update((node.name, node) for node in new)

    def _follow_pods(self, name: str, before: tuple[Pod, ...], after: tuple[Pod, ...]) -> None:
        old = {pod.uid or pod.key: pod for pod in before}
        for pod in after:
            known = old.pop(pod.uid or pod.key, None)
            if known is not None and counts(known) == counts(pod):
                continue
            if known is not None:
                self.index.remove_pod(known)
            self.index.add_pod(pod)
        for pod in old.values():
            self.index.remove_pod(pod)
        self._pods[name] = after
        self._work[self.index.table.index[name]] = _work(after)

    def _describe(self, numbers: Iterable[int]) -> None:
        table = self.index.table
        missing = len(table) - self._allocatable.shape[1]
        self._allocatable = np.concatenate((self._allocatable, np.zeros((len(LOAD), missing))), axis=1)
        self._work += [0] * missing
        for number in numbers:
            self._allocatable[:, number] = [table.nodes[number].allocatable[name] for name in LOAD]
        self._soft.clear()

    # -------------------------------------------------------------------------------------- amounts

    def load(self, numbers: IntArray | slice = slice(None)) -> FloatArray:
        """How full each machine is: the largest share of anything that is taken; 1 where there is nothing to take."""
        load: FloatArray = self.loads(numbers).max(axis=0)
        return load

    def loads(self, numbers: IntArray | slice = slice(None)) -> FloatArray:
        """The share that is taken, resource by resource."""
        table, owned = self.index.table, self._allocatable[:, numbers]
        rows = [table.row(name) for name in LOAD]
        free = np.array([table.free[row, : len(table)][numbers] for row in rows])
        used: FloatArray = np.where(owned > 0, 1.0 - free / np.maximum(owned, 1.0), 1.0)
        return np.clip(used, 0.0, 1.0)

    def share(self, needs: Mapping[str, float], numbers: IntArray | slice = slice(None)) -> FloatArray:
        """The largest share of each machine that such a pod takes."""
        share: FloatArray = self.shares(needs, numbers).max(axis=0)
        return share

    def shares(self, needs: Mapping[str, float], numbers: IntArray | slice = slice(None)) -> FloatArray:
        """The same, resource by resource."""
        wanted = np.array([[needs.get(name, 0.0)] for name in LOAD])
        return np.minimum(wanted / np.maximum(self._allocatable[:, numbers], 1e-9), 1e9)

    def size(self, needs: Mapping[str, float]) -> float:
        """The same of the largest machine there is."""
        largest = self._allocatable.max(axis=1, initial=1.0)
        return float(max(needs.get(name, 0.0) / most for name, most in zip(LOAD, largest, strict=True)))

    def in_use(self) -> IntArray:
        """How many pods that count as work are on each machine."""
        return np.array(self._work, np.int64)

    def room_on(self, pod_class: PodClass, numbers: IntArray) -> IntArray:
        """How many pods of the class the amounts of each of these machines leave room for."""
        return self.index.question(pod_class).amounts.how_often(numbers)

    # ------------------------------------------------------------------------------------- dislikes

    def dislike(self, pod_class: PodClass, settings: SchedulerSettings) -> IntArray:
        """What taints that a pod only prefers to avoid, and preferences among nodes that are not met, cost on each
        machine.
        """
        shape = pod_class.shape
        key = (shape.tolerations, shape.preferred_nodes, settings.soft_taint_cost, settings.preference_cost)
        known = self._soft.get(key)
        if known is None:
            taints = self._taints(shape) * settings.soft_taint_cost
            known = self._soft[key] = taints + self._unmet(shape) * settings.preference_cost
        return known

    def _taints(self, shape: PodShape) -> IntArray:
        table = self.index.table
        counts = np.array([count_soft_untolerated(taints, shape.tolerations) for taints in table.taint_sets], np.int64)
        return counts[table.taint_codes[: len(table)]] if len(counts) else np.zeros(len(table), np.int64)

    def _unmet(self, shape: PodShape) -> IntArray:
        table = self.index.table
        unmet = np.zeros(len(table), np.int64)
        for preferred in shape.preferred_nodes:
            unmet += preferred.weight * ~any_term_matches(table, (preferred.term,), slice(0, len(table)))
        return unmet


def parts_of_world(volumes: VolumeWorld) -> tuple[Mapping[str, Any], ...]:
    return volumes.claims, volumes.volumes, volumes.classes, volumes.nodes


def looks(node: Node) -> tuple[object, ...]:
    """All of a node that the rules of scheduling look at."""
    return node.labels, node.taints, node.allocatable, node.is_unschedulable, node.malformed


def counts(pod: Pod) -> tuple[object, ...]:
    """All of a bound pod that matters to others."""
    return pod.shape, pod.node_name, pod.deleted_at is not None, pod.is_finished


def _work(pods: tuple[Pod, ...]) -> int:
    return sum(pod.counts_as_work for pod in pods)
