"""Pods of the default scheduler are growth's only where it is so set, and only while kube-scheduler is surely away."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.scheduler import DEFAULT_SCHEDULER, KubeScheduler, SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow.scheduling import Ledger
from growth.plan.nodes_up import joining
from growth.plan.world.capacity import in_force
from tests.plan.builders import NOW, node, pool, world
from tests.plan.builders import pod as any_pod
from tests.plan.flow.test_scheduling import plan, sent

ALSO = Settings(scheduler=SchedulerSettings(enabled=True, serves_default=True))
ITSELF = Settings(scheduler=SchedulerSettings(enabled=True, name=DEFAULT_SCHEDULER))
AWAY, GONE, RELEASED = KubeScheduler(True), KubeScheduler(True, "vm-1", NOW - 1), KubeScheduler(True, "", NOW + 9)
THERE, UNKNOWN = KubeScheduler(True, "vm-1", NOW + 9), KubeScheduler()


def two(other: KubeScheduler, **fields: Any) -> Snapshot:
    """A pod of kube-scheduler and one of growth."""
    usual, own = any_pod("usual", unschedulable_at=None, **fields), any_pod("own", scheduler_name="growth", **fields)
    return replace(world([usual, own], nodes=[node("n1"), node("n2")]), kube_scheduler=other)


@pytest.mark.parametrize("other", [AWAY, GONE, RELEASED])
def test_where_kube_scheduler_is_away_its_pods_are_bound_as_well(other: KubeScheduler) -> None:
    assert sorted(sent(plan(two(other), settings=ALSO))) == ["own", "usual"]
    assert sorted(sent(plan(two(other), settings=ITSELF))) == ["usual"]
    assert sorted(sent(plan(two(other)))) == ["own"]


@pytest.mark.parametrize("other", [THERE, UNKNOWN])
def test_while_it_is_there_or_that_is_not_known_its_pods_are_left_to_it(other: KubeScheduler) -> None:
    assert sorted(sent(plan(two(other), settings=ALSO))) == ["own"]
    assert sorted(sent(plan(two(other), settings=ITSELF))) == []


def test_it_is_told_when_it_is_known_and_when_it_changes_and_growth_wakes_when_the_lease_ends() -> None:
    first = plan(two(THERE), settings=ITSELF)
    [note] = first.notes
    assert (str(note.about), note.reason, note.severity) == (
        "Lease kube-system/kube-scheduler",
        "LeftToKubeScheduler",
        "Warning",
    )
    assert "vm-1 renews it" in note.message
    assert first.again_at == NOW + 9
    assert plan(two(THERE), first.ledger, ITSELF).notes == ()
    second = plan(replace(two(THERE), now=NOW + 9), first.ledger, ITSELF)
    assert [note.reason for note in second.notes] == ["ServesDefaultScheduler"]
    assert sent(second)
    back = plan(two(THERE), replace(second.ledger, is_back=True), ITSELF)
    assert [note.reason for note in back.notes][-1:] == ["LeftToKubeScheduler"]
    assert sent(back) == {}
    assert plan(two(UNKNOWN), settings=ITSELF).notes == ()


def test_a_round_that_is_told_nothing_forgets_nothing() -> None:
    after = plan(replace(two(AWAY), waiting_pods=()), settings=ALSO).ledger
    assert plan(replace(two(AWAY), waiting_pods=()), after, ALSO).notes == ()
    assert Ledger().told == ""


def test_the_settings_in_force_are_the_same_ones_in_the_same_moment() -> None:
    there = two(THERE)
    assert in_force(ALSO, there) is in_force(ALSO, there)
    assert in_force(ALSO, two(AWAY)) is ALSO
    assert not in_force(ITSELF, there).scheduler.enabled


def test_planned_pods_are_bound_in_its_stead_even_where_the_pool_leaves_that_to_the_scheduler() -> None:
    leaving, away = pool(bind_planned_pods=False), two(AWAY)
    usual = away.waiting_pods[0]
    assert joining.may_bind(usual, leaving, away, in_force(ALSO, away).scheduler)
    assert not joining.may_bind(usual, leaving, two(THERE), in_force(ALSO, two(THERE)).scheduler)
