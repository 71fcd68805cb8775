"""What counts as an attempt of a removal, what the brake keeps from being removed, and what persons take back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CancelRemoval, FinishRemoval, MarkScaleDown, WriteNodeRemovalStatus
from growth.model.api import Condition
from growth.model.decision import Settled
from growth.model.instant import format_instant
from growth.model.node import Node
from growth.model.noderequest import RemovalPhase
from growth.model.outcome import Conflict, Refused, TryLater
from growth.plan.nodes_down import removal
from growth.plan.world.turn import seen
from tests.plan.builders import NOW, bound, machine, node, pod
from tests.plan.nodes_down.test_removal import (
    IRREVOCABLE,
    KNOWN,
    NAME,
    SETTINGS,
    SMALL,
    asked,
    going,
    marked,
    plan,
    settle,
    status_of,
    there,
)


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [(TryLater("growth is paused", 10.0), 10.0), (Conflict("pod default/a is on the node"), 5.0)],
)
def test_a_delete_that_was_positively_not_asked_costs_no_attempt(outcome: Any, seconds: float) -> None:
    one = going("Deprovisioning", 1, NOW - 1)
    snapshot = there(one)
    decision = settle(asked(snapshot), outcome, snapshot)
    status = status_of(decision)
    assert (status.phase, status.removal_attempt, status.remove_attempted_at) == ("Pending", 0, None)
    assert (status.waiting_for, status.events, decision.again_at) == (outcome.reason, (), NOW + seconds)
    assert plan(there(going()), decision.ledger).again_at == NOW + seconds
    assert status_of(plan(there(going(), now=NOW + seconds), decision.ledger)).removal_attempt == 1


def test_a_gate_that_stays_closed_is_asked_less_and_less_often() -> None:
    snapshot, ledger, pauses = there(going("Deprovisioning", 1, NOW - 1)), removal.Ledger(), []
    for _ in range(5):
        decision = settle(asked(snapshot), TryLater("the provider does not answer", 1.0), snapshot, ledger)
        assert decision.again_at is not None
        pauses.append(decision.again_at - NOW)
        ledger = plan(snapshot, decision.ledger).ledger
    assert pauses == [5.0, 10.0, 20.0, 30.0, 30.0]
    assert plan(replace(snapshot, removals={}), ledger).ledger.pauses == {}


def test_an_attempt_that_could_not_be_taken_back_is_taken_back_at_the_next_look_and_only_once() -> None:
    snapshot = there(going("Deprovisioning", 2, NOW - 1, conditions=(IRREVOCABLE,)))
    decision = settle(asked(snapshot), TryLater("growth is paused", 10.0), snapshot)
    again = plan(snapshot, decision.ledger)
    assert (status_of(again).phase, status_of(again).removal_attempt) == ("CouldNotRemove", 1)
    assert status_of(again).conditions == (IRREVOCABLE,)
    after = plan(there(going("CouldNotRemove", 1, NOW - 1, conditions=(IRREVOCABLE,))), again.ledger)
    assert (after.actions, after.ledger.unasked) == ((), {})


def test_a_machine_that_is_locked_uses_up_no_attempt_for_half_an_hour_and_then_is_refused() -> None:
    locked = TryLater("locked: server is locked", 5.0, is_held=True)
    first = there(going("Deprovisioning", 1, NOW - 1))
    status = status_of(settle(asked(first), locked, first))
    assert (status.phase, status.removal_attempt, status.waiting_for) == ("Pending", 0, locked.reason)
    (held,) = status.conditions
    assert (held.type, held.last_transition_time) == ("MachineHeld", format_instant(NOW))
    for seconds, attempt, phase in ((1799, 0, "Pending"), (1800, 1, "CouldNotRemove")):
        later = there(going("Deprovisioning", 1, NOW + seconds - 1, conditions=(held,)), now=NOW + seconds)
        after = status_of(settle(asked(later), locked, later))
        assert (after.phase, after.removal_attempt, after.conditions) == (phase, attempt, (held,))
    last = there(going("Deprovisioning", 5, NOW + 1999, conditions=(held,)), now=NOW + 2000)
    assert status_of(settle(asked(last), locked, last)).phase == "RemovalFailed"


def test_a_provider_that_is_busy_or_away_never_makes_a_removal_fail() -> None:
    held = Condition("MachineHeld", "True", "NotNow", "locked", format_instant(NOW - 4000))
    one = there(going("Deprovisioning", 5, NOW - 1, conditions=(held,)))
    after = status_of(settle(asked(one), TryLater("no connection", 5.0), one))
    assert (after.phase, after.removal_attempt, after.conditions) == ("CouldNotRemove", 4, ())


def test_ruling_22_pods_that_came_while_the_gate_was_closed_end_a_removal_that_was_never_asked() -> None:
    one = going("Deprovisioning", 1, NOW - 1)
    snapshot = there(one, pods=[bound(pod("a"), NAME)])
    status = status_of(settle(asked(snapshot), Conflict("pod default/a is on the node"), snapshot))
    back = replace(one, status=status, attempted_at=None)
    assert isinstance(plan(there(back, pods=[bound(pod("a"), NAME)])).actions[0], CancelRemoval)


def test_no_attempt_is_spent_while_no_list_tells_what_came_of_the_last_one() -> None:
    one = going("Deprovisioning", 1, NOW - 600)
    assert plan(there(one, machines_at=NOW - 601)).actions == ()
    assert status_of(plan(there(one, machines_at=NOW - 1))).removal_attempt == 2


@pytest.mark.parametrize("phase", ["Pending", "CouldNotRemove"])
def test_a_machine_that_is_there_but_no_longer_ours_to_delete_is_left_to_a_person(phase: RemovalPhase) -> None:
    one = going(phase)
    action = FinishRemoval(seen(one), NAME, f"id-{NAME}", f"uid-{NAME}")
    snapshot = there(one)
    decision = removal.settle(Settled(action, Refused("no label")), snapshot, removal.Ledger(), SETTINGS)
    assert status_of(decision).phase == "RemovalFailed"
    assert "no label" in decision.notes[0].message
    failed = there(going("RemovalFailed"))
    assert not removal.settle(Settled(action, Refused("no label")), failed, removal.Ledger(), SETTINGS).actions


def test_a_failed_removal_of_a_machine_that_is_no_longer_ours_goes_when_a_person_deletes_it() -> None:
    failed = going("RemovalFailed", deleted_at=NOW)
    action = FinishRemoval(seen(failed), NAME, f"id-{NAME}", f"uid-{NAME}")
    decision = removal.settle(Settled(action, Refused("no label")), there(failed), removal.Ledger(), SETTINGS)
    assert decision.actions == (CancelRemoval(seen(failed)),)


# ----------------------------------------------------------------------------------------- the brake


def sick(name: str) -> Node:
    return node(name, of=SMALL, is_ready=False, ready_changed_at=NOW - 400)


@pytest.mark.parametrize("reason", ["Unhealthy", "PoolDeleted", "Expired"])
def test_a_removal_that_the_brake_holds_waits_and_says_so(reason: str) -> None:
    others = [sick("default-pool-2"), sick("default-pool-3")]
    fields = {"nodes": [marked(), *others], "pods": [bound(pod("a"), NAME)]}
    if reason == "Unhealthy":
        fields = {"nodes": [replace(marked(), is_ready=False, ready_changed_at=NOW - 400), *others]}
    decision = plan(there(replace(going(reason=reason), created_at=NOW - 60), **fields))
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRemovalStatus)
    assert "of 3 nodes of NodePool default are NotReady" in action.status.waiting_for
    assert (action.status.phase, action.status.removal_attempt) == ("Pending", 0)


def test_the_brake_lets_a_ready_empty_node_go() -> None:
    others = [sick("default-pool-2"), sick("default-pool-3")]
    assert status_of(plan(there(going(), nodes=[marked(), *others]))).phase == "Deprovisioning"


def test_of_two_that_a_person_asks_for_one_begins_and_the_other_waits_for_it() -> None:
    """Neither is marked yet: each could take the other for one that uses the budget up."""
    mine, name = going(reason="Deleted"), "default-pool-2"
    other = replace(mine, name=name, spec=replace(mine.spec, node_name=name, machine_id=f"id-{name}"), uid="uid-other")
    pods = [bound(pod("p"), NAME), bound(pod("q"), name)]
    nodes, machines = [node(NAME, of=SMALL), node(name, of=SMALL)], [machine(NAME, SMALL), machine(name, SMALL)]
    seen_at = there(mine, pods=pods, nodes=nodes, machines=machines)
    decision = plan(replace(seen_at, removals={NAME: mine, name: other}), KNOWN)
    written = {each.removal.name: each.status for each in decision.actions if isinstance(each, WriteNodeRemovalStatus)}
    assert written[NAME].drain_began_at is not None
    assert "budget of NodePool default is used up" in written[name].waiting_for


@pytest.mark.parametrize("reason", ["Deleted", "NotReady", "PoolDeleted"])
def test_what_a_person_asked_for_a_person_may_take_back_before_anything_was_done(reason: str) -> None:
    fields: Any = {"pods": [bound(pod("p"), NAME)], "nodes": [node(NAME, of=SMALL)]}
    asked_for = replace(going(reason=reason), deleted_at=NOW)
    assert CancelRemoval in [type(action) for action in plan(there(asked_for, **fields)).actions]
    begun = there(asked_for, **(fields | {"nodes": [marked()]}))
    assert CancelRemoval not in [type(action) for action in plan(begun).actions]


def test_a_node_without_pods_that_a_person_asks_for_is_marked_before_its_machine_goes() -> None:
    asked_for = going(reason="Expired")
    (mark,) = plan(there(asked_for, nodes=[node(NAME, of=SMALL)]), KNOWN).actions
    assert isinstance(mark, MarkScaleDown)
    assert status_of(plan(there(asked_for, nodes=[marked()]), KNOWN)).phase == "Deprovisioning"


@pytest.mark.parametrize("name", [NAME, "ip-10-0-0-1"])
def test_a_machine_whose_node_has_another_name_or_id_waits_for_the_pods_there_and_evicts_nobody(name: str) -> None:
    stranger = replace(node(name), pool="", provider_id="sim://1" if name != NAME else "metal:///rack-7")
    there_too = {"nodes": [stranger], "machines": [machine(NAME, SMALL, provider_id="sim://1")]}
    one = going(reason="NotReady")
    (action,) = plan(there(one, pods=[bound(pod("p"), name)], **there_too)).actions
    assert isinstance(action, WriteNodeRemovalStatus)
    assert action.status.phase == "Pending"
    assert action.status.waiting_for.startswith("pod default/p runs there, and ")
    assert action.status.waiting_for.endswith(": a person must move it")
    waiting = replace(one, status=action.status)
    assert plan(there(waiting, pods=[bound(pod("p"), name)], **there_too)).actions == ()
    assert status_of(plan(there(waiting, **there_too))).phase == "Deprovisioning"
