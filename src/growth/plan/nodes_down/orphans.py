"""Which machines has everybody forgotten? Machines of this cluster without a NodeRequest, Node or NodeRemovalRequest.

| such a machine | then |
| --- | --- |
| seen so for less than the grace period | wait |
| its request was seen before it could have a node, and no node since | CreateNodeRemovalRequest |
| anything else | reported, once; a person decides (`growth orphans --delete`) |

The reverse is told as well: a Ready node with a name and labels of growth, of which the provider's list shows no
machine for the grace period. Somebody took growth's label off the machine, or the node is a stranger's; it is left
alone, and a person decides: with the label back at the provider it is growth's again, and goes when it is not needed.

An etcd restore or `kubectl delete node` also leaves machines without objects, and those run work. So "never had a node"
must be known, not guessed, and not read off clocks or lists that may be stale: only a machine whose request this
process saw Pending, and which it has watched ever since, is known never to have had one. After a restart the others are
reported only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.decision import About, Decision, Note
from growth.model.node import Node
from growth.model.noderequest import PENDING, READY
from growth.model.offering import Machine
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.machines import claimed_pool, pool_of_machine, removal_of_machine
from growth.plan.world.nodes import is_paused
from growth.plan.world.turn import Turn, about, retry_after

_RETRY_SECONDS: Final = 30.0
_REMEMBERED_SECONDS: Final = 86_400.0  # after the last trace of a name: no stale list or restored etcd is that old


class Ledger(Struct, frozen=True):
    """What was seen since this process began to watch; nothing of it can be known otherwise. Lists that are empty for
    once erase nothing: a name is forgotten when nothing and nobody has borne it for a day.
    """

    unborn: frozenset[str] = frozenset()  # requests that were seen before they could have a node
    joined: frozenset[str] = frozenset()  # names that had a node at some time
    alone_since: Mapping[str, float] = {}
    told: frozenset[str] = frozenset()
    gone_since: Mapping[str, float] = {}  # of the names above, those that nothing bears now
    unproved_since: Mapping[str, float] = {}  # nodes without a machine
    told_nodes: frozenset[str] = frozenset()


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    ledger = _remembered(snapshot, ledger)
    if snapshot.machines_at is None:
        return Decision(ledger)
    ledger = _without_forgotten(snapshot, ledger)
    turn, now = Turn(), snapshot.now
    alone = {name: ledger.alone_since.get(name, now) for name in _names(snapshot).alone}
    told = [name for name in alone if name in ledger.told]
    for name, since in alone.items():
        machine = snapshot.machines[name]
        due_at = since + settings.machine_collection_grace_seconds
        if now < due_at:
            turn.wake(due_at)
        elif name in ledger.unborn and name not in ledger.joined:
            if not is_paused(snapshot.pools.get(pool_of_machine(machine)), settings):
                turn.do(removal_of_machine(machine))
                turn.tell(_note(machine, snapshot, "OrphanCollected", "never had a node and is given back"))
        elif name not in ledger.told:
            told.append(name)
            text = "has no NodeRequest, Node or NodeRemovalRequest; a person must decide"
            turn.tell(_note(machine, snapshot, "OrphanedMachine", text))
    ledger = _with_unproved(snapshot, ledger, settings, turn)
    return turn.decision(replace(ledger, alone_since=alone, told=frozenset(told)))


def _with_unproved(snapshot: Snapshot, ledger: Ledger, settings: Settings, turn: Turn) -> Ledger:
    now = snapshot.now
    unproved = {name: ledger.unproved_since.get(name, now) for name in _names(snapshot).unproved}
    told = {name for name in unproved if name in ledger.told_nodes}
    for name, since in unproved.items():
        due_at = since + settings.machine_collection_grace_seconds
        if now < due_at:
            turn.wake(due_at)
        elif name not in told:
            told.add(name)
            turn.tell(*_of_unproved(snapshot.nodes[name], snapshot))
    return replace(ledger, unproved_since=unproved, told_nodes=frozenset(told))


def _of_unproved(node: Node, snapshot: Snapshot) -> tuple[Note, ...]:
    """On the node, and on its pool, which goes without it when it is deleted."""
    claimed = claimed_pool(node)
    pool = snapshot.pools.get(claimed)
    machine = node.provider_id or "no machine"
    text = (
        f"node {node.name} ({machine}) says it is of NodePool {claimed}, but the provider shows no machine of this "
        "name with growth's label: it is left alone. Put the label back on, or remove node and machine by hand"
    )
    abouts = (about(node), *(() if pool is None else (about(pool),)))
    return tuple(Note(each, "MachineUnknown", text, "Warning") for each in abouts)


def _remembered(snapshot: Snapshot, ledger: Ledger) -> Ledger:
    """A node, or a request that is Ready, says that the machine had one. Only then is its beginning of no more use."""
    joined = _names(snapshot).joined | {name for name in ledger.unborn if name in snapshot.nodes}
    unborn = _names(snapshot).unborn
    if joined <= ledger.joined and unborn <= ledger.unborn:
        return ledger
    all_joined = ledger.joined | joined
    return replace(ledger, joined=all_joined, unborn=(ledger.unborn | unborn) - all_joined)


def _without_forgotten(snapshot: Snapshot, ledger: Ledger) -> Ledger:
    """Names come and go with every machine: without this, memory would grow for as long as growth runs."""
    now, known = snapshot.now, (snapshot.nodes, snapshot.requests, snapshot.removals, snapshot.machines)

    def look() -> list[str]:
        return [name for name in (*ledger.joined, *ledger.unborn) if not any(name in each for each in known)]

    gone = snapshot.memo.recall("names that nothing bears", (ledger.joined, ledger.unborn, *known), look)
    gone_since = {name: ledger.gone_since.get(name, now) for name in gone}
    forgotten = {name for name, since in gone_since.items() if now - since >= _REMEMBERED_SECONDS}
    if not forgotten:
        return ledger if gone_since == ledger.gone_since else replace(ledger, gone_since=gone_since)
    left = {name: since for name, since in gone_since.items() if name not in forgotten}
    return replace(ledger, joined=ledger.joined - forgotten, unborn=ledger.unborn - forgotten, gone_since=left)


class _Names(Struct, frozen=True):
    """What a snapshot says without regard to pods and time: kept in the memo, for there are thousands of names."""

    alone: tuple[str, ...]  # machines of which nothing speaks
    unproved: tuple[str, ...]  # nodes that say they are of a pool, without a machine
    joined: frozenset[str]
    unborn: frozenset[str]


def _names(snapshot: Snapshot) -> _Names:
    def look() -> _Names:
        requests, nodes = snapshot.requests.items(), snapshot.nodes
        of_nodes = {name for name, node in nodes.items() if node.pool}
        return _Names(
            tuple(name for name, machine in sorted(snapshot.machines.items()) if is_alone(machine, snapshot)),
            tuple(name for name, node in sorted(nodes.items()) if not node.pool and claimed_pool(node)),
            frozenset(of_nodes | {name for name, request in requests if request.phase == READY}),
            frozenset(name for name, request in requests if request.phase == PENDING and name not in nodes),
        )

    made_from = (snapshot.nodes, snapshot.requests, snapshot.removals, snapshot.machines)
    return snapshot.memo.recall("names of machines", made_from, look)


def is_alone(machine: Machine, snapshot: Snapshot) -> bool:
    """Nothing in the cluster speaks of it, by name or by what its node says of it. One that is going already
    needs no care.
    """
    name = machine.name
    if machine.state == "deleting" or name in snapshot.requests or name in snapshot.nodes or name in snapshot.removals:
        return False
    if any(request.uid == machine.request_uid for request in snapshot.requests.values() if machine.request_uid):
        return False
    return not any(node.provider_id == machine.provider_id for node in snapshot.nodes.values() if machine.provider_id)


def _note(machine: Machine, snapshot: Snapshot, reason: str, text: str) -> Note:
    pool = snapshot.pools.get(pool_of_machine(machine))
    its_pool = About("NodePool", pool_of_machine(machine), uid="" if pool is None else pool.uid)
    fields = (("machine", machine.machine_id), ("name", machine.name))
    return Note(its_pool, reason, f"machine {machine.name} ({machine.machine_id}) {text}", "Warning", fields)


settle = retry_after(_RETRY_SECONDS)
