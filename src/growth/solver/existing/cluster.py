"""Which pods would have to move from each node, and which nodes may take them? Asked by the what-if, and kept from one
what-if to the next: it follows the cluster and looks into nothing that did not change.

A what-if tries things out in the index of the cluster. What it has tried is taken back when the cluster is followed
again, so only the latest what-if of a cluster may be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import numpy as np

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.arrays import Mask
from growth.solver.existing.relocation import Mover, Rank
from growth.solver.rules import Following, News
from growth.solver.rules.pod_class import PodClass

_NO_WORLD: Final = VolumeWorld()


class Cluster(Following):
    """Nodes by number, the movers of each, and whether pods may be moved there."""

    def __init__(self) -> None:
        super().__init__()
        self.movers: dict[int, tuple[Mover, ...]] = {}
        self._targets: list[bool] = []
        self._moving: Counter[PodClass] = Counter()  # how many movers each class has
        self._tried = ExitStack()

    def follow(
        self,
        nodes: Mapping[str, Node],
        pods_by_node: Mapping[str, tuple[Pod, ...]],
        volumes: VolumeWorld = _NO_WORLD,
        namespaces: Mapping[str, Labels] = EMPTY,
        shapes: Iterable[PodShape] = (),
    ) -> News:
        self._take_back()
        named = list(dict.fromkeys(shapes))
        news = super().follow(nodes, pods_by_node, volumes, namespaces, named)
        if not news.is_anew and not self._tells_apart_as_if_new(named):
            self._is_whole = False
            news = super().follow(nodes, pods_by_node, volumes, namespaces, named)
        self._take_in(news)
        return news

    def _take_back(self) -> None:
        """If that fails, the index is of no more use."""
        was_whole, self._is_whole = self._is_whole, False
        self._tried.close()
        self._is_whole = was_whole

    def _tells_apart_as_if_new(self, shapes: Sequence[PodShape]) -> bool:
        """Are pods told apart as by an index that was made now? Movers are known by their class, so none may be split;
        and the order in which pods are tried depends on what is one class.
        """
        asked = [self.index.class_of(shape) for shape in shapes]
        classes = self.index.classes
        return not classes.splits and classes.looks_at_no_more_than([*self.index.classes_in_use(), *asked])

    def _take_in(self, news: News) -> None:
        index_of = self.index.table.index
        if news.is_anew:
            self.movers, self._moving, self._targets = {}, Counter(), []
        self._targets += [False] * (len(self.index.table) - len(self._targets))
        for name in news.nodes:
            self._targets[index_of[name]] = is_target(self.nodes[name])
        known: dict[PodShape, PodClass] = {}
        for name in news.pods:
            self._put(index_of[name], self._movers_among(self.pods[name], known))
        for number in [number for number in self.movers if not self.index.table.is_here[number]]:
            self._put(number, ())

    def _put(self, number: int, movers: tuple[Mover, ...]) -> None:
        self._moving.subtract(mover.pod_class for mover in self.movers.pop(number, ()))
        self._moving.update(mover.pod_class for mover in movers)
        if movers:
            self.movers[number] = movers

    def _movers_among(self, pods: Iterable[Pod], known: dict[PodShape, PodClass]) -> tuple[Mover, ...]:
        found = []
        for pod in pods:
            if pod.is_finished or pod.deleted_at is not None or pod.is_mirror or pod.is_daemon:
                continue
            pod_class = known.get(pod.shape)
            if pod_class is None:
                pod_class = self.index.class_of_pod(pod)
                if not pod_class.first.pod_name:
                    known[pod.shape] = pod_class
            found.append(Mover(pod, pod_class))
        return tuple(found)

    # ------------------------------------------------------------------------------- what-ifs

    def try_out(self) -> ExitStack:
        """What happens in the index from now on is taken back when this is closed, or the cluster followed again."""
        tried = ExitStack()
        tried.enter_context(self.index.trial())
        self._tried.callback(tried.close)
        return tried

    def targets(self, leaving: Collection[str]) -> Mask:
        """By number: may pods be moved there? `leaving` are nodes that go anyway."""
        found = np.array(self._targets, np.bool_) & self.index.table.is_here[: len(self._targets)]
        found[[self.index.table.index[name] for name in leaving if name in self.nodes]] = False
        return found

    def ranks(self, shapes: Iterable[PodShape]) -> dict[PodClass, Rank]:
        """All classes that have movers, in the order in which nodes have them, and then those of these shapes. An index
        that has long been followed and a new one number their classes otherwise, but rank them alike.
        """
        found: dict[PodClass, Rank] = {}
        for pod_class, count in self._moving.items():
            if count > 0:
                first = min(self.index.nodes_of(pod_class), default=-1)
                movers = (mover.pod_class is pod_class for mover in self.movers.get(first, ()))
                found[pod_class] = (first, next((at for at, is_it in enumerate(movers) if is_it), -1))
        last = len(self._targets)
        for position, shape in enumerate(dict.fromkeys(shapes)):
            found.setdefault(self.index.class_of(shape), (last, position))
        return dict(sorted(found.items(), key=lambda item: item[1]))


def is_target(node: Node, leaving: Collection[str] = ()) -> bool:
    """May pods be moved there? `leaving` are the names of the node being removed and of those already chosen."""
    is_going = node.name in leaving or node.is_marked or node.deleted_at is not None
    return node.is_ready and not (node.malformed or node.is_unschedulable or is_going)
