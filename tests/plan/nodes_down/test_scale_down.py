"""Nodes that are not needed: marked, watched, and handed to removal (rulings 4, 5, 9, 11, 16; the node table)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest, MarkScaleDown, UnmarkScaleDown
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.node import POOL_LABEL, REQUEST_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, STARTUP_TAINT, Node, Taint
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec
from growth.model.offering import Machine
from growth.model.outcome import Accepted, Conflict, TryLater
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import scale_down
from growth.plan.nodes_down.budgets import Recent
from growth.plan.world.turn import seen
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

SMALL = offering("small", 2, 4096, 0.01)
SETTINGS = Settings()
KNOWN = scale_down.Ledger(recent=Recent(NOW - 9000))
NAME = "default-pool-1"
OTHER = Taint("team", "a", "NoSchedule")


def plan(
    snapshot: Snapshot, ledger: scale_down.Ledger | None = None, settings: Settings = SETTINGS
) -> Decision[scale_down.Ledger]:
    return scale_down.plan(snapshot, ledger or scale_down.Ledger(), settings)


def idle(name: str = NAME, **fields: Any) -> Node:
    return node(name, of=fields.pop("of", SMALL), **fields)


def marked(name: str = NAME, due: float = NOW - 1, **fields: Any) -> Node:
    taints = (*fields.pop("taints", ()), SCALE_DOWN_TAINT)
    return idle(
        name, taints=taints, annotations={SCALE_DOWN_AT: format_instant(due), **fields.pop("annotations", {})}, **fields
    )


def with_nodes(*nodes: Node, **fields: Any) -> Snapshot:
    fields.setdefault("pools", [pool()])
    fields.setdefault("offerings", [SMALL])
    return world(nodes=nodes, **fields)


def names(decision: Decision[Any], kind: type[MarkScaleDown | UnmarkScaleDown | CreateNodeRemovalRequest]) -> list[str]:
    return [action.node.name for action in decision.actions if isinstance(action, kind)]


def test_ruling_4_an_idle_node_is_tainted_at_once_and_goes_later() -> None:
    of_node = idle(taints=(OTHER,))
    decision = plan(with_nodes(of_node))
    assert decision.actions == (MarkScaleDown(seen(of_node), (OTHER, SCALE_DOWN_TAINT), NOW + 60),)
    assert notes_by_reason(decision) == {"ScaleDown": [f"Node {NAME}: not needed; goes in 60 s unless pods come"]}


def test_a_pool_has_its_own_delay() -> None:
    (action,) = plan(with_nodes(idle(), pools=[pool("default", scale_down_delay_seconds=5)])).actions
    assert isinstance(action, MarkScaleDown)
    assert action.scale_down_at == NOW + 5


@pytest.mark.parametrize(
    ("resident", "is_idle"),
    [
        (daemon_pod("d", NAME), True),
        (bound(pod("done"), NAME, "Succeeded"), True),
        (bound(pod("failed"), NAME, "Failed"), True),
        (replace(bound(pod("static"), NAME), is_mirror=True), True),
        (bound(pod("works"), NAME), False),
        (replace(bound(pod("leaving"), NAME), deleted_at=NOW - 5), False),
    ],
)
def test_ruling_11_idle_means_no_pods_but_daemons_mirrors_and_finished_ones(resident: Pod, is_idle: bool) -> None:
    assert bool(plan(with_nodes(idle(), pods=[resident])).actions) is is_idle


def test_law_s3_a_dead_node_with_nothing_but_overdue_pods_is_idle() -> None:
    overdue = replace(bound(pod("lost"), NAME), deleted_at=NOW - 60)
    dying = plan(with_nodes(idle(is_ready=False, ready_changed_at=NOW - 200), pods=[overdue]))
    assert (dying.actions, dying.again_at) == ((), NOW + 101)
    assert names(plan(with_nodes(idle(is_ready=False, ready_changed_at=NOW - 400), pods=[overdue])), MarkScaleDown) == [
        NAME
    ]


def test_a_marked_node_waits_for_its_time_and_is_then_handed_to_removal() -> None:
    waiting = plan(with_nodes(marked(due=NOW + 30)))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 30)
    decision = plan(with_nodes(marked(), machines=[machine(NAME, SMALL)]))
    (action,) = decision.actions
    assert isinstance(action, CreateNodeRemovalRequest)
    assert action.spec == NodeRemovalRequestSpec(NAME, "default", "sim-small", f"id-{NAME}", "Empty")
    assert notes_by_reason(decision) == {"Removing": [f"Node {NAME}: the node is given back: Empty"]}


def test_law_s7_a_removal_names_its_machine_so_it_waits_until_the_provider_shows_it_or_surely_has_none() -> None:
    lists: tuple[list[Machine] | None, ...] = (
        None,
        [],
    )  # no list, and a list that is empty while nodes of ours are Ready
    for unknown in lists:
        waiting = plan(
            with_nodes(marked(), idle("default-pool-2"), pods=[bound(pod("a"), "default-pool-2")], machines=unknown)
        )
        assert (waiting.actions, waiting.again_at) == ((), NOW + 15)
    gone = plan(with_nodes(marked(), machines=[machine("default-pool-2", SMALL)]))
    (action,) = gone.actions
    assert isinstance(action, CreateNodeRemovalRequest)
    assert action.spec.machine_id == ""


def test_a_mark_made_before_a_clock_went_back_is_written_anew() -> None:
    of_node = marked(due=NOW + 3600)
    assert names(plan(with_nodes(of_node)), MarkScaleDown) == [NAME]


def test_a_node_that_became_ready_before_a_clock_went_back_waits_for_its_pods_no_longer_than_any_other() -> None:
    ready = request(NAME, SMALL, "Ready", planned=["default/a"], changed_at=NOW + 3600)
    waiting = [pod("a", 64)]
    fresh = plan(with_nodes(idle(ready_changed_at=NOW - 20), pods=waiting, requests=[ready]))
    assert (fresh.actions, fresh.again_at) == ((), NOW + 40)
    old = plan(with_nodes(idle(ready_changed_at=NOW - 60), pods=waiting, requests=[ready]))
    assert names(old, MarkScaleDown) == [NAME]


def test_a_pod_that_arrives_through_a_toleration_takes_mark_and_taint_off_and_leaves_other_taints() -> None:
    of_node = marked(taints=(OTHER,))
    decision = plan(with_nodes(of_node, pods=[bound(pod("a"), NAME)]))
    assert decision.actions == (UnmarkScaleDown(seen(of_node), (OTHER,)),)
    assert notes_by_reason(decision) == {
        "ScaleDownCancelled": [f"Node {NAME}: the node stays: pod default/a runs there"]
    }


@pytest.mark.parametrize("damage", ["soon", "", None])
def test_a_damaged_mark_is_written_anew(damage: str | None) -> None:
    annotations = {} if damage is None else {SCALE_DOWN_AT: damage}
    of_node = idle(taints=(SCALE_DOWN_TAINT,), annotations=annotations)
    assert plan(with_nodes(of_node)).actions == (MarkScaleDown(seen(of_node), (SCALE_DOWN_TAINT,), NOW + 60),)


def test_a_mark_whose_taint_a_user_took_off_is_written_anew() -> None:
    of_node = idle(annotations={SCALE_DOWN_AT: format_instant(NOW - 5)})
    assert names(plan(with_nodes(of_node)), MarkScaleDown) == [NAME]


@pytest.mark.parametrize(("count", "least", "removed"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (3, 0, 3)])
def test_ruling_9_scale_down_never_goes_below_min(count: int, least: int, removed: int) -> None:
    nodes = [idle(f"default-pool-{number}") for number in range(count)]
    assert len(plan(with_nodes(*nodes, pools=[pool("default", limited("small", 9, least))])).actions) == removed


def test_ruling_9_nodes_that_are_marked_already_count_as_going() -> None:
    nodes = [marked("default-pool-1", NOW + 30), idle("default-pool-2")]
    assert plan(with_nodes(*nodes, pools=[pool("default", limited("small", 9, 1))])).actions == ()


def test_ruling_9_a_min_that_was_raised_takes_marks_off_again() -> None:
    nodes = [marked(f"default-pool-{number}") for number in range(3)]
    decision = plan(
        with_nodes(
            *nodes,
            pools=[pool("default", limited("small", 9, 2))],
            machines=[machine(each.name, SMALL) for each in nodes],
        )
    )
    assert (len(names(decision, UnmarkScaleDown)), len(names(decision, CreateNodeRemovalRequest))) == (2, 1)


def test_ruling_9_min_counts_by_type() -> None:
    big = offering("big", 8, 16384, 0.05)
    of_pool = pool("default", limited("small", 9, 1), limited("big", 9))
    decision = plan(
        with_nodes(idle("default-pool-1"), idle("default-pool-2", of=big), pools=[of_pool], offerings=[SMALL, big])
    )
    assert names(decision, MarkScaleDown) == ["default-pool-2"]


def test_of_several_idle_nodes_the_dearest_goes_first() -> None:
    dear = replace(SMALL, location="nbg1", price_per_hour=0.02)
    nodes = [idle("default-pool-1"), idle("default-pool-2"), idle("default-pool-3")]
    machines = [machine("default-pool-2", dear), machine("default-pool-1", SMALL), machine("default-pool-3", SMALL)]
    decision = plan(
        with_nodes(*nodes, pools=[pool("default", limited("small", 9, 2))], offerings=[SMALL, dear], machines=machines)
    )
    assert names(decision, MarkScaleDown) == ["default-pool-2"]


@pytest.mark.parametrize("fields", [{"of_pool": ""}, {"of_pool": "unknown"}, {"pool": ""}])
def test_a_node_of_another_manager_is_never_touched(fields: dict[str, Any]) -> None:
    fields.setdefault("of_pool", "default")
    of_node = node("static", fields.pop("of_pool"), SMALL, **fields)
    assert plan(with_nodes(of_node)).actions == ()


def test_a_pool_label_that_somebody_wrote_by_hand_does_not_make_a_node_ours() -> None:
    foreign = Node(
        "static", idle().labels.with_items({POOL_LABEL: "default", REQUEST_LABEL: ""}), annotations=idle().annotations
    )
    assert plan(with_nodes(foreign)).actions == ()


def test_a_node_that_is_still_starting_or_has_pods_on_the_way_is_not_idle() -> None:
    coming = request(NAME, SMALL, "Provisioning")
    assert plan(with_nodes(idle(taints=(STARTUP_TAINT,)), requests=[coming])).actions == ()
    ready = request(NAME, SMALL, "Ready", planned=["default/a"], changed_at=NOW - 5)
    on_the_way = plan(with_nodes(idle(), requests=[ready], pods=[pod("a")]))
    assert (on_the_way.actions, on_the_way.again_at) == ((), NOW + 55)
    nominated = plan(with_nodes(idle(), pods=[pod("a", nominated_node=NAME)]))
    assert nominated.actions == ()


@pytest.mark.parametrize(("ahead_seconds", "marked"), [(5, []), (3600, [NAME])])
def test_a_node_that_became_ready_before_the_clock_went_back_waits_for_nobody(
    ahead_seconds: float, marked: list[str]
) -> None:
    ready = request(NAME, SMALL, "Ready", planned=["default/a"], changed_at=NOW + ahead_seconds)
    assert names(plan(with_nodes(idle(), requests=[ready], pods=[pod("a", 64)])), MarkScaleDown) == marked


def test_a_starting_node_whose_request_is_gone_is_idle_like_any_other() -> None:
    assert names(plan(with_nodes(idle(taints=(STARTUP_TAINT,)))), MarkScaleDown) == [NAME]


def test_ruling_5_a_revived_node_is_not_marked_again_before_the_scheduler_had_its_time() -> None:
    snapshot = with_nodes(idle(), pods=[pod("a", 1)])
    first = plan(snapshot)
    assert (first.actions, first.again_at) == ((), NOW + 60)
    later = plan(replace(snapshot, now=NOW + 60), first.ledger)
    assert names(later, MarkScaleDown) == [NAME]  # it never came
    assert names(plan(with_nodes(idle(), pods=[pod("huge", 64)])), MarkScaleDown) == [NAME]


@pytest.mark.parametrize(
    "key",
    [
        "growth.dev/do-not-disrupt",
        "karpenter.sh/do-not-disrupt",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    ],
)
def test_a_protected_node_is_not_marked_and_a_mark_comes_off(key: str) -> None:
    assert plan(with_nodes(idle(annotations={key: "true"}))).actions == ()
    assert names(plan(with_nodes(marked(annotations={key: "true"}))), UnmarkScaleDown) == [NAME]
    assert names(plan(with_nodes(idle(annotations={key: "false"}))), MarkScaleDown) == [NAME]


@pytest.mark.parametrize("node_of", [idle, marked])
@pytest.mark.parametrize("switch", ["pool", "all"])
def test_paused_nothing_is_marked_and_nothing_goes(node_of: Any, switch: str) -> None:
    of_pool = pool("default", annotations={"growth.dev/paused": "true"} if switch == "pool" else {})
    assert plan(with_nodes(node_of(), pools=[of_pool]), settings=Settings(is_paused=switch == "all")).actions == ()


def test_a_pool_may_keep_its_empty_nodes() -> None:
    keeps = pool("default", consolidation="Off")
    assert plan(with_nodes(idle(), pools=[keeps])).actions == ()
    assert names(plan(with_nodes(marked(), pools=[keeps])), UnmarkScaleDown) == [NAME]


def test_nodes_in_removal_going_or_malformed_are_left_alone() -> None:
    removal = NodeRemovalRequest(NAME, NodeRemovalRequestSpec(NAME, "default"))
    assert plan(with_nodes(marked(), removals=[removal])).actions == ()
    assert plan(with_nodes(marked(deleted_at=NOW))).actions == ()
    assert plan(with_nodes(marked(malformed="cpu: 'x' is not a quantity"))).actions == ()


@pytest.mark.parametrize(
    ("age", "is_marked", "again"), [(100, False, 3420), (3419, False, 3420), (3420, True, None), (3700, False, 7020)]
)
def test_a_machine_whose_hour_is_paid_is_kept_until_that_hour_is_nearly_over(
    age: int, is_marked: bool, again: int | None
) -> None:
    hourly = replace(SMALL, bills_started_hours=True)
    of_machine = machine(NAME, hourly, created_at=NOW - age)
    decision = plan(
        with_nodes(idle(), pools=[pool("default", keep_until_hour_end=True)], offerings=[hourly], machines=[of_machine])
    )
    assert bool(decision.actions) is is_marked
    assert decision.again_at == (None if again is None else NOW - age + again)


def test_by_default_an_empty_machine_does_not_wait_for_its_hour() -> None:
    hourly = replace(SMALL, bills_started_hours=True)
    assert names(plan(with_nodes(idle(), offerings=[hourly])), MarkScaleDown) == [NAME]


def test_what_did_not_happen_is_decided_anew() -> None:
    snapshot = with_nodes(idle())
    (action,) = plan(snapshot).actions
    assert scale_down.settle(Settled(action, Accepted()), snapshot, scale_down.Ledger(), SETTINGS).again_at is None
    assert (
        scale_down.settle(Settled(action, TryLater("busy", 7.0)), snapshot, scale_down.Ledger(), SETTINGS).again_at
        == NOW + 7
    )
    assert (
        scale_down.settle(Settled(action, Conflict("changed")), snapshot, scale_down.Ledger(), SETTINGS).again_at
        == NOW + 5
    )


def test_at_rest_there_is_nothing_to_do() -> None:
    decision = plan(with_nodes(idle(), pods=[bound(pod("a"), NAME)]))
    assert (decision.actions, decision.notes, decision.again_at) == ((), (), None)
