"""Why may a pod not go to a node? The seam between the embedded scheduler and the rules of placement."""

from __future__ import annotations

from collections.abc import Iterable

from growth.model.labels import Labels, NodeSelectorTerm, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import Pod, PodShape, Toleration
from growth.model.resources import PODS, Resources


def why_not(pod: Pod, node: Node, free: Resources) -> str | None:
    """In the scheduler's own words."""
    shape = pod.shape
    if node.is_unschedulable:
        return "node(s) were unschedulable"
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not any(_tolerates(toleration, taint) for toleration in shape.tolerations):
            return f"node(s) had untolerated taint(s) {{{taint.key}: {taint.value}}}"
    if not _selected(shape, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return _short(shape.requests + Resources({PODS: 1}), free)


def why_no_daemon(pod: Pod, node: Node, effects: tuple[str, ...] = ("NoSchedule", "NoExecute")) -> str | None:
    """As the DaemonSet controller asks: taints of these effects and selectors, but neither room nor a cordon."""
    for taint in node.taints:
        if taint.effect in effects and not any(_tolerates(toleration, taint) for toleration in pod.shape.tolerations):
            return f"untolerated taint {taint}"
    return None if _selected(pod.shape, node) else "another node"


def _short(wanted: Resources, free: Resources) -> str | None:
    for name, amount in wanted.items():
        if amount > free[name]:
            return "Too many pods" if name == PODS else f"Insufficient {name}"
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.key != "" and toleration.value == taint.value)


def intolerable_soft_taints(shape: PodShape, node: Node) -> int:
    """How many PreferNoSchedule taints of the node the pod does not tolerate."""
    soft = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
    return sum(1 for taint in soft if not any(_tolerates(toleration, taint) for toleration in shape.tolerations))


def _selected(shape: PodShape, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    return shape.node_affinity is None or any(term_matches(term, node) for term in shape.node_affinity)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.expressions and not term.fields:
        return False
    return _all_hold(term.expressions, node.labels) and _all_hold(term.fields, Labels({"metadata.name": node.name}))


def _all_hold(requirements: Iterable[Requirement], labels: Labels) -> bool:
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def _holds(requirement: Requirement, value: str | None) -> bool:
    if requirement.operator in ("In", "NotIn"):
        return (value in requirement.values) == (requirement.operator == "In")
    if requirement.operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (requirement.operator == "Exists")
    try:
        found, bound = int(value or ""), int(requirement.values[0])
    except ValueError:
        return False
    return found > bound if requirement.operator == "Gt" else found < bound
