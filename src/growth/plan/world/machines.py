"""Whose is this node, does a machine surely not exist, and how does a node or a machine get its NodeRemovalRequest?
Asked by every row; only removal deletes machines.

**Whose is a node?** The one answer that everybody asks: `Node.pool` and `Node.offering` are filled from `owner_of` when
a snapshot is made, and the gate puts the same question once more, live, before a machine or a Node is deleted.

Machines are trusted, not labels: a kubelet may write any label of growth on its own Node. A Node is growth's by one of

| evidence | when |
| --- | --- |
| its machine | the provider's list, which has only machines with our cluster id, shows one of its name |
| its machine, of a provider where nodes choose their names (Cluster API) | ... shows one with its providerID |
| our record | a NodeRequest of its name says that a machine was accepted |
| what is left of it | it is not Ready, has our name, labels or start-up taint, and no machine of its name is left |

A providerID that is set must not name another machine: then the Node is a stranger under a name of ours. An empty one,
or one that only repeats the node's name, takes nothing away. By the last row a Node can only be given back, and only
when the provider says that there is no machine of its name, nor of the id it names.

Every other Node is a stranger's, whatever it says: it is not marked, drained or deleted, teaches nothing, and counts
against no limit. If it may run on a machine of ours (`strangers_on`), the machine was bought in vain, and people are
told why; it is given back once no pod works there. Which pool and offering a node has is also said by its machine or
record: a label that somebody took off or changed changes nothing, and growth does not write it again: whoever took it
off would take it off once more.

**Is it gone?** Unknown is not absent. Only a list that is younger than everything that was asked, and that is credible
as a whole, says that a machine is not there. The rows look again after a while: a newer list that says the same wakes
no row.

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

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest, Seen
from growth.model.instant import since
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, Node
from growth.model.noderequest import (
    DEPROVISIONING,
    PROVISIONING,
    READY,
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRequest,
)
from growth.model.offering import Machine
from growth.model.snapshot import Snapshot
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
_NAMELESS_LAG_SECONDS: Final = 60.0  # without an id only the list can tell
_EMPTY_SECONDS: Final = 600.0  # so long nodes that only say that they are growth's speak against an empty list
_STAMP_SECONDS: Final = 1.0  # stamps in a status are cut to the second

POOL_NAME_LENGTH: Final = 40  # of a pool's name that goes into the names of its machines
_POOL_MARK: Final = "-pool-"


# ------------------------------------------------------------------------------------------- whose


class Owner(Struct, frozen=True):
    """What growth knows of one of its nodes without asking the node."""

    pool: str
    offering: str


def pool_of_machine(machine: Machine) -> str:
    """By its label, or else by its name: <pool>-pool-<id>."""
    return machine.labels.get(POOL_LABEL, "") or pool_in_name(machine.name)


def pool_in_name(name: str) -> str:
    """The pool that a machine of this name was bought for; empty: growth gives no such names."""
    return name.rpartition(_POOL_MARK)[0]


def is_registered(node: Node) -> bool:
    """It carries what growth writes on its nodes. Anybody could have written that."""
    return node.labels.get(REQUEST_LABEL) == node.name and bool(node.labels.get(POOL_LABEL))


def claimed_pool(node: Node) -> str:
    """The pool that a node says it was bought for, if its name and labels look like those that growth gives; one that
    growth never got to register still has the taint that it booted with.
    """
    labelled = _labelled_pool(node)
    is_like_ours = (is_registered(node) or node.is_starting) and pool_in_name(node.name) == labelled[:POOL_NAME_LENGTH]
    return labelled if is_like_ours else ""


# ---------------------------------------------------------------------------------- of one node


def is_node_of(node: Node, machine: Machine) -> bool:
    """Is this the Node that the machine became?"""
    if machine.is_found_by_provider_id:
        return bool(node.provider_id) and node.provider_id == machine.provider_id
    return node.name == machine.name and not names_another(node, machine.machine_id, machine.provider_id)


def names_another(node: Node, machine_id: str, provider_id: str = "") -> bool:
    """Does its providerID name a machine that is not this one?"""
    if not node.provider_id or node.provider_id == provider_id:
        return False
    return last_part(node.provider_id) not in (machine_id, node.name)


def last_part(provider_id: str) -> str:
    """The id in a providerID: hcloud://42, aws:///eu-central-1a/i-0f00."""
    return provider_id.rpartition("/")[2]


