"""Why is this node still here? Asked by `growth explain node`; nothing is marked and nothing goes.

| the node | the answer |
| --- | --- |
| of no pool, or not made by growth | growth never touches it |
| in removal | why it goes, how far that is and what it waits for |
| marked | when it goes, unless it is needed |
| pods work on it | why they cannot all move, or that they could |
| empty | whose spare room it is, or that scale-down will have it |
"""

from __future__ import annotations

from msgspec import Struct

from growth.model.node import OFFERING_LABEL, SCALE_DOWN_AT, Node
from growth.model.resources import CPU, MEMORY, sum_resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import keep
from growth.plan.nodes_down.what_if import Emptying
from growth.plan.world.nodes import is_ours, is_protected_node, why_not_idle, working_pods


class NodeAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    node: str
    stays: str
    pool: str = ""
    offering: str = ""
    price_per_hour: float = 0.0
    pods: int = 0  # that work there
    used: str = ""
    check_type: str = ""  # of what stands in the way
    constraint: str = ""
    blocking_pod: str = ""


def why_node(node: Node, snapshot: Snapshot, settings: Settings) -> NodeAnswer:
    stays, block = _why_stays(node, snapshot, settings)
    offering = node.labels.get(OFFERING_LABEL, "")
    return NodeAnswer(
        node.name,
        stays,
        node.pool,
        offering,
        _price(node, offering, snapshot),
        len(working_pods(snapshot, node.name)),
        _used(node, snapshot),
        *block,
    )


def _why_stays(node: Node, snapshot: Snapshot, settings: Settings) -> tuple[str, tuple[str, ...]]:
    pool, removal = snapshot.pools.get(node.pool), snapshot.removals.get(node.name)
    if pool is None or not is_ours(node, snapshot):
        return "growth did not make it, and never touches it", ()
    if removal is not None:
        waits = f", waits for {removal.status.waiting_for}" if removal.status.waiting_for else ""
        return f"it goes ({removal.spec.reason or 'removal'}): {removal.phase}{waits}", ()
    if node.is_marked:
        return (
            f"it is marked, and goes at {node.annotations.get(SCALE_DOWN_AT, 'an unknown time')} unless it is needed",
            (),
        )
    if settings.is_paused or pool.is_paused:
        return "growth, or its pool, is paused: nothing goes", ()
    if working_pods(snapshot, node.name):
        return _why_not_emptied(node, snapshot, settings)
    return _why_kept_empty(node, snapshot, settings), ()


def _why_not_emptied(node: Node, snapshot: Snapshot, settings: Settings) -> tuple[str, tuple[str, ...]]:
    block = Emptying(snapshot, settings, settings.scale_down_headroom).why_stays(node)
    mode = snapshot.pools[node.pool].spec.consolidation
    if block is not None:
        return block.message, (block.check_type, block.constraint, block.pod)
    could = "its pods would fit on other nodes"
    return (
        f"{could}, and it goes when its time has come"
        if mode == "Full"
        else f"{could}, but NodePool {node.pool} has consolidation {mode}",
        (),
    )


def _why_kept_empty(node: Node, snapshot: Snapshot, settings: Settings) -> str:
    own = snapshot.pools[node.pool].spec.scale_down_delay_seconds
    busy = why_not_idle(node, snapshot, settings.scale_down_delay_seconds if own is None else float(own))
    holders = keep(snapshot, settings).holders_of(node.name)
    if busy:
        return busy
    if is_protected_node(node):
        return "an annotation says that it must not be disrupted"
    if holders:
        return f"spare room of CapacityBuffer {', '.join(holders)}"
    mode = snapshot.pools[node.pool].spec.consolidation
    return (
        f"it is empty, but NodePool {node.pool} has consolidation Off"
        if mode == "Off"
        else "it is empty: it goes, unless `min` keeps it or its hour is paid"
    )


def _price(node: Node, offering: str, snapshot: Snapshot) -> float:
    machine = snapshot.machines.get(node.name)
    sold = [
        each
        for each in snapshot.offerings
        if each.name == offering and (machine is None or each.location == machine.location)
    ]
    return max((each.price_per_hour for each in sold), default=0.0)


def _used(node: Node, snapshot: Snapshot) -> str:
    asked = sum_resources(pod.shape.requests for pod in snapshot.pods_by_node.get(node.name, ()) if not pod.is_finished)
    shares = [(name, asked[name] / node.allocatable[name]) for name in (CPU, MEMORY) if node.allocatable[name]]
    return ", ".join(f"{share:.0%} of {name}" for name, share in shares)
