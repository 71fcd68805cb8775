"""How a node is emptied: in batches, low priority first, within budgets; and when a node that was to save money is kept
after all.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CancelRemoval, EvictPod, MarkScaleDown, UnmarkScaleDown, WriteNodeRemovalStatus
from growth.model.decision import Decision, Settled
from growth.model.disruption import PodDisruptionBudget
from growth.model.instant import format_instant
from growth.model.labels import LabelSelector
from growth.model.node import SCALE_DOWN_AT, SCALE_DOWN_TAINT, Node
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec, NodeRemovalRequestStatus
from growth.model.outcome import Accepted, TryLater
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import removal
from growth.plan.world.marks import CONSOLIDATION_TAINT
from growth.plan.world.turn import seen
from tests.plan.builders import NOW, bound, machine, node, notes_by_reason, offering, pod, pool, world
from tests.plan.nodes_down.test_consolidation import works

SMALL = offering("small", 4, 8192, 0.01)
SETTINGS = Settings(evictions_at_once=2)


def plan(
    snapshot: Snapshot, ledger: removal.Ledger | None = None, settings: Settings = SETTINGS
) -> Decision[removal.Ledger]:
    return removal.plan(snapshot, ledger or removal.Ledger(), settings)


def going(
    name: str = "a", reason: str = "Consolidated", created_at: float = NOW - 60, **fields: Any
) -> NodeRemovalRequest:
    spec = NodeRemovalRequestSpec(name, "default", "sim-small", f"id-{name}", reason)
    return NodeRemovalRequest(name, spec, NodeRemovalRequestStatus(**fields), f"uid-{name}", "5", created_at=created_at)


def emptying(name: str = "a") -> Node:
    return node(name, of=SMALL, taints=(CONSOLIDATION_TAINT,), annotations={SCALE_DOWN_AT: format_instant(NOW - 60)})


def cluster(
    pods: list[Pod], removals: list[NodeRemovalRequest] | None = None, others: tuple[str, ...] = ("b",), **fields: Any
) -> Snapshot:
    removals = removals or [going()]
    of_nodes = [*(emptying(each.name) for each in removals), *(node(name, of=SMALL) for name in others)]
    machines = [machine(each.name, SMALL) for each in of_nodes]
    return world(
        pods=pods,
        nodes=of_nodes,
        offerings=[SMALL],
        pools=[pool("default", "small", consolidation="Full")],
        removals=removals,
        machines=machines,
        **fields,
    )


def evicted(decision: Decision[Any]) -> list[str]:
    return [action.pod.name for action in decision.actions if isinstance(action, EvictPod)]


def waiting_for(decision: Decision[Any]) -> list[str]:
    return [action.status.waiting_for for action in decision.actions if isinstance(action, WriteNodeRemovalStatus)]


def many(count: int, on: str = "a") -> list[Pod]:
    return [works(f"p{number}", on, 0.1) for number in range(count)]


def test_pods_leave_in_batches() -> None:
    decision = plan(cluster(many(5)))
    assert evicted(decision) == ["p0", "p1"]
    assert waiting_for(decision) == ["5 pods to leave: default/p0, default/p1, default/p2, …"]


def test_the_next_batch_waits_until_those_that_leave_have_left() -> None:
    leaving = [replace(each, deleted_at=NOW - 1) for each in many(2)]
    assert evicted(plan(cluster([*leaving, *many(5)[2:]]))) == []
    assert evicted(plan(cluster([leaving[0], *many(5)[2:]]))) == ["p2"]


def test_an_accepted_eviction_counts_as_leaving_before_the_cache_shows_it() -> None:
    snapshot = cluster(many(3))
    first = plan(snapshot)
    ledger = first.ledger
    for action in first.actions:
        ledger = removal.settle(Settled(action, Accepted()), snapshot, ledger, SETTINGS).ledger
    assert evicted(plan(snapshot, ledger)) == []
    assert evicted(plan(replace(snapshot, now=NOW + 6), ledger)) == ["p0", "p1"]


def test_a_budget_that_refuses_holds_up_nobody_else() -> None:
    snapshot = cluster(many(4))
    ledger = plan(snapshot).ledger
    for each in many(2):
        ledger = removal.settle(
            Settled(EvictPod(seen(each)), TryLater("budget", 10.0)), snapshot, ledger, SETTINGS
        ).ledger
    assert evicted(plan(snapshot, ledger)) == ["p2", "p3"]
    assert plan(snapshot, ledger).again_at is not None


def test_low_priority_leaves_first() -> None:
    ranked = [works("high", "a", 0.1, priority=1000), works("low", "a", 0.1, priority=-5), works("middle", "a", 0.1)]
    assert evicted(plan(cluster(ranked))) == ["low", "middle"]


def test_several_nodes_drain_side_by_side() -> None:
    decision = plan(cluster([*many(3), works("q", "c", 0.1)], [going(), going("c")]))
    assert evicted(decision) == ["p0", "p1", "q"]


def test_what_a_drain_waits_for_is_written_down() -> None:
    blocked = PodDisruptionBudget("default", "web", LabelSelector(), 0)
    decision = plan(cluster(many(1), disruption_budgets={blocked.key: blocked}))
    assert evicted(decision) == ["p0"]  # the API server has the last word
    assert waiting_for(decision) == [
        (
            "1 pods to leave: default/p0; pod default/p0 is guarded by PodDisruptionBudget default/web, which allows "
            "no disruption now"
        )
    ]


# --------------------------------------------------------------------------------------- taken back


def taken_back(decision: Decision[Any]) -> str:
    assert [type(action) for action in decision.actions[:2]] == [CancelRemoval, UnmarkScaleDown]
    unmark = decision.actions[1]
    assert isinstance(unmark, UnmarkScaleDown)
    assert CONSOLIDATION_TAINT not in unmark.taints
    (told,) = notes_by_reason(decision)["RemovalCancelled"]
    return told.removeprefix("Node a: the node stays: ")


def test_when_the_rest_no_longer_fits_the_node_stays() -> None:
    crowded = [*many(2), works("big", "a", 2), works("q", "b", 3)]
    assert taken_back(plan(cluster(crowded))).startswith(
        "its pods cannot be rescheduled: insufficient cpu on the 1 remaining node"
    )


def test_nodes_that_drain_side_by_side_are_not_promised_the_same_room() -> None:
    decision = plan(cluster([works("p", "a", 3), works("q", "c", 3)], [going(), going("c")]))
    assert evicted(decision) == ["p"]
    assert [type(action) for action in decision.actions if not isinstance(action, EvictPod)][-2:] == [
        CancelRemoval,
        UnmarkScaleDown,
    ]


def test_when_it_cannot_finish_in_time_the_node_stays() -> None:
    stuck = [works("p0", "a", 0.1)]
    late = cluster(stuck, [going(created_at=NOW - 901)])
    assert taken_back(plan(late)) == "it was not empty after 900 s: 1 pods to leave: default/p0"
    assert evicted(plan(cluster(stuck, [going(created_at=NOW - 899)]))) == ["p0"]


def test_when_a_pod_waits_that_would_fit_there_the_node_stays() -> None:
    assert taken_back(plan(cluster([*many(1), pod("waits", 3), works("q", "b", 3)]))) == "a pod waits that fits there"
    assert evicted(plan(cluster([*many(1), pod("waits", 30)]))) == ["p0"]


@pytest.mark.parametrize(
    "wish",
    [{"annotations": {"growth.dev/do-not-disrupt": "true"}}, {"owner": None}, {"has_local_data": True}],
    ids=["do not disrupt", "bare", "local data"],
)
def test_when_a_pod_has_come_that_must_not_move_the_node_stays(wish: dict[str, Any]) -> None:
    assert "pod default/new" in taken_back(plan(cluster([*many(1), works("new", "a", 0.1, **wish)])))


def test_a_budget_that_recovers_is_waited_for_not_rolled_back() -> None:
    spent = PodDisruptionBudget("default", "web", LabelSelector(), 0)
    assert evicted(plan(cluster(many(3), disruption_budgets={spent.key: spent}))) == ["p0", "p1"]


def test_a_request_that_a_person_deletes_is_taken_back() -> None:
    assert taken_back(plan(cluster(many(1), [replace(going(), deleted_at=NOW)]))) == "the request was deleted"


@pytest.mark.parametrize("reason", ["PoolDeleted", "Expired", "NotReady"])
def test_nodes_that_go_for_other_reasons_are_drained_whether_or_not_there_is_room(reason: str) -> None:
    crowded = [*many(3), works("q", "b", 3.9)]
    decision = plan(cluster(crowded, [going(reason=reason, created_at=NOW - 9000)]))
    assert evicted(decision) == ["p0", "p1"]


def test_an_empty_node_goes_on_to_the_provider() -> None:
    decision = plan(cluster([bound(pod("done"), "a", "Succeeded")]))
    (write,) = decision.actions
    assert isinstance(write, WriteNodeRemovalStatus)
    assert write.status.phase == "Deprovisioning"


def test_an_empty_node_waits_until_the_scheduler_has_looked_at_those_that_came_in_place_of_its_pods() -> None:
    fresh = replace(pod("new", 3), unschedulable_at=None, created_at=NOW - 2)
    unclear = plan(cluster([fresh]))
    assert (unclear.actions, unclear.again_at) == ((), NOW + 1)
    ignored = replace(fresh, created_at=NOW - 20)
    assert [type(action) for action in plan(cluster([ignored])).actions] == [WriteNodeRemovalStatus]
    assert taken_back(plan(cluster([replace(fresh, unschedulable_at=NOW - 1)]))) == "a pod waits that fits there"
    assert [type(action) for action in plan(cluster([replace(fresh)], [going(reason="Expired")])).actions] == [
        WriteNodeRemovalStatus
    ]


@pytest.mark.parametrize("has_annotation", [True, False])
@pytest.mark.parametrize("machine_id", ["", "id-a"])
def test_no_pod_is_evicted_from_a_node_without_the_mark_since_it_would_come_back(
    machine_id: str, has_annotation: bool
) -> None:
    """A person wrote the removal, or took the taint or all of the mark off."""
    begun = going(reason="Expired", drain_began_at=format_instant(NOW - 30))
    begun = replace(begun, spec=replace(begun.spec, machine_id=machine_id))
    at = {SCALE_DOWN_AT: format_instant(NOW - 60)} if has_annotation else {}
    seen_at = cluster([bound(pod("p"), "a")], [begun])
    bare = replace(seen_at, nodes={**seen_at.nodes, "a": node("a", of=SMALL, annotations=at)})
    (mark,) = [action for action in plan(bare).actions if not isinstance(action, WriteNodeRemovalStatus)]
    assert isinstance(mark, MarkScaleDown)
    assert any(taint.key == SCALE_DOWN_TAINT.key for taint in mark.taints)
    assert EvictPod in [type(action) for action in plan(seen_at).actions]
