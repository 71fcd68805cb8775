"""`min` is kept by machines that exist (ruling 9)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.node import Node
from growth.plan.nodes_up.survey import lacks_minimum
from tests.plan.builders import NOW, limited, machine, node, offering, pool, run_scale_up, world

SMALL = offering("small", 4, 8192, 0.01)
DEAD = node("default-pool-1", of=SMALL, is_ready=False)


def reasons(of_node: Node, *machines: str, **fields: object) -> list[str]:
    listed = [machine(name, SMALL) for name in machines]
    snapshot = world(
        pools=[pool("default", limited("small", 5, 1))], offerings=[SMALL], nodes=[of_node], machines=listed
    )
    snapshot = replace(snapshot, **fields)
    actions = run_scale_up(snapshot).actions
    assert lacks_minimum(snapshot) == bool(actions)
    return [action.spec.reason for action in actions if isinstance(action, CreateNodeRequest)]


def test_ruling_9_a_dead_node_whose_machine_is_surely_gone_keeps_no_minimum() -> None:
    """Seed 174: a machine vanished, its Node stayed, and the pool was one short for ever."""
    assert reasons(DEAD, "default-pool-2") == ["Minimum"]


@pytest.mark.parametrize(
    ("of_node", "machines", "fields"),
    [
        (DEAD, ("default-pool-1",), {}),  # its machine is there
        (DEAD, (), {"machines_at": None}),  # nobody has said yet which machines exist
        (DEAD, ("default-pool-2",), {"machines_at": NOW - 3600}),  # the list is as old as the node
        (replace(DEAD, is_ready=True), ("default-pool-2",), {}),  # it serves, whatever a list says
    ],
)
def test_ruling_9_unknown_is_not_absent(of_node: Node, machines: tuple[str, ...], fields: dict[str, object]) -> None:
    assert reasons(of_node, *machines, **fields) == []
