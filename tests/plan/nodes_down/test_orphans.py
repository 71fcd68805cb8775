"""Machines that everybody has forgotten: collected only when it is known that they never had a node (ruling 15)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest
from growth.model.decision import Decision
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import orphans
from tests.plan.builders import NOW, machine, node, notes_by_reason, offering, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)
NAME = "default-pool-1"
SETTINGS = Settings()
WATCHED = orphans.Ledger(unborn=frozenset({NAME}))


def plan(
    snapshot: Snapshot, ledger: orphans.Ledger = WATCHED, settings: Settings = SETTINGS
) -> Decision[orphans.Ledger]:
    return orphans.plan(snapshot, ledger, settings)


def alone(created_at: float = NOW - 10, **fields: Any) -> Snapshot:
    return world(pools=[pool()], offerings=[SMALL], machines=[machine(NAME, SMALL, created_at=created_at, **fields)])


def test_ruling_15_a_machine_that_never_had_a_node_is_collected_after_the_grace_period() -> None:
    first = plan(alone())
    assert (first.actions, first.notes, first.again_at) == ((), (), NOW + 600)
    decision = plan(replace(alone(), now=NOW + 600), first.ledger)
    (action,) = decision.actions
    assert isinstance(action, CreateNodeRemovalRequest)
    assert action.spec == NodeRemovalRequestSpec(NAME, "default", "sim-small", f"id-{NAME}", "Orphaned")
    assert notes_by_reason(decision) == {
        "OrphanCollected": [f"NodePool default: machine {NAME} (id-{NAME}) never had a node and is given back"]
    }


def test_ruling_15_a_machine_whose_beginning_nobody_saw_is_only_reported_and_only_once() -> None:
    first = plan(alone(), orphans.Ledger())
    assert first.again_at == NOW + 600
    later = replace(alone(), now=NOW + 600)
    decision = plan(later, first.ledger)
    assert decision.actions == ()
    assert set(notes_by_reason(decision)) == {"OrphanedMachine"}
    again = plan(replace(later, now=NOW + 9000), decision.ledger)
    assert (again.actions, again.notes, again.again_at) == ((), (), None)


def test_ruling_15_what_was_seen_of_a_request_is_remembered() -> None:
    ledger = plan(world(requests=[request(NAME, SMALL)], machines=[]), orphans.Ledger()).ledger
    assert ledger.unborn == {NAME}
    ledger = plan(alone(), ledger).ledger
    assert len(plan(replace(alone(), now=NOW + 600), ledger).actions) == 1


@pytest.mark.parametrize(
    "sign",
    [{"nodes": [node(NAME, of=SMALL)]}, {"nodes": [node(NAME, "")]}, {"requests": [request(NAME, SMALL, "Ready")]}],
)
def test_ruling_15_a_machine_whose_node_was_deleted_by_hand_is_reported_not_deleted(sign: dict[str, Any]) -> None:
    ledger = plan(world(machines=[machine(NAME, SMALL)], **sign)).ledger
    for lists in (world(machines=[]), alone(), world(machines=None)):  # empty and missing lists erase nothing
        ledger = plan(replace(lists, now=NOW + 1), ledger).ledger
    ledger = plan(replace(alone(), now=NOW + 2), ledger).ledger
    decision = plan(replace(alone(), now=NOW + 9000), ledger)
    assert decision.actions == ()
    assert set(notes_by_reason(decision)) == {"OrphanedMachine"}


def test_ruling_15_an_etcd_restore_never_becomes_a_mass_deletion() -> None:
    names = [f"default-pool-{number}" for number in range(50)]
    machines = [machine(name, SMALL, created_at=NOW - 100) for name in names]
    starting = world(requests=[request(name, SMALL) for name in names], machines=[])
    before = world(pools=[pool()], offerings=[SMALL], machines=machines, nodes=[node(name, of=SMALL) for name in names])
    ledger = plan(before, plan(starting, orphans.Ledger()).ledger).ledger
    restored = replace(before, nodes={})
    ledger = plan(restored, ledger).ledger
    assert plan(replace(restored, now=NOW + 99_999), ledger).actions == ()
    restarted = plan(restored, orphans.Ledger()).ledger
    assert plan(replace(restored, now=NOW + 99_999), restarted).actions == ()


@pytest.mark.parametrize(
    "known_by",
    [
        {"requests": [request(NAME, SMALL, "Pending")]},
        {"nodes": [node(NAME, of=SMALL)]},
        {"nodes": [replace(node("renamed", of=SMALL), provider_id="sim://7")]},
        {"removals": [NodeRemovalRequest(NAME, NodeRemovalRequestSpec(NAME, "default"))]},
    ],
)
def test_a_machine_that_somebody_speaks_of_is_no_orphan(known_by: dict[str, Any]) -> None:
    snapshot = world(machines=[machine(NAME, SMALL, created_at=NOW - 4000, provider_id="sim://7")], **known_by)
    decision = plan(snapshot, orphans.Ledger(frozenset({NAME}), frozenset(), {NAME: NOW - 3000}))
    assert (decision.actions, decision.notes, decision.ledger.alone_since) == ((), (), {})


def test_names_that_nothing_bears_for_a_day_are_forgotten_and_others_are_not() -> None:
    there = world(nodes=[node(NAME, of=SMALL), node("default-pool-2", of=SMALL)], machines=[])
    ledger = plan(there, orphans.Ledger(unborn=frozenset({"default-pool-3"}))).ledger
    gone = replace(there, nodes={NAME: there.nodes[NAME]})
    ledger = plan(replace(gone, now=NOW + 10), ledger).ledger
    ledger = plan(replace(gone, now=NOW + 86_000), ledger).ledger
    assert ledger.joined == {NAME, "default-pool-2"}
    assert ledger.unborn == {"default-pool-3"}
    ledger = plan(replace(gone, now=NOW + 86_500), ledger).ledger
    assert ledger.joined == {NAME}
    assert not ledger.unborn
    assert ledger.gone_since == {}


def test_a_name_that_comes_back_within_a_day_is_remembered_for_another() -> None:
    there = world(nodes=[node(NAME, of=SMALL)], machines=[])
    ledger = plan(there).ledger
    for now, snapshot in ((10, alone()), (20, world(machines=[])), (80_000, alone()), (80_010, world(machines=[]))):
        ledger = plan(replace(snapshot, now=NOW + now), ledger).ledger
    assert plan(replace(world(machines=[]), now=NOW + 90_000), ledger).ledger.joined == {NAME}


def test_a_machine_that_is_going_already_is_nobodys_worry() -> None:
    assert plan(alone(state="deleting")).ledger.alone_since == {}


def test_without_the_providers_word_nothing_is_known() -> None:
    assert plan(world()).actions == ()
    assert plan(world(), orphans.Ledger()).ledger == orphans.Ledger()


def test_paused_nothing_is_collected() -> None:
    ledger = orphans.Ledger(frozenset({NAME}), frozenset(), {NAME: NOW - 3000})
    assert len(plan(alone(created_at=NOW - 4000), ledger).actions) == 1
    assert plan(alone(created_at=NOW - 4000), ledger, Settings(is_paused=True)).actions == ()


def test_a_ready_node_of_ours_by_name_whose_machine_nobody_shows_is_told_of_once_after_the_grace_period() -> None:
    labels = {"growth.dev/pool": "default", "growth.dev/node-request": NAME}
    lost = replace(node(NAME, labels=labels), pool="", provider_id="sim://17")
    first = orphans.plan(world(nodes=[lost], pools=[pool()], machines=[]), orphans.Ledger(), SETTINGS)
    assert first.notes == ()
    later = world(nodes=[lost], pools=[pool()], machines=[], now=NOW + SETTINGS.machine_collection_grace_seconds)
    told = orphans.plan(later, first.ledger, SETTINGS)
    assert [(note.about.kind, note.reason) for note in told.notes] == [
        ("Node", "MachineUnknown"), ("NodePool", "MachineUnknown"),
    ]  # fmt: skip
    assert "(sim://17) says it is of NodePool default" in told.notes[0].message
    assert told.actions == ()
    assert orphans.plan(later, told.ledger, SETTINGS).notes == ()
