"""How a NodeRequest ends: struck out, grown old, or deleted by hand (rulings 6, 16)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest, ReleaseNodeRequest, WriteNodeRequestStatus
from growth.model.api import LifeEvent
from growth.model.decision import Decision
from growth.model.instant import format_instant, parse_instant
from growth.model.noderequest import ACCEPTED, UNANSWERED, WITHDRAWN, NodeRequest, with_classes
from growth.model.outcome import Accepted, NoCapacity
from growth.model.pod import Toleration, class_checksum
from growth.plan.nodes_up import provisioning
from growth.plan.world.limits import members
from growth.plan.world.turn import life_event, seen
from tests.plan.builders import NOW, bound, machine, node, notes_by_reason, offering, pod, pool, request, world
from tests.plan.oneorder import NAME, SMALL, one, plan, removal, settle_launch, with_one

GPU = offering("gpu", 8, 16384, 0.5, devices={"example.com/gpu": 1})


# -------------------------------------------------------------------------------- Unmet and the end


def refused(at: float, *records: NodeRequest) -> WriteNodeRequestStatus:
    """A launch finds no capacity at that time, and growth knows nothing but the records."""
    snapshot = replace(with_one(one()), now=at)
    snapshot = replace(snapshot, requests={**snapshot.requests, **{each.name: each for each in records}})
    (action,) = settle_launch(snapshot, NoCapacity("sold out")).actions
    assert isinstance(action, WriteNodeRequestStatus)
    return action


def unmet_record(action: WriteNodeRequestStatus, at: float, name: str = "default-pool-before") -> NodeRequest:
    return replace(request(name, SMALL, "Unmet", changed_at=at), status=action.status)


def until(action: WriteNodeRequestStatus) -> float:
    assert action.status.expires_at is not None
    return parse_instant(action.status.expires_at)


def test_the_time_of_unmet_doubles_while_it_repeats_also_across_a_restart() -> None:
    at, records, waits = NOW, tuple[NodeRequest, ...](), []
    for _ in range(5):
        action = refused(at, *records)
        waits.append(until(action) - at)
        records, at = (unmet_record(action, at),), until(action) + 5
    assert waits == [120, 240, 480, 600, 600]


def test_the_time_of_unmet_begins_anew_once_the_provider_has_some_again() -> None:
    before = unmet_record(refused(NOW), NOW)
    accepted = request("default-pool-later", SMALL, "Provisioning", changed_at=NOW + 130)
    assert until(refused(NOW + 200, before, accepted)) == NOW + 200 + 120
    assert until(refused(NOW + 200, before, replace(accepted, changed_at=NOW - 1))) == NOW + 200 + 240


def test_several_refusals_of_one_strike_are_one() -> None:
    first = unmet_record(refused(NOW), NOW)
    second = unmet_record(refused(NOW + 30, first), NOW + 30, "default-pool-second")
    assert until(refused(NOW + 60, first, second)) == NOW + 120
    assert until(refused(NOW + 120, first, second)) == NOW + 120 + 240  # counted from the first of them


def test_of_unmet_records_the_first_of_a_strike_is_kept_as_long_again_and_the_others_go_when_their_time_is_over() -> (
    None
):
    first = unmet_record(refused(NOW), NOW)
    second = unmet_record(refused(NOW + 30, first), NOW + 30, "default-pool-second")
    snapshot = world(pools=[pool()], offerings=[SMALL], requests=[first, second], machines=[])
    waiting = plan(snapshot)
    assert (waiting.actions, waiting.again_at) == ((), NOW + 120)
    over = plan(replace(snapshot, now=NOW + 120))
    assert (over.actions, over.again_at) == ((ReleaseNodeRequest(seen(second)),), NOW + 240)
    assert ReleaseNodeRequest(seen(first)) in plan(replace(snapshot, now=NOW + 240)).actions


def test_ruling_16_after_its_time_a_ready_record_goes_and_the_machine_stays() -> None:
    ready = one("Ready", changed_at=NOW - 599, machine_id="m")
    waiting = plan(with_one(ready, nodes=[node(NAME, of=SMALL)]))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 1)
    old = replace(ready, changed_at=NOW - 600)
    assert plan(with_one(old, nodes=[node(NAME, of=SMALL)])).actions == (ReleaseNodeRequest(seen(old)),)


def unanswered(at: float) -> tuple[LifeEvent, ...]:
    return (life_event(at, UNANSWERED, "timeout"), life_event(at + 5, ACCEPTED))


@pytest.mark.parametrize("deleted_at", [None, NOW])
def test_a_record_stays_while_an_order_without_an_answer_may_still_bring_a_machine(deleted_at: float | None) -> None:
    ready = one("Ready", changed_at=NOW - 900, machine_id="m", events=unanswered(NOW - 590), deleted_at=deleted_at)
    waiting = plan(with_one(ready))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 25)
    unseen = replace(with_one(ready), now=NOW + 20, machines_at=NOW + 9)
    assert plan(unseen).actions == ()
    assert plan(replace(unseen, machines_at=NOW + 11)).actions == (ReleaseNodeRequest(seen(ready)),)


def test_a_machine_of_an_older_order_that_comes_when_the_recorded_one_is_gone_becomes_a_node_or_goes() -> None:
    ready = one("Ready", changed_at=NOW - 3000, machine_id="gone", events=unanswered(NOW - 890))
    another = machine(NAME, SMALL)
    waiting = plan(with_one(ready, machines=[another]))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 10)
    assert plan(replace(with_one(ready, machines=[another], nodes=[node(NAME, of=SMALL)]), now=NOW + 60)).actions == (
        ReleaseNodeRequest(seen(ready)),
    )
    (removal,) = plan(replace(with_one(ready, machines=[another]), now=NOW + 10)).actions
    assert isinstance(removal, CreateNodeRemovalRequest)
    assert (removal.spec.machine_id, removal.spec.reason) == (another.machine_id, "NotReady")


def test_a_pod_on_a_node_that_names_another_machine_keeps_no_request_and_people_are_told_why_it_is_in_vain() -> None:
    stranger = replace(node(NAME), pool="", provider_id="metal:///rack-7")
    running = replace(bound(pod("a"), NAME), phase="Running")
    old = one("Provisioning", changed_at=NOW - 300, machine_id=f"id-{NAME}")
    machines = [machine(NAME, SMALL, provider_id="sim://1")]
    decision = plan(with_one(old, nodes=[stranger], pods=[running], machines=machines))
    why = "no Ready node within 300 s: the node says that it is metal:///rack-7, and its machine is sim://1"
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert (action.status.phase, action.status.events[-1].reason) == ("Deprovisioning", why)
    assert notes_by_reason(decision)["NotReadyInTime"] == [
        f"NodeRequest {NAME}: sim-small: {why}, the machine is given back"
    ]


@pytest.mark.parametrize("ordered_by", ["an earlier process", "this one, without an answer"])
def test_what_nobody_needs_and_may_have_been_ordered_keeps_its_record_and_its_late_machine_goes(
    ordered_by: str,
) -> None:
    runs = [replace(bound(pod("a"), "n-1"), phase="Running")]
    is_ours = ordered_by != "an earlier process"
    ledger = provisioning.Ledger(inherited=frozenset() if is_ours else None)
    asked = one(planned=("default/a",), events=unanswered(NOW - 60)[:1] if is_ours else (), created_at=NOW - 90)
    (write,) = plan(with_one(asked, pods=runs), ledger).actions
    assert isinstance(write, WriteNodeRequestStatus)
    assert (write.status.phase, [each.name for each in write.status.events]) == (
        "Deprovisioning",
        [UNANSWERED, WITHDRAWN],
    )

    kept = replace(asked, status=write.status, changed_at=NOW)
    waiting = with_one(kept, pods=runs)
    assert plan(waiting).actions == ()
    assert [member.may_come_until for member in members(waiting)] == [NOW + (540 if is_ours else 600)]
    (gives_back,) = plan(replace(waiting, machines={NAME: machine(NAME, SMALL)})).actions
    assert isinstance(gives_back, CreateNodeRemovalRequest)
    late = replace(waiting, now=NOW + 630, machines_at=NOW + 629)
    assert plan(late).actions == (ReleaseNodeRequest(seen(kept)),)


def test_what_nobody_needs_and_was_surely_never_ordered_goes_at_once() -> None:
    asked = one(planned=("default/a",), created_at=NOW - 90)
    running = replace(bound(pod("a"), "n-1"), phase="Running")
    assert plan(with_one(asked, pods=[running])).actions == (ReleaseNodeRequest(seen(asked)),)


def test_what_an_earlier_process_may_have_ordered_counts_as_an_order_without_an_answer() -> None:
    for outcome in (Accepted("m"), NoCapacity("sold out")):
        (own,) = settle_launch(with_one(one()), outcome).actions
        (inherited,) = settle_launch(with_one(one()), outcome, provisioning.Ledger()).actions
        assert isinstance(inherited, WriteNodeRequestStatus)
        assert isinstance(own, WriteNodeRequestStatus)
        assert inherited.status.events[0].name == UNANSWERED
        assert UNANSWERED not in [each.name for each in own.status.events]
        assert inherited.status.expires_at == own.status.expires_at


def test_a_ready_record_written_before_a_clock_went_back_is_as_old_as_its_node_says() -> None:
    ready = one("Ready", changed_at=NOW + 3600, machine_id="m")
    waiting = plan(with_one(ready, nodes=[node(NAME, of=SMALL, ready_changed_at=NOW - 599)]))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 1)
    assert plan(with_one(ready, nodes=[node(NAME, of=SMALL, ready_changed_at=NOW - 600)])).actions == (
        ReleaseNodeRequest(seen(ready)),
    )


def test_law_s4_a_ready_machine_that_took_none_of_its_pods_in_time_is_recorded_as_in_vain() -> None:
    ready = one("Ready", planned=["default/a"], created_at=NOW - 700, changed_at=NOW - 299, machine_id="m")
    waiting, here = pod("a", created_at=NOW - 800), [node(NAME, of=SMALL)]
    early = plan(with_one(ready, pods=[waiting], nodes=here))
    assert (early.actions, early.again_at) == ((), NOW + 1)
    late = replace(with_one(ready, pods=[waiting], nodes=here), now=NOW + 1)
    assert names_of_events(plan(late)) == ["nodeNotUsed"]
    assert names_of_events(plan(replace(late, nodes={}))) == ["nodeNotUsed"]  # the node was given back since
    gone = with_one(ready, nodes=here)
    assert plan(replace(gone, now=NOW + 1)).actions == ()  # neither way
    elsewhere = with_one(ready, pods=[bound(waiting, "elsewhere")], nodes=here)
    assert plan(replace(elsewhere, now=NOW + 1)).actions == ()


def test_law_s4_one_pod_like_those_it_was_bought_for_makes_a_machine_of_use() -> None:
    ready = one("Ready", planned=["default/a"], created_at=NOW - 700, changed_at=NOW - 10, machine_id="m")
    here, twin = [node(NAME, of=SMALL)], bound(pod("twin", labels={"job": "2"}), NAME)
    assert names_of_events(plan(with_one(ready, pods=[pod("a", labels={"job": "1"}), twin], nodes=here))) == [
        "nodeUsed"
    ]
    stranger = bound(pod("agent", 0.5), NAME)
    assert plan(with_one(ready, pods=[pod("a"), stranger], nodes=here)).actions == ()


def test_a_machine_whose_pods_are_gone_is_of_use_when_others_run_there() -> None:
    ready = one("Ready", planned=["default/a"], created_at=NOW - 700, changed_at=NOW - 10, machine_id="m")
    here, other = [node(NAME, of=SMALL)], replace(bound(pod("other", 0.5), NAME), phase="Running")
    assert names_of_events(plan(with_one(ready, pods=[other], nodes=here))) == ["nodeUsed"]
    assert plan(with_one(ready, pods=[other, pod("a")], nodes=here)).actions == ()  # its own still waits
    assert plan(with_one(ready, pods=[replace(other, phase="Pending")], nodes=here)).actions == ()
    everywhere = replace(bound(pod("agent", 0.5, tolerations=(Toleration(operator="Exists"),)), NAME), phase="Running")
    assert plan(with_one(ready, pods=[everywhere], nodes=here)).actions == ()


def test_law_s4_pods_made_anew_show_that_a_machine_was_in_vain() -> None:
    ready = one("Ready", planned=["default/a-1"], created_at=NOW - 700, changed_at=NOW - 400, machine_id="m")
    anew = pod("a-2", labels={"job": "2"}, unschedulable_at=NOW - 40)
    event = life_event(NOW - 400, "nodeReady", with_classes("bought for pods", [class_checksum(anew.shape)]))
    ready = replace(ready, status=replace(ready.status, events=(event,)))
    assert names_of_events(plan(with_one(ready, pods=[anew], nodes=[node(NAME, of=SMALL)])))[-1] == "nodeNotUsed"
    just_now = replace(anew, unschedulable_at=NOW - 5)
    assert plan(with_one(ready, pods=[just_now], nodes=[node(NAME, of=SMALL)])).actions == ()


def names_of_events(decision: Decision[provisioning.Ledger]) -> list[str]:
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    return [event.name for event in action.status.events]


# --------------------------------------------------------------------------------- deletion by hand


def test_ruling_16_a_pending_request_deleted_by_hand_goes_once_it_surely_has_no_machine() -> None:
    going = one(deleted_at=NOW - 20)
    assert plan(with_one(going)).actions == (ReleaseNodeRequest(seen(going)),)
    assert plan(with_one(going, machines_at=NOW - 15)).actions == ()  # the list is too old to say
    assert plan(with_one(going, machines=None)).actions == ()
    asked = provisioning.Ledger(asked={NAME: NOW - 30})
    assert plan(with_one(going), asked).actions == ()  # an order is under way


def test_ruling_16_a_pending_request_deleted_by_hand_whose_machine_exists_is_handed_to_removal() -> None:
    going = one(deleted_at=NOW - 20)
    (create,) = plan(with_one(going, machines=[machine(NAME, SMALL)])).actions
    assert isinstance(create, CreateNodeRemovalRequest)
    assert (create.spec.machine_id, create.spec.reason) == (f"id-{NAME}", "Deleted")


def test_ruling_16_a_provisioning_request_deleted_by_hand_has_its_machine_removed() -> None:
    going = one("Provisioning", deleted_at=NOW, machine_id="m-17")
    (create,) = plan(with_one(going)).actions
    assert isinstance(create, CreateNodeRemovalRequest)
    assert create.spec.machine_id == "m-17"
    assert plan(with_one(going, removals=[removal()])).actions == (ReleaseNodeRequest(seen(going)),)


def test_ruling_16_a_provisioning_request_deleted_by_hand_whose_node_works_already_loses_only_its_record() -> None:
    going, working = one("Provisioning", deleted_at=NOW, machine_id="m-17"), [bound(pod("a"), NAME)]
    assert plan(with_one(going, nodes=[node(NAME, of=SMALL)], pods=working)).actions == (
        ReleaseNodeRequest(seen(going)),
    )
    (create,) = plan(
        with_one(going, pods=working)
    ).actions  # its Node was deleted too, and its pods are not collected yet
    assert isinstance(create, CreateNodeRemovalRequest)
    assert create.spec.machine_id == "m-17"


def test_ruling_16_a_ready_request_deleted_by_hand_loses_only_its_record() -> None:
    going = one("Ready", deleted_at=NOW, machine_id="m")
    assert plan(with_one(going, nodes=[node(NAME, of=SMALL)], machines=[machine(NAME, SMALL)])).actions == (
        ReleaseNodeRequest(seen(going)),
    )


def test_ruling_16_the_requests_of_a_pool_that_goes_are_removed_with_their_machines() -> None:
    requests = [
        request("default-pool-1", SMALL),
        request("default-pool-2", SMALL, "Provisioning", machine_id="m-2"),
        request("default-pool-3", SMALL, "Ready"),  # its node is still there
        request("default-pool-4", SMALL, "Ready"),
        request("default-pool-5", SMALL, "Unmet", expires_at=format_instant(NOW + 60)),
    ]
    requests = [replace(each, created_at=NOW - 100) for each in requests]
    nodes = [node("default-pool-3", of=SMALL)]
    going = world(
        pools=[pool("default", deleted_at=NOW - 60)],
        offerings=[SMALL],
        requests=requests,
        nodes=nodes,
        machines=[machine("default-pool-3", SMALL)],
    )
    assert [(type(action).__name__, named(action)) for action in plan(going).actions] == [
        ("ReleaseNodeRequest", "default-pool-1"),
        ("CreateNodeRemovalRequest", "default-pool-2"),
        ("ReleaseNodeRequest", "default-pool-4"),
        ("ReleaseNodeRequest", "default-pool-5"),
    ]


def named(action: object) -> str:
    if isinstance(action, CreateNodeRemovalRequest):
        return action.node.name
    assert isinstance(action, ReleaseNodeRequest)
    return action.request.name


def test_a_pool_that_is_not_seen_is_not_a_pool_that_goes() -> None:
    requests = [request("default-pool-1", SMALL), request("default-pool-2", SMALL, "Provisioning", machine_id="m-2")]
    assert plan(world(pools=[], offerings=[SMALL], requests=requests, machines=[])).actions == ()
