"""Does a pod fit a node that is open to it, as far as the two alone decide? The quick question of every plan that looks
at one node and one pod.

It gives the answer of the exact rules on amounts, node name, selectors, node affinity and taints, from the same
functions. It does not look at rules between pods (affinity, spread, host ports), at volumes, or at whether the node is
cordoned or readable: for those, ask `Neighbours`. No other part of growth compares requests with free amounts,
selectors with labels or tolerations with taints.

| question | function |
| --- | --- |
| what is left on a node beside these pods | `free_amounts`, `free_after` |
| are these amounts enough for the pod | `is_enough` |
| do labels, taints and name admit the pod | `may_run_on` |
| both together; how many such pods | `fits_alone`, `how_many_fit` |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from growth.model.labels import Labels
from growth.model.node import Node, Taint
from growth.model.pod import PodShape
from growth.model.resources import Resources, sum_resources
from growth.solver.rules.node_table import clipped
from growth.solver.rules.resources import counted_needs
from growth.solver.rules.selectors import is_eligible
from growth.solver.rules.taints import first_untolerated


def fits_alone(shape: PodShape, node: Node, free: Resources) -> bool:
    """Does one such pod fit on the node, of whose amounts `free` are left?"""
    return is_enough(free, shape) and may_run_on(shape, node.labels, node.taints, node.name)


def fit_together(shapes: Sequence[PodShape], node: Node, free: Resources) -> bool:
    """Do all these pods fit there beside each other? Quicker than one after the other, and mostly they do."""
    if not sum_resources(_needs(shape.requests) for shape in shapes).fits_in(free):
        return False
    different = {id(shape): shape for shape in shapes}
    return all(may_run_on(shape, node.labels, node.taints, node.name) for shape in different.values())


def how_many_fit(shape: PodShape, node: Node, free: Resources) -> int:
    """How many such pods fit there."""
    count = _needs(shape.requests).how_often_in(free) or 0
    return count if count and may_run_on(shape, node.labels, node.taints, node.name) else 0


def may_run_on(shape: PodShape, labels: Labels, taints: tuple[Taint, ...], name: str = "") -> bool:
    """May the pod run on a node with these labels and taints, if there is room? Without a name, the node is still to be
    made, and a pod that asks for a node by name does not get it.
    """
    if shape.malformed or (shape.required_node and shape.required_node != name):
        return False
    return first_untolerated(taints, shape.tolerations) is None and is_eligible(shape, labels, name)


def is_enough(free: Resources, shape: PodShape) -> bool:
    """Are these amounts enough for one such pod?"""
    return _needs(shape.requests).fits_in(free)


def free_amounts(allocatable: Resources, shapes: Iterable[PodShape]) -> Resources:
    """What pods of these shapes leave of a node's amounts."""
    whole = Resources({name: clipped(amount) for name, amount in allocatable.items()})
    return whole - sum_resources(_needs(shape.requests) for shape in shapes)


def free_after(free: Resources, shape: PodShape, count: int = 1) -> Resources:
    """What is left of free amounts when so many more such pods are there."""
    return free - _needs(shape.requests).times(count)


@lru_cache(maxsize=16_384)
def _needs(requests: Resources) -> Resources:
    """What one pod takes from a node: its counted requests, and one place among the pods."""
    return Resources(counted_needs(requests))
