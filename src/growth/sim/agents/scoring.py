"""Which of the nodes that fit is best? Scores like kube-scheduler's defaults: it spreads, and does not pack.

Asked by the embedded scheduler for one pod at a time. Each score is 0 to 100; the sum decides, equal sums are drawn by
lot.

| score | weight | best is |
| --- | --- | --- |
| least allocated | 1 | the most room left for cpu and memory |
| balanced allocation | 1 | cpu and memory used alike |
| spread | 2 | few pods of the same owner on the node and in its zone |
| preferred node affinity | 2 | the most weight matched |
| taints | 3 | few PreferNoSchedule taints that are not tolerated |
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from growth.model.labels import ZONE, NodeSelectorTerm
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.resources import CPU, MEMORY, Resources
from growth.sim.agents.census import HostedNode
from growth.solver.rules.selectors import holds
from growth.solver.rules.taints import count_soft_untolerated

_UNSAID: Final = Resources({CPU: 100, MEMORY: 200 * 2**20})  # what a pod that asks for nothing counts as


def best_node(
    pod: Pod, fitting: Sequence[HostedNode], everywhere: Sequence[HostedNode], chance: random.Random
) -> HostedNode:
    """The best of those that fit; `everywhere` is needed to see how the pod's fellows are spread."""
    fellows = _fellows(pod, everywhere)
    soft = [count_soft_untolerated(hosted.node.taints, pod.shape.tolerations) for hosted in fitting]
    totals = [
        _least_allocated(pod, hosted)
        + _balanced(pod, hosted)
        + 2 * _spread(hosted, fellows)
        + 2 * _preference(pod, hosted)
        + 3 * _rank(count, soft)
        for hosted, count in zip(fitting, soft, strict=True)
    ]
    best = max(totals)
    return chance.choice([hosted for hosted, total in zip(fitting, totals, strict=True) if total == best])


def _shares(pod: Pod, hosted: HostedNode) -> list[float]:
    """The used shares of cpu and memory with the pod on the node."""
    shares = []
    for name in (CPU, MEMORY):
        asked = pod.shape.requests[name] or _UNSAID[name]
        shares.append(min(1.0, (hosted.used[name] + asked) / max(1, hosted.node.allocatable[name])))
    return shares


def _least_allocated(pod: Pod, hosted: HostedNode) -> int:
    shares = _shares(pod, hosted)
    return int(100 * (1 - sum(shares) / len(shares)))


def _balanced(pod: Pod, hosted: HostedNode) -> int:
    cpu, memory = _shares(pod, hosted)
    return int(100 * (1 - abs(cpu - memory) / 2))


def _fellows(pod: Pod, everywhere: Sequence[HostedNode]) -> Callable[[str, str], int]:
    """How many pods of the same owner there are with a given value of a label; counted once for a pod."""
    owner = pod.owner.uid if pod.owner is not None else ""
    by_node: dict[str, int] = {}
    by_zone: dict[str, int] = {}
    for hosted in everywhere if owner else ():
        count = sum(1 for other in hosted.pods.values() if other.owner is not None and other.owner.uid == owner)
        by_node[hosted.node.name] = count
        zone = hosted.node.labels.get(ZONE, "")
        by_zone[zone] = by_zone.get(zone, 0) + count
    return lambda kind, value: (by_node if kind == "node" else by_zone).get(value, 0)


def _spread(hosted: HostedNode, fellows: Callable[[str, str], int]) -> int:
    on_node, in_zone = fellows("node", hosted.node.name), fellows("zone", hosted.node.labels.get(ZONE, ""))
    return int(100 / (1 + on_node + in_zone / 3))


def _preference(pod: Pod, hosted: HostedNode) -> int:
    wanted = sum(preferred.weight for preferred in pod.shape.preferred_nodes)
    found = sum(preferred.weight for preferred in pod.shape.preferred_nodes if _matches(preferred.term, hosted.node))
    return int(100 * found / wanted) if wanted else 0


def _rank(count: int, counts: Sequence[int]) -> int:
    return 100 if not max(counts) else int(100 * (1 - count / max(counts)))


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """A preferred term; one that asks for a node by its name is rare and counts as matched by none."""
    return not term.fields and all(
        holds(requirement, node.labels.get(requirement.key)) for requirement in term.expressions
    )
