"""Given these claims and volumes, this is what growth's own scheduler asks for, waits for and gives up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import Assignment, BindPods, Unscheduled, VolumeAsk, WritePodsUnscheduled
from growth.model.decision import Decision, Settled
from growth.model.labels import HOSTNAME, NodeSelectorTerm, Requirement
from growth.model.outcome import Accepted, Conflict
from growth.model.pod import Pod, VolumeUse
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot, VolumeWorld
from growth.model.volumes import AttachLimit, Claim, StorageClass, Volume, VolumeNode
from growth.plan.flow import scheduling
from growth.plan.flow.scheduling import Ledger, settle
from tests.plan.builders import NOW, bound, node, world
from tests.plan.builders import pod as any_pod

ON = Settings(scheduler=SchedulerSettings(enabled=True))
TWO = (node("n1"), node("n2"))  # four cores each
MADE = StorageClass("made", "example.com/disk", waits_for_consumer=True)
LOCAL = StorageClass("local", "kubernetes.io/no-provisioner", waits_for_consumer=True)
AT_ONCE = StorageClass("at-once", "example.com/disk")
GANG: dict[str, Any] = {"annotations": {"growth.dev/gang": "train:2"}}


def pod(name: str, *claims: str, cpu: float = 1, **fields: Any) -> Pod:
    asked = {"volumes_asked_at": fields.pop("volumes_asked_at", None)}
    fields.setdefault("unschedulable_at", None)
    volumes = tuple(VolumeUse(claim=claim) for claim in claims)
    return replace(any_pod(name, cpu, scheduler_name="growth", volumes=volumes, **fields), **asked)


def asked(name: str, *claims: str, on: str = "n1", at: float = NOW - 5, **fields: Any) -> Pod:
    """Its volumes were asked for."""
    return pod(name, *claims, nominated_node=on, volumes_asked_at=at, **fields)


def claim(name: str, of: str = "made", **fields: Any) -> Claim:
    fields.setdefault("access_modes", ("ReadWriteOnce",))
    return Claim("default", name, storage_class=of, uid=f"uid-{name}", request_bytes=1, **fields)


def has(name: str, **fields: Any) -> Claim:
    """A claim that is bound."""
    return claim(name, volume=f"pv-{name}", is_bound=True, **fields)


def volume(name: str, *on: str, of: str = "local", **fields: Any) -> Volume:
    fields.setdefault("access_modes", ("ReadWriteOnce",))
    terms = (NodeSelectorTerm((Requirement(HOSTNAME, "In", on),)),) if on else None
    return Volume(name, node_affinity=terms, storage_class=of, capacity_bytes=1, **fields)


def storage(*parts: Claim | Volume | StorageClass | VolumeNode) -> VolumeWorld:
    claims = {each.key: each for each in parts if isinstance(each, Claim)}
    made = [volume(each.volume, of="made", claim=each.key, phase="Bound") for each in claims.values() if each.volume]
    volumes = {each.name: each for each in (*made, *parts) if isinstance(each, Volume)}
    classes = {each.name: each for each in (MADE, LOCAL, AT_ONCE, *parts) if isinstance(each, StorageClass)}
    return VolumeWorld(claims, volumes, classes, {each.name: each for each in parts if isinstance(each, VolumeNode)})


def plan(snapshot: Snapshot, ledger: Ledger | None = None) -> Decision[Ledger]:
    return scheduling.plan_on_the_spot(snapshot, ledger or Ledger(), ON)


def assigned(decision: Decision[Ledger]) -> dict[str, Assignment]:
    binds = [action for action in decision.actions if isinstance(action, BindPods)]
    return {one.pod.name: one for action in binds for one in action.assignments}


def bound_to(decision: Decision[Ledger]) -> dict[str, str]:
    return {name: one.node_name for name, one in assigned(decision).items() if one.wait is None}


def asks(decision: Decision[Ledger], name: str) -> dict[str, str]:
    """By claim: the volume that is reserved, or nothing where the provisioner is asked."""
    wait = assigned(decision)[name].wait
    assert wait is not None
    return {each.claim.name: each.volume for each in wait.asks}


def told(decision: Decision[Ledger]) -> dict[str, Unscheduled]:
    writes = [action for action in decision.actions if isinstance(action, WritePodsUnscheduled)]
    return {one.pod.name: one for action in writes for one in action.pods}


# ------------------------------------------------------------------------------------------ asking


def test_a_pod_whose_claim_waits_for_it_gets_a_node_and_is_not_bound_before_its_volume_is() -> None:
    decision = plan(world([pod("a", "data")], nodes=TWO, volumes=storage(claim("data"))))
    one = assigned(decision)["a"]
    assert one.wait is not None
    assert one.wait.asks == (VolumeAsk(replace(one.wait.asks[0].claim, name="data", uid="uid-data")),)
    assert one.wait.message == f"waits on node {one.node_name} for the volumes of default/data"
    assert one.wait.since == NOW


def test_a_pod_whose_claims_are_bound_is_bound_where_they_can_be_reached() -> None:
    there = storage(has("data"), volume("pv-data", "n2", of="made", claim="default/data", phase="Bound"))
    assert bound_to(plan(world([pod("a", "data")], nodes=TWO, volumes=there))) == {"a": "n2"}


def test_the_topologies_that_a_class_allows_and_the_attach_limits_of_nodes_are_kept() -> None:
    only = NodeSelectorTerm((Requirement(HOSTNAME, "In", ("n2",)),))
    there = replace(MADE, allowed_topologies=(only,))
    decision = plan(world([pod("a", "data")], nodes=TWO, volumes=storage(claim("data"), there)))
    assert assigned(decision)["a"].node_name == "n2"
    full = (VolumeNode(name, (AttachLimit("example.com/disk", 1),)) for name in ("n1", "n2"))
    runs = bound(pod("b", "old"), "n1")
    attached = volume("pv-old", of="made", claim="default/old", driver="example.com/disk", handle="1")
    used = storage(claim("data"), has("old"), attached, *full)
    assert assigned(plan(world([runs, pod("a", "data")], nodes=TWO, volumes=used)))["a"].node_name == "n2"


def test_a_free_volume_that_suits_is_reserved_and_else_a_volume_is_made() -> None:
    free = volume("disk-1", "n2", of="made")
    decision = plan(world([pod("a", "data")], nodes=TWO[1:], volumes=storage(claim("data"), free)))
    assert asks(decision, "a") == {"data": "disk-1"}
    decision = plan(world([pod("a", "data")], nodes=TWO[:1], volumes=storage(claim("data"), free)))
    assert asks(decision, "a") == {"data": ""}


def test_two_pods_of_one_round_do_not_get_the_same_volume() -> None:
    there = storage(claim("x", "local"), claim("y", "local"), volume("disk-1", "n1"))
    decision = plan(world([pod("a", "x"), pod("b", "y")], nodes=TWO, volumes=there))
    assert asks(decision, "a") == {"x": "disk-1"}
    assert "was just taken by another pod" in told(decision)["b"].message


def test_two_pods_with_one_claim_do_not_ask_for_it_on_two_nodes() -> None:
    shared = storage(claim("data", access_modes=("ReadWriteMany",)))
    decision = plan(world([pod("a", "data", cpu=3), pod("b", "data", cpu=3)], nodes=TWO, volumes=shared))
    assert list(assigned(decision)) == ["a"]
    assert "claim default/data was just promised to node" in told(decision)["b"].message
    decision = plan(world([pod("a", "data"), pod("b", "data")], nodes=TWO[:1], volumes=shared))
    assert {name: asks(decision, name) for name in "ab"} == {"a": {"data": ""}, "b": {}}


def test_a_claim_for_one_pod_alone_is_given_to_one() -> None:
    alone = storage(claim("data", access_modes=("ReadWriteOncePod",)))
    decision = plan(world([pod("a", "data"), pod("b", "data")], nodes=TWO, volumes=alone))
    assert list(assigned(decision)) == ["a"]
    assert "claim default/data is for one pod alone and in use" in told(decision)["b"].message
    waiting = [asked("a", "data"), pod("b", "data")]
    held = storage(claim("data", access_modes=("ReadWriteOncePod",), selected_node="n1"))
    assert assigned(plan(world(waiting, nodes=TWO, volumes=held))) == {}


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ((claim("data", "at-once"),), "unbound immediate claims default/data"),
        ((), "claim default/data not found"),
        ((claim("data", is_lost=True, volume="gone"),), "lost its volume"),
        ((claim("data", selected_node="gone"),), "no volume for default/data"),
    ],
)
def test_a_pod_whose_claim_cannot_be_had_waits_and_is_told_why(claims: tuple[Claim, ...], words: str) -> None:
    decision = plan(world([pod("a", "data")], nodes=TWO, volumes=storage(*claims)))
    assert assigned(decision) == {}
    assert told(decision)["a"].reason == "Unschedulable"
    assert words in told(decision)["a"].message


# ------------------------------------------------------------------------------------------ waiting


def test_while_a_pod_waits_for_its_volume_nobody_else_gets_its_room_and_it_is_left_alone() -> None:
    waiting = asked("a", "data", cpu=3)
    snapshot = world([waiting, pod("b", cpu=3)], nodes=TWO[:1], volumes=storage(claim("data", selected_node="n1")))
    decision = plan(snapshot)
    assert assigned(decision) == {}
    assert list(told(decision)) == ["b"]
    assert decision.again_at == NOW - 5 + ON.scheduler.volume_seconds


def test_a_pod_is_bound_to_its_node_once_its_claims_are_bound() -> None:
    decision = plan(world([asked("a", "data", on="n2")], nodes=TWO, volumes=storage(has("data", selected_node="n2"))))
    assert bound_to(decision) == {"a": "n2"}


def test_a_volume_that_is_being_bound_is_waited_for() -> None:
    coming = claim("data", "local", volume="disk-1")
    reserved = volume("disk-1", "n1", claim="default/data", claim_uid="uid-data")
    decision = plan(world([asked("a", "data")], nodes=TWO, volumes=storage(coming, reserved)))
    assert decision.actions == ()
    only_reserved = storage(claim("data", "local"), reserved)
    assert plan(world([asked("a", "data")], nodes=TWO, volumes=only_reserved)).actions == ()


def test_what_is_on_the_objects_is_enough_to_go_on_after_a_restart() -> None:
    """The claim was promised to a node, and growth ended before or after it wrote that on the pod."""
    promised = storage(claim("data", selected_node="n2"), claim("more"))
    decision = plan(world([pod("a", "data", "more")], nodes=TWO, volumes=promised))
    assert assigned(decision)["a"].node_name == "n2"
    assert asks(decision, "a") == {"more": ""}


def test_a_volume_that_was_made_where_the_node_cannot_reach_it_sends_the_pod_there() -> None:
    there = storage(has("data"), volume("pv-data", "n2", of="made", claim="default/data", phase="Bound"))
    assert bound_to(plan(world([asked("a", "data")], nodes=TWO, volumes=there))) == {"a": "n2"}


# ---------------------------------------------------------------------------------------- going back


@pytest.mark.parametrize(
    ("fields", "at", "words"),
    [
        ({}, NOW - 5, "could not get a volume on node n1: its provisioner gave it back"),
        ({"selected_node": "n2"}, NOW - 5, "was promised to node n2, not to n1"),
        ({"selected_node": "n1"}, NOW - 600, "got no volume on node n1 within 600 s"),
        ({"selected_node": "n1", "deleted_at": NOW}, NOW - 5, "is being deleted"),
    ],
)
def test_a_pod_goes_back_to_the_queue_and_is_told_why(fields: dict[str, Any], at: float, words: str) -> None:
    snapshot = world([asked("a", "data", at=at)], nodes=TWO, volumes=storage(claim("data", **fields)))
    decision = plan(snapshot)
    assert assigned(decision) == {}
    assert words in told(decision)["a"].message
    assert told(decision)["a"].is_withdrawn
    assert plan(snapshot, decision.ledger).actions == ()  # the write is under way


def test_a_pod_that_somebody_took_back_from_its_node_is_placed_anew() -> None:
    nowhere = asked("a", "data", on="")
    decision = plan(world([nowhere], nodes=TWO, volumes=storage(claim("data", selected_node="n1"))))
    assert told(decision)["a"].message == "it was taken back from the node that its volumes were asked for"


def test_a_pod_whose_node_goes_is_placed_anew() -> None:
    going = replace(TWO[0], deleted_at=NOW)
    decision = plan(world([asked("a", "data")], nodes=(going, TWO[1]), volumes=storage(has("data"))))
    assert told(decision)["a"].is_withdrawn
    withdrawn = pod("a", "data", unschedulable_at=NOW)
    later = plan(world([withdrawn], nodes=TWO[1:], volumes=storage(has("data")), now=NOW + 2), decision.ledger)
    assert bound_to(later) == {"a": "n2"}


def test_after_the_provisioner_gave_up_the_pod_is_tried_again_a_moment_later() -> None:
    first = plan(world([asked("a", "data")], nodes=TWO, volumes=storage(claim("data"))))
    withdrawn = pod("a", "data", unschedulable_at=NOW)
    changed = storage(claim("data"))
    soon = plan(world([withdrawn], nodes=TWO, volumes=changed, now=NOW + 0.5), first.ledger)
    assert assigned(soon) == {}
    later = plan(world([withdrawn], nodes=TWO, volumes=changed, now=NOW + 1.5), soon.ledger)
    assert list(assigned(later)) == ["a"]


def test_a_node_for_which_no_volume_could_be_made_is_tried_again_after_all_others() -> None:
    there = storage(claim("data"))
    given_back, withdrawn = asked("a", "data"), pod("a", "data", unschedulable_at=NOW)
    first = plan(world([given_back], nodes=TWO, volumes=there))
    second = plan(world([withdrawn], nodes=TWO, volumes=there, now=NOW + 2), first.ledger)
    assert assigned(second)["a"].node_name == "n2"
    alone = plan(world([withdrawn], nodes=TWO[:1], volumes=there, now=NOW + 2), first.ledger)
    assert assigned(alone) == {}
    assert alone.again_at is not None
    later = world([withdrawn], nodes=TWO[:1], volumes=there, now=alone.again_at)
    assert assigned(plan(later, alone.ledger))["a"].node_name == "n1"


def test_a_pod_that_is_given_back_twice_in_a_moment_is_told_so_twice() -> None:
    there = storage(claim("data"))
    first = plan(world([asked("a", "data")], nodes=TWO, volumes=there))
    again = asked("a", "data", on="n2", at=NOW + 3)
    assert told(plan(world([again], nodes=TWO, volumes=there, now=NOW + 5), first.ledger))["a"].is_withdrawn


@pytest.mark.parametrize("outcome", [Accepted(), Conflict("claim default/data is promised to node n9")])
def test_asking_that_fails_is_no_more_than_a_reason_to_place_the_pod_again(outcome: Any) -> None:
    snapshot = world([pod("a", "data")], nodes=TWO, volumes=storage(claim("data")))
    first = plan(snapshot)
    ledger = settle(Settled(first.actions[0], outcome), snapshot, first.ledger, ON).ledger
    if isinstance(outcome, Accepted):
        after = world([asked("a", "data")], nodes=TWO, volumes=storage(claim("data", selected_node="n1")))
        assert plan(after, ledger).actions == ()
        assert plan(after, ledger).ledger.backoffs == {}
    else:
        soon = plan(replace(snapshot, now=NOW + 0.1), ledger)
        assert soon.actions == ()
        assert list(assigned(plan(replace(snapshot, now=NOW + 2), soon.ledger))) == ["a"]


# -------------------------------------------------------------------------------------------- gangs


def test_of_a_gang_with_volumes_everybody_waits_until_all_claims_are_bound() -> None:
    first = plan(world([pod("a", "data", **GANG), pod("b", **GANG)], nodes=TWO, volumes=storage(claim("data"))))
    assert bound_to(first) == {}
    assert asks(first, "a") == {"data": ""}
    assert asks(first, "b") == {}
    waiting = [asked("a", "data", **GANG), asked("b", on="n2", **GANG)]
    promised = storage(claim("data", selected_node="n1"))
    assert plan(world([*waiting, pod("c", **GANG)], nodes=TWO, volumes=promised)).actions == ()
    assert bound_to(plan(world(waiting, nodes=TWO, volumes=storage(has("data"))))) == {"a": "n1", "b": "n2"}


def test_a_gang_goes_back_as_a_whole() -> None:
    waiting = [asked("a", "data", **GANG), asked("b", on="n2", **GANG)]
    decision = plan(world(waiting, nodes=TWO, volumes=storage(claim("data"))))
    assert {name: one.is_withdrawn for name, one in told(decision).items()} == {"a": True, "b": True}
    too_few = plan(world(waiting[:1], nodes=TWO, volumes=storage(has("data"))))
    assert told(too_few)["a"].is_withdrawn


def test_a_gang_whose_room_is_gone_when_its_volumes_come_is_not_bound_in_part() -> None:
    waiting = [asked("a", "data", cpu=3, **GANG), asked("b", on="n2", cpu=3, **GANG)]
    taken = bound(pod("other", cpu=3), "n2")
    decision = plan(world([*waiting, taken], nodes=TWO, volumes=storage(has("data"))))
    assert assigned(decision) == {}
