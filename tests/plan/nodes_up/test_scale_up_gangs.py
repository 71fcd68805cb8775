"""Given these gangs, what is bought for them, and when are they bound."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.action import FillNode, ReadyNode
from growth.model.decision import Settled
from growth.model.gang import GANG, PLUGIN_POD_GROUP
from growth.model.instant import format_instant
from growth.model.node import STARTUP_TAINT
from growth.model.nodepool import NodePool, NodePoolStatus, PoolTrials, Trial
from growth.model.outcome import Accepted
from growth.model.pod import Pod, class_checksum
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import PodGroups, Snapshot
from growth.plan.flow import scheduling
from growth.plan.nodes_up import joining
from growth.plan.world.swaps import template_digest
from tests.plan.builders import (
    AT_ONCE,
    NOW,
    bound,
    limited,
    node,
    notes_by_reason,
    offering,
    ordered,
    orders,
    pod,
    pool,
    request,
    run_scale_up,
    world,
)

SMALL = offering("small", 2, 4096, 0.01)
ON = Settings(scheduler=SchedulerSettings(enabled=True))


def gang(count: int, text: str = "train", cpu: float = 1.5, prefix: str = "p", **fields: Any) -> list[Pod]:
    fields.setdefault("scheduler_name", "growth")
    return [pod(f"{prefix}{number}", cpu, annotations={GANG: text}, **fields) for number in range(count)]


def wanting(pods: list[Pod], most: int = 100, **fields: Any) -> Snapshot:
    return world(pods, [pool("default", limited("small", most))], [SMALL], **fields)


# ----------------------------------------------------------------------------------------- buying


def test_a_gang_that_fits_under_the_limit_is_bought_for_whole() -> None:
    assert ordered(run_scale_up(wanting(gang(3), most=3)).actions) == ["sim-small"] * 3


def test_a_gang_that_does_not_fit_is_not_bought_for_at_all() -> None:
    decision = run_scale_up(wanting(gang(3), most=2))
    assert decision.actions == ()
    told = notes_by_reason(decision)["Unplaced"][0]
    assert "gang default/train: 3 more must start together, and 2 have a place" in told


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 100), st.integers(0, 6))
def test_with_a_share_as_many_as_there_are_places_for_if_that_is_enough(count: int, percent: int, most: int) -> None:
    least = -(-count * percent // 100)
    bought = len(ordered(run_scale_up(wanting(gang(count, f"train:{percent}%"), most=most)).actions))
    assert bought == (min(count, most) if most >= least else 0)


def test_others_are_bought_for_where_a_gang_is_not() -> None:
    decision = run_scale_up(wanting([*gang(3), pod("alone", 1.5)], most=2))
    assert [spec.planned_pods for spec in orders(decision.actions)] == [("default/alone",)]


def test_of_two_gangs_that_fit_only_one_by_one_one_is_bought_for() -> None:
    pods = [*gang(3, "one", prefix="a"), *gang(3, "two", prefix="b")]
    decision = run_scale_up(wanting(pods, most=4))
    assert len(ordered(decision.actions)) == 3
    assert len({spec.planned_pods[0][:9] for spec in orders(decision.actions)}) == 1


def test_members_that_are_missing_are_waited_for_and_told() -> None:
    decision = run_scale_up(wanting(gang(2, "train:10")))
    assert decision.actions == ()
    assert notes_by_reason(decision)["Unplaced"][0].endswith(
        "no place for this pod: gang default/train: 10 must run together, 2 can, and 8 are missing"
    )


def test_members_of_whom_the_scheduler_has_not_spoken_yet_are_waited_for() -> None:
    silent = replace(gang(1, prefix="late")[0], unschedulable_at=None)
    decision = run_scale_up(wanting([*gang(2), silent]), settings=replace(AT_ONCE, demand="AfterVerdict"))
    assert decision.actions == ()
    assert "1 more must ask for a place" in notes_by_reason(decision)["Unplaced"][0]


def test_members_that_run_or_are_planned_count() -> None:
    running = bound(gang(1, "train:3", prefix="r")[0], "n1")
    planned = gang(1, "train:3", prefix="q")
    of_request = request("default-pool-1", SMALL, "Provisioning", planned=["default/q0"])
    pods = [running, *planned, *gang(1, "train:3")]
    decision = run_scale_up(wanting(pods, nodes=[node("n1", of=SMALL)], requests=[of_request]))
    assert [spec.planned_pods for spec in orders(decision.actions)] == [("default/p0",)]


def doubted(*classes: str, most: int = 100) -> NodePool:
    """Machines came in vain: two in a row, or three for these classes of pods, while others were of use since."""
    ages, worked = ((2000, 1900, 1800), format_instant(NOW - 60)) if classes else ((200, 100), None)
    vain = tuple(Trial(f"r{age}", format_instant(NOW - age), "sim-small", "fsn1", "no", classes) for age in ages)
    limit, digest = limited("small", most), template_digest(pool("default", limited("small", most)).spec)
    trials = PoolTrials(in_vain=vain, generation=1, template=digest, worked_at=worked, worked_ordered_at=worked)
    return pool("default", limit, status=NodePoolStatus(trials=trials), generation=1)


def test_in_a_pool_on_trial_a_gang_is_bought_for_in_steps_if_it_could_be_whole() -> None:
    assert ordered(run_scale_up(world(gang(12), [doubted()], [SMALL])).actions) == ["sim-small"]
    too_few = run_scale_up(world(gang(12), [doubted(most=8)], [SMALL]))
    assert ordered(too_few.actions) == []
    told = notes_by_reason(too_few)["Unplaced"]
    assert len(told) == 12
    assert all("12 more must start together" in each for each in told)


def test_the_others_are_bought_for_once_the_first_machine_has_come() -> None:
    first = request("default-pool-1", SMALL, "Provisioning", planned=["default/p0"])
    come = [node("default-pool-1", of=SMALL, taints=(STARTUP_TAINT,))]
    for of in (doubted(), pool("default", status=NodePoolStatus())):
        decision = run_scale_up(world(gang(12), [of], [SMALL], nodes=come, requests=[first]))
        assert ordered(decision.actions) == ["sim-small"] * 11


def test_of_a_gang_for_which_machines_were_in_vain_one_pod_is_tried_and_then_the_others() -> None:
    pods = gang(4)
    of = doubted(class_checksum(pods[0].shape))
    assert ordered(run_scale_up(world(pods, [of], [SMALL])).actions) == ["sim-small"]
    first = request("default-pool-1", SMALL, "Provisioning", planned=["default/p0"])
    assert ordered(run_scale_up(world(pods, [of], [SMALL], requests=[first])).actions) == []
    come = [node("default-pool-1", of=SMALL, taints=(STARTUP_TAINT,))]
    assert ordered(run_scale_up(world(pods, [of], [SMALL], nodes=come, requests=[first])).actions) == ["sim-small"] * 3


def test_of_pods_that_name_a_group_of_a_kind_that_is_not_served_one_alone_is_tried() -> None:
    """Machines were in vain for their class: they are no gang, whose members would all be bought for."""
    pods = [replace(pod(f"p{number}", 1.5), group=f"{PLUGIN_POD_GROUP}/some") for number in range(4)]
    absent = PodGroups(absent=frozenset([PLUGIN_POD_GROUP]))
    of = doubted(class_checksum(pods[0].shape))
    decision = run_scale_up(world(pods, [of], [SMALL], pod_groups=absent))
    assert ordered(decision.actions) == ["sim-small"]
    assert len([each for each in notes_by_reason(decision)["Unplaced"] if "one machine is being tried" in each]) == 3


# ---------------------------------------------------------------------------------------- joining

ONE, TWO = "default-pool-1", "default-pool-2"


def come(pods: list[Pod], *names: str, **fields: Any) -> Snapshot:
    """Each of the first pods is planned onto a machine; those of `names` have joined."""
    requests = [
        request(name, SMALL, "Provisioning", planned=[each.key]) for name, each in zip((ONE, TWO), pods, strict=False)
    ]
    nodes = [node(name, of=SMALL, taints=(STARTUP_TAINT,)) for name in names]
    return world(pods, [pool()], [SMALL], nodes=[*nodes, *fields.pop("nodes", ())], requests=requests, **fields)


def sent(snapshot: Snapshot, ledger: joining.Ledger | None = None) -> dict[str, str]:
    actions = joining.plan(snapshot, ledger or joining.Ledger(), ON).actions
    filled = [action for action in actions if isinstance(action, FillNode)]
    return {pod.name: action.node.name for action in filled for pod in action.pods}


def test_a_machine_that_has_come_waits_for_the_others_of_a_gang() -> None:
    assert sent(come(gang(2), ONE)) == {}
    assert sent(come(gang(2), ONE, TWO)) == {"p0": ONE, "p1": TWO}


def test_pods_of_other_schedulers_wait_for_those_machines_only_that_are_on_their_way() -> None:
    pods = gang(3, scheduler_name="default-scheduler")
    assert sent(come(pods, ONE)) == {}
    assert sent(come(pods, ONE, TWO)) == {"p0": ONE, "p1": TWO}


def test_pods_without_a_gang_are_bound_meanwhile() -> None:
    pods = [*gang(2, cpu=0.5), pod("alone", 0.5)]
    snapshot = come(pods, ONE)
    both = replace(snapshot.requests[ONE].spec, planned_pods=("default/p0", "default/alone"))
    snapshot = replace(snapshot, requests={**snapshot.requests, ONE: replace(snapshot.requests[ONE], spec=both)})
    assert sent(snapshot) == {"alone": ONE}


def test_members_with_room_on_nodes_that_exist_are_bound_first_by_growths_scheduler() -> None:
    """Its machine waits for it, so it counts; then the others run, and it is bound too."""
    snapshot = come(gang(3), ONE, TWO, nodes=[node("n1", of=SMALL)])
    assert sent(snapshot) == {}
    decision = scheduling.plan_on_the_spot(snapshot, scheduling.Ledger(), ON)
    assert [(one.pod.name, one.node_name) for one in decision.actions[0].assignments] == [("p2", "n1")]  # type: ignore[union-attr]
    there = [*gang(2), bound(gang(3)[2], "n1")]
    assert sent(come(there, ONE, TWO, nodes=[node("n1", of=SMALL)])) == {"p0": ONE, "p1": TWO}


def test_after_its_time_a_machine_opens_and_the_members_are_told() -> None:
    snapshot = come(gang(2), ONE)
    held = joining.plan(snapshot, joining.Ledger(), ON)
    assert held.again_at == NOW + ON.gang_seconds
    assert held.ledger.held_since == {ONE: NOW}
    late = replace(snapshot, now=NOW + ON.gang_seconds)
    given_up = joining.plan(late, held.ledger, ON)
    assert given_up.actions == ()
    assert notes_by_reason(given_up) == {
        "GangIncomplete": [f"Pod default/p0: node {ONE} has waited 600 s for others of gang default/train, and opens"]
    }
    opened = joining.plan(replace(late, now=late.now + 60), given_up.ledger, ON)
    if not opened.actions:
        opened = joining.plan(replace(late, now=late.now + 120), opened.ledger, ON)
    (action,) = opened.actions
    assert isinstance(action, ReadyNode)
    assert joining.settle(Settled(action, Accepted()), late, opened.ledger, ON).again_at is None
