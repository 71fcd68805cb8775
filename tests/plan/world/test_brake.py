"""The brake: when so many nodes fail that none is given up, what it holds and what not, and how a person lifts it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.api import Condition, LifeEvent
from growth.model.instant import format_instant
from growth.model.labels import Labels
from growth.model.node import STARTUP_TAINT, TEMPLATE, Node
from growth.model.nodepool import RELEASE_BRAKE
from growth.model.noderequest import ACCEPTED, NodeRemovalRequest, NodeRemovalRequestSpec
from growth.model.snapshot import Snapshot
from growth.plan.world.brake import BRAKED, Brake, why_braked
from tests.plan.builders import NOW, bound, machine, node, offering, pod, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)


def sick(name: str, of_pool: str = "default", **fields: Any) -> Node:
    return node(name, of_pool, of=SMALL, is_ready=False, **{"ready_changed_at": NOW - 400, **fields})


def nodes(well: int, ill: int, of_pool: str = "default") -> list[Node]:
    return [node(f"{of_pool}-well-{number}", of_pool, of=SMALL) for number in range(well)] + [
        sick(f"{of_pool}-ill-{number}", of_pool) for number in range(ill)
    ]


def of(*given: Node, **fields: Any) -> Snapshot:
    fields.setdefault("pools", [pool(), pool("other")])
    return world(nodes=given, **fields)


@pytest.mark.parametrize(
    ("well", "ill", "holds"),
    [
        (0, 1, False),
        (0, 2, True),
        (1, 2, True),
        (8, 2, False),
        (7, 2, True),
        (9, 1, False),
        (12, 3, False),
        (11, 3, True),
    ],
)
def test_it_holds_for_a_pool_of_which_at_least_two_and_more_than_a_fifth_fail(well: int, ill: int, holds: bool) -> None:
    assert bool(why_braked("default", of(*nodes(well, ill)))) is holds


def test_it_holds_for_every_pool_while_at_least_three_and_more_than_a_fifth_of_the_cluster_fail() -> None:
    foreign = [node(f"own-{number}", "", is_ready=number > 2) for number in range(10)]
    assert why_braked("other", of(*foreign, *nodes(2, 0, "other"))).startswith("3 of 12 nodes are NotReady")
    assert why_braked("other", of(*foreign, *nodes(9, 0, "other"))) == ""


def test_a_small_pool_among_many_nodes_of_others_is_held_and_the_others_are_not() -> None:
    snapshot = of(*nodes(0, 3), *nodes(13, 0, "other"))
    assert why_braked("default", snapshot).startswith("3 of 3 nodes of NodePool default")
    assert why_braked("other", snapshot) == ""


@pytest.mark.parametrize("never", ["in flight", "starting", "given up", "given up, its taint taken off", "new"])
def test_nodes_that_never_were_ready_do_not_count(never: str) -> None:
    young = sick("default-pool-9", created_at=NOW - 405 if never == "new" else NOW - 4000)
    young = replace(young, taints=(STARTUP_TAINT,)) if never == "starting" else young
    young = replace(young, annotations=Labels({TEMPLATE: "digest"})) if "taken off" in never else young
    requests = [request(young.name, SMALL, "Provisioning")] if never == "in flight" else []
    spec = NodeRemovalRequestSpec(young.name, "default", reason="NotReady")
    removals = [NodeRemovalRequest(young.name, spec)] if "given up" in never else []
    snapshot = of(sick("default-pool-1"), young, requests=requests, removals=removals)
    assert why_braked("default", snapshot) == ""
    assert why_braked("default", of(sick("default-pool-1"), sick("default-pool-9")))


def test_a_node_that_was_opened_counts_before_its_record_says_ready() -> None:
    late = request("default-pool-9", SMALL, "Provisioning")
    digest = Labels({TEMPLATE: "digest"})
    opened = replace(sick("default-pool-9"), annotations=digest)
    assert why_braked("default", of(sick("default-pool-1"), opened, requests=[late]))
    starting = replace(opened, taints=(STARTUP_TAINT,))
    assert why_braked("default", of(sick("default-pool-1"), starting, requests=[late])) == ""


# ----------------------------------------------------------------------------------- what is bought


def left(snapshot: Snapshot, name: str = "default") -> int | None:
    found = Brake(snapshot).allowance(name)
    return None if found is None else found[0].nodes


@pytest.mark.parametrize(("well", "ill", "most"), [(8, 2, None), (0, 2, 3), (3, 9, 3), (8, 8, 4), (60, 40, 25)])
def test_a_quarter_of_the_pool_may_be_bought_and_at_least_three(well: int, ill: int, most: int | None) -> None:
    assert left(of(*nodes(well, ill))) == most


def test_what_is_on_its_way_counts_and_what_was_ordered_in_the_last_ten_minutes() -> None:
    given = nodes(0, 3)
    old, young = request("a", SMALL, "Provisioning", created_at=NOW - 900), request("b", SMALL, "Pending")
    ready = request("c", SMALL, "Ready", created_at=NOW - 300)
    unmet, past = request("d", SMALL, "Unmet"), request("e", SMALL, "Ready", created_at=NOW - 700)
    assert left(of(*given, requests=[old, young, ready, unmet, past])) == 0
    assert left(of(*given, node("c", of=SMALL, created_at=NOW - 290), requests=[old, ready])) == 1
    assert left(of(*given, node("c", of=SMALL, created_at=NOW - 290))) == 2


def test_what_was_ordered_before_the_brake_held_does_not_count_once_that_is_written() -> None:
    ready, known = request("c", SMALL, "Ready", created_at=NOW - 300), pool()
    began = Condition(BRAKED, "True", "ManyNotReady", "", format_instant(NOW - 200))
    told = replace(known, status=replace(known.status, conditions=(began,)))
    assert left(of(*nodes(0, 3), requests=[ready], pools=[known])) == 2
    assert left(of(*nodes(0, 3), requests=[ready], pools=[told])) == 3


def test_what_left_since_the_brake_holds_counts_also_when_it_is_given_back() -> None:
    began = Condition(BRAKED, "True", "ManyNotReady", "", format_instant(NOW - 400))
    told = replace(pool(), status=replace(pool().status, conditions=(began,)))
    waited = request("c", SMALL, "Deprovisioning", created_at=NOW - 420)
    for ago, allowed in ((410, 3), (390, 2)):
        events = (LifeEvent(format_instant(NOW - ago), ACCEPTED),)
        left_later = replace(waited, status=replace(waited.status, events=events))
        assert left(of(*nodes(0, 3), requests=[left_later], pools=[told])) == allowed


def test_it_is_more_ten_minutes_after_the_first_order() -> None:
    orders = [request(name, SMALL, "Ready", created_at=NOW - ago) for name, ago in (("a", 100), ("b", 300))]
    found = Brake(of(*nodes(0, 3), requests=orders)).allowance("default")
    assert found is not None
    assert found[1] == NOW + 300 + 1  # written times are rounded down
    assert "at most 3 machines are bought for NodePool default in 10 minutes" in found[0].name


def test_an_order_whose_written_time_was_rounded_down_counts_until_ten_minutes_are_over() -> None:
    left_at, now = NOW - 599.2, NOW + 0.4
    events = (LifeEvent(format_instant(left_at), ACCEPTED),)
    waited = request("a", SMALL, "Ready", created_at=left_at - 60)
    order = replace(waited, status=replace(waited.status, events=events))
    assert left(replace(of(*nodes(0, 3), requests=[order]), now=now)) == 2


# ------------------------------------------------------------------------------------- what it holds


def held(one: Node, *, pods: Any = (), **fields: Any) -> bool:
    fields.setdefault("machines", [machine(one.name, SMALL), machine("x", SMALL)])
    return bool(Brake(of(one, *nodes(0, 3), pods=pods, **fields)).why_held(one))


def test_what_is_held_and_what_is_not() -> None:
    well, ill = node("default-pool-1", of=SMALL), sick("default-pool-1")
    web = bound(pod("web"), "default-pool-1")
    assert not held(well)
    assert held(well, pods=[web])
    assert held(ill)
    assert held(ill, pods=[web])
    assert not held(ill, pods=[web], machines=[machine("default-pool-1", SMALL, state="stopped")])
    assert not held(ill, pods=[web], machines=[machine("x", SMALL)])
    assert held(ill, pods=[web], machines=None)


def test_a_node_that_never_was_ready_is_held_only_by_a_pod_that_has_run_there() -> None:
    young = sick("default-pool-1", taints=(STARTUP_TAINT,))
    assert not held(young)
    assert not held(young, pods=[bound(pod("agent"), young.name, "Pending")])
    assert held(young, pods=[bound(pod("agent"), young.name)])


# --------------------------------------------------------------------------------------- the release


@given(hours=st.floats(-48, 48, allow_nan=False))
def test_a_person_lifts_it_until_a_time_that_is_at_most_a_day_ahead(hours: float) -> None:
    until = round(NOW + hours * 3600)
    released = pool(annotations={RELEASE_BRAKE: format_instant(until)})
    brake = Brake(of(*nodes(1, 3), pools=[released]))
    is_lifted = NOW < until <= NOW + 86_400
    assert bool(brake.why("default")) is not is_lifted
    assert brake.changes_at() == (until if is_lifted else None)


def test_a_release_that_cannot_be_read_is_told_and_a_release_of_one_pool_lifts_nothing_of_another() -> None:
    odd = pool(annotations={RELEASE_BRAKE: "true"})
    assert "it is true" in why_braked("default", of(*nodes(1, 3), pools=[odd]))
    released = pool("other", annotations={RELEASE_BRAKE: format_instant(NOW + 60)})
    snapshot = of(*nodes(1, 3), *nodes(1, 3, "other"), pools=[pool(), released])
    assert why_braked("default", snapshot)
    assert why_braked("other", snapshot) == ""
