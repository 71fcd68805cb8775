"""May pods be moved to this node at all? Asked by scale-down, consolidation and removal, before any rule of scheduling.

| the node | is a target |
| --- | --- |
| is the one being removed, or was chosen in the same pass | no |
| is marked for scale-down, whatever a pod tolerates | no |
| is cordoned, not ready, being deleted, or cannot be read | no |
| otherwise | if the rules of scheduling let the pod go there |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from growth.model.node import SCALE_DOWN_TAINT, Node
from growth.solver.reasons import Kind, Reason, Rule, refusal

NO_TARGETS: Final = refusal(Kind.NO_NODES, Rule.TARGET, "", "no available nodes for rescheduling")


def why_not_target(node: Node, leaving: Collection[str] = ()) -> Reason | None:
    """Why no pod is moved there; `leaving` are the names of the node being removed and of those already chosen."""
    if node.malformed:
        return refusal(Kind.MALFORMED, Rule.TARGET, node.malformed, f"malformed node: {node.malformed}")
    if node.name in leaving:
        return _no_target("leaving", "going away itself")
    if node.is_marked:
        return _no_target(str(SCALE_DOWN_TAINT), "marked for scale-down")
    if node.is_unschedulable:
        return refusal(Kind.UNSCHEDULABLE, Rule.TARGET, "spec.unschedulable", "cordoned")
    if not node.is_ready:
        return _no_target("Ready", "not ready")
    return None if node.deleted_at is None else _no_target("deletionTimestamp", "being deleted")


def targets(nodes: Iterable[Node], leaving: Collection[str] = ()) -> list[Node]:
    """Those that may take pods; none left means `NO_TARGETS`."""
    return [node for node in nodes if why_not_target(node, leaving) is None]


def _no_target(constraint: str, phrase: str) -> Reason:
    return refusal(Kind.NO_NODES, Rule.TARGET, constraint, phrase)
