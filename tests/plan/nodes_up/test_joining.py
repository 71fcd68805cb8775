"""How a plan becomes true on a node that has joined: registered, its pods bound behind the start-up taint, and then
opened.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import FillNode, NominatePod, ReadyNode, RegisterNode
from growth.model.decision import Decision, Settled
from growth.model.labels import ARCHITECTURE, HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, TEMPLATE, Node, Taint
from growth.model.nodepool import PoolTaint
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown
from growth.model.pod import Pod, PodAffinityTerm, VolumeUse
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot, VolumeWorld
from growth.model.volumes import Claim, Volume
from growth.plan.nodes_up import joining
from growth.plan.world.pools import node_labels
from growth.plan.world.swaps import template_digest
from growth.plan.world.turn import seen
from tests.plan.builders import (
    NOW,
    amounts,
    bound,
    daemon_pod,
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
NAME = "default-pool-1"
SETTINGS = Settings()
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")


def plan(snapshot: Snapshot, ledger: joining.Ledger | None = None) -> Decision[joining.Ledger]:
    return joining.plan(snapshot, ledger or joining.Ledger(), SETTINGS)


def bound_by(decision: Decision[joining.Ledger]) -> list[str]:
    """Names of the pods that are bound."""
    return [pod.name for action in decision.actions if isinstance(action, FillNode) for pod in action.pods]


def starting(**fields: Any) -> Node:
    fields.setdefault("taints", (STARTUP_TAINT,))
    return node(NAME, of=SMALL, **fields)


def joined(pods: list[Pod], of_node: Node | None = None, **fields: Any) -> Snapshot:
    planned = fields.pop("planned", [each.key for each in pods])
    fields.setdefault("pools", [pool()])
    of_request = request(NAME, SMALL, fields.pop("phase", "Provisioning"), planned=planned)
    return world(pods, offerings=[SMALL], nodes=[of_node or starting()], requests=[of_request], **fields)


def settled(snapshot: Snapshot, decision: Decision[joining.Ledger], outcome: Outcome) -> Decision[joining.Ledger]:
    """All actions of a decision have had this outcome."""
    ledger, last = decision.ledger, decision
    for action in decision.actions:
        last = joining.settle(Settled(action, outcome), snapshot, ledger, SETTINGS)
        ledger = last.ledger
    return last


def test_a_node_that_has_joined_is_registered() -> None:
    of_pool = pool(
        "default",
        labels={"tier": "web", ZONE: "mine"},
        taints=(PoolTaint("team", "NoSchedule", "a"),),
        startup_taints=(PoolTaint("net/down", "NoExecute"),),
    )
    fresh = Node(
        NAME,
        Labels({HOSTNAME: "its-own", ARCHITECTURE: "amd64"}),
        (NOT_READY,),
        uid="u",
        resource_version="9",
        is_ready=False,
        pool="default",
    )
    (action,) = plan(
        joined([], fresh, pools=[replace(of_pool, spec=replace(of_pool.spec, annotations={"note": "x"}))])
    ).actions
    assert isinstance(action, RegisterNode)
    assert action.node == seen(fresh)
    labels = dict(action.labels)
    assert {key: labels.get(key) for key in (POOL_LABEL, OFFERING_LABEL, REQUEST_LABEL, "tier", ZONE)} == {
        POOL_LABEL: "default", OFFERING_LABEL: "sim-small", REQUEST_LABEL: NAME, "tier": "web", ZONE: "fsn1",
    }  # fmt: skip
    assert HOSTNAME not in labels  # what the node says of itself stays
    assert dict(action.annotations).keys() == {"note", TEMPLATE}
    assert dict(action.annotations)[TEMPLATE] == template_digest(replace(of_pool.spec, annotations={"note": "x"}))
    assert action.taints == (NOT_READY, STARTUP_TAINT, Taint("team", "a"), Taint("net/down", "", "NoExecute"))


def test_a_start_up_taint_that_was_taken_off_already_is_not_put_back() -> None:
    of_pool = pool("default", startup_taints=(PoolTaint("net/down", "NoExecute"),))
    booted = Node(NAME, Labels({POOL_LABEL: "default"}), (STARTUP_TAINT,), uid="u", pool="default")
    (action,) = plan(joined([], booted, pools=[of_pool])).actions
    assert isinstance(action, RegisterNode)
    assert action.taints is None
    assert action.node == seen(booted)  # labels that others may write meanwhile are missing


def test_a_node_that_lacks_only_what_is_growths_own_is_registered_in_whatever_version() -> None:
    said = Labels({key: value for key, value in node_labels(pool(), SMALL, NAME).items() if key != REQUEST_LABEL})
    booted = Node(NAME, said, (STARTUP_TAINT,), uid="u", resource_version="9", pool="default")
    (action,) = plan(joined([], booted)).actions
    assert isinstance(action, RegisterNode)
    assert (action.node.uid, action.node.resource_version, action.taints) == ("u", "", None)


def test_planned_pods_are_bound_behind_the_taint() -> None:
    asked = [pod("a"), pod("b")]
    together = (asked[0].uid, asked[1].uid)
    snapshot = joined(asked)
    assert plan(snapshot).actions == (FillNode(seen(snapshot.nodes[NAME]), (seen(asked[0]), seen(asked[1])), together),)


def test_a_bind_names_the_pods_that_were_counted_on_its_node() -> None:
    there, agent, asked = bound(pod("there", 0.5), NAME), daemon_pod("agent", NAME), pod("a")
    (binding,) = plan(joined([there, agent, asked, bound(pod("elsewhere"), "another")])).actions
    assert isinstance(binding, FillNode)
    assert set(binding.beside) == {there.uid, agent.uid, asked.uid}


@pytest.mark.parametrize(
    "not_yet",
    [
        {"is_ready": False},
        {"taints": (STARTUP_TAINT, NOT_READY)},
        {"taints": (STARTUP_TAINT, Taint("net/down"))},
        {"malformed": "cpu"},
    ],
)
def test_nobody_is_bound_before_the_node_is_initialised(not_yet: dict[str, Any]) -> None:
    of_pool = pool("default", startup_taints=(PoolTaint("net/down", "NoSchedule"),))
    assert plan(joined([pod("a")], starting(**not_yet), pools=[of_pool])).actions == ()


def test_the_taint_goes_a_second_after_the_last_bind() -> None:
    snapshot = joined([pod("a")])
    binding = plan(snapshot)
    ledger = settled(snapshot, binding, Accepted()).ledger
    seen_bound = replace(joined([bound(pod("a"), NAME)], planned=["default/a"]), now=NOW + 3)  # binding took its time
    first = plan(seen_bound, ledger)
    assert (first.actions, first.again_at) == ((), NOW + 4)
    early = plan(replace(seen_bound, now=NOW + 3.9), first.ledger)
    assert (early.actions, early.again_at) == ((), NOW + 4)
    (opened,) = plan(replace(seen_bound, now=NOW + 4), early.ledger).actions
    assert opened == ReadyNode(seen(starting()), ())


def test_after_a_restart_the_second_is_waited_for_again() -> None:
    snapshot = joined([bound(pod("a"), NAME)], planned=["default/a"])
    assert plan(snapshot).again_at == NOW + 1


def test_a_node_without_pods_is_opened_at_once_and_other_taints_stay() -> None:
    other = Taint("team", "a")
    of_node = starting(taints=(STARTUP_TAINT, other))
    (opened,) = plan(joined([daemon_pod("d", NAME)], of_node, planned=[])).actions
    assert opened == ReadyNode(seen(of_node), (other,))


def test_a_bind_that_the_cache_does_not_show_yet_is_not_done_twice() -> None:
    snapshot = joined([pod("a")])
    ledger = settled(snapshot, plan(snapshot), Accepted()).ledger
    again = plan(snapshot, ledger)
    assert (again.actions, again.again_at) == ((), NOW + 1)


def test_a_conflict_means_replan_and_the_node_is_opened_without_that_pod() -> None:
    snapshot = joined([pod("a")])
    after = settled(snapshot, plan(snapshot), Conflict("bound elsewhere"))
    assert after.again_at == NOW
    assert plan(snapshot, after.ledger).again_at == NOW + 1
    gone = replace(snapshot, waiting_pods=())
    assert [type(action) for action in plan(gone, joining.Ledger()).actions] == [ReadyNode]


@pytest.mark.parametrize(("outcome", "seconds"), [(Unknown("timeout"), 2.0), (TryLater("busy", 9.0), 9.0)])
def test_a_bind_without_an_answer_is_tried_again_later(outcome: Outcome, seconds: float) -> None:
    snapshot = joined([pod("a")])
    after = settled(snapshot, plan(snapshot), outcome)
    assert after.again_at == NOW + seconds
    assert plan(replace(snapshot, now=NOW + 1), after.ledger).actions == ()
    assert [type(action) for action in plan(replace(snapshot, now=NOW + seconds), after.ledger).actions] == [FillNode]


def test_a_node_is_not_filled_twice_at_a_time_and_each_pod_has_an_outcome_of_its_own() -> None:
    asked = [pod(name, 0.1) for name in "abcd"]
    snapshot = joined(asked)
    filling = plan(snapshot)
    assert plan(snapshot, filling.ledger).actions == ()
    bad = Accepted(failed=(("uid-b", Refused("no")), ("uid-c", TryLater("busy", 9.0)), ("uid-d", Conflict("taken"))))
    failed = replace(bad, failed=tuple((each.uid, why) for each, (_, why) in zip(asked[1:], bad.failed, strict=True)))
    after = settled(snapshot, filling, failed)
    assert plan(snapshot, after.ledger).actions == (NominatePod(seen(asked[1]), NAME),)
    assert bound_by(plan(replace(snapshot, now=NOW + 9), after.ledger)) == ["c"]


def test_no_more_nodes_are_filled_at_a_time_than_a_look_at_them_stays_fresh() -> None:
    names = [f"default-pool-{number:03d}" for number in range(70)]
    asked = [pod(f"p{number}") for number in range(70)]
    requests = [
        request(name, SMALL, "Provisioning", planned=[each.key]) for name, each in zip(names, asked, strict=True)
    ]
    nodes = [node(name, of=SMALL, taints=(STARTUP_TAINT,)) for name in names]
    snapshot = world(asked, [pool()], [SMALL], nodes, requests)
    first = plan(snapshot)
    assert len(first.actions) == 64
    after = settled(snapshot, replace(first, actions=first.actions[:1]), Accepted())
    assert len(plan(snapshot, after.ledger).actions) == 1


def test_a_pod_that_may_not_be_bound_after_all_is_nominated() -> None:
    snapshot = joined([pod("a")])
    after = settled(snapshot, plan(snapshot), Refused("forbidden"))
    assert notes_by_reason(after) == {"BindRefused": [f"Pod default/a: could not be sent to {NAME}: forbidden"]}
    nominating = plan(snapshot, after.ledger)
    assert nominating.actions == (NominatePod(seen(pod("a")), NAME),)
    left_alone = settled(snapshot, nominating, Refused("forbidden"))
    assert plan(snapshot, left_alone.ledger).actions == ()  # the scheduler will find it when the node opens


UNBOUND = VolumeWorld(claims={"default/data": Claim("default", "data")})
BOUND = VolumeWorld(claims={"default/data": Claim("default", "data", volume="v", is_bound=True)})
REACHED = replace(BOUND, volumes={"v": Volume("v")})


@pytest.mark.parametrize(
    ("asked", "fields", "is_bound"),
    [
        (pod("a", scheduler_name="other"), {}, False),
        (pod("a", uses_resource_claims=True), {}, False),
        (pod("a", volumes=(VolumeUse(is_ephemeral=True, claim="x"),)), {}, False),
        (pod("a"), {"pools": [pool("default", bind_planned_pods=False)]}, False),
        (pod("a"), {}, True),
    ],
)
def test_only_pods_that_the_scheduler_need_not_think_about_are_bound(
    asked: Pod, fields: dict[str, Any], is_bound: bool
) -> None:
    (action,) = plan(joined([asked], **fields)).actions
    assert isinstance(action, FillNode if is_bound else NominatePod)


@pytest.mark.parametrize(("volumes", "may"), [(UNBOUND, False), (BOUND, True), (VolumeWorld(), False)])
def test_a_pod_is_bound_only_if_its_volumes_are(volumes: VolumeWorld, may: bool) -> None:
    asked = pod("a", volumes=(VolumeUse(claim="data"),))
    assert joining.may_bind(asked, pool(), joined([asked], volumes=volumes)) is may


def test_a_gang_of_growths_scheduler_that_needs_volumes_is_left_to_it_as_a_whole() -> None:
    fields: dict[str, Any] = {"scheduler_name": "growth", "annotations": {"growth.dev/gang": "train"}}
    members = [pod("a", **fields), pod("b", volumes=(VolumeUse(claim="data"),), **fields)]
    ours = Settings(scheduler=SchedulerSettings(enabled=True))
    for volumes, done in ((UNBOUND, [NominatePod, NominatePod]), (REACHED, [FillNode])):
        decided = joining.plan(joined(members, volumes=volumes), joining.Ledger(), ours)
        assert [type(action) for action in decided.actions] == done


def test_nominated_pods_let_the_node_open_and_are_not_nominated_twice() -> None:
    snapshot = joined([pod("a", scheduler_name="other")])
    ledger = settled(snapshot, plan(snapshot), Accepted()).ledger
    wiped = plan(snapshot, ledger)  # the scheduler has wiped the nomination: that is its right
    assert (wiped.actions, wiped.again_at) == ((), NOW + 1)
    assert [type(action) for action in plan(replace(snapshot, now=NOW + 1), wiped.ledger).actions] == [ReadyNode]


def test_a_planned_pod_that_is_gone_gated_or_going_is_dropped() -> None:
    others = [pod("gated", is_gated=True), pod("going", deleted_at=NOW)]
    snapshot = joined(others, planned=["default/gone", "default/gated", "default/going"])
    assert [type(action) for action in plan(snapshot).actions] == [ReadyNode]


def test_pods_that_no_longer_fit_the_real_node_are_dropped() -> None:
    asked = [pod("a", 1), pod("b", 1)]
    snapshot = joined(asked, starting(allocatable=amounts(1.5, 4096, 110)))
    assert bound_by(plan(snapshot)) == ["a"]


def test_daemon_set_pods_that_are_still_to_come_keep_their_room() -> None:
    from growth.model.snapshot import DaemonSet
    from tests.plan.builders import shape

    daemons = (DaemonSet("default/agent", shape(1, 64)),)
    asked = [pod("a", 1), pod("b", 1)]
    coming = plan(joined(asked, daemon_sets=daemons))
    assert bound_by(coming) == ["a"]
    here = plan(joined([*asked, daemon_pod("d", NAME, cpu=0)], daemon_sets=daemons, planned=["default/a", "default/b"]))
    assert bound_by(here) == ["a", "b"]


def test_growth_binds_past_the_scheduler_only_where_every_rule_still_allows_it() -> None:
    web = LabelSelector((Requirement("app", "In", ("web",)),))
    loner = pod("loner", labels={"app": "web"}, anti_affinity=(PodAffinityTerm(ZONE, web),))
    neighbour = node("static", "", labels={ZONE: "z"})
    of_node = starting(labels={ZONE: "z"})
    alone = joined([loner], of_node)
    assert [type(action) for action in plan(alone).actions] == [FillNode]
    rival = replace(
        alone,
        nodes={**alone.nodes, "static": neighbour},
        pods_by_node={"static": (bound(pod("x", labels={"app": "web"}), "static"),)},
    )
    assert [type(action) for action in plan(rival).actions] == [NominatePod]
    assert [type(action) for action in plan(alone).actions] == [FillNode]  # what was seen before is no obstacle


def test_a_plan_that_holds_only_as_a_whole_is_bound_as_a_whole() -> None:
    web = LabelSelector((Requirement("app", "In", ("web",)),))
    follower = pod("follower", affinity=(PodAffinityTerm(HOSTNAME, web),))
    leader = pod("leader", labels={"app": "web"})
    assert [type(action) for action in plan(joined([follower, leader])).actions] == [FillNode]


def test_a_nomination_to_a_node_that_is_gone_is_taken_back_once() -> None:
    lost = pod("a", nominated_node="default-pool-gone")
    theirs = pod("b", nominated_node="static-gone")
    snapshot = world([lost, theirs], [pool()], [SMALL])
    decision = plan(snapshot)
    assert decision.actions == (NominatePod(seen(lost), ""),)
    assert plan(snapshot, settled(snapshot, decision, Accepted()).ledger).actions == ()


def test_pods_planned_onto_the_node_later_are_bound_as_well() -> None:
    snapshot = joined([pod("a"), pod("late")], planned=["default/a"])
    (of_request,) = snapshot.requests.values()
    added = replace(of_request, status=replace(of_request.status, added_pods=("default/late",)))
    assert bound_by(plan(replace(snapshot, requests={NAME: added}))) == ["a", "late"]


def test_a_request_that_is_ready_while_its_node_is_still_tainted_goes_on() -> None:
    assert [type(action) for action in plan(joined([pod("a")], phase="Ready")).actions] == [FillNode]


def test_machines_may_arrive_in_any_order() -> None:
    asked = [pod("a", 2), pod("b", 2)]
    requests = [request(f"default-pool-{each.name}", SMALL, "Provisioning", planned=[each.key]) for each in asked]
    late_first = world(asked, [pool()], [SMALL], [node("default-pool-b", of=SMALL, taints=(STARTUP_TAINT,))], requests)
    (there,) = late_first.nodes.values()
    assert plan(late_first).actions == (FillNode(seen(there), (seen(asked[1]),), (asked[1].uid,)),)


@pytest.mark.parametrize(("cpu", "waits"), [(1, True), (2, False)])
def test_a_node_with_room_left_lets_pods_of_other_new_nodes_go_first_but_not_for_long(cpu: float, waits: bool) -> None:
    here, elsewhere = bound(pod("here", 1), NAME), pod("elsewhere", cpu)
    requests = [
        request(NAME, SMALL, "Provisioning", planned=["default/here"]),
        request("default-pool-2", SMALL, "Provisioning", planned=["default/elsewhere"]),
    ]
    snapshot = world([here, elsewhere], [pool()], [SMALL], [starting()], requests)
    first = plan(snapshot)
    after_a_moment = plan(replace(snapshot, now=NOW + 1), first.ledger)
    assert (first.actions, bool(after_a_moment.actions)) == ((), not waits)
    everybody_bound = world([here, bound(elsewhere, "default-pool-2")], [pool()], [SMALL], [starting()], requests)
    assert [type(action) for action in plan(replace(everybody_bound, now=NOW + 1), first.ledger).actions] == [ReadyNode]
    assert [type(action) for action in plan(replace(snapshot, now=NOW + 11), first.ledger).actions] == [ReadyNode]


def test_a_node_whose_request_was_deleted_by_hand_is_opened_all_the_same() -> None:
    alone = world([bound(pod("a"), NAME)], [pool()], [SMALL], [starting()])
    first = plan(alone)
    assert (first.actions, first.again_at) == ((), NOW + 1)
    assert [type(action) for action in plan(replace(alone, now=NOW + 1), first.ledger).actions] == [ReadyNode]
    unregistered = world((), [pool()], [SMALL], [starting(labels={REQUEST_LABEL: ""})])
    assert plan(unregistered).actions == ()


@pytest.mark.parametrize("has_record", [False, True])
def test_a_node_that_was_deleted_and_joins_again_is_registered_by_its_machine(has_record: bool) -> None:
    requests = [request(NAME, SMALL, "Ready")] if has_record else []
    again = starting(labels={REQUEST_LABEL: ""})
    joined = world((), [pool()], [SMALL], [again], requests, machines=[machine(NAME, SMALL)])
    (registered,) = plan(joined).actions
    assert isinstance(registered, RegisterNode)
    assert dict(registered.labels)[OFFERING_LABEL] == SMALL.name
    opened = world((), [pool()], [SMALL], [starting()], requests, machines=[machine(NAME, SMALL)])
    assert [type(action) for action in plan(opened).actions] == [ReadyNode]
    given_back = world((), [pool()], [SMALL], [again], [request(NAME, SMALL, "Deprovisioning")])
    assert plan(given_back).actions == ()
