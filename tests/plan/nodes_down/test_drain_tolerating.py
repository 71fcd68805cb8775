"""Pods that tolerate the mark come back to a node that is drained: each is evicted once, then they hold nothing up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CancelRemoval, EvictPod, WriteNodeRemovalStatus
from growth.model.decision import Decision
from growth.model.disruption import PodDisruptionBudget
from growth.model.instant import format_instant
from growth.model.labels import LabelSelector
from growth.model.node import DO_NOT_DISRUPT
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestStatus, ToleratingPods
from growth.model.outcome import TryLater
from growth.model.pod import Owner, Pod, Toleration
from growth.plan.nodes_down import removal
from growth.plan.nodes_down.attempts import without_last_attempt
from growth.plan.nodes_down.drain import has_returned, owner_key
from tests.plan.builders import NOW, bound, pod
from tests.plan.nodes_down.test_drain import cluster, evicted, going, plan

EVERYTHING = (Toleration(operator="Exists"),)
OPERATOR = Owner("ReplicaSet", "operator-abc", "uid-operator")
HASH = {"pod-template-hash": "abc", "app": "operator"}


def operator(name: str, created_at: float = NOW - 300, **fields: Any) -> Pod:
    fields = {"owner": OPERATOR, "labels": HASH, "tolerations": EVERYTHING, **fields}
    return bound(pod(name, 0.1, 16, created_at=created_at, **fields), "a")


def draining(*uids: str, reason: str = "PoolDeleted") -> NodeRemovalRequest:
    """Its drain began a minute ago, with these pods of the operator."""
    known = (ToleratingPods("Deployment default/operator", uids),) if uids else ()
    return going(reason=reason, drain_began_at=format_instant(NOW - 60), tolerating=known)


def written(decision: Decision[Any]) -> NodeRemovalRequestStatus:
    (status,) = [action.status for action in decision.actions if isinstance(action, WriteNodeRemovalStatus)]
    return status


def test_they_are_written_down_when_the_drain_begins_before_any_is_evicted() -> None:
    web = bound(pod("web", owner=Owner("ReplicaSet", "web", "uid-web")), "a")
    decision = plan(cluster([operator("op-1"), operator("op-2"), web], [going(reason="PoolDeleted")]))
    assert evicted(decision) == []
    known = (ToleratingPods("Deployment default/operator", ("uid-op-1", "uid-op-2")),)
    assert (written(decision).tolerating, written(decision).drain_began_at) == (known, format_instant(NOW))


def test_they_leave_last() -> None:
    web = bound(pod("web", owner=Owner("ReplicaSet", "web", "uid-web")), "a")
    begun = draining("uid-op-1")
    assert evicted(plan(cluster([operator("op-1"), web], [begun]))) == ["web"]
    leaving = replace(web, deleted_at=NOW - 1)
    assert evicted(plan(cluster([operator("op-1"), leaving], [begun]))) == []
    assert evicted(plan(cluster([operator("op-1")], [begun]))) == ["op-1"]


def test_what_came_back_waits_while_those_that_were_there_end() -> None:
    ending, back = replace(operator("op-1"), deleted_at=NOW - 5), operator("op-2", created_at=NOW - 5)
    decision = plan(cluster([ending, back], [draining("uid-op-1")]))
    assert evicted(decision) == []
    assert written(decision).waiting_for == "1 pods to leave: default/op-1"


def test_what_came_back_is_evicted_once_directly_before_the_delete_and_does_not_hold_it_up() -> None:
    snapshot = cluster([operator("op-2", created_at=NOW - 5)], [draining("uid-op-1")])
    decision = plan(snapshot)
    assert [type(action) for action in decision.actions] == [EvictPod, WriteNodeRemovalStatus]
    assert (written(decision).phase, written(decision).removal_attempt) == ("Deprovisioning", 1)
    again = plan(snapshot, removal.Ledger(not_before={"a": NOW - 1}))  # the gate was closed
    assert [type(action) for action in again.actions] == [WriteNodeRemovalStatus]


def test_a_new_leader_does_not_evict_again_what_came_back_when_the_provider_was_too_busy_to_delete() -> None:
    first = plan(cluster([operator("op-2", created_at=NOW - 5)], [draining("uid-op-1")]))
    asked = replace(draining("uid-op-1"), status=written(first))
    busy = replace(asked, status=without_last_attempt(asked, TryLater("too many requests", 10.0), NOW))
    assert (busy.phase, busy.status.removal_attempt) == ("Pending", 0)
    anew = plan(cluster([operator("op-3", created_at=NOW - 1)], [busy]), removal.Ledger())
    assert [type(action) for action in anew.actions] == [WriteNodeRemovalStatus]
    assert written(anew).removal_attempt == 1


@pytest.mark.parametrize("by", ["annotation", "budget"])
def test_what_came_back_and_is_protected_holds_the_delete_up(by: str) -> None:
    annotations = {DO_NOT_DISRUPT: "true"} if by == "annotation" else {}
    guard = PodDisruptionBudget("default", "guard", LabelSelector(), disruptions_allowed=0)
    budgets = {"default/guard": guard} if by == "budget" else {}
    back = operator("op-2", created_at=NOW - 5, annotations=annotations)
    decision = plan(cluster([back], [draining("uid-op-1")], disruption_budgets=budgets))
    assert evicted(decision) == []
    assert written(decision).phase == "Pending"
    assert "default/op-2" in written(decision).waiting_for


def test_what_came_back_holds_nothing_up_because_it_ends_slowly() -> None:
    back = replace(operator("op-2", created_at=NOW - 5), grace_seconds=3600)
    decision = plan(cluster([back], [draining("uid-op-1")]))
    assert evicted(decision) == ["op-2"]
    assert written(decision).phase == "Deprovisioning"


def test_a_pod_of_an_owner_that_had_none_there_is_written_down_and_evicted_like_the_others() -> None:
    agent = operator("agent-1", created_at=NOW - 5, owner=Owner("Job", "agent", "uid-agent"))
    decision = plan(cluster([agent], [draining("uid-op-1")]))
    assert evicted(decision) == []
    assert ToleratingPods("Job default/agent", ("uid-agent-1",)) in written(decision).tolerating
    known = replace(draining(), status=written(decision))
    assert evicted(plan(cluster([agent], [known]))) == ["agent-1"]
    next_one = operator("agent-2", created_at=NOW - 1, owner=Owner("Job", "agent", "uid-agent"))
    assert has_returned(next_one, written(decision))


def test_a_pod_that_is_older_than_the_drain_or_does_not_tolerate_the_mark_has_not_returned() -> None:
    status = draining("uid-op-1").status
    assert has_returned(operator("op-2", created_at=NOW - 5), status)
    assert not has_returned(operator("op-1"), status)
    assert not has_returned(operator("op-3", created_at=NOW - 61), status)
    assert not has_returned(operator("op-2", created_at=NOW - 5, tolerations=()), status)
    assert not has_returned(operator("op-2", created_at=NOW - 5), NodeRemovalRequestStatus())


def test_an_empty_removal_is_taken_back_for_them_as_for_any_pod() -> None:
    decision = plan(cluster([operator("op-1")], [going(reason="Empty")]))
    assert isinstance(decision.actions[0], CancelRemoval)


@pytest.mark.parametrize(
    ("owner", "labels", "key"),
    [
        (Owner("ReplicaSet", "web-abc"), {"pod-template-hash": "abc"}, "Deployment default/web"),
        (Owner("ReplicaSet", "web-abc"), {}, "ReplicaSet default/web-abc"),
        (Owner("StatefulSet", "db"), {}, "StatefulSet default/db"),
        (Owner("Job", "report-1"), {}, "Job default/report-1"),
        (Owner("Cluster", "pg"), {}, "Cluster default/pg"),
        (None, {}, "Pod default/p"),
    ],
)
def test_the_owner_of_a_pod_is_what_makes_it_anew(owner: Owner | None, labels: dict[str, str], key: str) -> None:
    assert owner_key(pod("p", owner=owner, labels=labels)) == key
