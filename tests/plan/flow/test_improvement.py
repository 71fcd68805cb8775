"""Given running pods that would cost less elsewhere, these are moved, and only these."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import EvictPod
from growth.model.decision import Decision
from growth.model.disruption import PodDisruptionBudget
from growth.model.labels import LabelSelector
from growth.model.pod import Owner, Pod
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow import scheduling
from growth.plan.flow.improvement import why_stays
from growth.plan.flow.scheduling import Ledger
from tests.plan.builders import NOW, bound, node, pool, world
from tests.plan.builders import pod as any_pod

ON = Settings(scheduler=SchedulerSettings(enabled=True, improves=True, improvement_saving=100))
LONG_AGO = NOW - 7200
RESTED = Ledger(improve_at=NOW)


def running(name: str, on: str = "n1", cpu: float = 1, kind: str = "ReplicaSet", **fields: Any) -> Pod:
    fields = {"scheduler_name": "growth", "unschedulable_at": None, "created_at": LONG_AGO, **fields}
    own = {"owner": Owner(kind, name, f"owner-{name}"), "is_ready": True, "phase": "Running"}
    own |= {key: fields.pop(key) for key in ("owner", "is_ready", "has_local_data") if key in fields}
    return replace(bound(any_pod(name, cpu, **fields), on), **own)


def crowded(*more: Pod, **fields: Any) -> Snapshot:
    """Three pods on a node of four cores, beside one that is empty."""
    first = [running(f"p{number}", **fields) for number in range(3)]
    return world([*first, *more], nodes=[node("n1"), node("n2")])


def evicted(decision: Decision[Ledger]) -> list[str]:
    return [each.pod.name for each in decision.actions if isinstance(each, EvictPod)]


def plan(snapshot: Snapshot, ledger: Ledger = RESTED, settings: Settings = ON) -> Decision[Ledger]:
    return scheduling.plan_on_the_spot(snapshot, ledger, settings)


def test_a_pod_is_moved_and_told_why() -> None:
    decision = plan(crowded())
    assert len(evicted(decision)) == 1
    [note] = decision.notes
    assert note.reason == "Moved"
    assert note.message == "leaves node n1 for a better place: there it costs 300, on node n2 100"
    assert (decision.ledger.improve_at, decision.again_at) == (NOW + 60, NOW + 60)


def test_nobody_is_moved_unless_it_is_turned_on_and_the_first_not_before_a_minute() -> None:
    off = replace(ON, scheduler=replace(ON.scheduler, improves=False))
    assert evicted(plan(crowded(), settings=off)) == []
    first = plan(crowded(), Ledger())
    assert (evicted(first), first.ledger.improve_at, first.again_at) == ([], NOW + 60, NOW + 60)
    assert evicted(plan(crowded(), first.ledger)) == []
    assert len(evicted(plan(replace(crowded(), now=NOW + 60), first.ledger))) == 1


def test_nobody_is_moved_while_somebody_waits() -> None:
    waiting = any_pod("w", 1, scheduler_name="growth", unschedulable_at=None)
    assert evicted(plan(crowded(waiting))) == []


def test_a_pod_that_has_long_been_without_a_place_does_not_stop_moves() -> None:
    def beside(seconds: float) -> Decision[Ledger]:
        hopeless = any_pod("w", 64, scheduler_name="growth", unschedulable_at=NOW - seconds)
        return plan(crowded(hopeless), plan(crowded(hopeless)).ledger)

    lately, long_ago = beside(60), beside(3600)
    assert (evicted(lately), len(evicted(long_ago))) == ([], 1)
    assert lately.again_at is not None
    assert lately.again_at > NOW  # and it is not looked at over and over


def test_no_more_are_moved_in_a_minute_than_was_set() -> None:
    many = world([running(f"p{number}", cpu=0.25) for number in range(16)], nodes=[node("n1"), node("n2")])
    few = replace(ON, scheduler=replace(ON.scheduler, moves_per_minute=3, improvement_saving=0))
    assert len(evicted(plan(many, settings=few))) <= 3


@pytest.mark.parametrize(
    "fields",
    [
        {"scheduler_name": "default-scheduler"},
        {"annotations": {"growth.dev/do-not-disrupt": "true"}},
        {"annotations": {"growth.dev/gang": "g:1"}},
        {"owner": None},
        {"kind": "Job"},
        {"kind": "DaemonSet"},
        {"created_at": NOW - 3599},
        {"is_ready": False},
        {"has_local_data": True},
    ],
    ids=str,
)
def test_who_must_stay_is_not_moved(fields: dict[str, Any]) -> None:
    assert evicted(plan(crowded(**fields))) == []


def test_an_owner_that_made_a_pod_within_the_hour_is_left_alone() -> None:
    owner = Owner("ReplicaSet", "web", "web")
    old = [running(f"p{number}", owner=owner) for number in range(3)]
    nodes = [node("n1"), node("n2")]
    assert len(evicted(plan(world(old, nodes=nodes)))) == 1
    assert evicted(plan(world([*old, running("young", "n2", owner=owner, created_at=NOW - 60)], nodes=nodes))) == []


def test_a_budget_that_allows_nothing_is_kept() -> None:
    budget = PodDisruptionBudget("default", "b", LabelSelector(), 0)
    assert evicted(plan(replace(crowded(), disruption_budgets={"default/b": budget}))) == []


def test_nobody_is_moved_to_a_machine_that_would_be_given_back() -> None:
    assert evicted(plan(replace(crowded(), pools={"default": pool()}))) == []
    kept = running("other", "n2", created_at=NOW - 60)
    both = replace(ON, scheduler=replace(ON.scheduler, improvement_saving=99))
    assert len(evicted(plan(replace(crowded(kept), pools={"default": pool()}), settings=both))) == 1


def test_nobody_is_moved_to_a_node_that_takes_no_pods() -> None:
    snapshot = crowded()
    cordoned = replace(snapshot.nodes["n2"], is_unschedulable=True)
    assert evicted(plan(replace(snapshot, nodes={**snapshot.nodes, "n2": cordoned}))) == []


def test_people_are_told_why_a_pod_stays_or_goes() -> None:
    snapshot = crowded()
    [pod, *_] = snapshot.pods_by_node["n1"]
    assert why_stays(pod, snapshot, ON) == "leaves node n1 for a better place: there it costs 300, on node n2 100"
    dear = replace(ON, scheduler=replace(ON.scheduler, improvement_saving=300))
    assert why_stays(pod, snapshot, dear) == "it is not moved: no other place saves more than 300"
    assert why_stays(replace(pod, owner=None), snapshot, ON).startswith("it is not moved: nobody would make it again")
    assert why_stays(pod, snapshot, Settings()) == ""
