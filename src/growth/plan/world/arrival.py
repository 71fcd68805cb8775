"""How far has a node come on its way in? Asked by provisioning, realising and scale-down.

joined       the Node object exists, under the request's name registered   growth has written the pool's labels,
annotations and taints on it (the label growth.dev/node-request says so) initialised  Ready, its start-up taints gone,
the devices it was bought for reported serving      initialised, and growth's own start-up taint taken off"""

from __future__ import annotations

from growth.model.instant import CLOCKS_DIFFER_SECONDS
from growth.model.node import POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import READY, NodeRequest
from growth.model.pod import Pod
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import ordered_amounts
from growth.plan.world.pools import is_transient


def is_registered(node: Node) -> bool:
    return node.labels.get(REQUEST_LABEL) == node.name and bool(node.labels.get(POOL_LABEL))


def is_initialised(node: Node, request: NodeRequest, pool: NodePool | None) -> bool:
    if not node.is_ready or not is_registered(node) or node.malformed:
        return False
    if any(is_transient(taint, pool) and taint.key != STARTUP_TAINT.key for taint in node.taints):
        return False
    return all(
        name in node.allocatable for name, amount in ordered_amounts(request.spec).items() if amount > 0 and "/" in name
    )


def is_serving(node: Node, request: NodeRequest, pool: NodePool | None) -> bool:
    return is_initialised(node, request, pool) and not node.is_starting


def phase_since(request: NodeRequest, snapshot: Snapshot) -> float:
    """Since when a request is in its phase. A stamp from the future was written before a clock went back: then its
    node's word counts, or its age.
    """
    node = snapshot.nodes.get(request.name)
    ready_at = (node.ready_changed_at,) if node is not None and request.phase == READY else ()
    stamps = (request.changed_at, *ready_at, request.created_at)
    return next((at for at in stamps if at <= snapshot.now + CLOCKS_DIFFER_SECONDS), 0.0)


def working_pods(snapshot: Snapshot, node: str) -> tuple[Pod, ...]:
    """Those that keep the node from being idle."""
    return tuple(pod for pod in snapshot.pods_by_node.get(node, ()) if pod.counts_as_work)


def is_ours(node: Node, snapshot: Snapshot) -> bool:
    """A node of a pool, made by growth. A label alone is not enough: anybody can write one."""
    if node.pool not in snapshot.pools:
        return False
    return is_registered(node) or node.name in snapshot.machines or node.name in snapshot.requests
