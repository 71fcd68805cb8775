"""Which nodes must be replaced, and what that means for a pool's minimum (ruling 9)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.node import Node
from growth.plan.world.swaps import fills_minimum, minimum_ages_at
from tests.plan.builders import NOW, bound, limited, machine, node, pod, pool, request, world
from tests.plan.world.test_nodes import HERE, MARKED

OLD = replace(node("n"), created_at=NOW - 2000)
AGING = pool("default", limited("small", 9, 1), expire_after_seconds=1000)


@pytest.mark.parametrize(
    ("one", "phase", "counts"),
    [
        (node("n"), "Ready", True),
        (MARKED, "Ready", True),
        (node("n", is_ready=False), "Ready", False),  # its machine is surely gone
        (None, "Provisioning", True),
        (None, "Unmet", False),
    ],
)
def test_a_minimum_is_filled_by_what_serves_or_comes(one: Node | None, phase: Any, counts: bool) -> None:
    snapshot = world(nodes=[] if one is None else [one], requests=[request("n", HERE, phase)], machines=[])
    listed = world(nodes=snapshot.nodes.values(), requests=snapshot.requests.values(), machines=[machine("o", HERE)])
    assert fills_minimum("n", listed) == counts


def test_an_idle_node_that_must_be_replaced_does_not_fill_a_minimum_so_another_is_bought_first() -> None:
    machines = [machine("n", HERE)]
    assert not fills_minimum("n", world(nodes=[OLD], pools=[AGING], machines=machines))
    assert fills_minimum("n", world(nodes=[OLD], pools=[AGING], machines=machines, pods=[bound(pod("web"), "n")]))
    wished = replace(OLD, annotations=node("x", annotations={"growth.dev/do-not-disrupt": "true"}).annotations)
    assert fills_minimum("n", world(nodes=[wished], pools=[AGING], machines=machines))


def test_it_is_known_when_the_next_node_of_a_minimum_is_too_old() -> None:
    nodes = [replace(node("a"), created_at=NOW - 900), replace(node("b"), created_at=NOW - 300), OLD]
    assert minimum_ages_at(world(nodes=nodes, pools=[AGING])) == NOW + 100
    assert minimum_ages_at(world(nodes=nodes, pools=[pool(expire_after_seconds=1000)])) is None