def machine_of(node: Node, machines: Mapping[str, Machine]) -> Machine | None:
    """The machine behind a node, by the provider's list."""
    machine = machines.get(node.name)
    return machine if machine is not None and is_node_of(node, machine) else None


def named_after_nodes(machines: Mapping[str, Machine], nodes: Mapping[str, Node]) -> Mapping[str, Machine]:
    """The list, in which a machine that is found by its providerID has the name of its node. Where several nodes say
    that they are one machine, the oldest is believed: a copy comes later.
    """
    sought = {each.provider_id for each in machines.values() if each.is_found_by_provider_id and each.provider_id}
    if not sought:
        return machines
    found: dict[str, str] = {}
    for node in sorted(nodes.values(), key=lambda each: (each.created_at, each.name)):
        if node.provider_id in sought:
            found.setdefault(node.provider_id, node.name)
    named = (
        replace(each, name=found.get(each.provider_id, each.name)) if each.is_found_by_provider_id else each
        for each in machines.values()
    )
    return {each.name: each for each in named}


def owner_of(node: Node, machines: Mapping[str, Machine], requests: Mapping[str, NodeRequest]) -> Owner | None:
    """None: a stranger."""
    request, machine = requests.get(node.name), machine_of(node, machines)
    recorded = request if request is not None and _has_machine(request, node) else None
    if machine is not None:
        return Owner(recorded.spec.pool if recorded is not None else _pool_of(node, machine), machine.offering)
    if node.name in machines:
        return None  # its providerID names another machine than the one of its name
    if recorded is not None:
        return Owner(recorded.spec.pool, recorded.spec.target_offering)
    claimed = claimed_pool(node)
    return Owner(claimed, node.labels.get(OFFERING_LABEL, "")) if claimed and not node.is_ready else None


def _pool_of(node: Node, machine: Machine) -> str:
    """The machine's word; the node's label where the machine says nothing, or only the beginning of a long name."""
    said, labelled = pool_of_machine(machine), _labelled_pool(node)
    return labelled if not said or said == labelled[:POOL_NAME_LENGTH] else said


def _labelled_pool(node: Node) -> str:
    return node.labels.get(POOL_LABEL, "")


def _has_machine(request: NodeRequest, node: Node) -> bool:
    """One that is Pending or Unmet without a machine says nothing: a node of its name is somebody else's."""
    machine_id = request.status.machine_id
    if not machine_id and request.phase not in (PROVISIONING, READY):
        return False
    return not (machine_id and names_another(node, machine_id))


def strangers_on(name: str, snapshot: Snapshot) -> tuple[Node, ...]:
    """Nodes that are not growth's and may run on the machine of this name all the same: one of its name that names
    another machine, or, where there is none, one that names it and is called otherwise. Their pods are left alone, and
    would die with the machine.
    """
    node, machine = snapshot.nodes.get(name), snapshot.machines.get(name)
    if node is not None:
        return () if node.pool else (node,)
    if machine is None or not machine.provider_id:
        return ()

    def look() -> dict[str, Node]:
        return {each.provider_id: each for each in snapshot.nodes.values() if each.provider_id and not each.pool}

    found = snapshot.memo.recall("strangers by providerID", (snapshot.nodes,), look).get(machine.provider_id)
    return () if found is None else (found,)


def why_strange(name: str, snapshot: Snapshot) -> str:
    """What is wrong with the node of a machine, for people; empty: nothing that growth could see."""
    for node in strangers_on(name, snapshot):
        if node.name != name:
            return f"its machine calls its node {node.name}, and must call it {name}"
        machine = snapshot.machines.get(name)
        known = "" if machine is None else f", and its machine is {machine.provider_id or machine.machine_id}"
        return f"the node says that it is {node.provider_id or 'no machine'}{known}"
    return ""


def by_labels(node: Node) -> Node:
    """As the node itself says: only where no provider can be asked, such as for files."""
    return replace(node, pool=_labelled_pool(node), offering=node.labels.get(OFFERING_LABEL, ""))


# ----------------------------------------------------------------------------------- gone, and going


