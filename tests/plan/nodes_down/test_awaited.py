"""Which waiting pods hold up nodes that could go (ruling 30: a hopeless pod stops nothing)."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.settings import Settings
from growth.plan.nodes_down.awaited import awaiting_pools, holds_room, is_unseen
from tests.plan.builders import NOW, limited, node, offering, pod, pool, request, world

SETTINGS = Settings()
SMALL = offering("small", 2, 4096, 0.01)
POOLS = (pool(), pool("other"))


def test_pools_wait_for_pods_that_are_new_or_have_a_node_on_its_way_and_for_no_others() -> None:
    new, old = pod("new", created_at=NOW - 60), pod("old", created_at=NOW - 600, pool="other")
    assert awaiting_pools(world(pools=POOLS, offerings=[SMALL], pods=[new, old]), SETTINGS) == {"default"}
    coming = request("other-pool-1", SMALL, of_pool="other", planned=["default/old"])
    assert awaiting_pools(world(pools=POOLS, pods=[old], requests=[coming]), SETTINGS) == {"other"}
    gated = [pod("gated", created_at=NOW, is_gated=True), pod("going", created_at=NOW, deleted_at=NOW)]
    lost = pod("lost", created_at=NOW, pool="nope")
    assert awaiting_pools(world(pools=POOLS, offerings=[SMALL], pods=[*gated, lost]), SETTINGS) == frozenset()


@pytest.mark.parametrize(
    ("fields", "of_pool"),
    [
        ({"cpu": 100}, pool()),
        ({"node_selector": {"disktype": "ssd"}}, pool()),
        ({}, pool("default", limited("small", 1))),
        ({}, pool(annotations={"growth.dev/paused": "true"})),
    ],
    ids=["too large", "a label that no machine has", "at its limit", "paused"],
)
def test_a_new_pod_that_no_machine_could_hold_is_not_waited_for(fields: dict[str, Any], of_pool: Any) -> None:
    there = node("default-pool-1", of=SMALL)
    snapshot = world(nodes=[there], pools=[of_pool], offerings=[SMALL], pods=[pod("new", created_at=NOW, **fields)])
    assert awaiting_pools(snapshot, SETTINGS) == frozenset()


@pytest.mark.parametrize(
    ("fields", "seconds", "holds"),
    [
        ({}, 9000.0, True),
        ({"scheduler_name": "growth"}, 9000.0, True),
        ({"scheduler_name": "nobody"}, 60.0, True),
        ({"scheduler_name": "nobody"}, 180.0, False),
        ({"uses_resource_claims": True}, 60.0, True),
        ({"uses_resource_claims": True}, 180.0, False),
        ({"is_gated": True}, 60.0, False),
        ({"deleted_at": NOW}, 60.0, False),
    ],
)
def test_a_pod_holds_room_for_ever_only_where_growth_knows_who_will_place_it(
    fields: dict[str, Any], seconds: float, holds: bool
) -> None:
    waiting = pod("waits", created_at=NOW - seconds, unschedulable_at=None, **fields)
    assert holds_room(waiting, world(pods=[waiting]), SETTINGS) is holds


@pytest.mark.parametrize(
    ("fields", "is_awaited"),
    [
        ({}, True),
        ({"created_at": NOW - 20}, False),
        ({"unschedulable_at": NOW - 1}, False),
        ({"scheduler_name": "nobody"}, False),
        ({"pool": "other"}, False),
        ({"is_gated": True}, False),
    ],
)
def test_an_emptied_node_waits_for_what_its_scheduler_may_yet_put_there(
    fields: dict[str, Any], is_awaited: bool
) -> None:
    waiting = pod("waits", **{"created_at": NOW - 2, "unschedulable_at": None, **fields})
    assert is_unseen(waiting, "default", world(pools=POOLS, pods=[waiting]), SETTINGS) is is_awaited
