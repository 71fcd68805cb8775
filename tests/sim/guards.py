"""Planted bugs in growth's guards: brake, fence, limits of all pools, protected nodes, words for people.

Rows of the table in `tests/sim/mutants.py`; each function wraps growth for one simulation only."""

from __future__ import annotations

from typing import Any

from growth.controllers.growth import Growth
from growth.model.nodepool import PoolLimits
from tests.sim.planting import now, replaced


def no_brake() -> Any:
    """Nodes are given up however many fail at once."""
    return replaced(brake=lambda *_: "")


def no_fence() -> Any:
    """A growth that does not lead acts all the same."""

    def without_fence(self: Growth, *arguments: Any) -> None:
        make(self, *arguments[:4])

    make = now("make_growth")
    return replaced(make_growth=without_fence)


def no_limits_of_all() -> Any:
    """Limits of all pools together are neither planned with nor looked at by the gate."""

    def of_pools_only(pools: Any, _overall: Any, present: Any) -> Any:
        return allowed(pools, PoolLimits(), present)

    def at_gate(*arguments: Any) -> Any:
        return over(*arguments[:-1], PoolLimits())

    allowed, over = now("allowances"), now("over_at_gate")
    return replaced(allowances=of_pools_only, over_at_gate=at_gate, over_limit=lambda *_: {})


def disturbs_protected_nodes() -> Any:
    """A node that must not be disturbed is treated like any other."""
    places = ("", "_for_swaps", "_for_what_if", "_for_buffers")
    return replaced(**{f"protected_node{place}": lambda *_: False for place in places})


def writes_labels_of_others() -> Any:
    """A node gets a label that is none of growth's."""

    async def write_more(hands: Any, node: Any, metadata: Any, taints: Any) -> Any:
        labels = {**(metadata.get("labels") or {}), "example.com/team": "growth"}
        return await write(hands, node, {**metadata, "labels": labels}, taints)

    write = now("write_taints")
    return replaced(write_taints=write_more)


def says_nothing() -> Any:
    """Pods that find no place are not told why."""
    return replaced(notes=lambda *_: ())


def forgets_the_minimum() -> Any:
    """The machines that a pool always has are not bought."""
    return replaced(missing_minimum=lambda *_: ())
