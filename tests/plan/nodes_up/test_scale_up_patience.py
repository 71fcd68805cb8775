"""Scale-up over time: the batch window, misses and back-off, what is remembered, and what an order's outcome means."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.action import WriteNodeRequestStatus
from growth.model.decision import Decision
from growth.model.instant import format_instant
from growth.model.labels import HOSTNAME, LabelSelector, Requirement
from growth.model.node import STARTUP_TAINT
from growth.model.pod import PodAffinityTerm, VolumeUse
from growth.model.settings import Settings
from growth.model.snapshot import DaemonSet, Snapshot, VolumeWorld
from growth.model.volumes import Claim
from growth.plan.nodes_up import scale_up
from tests.plan.builders import (
    NOW,
    amounts,
    applied,
    bound,
    limited,
    node,
    notes_by_reason,
    offering,
    orders,
    pod,
    pool,
    request,
    run_scale_up,
    shape,
    world,
)

SMALL = offering("small", 2, 4096, 0.01)
QUICK = Settings(
    batch_quiet_seconds=0.0, misses_before_backoff=3, backoff_first_seconds=30.0, backoff_longest_seconds=100.0
)


def test_a_burst_is_planned_once_when_it_is_quiet_for_a_second() -> None:
    settings = Settings()
    first = run_scale_up(world([pod("a")], [pool()], [SMALL], now=NOW), settings=settings)
    assert (first.actions, first.again_at) == ((), NOW + 1)
    grown = world([pod("a"), pod("b")], [pool()], [SMALL], now=NOW + 0.6)
    second = run_scale_up(grown, first.ledger, settings)
    assert (second.actions, second.again_at) == ((), NOW + 1.6)
    third = run_scale_up(replace(grown, now=NOW + 1.6), second.ledger, settings)
    assert [spec.planned_pods for spec in orders(third.actions)] == [("default/a", "default/b")]


def test_a_burst_that_does_not_end_is_planned_after_ten_seconds() -> None:
    ledger, settings, again_at = scale_up.Ledger(), Settings(), None
    for tick in range(20):
        snapshot = world([pod(f"p{number}") for number in range(tick + 1)], [pool()], [SMALL], now=NOW + tick * 0.5)
        decision = run_scale_up(snapshot, ledger, settings)
        assert decision.actions == ()
        ledger, again_at = decision.ledger, decision.again_at
    assert again_at == NOW + 10
    everybody = world([pod(f"p{number}") for number in range(20)], [pool()], [SMALL], now=NOW + 10)
    assert run_scale_up(everybody, ledger, settings).actions != ()


@pytest.mark.parametrize(("of_apps", "seconds"), [(False, 10), (True, 20)])
def test_a_burst_of_hundreds_with_rules_between_pods_is_waited_for_twice_as_long(of_apps: bool, seconds: int) -> None:
    web = LabelSelector((Requirement("app", "In", ("web",)),))
    apart = (PodAffinityTerm(HOSTNAME, web),) if of_apps else ()
    ledger, settings, again_at = scale_up.Ledger(), Settings(), None
    for tick in range(2 * seconds):
        many = [
            pod("first", labels={"app": "web"}, anti_affinity=apart),
            *(pod(f"p{number}") for number in range(20 * (tick + 1))),
        ]
        decision = run_scale_up(world(many, [pool()], [SMALL], now=NOW + tick * 0.5), ledger, settings)
        assert decision.actions == ()
        ledger, again_at = decision.ledger, decision.again_at
    assert again_at == NOW + seconds


def test_pods_whose_request_became_unmet_are_planned_again_without_a_window() -> None:
    cheap, dear = offering("cheap", 2, 4096, 0.01), offering("dear", 2, 4096, 0.02)
    snapshot = world([pod("a")], [pool("default", "cheap", "dear")], [cheap, dear])
    opened = run_scale_up(snapshot, settings=Settings())
    first = run_scale_up(replace(snapshot, now=NOW + 1), opened.ledger, Settings())
    assert [spec.target_offering for spec in orders(first.actions)] == ["sim-cheap"]
    after = applied(replace(snapshot, now=NOW + 1), first.actions)
    (name,) = after.requests
    status = replace(after.requests[name].status, phase="Unmet", expires_at=format_instant(NOW + 120))
    refused = replace(after, now=NOW + 2, requests={name: replace(after.requests[name], status=status)})
    second = run_scale_up(refused, first.ledger, Settings())
    assert [spec.target_offering for spec in orders(second.actions)] == ["sim-dear"]


# ------------------------------------------------------------------------------ misses and back-off


def walk(
    snapshot: Snapshot, settings: Settings, until_reason: str = "BackOff"
) -> tuple[list[float], Decision[scale_up.Ledger]]:
    """Ask whenever the plan wants to be asked again; the times at which the pod was part of the demand."""
    ledger, times, now = scale_up.Ledger(), [], snapshot.now
    while True:
        current = replace(snapshot, now=now)
        asked = scale_up.question(current, ledger, settings)
        decision = run_scale_up(current, ledger, settings)
        ledger = decision.ledger
        if asked is not None:
            times.append(now - snapshot.now)
        if decision.again_at is None or until_reason in notes_by_reason(decision):
            return times, decision
        now = decision.again_at


def test_misses_lead_to_back_off_and_back_off_to_the_event() -> None:
    times, decision = walk(world([pod("a", 64)], [pool()], [SMALL]), QUICK)
    assert times == [0, 10, 20, 50, 110, 210]  # three misses, then 30 s, 60 s, 100 s
    assert notes_by_reason(decision)["BackOff"] == [
        (
            "Pod default/a: no place was found 6 times in a row; tried again every 100 s, and at once when its pool "
            "changes, an offering recovers, room appears or a volume it waits for is made"
        )
    ]


def test_in_back_off_it_is_tried_at_the_longest_pace_and_told_nothing_more() -> None:
    snapshot = world([pod("a", 64)], [pool()], [SMALL])
    _, decision = walk(snapshot, QUICK)
    for seconds in (310, 410, 510):
        assert decision.again_at == NOW + seconds
        just_before = replace(snapshot, now=NOW + seconds - 1)
        assert scale_up.question(just_before, decision.ledger, QUICK) is None
        decision = run_scale_up(replace(snapshot, now=NOW + seconds), decision.ledger, QUICK)
        assert (decision.actions, set(notes_by_reason(decision))) == ((), {"Unplaced"})


def backed_off(snapshot: Snapshot) -> scale_up.Ledger:
    """At NOW + 210; its time comes again 100 s later."""
    _, decision = walk(snapshot, QUICK)
    assert decision.again_at == NOW + 310
    return decision.ledger


def is_tried(snapshot: Snapshot, ledger: scale_up.Ledger) -> bool:
    return scale_up.question(snapshot, ledger, QUICK) is not None


def test_ruling_7_a_pod_in_back_off_is_let_in_when_its_pool_changes() -> None:
    snapshot = world([pod("a", 2)], [pool("default", limited("small", 0), generation=1)], [SMALL])
    ledger = backed_off(snapshot)
    later = replace(snapshot, now=NOW + 300)
    assert not is_tried(later, ledger)
    raised = replace(later, pools={"default": pool("default", limited("small", 1), generation=2)})
    assert len(orders(run_scale_up(raised, ledger, QUICK).actions)) == 1


def test_ruling_7_a_pod_in_back_off_is_let_in_when_an_unmet_offering_that_could_serve_it_expires() -> None:
    unmet = request("default-pool-1", SMALL, "Unmet", expires_at=format_instant(NOW + 5000))
    snapshot = world([pod("a", 2)], [pool()], [SMALL], requests=[unmet])
    times, decision = walk(snapshot, QUICK, "ScaleUp")
    assert times[-1] == 5000  # no sooner, and not only after somebody else's order succeeded
    assert len(orders(decision.actions)) == 1


def test_ruling_7_an_offering_that_cannot_serve_it_does_not_let_it_in() -> None:
    big = offering("big", 64, 4096, 1.0)
    unmet = request("default-pool-1", SMALL, "Unmet", expires_at=format_instant(NOW + 5000))
    snapshot = world([pod("a", 32)], [pool("default", "small", limited("big", 0))], [SMALL, big], requests=[unmet])
    times, _ = walk(snapshot, QUICK)
    assert times == [0, 10, 20, 50, 110, 210]


def test_ruling_7_a_pod_in_back_off_is_let_in_when_room_appears() -> None:
    snapshot = world([pod("a", 3)], [pool()], [SMALL])
    ledger = backed_off(snapshot)
    later = replace(snapshot, now=NOW + 300, nodes={"static": node("static", "", allocatable=amounts(4, 8192, 10))})
    assert is_tried(later, ledger)
    too_small = replace(later, nodes={"static": node("static", "", allocatable=amounts(2, 8192, 10))})
    assert not is_tried(too_small, ledger)


COMING = request("default-pool-1", SMALL, "Provisioning", reason="Minimum")


def test_a_pod_in_back_off_is_let_in_when_a_machine_with_room_to_spare_was_ordered() -> None:
    snapshot = world([pod("a", 2)], [pool("default", limited("small", 0))], [SMALL])
    ledger = backed_off(snapshot)
    assert not is_tried(replace(snapshot, now=NOW + 211), ledger)
    coming = replace(snapshot, now=NOW + 211, requests={COMING.name: COMING})
    assert is_tried(coming, ledger)
    other_pool = pool("other", limited("small", 0))
    reserved = request("other-pool-1", SMALL, "Provisioning", "other", reason="Minimum")
    elsewhere = replace(coming, pools={**coming.pools, "other": other_pool}, requests={reserved.name: reserved})
    assert not is_tried(elsewhere, ledger)


@pytest.mark.parametrize("labels", [{"app": "a"}, {"app": "z"}])
@pytest.mark.parametrize(("cpu", "more"), [(1, 0), (2, 0), (1, 3)])
def test_of_pods_that_compete_for_room_on_its_way_the_one_that_has_waited_longest_gets_it(
    labels: dict[str, str], cpu: float, more: int
) -> None:
    old = pod("old", 2, created_at=NOW - 300, labels=labels)
    pools = [pool("default", limited("small", 0))]
    ledger = backed_off(world([old], pools, [SMALL]))
    young = [pod(f"young-{number}", cpu, created_at=NOW + 205, labels={"app": "m"}) for number in range(1 + more)]
    both = world([old, *young], pools, [SMALL], requests=[COMING], now=NOW + 211)
    decision = run_scale_up(both, ledger, QUICK)
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert action.status.added_pods == (old.key,)
    assert decision.again_at == NOW + 212  # then the others are tried
    after = replace(both, now=NOW + 212, requests={COMING.name: replace(COMING, status=action.status)})
    assert "Unplaced" in notes_by_reason(run_scale_up(after, decision.ledger, QUICK))
    important = [pod("young", 2, created_at=NOW + 205, priority=5)]
    (action,) = run_scale_up(replace(both, waiting_pods=(old, *important)), ledger, QUICK).actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert action.status.added_pods == ("default/young",)


def test_ruling_7_a_pod_in_back_off_is_let_in_when_a_limit_gives_way() -> None:
    occupied = [node("default-pool-1", of=SMALL)]
    snapshot = world(
        [pod("a", 2), bound(pod("old", 2), "default-pool-1")], [pool("default", limited("small", 1))], [SMALL], occupied
    )
    ledger = backed_off(snapshot)
    freed = replace(snapshot, now=NOW + 300, nodes={}, pods_by_node={})
    assert len(orders(run_scale_up(freed, ledger, QUICK).actions)) == 1


def test_a_pod_in_back_off_is_let_in_when_the_claim_it_names_is_made() -> None:
    snapshot = world([pod("a", 2, volumes=(VolumeUse(claim="data"),))], [pool()], [SMALL])
    ledger = backed_off(snapshot)
    later = replace(snapshot, now=NOW + 300)
    assert not is_tried(later, ledger)
    assert not is_tried(replace(later, volumes=VolumeWorld(claims={"default/b": Claim("default", "b")})), ledger)
    assert is_tried(replace(later, volumes=VolumeWorld(claims={"default/data": Claim("default", "data")})), ledger)


def test_a_pod_in_back_off_is_let_in_when_daemon_sets_leave_it_room() -> None:
    agent = DaemonSet("kube-system/agent", shape(1, 64))
    snapshot = replace(world([pod("a", 2)], [pool()], [SMALL]), daemon_sets=(agent,))
    ledger = backed_off(snapshot)
    later = replace(snapshot, now=NOW + 300)
    assert not is_tried(later, ledger)
    assert len(orders(run_scale_up(replace(later, daemon_sets=()), ledger, QUICK).actions)) == 1


def test_a_pod_that_was_let_in_and_missed_again_stays_in_back_off_without_a_second_event() -> None:
    snapshot = world([pod("a", 64)], [pool("default", "small", generation=1)], [SMALL])
    ledger = backed_off(snapshot)
    changed = replace(snapshot, now=NOW + 300, pools={"default": pool("default", "small", generation=2)})
    decision = run_scale_up(changed, ledger, QUICK)
    assert set(notes_by_reason(decision)) == {"Unplaced"}
    assert not is_tried(replace(changed, now=NOW + 390), decision.ledger)


def test_the_others_are_planned_while_one_is_in_back_off() -> None:
    snapshot = world([pod("a", 64)], [pool()], [SMALL])
    ledger = backed_off(snapshot)
    later = replace(snapshot, now=NOW + 300, waiting_pods=(*snapshot.waiting_pods, pod("b", 1)))
    assert [spec.planned_pods for spec in orders(run_scale_up(later, ledger, QUICK).actions)] == [("default/b",)]


def test_a_pod_that_has_gone_is_forgotten() -> None:
    snapshot = world([pod("a", 64)], [pool()], [SMALL])
    ledger = backed_off(snapshot)
    after = run_scale_up(replace(snapshot, waiting_pods=()), ledger, QUICK).ledger
    assert (after.waits, after.known, after.told) == ({}, frozenset(), {})


def test_a_pod_with_room_on_a_node_waits_for_the_scheduler_and_holds_the_room() -> None:
    free = node("default-pool-1", of=SMALL)
    snapshot = world([pod("a", 2)], [pool()], [SMALL], [free])
    first = run_scale_up(snapshot)
    assert (first.actions, first.notes, first.again_at) == ((), (), NOW + 10)
    rival = replace(snapshot, now=NOW + 1, waiting_pods=(pod("b", 2, created_at=NOW - 999), *snapshot.waiting_pods))
    assert [spec.planned_pods for spec in orders(run_scale_up(rival, first.ledger).actions)] == [("default/b",)]
    second = run_scale_up(replace(snapshot, now=NOW + 10), first.ledger)
    assert notes_by_reason(second) == {
        "RoomExists": [
            "Pod default/a: node default-pool-1 has room for this pod; nothing is bought, the scheduler decides"
        ]
    }
    assert second.again_at == NOW + 30  # and then ever less often


def test_a_pod_whose_room_was_taken_is_planned_at_once() -> None:
    free = node("default-pool-1", of=SMALL)
    snapshot = world([pod("a", 2)], [pool()], [SMALL], [free])
    first = run_scale_up(snapshot)
    taken = world([pod("a", 2), bound(pod("thief", 2), free.name)], [pool()], [SMALL], [free], now=NOW + 1)
    assert [spec.planned_pods for spec in orders(run_scale_up(taken, first.ledger).actions)] == [("default/a",)]


def test_ruling_12_a_missing_pool_is_told_once() -> None:
    snapshot = world([pod("a", pool="ghost"), pod("b")], [pool("gpu")], [SMALL])
    first = run_scale_up(snapshot)
    assert notes_by_reason(first) == {
        "MissingPool": ["Pod default/a: NodePool ghost does not exist"],
        "NoPool": ["Pod default/b: the pod names no NodePool and there is none called default"],
    }
    second = run_scale_up(replace(snapshot, now=NOW + 60), first.ledger)
    assert (second.notes, second.again_at) == ((), None)
    other = replace(
        snapshot,
        pools={"gpu": pool("gpu", allowed_namespaces=("ml",)), "ghost": pool("ghost", allowed_namespaces=("ml",))},
    )
    assert set(notes_by_reason(run_scale_up(other, second.ledger))) == {"NamespaceNotAllowed"}


# --------------------------------------------------------------------------------- kept assignments


def test_planned_pods_stay_planned_while_they_fit() -> None:
    on_its_way = request("default-pool-1", SMALL, "Provisioning", planned=["default/a", "default/b"])
    snapshot = world([pod("a", 1), pod("b", 1)], [pool()], [SMALL], requests=[on_its_way])
    assert run_scale_up(snapshot).actions == ()
    grown = replace(snapshot, waiting_pods=(pod("a", 1), pod("b", 2)))
    assert [spec.planned_pods for spec in orders(run_scale_up(grown).actions)] == [("default/b",)]


def test_planned_pods_stay_planned_on_a_node_that_is_ready_but_still_tainted() -> None:
    joined = node("default-pool-1", of=SMALL, taints=(STARTUP_TAINT,))
    of_request = request("default-pool-1", SMALL, "Ready", planned=["default/a"])
    assert run_scale_up(world([pod("a", 2)], [pool()], [SMALL], [joined], [of_request])).actions == ()


def test_a_node_that_turned_out_smaller_frees_those_who_no_longer_fit() -> None:
    joined = node("default-pool-1", of=SMALL, taints=(STARTUP_TAINT,), allocatable=amounts(1.9, 4096, 110))
    of_request = request("default-pool-1", SMALL, "Provisioning", planned=["default/a", "default/b"])
    snapshot = world([pod("a", 1), pod("b", 1)], [pool()], [SMALL], [joined], [of_request])
    assert [spec.planned_pods for spec in orders(run_scale_up(snapshot).actions)] == [("default/b",)]


def test_a_request_that_is_being_deleted_keeps_nobody() -> None:
    going = request("default-pool-1", SMALL, "Provisioning", planned=["default/a"], deleted_at=NOW)
    snapshot = world([pod("a", 2)], [pool()], [SMALL], requests=[going])
    assert [spec.planned_pods for spec in orders(run_scale_up(snapshot).actions)] == [("default/a",)]


def test_a_pod_below_the_priority_cutoff_is_no_demand_and_is_told_so() -> None:
    decision = run_scale_up(world([pod("a", priority=-11)], [pool()], [SMALL]))
    assert decision.actions == ()
    assert "below the cutoff -10" in notes_by_reason(decision)["Unplaced"][0]
