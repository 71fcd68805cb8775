"""Buffers give way: to a waiting pod that a limit keeps out, and to nodes that may be back in a moment."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.labels import LabelSelector, Requirement
from growth.model.node import POOL_LABEL
from growth.model.nodepool import PoolLimits
from growth.model.pod import PodAffinityTerm
from growth.model.settings import Settings
from growth.plan.buffers.giving_way import Rank, Standstills
from growth.plan.buffers.placement import BufferPlacement, place_buffers
from tests.plan.buffers.worlds import buffer, buffer_world
from tests.plan.builders import NOW, bound, node, offering, pod, pool, world

SMALL, LARGE = offering("cx21", 4, 8192, 0.01), offering("cx31", 8, 16384, 0.02)


def placed(limits: PoolLimits, *waiting: Any, running: Any = (), more: Any = (), **fields: Any) -> BufferPlacement:
    snapshot = world(
        pools=[pool("default", "cx21", "cx31", limits=limits)],
        offerings=[SMALL, LARGE],
        nodes=[node("n1", of=SMALL), *more],
        pods=[*waiting, *running],
        buffers=buffer_world([buffer(replicas=3)]),
        **fields,
    )
    return place_buffers(snapshot, Settings())


def big(cpu: float = 6) -> Any:
    return pod("big", cpu, 4096, unschedulable_at=NOW - 30)


def test_an_idle_node_goes_if_that_lets_a_waiting_pod_have_its_machine() -> None:
    found = placed(PoolLimits(nodes=1), big())
    assert found.left == Rank(frozenset({"n1"}), frozenset({"default"}))
    assert (dict(found.by_node), dict(found.missing)) == ({}, {"default/spare": 3})


@pytest.mark.parametrize(
    ("limits", "waiting"),
    [
        (PoolLimits(nodes=3), [big()]),  # there is room for another machine
        (PoolLimits(nodes=1), []),  # nobody waits
        (PoolLimits(nodes=1), [big(30)]),  # no machine would hold it
        (PoolLimits(nodes=1), [big(2)]),  # it has room there
        (PoolLimits(cpu="6"), [big()]),  # kept out all the same
    ],
)
def test_it_stays_where_that_would_help_nobody(limits: PoolLimits, waiting: list[Any]) -> None:
    found = placed(limits, *waiting)
    assert found.left.nodes == frozenset()
    assert found.by_node == {"n1": {"default/spare": 3}}


def test_a_pod_that_rules_keep_off_every_machine_has_nothing_left_to_it() -> None:
    """It may not be in one pool with the pod that runs there: neither a node nor a limit could help it."""
    away = PodAffinityTerm(POOL_LABEL, LabelSelector((Requirement("app", "In", ("web",)),)))
    hermit = pod("hermit", 6, 4096, unschedulable_at=NOW - 30, anti_affinity=(away,))
    web = bound(pod("web", 0.5, labels={"app": "web"}), "n2")
    for nodes in (2, 3):
        found = placed(PoolLimits(nodes=nodes), hermit, running=[web], more=[node("n2", of=SMALL)])
        assert found.left == Rank()
        assert not found.missing


def test_a_node_that_works_stays() -> None:
    assert placed(PoolLimits(nodes=1), big(), running=[bound(pod("web", 0.5), "n1")]).left.nodes == frozenset()


def test_nothing_is_bought_for_a_buffer_while_a_pod_needs_what_a_limit_leaves() -> None:
    found = placed(PoolLimits(nodes=2), big())
    assert found.left == Rank(frozenset(), frozenset({"default"}))
    standstill = Standstills(world(), found.left).of(["default"])
    assert standstill is not None
    assert "a pod waits" in standstill.why


def test_ruling_11_a_node_that_has_just_stopped_reporting_is_waited_for_a_minute() -> None:
    others = [node(f"n{number}", of=SMALL) for number in range(9)]

    def standstill(seconds: float) -> Any:
        away = node("away", of=SMALL, is_ready=False, ready_changed_at=NOW - seconds, created_at=NOW - 9000)
        return Standstills(world(pools=[pool()], nodes=[*others, away]), Rank()).of(["default"])

    assert standstill(20).until == NOW + 40
    assert standstill(61) is None


def test_ruling_11_nothing_is_bought_while_the_brake_holds() -> None:
    away = [
        node(f"n{number}", of=SMALL, is_ready=False, ready_changed_at=NOW - 600, created_at=NOW - 9000)
        for number in range(3)
    ]
    standstill = Standstills(world(pools=[pool()], nodes=away), Rank()).of(["default"])
    assert standstill is not None
    assert "NotReady" in standstill.why
