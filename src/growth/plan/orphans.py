"""Which machines has everybody forgotten? Machines of this cluster without a NodeRequest, Node or NodeRemovalRequest.

| such a machine | then |
| --- | --- |
| younger than the grace period, or seen so only a moment ago | wait |
| watched by us from before it was made, and never seen with a node | collected: a NodeRemovalRequest, removal does the rest |
| anything else | reported, once; a person decides (`growth orphans --delete`) |

An etcd restore or `kubectl delete node` also leaves machines without objects, and those run work. So "never had a node" must be known, not
guessed: only what this process has watched all its life can be. After a restart older machines are reported only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from growth.model.action import Action
from growth.model.decision import Decision, Settled
from growth.model.note import About, Note
from growth.model.offering import Machine
from growth.model.outcome import Accepted, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.handover import removal_of_machine
from growth.plan.limits import pool_of_machine
from growth.plan.records import sooner

_RETRY_SECONDS: Final = 30.0


class Ledger(Struct, frozen=True):
    """What was seen since this process began to watch; nothing of it can be known otherwise."""

    watching_since: float | None = None
    joined: frozenset[str] = frozenset()  # machines (names) that had a node at some time
    alone_since: Mapping[str, float] = {}
    told: frozenset[str] = frozenset()


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    if snapshot.machines_at is None:
        return Decision(ledger)
    now = snapshot.now
    watching_since = now if ledger.watching_since is None else ledger.watching_since
    joined = (ledger.joined | frozenset(snapshot.nodes)) & frozenset(snapshot.machines)
    alone = {name: ledger.alone_since.get(name, now) for name in sorted(snapshot.machines) if is_alone(snapshot.machines[name], snapshot)}
    actions: list[Action] = []
    notes: list[Note] = []
    again: list[float] = []
    told = [name for name in alone if name in ledger.told]
    for name, since in alone.items():
        machine = snapshot.machines[name]
        due_at = max(since, machine.created_at) + settings.machine_collection_grace_seconds
        if now < due_at:
            again.append(due_at)
        elif machine.created_at > watching_since and name not in joined:
            if not _is_paused(machine, snapshot, settings):
                actions.append(removal_of_machine(machine))
                notes.append(_note(machine, snapshot, "OrphanCollected", "never had a node and is given back"))
        elif name not in ledger.told:
            told.append(name)
            notes.append(_note(machine, snapshot, "OrphanedMachine", "has no NodeRequest, Node or NodeRemovalRequest; a person must decide"))
    return Decision(Ledger(watching_since, joined, alone, frozenset(told)), tuple(actions), tuple(notes), sooner(*again))


def is_alone(machine: Machine, snapshot: Snapshot) -> bool:
    """Nothing in the cluster speaks of it, by name or by what its node says of it. One that is going already is nobody's worry."""
    name = machine.name
    if machine.state == "deleting" or name in snapshot.requests or name in snapshot.nodes or name in snapshot.removals:
        return False
    if any(request.uid == machine.request_uid for request in snapshot.requests.values() if machine.request_uid):
        return False
    return not any(node.provider_id == machine.provider_id for node in snapshot.nodes.values() if machine.provider_id)


def _is_paused(machine: Machine, snapshot: Snapshot, settings: Settings) -> bool:
    pool = snapshot.pools.get(pool_of_machine(machine))
    return settings.is_paused or (pool is not None and pool.is_paused)


def _note(machine: Machine, snapshot: Snapshot, reason: str, text: str) -> Note:
    pool = snapshot.pools.get(pool_of_machine(machine))
    about = About("NodePool", pool_of_machine(machine), uid="" if pool is None else pool.uid)
    fields = (("machine", machine.machine_id), ("name", machine.name))
    return Note(about, reason, f"machine {machine.name} ({machine.machine_id}) {text}", "Warning", fields)


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    outcome = settled.outcome
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    return Decision(ledger, again_at=snapshot.now + (outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS))
