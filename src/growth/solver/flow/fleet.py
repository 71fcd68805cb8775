"""Which machines are there, how full is each, and what does a pod dislike about one? Asked by all of `solver/flow`,
and kept from round to round by `plan/flow/keeper`; `plan/nodes_up/joining` keeps one of the world as it is planned.

It follows the cluster as its index does (`solver/rules`), and changes in place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.model.resources import CPU, MEMORY, PODS
from growth.model.scheduler import SchedulerSettings
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.arrays import FloatArray, IntArray
from growth.solver.rules import Following, News
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.selectors import any_term_matches
from growth.solver.rules.taints import count_soft_untolerated

LOAD: Final = (CPU, MEMORY, PODS)  # what makes a machine full
_NO_WORLD: Final = VolumeWorld()


class Fleet(Following):
    """Nodes, the pods on them, and their amounts side by side."""

    def __init__(self) -> None:
        super().__init__()
        self._forget_amounts()

    def _forget_amounts(self) -> None:
        self._allocatable: FloatArray = np.zeros((len(LOAD), 0))
        self._work: list[int] = []
        self._soft: dict[Hashable, IntArray] = {}

    def follow(
        self,
        nodes: Mapping[str, Node],
        pods_by_node: Mapping[str, tuple[Pod, ...]],
        volumes: VolumeWorld = _NO_WORLD,
        namespaces: Mapping[str, Labels] = EMPTY,
        shapes: Iterable[PodShape] = (),
    ) -> News:
        news = super().follow(nodes, pods_by_node, volumes, namespaces, shapes)
        if news.is_anew:
            self._forget_amounts()
        self._describe(news.described)
        for name in news.pods:
            self._work[self.index.table.index[name]] = _work(self.pods[name])
        return news

    def _describe(self, numbers: Sequence[int]) -> None:
        table = self.index.table
        missing = len(table) - self._allocatable.shape[1]
        self._allocatable = np.concatenate((self._allocatable, np.zeros((len(LOAD), missing))), axis=1)
        self._work += [0] * missing
        for number in numbers:
            self._allocatable[:, number] = [table.nodes[number].allocatable[name] for name in LOAD]
        if numbers:
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


def _work(pods: tuple[Pod, ...]) -> int:
    return sum(pod.counts_as_work for pod in pods)
