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

__all__ = ["Kind", "Neighbours", "Reason", "Rule", "why_not"]


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
