"""The life of a NodeRequest: each arrow, what it writes, and what it never does (rulings 1, 6, 8, 16)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest, LaunchMachine, ReleaseNodeRequest, WriteNodeRequestStatus
from growth.model.decision import Settled
from growth.model.instant import format_instant, parse_instant
from growth.model.labels import HOSTNAME
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, Taint
from growth.model.nodepool import NodePoolStatus, PoolTaint, PoolTrials, Trial
from growth.model.noderequest import EVENTS_KEPT, NodeRemovalRequestSpec, NodeRequest
from growth.model.outcome import Accepted, Conflict, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.plan.nodes_up import provisioning
from growth.plan.world.limits import counts
from growth.plan.world.turn import life_event, seen
from tests.plan.builders import (
    NOW,
    bound,
    daemon_pod,
    limited,
    machine,
    node,
    notes_by_reason,
    offering,
    pod,
    pool,
    request,
    world,
)
from tests.plan.oneorder import NAME, SETTINGS, SMALL, one, plan, removal, settle_launch, with_one

GPU = offering("gpu", 8, 16384, 0.5, devices={"example.com/gpu": 1})


# ------------------------------------------------------------------------------------------ Pending


def test_a_pending_request_is_launched_with_the_node_it_becomes() -> None:
    taints = (PoolTaint("team", "NoSchedule", "a"),)
    of_pool = pool(
        "default",
        labels={"tier": "web"},
        annotations={},
        taints=taints,
        startup_taints=(PoolTaint("net/down", "NoExecute"),),
        provider_settings="eu",
    )
    decision = plan(with_one(one(), pools=[of_pool]))
    (action,) = decision.actions
    assert isinstance(action, LaunchMachine)
    assert (action.request.name, action.spec.target_offering, action.spec.location, action.settings) == (
        NAME,
        "sim-small",
        "fsn1",
        "eu",
    )
    labels = dict(action.labels)
    assert {key: labels[key] for key in (POOL_LABEL, OFFERING_LABEL, HOSTNAME, "tier")} == {
        POOL_LABEL: "default", OFFERING_LABEL: "sim-small", HOSTNAME: NAME, "tier": "web",
    }  # fmt: skip
    assert REQUEST_LABEL not in labels  # written by growth itself, so that it says who registered the node
    assert action.taints == (STARTUP_TAINT, Taint("team", "a"), Taint("net/down", "", "NoExecute"))


def test_ruling_1_an_accepted_launch_is_provisioning_with_its_machine() -> None:
    decision = settle_launch(with_one(one()), Accepted("m-17"))
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    status = action.status
    assert (status.phase, status.node_id, status.machine_id) == ("Provisioning", NAME, "m-17")
    assert status.last_transition_time == format_instant(NOW)
    assert status.events == (life_event(NOW, "nodeRequested"),)
    assert action.request == seen(one())


def test_ruling_1_no_capacity_is_unmet_with_its_reason_and_an_immediate_replan() -> None:
    decision = settle_launch(with_one(one()), NoCapacity("sold out"))
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert action.status.phase == "Unmet"
    assert action.status.events == (life_event(NOW, "nodeRequestFailed", "sold out"),)
    assert action.status.expires_at == format_instant(NOW + 120)
    assert decision.again_at == NOW
    assert notes_by_reason(decision)["Unmet"][0].startswith(
        f"NodeRequest {NAME}: sim-small in fsn1 cannot be had now, struck out until"
    )


def test_a_refused_launch_is_unmet_too_for_asking_again_would_not_help() -> None:
    (action,) = settle_launch(with_one(one()), Refused("unknown image")).actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert (action.status.phase, action.status.events[-1].reason) == ("Unmet", "unknown image")


@pytest.mark.parametrize(
    ("outcome", "seconds"), [(Unknown("timeout"), 2.0), (TryLater("rate limit", 30.0), 30.0), (Conflict("moved"), 2.0)]
)
def test_a_launch_without_an_answer_is_asked_again_later_under_the_same_name(outcome: Outcome, seconds: float) -> None:
    snapshot = with_one(one())
    decision = settle_launch(snapshot, outcome)
    assert decision.again_at == NOW + seconds
    soon = plan(snapshot, decision.ledger)
    assert (soon.actions, soon.again_at) == ((), NOW + seconds)
    (again,) = plan(replace(snapshot, now=NOW + seconds), decision.ledger).actions
    assert isinstance(again, LaunchMachine)
    assert again.request.name == NAME


def test_an_order_that_growth_holds_back_is_told_after_half_a_minute() -> None:
    snapshot, ledger = with_one(one(planned=["default/a"]), pods=[pod("a")]), provisioning.Ledger()
    told = []
    for seconds in (0, 20, 30, 90):
        held = settle_launch(replace(snapshot, now=NOW + seconds), TryLater("the list is old"), ledger)
        ledger = held.ledger
        told.append([note.about.kind for note in held.notes if note.reason == "OrderHeld"])
    everybody = ["NodeRequest", "NodePool", "Pod"]
    assert told == [[], [], everybody, everybody]
    assert settle_launch(replace(snapshot, now=NOW + 200), Conflict("it is gone"), ledger).notes == ()


@pytest.mark.parametrize("outcome", [Unknown("timeout"), TryLater("locked", was_asked=True)])
def test_after_three_orders_without_an_answer_and_a_list_without_the_machine_the_next_offering_is_tried(
    outcome: Outcome,
) -> None:
    snapshot, ledger = with_one(one(planned=["default/a"]), pods=[pod("a")]), provisioning.Ledger()
    for number in range(3):
        decision = settle_launch(replace(snapshot, now=NOW + 10 * number), outcome, ledger)
        (action,) = decision.actions
        assert isinstance(action, WriteNodeRequestStatus)
        requests = {NAME: replace(snapshot.requests[NAME], status=action.status)}
        snapshot, ledger = replace(snapshot, requests=requests), decision.ledger
    doubtful = plan(replace(snapshot, now=NOW + 50), ledger)
    assert not any(isinstance(each, WriteNodeRequestStatus) for each in doubtful.actions)
    assert {note.about.kind for note in doubtful.notes if note.reason == "NoAnswer"} == {
        "NodeRequest",
        "NodePool",
        "Pod",
    }
    listed = replace(snapshot, now=NOW + 50, machines_at=NOW + 40)
    (action,) = plan(listed, ledger).actions
    assert isinstance(action, WriteNodeRequestStatus)
    gone = replace(snapshot.requests[NAME], status=action.status)
    assert (gone.phase, counts(gone, listed), counts(gone, replace(listed, now=NOW + 621))) == ("Unmet", True, False)
    assert action.status.expires_at == format_instant(NOW + 50 + 2 * Settings().unmet_seconds)  # then it is tried again
    garbled = (*gone.status.events[:2], replace(gone.status.events[2], at="soon"), *gone.status.events[3:])
    unclear = replace(gone, status=replace(gone.status, events=garbled))
    assert (counts(unclear, listed), counts(unclear, replace(listed, now=NOW + 651))) == (True, False)


def test_three_orders_without_an_answer_within_seconds_are_not_given_up_before_people_have_heard_of_it() -> None:
    snapshot, ledger = with_one(one(planned=["default/a"]), pods=[pod("a")]), provisioning.Ledger()
    for now in (NOW, NOW + 3, NOW + 8):
        decision = settle_launch(replace(snapshot, now=now), Unknown("502"), ledger)
        (action,) = decision.actions
        assert isinstance(action, WriteNodeRequestStatus)
        requests = {NAME: replace(snapshot.requests[NAME], status=action.status)}
        snapshot, ledger = replace(snapshot, requests=requests), decision.ledger
    early = plan(replace(snapshot, now=NOW + 25, machines_at=NOW + 24), ledger)
    assert not any(isinstance(each, WriteNodeRequestStatus) for each in early.actions)
    late = plan(replace(snapshot, now=NOW + 31, machines_at=NOW + 30), ledger)
    assert [each.status.phase for each in late.actions if isinstance(each, WriteNodeRequestStatus)] == ["Unmet"]
    assert {note.reason for note in late.notes} >= {"NoAnswer", "Unmet"}


def test_launches_without_an_answer_are_asked_ever_less_often() -> None:
    snapshot, ledger, waits = with_one(one()), provisioning.Ledger(), []
    for _ in range(8):
        decision = settle_launch(snapshot, Unknown("timeout"), ledger)
        assert decision.again_at is not None
        waits.append(decision.again_at - snapshot.now)
        snapshot, ledger = replace(snapshot, now=decision.again_at), decision.ledger
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_launch_under_way_is_not_asked_for_again() -> None:
    snapshot = with_one(one())
    assert plan(snapshot, plan(snapshot).ledger).actions == ()


def test_an_accepted_launch_is_not_repeated_before_its_phase_is_seen_but_is_if_the_phase_could_not_be_written() -> None:
    snapshot = with_one(one())
    accepted = settle_launch(snapshot, Accepted("m"))
    assert plan(snapshot, accepted.ledger).actions == ()
    (write,) = accepted.actions
    lost = provisioning.settle(Settled(write, Conflict("changed")), snapshot, accepted.ledger, SETTINGS)
    assert [type(action) for action in plan(snapshot, lost.ledger).actions] == [LaunchMachine]


def test_law_s2_a_machine_that_is_there_already_is_adopted() -> None:
    decision = plan(with_one(one(), machines=[machine(NAME, SMALL)]))
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert (action.status.phase, action.status.machine_id) == ("Provisioning", f"id-{NAME}")
    assert action.status.events[-1].reason == "the machine was there already"


@pytest.mark.parametrize("state", ["creating", "stopped", "deleting"])
def test_a_machine_that_nobody_finished_is_launched_again_under_its_name(state: str) -> None:
    unfinished = replace(machine(NAME, SMALL), state=state)
    (action,) = plan(with_one(one(), machines=[unfinished])).actions
    assert isinstance(action, LaunchMachine)


def test_a_machine_of_the_same_name_that_is_not_ours_is_never_touched() -> None:
    decision = plan(with_one(one(), machines=[machine(NAME, SMALL, "somebody-else")]))
    assert decision.actions == (ReleaseNodeRequest(seen(one())),)
    assert set(notes_by_reason(decision)) == {"NameTaken"}


@pytest.mark.parametrize("switch", ["pool", "all", "missing"])
def test_nothing_is_launched_while_paused_or_without_its_pool(switch: str) -> None:
    of_pool = pool("default", annotations={"growth.dev/paused": "true"} if switch == "pool" else {})
    decision = plan(
        with_one(one(), pools=[] if switch == "missing" else [of_pool]), settings=Settings(is_paused=switch == "all")
    )
    assert decision.actions == ()


def test_without_our_finalizer_nothing_is_launched() -> None:
    decision = plan(with_one(one(finalizers=())))
    assert decision.actions == ()
    assert set(notes_by_reason(decision)) == {"NoFinalizer"}


def test_a_pending_request_over_a_lowered_limit_is_released_once_it_surely_has_no_machine() -> None:
    requests = [request(f"default-pool-{number}", SMALL, created_at=NOW - 100 + number) for number in range(3)]
    snapshot = world(pools=[pool("default", limited("small", 2))], offerings=[SMALL], requests=requests, machines=[])
    decision = plan(snapshot)
    assert [type(action).__name__ for action in decision.actions] == [
        "LaunchMachine",
        "LaunchMachine",
        "ReleaseNodeRequest",
    ]
    assert notes_by_reason(decision)["OverLimit"] == [
        "NodeRequest default-pool-2: not launched: max 2 of small in NodePool default is reached"
    ]
    unknown = plan(replace(snapshot, machines_at=NOW - 98))
    assert [type(action).__name__ for action in unknown.actions] == ["LaunchMachine", "LaunchMachine"]


# ------------------------------------------------------------------------------------- Provisioning


def test_ruling_1_a_serving_node_makes_the_request_ready() -> None:
    decision = plan(with_one(one("Provisioning", machine_id="m"), nodes=[node(NAME, of=SMALL, created_at=NOW - 4)]))
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert action.status.phase == "Ready"
    assert [(event.name, parse_instant(event.at) - NOW) for event in action.status.events] == [
        ("nodeProvisioned", -4),
        ("nodeLabelled", 0),
        ("nodeReady", 0),
    ]
    assert notes_by_reason(decision)["Ready"] == [f"NodeRequest {NAME}: node {NAME} serves after 10 s"]


@pytest.mark.parametrize(
    "not_yet",
    [
        {"is_ready": False},
        {"taints": (STARTUP_TAINT,)},
        {"taints": (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)},
        {"taints": (Taint("net/down"),)},
        {"labels": {REQUEST_LABEL: ""}},
        {"malformed": "cpu: 'x' is not a quantity"},
    ],
)
def test_a_node_that_does_not_serve_yet_is_waited_for(not_yet: dict[str, Any]) -> None:
    of_pool = pool("default", startup_taints=(PoolTaint("net/down", "NoSchedule"),))
    decision = plan(with_one(one("Provisioning"), nodes=[node(NAME, of=SMALL, **not_yet)], pools=[of_pool]))
    assert decision.actions == ()
    assert decision.again_at is not None


def test_a_node_whose_devices_have_not_shown_up_does_not_serve_yet() -> None:
    of_request = request(NAME, GPU, "Provisioning")
    bare = node(NAME, of=GPU, allocatable=SMALL.allocatable)
    snapshot = world(pools=[pool()], offerings=[GPU], requests=[of_request], nodes=[bare])
    assert plan(snapshot).actions == ()
    assert len(plan(replace(snapshot, nodes={NAME: node(NAME, of=GPU)})).actions) == 1


def test_ruling_8_a_machine_that_is_not_ready_in_time_is_given_back() -> None:
    late = one("Provisioning", changed_at=NOW - 300, machine_id="m")
    early = plan(with_one(replace(late, changed_at=NOW - 299)))
    assert (early.actions, early.again_at) == ((), NOW + 1)
    decision = plan(with_one(late))
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert (action.status.phase, action.status.machine_id) == ("Deprovisioning", "m")
    assert action.status.events[-1] == life_event(NOW, "nodeNotReady", "no Ready node within 300 s")
    assert set(notes_by_reason(decision)) == {"NotReadyInTime"}


def test_a_pool_may_wait_longer_for_its_nodes() -> None:
    assert (
        plan(
            with_one(one("Provisioning", changed_at=NOW - 400), pools=[pool("default", readiness_wait_seconds=500)])
        ).actions
        == ()
    )


def test_a_node_with_working_pods_is_never_given_back_for_being_late() -> None:
    late = one("Provisioning", changed_at=NOW - 9000)
    starting = node(NAME, of=SMALL, taints=(STARTUP_TAINT,), is_ready=False)
    assert plan(with_one(late, nodes=[starting], pods=[bound(pod("a"), NAME)])).actions == ()
    assert len(plan(with_one(late, nodes=[starting], pods=[daemon_pod("d", NAME)])).actions) == 1


def test_law_s3_a_dead_node_whose_pods_are_overdue_is_given_back_and_its_hour_is_known() -> None:
    late = one("Provisioning", changed_at=NOW - 9000, machine_id="m")
    leaving = replace(bound(pod("a"), NAME), deleted_at=NOW - 60)
    dying = node(NAME, of=SMALL, taints=(STARTUP_TAINT,), is_ready=False, ready_changed_at=NOW - 200)
    waiting = plan(with_one(late, nodes=[dying], pods=[leaving]))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 101)
    dead = replace(dying, ready_changed_at=NOW - 301)
    assert len(plan(with_one(late, nodes=[dead], pods=[leaving])).actions) == 1


def test_ruling_8_deprovisioning_becomes_a_removal_request_and_only_then_the_record_goes() -> None:
    giving_back = one("Deprovisioning", machine_id="m-17")
    (create,) = plan(with_one(giving_back)).actions
    assert isinstance(create, CreateNodeRemovalRequest)
    assert create.spec == NodeRemovalRequestSpec(NAME, "default", "sim-small", "m-17", "NotReady")
    failed = provisioning.settle(
        Settled(create, TryLater("busy")), with_one(giving_back), provisioning.Ledger(), SETTINGS
    )
    assert failed.again_at is not None  # it stays and tries again
    assert plan(with_one(giving_back)).actions == (create,)
    (handed,) = plan(with_one(failed_once(giving_back), removals=[removal()])).actions
    assert isinstance(handed, WriteNodeRequestStatus)
    assert (handed.status.phase, handed.status.machine_id, handed.status.expires_at) == (
        "Deprovisioning",
        "m-17",  # by this the node is growth's, though the list may not show its machine
        format_instant(NOW + 600),
    )
    memory = replace(failed_once(giving_back), status=handed.status)
    assert plan(with_one(memory)).actions == ()  # it only tells of the failure now, whatever becomes of the removal
    assert plan(replace(with_one(memory), now=NOW + 600)).actions == ()  # nobody else tells of it yet
    trials = PoolTrials(in_vain=(Trial(NAME, format_instant(NOW), "sim-small", "here", "no Ready node"),))
    told = with_one(memory, pools=[pool(status=NodePoolStatus(trials=trials))])
    assert plan(told).actions == ()
    assert plan(replace(told, now=NOW + 600)).actions == (ReleaseNodeRequest(seen(memory)),)


def failed_once(of_request: NodeRequest) -> NodeRequest:
    event = life_event(of_request.changed_at, "nodeNotReady", "no Ready node within 300 s")
    return replace(of_request, status=replace(of_request.status, events=(event,)))


def test_law_s7_a_machine_whose_id_is_late_is_waited_for_before_it_is_handed_over() -> None:
    late = one("Deprovisioning", changed_at=NOW - 5)
    waiting = plan(with_one(late, machines=[machine("default-pool-2", SMALL)]))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 15)
    (create,) = plan(with_one(late, machines=[machine(NAME, SMALL)])).actions
    assert isinstance(create, CreateNodeRemovalRequest)
    assert create.spec.machine_id == f"id-{NAME}"
    never = replace(late, changed_at=NOW - 60)
    assert plan(with_one(never, machines=[machine("default-pool-2", SMALL)])).actions == (
        ReleaseNodeRequest(seen(never)),
    )


def test_ruling_8_the_machine_behind_an_unmet_failure_is_handed_to_removal_before_the_record_goes() -> None:
    unmet = one("Unmet", machine_id="m-17", changed_at=NOW - 5, expires_at=format_instant(NOW + 60))
    (create,) = plan(with_one(unmet)).actions
    assert isinstance(create, CreateNodeRemovalRequest)
    assert (create.spec.machine_id, create.spec.reason) == ("m-17", "NotReady")
    (handed,) = plan(with_one(unmet, removals=[removal()])).actions
    assert isinstance(handed, WriteNodeRequestStatus)
    assert (handed.status.phase, handed.status.machine_id) == ("Unmet", "")  # so that it is handed over only once
    waiting = plan(with_one(replace(unmet, status=handed.status)))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 180)  # kept as long again: a repeat is known as one


def test_ruling_1_events_are_bounded_and_the_newest_kept() -> None:
    old = tuple(life_event(NOW - 1000 + number, f"event{number}") for number in range(EVENTS_KEPT))
    (action,) = settle_launch(with_one(one(events=old)), Accepted("m")).actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert [event.name for event in action.status.events] == [f"event{number}" for number in range(1, EVENTS_KEPT)] + [
        "nodeRequested"
    ]


def test_at_rest_there_is_nothing_to_do() -> None:
    snapshot = with_one(one("Ready", changed_at=NOW - 5), nodes=[node(NAME, of=SMALL)])
    decision = plan(snapshot)
    assert (decision.actions, decision.notes) == ((), ())
