"""Given a pod without a place, these others make way for it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.action import BindPods, EvictPod, NominatePod
from growth.model.decision import Decision, Settled
from growth.model.disruption import PodDisruptionBudget
from growth.model.gang import GANG, PLUGIN_POD_GROUP
from growth.model.labels import LabelSelector
from growth.model.outcome import TryLater
from growth.model.pod import Pod
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import PodGroups, Snapshot
from growth.plan.flow import scheduling
from growth.plan.flow.scheduling import Ledger, settle
from tests.plan.builders import NOW, bound, node, offering, pool, request, world
from tests.plan.builders import pod as any_pod

LONG_AGO = NOW - 60
SMALL = offering("small", 4, 8192, 0.1)


def wishes(preemption: Literal["Auto", "BuyFirst", "PreemptFirst", "Never"] = "Auto") -> Settings:
    return Settings(scheduler=SchedulerSettings(enabled=True, preemption=preemption))


def pod(name: str, cpu: float = 1, priority: int = 0, **fields: Any) -> Pod:
    fields = {"scheduler_name": "growth", "unschedulable_at": LONG_AGO, "priority": priority, **fields}
    return any_pod(name, cpu, **fields)


def full(*rows: tuple[str, int], cpu: float = 2, on: str = "n1", **fields: Any) -> list[Pod]:
    """Pods that run, with their priorities; a node has four cores."""
    return [bound(pod(name, cpu, priority, **fields), on) for name, priority in rows]


def plan(snapshot: Snapshot, wish: Settings | None = None, ledger: Ledger | None = None) -> Decision[Ledger]:
    return scheduling.plan_on_the_spot(snapshot, ledger or Ledger(), wish or wishes())


def nominated(decision: Decision[Ledger]) -> dict[str, str]:
    return {each.pod.name: each.node_name for each in decision.actions if isinstance(each, NominatePod)}


def evicted(decision: Decision[Ledger]) -> list[str]:
    return sorted(each.pod.name for each in decision.actions if isinstance(each, EvictPod))


def way(pods: list[Pod], **fields: Any) -> tuple[dict[str, str], list[str]]:
    """Where the pod `high` is nominated to, and who is evicted once it is."""
    fields.setdefault("nodes", [node("n1"), node("n2")])
    snapshot = world(pods, **fields)
    first = plan(snapshot)
    sent = nominated(first)
    assert evicted(first) == []
    waiting = tuple(replace(each, nominated_node=sent.get(each.name, "")) for each in snapshot.waiting_pods)
    return sent, evicted(plan(replace(snapshot, waiting_pods=waiting)))


def test_the_least_important_makes_way_and_only_as_many_as_must() -> None:
    others = [*full(("a", 5), ("b", 1)), *full(("c", 5), ("d", 5), on="n2")]
    assert way([*others, pod("high", 2, 10)]) == ({"high": "n1"}, ["b"])
    assert way([*others, pod("high", 4, 10)])[1] == ["a", "b"]


def test_nobody_of_the_same_priority_makes_way() -> None:
    others = [*full(("a", 10), ("b", 10)), *full(("c", 11), ("d", 10), on="n2")]
    assert way([*others, pod("high", 2, 10)]) == ({}, [])


@pytest.mark.parametrize(
    "fields",
    [
        {"annotations": {"growth.dev/do-not-disrupt": "true"}},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        {"annotations": {GANG: "train:2"}},
        {"is_mirror": True},
    ],
)
def test_who_must_stay_is_no_victim(fields: dict[str, Any]) -> None:
    pods = [*full(("a", 1), ("b", 1), **fields), *full(("c", 4), ("d", 4), on="n2"), pod("high", 2, 10)]
    assert way(pods)[0] == {"high": "n2"}
    assert way([*pods[:2], pods[-1]], nodes=[node("n1")]) == ({}, [])


def test_a_budget_is_never_overdrawn() -> None:
    labels = {"app": "web"}
    pods = [*full(("a", 1), ("b", 1), labels=labels), pod("high", 4, 10)]
    budget = PodDisruptionBudget("default", "web", LabelSelector(), 1)
    one = {"disruption_budgets": {budget.key: budget}, "nodes": [node("n1")]}
    assert way(pods, **one) == ({}, [])
    assert way([*pods[:2], pod("high", 2, 10)], **one)[1] in (["a"], ["b"])
    two = {"disruption_budgets": {budget.key: replace(budget, disruptions_allowed=2)}, "nodes": [node("n1")]}
    assert way(pods, **two)[1] == ["a", "b"]


def test_a_pod_that_must_not_preempt_and_one_of_a_gang_wait() -> None:
    others = full(("a", 1), ("b", 1))
    peaceful, member = pod("high", 2, 10, never_preempts=True), pod("high", 2, 10, annotations={GANG: "t:1"})
    for each in (peaceful, member):
        assert way([*others, each], nodes=[node("n1")]) == ({}, [])


def test_who_was_asked_to_leave_is_waited_for_and_the_room_is_for_nobody_else() -> None:
    leaving = replace(full(("a", 1), cpu=4)[0], deleted_at=NOW)
    pods = [leaving, pod("high", 4, 10, nominated_node="n1"), pod("small", 1, 1, unschedulable_at=None)]
    decision = plan(world(pods, nodes=[node("n1")]))
    assert (nominated(decision), evicted(decision)) == ({}, [])
    gone = plan(world(pods[1:], nodes=[node("n1")]), ledger=decision.ledger)
    assert [one.pod.name for each in gone.actions if isinstance(each, BindPods) for one in each.assignments] == ["high"]


def test_what_can_be_bought_is_bought_first_unless_machines_come_slowly() -> None:
    just_now = pod("high", 4, 10, unschedulable_at=NOW - 1)
    pods = [*full(("a", 1), cpu=4), just_now]
    nodes = [node("n1")]
    assert nominated(plan(world(pods, [pool()], nodes=nodes))) == {}
    assert plan(world(pods, [pool()], nodes=nodes)).again_at is not None
    assert nominated(plan(world(pods, [pool()], nodes=nodes), wishes("PreemptFirst"))) == {"high": "n1"}
    assert (
        nominated(plan(world([pods[0], replace(just_now, unschedulable_at=LONG_AGO)], nodes=nodes), wishes("Never")))
        == {}
    )
    slow = replace(request("r1", SMALL, "Ready", changed_at=NOW - 10), created_at=NOW - 500)
    assert nominated(plan(world(pods, [pool()], [SMALL], nodes, [slow]))) == {"high": "n1"}
    coming = request("r2", SMALL, "Provisioning", planned=["default/high"])
    assert nominated(plan(world([pods[0], pod("high", 4, 10)], [pool()], [SMALL], nodes, [coming]))) == {}


def test_where_there_is_no_pool_nobody_waits_for_a_machine() -> None:
    without = world([*full(("a", 1), cpu=4), pod("high", 4, 10, unschedulable_at=NOW)], nodes=[node("n1")])
    assert nominated(plan(without)) == nominated(plan(without, wishes("BuyFirst"))) == {"high": "n1"}
    assert nominated(plan(without, wishes("Never"))) == {}


def test_after_a_refused_eviction_nobody_is_asked_for_a_while() -> None:
    snapshot = world([*full(("a", 1), cpu=4), pod("high", 4, 10, nominated_node="n1")], nodes=[node("n1")])
    decision = plan(snapshot)
    [eviction] = [each for each in decision.actions if isinstance(each, EvictPod)]
    refused = settle(Settled(eviction, TryLater("budget")), snapshot, decision.ledger, wishes())
    assert refused.again_at is not None
    assert evicted(plan(replace(snapshot, now=refused.again_at), ledger=refused.ledger)) == []
    assert evicted(plan(replace(snapshot, now=NOW + 60), ledger=refused.ledger)) == ["a"]


def test_where_somebody_else_gets_the_room_others_make_way_ever_more_rarely() -> None:
    snapshot = world([*full(("a", 1), cpu=4), pod("high", 4, 10, nominated_node="n1")], nodes=[node("n1")])
    ledger, at = Ledger(), []
    for seconds in range(0, 14_400, 30):
        decision = plan(replace(snapshot, now=NOW + seconds), ledger=ledger)
        ledger = decision.ledger
        at += [seconds] if evicted(decision) else []
    assert at == [0, 60, 180, 420, 900, 1860, 3780, 7380, 10_980]


def test_pods_of_another_scheduler_make_way_for_nobody() -> None:
    """It would put their successors back into the room at once."""
    stranger = bound(pod("a", 4, 1, scheduler_name="default-scheduler"), "n1")
    assert way([stranger, pod("high", 4, 10)], nodes=[node("n1")]) == ({}, [])


@pytest.mark.parametrize(("absent", "leaves"), [((), []), ((PLUGIN_POD_GROUP,), ["a"])])
def test_who_names_a_group_of_a_kind_that_is_not_served_is_in_no_gang(
    absent: tuple[str, ...], leaves: list[str]
) -> None:
    [member] = full(("a", 1), cpu=4)
    pods = [replace(member, group=f"{PLUGIN_POD_GROUP}/some"), pod("high", 4, 10)]
    assert way(pods, nodes=[node("n1")], pod_groups=PodGroups(absent=frozenset(absent)))[1] == leaves


rows = st.lists(st.tuples(st.sampled_from([0.5, 1, 2, 3]), st.integers(0, 3)), max_size=5)


@settings(max_examples=40)
@given(st.lists(rows, min_size=1, max_size=3), st.sampled_from([1, 2, 4]), st.integers(0, 4))
def test_victims_are_less_important_leave_room_and_none_leaves_in_vain(
    crowds: list[list[tuple[float, int]]], cpu: float, priority: int
) -> None:
    nodes = [node(f"n{number}") for number in range(len(crowds))]
    others: list[Pod] = []
    for number, crowd in enumerate(crowds):
        left = 4.0
        for each, (size, rank) in enumerate(crowd):
            if size <= left:
                left -= size
                others.append(bound(pod(f"p{number}-{each}", size, rank), f"n{number}"))
    sent, victims = way([*others, pod("high", cpu, priority)], nodes=nodes)
    gone = [each for each in others if each.name in victims]
    assert all(each.shape.priority < priority and each.node_name == sent["high"] for each in gone)
    here = [each for each in others if gone and each.node_name == sent["high"]]
    free = 4000 - sum(each.shape.requests["cpu"] for each in here)
    freed = sum(each.shape.requests["cpu"] for each in gone)
    assert not gone or free + freed >= 1000 * cpu
    assert all(free + freed - each.shape.requests["cpu"] < 1000 * cpu for each in gone)
