"""Small clusters in a few words: what the tests of the scheduling rules are written in."""

from __future__ import annotations

from typing import Any

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import Pod, PodAffinityTerm, PodShape, Toleration
from growth.model.resources import Resources
from growth.solver.rules import Neighbours, Reason, why_not

GPU = Taint("gpu", "true")


def node(
    name: str = "a",
    zone: str = "z1",
    cpu: int = 4,
    pods: int = 110,
    labels: dict[str, str] | None = None,
    **fields: Any,
) -> Node:
    allocatable = Resources({"cpu": cpu * 1000, "memory": 8 * 2**30, "pods": pods})
    return Node(name, Labels({HOSTNAME: name, ZONE: zone, **(labels or {})}), allocatable=allocatable, **fields)


def shape(app: str = "web", cpu: int = 0, **fields: Any) -> PodShape:
    return PodShape(labels=Labels({"app": app}), requests=Resources({"cpu": cpu * 1000}), **fields)


def pod(name: str = "new", node_name: str = "", **fields: Any) -> Pod:
    return Pod(name, shape(**fields), uid=f"uid-{name}", node_name=node_name)


def apps(*names: str) -> LabelSelector:
    return LabelSelector((Requirement("app", "In", names),))


def near(*names: str, key: str = HOSTNAME, **fields: Any) -> PodAffinityTerm:
    """A term on pods of these apps, for affinity or anti-affinity."""
    return PodAffinityTerm(key, apps(*names), **fields)


def term(*requirements: Requirement, fields: tuple[Requirement, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements, fields)


def tolerates(key: str = "", value: str = "", effect: str = "", operator: str = "Equal") -> Toleration:
    return Toleration(key, operator, value, effect)


def refusal(waiting: Pod, target: Node, *bound: Pod, others: tuple[Node, ...] = (), **world: Any) -> Reason | None:
    """Why the pod may not go to the target, with these pods bound."""
    return why_not(waiting, target, Neighbours([target, *others], bound, **world))


def fits(waiting: Pod, target: Node, *bound: Pod, others: tuple[Node, ...] = (), **world: Any) -> bool:
    return refusal(waiting, target, *bound, others=others, **world) is None
