"""Room for virtual pods is bought after everything real, held by what is on its way, refilled, kept from scale-down,
and never past a limit.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest, MarkScaleDown, UnmarkScaleDown
from growth.model.capacitybuffer import BufferWorld
from growth.model.labels import HOSTNAME, Labels, LabelSelector, Requirement
from growth.model.node import SCALE_DOWN_AT, SCALE_DOWN_TAINT
from growth.model.nodepool import PoolLimits
from growth.model.pod import PodAffinityTerm
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import place_buffers
from growth.plan.buffers.virtual_pods import planned_annotation
from growth.plan.nodes_down import scale_down
from growth.plan.nodes_up import scale_up
from tests.plan.buffers.worlds import buffer, buffer_world, template
from tests.plan.builders import (
    AT_ONCE,
    NOW,
    applied,
    bound,
    hetzner,
    limited,
    node,
    notes_by_reason,
    orders,
    pod,
    pods,
    pool,
    request,
    run_scale_up,
    shape,
    world,
)

CX32 = hetzner("cx32")[0]  # 4 cpu, 8 GiB
POOL = pool("default", "cx32")


def spare_world(*buffers: Any, of: Any = None, **fields: Any) -> Snapshot:
    """A pool that sells CX32, and buffers of one cpu and 1 GiB a chunk."""
    fields.setdefault("pools", [POOL])
    fields.setdefault("offerings", (CX32,))
    snapshot = world(**fields)
    return replace(snapshot, buffers=buffer_world(buffers or [buffer(replicas=5)], of))


def test_room_for_a_buffer_is_bought_and_the_order_says_for_what() -> None:
    decision = run_scale_up(spare_world())
    found = orders(decision.actions)
    assert [spec.reason for spec in found] == ["Buffer", "Buffer"]
    assert sorted(spec.planned_pods for spec in found) == [("default/spare*1",), ("default/spare*4",)]
    assert notes_by_reason(decision)["BufferScaleUp"] == [
        "NodePool default: orders 2 nodes for 5 virtual pods of CapacityBuffer default/spare, 0.0212 per hour"
    ]


def test_planning_again_with_its_own_output_in_flight_creates_nothing() -> None:
    snapshot = spare_world(buffer("a", replicas=5), buffer("b", replicas=7), buffer("c", limits={"cpu": "3"}))
    decision = run_scale_up(snapshot)
    after = applied(snapshot, decision.actions, seconds=2)
    assert orders(decision.actions)
    assert run_scale_up(after, decision.ledger).actions == ()
    assert run_scale_up(after).actions == (), "nor after a restart"


def test_a_pod_that_exists_is_planned_exactly_as_if_there_were_no_buffer() -> None:
    waiting = pods(7)
    alone, beside = world(waiting, [POOL], (CX32,)), spare_world(pods=waiting)
    asked, both = (
        scale_up.question(alone, scale_up.Ledger(), AT_ONCE),
        scale_up.question(beside, scale_up.Ledger(), AT_ONCE),
    )
    assert isinstance(asked, scale_up.Question)
    assert isinstance(both, scale_up.Question)
    assert both.problem == asked.problem
    assert orders(run_scale_up(beside).actions) == orders(run_scale_up(alone).actions)


def test_the_buffer_has_its_turn_once_the_pods_have_theirs_and_uses_what_they_leave() -> None:
    snapshot = spare_world(buffer(replicas=2), pods=pods(2))
    first = run_scale_up(snapshot)
    after = applied(snapshot, first.actions, seconds=2)
    assert [spec.reason for spec in orders(first.actions)] == ["Demand"]
    assert run_scale_up(after, first.ledger).actions == ()
    assert place_buffers(after, AT_ONCE).on_their_way[next(iter(after.requests))] == {"default/spare": 2}


def test_numbers_that_still_move_are_waited_for() -> None:
    calm, ledger, snapshot = (
        Settings(batch_quiet_seconds=1.0, batch_longest_seconds=3.0),
        scale_up.Ledger(),
        spare_world(),
    )
    bought = []
    for second in range(5):
        moving = replace(snapshot, now=NOW + second, buffers=buffer_world([buffer(replicas=5 + second)]))
        decision = run_scale_up(moving, ledger, calm)
        ledger = decision.ledger
        bought.append(len(orders(decision.actions)))
    assert bought[:3] == [0, 0, 0]
    assert bought[3] > 0


def test_used_room_is_bought_again() -> None:
    nodes = [node("n1", of=CX32), node("n2", of=CX32)]
    quiet = spare_world(nodes=nodes)
    assert run_scale_up(quiet).actions == ()
    used = spare_world(nodes=nodes, pods=[bound(each, "n1") for each in pods(3, cpu=1, mib=1024)])
    assert run_scale_up(used).actions == (), "there is still room for five"
    full = spare_world(
        nodes=nodes, pods=[bound(each, f"n{1 + number % 2}") for number, each in enumerate(pods(5, cpu=1, mib=1024))]
    )
    assert sum(int(spec.planned_pods[0].rpartition("*")[2]) for spec in orders(run_scale_up(full).actions)) == 2


def test_a_node_that_vanishes_or_is_not_ready_is_bought_again() -> None:
    lost = spare_world(buffer(replicas=4), nodes=[node("n1", of=CX32, is_ready=False)])
    assert len(orders(run_scale_up(lost).actions)) == 1
    assert len(orders(run_scale_up(spare_world(buffer(replicas=4))).actions)) == 1


def test_max_and_limits_hold_and_the_buffer_is_told() -> None:
    few = run_scale_up(spare_world(buffer(replicas=40), pools=[pool("default", limited("cx32", 2))]))
    assert len(orders(few.actions)) == 2
    assert "default/spare: no room for all of this buffer" in notes_by_reason(few)["Unplaced"][0]
    cheap = run_scale_up(spare_world(buffer(replicas=40)), settings=replace(AT_ONCE, limits=PoolLimits(nodes=3)))
    assert len(orders(cheap.actions)) == 3


def test_a_buffer_that_found_no_place_is_not_asked_about_at_every_look() -> None:
    snapshot = spare_world(buffer(replicas=40), pools=[pool("default", limited("cx32", 0))])
    first = run_scale_up(snapshot)
    later = replace(snapshot, now=NOW + 2)
    assert scale_up.question(later, first.ledger, AT_ONCE) is None
    grown = replace(later, pools={"default": replace(pool("default", limited("cx32", 9)), generation=2)})
    asked = scale_up.question(grown, first.ledger, AT_ONCE)
    assert asked is not None
    assert asked.survey.is_virtual


def test_a_buffer_waits_as_a_pod_does_but_is_no_unplaced_pod_and_is_forgotten_when_it_goes() -> None:
    snapshot = spare_world(buffer(replicas=40), pools=[pool("default", limited("cx32", 0))])
    first = run_scale_up(snapshot)
    assert [(name, wait.misses, wait.reason) for name, wait in first.ledger.waits.items()] == [
        ("CapacityBuffer default/spare", 1, "")
    ]
    gone = run_scale_up(replace(snapshot, now=NOW + 2, buffers=BufferWorld()), first.ledger)
    assert gone.ledger.waits == {}


def test_three_machines_that_hold_none_of_a_buffer_are_enough() -> None:
    small = [node(f"n{number}", of=CX32, allocatable=CX32.allocatable.times(0)) for number in range(3)]
    ready = [request(each.name, CX32, "Ready", planned=("default/spare*5",), reason="Buffer") for each in small]
    assert orders(run_scale_up(spare_world(nodes=small[:2], requests=ready[:2])).actions)
    assert run_scale_up(spare_world(nodes=small, requests=ready)).actions == ()


def test_other_buffers_are_not_affected_by_one_that_fits_nowhere() -> None:
    snapshot = spare_world(buffer("good", replicas=4), buffer("wild", replicas=10_000_000), buffer("both", replicas=-1))
    assert [spec.planned_pods for spec in orders(run_scale_up(snapshot).actions)] == [("default/good*4",)]


# --------------------------------------------------------------------------------------- scale-down


def run_scale_down(snapshot: Snapshot) -> Any:
    return scale_down.plan(snapshot, scale_down.Ledger(), AT_ONCE)


def test_an_idle_node_that_virtual_pods_need_stays_and_one_they_do_not_need_goes() -> None:
    decision = run_scale_down(spare_world(buffer(replicas=4), nodes=[node("n1", of=CX32), node("n2", of=CX32)]))
    assert [action.node.name for action in decision.actions if isinstance(action, MarkScaleDown)] == ["n2"]
    assert notes_by_reason(decision)["NeededByBuffer"] == [
        "Node n1: kept although idle: CapacityBuffer default/spare needs its room"
    ]


def test_virtual_pods_go_where_real_pods_are_so_that_empty_nodes_may_go() -> None:
    busy = [bound(each, "n2") for each in pods(1, cpu=1, mib=1024)]
    decision = run_scale_down(
        spare_world(buffer(replicas=3), nodes=[node("n1", of=CX32), node("n2", of=CX32)], pods=busy)
    )
    assert [action.node.name for action in decision.actions if isinstance(action, MarkScaleDown)] == ["n1"]


def test_a_marked_node_that_a_buffer_needs_is_unmarked_and_nothing_is_bought() -> None:
    marked = node("n1", of=CX32, taints=(SCALE_DOWN_TAINT,), annotations={SCALE_DOWN_AT: "2027-01-15T08:01:00Z"})
    snapshot = spare_world(buffer(replicas=4), nodes=[marked])
    assert run_scale_up(snapshot).actions == ()
    decision = run_scale_down(snapshot)
    assert [type(action) for action in decision.actions] == [UnmarkScaleDown]
    assert "needs its room" in notes_by_reason(decision)["ScaleDownCancelled"][0]


def test_when_the_buffer_goes_so_do_the_nodes() -> None:
    nodes = [node("n1", of=CX32)]
    assert not run_scale_down(spare_world(buffer(replicas=4), nodes=nodes)).actions
    assert [type(action) for action in run_scale_down(world(nodes=nodes, pools=[POOL], offerings=(CX32,))).actions] == [
        MarkScaleDown
    ]


def test_nothing_is_given_back_before_it_is_known_which_buffers_there_are() -> None:
    snapshot = replace(
        world(nodes=[node("n1", of=CX32)], pools=[POOL], offerings=(CX32,)), buffers=BufferWorld(is_known=False)
    )
    decision = run_scale_down(snapshot)
    assert decision.actions == ()
    assert decision.again_at is not None


# --------------------------------------------------------------------------------------- properties


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.3, 0.7, 1, 2.5])), min_size=1, max_size=4),
    real=st.integers(0, 6),
    most=st.integers(0, 6),
    standing=st.integers(0, 2),
)
def test_whatever_the_buffers_limits_hold_pods_come_first_and_the_second_plan_is_empty(
    sizes: list[tuple[int, float]], real: int, most: int, standing: int
) -> None:
    nodes = [node(f"n{number}", of=CX32) for number in range(standing)]
    snapshot = world(pods(real, cpu=1.5), [pool("default", limited("cx32", most + standing))], (CX32,), nodes)
    listed = [
        buffer(f"b{number}", namespace=f"team-{number}", replicas=count) for number, (count, _) in enumerate(sizes)
    ]
    kinds = {f"Deployment.apps/team-{number}/web": template(cpu) for number, (_, cpu) in enumerate(sizes)}
    buffers = buffer_world(listed)
    scalables = {key: replace(buffers.scalables[key], template=kinds[key]) for key in buffers.scalables}
    beside = replace(snapshot, buffers=replace(buffers, scalables=scalables))
    ledger, now, alone = scale_up.Ledger(), beside, orders(run_scale_up(snapshot).actions)
    for turn in range(4):
        decision = run_scale_up(now, ledger)
        if turn == 0 and real:
            assert orders(decision.actions) == alone
        ledger, now = decision.ledger, applied(now, decision.actions, seconds=1)
    assert len(now.requests) <= most
    assert orders(run_scale_up(now, ledger).actions) == []
    kept = place_buffers(now, AT_ONCE)
    for spare in kept.buffers:
        placed = kept.standing.get(spare.key, 0) + sum(
            counts.get(spare.key, 0) for counts in kept.on_their_way.values()
        )
        assert placed + kept.missing.get(spare.key, 0) == spare.count


def test_the_answer_is_remembered_while_nothing_changes() -> None:
    snapshot = spare_world(nodes=[node("n1", of=CX32)])
    assert place_buffers(snapshot, AT_ONCE) is place_buffers(replace(snapshot, now=NOW + 60), AT_ONCE)
    assert place_buffers(replace(snapshot, nodes=dict(snapshot.nodes)), AT_ONCE) is not place_buffers(snapshot, AT_ONCE)


def test_rules_between_pods_hold_for_virtual_pods_too() -> None:
    apart = PodAffinityTerm(HOSTNAME, LabelSelector((Requirement("app", "In", ("web",)),)))
    lonely = template(of=shape(1, 512, labels={"app": "web"}, anti_affinity=(apart,)))
    snapshot = spare_world(buffer(replicas=3), of=lonely, nodes=[node("n1", of=CX32)])
    assert len(orders(run_scale_up(snapshot).actions)) == 2
    beside = spare_world(
        buffer(replicas=1),
        of=lonely,
        nodes=[node("n1", of=CX32)],
        pods=[bound(pod("real", labels={"app": "web"}), "n1")],
    )
    assert [type(action) for action in run_scale_up(beside).actions] == [CreateNodeRequest]


def test_a_tight_packing_that_was_bought_counts_when_its_orders_are_long_forgotten() -> None:
    kinds = [0.9, 1.1, 1.3, 1.7, 2.3, 0.6, 0.35]
    listed = [buffer(f"b{number}", namespace=f"team-{number}", replicas=7 + number) for number in range(len(kinds))]
    made = buffer_world(listed)
    keys = [f"Deployment.apps/team-{number}/web" for number in range(len(kinds))]
    scalables = {
        key: replace(made.scalables[key], template=template(cpu, 700)) for key, cpu in zip(keys, kinds, strict=True)
    }
    offers = hetzner("cx32", "cx42")
    snapshot = replace(world((), [pool("default", "cx32", "cx42")], offers), buffers=replace(made, scalables=scalables))
    bought = applied(snapshot, run_scale_up(snapshot).actions)
    nodes = []
    for name, each in bought.requests.items():
        of = next(offer for offer in offers if offer.name == each.spec.target_offering)
        nodes.append(replace(node(name, of=of), annotations=Labels(planned_annotation(each.planned_pods))))
    later = replace(snapshot, nodes={each.name: each for each in nodes}, now=NOW + 7200)
    assert run_scale_up(later).actions == ()
    assert place_buffers(later, AT_ONCE).missing == {}
    marked = {action.node.name for action in run_scale_down(later).actions if isinstance(action, MarkScaleDown)}
    assert marked == later.nodes.keys() - place_buffers(later, AT_ONCE).by_node.keys()
