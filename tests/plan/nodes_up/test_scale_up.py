"""Given these pods, pools and offerings: what is bought, revived or waited for. Each case of the node table that is
about plans.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest, UnmarkScaleDown, WriteNodeRequestStatus
from growth.model.instant import format_instant
from growth.model.labels import HOSTNAME, ZONE, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.node import POOL_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, Taint
from growth.model.nodepool import PoolLimits
from growth.model.noderequest import (
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRemovalRequestStatus,
    NodeRequestSpec,
)
from growth.model.pod import Owner, Pod, PodAffinityTerm, PreferredPods
from growth.model.settings import Settings
from growth.model.snapshot import DaemonSet
from growth.plan.world.marks import CONSOLIDATION_TAINT
from growth.plan.world.turn import seen
from tests.plan.builders import (
    AT_ONCE,
    NOW,
    applied,
    bound,
    hetzner,
    limited,
    machine,
    node,
    notes_by_reason,
    offering,
    ordered,
    orders,
    pod,
    pods,
    pool,
    request,
    run_scale_up,
    shape,
    world,
)

SMALL = offering("small", 2, 4096, 0.01)
ZONES = tuple(offering("small", 2, 4096, 0.01, location=zone, labels={ZONE: zone}) for zone in ("a", "b", "c"))
WEB = LabelSelector((Requirement("app", "In", ("web",)),))
APART_BY_ZONE: dict[str, Any] = {"labels": {"app": "web"}, "anti_affinity": (PodAffinityTerm(ZONE, WEB),)}


def test_no_demands() -> None:
    decision = run_scale_up(world((), [pool()], [SMALL]))
    assert (decision.actions, decision.notes, decision.again_at) == ((), (), None)


def test_one_demand_no_offerings_is_unplaced_with_a_reason() -> None:
    decision = run_scale_up(world([pod("a")], [pool()], []))
    assert decision.actions == ()
    assert notes_by_reason(decision) == {
        "Unplaced": [
            (
                "Pod default/a: no place for this pod: no offering can be bought; NodePool default lists no server "
                "type that the provider sells (small)"
            )
        ]
    }


def test_an_order_is_written_out_with_its_pods() -> None:
    decision = run_scale_up(world([pod("a", 1, 512)], [pool()], [SMALL]))
    (action,) = decision.actions
    assert isinstance(action, CreateNodeRequest)
    assert (action.pool.name, action.pool.uid) == ("default", "uid-default")
    resources = {"cpu": "2", "memory": str(4096 * 1024 * 1024), "pods": "110"}
    spec = NodeRequestSpec("default", "sim-small", "fsn1", resources, ("default/a",), gap="the cheapest possible")
    assert action.spec == spec
    assert notes_by_reason(decision) == {
        "ScaleUp": [
            "NodePool default: orders 1 × sim-small in fsn1 for 1 pods, 0.0100 per hour, the cheapest possible"
        ],
        "Planned": ["Pod default/a: planned onto a new sim-small in fsn1 of NodePool default"],
    }


def test_three_pods_of_a_whole_machine_with_max_2_give_2_nodes_and_1_unplaced() -> None:
    decision = run_scale_up(world(pods(3, 2, 4096), [pool("default", limited("small", 2))], [SMALL]))
    assert ordered(decision.actions) == ["sim-small", "sim-small"]
    (told,) = notes_by_reason(decision)["Unplaced"]
    assert "max 2 of small in NodePool default" in told


def test_a_4_cpu_and_a_2_cpu_pod_share_the_only_machine_the_first_fits() -> None:
    sold = [offering("huge", 48, 196608, 0.50), offering("tiny", 2, 4096, 0.01)]
    decision = run_scale_up(world([pod("a", 4, 512), pod("b", 2, 512)], [pool("default", "huge", "tiny")], sold))
    assert [(spec.target_offering, sorted(spec.planned_pods)) for spec in orders(decision.actions)] == [
        ("sim-huge", ["default/a", "default/b"])
    ]


def test_ten_of_3_cpu_and_ten_of_1_cpu_fill_ten_machines() -> None:
    sold = [offering("four", 4, 8192, 0.02)]
    decision = run_scale_up(
        world((*pods(10, 3, 512, "big"), *pods(10, 1, 512, "little")), [pool("default", "four")], sold)
    )
    assert [len(spec.planned_pods) for spec in orders(decision.actions)] == [2] * 10


def test_zone_anti_affinity_over_three_zones_with_max_1_each() -> None:
    pools = [pool(name, limited("small", 1), locations=(name,)) for name in "abc"]
    anywhere = (NodeSelectorTerm((Requirement(POOL_LABEL, "Exists"),)),)
    asked = pods(3, 1, 512, node_affinity=anywhere, **APART_BY_ZONE)
    assert sorted(spec.location for spec in orders(run_scale_up(world(asked, pools, ZONES)).actions)) == ["a", "b", "c"]
    two = run_scale_up(world(asked, pools[:2], ZONES[:2]))
    assert len(orders(two.actions)) == 2
    assert len(notes_by_reason(two)["Unplaced"]) == 1


def test_preferred_anti_affinity_keeps_nobody_out() -> None:
    term = PodAffinityTerm(ZONE, WEB)
    asked = pods(3, 2, 512, labels={"app": "web"}, preferred_anti_affinity=(PreferredPods(100, term),))
    decision = run_scale_up(world(asked, [pool()], ZONES[:2]))
    assert sum(len(spec.planned_pods) for spec in orders(decision.actions)) == 3


def test_one_type_in_three_zones_shares_its_max() -> None:
    decision = run_scale_up(world(pods(3, 2, 512), [pool("default", limited("small", 2))], ZONES))
    assert len(orders(decision.actions)) == 2
    assert len(notes_by_reason(decision)["Unplaced"]) == 1


@pytest.mark.parametrize(("asked", "new"), [(pods(2, 1), 0), (pods(3, 1), 1), ((pod("big", 4),), 1)])
def test_an_in_flight_request_is_room(asked: tuple[Pod, ...], new: int) -> None:
    sold = [SMALL, offering("four", 4, 8192, 0.02)]
    on_its_way = request("default-pool-1", SMALL, "Provisioning")
    decision = run_scale_up(world(asked, [pool("default", "small", "four")], sold, requests=[on_its_way]))
    assert len(orders(decision.actions)) == new


def test_pods_that_join_a_request_on_its_way_are_written_on_it() -> None:
    on_its_way = request("default-pool-1", SMALL, "Provisioning", planned=["default/first"])
    decision = run_scale_up(world([pod("first"), pod("late")], [pool()], [SMALL], requests=[on_its_way]))
    (action,) = decision.actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert (action.request.resource_version, action.status.phase, action.status.added_pods) == (
        "3",
        "Provisioning",
        ("default/late",),
    )
    assert notes_by_reason(decision)["Planned"] == [
        "Pod default/late: planned onto default-pool-1, which is on its way"
    ]


def test_a_request_of_another_pool_does_not_absorb() -> None:
    pools = [pool("gpu"), pool("cpu")]
    on_its_way = request("gpu-pool-1", SMALL, "Provisioning", "gpu")
    decision = run_scale_up(world([pod("a", pool="cpu")], pools, [SMALL], requests=[on_its_way]))
    assert [spec.pool for spec in orders(decision.actions)] == ["cpu"]


def test_pool_max_2_with_one_node_gives_one_request() -> None:
    full = bound(pod("old", 2, 4096), "default-pool-1")
    decision = run_scale_up(
        world(
            (*pods(3, 2, 4096), full),
            [pool("default", limited("small", 2))],
            [SMALL],
            [node("default-pool-1", of=SMALL)],
        )
    )
    assert len(orders(decision.actions)) == 1


@pytest.mark.parametrize("died_after", [3, 15, 27])
def test_60_pods_on_2_cpu_machines_end_with_30_requests_wherever_the_controller_dies(died_after: int) -> None:
    snapshot = world(pods(60, 1, 512), [pool()], [SMALL])
    first = run_scale_up(snapshot)
    assert len(orders(first.actions)) == 30
    after_crash = applied(snapshot, first.actions[:died_after])
    second = run_scale_up(after_crash)
    assert len(applied(after_crash, second.actions).requests) == 30


def test_ruling_6_what_is_unmet_in_one_pool_is_struck_out_in_every_pool_until_its_time_is_over() -> None:
    cheap, dear = offering("cheap", 2, 4096, 0.01), offering("dear", 2, 4096, 0.02)
    unmet = request("batch-pool-1", cheap, "Unmet", "batch", expires_at=format_instant(NOW + 60))
    pools = [pool("default", "cheap", "dear"), pool("batch", "cheap")]
    snapshot = world([pod("a")], pools, [cheap, dear], requests=[unmet])
    decision = run_scale_up(snapshot)
    assert ordered(decision.actions) == ["sim-dear"]
    assert decision.again_at == NOW + 60
    assert ordered(run_scale_up(replace(snapshot, now=NOW + 61)).actions) == ["sim-cheap"]


def test_ruling_6_the_same_type_in_another_location_is_not_struck_out() -> None:
    unmet = request("default-pool-1", ZONES[0], "Unmet", expires_at=format_instant(NOW + 60))
    decision = run_scale_up(world([pod("a")], [pool()], ZONES, requests=[unmet]))
    assert [spec.location for spec in orders(decision.actions)] == ["b"]


def test_an_offering_that_was_unmet_is_tried_again_with_one_order_first() -> None:
    unmet = request("default-pool-1", SMALL, "Unmet", expires_at=format_instant(NOW + 1))
    snapshot = world(pods(6, 2, 512), [pool()], [SMALL], requests=[unmet])
    before = run_scale_up(snapshot)
    assert orders(before.actions) == []
    probing = replace(snapshot, now=NOW + 2, requests={})
    probe = run_scale_up(probing, before.ledger)
    assert len(orders(probe.actions)) == 1
    waiting = applied(probing, probe.actions)
    assert orders(run_scale_up(waiting, probe.ledger).actions) == []  # still Pending
    (name,) = waiting.requests
    accepted = replace(waiting.requests[name], status=replace(waiting.requests[name].status, phase="Provisioning"))
    after = replace(waiting, now=NOW + 20, requests={name: accepted})
    assert len(orders(run_scale_up(after, probe.ledger).actions)) == 5


def test_what_the_provider_has_not_in_stock_is_not_ordered() -> None:
    decision = run_scale_up(world([pod("a")], [pool()], [replace(SMALL, is_available=False)]))
    assert decision.actions == ()
    assert "1 of 1 are out of stock" in notes_by_reason(decision)["Unplaced"][0]


def test_ruling_5_a_marked_node_is_revived_before_anything_is_bought() -> None:
    other = Taint("team", "a", "PreferNoSchedule")
    marked = node(
        "default-pool-1",
        of=SMALL,
        taints=(SCALE_DOWN_TAINT, other),
        annotations={SCALE_DOWN_AT: format_instant(NOW + 30)},
    )
    decision = run_scale_up(world([pod("a")], [pool()], [SMALL], [marked]))
    assert decision.actions == (UnmarkScaleDown(seen(marked), (other,)),)
    assert notes_by_reason(decision) == {
        "Revived": ["Pod default/a: node default-pool-1 is kept: there is room for this pod"]
    }


@pytest.mark.parametrize(("reason", "phase", "ends_in", "buys"), [
    ("Consolidated", "Pending", 30, 0), ("Consolidated", "Pending", 3600, 1),
    ("Consolidated", "Deprovisioning", 30, 1), ("Expired", "Pending", 30, 1),
])  # fmt: skip
def test_nothing_is_bought_for_a_pod_that_fits_on_a_node_which_is_emptied_only_to_save_money(
    reason: str, phase: Any, ends_in: int, buys: int
) -> None:
    """Its removal ends itself when the pods that were evicted have left, and another one waits."""
    going = node("default-pool-1", of=SMALL, taints=(CONSOLIDATION_TAINT,))
    removal = NodeRemovalRequest(
        "default-pool-1",
        NodeRemovalRequestSpec("default-pool-1", "default", reason=reason),
        NodeRemovalRequestStatus(phase),
    )
    leaving = replace(bound(pod("old", 2), "default-pool-1"), deleted_at=NOW + ends_in)
    decision = run_scale_up(world([pod("a", 2), leaving], [pool()], [SMALL], [going], removals=[removal]))
    assert len(orders(decision.actions)) == buys
    assert not any(isinstance(action, UnmarkScaleDown) for action in decision.actions)


def test_ruling_10_a_higher_priority_is_used_up_before_a_lower_one_whatever_the_price() -> None:
    sold = [offering("dear", 2, 4096, 0.5), offering("cheap", 2, 4096, 0.01)]
    of_pool = pool("default", limited("dear", 2, priority=10), limited("cheap"))
    assert ordered(run_scale_up(world(pods(3, 2, 512), [of_pool], sold)).actions) == [
        "sim-cheap",
        "sim-dear",
        "sim-dear",
    ]


def test_ruling_18_a_pod_with_several_pools_uses_the_preferred_pool_first() -> None:
    either = (NodeSelectorTerm((Requirement(POOL_LABEL, "In", ("a", "b")),)),)
    pools = [pool("a", limited("small", 1)), pool("b", limited("small", 1), priority=1)]
    decision = run_scale_up(world(pods(2, 2, 512, node_affinity=either), pools, [SMALL]))
    assert sorted(spec.pool for spec in orders(decision.actions)) == ["a", "b"]
    first = run_scale_up(world(pods(1, 2, 512, node_affinity=either), pools, [SMALL]))
    assert [spec.pool for spec in orders(first.actions)] == ["b"]


def test_ruling_20_a_pod_without_architecture_goes_to_amd64_in_a_mixed_pool() -> None:
    sold = [offering("cax11", 2, 4096, 0.001), offering("cx22", 2, 4096, 0.01)]
    assert ordered(run_scale_up(world([pod("a")], [pool("default", "cax11", "cx22")], sold)).actions) == ["sim-cx22"]
    assert ordered(run_scale_up(world([pod("a")], [pool("default", "cax11")], sold)).actions) == ["sim-cax11"]


def test_law_s1_machines_the_provider_has_count_against_max() -> None:
    lost = machine("default-pool-lost", SMALL)
    decision = run_scale_up(world(pods(3, 2, 512), [pool("default", limited("small", 2))], [SMALL], machines=[lost]))
    assert len(orders(decision.actions)) == 1


def test_the_limits_of_the_settings_hold_over_all_pools() -> None:
    settings = Settings(batch_quiet_seconds=0.0, limits=PoolLimits(nodes=2))
    pools = [pool("a"), pool("b")]
    asked = (*pods(2, 2, 512, "x", pool="a"), *pods(2, 2, 512, "y", pool="b"))
    assert len(orders(run_scale_up(world(asked, pools, [SMALL]), settings=settings).actions)) == 2


def test_daemon_sets_take_their_share_of_every_new_node() -> None:
    agent = DaemonSet("kube-system/agent", shape(1, 64))
    elsewhere = DaemonSet("kube-system/windows", shape(1, 64, node_selector={"kubernetes.io/os": "windows"}))
    decision = run_scale_up(world(pods(2, 1, 512), [pool()], [SMALL], daemon_sets=(agent, elsewhere)))
    assert [len(spec.planned_pods) for spec in orders(decision.actions)] == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"is_gated": True},
        {"deleted_at": NOW},
        {"owner": Owner("DaemonSet", "agent")},
        {"is_mirror": True},
    ],
)
def test_pods_that_growth_is_not_asked_about_are_no_demand(other: dict[str, Any]) -> None:
    decision = run_scale_up(world([pod("a", **other)], [pool()], [SMALL]))
    assert (decision.actions, decision.notes) == ((), ())


def test_a_pod_at_the_priority_cutoff_is_served() -> None:
    assert len(orders(run_scale_up(world([pod("a", priority=-10)], [pool()], [SMALL])).actions)) == 1


def test_a_pod_nominated_to_room_that_exists_is_no_demand_and_holds_that_room() -> None:
    free = node("default-pool-1", of=SMALL)
    snapshot = world([pod("a", 2, 512, nominated_node=free.name), pod("b", 2, 512)], [pool()], [SMALL], [free])
    assert [spec.planned_pods for spec in orders(run_scale_up(snapshot).actions)] == [("default/b",)]


def test_a_pod_nominated_to_a_node_without_room_is_demand() -> None:
    full = node("default-pool-1", of=SMALL)
    snapshot = world(
        [pod("a", 2, 512, nominated_node=full.name), bound(pod("b", 1, 512), full.name)], [pool()], [SMALL], [full]
    )
    assert [spec.planned_pods for spec in orders(run_scale_up(snapshot).actions)] == [("default/a",)]


@pytest.mark.parametrize(
    "closed",
    [
        {"is_unschedulable": True},
        {"is_ready": False},
        {"deleted_at": NOW},
        {"malformed": "cpu: 'x' is not a quantity"},
        {"taints": (Taint("k"),)},
    ],
)
def test_a_node_that_takes_no_pods_is_no_room(closed: dict[str, Any]) -> None:
    decision = run_scale_up(world([pod("a")], [pool()], [SMALL], [node("default-pool-1", of=SMALL, **closed)]))
    assert len(orders(decision.actions)) == 1


def test_a_node_of_another_manager_is_room_too() -> None:
    assert run_scale_up(world([pod("a")], [pool()], [SMALL], [node("static", "")])).actions == ()


def test_a_paused_pool_buys_nothing_and_says_so() -> None:
    decision = run_scale_up(world([pod("a")], [pool("default", annotations={"growth.dev/paused": "true"})], [SMALL]))
    assert decision.actions == ()
    assert "NodePool default is paused" in notes_by_reason(decision)["Unplaced"][0]
    globally = run_scale_up(world([pod("a")], [pool()], [SMALL]), settings=replace(AT_ONCE, is_paused=True))
    assert globally.actions == ()
    assert "growth is paused" in notes_by_reason(globally)["Unplaced"][0]


def test_ruling_16_a_pool_that_is_being_deleted_buys_nothing() -> None:
    decision = run_scale_up(world([pod("a")], [pool("default", deleted_at=NOW)], [SMALL]))
    assert decision.actions == ()
    assert "NodePool default is being deleted" in notes_by_reason(decision)["Unplaced"][0]


def test_ruling_13_a_malformed_pod_is_told_and_the_others_are_served() -> None:
    broken = pod("broken", malformed="container a: cpu: 'x' is not a quantity")
    decision = run_scale_up(world([broken, pod("fine")], [pool()], [SMALL]))
    assert [spec.planned_pods for spec in orders(decision.actions)] == [("default/fine",)]
    assert notes_by_reason(decision)["Malformed"] == ["Pod default/broken: container a: cpu: 'x' is not a quantity"]


def test_ruling_14_a_type_that_is_not_sold_leaves_the_rest_of_the_pool_working() -> None:
    assert ordered(run_scale_up(world([pod("a")], [pool("default", "GEX44", "small")], [SMALL])).actions) == [
        "sim-small"
    ]


def test_the_hetzner_catalogue_serves_100_pods_for_no_more_than_seven_cx52() -> None:
    sold = hetzner()
    of_pool = pool("default", *(limited(each.server_type, 100) for each in sold))
    prices = {each.name: each.price_per_hour for each in sold}
    decision = run_scale_up(world(pods(100, 1, 512), [of_pool], sold))
    assert sum(prices[spec.target_offering] for spec in orders(decision.actions)) <= 7 * prices["sim-cx52"] + 1e-9
    assert sum(len(spec.planned_pods) for spec in orders(decision.actions)) == 100


def test_hostname_labels_of_nodes_on_their_way_are_their_names() -> None:
    on_its_way = request("default-pool-1", SMALL, "Provisioning")
    asked = [pod("a", node_selector={HOSTNAME: "default-pool-1"})]
    decision = run_scale_up(world(asked, [pool()], [SMALL], requests=[on_its_way]))
    assert [type(action) for action in decision.actions] == [WriteNodeRequestStatus]
