"""What growth would do now: every row decides once, and the next sees what the one before it asked for."""

from __future__ import annotations

from msgspec.structs import replace

from growth.controllers.ask.forecast import forecast
from growth.model.pod import Owner
from growth.model.settings import Settings
from tests.plan.buffers.worlds import buffer, buffer_world
from tests.plan.builders import NOW, bound, limited, machine, node, offering, pod, pods, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)
OWNED = Owner("ReplicaSet", "web")


def test_what_waits_is_bought_for_with_price_and_pods() -> None:
    found = forecast(world(pods(3, 1, 512), [pool()], [SMALL], machines=()), Settings())
    [order] = found.orders
    assert (order.pool, order.offering, order.nodes, order.price_per_hour) == ("default", "sim-small", 2, 0.02)
    assert sorted(order.pods) == ["default/p0000", "default/p0001", "default/p0002"]
    assert (found.price_per_hour, found.price_per_hour_then) == (0.0, 0.02)
    assert found.unplaced == ()


def test_machines_of_a_minimum_come_first_and_take_pods() -> None:
    warm = pool("default", limited("small", least=1))
    found = forecast(world(pods(3, 1, 512), [warm], [SMALL], machines=()), Settings())
    assert [(order.reason, order.nodes) for order in found.orders] == [("Minimum", 1), ("Demand", 1)]


def test_buffers_are_bought_for_after_the_pods() -> None:
    spare = buffer_world([buffer(replicas=2)])
    found = forecast(world(pods(1, 2, 512), [pool()], [SMALL], machines=(), buffers=spare), Settings())
    assert [(order.reason, order.nodes) for order in found.orders] == [("Demand", 1), ("Buffer", 1)]


def test_an_empty_node_is_marked_and_the_bill_falls() -> None:
    here = world((), [pool()], [SMALL], [node("idle", of=SMALL)], machines=[machine("idle", SMALL)])
    found = forecast(here, Settings())
    assert [(step.does, step.kind, step.name) for step in found.steps] == [("marks", "Node", "idle")]
    assert "not needed" in found.steps[0].why
    assert (found.price_per_hour, found.price_per_hour_then) == (0.01, 0.0)


def test_a_node_whose_pods_fit_elsewhere_is_marked_at_once_where_the_pool_wants_that() -> None:
    nodes = [node("one", of=SMALL), node("two", of=SMALL)]
    light = [bound(pod(name, 0.1, 16, owner=OWNED), at) for name, at in (("a", "one"), ("b", "two"))]
    machines = [machine("one", SMALL), machine("two", SMALL)]
    full = replace(pool(consolidation="Full"), created_at=NOW - 90_000)
    found = forecast(world(light, [full], [SMALL], nodes, machines=machines), Settings())
    assert [step.does for step in found.steps] == ["marks"]
    assert "fits on other nodes" in found.steps[0].why


def test_a_pod_without_a_place_says_why_once() -> None:
    found = forecast(world([pod("big", 64)], [pool()], [SMALL], machines=()), Settings())
    [left] = found.unplaced
    assert left.pod == "default/big"
    assert "insufficient cpu" in left.why
    assert found.orders == ()


def test_nothing_is_bought_for_pods_that_a_node_on_its_way_has_room_for() -> None:
    coming = request("new", SMALL, "Provisioning", planned=["default/p0000"], machine_id="id-new")
    here = world(pods(1), [pool()], [SMALL], requests=[coming], machines=[machine("new", SMALL)])
    assert forecast(here, Settings()).orders == ()


def test_the_same_look_gives_the_same_forecast_and_changes_nothing() -> None:
    here = world(pods(5), [pool()], [SMALL], [node("n", of=SMALL)], machines=[machine("n", SMALL)])
    assert forecast(here, Settings()) == forecast(here, Settings())
    assert set(here.nodes) == {"n"}
    assert here.requests == {}
