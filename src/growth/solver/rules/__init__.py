"""Who fits where? The rules of kube-scheduler 1.36, exact, with the reason in words. Asked by everything that places or
moves a pod.

`why_not` answers for one pod and one node. For many, use the same index in bulk: `neighbours.fits(pod_class)` gives all
nodes at once."""

from __future__ import annotations

from growth.model.node import Node
from growth.model.pod import Pod
from growth.solver.reasons import Kind, Reason, Rule
from growth.solver.rules.neighbours import Neighbours

__all__ = ["Kind", "Neighbours", "Reason", "Rule", "why_not"]


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
