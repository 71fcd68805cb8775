"""Who fits where? The rules of kube-scheduler 1.36, exact, with the reason in words. Asked by everything that places or
moves a pod; `solver/rules/fit` has the quick question about one pod and one node.

`Neighbours` is the index: nodes, and the pods bound, planned or tried on them, counted so that every rule answers
quickly. Nodes that exist, planned nodes and simulated placements are all the same to it. Adding a placement changes the
counts it touches; a trial is undone by the same amount of work. It decides nothing: which nodes may be targets at all
is the caller's business.

| to change | call |
| --- | --- |
| pods come and go | `add`, `remove` by class and node number; `add_pod`, `remove_pod` |
| nodes come and go | `add_nodes`; `take_out` (a what-if without the node and its pods); `change_node` |
| try something | `with neighbours.trial():`; what happens inside is undone at the end |

`why_not` answers for one pod and one node; `neighbours.fits(pod_class)` for all nodes at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any, Final, NamedTuple

import numpy as np

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, count_phrases, sentence
from growth.solver.rules.placements import Placements
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.question import Question

__all__ = ["Following", "Kind", "Neighbours", "News", "Reason", "Rule", "why_not"]

_NO_WORLD: Final = VolumeWorld()
_MOST_CLASSES: Final = 20_000  # classes are never forgotten: an index that has seen so many is made again


class Neighbours(Placements):
    """The pods on a set of nodes, and every rule's view of them."""

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        volumes: VolumeWorld | None = None,
        namespaces: Mapping[str, Labels] = EMPTY,
        *,
        shapes: Iterable[PodShape] = (),
    ) -> None:
        """`shapes` are those that will be asked about; naming them early saves splitting classes later."""
        self._questions: dict[int, Question] = {}
        super().__init__(nodes, pods, volumes or VolumeWorld(), namespaces, shapes)

    def _forget_nodes(self, first: int) -> None:
        for question in self._questions.values():
            question.forget_nodes(first)

    def _forget_all(self) -> None:
        self._questions.clear()

    def question(self, pod_class: PodClass) -> Question:
        """The rules as they are for a class; valid until the next change of classes, so it is asked for again each
        time.
        """
        known = self._questions.get(pod_class.number)
        if known is None:
            known = self._questions[pod_class.number] = Question(pod_class, self)
        if not known.is_current:
            known.catch_up()
        return known

    def fits_on(self, pod_class: PodClass, index: int) -> bool:
        """The same as `fits` for one node: what a search asks pod by pod."""
        return self.question(pod_class).fits_on(index)

    def fits(self, pod_class: PodClass) -> Mask:
        """For every node by number: may a pod of the class go there now?"""
        return self.question(pod_class).fits()

    def room_for(self, pod_class: PodClass) -> Amounts:
        """How many pods of the class the amounts of each node allow, 0 where it may not go at all.

        A class that looks at other pods (`Question.is_entangled`) may find less room with every pod placed: ask again
        after each."""
        return self.question(pod_class).room()

    def node_classes(self, pod_classes: Iterable[PodClass]) -> Amounts:
        """For every node by number, the number of its class: nodes of one class are alike to all these pods, now and
        after equal placements.
        """
        seen = [look for pod_class in pod_classes for look in self.question(pod_class).looks()]
        if not seen:
            return np.zeros(len(self.table), np.int64)
        numbers: Amounts = np.unique(np.array(seen), axis=1, return_inverse=True)[1].reshape(-1)
        return numbers

    def why_not(self, pod_class: PodClass, index: int) -> Reason | None:
        return self.question(pod_class).why_not(index)

    def every_reason(self, pod_class: PodClass, index: int) -> list[Reason]:
        """All rules that refuse the node, not only the first."""
        return self.question(pod_class).every_reason(index)

    def why_nowhere(self, pod_class: PodClass) -> dict[str, int]:
        """For how many nodes does each phrase hold? Nodes that fit are left out."""
        return count_phrases(self.question(pod_class).all_first_reasons())

    def why_refused(self, pod_class: PodClass, open_to_it: Mask) -> dict[str, int]:
        """The same for some of the nodes, and quicker: nodes that are refused alike are asked once."""
        counts: Counter[str] = Counter()
        for refused in self.question(pod_class).refusals(open_to_it):
            counts.update(dict.fromkeys(refused.reason.phrases, refused.nodes))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def sentence(self, pod_class: PodClass) -> str:
        """`0/12 nodes are available: 7 insufficient memory, …`."""
        return sentence(self.why_nowhere(pod_class), int(self.table.is_here.sum()))


