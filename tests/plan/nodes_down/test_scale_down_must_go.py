"""Nodes that must go, whatever it costs: those that are too old, dead, or of a pool that goes (ruling 16, law S8)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest, MarkScaleDown, UnmarkScaleDown
from growth.model.node import Node
from growth.model.nodepool import DisruptionBudget
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import scale_down
from growth.plan.nodes_down.budgets import Recent
from tests.plan.buffers.worlds import buffer, buffer_world, template
from tests.plan.builders import (
    NOW,
    bound,
    limited,
    machine,
    pod,
    pool,
)
from tests.plan.nodes_down.test_scale_down import KNOWN, NAME, SMALL, idle, marked, names, plan, with_nodes


def test_an_expired_node_goes_at_once_when_idle() -> None:
    of_pool = pool("default", consolidation="Off", expire_after_seconds=1000)
    young = plan(with_nodes(idle(created_at=NOW - 900), pools=[of_pool]))
    assert (young.actions, young.again_at) == ((), NOW + 100)
    (action,) = plan(with_nodes(idle(created_at=NOW - 1000), pools=[of_pool])).actions
    assert isinstance(action, MarkScaleDown)
    assert action.scale_down_at == NOW
    (handed,) = plan(
        with_nodes(marked(created_at=NOW - 1000), pools=[of_pool], machines=[machine(NAME, SMALL)])
    ).actions
    assert isinstance(handed, CreateNodeRemovalRequest)
    assert handed.spec.reason == "Expired"


def test_an_expired_node_that_min_needs_goes_once_another_serves_or_none_can_be_had_in_time() -> None:
    """Ruling 9: pre-warmed nodes are there, whatever happens to each of them."""
    of_pool = pool("default", limited("small", 9, 1), expire_after_seconds=1000)
    alone = with_nodes(idle(created_at=NOW - 1000), pools=[of_pool])
    waits = plan(alone)
    assert (waits.actions, waits.again_at) == ((), NOW + Settings().readiness_wait_seconds)
    later = replace(alone, now=NOW + Settings().readiness_wait_seconds)
    assert names(plan(later, waits.ledger), MarkScaleDown) == [NAME]
    both = with_nodes(idle(created_at=NOW - 1000), idle("default-pool-2"), pools=[of_pool])
    assert names(plan(both, waits.ledger), MarkScaleDown) == [NAME]
    old = with_nodes(idle(created_at=NOW - 1000), idle("default-pool-2", created_at=NOW - 2000), pools=[of_pool])
    assert names(plan(old, waits.ledger), MarkScaleDown) == [NAME]  # and the other stays


def test_an_expired_node_that_a_buffer_needs_goes_only_within_the_budgets() -> None:
    of_pool = pool("default", expire_after_seconds=1000, budgets=(DisruptionBudget("1"),))
    old = [idle(f"default-pool-{number}", created_at=NOW - 2000) for number in range(3)]
    spare = buffer_world([buffer(replicas=3)], template(1.5))
    assert len(names(plan(with_nodes(*old, pools=[of_pool], buffers=spare), KNOWN), MarkScaleDown)) == 1
    assert len(names(plan(with_nodes(*old, pools=[of_pool]), KNOWN), MarkScaleDown)) == 3


@pytest.mark.parametrize(
    ("fields", "node", "why"),
    [
        ({"deleted_at": NOW}, idle(), "it goes: NodePool default is being deleted"),
        (
            {"expire_after_seconds": 100},
            idle(created_at=NOW - 900),
            "it goes: it is older than NodePool default allows",
        ),
    ],
)
def test_a_node_that_must_go_is_told_why_and_not_that_pods_could_keep_it(
    fields: dict[str, Any], node: Node, why: str
) -> None:
    of_pool = pool("default", limited("small", 9), **fields)
    assert [note.message for note in plan(with_nodes(node, pools=[of_pool])).notes] == [why]


def busy(count: int, **fields: Any) -> Snapshot:
    nodes = [idle(f"default-pool-{number:02d}", created_at=NOW - 9000) for number in range(count)]
    pods = [bound(pod(f"p-{each.name}"), each.name) for each in nodes]
    return with_nodes(*nodes, pods=pods, **fields)


@pytest.mark.parametrize(
    ("count", "budget", "going"), [(5, "10%", 1), (30, "10%", 3), (5, "2", 2), (5, "0", 0), (5, "0%", 0), (5, "x", 0)]
)
def test_nodes_with_pods_of_a_pool_that_goes_are_drained_within_the_budget(count: int, budget: str, going: int) -> None:
    of_pool = pool("default", deleted_at=NOW, budgets=(DisruptionBudget("50%"), DisruptionBudget(budget)))
    assert len(names(plan(busy(count, pools=[of_pool]), KNOWN), MarkScaleDown)) == going


def test_law_s8_the_nodes_of_a_pool_that_goes_keep_to_the_window() -> None:
    of_pool = pool("default", deleted_at=NOW, budgets=(DisruptionBudget("1"),))
    gone = scale_down.Ledger(recent=Recent(NOW - 9000, {"gone": ("default", NOW - 300)}))
    assert names(plan(busy(5, pools=[of_pool]), gone), MarkScaleDown) == []
    assert len(names(plan(replace(busy(5, pools=[of_pool]), now=NOW + 301), gone), MarkScaleDown)) == 1


def test_law_s8_after_a_restart_the_first_window_is_waited_for_unless_the_pool_is_younger() -> None:
    of_pool = pool("default", deleted_at=NOW, budgets=(DisruptionBudget("1"),))
    unknown = plan(busy(5, pools=[of_pool]))
    assert (unknown.actions, unknown.again_at) == ((), NOW + 600)
    young = replace(of_pool, created_at=NOW - 50)
    assert len(names(plan(busy(5, pools=[young]), scale_down.Ledger(recent=Recent(NOW - 60))), MarkScaleDown)) == 1


def test_what_is_being_disrupted_already_uses_the_budget_up() -> None:
    of_pool = pool("default", deleted_at=NOW, budgets=(DisruptionBudget("2"),))
    removal = NodeRemovalRequest(
        "default-pool-00", NodeRemovalRequestSpec("default-pool-00", "default", reason="PoolDeleted")
    )
    assert len(names(plan(busy(5, pools=[of_pool], removals=[removal]), KNOWN), MarkScaleDown)) == 1


def test_nodes_with_pods_that_are_too_old_are_left_to_renewal() -> None:
    of_pool = pool("default", expire_after_seconds=1000, budgets=(DisruptionBudget("100%"),))
    assert plan(busy(3, pools=[of_pool]), KNOWN).actions == ()
    (handed,) = plan(
        with_nodes(
            marked(created_at=NOW - 9000),
            pods=[bound(pod("a"), NAME)],
            pools=[of_pool],
            machines=[machine(NAME, SMALL)],
        )
    ).actions
    assert isinstance(handed, CreateNodeRemovalRequest)
    assert handed.spec.reason == "Expired"


# ------------------------------------------------------------------------------------------- repair


def ill(name: str = NAME, seconds: float = 1000.0) -> Node:
    return idle(name, is_ready=False, created_at=NOW - 9000, ready_changed_at=NOW - seconds)


def test_a_node_that_is_not_ready_for_long_is_given_up_within_the_budget() -> None:
    others = [idle(f"default-pool-{number:02d}") for number in range(20)]
    works = [bound(pod(f"p-{each.name}"), each.name) for each in (*others, ill(), ill("default-pool-sick"))]
    snapshot = with_nodes(
        *others, ill(), ill("default-pool-sick"), pods=works, pools=[pool("default", budgets=(DisruptionBudget("1"),))]
    )
    assert names(plan(snapshot, KNOWN), MarkScaleDown) == [NAME]
    marked_ill = marked(is_ready=False, created_at=NOW - 9000, ready_changed_at=NOW - 1000)
    (handed,) = plan(
        with_nodes(marked_ill, pods=[bound(pod("a"), NAME)], machines=[machine(NAME, SMALL)]), KNOWN
    ).actions
    assert isinstance(handed, CreateNodeRemovalRequest)
    assert handed.spec.reason == "Unhealthy"


def test_the_last_node_of_a_pool_that_goes_is_given_up_although_it_is_not_ready_itself() -> None:
    """It uses the budget up, and must not wait for itself."""
    of_pool = pool("default", deleted_at=NOW, budgets=(DisruptionBudget("10%"),))
    snapshot = with_nodes(ill(), pods=[bound(pod("a"), NAME)], pools=[of_pool])
    assert names(plan(snapshot, KNOWN), MarkScaleDown) == [NAME]
    other = idle("default-pool-02", created_at=NOW - 9000)
    works = [bound(pod("a"), NAME), bound(pod("b"), other.name)]
    assert names(plan(with_nodes(ill(), other, pods=works, pools=[of_pool]), KNOWN), MarkScaleDown) == [NAME]


def test_a_short_illness_is_waited_for_and_a_node_that_never_was_ready_is_not_ours_to_give_up() -> None:
    decision = plan(with_nodes(ill(seconds=800), pods=[bound(pod("a"), NAME)]), KNOWN)
    assert (decision.actions, decision.again_at) == ((), NOW + 100)
    unborn = idle(is_ready=False, created_at=NOW - 9000, ready_changed_at=NOW - 9000)
    assert plan(with_nodes(unborn, pods=[bound(pod("a"), NAME)]), KNOWN).actions == ()


def test_law_s8_nothing_is_given_up_while_many_nodes_are_not_ready() -> None:
    sick = [ill(f"default-pool-{number:02d}") for number in range(3)]
    well = [idle(f"default-pool-w{number:02d}") for number in range(10)]
    works = [bound(pod(f"p-{each.name}"), each.name) for each in (*sick, *well)]
    assert plan(with_nodes(*sick, *well, pods=works), KNOWN).actions == ()
    many = [*well, *(idle(f"default-pool-x{number:02d}") for number in range(10))]
    works = [bound(pod(f"p-{each.name}"), each.name) for each in (*sick, *many)]
    assert len(names(plan(with_nodes(*sick, *many, pods=works), KNOWN), MarkScaleDown)) == 2  # ten per cent of 23


def test_ruling_16_the_nodes_of_a_pool_that_goes_are_drained_within_the_budgets_and_min_no_longer_holds() -> None:
    going = pool("default", limited("small", 9, 5), deleted_at=NOW, budgets=(DisruptionBudget("1"),))
    snapshot = busy(3, pools=[going])
    empty = idle("default-pool-99")
    decision = plan(replace(snapshot, nodes={**snapshot.nodes, empty.name: empty}), KNOWN)
    assert names(decision, MarkScaleDown) == ["default-pool-00", "default-pool-99"]
    (action,) = plan(
        with_nodes(marked(), pods=[bound(pod("a"), NAME)], pools=[going], machines=[machine(NAME, SMALL)])
    ).actions
    assert isinstance(action, CreateNodeRemovalRequest)
    assert action.spec.reason == "PoolDeleted"


def test_ruling_16_a_pool_that_orphans_its_nodes_leaves_them_alone() -> None:
    going = pool("default", deleted_at=NOW, annotations={"growth.dev/orphan-nodes": "true"})
    assert plan(with_nodes(idle(), pools=[going])).actions == ()


def test_the_marks_on_nodes_that_a_pool_leaves_alone_are_taken_off() -> None:
    going = pool("default", deleted_at=NOW, annotations={"growth.dev/orphan-nodes": "true"})
    (action,) = plan(with_nodes(idle(), marked("default-pool-2"), pools=[going])).actions
    assert isinstance(action, UnmarkScaleDown)
    assert action.node.name == "default-pool-2"


def test_what_is_left_of_a_node_without_a_machine_is_handed_over_without_a_mark() -> None:
    """When it is Ready again it is a stranger's, and nobody could take growth's mark off it."""
    others = [idle(f"default-pool-{number:02d}") for number in range(20)]
    works = [bound(pod(f"p-{each.name}"), each.name) for each in others]
    machines = [machine(each.name, SMALL) for each in others]
    gone = with_nodes(*others, ill(seconds=1000), pods=works, machines=machines)
    (action,) = plan(gone, KNOWN).actions
    assert isinstance(action, CreateNodeRemovalRequest)
    assert (action.node.name, action.spec.machine_id, action.spec.reason) == (NAME, "", "Unhealthy")
    there = with_nodes(*others, ill(seconds=1000), pods=works, machines=[*machines, machine(NAME, SMALL)])
    assert names(plan(there, KNOWN), MarkScaleDown) == [NAME]
