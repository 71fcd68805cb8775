"""Which nodes with pods may go to save money, what do they cost, and how many more now? Asked by consolidation and
replacement, which share the answer.

Only nodes of pools with `consolidation: Full` that growth made, that serve, have settled, and that no swap under way
counts on. A pool that cannot be read is not touched. A node whose price is unknown costs nothing, so moving its pods is
never worth it.

A pool rests after an attempt that came to nothing: where pods go cannot be steered, so other pods may take the room
that was meant for them, and what failed once may fail again. Each further failure in sequence makes the rest four times
as long; an attempt that worked ends the sequence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from growth.model.node import OFFERING_LABEL, Node
from growth.model.nodepool import NodePool
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import place_buffers
from growth.plan.nodes_down.budgets import Recent, budgets_change_at, disruptions_left
from growth.plan.world.nodes import is_ours, working_pods
from growth.plan.world.pools import choice_of_type
from growth.plan.world.swaps import swaps

Kind = tuple[str, str]  # pool, offering
VIRTUAL_POD_COST = 0.01  # of moving a pod


def full_pools(snapshot: Snapshot) -> dict[str, NodePool]:
    return {
        name: pool
        for name, pool in snapshot.pools.items()
        if pool.spec.consolidation == "Full" and pool.deleted_at is None
    }


def kind_of(node: Node) -> Kind:
    return (node.pool, node.labels.get(OFFERING_LABEL, ""))


class Movable:
    """One look at the nodes that may go; what is chosen is counted."""

    def __init__(self, snapshot: Snapshot, settings: Settings, recent: Recent) -> None:
        self._snapshot, self._settings, self.recent = snapshot, settings, recent
        self.pools = full_pools(snapshot)
        self.again: list[float] = [
            at for pool in self.pools.values() if (at := budgets_change_at(pool, snapshot.now)) is not None
        ]
        self.left = {name: disruptions_left(pool, snapshot, settings, recent) for name, pool in self.pools.items()}
        self.staying = _staying(snapshot)
        self._reserved = {name for swap in swaps(snapshot, settings) for name in (*swap.old, *swap.new)}
        self._prices = _prices(snapshot)

    def is_candidate(self, node: Node) -> bool:
        """A new node is left alone for a while, so that nothing is undone at once; that is nothing to talk about."""
        snapshot = self._snapshot
        if (
            node.pool not in self.pools
            or node.is_marked
            or node.name in snapshot.removals
            or node.deleted_at is not None
            or node.malformed
        ):
            return False
        request = snapshot.requests.get(node.name)
        is_arriving = node.is_starting or (request is not None and request.is_in_flight)
        if not node.is_ready or is_arriving or not is_ours(node, snapshot) or not working_pods(snapshot, node.name):
            return False
        return node.name not in self._reserved and self.is_settled(node)

    def is_settled(self, node: Node) -> bool:
        settled_at = min(node.created_at, self._snapshot.now) + self._settings.settling_seconds
        self.again += [settled_at] if settled_at > self._snapshot.now else []
        return settled_at <= self._snapshot.now

    def why_wait(self, node: Node, pool: NodePool) -> str:
        """It could go, but not now."""
        least = minimum(node, pool)
        if self.staying.get(kind_of(node), 0) - 1 < least:
            return f"NodePool {pool.name} keeps at least {least} of {kind_of(node)[1]}"
        known_at = self.recent.known_at(pool, self._settings)
        if self._snapshot.now < known_at:
            self.again.append(known_at)
            return "how many nodes were emptied before growth started is not known yet"
        if self.left[pool.name] <= 0:
            return f"the disruption budget of NodePool {pool.name} is used up"
        return ""

    def choose(self, node: Node) -> None:
        self.left[node.pool] -= 1
        self.staying[kind_of(node)] -= 1

    def price(self, node: Node) -> float:
        """Of the machine and of the node beside it; 0 if the catalogue does not know it."""
        machine, offering = self._snapshot.machines.get(node.name), node.labels.get(OFFERING_LABEL, "")
        known = self._prices.get((offering, "" if machine is None else machine.location))
        known = (
            known
            if known is not None
            else max((price for place, price in self._prices.items() if place[0] == offering), default=0.0)
        )
        return known + self._settings.node_price_per_hour if known else 0.0

    def disruption(self, node: Node) -> float:
        """What emptying it costs: its pods, and a little for each virtual pod that loses its place."""
        virtual = place_buffers(self._snapshot, self._settings).by_node.get(node.name, {})
        return len(working_pods(self._snapshot, node.name)) + VIRTUAL_POD_COST * sum(virtual.values())


def _prices(snapshot: Snapshot) -> Mapping[tuple[str, str], float]:
    return {(each.name, each.location): each.price_per_hour for each in snapshot.offerings}


def _staying(snapshot: Snapshot) -> dict[Kind, int]:
    """Nodes that serve and are not marked, by pool and offering."""
    found: dict[Kind, int] = {}
    for node in snapshot.nodes.values():
        is_going = node.is_marked or node.name in snapshot.removals or node.deleted_at is not None
        if node.pool and node.is_ready and not node.is_starting and not is_going:
            found[kind_of(node)] = found.get(kind_of(node), 0) + 1
    return found


def minimum(node: Node, pool: NodePool) -> int:
    choice = choice_of_type(pool, node.labels.get(OFFERING_LABEL, ""))
    return 0 if choice is None else choice.min


def delay_seconds(pool: NodePool, settings: Settings) -> float:
    """How long a node of the pool stays marked before it goes."""
    own = pool.spec.scale_down_delay_seconds
    return settings.scale_down_delay_seconds if own is None else float(own)


def is_paused(pool: NodePool, settings: Settings) -> bool:
    return settings.is_paused or pool.is_paused


_LONGEST_SECONDS: Final = 86_400.0


class Setback(Struct, frozen=True):
    """Attempts of a pool that came to nothing, in a row, and the end of its rest."""

    count: int
    until: float

    @property
    def words(self) -> str:
        return "an attempt that was" if self.count == 1 else f"{self.count} attempts in a row that were"


def with_attempts(
    known: Mapping[str, Setback], worked: Collection[str], failed: Collection[str], now: float, first_seconds: float
) -> dict[str, Setback]:
    """By pool. Where some attempts worked and others failed at once, the row begins anew; what fails while a pool rests
    began before, and counts no more.
    """
    found = {pool: each for pool, each in known.items() if pool not in worked}
    for pool in sorted(each for each in failed if each not in found or found[each].until <= now):
        count = found[pool].count + 1 if pool in found else 1
        found[pool] = Setback(count, now + min(_LONGEST_SECONDS, first_seconds * 4.0 ** (count - 1)))
    return found