def is_surely_absent(name: str, asked_at: float, snapshot: Snapshot, lag_seconds: float = LIST_LAG_SECONDS) -> bool:
    """By a credible list that is younger than what was asked of the machine last."""
    listed_at = snapshot.machines_at
    if listed_at is None or name in snapshot.machines or not is_credible(snapshot):
        return False
    return listed_at > since(snapshot.now, asked_at) + lag_seconds


def is_surely_gone(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    """The machine of a removal, by a list younger than our last step."""
    lag = LIST_LAG_SECONDS if removal.spec.machine_id else _NAMELESS_LAG_SECONDS
    if removal.phase == DEPROVISIONING and removal.spec.machine_id:
        lag = _STAMP_SECONDS
    asked_at = max(since(snapshot.now, removal.created_at), since(snapshot.now, removal.attempted_at or 0.0))
    return is_surely_absent(removal.name, asked_at, snapshot, lag)


def is_credible(snapshot: Snapshot) -> bool:
    """An empty list while nodes are Ready that are ours is no list. Nor is it while nodes say so under a name that
    growth gives, but not for ever: anybody could say so, and then no order or removal would come to an end.
    """
    if snapshot.machines:
        return True
    empty_since, serving = snapshot.no_machines_since, _serving(snapshot)
    is_old_news = empty_since is not None and snapshot.now - empty_since > _EMPTY_SECONDS
    return not any(each.pool or (claimed_pool(each) and not is_old_news) for each in serving)


def _serving(snapshot: Snapshot) -> Iterator[Node]:
    return (node for node in snapshot.nodes.values() if node.is_ready and node.name not in snapshot.removals)


def removal_of_request(request: NodeRequest, snapshot: Snapshot, reason: str) -> CreateNodeRemovalRequest | None:
    """Of a machine whose node never served; the node may not even exist. None: its machine is not known yet. The one
    that is listed goes: where several orders were made, it may be another than the one that was recorded first.
    """
    name, spec, node = request.name, request.spec, snapshot.nodes.get(request.name)
    listed = recorded_id(name, request.uid, snapshot)
    is_surely_of_it = bool(listed) and snapshot.machines[name].request_uid == request.uid
    machine_id = (listed if is_surely_of_it else request.status.machine_id) or listed
    if not machine_id and not is_surely_absent(name, request.changed_at, snapshot):
        return None
    removal = NodeRemovalRequestSpec(name, spec.pool, spec.target_offering, machine_id, reason)
    return CreateNodeRemovalRequest(Seen(name) if node is None else seen(node), removal)


def pool_of_removal(removal: NodeRemovalRequest, snapshot: Snapshot) -> str:
    """Whose pause and brake it minds: the node's own pool, whatever the record says."""
    node = snapshot.nodes.get(removal.spec.node_name)
    return removal.spec.pool if node is None or not node.pool else node.pool


def is_left_over(node: Node, snapshot: Snapshot) -> bool:
    """Does nothing but the node itself say that it is growth's? When it is Ready again it is a stranger's."""
    request = snapshot.requests.get(node.name)
    has_record = request is not None and _has_machine(request, node)
    has_machine = snapshot.machines_at is None or machine_of(node, snapshot.machines) is not None
    return not (node.is_ready or has_record or has_machine)


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


def is_another_machine(request: NodeRequest, snapshot: Snapshot) -> bool:
    """Has an older order of this request brought another machine than the recorded one, without a node so far?"""
    name, recorded = request.name, request.status.machine_id
    is_other = recorded and recorded_id(name, request.uid, snapshot) not in ("", recorded)
    return bool(is_other and request.unanswered) and name not in snapshot.nodes and name not in snapshot.removals


def machine_to_delete(removal: NodeRemovalRequest, snapshot: Snapshot) -> tuple[str, str, str]:
    """Its id, the UID of the request it was bought for, and, where there is no id, why not."""
    machine, request = snapshot.machines.get(removal.name), snapshot.requests.get(removal.name)
    uid = request.uid if request is not None else machine.request_uid if machine is not None else ""
    recorded = removal.spec.machine_id
    if not recorded and machine is not None and removal.name in snapshot.nodes:
        recorded = machine.machine_id  # a person named the node only; the provider's list names its machine
    if machine is not None and recorded and machine.machine_id != recorded:
        return "", "", f"the machine of this name is {machine.machine_id}, not the recorded {recorded}"
    if not recorded:
        return "", "", "no machine is recorded, and the provider has not said yet that there is none"
    return recorded, uid, ""
