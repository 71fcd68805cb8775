"""How many more nodes of a pool may be disrupted now? Asked by scale-down and consolidation before a node with pods on it goes.

A budget is a count or a share of the pool's nodes (a share lets at least one go, unless it is 0 %); of several the smallest holds. Nodes that
are being drained, and nodes that are not Ready, use it up. A budget with a schedule holds at all times here, which errs on the safe side.
"""

from __future__ import annotations

from growth.model.nodepool import NodePool
from growth.model.snapshot import Snapshot
from growth.plan.arrival import working_pods
from growth.plan.handover import DRAINING


def disruptions_left(pool: NodePool, snapshot: Snapshot) -> int:
    nodes = [node for node in snapshot.nodes.values() if node.pool == pool.name]
    used = sum(1 for node in nodes if _is_disrupted(node.name, snapshot) or not node.is_ready or (node.is_marked and working_pods(snapshot, node.name)))
    return max(0, disruptions_allowed(pool, snapshot) - used)


def disruptions_allowed(pool: NodePool, snapshot: Snapshot) -> int:
    """How many at once, by the strictest budget."""
    count = sum(node.pool == pool.name for node in snapshot.nodes.values())
    return min((_allowed(budget.nodes, count) for budget in pool.spec.budgets), default=count)


def _is_disrupted(name: str, snapshot: Snapshot) -> bool:
    removal = snapshot.removals.get(name)
    return removal is not None and removal.spec.reason in DRAINING


def _allowed(text: str, count: int) -> int:
    """Malformed: nothing may be disrupted."""
    digits = text.removesuffix("%")
    if not digits.isdecimal():
        return 0
    if not text.endswith("%"):
        return int(digits)
    share = count * int(digits) // 100
    return max(1, share) if int(digits) > 0 else 0
