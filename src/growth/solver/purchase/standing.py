"""Where may a shape stand at all, whatever else stands there? Asked once for each kind of shape when a problem is laid
out.

The answer is that of the rules of `solver/rules` which look at nodes only. Shapes that those rules cannot tell apart
are asked once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from growth.model.node import Node
from growth.model.pod import PodShape
from growth.solver.arrays import BoolArray
from growth.solver.purchase.problem import PlacementProblem
from growth.solver.rules import Neighbours
from growth.solver.rules.claims import NO_VOLUMES
from growth.solver.rules.pod_affinity import why_not_readable
from growth.solver.rules.pod_class import Entry, PodClass
from growth.solver.rules.spread import why_not_spreadable


class Standing:
    """Answers for a fixed list of nodes."""

    def __init__(self, nodes: Sequence[Node], problem: PlacementProblem) -> None:
        self._neighbours = Neighbours(nodes, volumes=problem.volumes, namespaces=problem.namespaces)
        self._size = len(nodes)
        self._known: dict[PodShape, BoolArray] = {}

    def of_all(self, shapes: Sequence[PodShape]) -> BoolArray:
        """shapes × nodes: may it stand there?"""
        answers = [self.of(shape) for shape in shapes]
        return np.array(answers, dtype=np.bool_).reshape(len(shapes), self._size)

    def of(self, shape: PodShape) -> BoolArray:
        if _has_unreadable_rules(shape):
            return np.zeros(self._size, dtype=np.bool_)
        seen = _as_nodes_see_it(shape)
        if seen not in self._known:
            self._known[seen] = self._ask(seen)
        return self._known[seen]

    def _ask(self, shape: PodShape) -> BoolArray:
        return self._neighbours.question(self._neighbours.class_of(shape)).allowed_by_nodes()


def _as_nodes_see_it(shape: PodShape) -> PodShape:
    """Without what only other pods look at."""
    return PodShape(
        namespace=shape.namespace if shape.volumes else "default",
        tolerations=shape.tolerations,
        node_selector=shape.node_selector,
        node_affinity=shape.node_affinity,
        volumes=shape.volumes,
        required_node=shape.required_node,
        malformed=shape.malformed,
    )


def _has_unreadable_rules(shape: PodShape) -> bool:
    """A pod with a rule between pods that cannot be read goes nowhere, whatever the nodes are."""
    if not (
        shape.spread
        or shape.affinity
        or shape.anti_affinity
        or shape.preferred_affinity
        or shape.preferred_anti_affinity
    ):
        return False
    return bool(why_not_spreadable(PodClass(0, Entry(shape), shape.labels, NO_VOLUMES)) or why_not_readable(shape))
