"""Does a pod fit a node, by what node and pod say alone? Asked wherever a plan looks at one place instead of asking the
solver.

Rules between pods (affinity, spread, host ports) and volumes are the solver's; here stand the cheap ones: selectors,
taints, amounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from growth.model.labels import Labels, NodeSelectorTerm
from growth.model.node import Taint
from growth.model.pod import PodShape
from growth.model.resources import PODS, Resources, sum_resources
from growth.solver.rules.selectors import NODE_NAME_FIELD, holds, why_term_malformed
from growth.solver.rules.taints import first_untolerated

ONE_POD: Final = Resources({PODS: 1})


def charge(shape: PodShape) -> Resources:
    """What a pod takes from a node: its requests, and its place among the pods."""
    return shape.requests + ONE_POD


def free_amounts(allocatable: Resources, shapes: Iterable[PodShape]) -> Resources:
    return allocatable - sum_resources(charge(shape) for shape in shapes)


def stands(shape: PodShape, labels: Labels, taints: tuple[Taint, ...], name: str = "") -> bool:
    """May it stand on a node with these labels and taints, whatever else stands there?"""
    if shape.malformed or (shape.required_node and shape.required_node != name):
        return False
    if any(labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    if first_untolerated(taints, shape.tolerations) is not None:
        return False
    return shape.node_affinity is None or any(term_matches(term, labels, name) for term in shape.node_affinity)


def term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """An empty term, or a malformed one, matches nothing."""
    if not (term.expressions or term.fields) or why_term_malformed(term):
        return False
    if not all(holds(requirement, labels.get(requirement.key)) for requirement in term.expressions):
        return False
    return all(holds(field, name if field.key == NODE_NAME_FIELD else "") for field in term.fields)
