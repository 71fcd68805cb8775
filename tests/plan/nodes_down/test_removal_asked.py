"""Removals that say what is not so, and pools that leave their nodes: what holds is what the node and its pool say."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.action import CancelRemoval, WriteNodeRemovalStatus
from growth.plan.world.turn import seen
from tests.plan.builders import NOW, pool
from tests.plan.nodes_down.test_removal import going, marked, plan, there


def test_a_pause_holds_for_the_nodes_of_a_pool_whatever_pool_a_removal_names() -> None:
    of_pool = pool("default", annotations={"growth.dev/paused": "true"})
    misled = going()
    misled = replace(misled, spec=replace(misled.spec, pool="free"))
    assert plan(there(misled, pools=[of_pool, pool("free")])).actions == ()


@pytest.mark.parametrize("reason", ["PoolDeleted", "NotReady", "Deleted"])
def test_a_protected_node_that_works_is_waited_for_whatever_reason_a_removal_names(reason: str) -> None:
    wished = replace(marked(), annotations=marked().annotations.with_items({"growth.dev/do-not-disrupt": "true"}))
    one = going()
    (action,) = plan(there(replace(one, spec=replace(one.spec, reason=reason)), nodes=[wished])).actions
    assert isinstance(action, WriteNodeRemovalStatus)
    assert action.status.waiting_for == "the node must not be disrupted"


def test_ruling_16_a_removal_is_called_off_when_its_pool_leaves_its_nodes_alone() -> None:
    of_pool = pool("default", deleted_at=NOW, annotations={"growth.dev/orphan-nodes": "true"})
    one = going()
    one = replace(one, spec=replace(one.spec, reason="PoolDeleted"))
    assert CancelRemoval(seen(one)) in plan(there(one, pools=[of_pool])).actions