class News(NamedTuple):
    """What an index that follows a cluster has taken in."""

    is_anew: bool  # it was made again: all of it is new
    nodes: list[str]  # nodes that are other objects than before
    described: list[int]  # the numbers of those that look otherwise to the rules
    pods: list[str]  # nodes on which there are other pods


class Following:
    """An index that follows a cluster: it takes in what has changed and nothing else, and equals a new one. Nodes that
    went are only taken out; when there are many of them, or volumes or namespaces have changed, it is made again. So is
    one that was interrupted.
    """

    def __init__(self) -> None:
        self._world: tuple[VolumeWorld, Mapping[str, Labels]] = (_NO_WORLD, EMPTY)
        self._is_whole = False
        self.index = Neighbours()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, ...]] = {}

    def follow(
        self,
        nodes: Mapping[str, Node],
        pods_by_node: Mapping[str, tuple[Pod, ...]],
        volumes: VolumeWorld = _NO_WORLD,
        namespaces: Mapping[str, Labels] = EMPTY,
        shapes: Iterable[PodShape] = (),
    ) -> News:
        """Be as this cluster is. Tuples of pods that are the very same as last time are not looked into. `shapes` are
        those that will be asked about.
        """
        if self._is_worn_out(nodes, volumes, namespaces):
            self._world = (volumes, namespaces)
            return self._begin(nodes, pods_by_node, shapes)
        self._is_whole = False
        news = self._follow_nodes(nodes)
        for name in nodes:
            before, after = self.pods.get(name, ()), pods_by_node.get(name, ())
            if before is not after:
                self._follow_pods(name, before, after)
                news.pods.append(name)
        self._is_whole = True
        return news

    def _is_worn_out(self, nodes: Mapping[str, Node], volumes: VolumeWorld, namespaces: Mapping[str, Labels]) -> bool:
        before = (*parts_of_world(self._world[0]), self._world[1])
        if not self._is_whole or not all(map(is_, before, (*parts_of_world(volumes), namespaces))):
            return True
        gone = len(self.index.table) - len(self.nodes)
        return 10 * gone > len(nodes) + 100 or len(self.index.classes.all) > _MOST_CLASSES

    def _begin(
        self, nodes: Mapping[str, Node], pods_by_node: Mapping[str, tuple[Pod, ...]], shapes: Iterable[PodShape]
    ) -> News:
        pods = [pod for name in nodes for pod in pods_by_node.get(name, ())]
        self.index = Neighbours(nodes.values(), pods, *self._world, shapes=shapes)
        self.nodes, self.pods = dict(nodes), {name: pods_by_node.get(name, ()) for name in nodes}
        self._is_whole = bool(nodes)
        return News(True, list(nodes), list(range(len(nodes))), list(nodes))

    def _follow_nodes(self, nodes: Mapping[str, Node]) -> News:
        index, described = self.index, list[int]()
        for name in [name for name in self.nodes if name not in nodes]:
            self._follow_pods(name, self.pods.get(name, ()), ())
            index.take_out(index.table.index[name])
            del self.nodes[name], self.pods[name]
        others = [node for name, node in nodes.items() if self.nodes.get(name) is not node]
        new = [node for node in others if node.name not in self.nodes]
        for node in others:
            if node.name in self.nodes and looks(self.nodes[node.name]) != looks(node):
                index.change_node(node)
                described.append(index.table.index[node.name])
        described += index.add_nodes(new)
        self.nodes.update((node.name, node) for node in others)
        return News(False, [node.name for node in others], described, [])

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
        self.pods[name] = after


def parts_of_world(volumes: VolumeWorld) -> tuple[Mapping[str, Any], ...]:
    return volumes.claims, volumes.volumes, volumes.classes, volumes.nodes


def looks(node: Node) -> tuple[object, ...]:
    """All of a node that the rules of scheduling look at."""
    return node.labels, node.taints, node.allocatable, node.is_unschedulable, node.malformed


def counts(pod: Pod) -> tuple[object, ...]:
    """All of a bound pod that matters to others."""
    return pod.shape, pod.node_name, pod.deleted_at is not None, pod.is_finished


def why_not(pod: Pod, node: Node, neighbours: Neighbours) -> Reason | None:
    """Why the pod may not go to the node, or None if it may. A node that the index does not know is looked at as a new
    one.
    """
    index = neighbours.table.index.get(node.name)
    pod_class = neighbours.class_of_pod(pod)
    if index is not None and neighbours.table.nodes[index] == node:
        return neighbours.why_not(pod_class, index)
    with neighbours.trial():
        if index is None:
            index = neighbours.add_nodes([node])[0]
        else:
            neighbours.change_node(node)
        return neighbours.why_not(pod_class, index)
