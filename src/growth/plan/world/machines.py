"""Does a machine surely not exist, and how does a node or a machine get its NodeRemovalRequest? Asked by provisioning,
scale-down, consolidation, removal and orphans; only removal deletes machines.

Unknown is not absent. Only a list that is younger than everything that was asked, and that is credible as a whole, says
that a machine is not there. The rows look again after a while: a newer list that says the same wakes no row.

| reason of a removal | when | pods found on the node |
| --- | --- | --- |
| Empty | idle for its time | the removal is cancelled |
| NotReady | never came up in time, or failed | evicted |
| Deleted | its NodeRequest was deleted by hand before it was Ready | evicted |
| PoolDeleted | its pool goes | evicted, within the budgets |
| Expired | older than the pool lets it be | evicted, within the budgets, once what replaces it is Ready |
| Drifted | made from a template that its pool has no more | the same |
| Unhealthy | not Ready for long | evicted, within the budgets; taken back if it is Ready again in time |
| Consolidated | its pods fit on other nodes | evicted, while they still fit there; else the removal is taken back |
| Orphaned | a machine that never had a node | – |
"""

from __future__ import annotations

from typing import Final

from growth.model.action import CreateNodeRemovalRequest, Seen
from growth.model.instant import since
from growth.model.node import OFFERING_LABEL, REQUEST_LABEL, Node
from growth.model.noderequest import NodeRemovalRequestSpec, NodeRequest
from growth.model.offering import Machine
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import pool_of_machine
from growth.plan.world.turn import seen

EMPTY: Final = "Empty"
NOT_READY: Final = "NotReady"
DELETED: Final = "Deleted"
POOL_DELETED: Final = "PoolDeleted"
EXPIRED: Final = "Expired"
DRIFTED: Final = "Drifted"
UNHEALTHY: Final = "Unhealthy"
ORPHANED: Final = "Orphaned"
CONSOLIDATED: Final = "Consolidated"

DRAINING: Final = (NOT_READY, DELETED, POOL_DELETED, EXPIRED, DRIFTED, UNHEALTHY, CONSOLIDATED)

LOOK_AGAIN_SECONDS: Final = 15.0
LIST_LAG_SECONDS: Final = 10.0  # a list this much younger than an event shows what the event did


def is_surely_absent(name: str, asked_at: float, snapshot: Snapshot, lag_seconds: float = LIST_LAG_SECONDS) -> bool:
    """By a credible list that is younger than what was asked of the machine last."""
    listed_at = snapshot.machines_at
    if listed_at is None or name in snapshot.machines or not is_credible(snapshot):
        return False
    return listed_at > since(snapshot.now, asked_at) + lag_seconds


def is_credible(snapshot: Snapshot) -> bool:
    """An empty list while nodes of ours are Ready is no list."""
    ours = (node for node in snapshot.nodes.values() if REQUEST_LABEL in node.labels)
    return bool(snapshot.machines) or not any(node.is_ready and node.name not in snapshot.removals for node in ours)


def removal_of_request(request: NodeRequest, snapshot: Snapshot, reason: str) -> CreateNodeRemovalRequest | None:
    """Of a machine whose node never served; the node may not even exist. None: its machine is not known yet."""
    name, spec, node = request.name, request.spec, snapshot.nodes.get(request.name)
    machine_id = request.status.machine_id or recorded_id(name, request.uid, snapshot)
    if not machine_id and not is_surely_absent(name, request.changed_at, snapshot):
        return None
    removal = NodeRemovalRequestSpec(name, spec.pool, spec.target_offering, machine_id, reason)
    return CreateNodeRemovalRequest(Seen(name) if node is None else seen(node), removal)


def removal_of_node(node: Node, snapshot: Snapshot, reason: str) -> CreateNodeRemovalRequest | None:
    """None: which machine it is, is not known yet. A node whose machine is surely gone is removed without one."""
    request = snapshot.requests.get(node.name)
    uid, ordered_id = ("", "") if request is None else (request.uid, request.status.machine_id)
    machine_id = recorded_id(node.name, uid, snapshot) or ordered_id
    if not machine_id and not is_surely_absent(node.name, node.created_at, snapshot):
        return None
    offering = node.labels.get(OFFERING_LABEL, "")
    return CreateNodeRemovalRequest(
        seen(node), NodeRemovalRequestSpec(node.name, node.pool, offering, machine_id, reason)
    )


def removal_of_machine(machine: Machine) -> CreateNodeRemovalRequest:
    name, pool = machine.name, pool_of_machine(machine) or "unknown"
    spec = NodeRemovalRequestSpec(name, pool, machine.offering, machine.machine_id, ORPHANED)
    return CreateNodeRemovalRequest(Seen(name), spec)


def recorded_id(name: str, request_uid: str, snapshot: Snapshot) -> str:
    """By the provider's own list, never by what a kubelet says; a machine of another request under this name is not
    ours to name.
    """
    machine = snapshot.machines.get(name)
    if machine is None or (request_uid and machine.request_uid not in ("", request_uid)):
        return ""
    return machine.machine_id
