"""Which pods are planned for before their scheduler has judged them, and when growth waits for its word."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.labels import Labels
from growth.model.pod import Pod, VolumeUse
from growth.model.settings import Settings
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, Volume
from growth.plan.nodes_up.scale_up import Ledger
from tests.plan.builders import (
    NOW,
    bound,
    node,
    notes_by_reason,
    offering,
    ordered,
    orders,
    pod,
    pool,
    run_scale_up,
    world,
)

SMALL = offering("small", 2, 4096, 0.01)
NEW: dict[str, Any] = {"unschedulable_at": None}


def test_pods_without_room_are_bought_for_before_they_are_judged_and_those_with_room_are_left_to_the_scheduler() -> (
    None
):
    burst = [pod(f"p{number}", cpu=1.5, **NEW) for number in range(3)]
    decision = run_scale_up(world(burst, [pool()], [SMALL], [node("n1", of=SMALL)], now=NOW))
    assert len(orders(decision.actions)) == 2
    assert len(notes_by_reason(decision)["Planned"]) == 2
    assert "RoomExists" not in notes_by_reason(decision)


@pytest.mark.parametrize(
    ("other", "settings"),
    [
        ({}, Settings(batch_quiet_seconds=0, demand="AfterVerdict")),
        ({}, Settings(batch_quiet_seconds=0, schedulers=("growth",))),
        ({"scheduler_name": "volcano"}, Settings(batch_quiet_seconds=0)),
        ({"nominated_node": "n1"}, Settings(batch_quiet_seconds=0)),
        ({"required_node": "n1"}, Settings(batch_quiet_seconds=0)),
        ({"priority": 10}, Settings(batch_quiet_seconds=0)),
        ({"uses_resource_claims": True}, Settings(batch_quiet_seconds=0)),
        ({"group": "PodGroup.scheduling.k8s.io/train"}, Settings(batch_quiet_seconds=0)),
        ({"annotations": Labels({"growth.dev/gang": "train:many"})}, Settings(batch_quiet_seconds=0)),
        ({"volumes": (VolumeUse("data"),)}, Settings(batch_quiet_seconds=0)),
        ({"volumes": (VolumeUse("web-data", is_ephemeral=True),)}, Settings(batch_quiet_seconds=0)),
    ],
)
def test_the_verdict_is_awaited(other: dict[str, Any], settings: Settings) -> None:
    snapshot = world([pod("a", **NEW, **other)], [pool()], [SMALL], now=NOW, lowest_priority=0)
    decision = run_scale_up(snapshot, settings=settings)
    assert (decision.actions, decision.notes) == ((), ())


@pytest.mark.parametrize(
    "other",
    [
        {"priority": 10, "never_preempts": True},
        {"priority": -5},
        {"volumes": (VolumeUse("data"),)},
        {"scheduler_name": "growth"},
    ],
)
def test_what_needs_no_verdict_is_bought_for(other: dict[str, Any]) -> None:
    claim, volume = Claim("default", "data", volume="v", is_bound=True), Volume("v")
    claims = VolumeWorld(claims={"default/data": claim}, volumes={"v": volume})
    snapshot = world([pod("a", **NEW, **other)], [pool()], [SMALL], now=NOW, lowest_priority=0, volumes=claims)
    assert ordered(run_scale_up(snapshot).actions) == ["sim-small"]


def test_a_pod_of_no_pool_hears_nothing_before_it_is_judged() -> None:
    lost = pod("lost", node_selector={"growth.dev/pool": "gone"}, **NEW)
    before = run_scale_up(world([lost], [pool()], [SMALL], now=NOW))
    assert before.notes == ()
    judged = world([replace(lost, unschedulable_at=NOW)], [pool()], [SMALL], now=NOW + 1)
    assert run_scale_up(judged, before.ledger).notes != ()


def test_in_a_cluster_with_churn_nobody_is_asked_about_pods_that_came_a_moment_ago() -> None:
    ledger, settings = Ledger(), Settings()
    for tick in range(60):
        now = NOW + tick * 0.5
        coming = [pod(f"p{tick}", created_at=now, **NEW)]  # the scheduler places each before the next comes
        decision = run_scale_up(world(coming, [pool()], [SMALL], now=now), ledger, settings)
        assert decision.actions == ()
        ledger = decision.ledger


def test_a_burst_is_one_batch_whether_its_pods_are_judged_or_not() -> None:
    settings, first, second = Settings(), pod("a", created_at=NOW, **NEW), pod("b", created_at=NOW + 0.6, **NEW)
    opened = run_scale_up(world([first], [pool()], [SMALL], now=NOW), settings=settings)
    grown = run_scale_up(world([first, second], [pool()], [SMALL], now=NOW + 0.6), opened.ledger, settings)
    judged = world([replace(first, unschedulable_at=NOW + 1), second], [pool()], [SMALL], now=NOW + 1.2)
    verdict = run_scale_up(judged, grown.ledger, settings)
    assert (opened.actions, grown.actions, verdict.actions, verdict.again_at) == ((), (), (), NOW + 1.6)
    closed = run_scale_up(replace(judged, now=NOW + 1.6), verdict.ledger, settings)
    assert [spec.planned_pods for spec in orders(closed.actions)] == [("default/a", "default/b")]


OLD = node("n1", of=SMALL, created_at=NOW - 9000)
FULL = bound(pod("full", cpu=2), "n1")


def bought_for(number: int, ledger: Ledger, now: float) -> tuple[Pod, Ledger, list[str]]:
    """A machine is ordered for a pod that was not judged; the order is forgotten."""
    new = pod(f"p{number}", created_at=now - 60, **NEW)
    decision = run_scale_up(world([new, FULL], [pool()], [SMALL], [OLD], now=now), ledger)
    return new, replace(decision.ledger, orders=Ledger().orders), [note.reason for note in decision.notes]


def surprised(times: int, seconds_apart: float = 60.0) -> tuple[Ledger, float, list[str]]:
    """So many pods are bought for, and then stand on a node that was there."""
    ledger, now, told = Ledger(), NOW, list[str]()
    for number in range(times):
        new, ledger, heard = bought_for(number, ledger, now)
        after = run_scale_up(world([bound(new, "n1"), FULL], [pool()], [SMALL], [OLD], now=now + 1), ledger)
        told += [*heard, *(note.reason for note in after.notes)]
        ledger, now = after.ledger, now + seconds_apart
    return ledger, now, told


def is_foreseen(ledger: Ledger, now: float) -> bool:
    return bool(run_scale_up(world([pod("next", **NEW)], [pool()], [SMALL], now=now), ledger).actions)


def test_a_scheduler_that_finds_room_where_growth_saw_none_is_waited_for_a_day_and_that_is_told() -> None:
    ledger, now, told = surprised(3)
    assert (is_foreseen(ledger, now), told.count("VerdictAwaited")) == (True, 0)
    ledger, now, told = surprised(4)
    assert (is_foreseen(ledger, now), told.count("VerdictAwaited")) == (False, 1)
    assert not is_foreseen(ledger, now + 86_000)
    assert is_foreseen(ledger, now + 86_500)


def test_surprises_far_apart_are_forgotten() -> None:
    ledger, now, told = surprised(8, seconds_apart=1500)
    assert (is_foreseen(ledger, now), told.count("VerdictAwaited")) == (True, 0)


def test_a_pod_that_went_to_a_new_node_or_is_gone_is_no_surprise() -> None:
    ledger, now = Ledger(), NOW
    for number in range(6):
        new = pod(f"p{number}", created_at=now - 60, **NEW)
        ledger = replace(run_scale_up(world([new], [pool()], [SMALL], now=now), ledger).ledger, orders=Ledger().orders)
        young = node(f"n{number}", of=SMALL, created_at=now + 5)
        there = [bound(new, young.name)] if number % 2 else []
        ledger, now = run_scale_up(world(there, [pool()], [SMALL], [young], now=now + 9), ledger).ledger, now + 60
    assert is_foreseen(ledger, now)
    assert not ledger.trust.surprises


def test_a_pod_that_was_judged_after_all_is_no_surprise_wherever_it_is_bound_later() -> None:
    ledger, now = Ledger(), NOW
    for number in range(6):
        new, ledger, _ = bought_for(number, ledger, now)
        judged = replace(new, unschedulable_at=now + 1)
        ledger = run_scale_up(world([judged, FULL], [pool()], [SMALL], [OLD], now=now + 1), ledger).ledger
        room_came = world([bound(new, "n1")], [pool()], [SMALL], [OLD], now=now + 2)
        ledger, now = replace(run_scale_up(room_came, ledger).ledger, orders=Ledger().orders), now + 60
    assert not ledger.trust.surprises
    assert is_foreseen(ledger, now)


def test_a_scheduler_that_gives_the_room_to_others_of_the_burst_is_no_surprise() -> None:
    ledger, now = Ledger(), NOW
    for number in range(6):
        burst = [pod(f"p{number}{each}", cpu=1.5, created_at=now - 60, **NEW) for each in "ab"]
        ledger = run_scale_up(world(burst, [pool()], [SMALL], [OLD], now=now), ledger).ledger
        (left,) = (each for each in burst if each.uid in ledger.trust.foretold)
        (lodged,) = (each for each in burst if each is not left)
        ledger = replace(ledger, orders=Ledger().orders)
        swapped = [bound(left, "n1"), replace(lodged, unschedulable_at=now + 1)]
        ledger = run_scale_up(world(swapped, [pool()], [SMALL], [OLD], now=now + 1), ledger).ledger
        ledger, now = replace(ledger, orders=Ledger().orders), now + 60
    assert len(ledger.trust.surprises) == len(ledger.trust.lost_rooms) == 6
    assert is_foreseen(ledger, now)


def test_a_node_that_came_within_the_second_of_its_order_was_not_there_before() -> None:
    new, ledger, _ = bought_for(1, Ledger(), NOW + 0.7)
    there = world([bound(new, "n2"), FULL], [pool()], [SMALL], [OLD, node("n2", of=SMALL, created_at=NOW)], now=NOW + 2)
    assert not run_scale_up(there, ledger).ledger.trust.surprises
