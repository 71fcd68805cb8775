"""The life of a NodeRemovalRequest: nothing is killed, nothing is cancelled too late, nothing is asked without being
written (rulings 2, 3, 17, 22).
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import (
    CancelRemoval,
    DeleteMachine,
    EvictPod,
    FinishRemoval,
    UnmarkScaleDown,
    WriteNodeRemovalStatus,
)
from growth.model.api import Condition
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.node import SCALE_DOWN_AT, SCALE_DOWN_TAINT, Node, Taint
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec, NodeRemovalRequestStatus, RemovalPhase
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import removal
from growth.plan.nodes_down.budgets import Recent
from growth.plan.world.turn import life_event, seen
from tests.plan.builders import (
    NOW,
    bound,
    daemon_pod,
    machine,
    node,
    notes_by_reason,
    offering,
    pod,
    pool,
    request,
    world,
)

SMALL = offering("small", 2, 4096, 0.01)
NAME = "default-pool-1"
SETTINGS = Settings()
OTHER = Taint("team", "a")
IRREVOCABLE = Condition("Irrevocable", "True", "AnswerUnknown", "", format_instant(NOW - 100))


def plan(
    snapshot: Snapshot, ledger: removal.Ledger | None = None, settings: Settings = SETTINGS
) -> Decision[removal.Ledger]:
    return removal.plan(snapshot, ledger or removal.Ledger(), settings)


def going(
    phase: RemovalPhase = "Pending",
    attempt: int = 0,
    attempted_at: float | None = None,
    reason: str = "Empty",
    **fields: Any,
) -> NodeRemovalRequest:
    spec = NodeRemovalRequestSpec(NAME, "default", "sim-small", fields.pop("machine_id", f"id-{NAME}"), reason)
    written = None if attempted_at is None else format_instant(attempted_at)
    status = NodeRemovalRequestStatus(phase, attempt, written, conditions=fields.pop("conditions", ()))
    return NodeRemovalRequest(
        NAME, spec, status, "uid-removal", "5", created_at=NOW - 600, attempted_at=attempted_at, **fields
    )


def marked() -> Node:
    return node(NAME, of=SMALL, taints=(OTHER, SCALE_DOWN_TAINT), annotations={SCALE_DOWN_AT: format_instant(NOW - 60)})


def there(of: NodeRemovalRequest, **fields: Any) -> Snapshot:
    """The machine exists at the provider."""
    fields.setdefault("machines", [machine(NAME, SMALL)])
    fields.setdefault("nodes", [marked()])
    fields.setdefault("pools", [pool()])
    return world(offerings=[SMALL], removals=[of], **fields)


def status_of(decision: Decision[Any]) -> NodeRemovalRequestStatus:
    (status,) = [action.status for action in decision.actions if isinstance(action, WriteNodeRemovalStatus)]
    return status


def settle(
    action: Any,
    outcome: Outcome,
    snapshot: Snapshot,
    ledger: removal.Ledger | None = None,
    settings: Settings = SETTINGS,
) -> Decision[removal.Ledger]:
    return removal.settle(Settled(action, outcome), snapshot, ledger or removal.Ledger(), settings)


def asked(snapshot: Snapshot) -> DeleteMachine:
    return DeleteMachine(seen(snapshot.removals[NAME]), NAME, f"id-{NAME}", f"uid-{NAME}")


# ------------------------------------------------------------------------------------------ Pending


def test_ruling_2_deprovisioning_is_written_before_the_provider_is_asked() -> None:
    snapshot = there(going())
    decision = plan(snapshot)
    (action,) = decision.actions
    status = status_of(decision)
    assert (status.phase, status.removal_attempt, status.remove_attempted_at) == (
        "Deprovisioning",
        1,
        format_instant(NOW),
    )
    assert status.events == (life_event(NOW, "deletionRequested", "attempt 1"),)
    assert status.conditions == ()
    follow_up = settle(action, Accepted(), snapshot)
    assert follow_up.actions == (asked(snapshot),)


def test_a_write_that_failed_asks_nobody() -> None:
    snapshot = there(going())
    (action,) = plan(snapshot).actions
    for outcome in (Conflict("changed"), Unknown("lost"), TryLater("busy")):
        decision = settle(action, outcome, snapshot)
        assert decision.actions == ()
        assert decision.again_at is not None


def test_ruling_3_pods_are_looked_at_before_the_provider_is_asked_and_cancel_the_removal() -> None:
    snapshot = there(going(), pods=[bound(pod("a"), NAME)])
    decision = plan(snapshot)
    assert decision.actions == (CancelRemoval(seen(going())), UnmarkScaleDown(seen(marked()), (OTHER,)))
    assert notes_by_reason(decision) == {
        "RemovalCancelled": [f"Node {NAME}: the node stays: pod default/a is on the node"]
    }


def test_daemon_set_pods_do_not_hold_a_machine() -> None:
    assert status_of(plan(there(going(), pods=[daemon_pod("d", NAME)]))).phase == "Deprovisioning"


def test_a_pending_removal_deleted_by_hand_is_cancelled() -> None:
    assert isinstance(plan(there(going(deleted_at=NOW))).actions[0], CancelRemoval)


def test_a_node_that_was_given_up_and_is_ready_again_stays() -> None:
    decision = plan(there(going(reason="Unhealthy"), pods=[bound(pod("a"), NAME)]))
    assert [type(action) for action in decision.actions] == [CancelRemoval, UnmarkScaleDown]
    ill = replace(marked(), is_ready=False, ready_changed_at=NOW - 1000)
    evicting = plan(there(going(reason="Unhealthy"), nodes=[ill], pods=[bound(pod("a"), NAME)]))
    assert EvictPod in [type(action) for action in evicting.actions]


@pytest.mark.parametrize("switch", ["pool", "all"])
def test_paused_no_step_is_begun(switch: str) -> None:
    of_pool = pool("default", annotations={"growth.dev/paused": "true"} if switch == "pool" else {})
    for one in (going(), going("CouldNotRemove", 1, NOW - 600), going("Deprovisioning", 1, NOW - 600)):
        assert plan(there(one, pools=[of_pool]), settings=Settings(is_paused=switch == "all")).actions == ()


def test_law_s7_only_a_recorded_machine_is_deleted_a_removal_without_one_is_written_anew() -> None:
    early = going(machine_id="")
    assert plan(there(early)).actions == (CancelRemoval(seen(early)),)


def test_law_s7_another_machine_of_the_same_name_is_not_deleted() -> None:
    decision = plan(there(going(machine_id="id-recorded")))
    assert status_of(decision).waiting_for == f"the machine of this name is id-{NAME}, not the recorded id-recorded"
    waiting = replace(going(machine_id="id-recorded"), status=status_of(decision))
    assert plan(there(waiting)).actions == ()  # written once


def test_without_any_id_a_machine_is_waited_for() -> None:
    decision = plan(there(going(machine_id=""), machines=None))
    assert (
        status_of(decision).waiting_for
        == "no machine is recorded, and the provider has not said yet that there is none"
    )
    assert decision.again_at == NOW + 15  # a newer list wakes nobody by itself


def test_a_stamp_from_the_future_is_past_for_a_clock_may_have_gone_back() -> None:
    ahead = going("Deprovisioning", 1, NOW + 3000)
    assert status_of(plan(there(ahead))).removal_attempt == 2
    gone = plan(there(ahead, machines=[machine("default-pool-2", SMALL)]))
    assert [type(action) for action in gone.actions] == [FinishRemoval]


# ----------------------------------------------------------------------------------- Deprovisioning


def test_ruling_2_a_refused_delete_is_could_not_remove_and_tried_again_after_the_time() -> None:
    one = going("Deprovisioning", 1, NOW - 2)
    decision = settle(asked(there(one)), Refused("insufficient permission"), there(one))
    assert status_of(decision).phase == "CouldNotRemove"
    assert status_of(decision).events == (life_event(NOW, "deletionFailed", "insufficient permission"),)
    assert notes_by_reason(decision) == {
        "CouldNotRemove": [f"NodeRemovalRequest {NAME}: attempt 1 was refused: insufficient permission"]
    }
    refused = going("CouldNotRemove", 1, NOW - 2)
    waiting = plan(there(refused))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 58)
    again = status_of(plan(there(replace(refused, attempted_at=NOW - 60))))
    assert (again.phase, again.removal_attempt, again.conditions) == ("Deprovisioning", 2, ())


def test_ruling_2_when_the_attempts_are_spent_the_removal_has_failed_and_people_are_told_twice() -> None:
    last = going("Deprovisioning", 5, NOW - 2)
    decision = settle(asked(there(last)), Refused("locked"), there(last))
    assert status_of(decision).phase == "RemovalFailed"
    assert [(note.about.kind, note.reason, note.severity) for note in decision.notes] == [
        ("NodeRemovalRequest", "RemovalFailed", "Warning"),
        ("Node", "RemovalFailed", "Warning"),
    ]
    assert decision.notes[0].message == f"machine id-{NAME} could not be removed in 5 attempts: locked"


def test_ruling_2_a_failed_removal_asks_the_provider_no_more() -> None:
    decision = plan(there(going("RemovalFailed", 5, NOW - 9000)))
    assert (decision.actions, decision.notes, decision.again_at) == ((), (), None)


def test_a_failed_removal_that_a_person_deletes_lets_it_begin_anew() -> None:
    failed = going("RemovalFailed", 5, NOW - 9000, deleted_at=NOW)
    assert plan(there(failed)).actions == (CancelRemoval(seen(failed)),)


def test_a_delete_of_unknown_fate_is_asked_again_after_the_time_and_can_no_longer_be_cancelled() -> None:
    one = going("Deprovisioning", 1, NOW - 60)
    after = settle(asked(there(one)), Unknown("timeout"), there(replace(one, attempted_at=NOW)))
    assert (after.actions, after.again_at) == ((), NOW + 60)
    status = status_of(plan(there(one)))
    assert (status.phase, status.removal_attempt) == ("Deprovisioning", 2)
    assert [condition.type for condition in status.conditions] == ["Irrevocable"]


def test_a_machine_that_stays_after_accepted_deletes_ends_as_failed() -> None:
    decision = plan(there(going("Deprovisioning", 5, NOW - 60)))
    assert status_of(decision).phase == "RemovalFailed"


def test_ruling_22_after_an_accepted_or_unknown_delete_nothing_is_cancelled_the_pods_are_evicted() -> None:
    late = pod("late")
    for one in (going("Deprovisioning", 1, NOW - 61), going("CouldNotRemove", 2, NOW - 61, conditions=(IRREVOCABLE,))):
        decision = plan(there(one, pods=[bound(late, NAME)]))
        assert [type(action) for action in decision.actions] == [EvictPod, WriteNodeRemovalStatus]
        assert status_of(decision).waiting_for == "1 pods to leave: default/late"


def test_ruling_22_a_positively_refused_delete_may_be_cancelled() -> None:
    refused = going("CouldNotRemove", 1, NOW - 5)
    assert isinstance(plan(there(refused, pods=[bound(pod("a"), NAME)])).actions[0], CancelRemoval)


def test_an_accepted_delete_is_waited_for() -> None:
    one = going("Deprovisioning", 1, NOW - 5)
    decision = settle(asked(there(one)), Accepted(), there(one), removal.Ledger(unasked={NAME: TryLater("paused")}))
    assert (decision.actions, decision.ledger.unasked, decision.again_at) == ((), {}, NOW + 60)
    assert plan(there(one)).again_at == NOW + 55


# ------------------------------------------------------------------------------------------ the end


def test_a_machine_that_is_gone_finishes_node_and_request() -> None:
    one = going("Deprovisioning", 1, NOW - 5)
    decision = plan(there(one, machines=[machine("default-pool-2", SMALL)]))
    assert decision.actions == (FinishRemoval(seen(one), NAME, f"id-{NAME}", f"uid-{NAME}"),)


def test_a_machine_that_was_gone_already_finishes_a_pending_removal() -> None:
    decision = plan(there(going(), machines=[machine("default-pool-2", SMALL)]))
    assert [type(action) for action in decision.actions] == [FinishRemoval]


def test_unknown_is_not_absent() -> None:
    one = going("Deprovisioning", 1, NOW - 5)
    ready_elsewhere = node("default-pool-2", of=SMALL)
    for snapshot in (
        there(one, machines=None),  # the provider has not answered
        there(
            one, machines=[machine("default-pool-2", SMALL)], machines_at=NOW - 6
        ),  # the list is older than the delete
        there(
            one, machines=[], nodes=[marked(), ready_elsewhere]
        ),  # an empty list while nodes of ours are Ready is no list
        there(
            replace(one, spec=replace(one.spec, machine_id="")), machines=[machine("default-pool-2", SMALL)]
        ),  # no id: the list must be older
    ):
        assert not any(isinstance(action, FinishRemoval) for action in plan(snapshot).actions)


def test_a_stopped_machine_is_present() -> None:
    one = going("Deprovisioning", 1, NOW - 5)
    assert plan(there(one, machines=[machine(NAME, SMALL, state="stopped")])).actions == ()


def test_a_provider_that_still_shows_the_machine_by_id_is_asked_again_later() -> None:
    one = going("Deprovisioning", 1, NOW - 5)
    snapshot = there(one, machines=[machine("default-pool-2", SMALL)])
    (finish,) = plan(snapshot).actions
    decision = settle(finish, TryLater("still deleting", 5.0), snapshot)
    assert decision.again_at == NOW + 5
    assert plan(snapshot, decision.ledger).actions == ()
    assert plan(replace(snapshot, now=NOW + 5), decision.ledger).actions == (finish,)


def test_a_failed_removal_whose_machine_a_person_removed_is_finished() -> None:
    decision = plan(there(going("RemovalFailed", 5, NOW - 900), machines=[machine("default-pool-2", SMALL)]))
    assert [type(action) for action in decision.actions] == [FinishRemoval]


# ----------------------------------------------------------------------------------------- draining


@pytest.mark.parametrize("reason", ["Expired", "PoolDeleted", "NotReady", "Deleted"])
def test_where_the_reason_drains_pods_are_evicted_and_the_wait_is_written_down_once(reason: str) -> None:
    residents = [bound(pod(name), NAME) for name in ("a", "b", "c", "d")]
    one = going(reason=reason)
    decision = plan(there(one, pods=residents))
    assert decision.actions[:4] == tuple(EvictPod(seen(each)) for each in residents)
    status = status_of(decision)
    assert (status.phase, status.waiting_for) == ("Pending", "4 pods to leave: default/a, default/b, default/c, …")
    again = plan(there(replace(one, status=status), pods=residents))
    assert not any(isinstance(action, WriteNodeRemovalStatus) for action in again.actions)


def test_pods_that_leave_are_not_evicted_twice_and_protected_ones_not_at_all() -> None:
    leaving = replace(bound(pod("leaving"), NAME), deleted_at=NOW - 1)
    protected = bound(pod("protected", annotations={"growth.dev/do-not-disrupt": "true"}), NAME)
    careful = bound(pod("careful", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}), NAME)
    decision = plan(there(going(reason="Expired"), pods=[leaving, protected, careful]))
    assert not any(isinstance(action, EvictPod) for action in decision.actions)


def test_an_eviction_that_a_budget_refuses_is_tried_again_later() -> None:
    resident = bound(pod("a"), NAME)
    snapshot = there(going(reason="Expired"), pods=[resident])
    decision = settle(EvictPod(seen(resident)), TryLater("the budget allows none", 20.0), snapshot)
    assert decision.again_at == NOW + 20
    waiting = plan(snapshot, decision.ledger)
    assert not any(isinstance(action, EvictPod) for action in waiting.actions)
    assert waiting.again_at == NOW + 20


def test_law_s3_on_a_node_long_unreachable_a_pod_whose_deletion_is_overdue_no_longer_holds_the_machine() -> None:
    lost = node(NAME, of=SMALL, is_ready=False, ready_changed_at=NOW - 400)
    overdue = replace(bound(pod("a"), NAME), deleted_at=NOW - 60, grace_seconds=30)
    one = going(reason="Expired")
    assert status_of(plan(there(one, nodes=[lost], pods=[overdue]))).phase == "Deprovisioning"
    recent = replace(lost, ready_changed_at=NOW - 200)
    assert status_of(plan(there(one, nodes=[recent], pods=[overdue]))).phase == "Pending"


def test_a_removal_without_a_node_goes_its_way() -> None:
    snapshot = there(going(reason="NotReady"), nodes=[], requests=[request(NAME, SMALL, "Deprovisioning")])
    assert status_of(plan(snapshot)).phase == "Deprovisioning"


# --------------------------------------------------------------------------------- asked for by a person


@pytest.mark.parametrize("reason", ["Expired", "NotReady", "Empty", "because"])
def test_a_removal_of_a_node_that_is_not_growths_is_refused_and_told(reason: str) -> None:
    stranger = node(NAME, "", SMALL)
    asked = going(reason=reason, machine_id="")
    decision = plan(
        there(asked, pods=[bound(pod("p"), NAME)], nodes=[stranger], machines=[machine("default-pool-2", SMALL)])
    )
    assert [type(action) for action in decision.actions] == [CancelRemoval]
    assert {note.reason for note in decision.notes} == {"RemovalRefused"}


KNOWN = removal.Ledger(recent=Recent(NOW - 9000))  # for longer than any window


def test_a_removal_that_a_person_asks_for_waits_for_the_budget() -> None:
    asked, serving = going(reason="Expired", machine_id=""), node(NAME, of=SMALL)
    on_it, other = bound(pod("p"), NAME), node("default-pool-2", of=SMALL, is_ready=False)
    fields: Any = {"pods": [on_it], "machines": [machine(NAME, SMALL)]}
    (action,) = plan(there(asked, nodes=[serving, other], **fields), KNOWN).actions
    assert isinstance(action, WriteNodeRemovalStatus)
    assert "budget of NodePool default is used up" in action.status.waiting_for
    (begun,) = plan(there(asked, nodes=[serving], **fields), KNOWN).actions
    assert isinstance(begun, WriteNodeRemovalStatus)
    assert begun.status.drain_began_at is not None
    lately = removal.Ledger(recent=Recent(NOW - 9000, {"default-pool-3": ("default", NOW - 60)}))
    assert "is used up" in status_of(plan(there(asked, nodes=[serving], **fields), lately)).waiting_for
    assert "not known yet" in status_of(plan(there(asked, nodes=[serving], **fields))).waiting_for
