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
from functools import cached_property
from typing import Final

from msgspec import Struct

from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import place_buffers
from growth.plan.nodes_down.budgets import Recent, budgets_change_at, disruptions_left
from growth.plan.world.brake import Brake
from growth.plan.world.nodes import Prices, is_ours, kind_of, minimum, state_of, staying_by_kind, working_pods
from growth.plan.world.swaps import swaps
from growth.plan.world.turn import Turn

_VIRTUAL_POD_COST: Final = 0.01  # of moving a pod
_LONGEST_SECONDS: Final = 86_400.0


def full_pools(snapshot: Snapshot) -> dict[str, NodePool]:
    """Pools whose nodes may be emptied to save money."""
    pools = snapshot.pools.items()
    return {name: pool for name, pool in pools if pool.spec.consolidation == "Full" and pool.deleted_at is None}


class Candidates:
    """One look at the nodes that may go; what is chosen is counted. When to look again is told to the turn."""

    def __init__(self, snapshot: Snapshot, settings: Settings, recent: Recent, turn: Turn | None = None) -> None:
        self._snapshot, self._settings, self._recent = snapshot, settings, recent
        self._turn = turn or Turn()
        self.pools = full_pools(snapshot)
        self._turn.wake(*(budgets_change_at(pool, snapshot.now) for pool in self.pools.values()))
        self._brake = Brake(snapshot)
        self.left = {name: self._left(pool) for name, pool in self.pools.items()}
        self._staying = staying_by_kind(snapshot)
        self._in_swaps = {name for swap in swaps(snapshot, settings) for name in (*swap.old, *swap.new)}
        self._prices = Prices(snapshot)

    def _left(self, pool: NodePool) -> int:
        is_braked = bool(self._brake.why(pool.name))
        return 0 if is_braked else disruptions_left(pool, self._snapshot, self._settings, self._recent)

    def is_candidate(self, node: Node) -> bool:
        """A new node is left alone for a while, so that nothing is undone at once; no note is written about that."""
        snapshot = self._snapshot
        if node.pool not in self.pools or not state_of(node.name, snapshot).is_free:
            return False
        request = snapshot.requests.get(node.name)
        is_arriving = node.is_starting or (request is not None and request.is_in_flight)
        if not node.is_ready or is_arriving or not is_ours(node, snapshot) or not working_pods(snapshot, node.name):
            return False
        return node.name not in self._in_swaps and self.is_settled(node)

    def is_settled(self, node: Node) -> bool:
        settled_at = min(node.created_at, self._snapshot.now) + self._settings.settling_seconds
        if settled_at > self._snapshot.now:
            self._turn.wake(settled_at)
        return settled_at <= self._snapshot.now

    def why_wait(self, node: Node, pool: NodePool) -> str:
        """It could go, but not now."""
        if why_braked := self._brake.why(pool.name):
            return why_braked
        if self.above_minimum(node, pool) < 1:
            return f"NodePool {pool.name} keeps at least {minimum(node, pool)} of {kind_of(node)[1]}"
        known_at = self._recent.known_at(pool, self._settings)
        if self._snapshot.now < known_at:
            self._turn.wake(known_at)
            return "how many nodes were emptied before growth started is not known yet"
        if self.left[pool.name] <= 0:
            return f"the disruption budget of NodePool {pool.name} is used up"
        return ""

    def above_minimum(self, node: Node, pool: NodePool) -> int:
        """How many nodes of this node's kind stay, beyond those that its pool keeps at least."""
        return self._staying.get(kind_of(node), 0) - minimum(node, pool)

    def choose(self, node: Node) -> None:
        self.left[node.pool] -= 1
        self._staying[kind_of(node)] = self._staying.get(kind_of(node), 0) - 1

    def price(self, node: Node) -> float:
        """Of the machine, and what a node costs beside it; 0 if the catalogue does not know the machine."""
        known = self._prices.price(node)
        return known + self._settings.node_price_per_hour if known else 0.0

    def disruption(self, node: Node) -> float:
        """What emptying it costs: its pods, and a little for each virtual pod that loses its place."""
        virtual = self._virtual_pods.get(node.name)
        cost = _VIRTUAL_POD_COST * sum(virtual.values()) if virtual else 0.0
        return len(working_pods(self._snapshot, node.name)) + cost

    @cached_property
    def _virtual_pods(self) -> Mapping[str, Mapping[str, int]]:
        return place_buffers(self._snapshot, self._settings).by_node


# -------------------------------------------------------------------------------------------- rests


class Setback(Struct, frozen=True):
    """How many attempts of a pool came to nothing, one after the other, and the end of its rest."""

    count: int
    until: float

    @property
    def words(self) -> str:
        return "an attempt that was" if self.count == 1 else f"{self.count} attempts in a row that were"


def with_attempts(
    known: Mapping[str, Setback], worked: Collection[str], failed: Collection[str], now: float, first_seconds: float
) -> dict[str, Setback]:
    """By pool. Where some attempts worked and others failed at once, the count begins at one; what fails while a pool
    rests began before that rest, and does not count.
    """
    found = {pool: each for pool, each in known.items() if pool not in worked}
    for pool in sorted(each for each in failed if each not in found or found[each].until <= now):
        count = found[pool].count + 1 if pool in found else 1
        found[pool] = Setback(count, now + min(_LONGEST_SECONDS, first_seconds * 4.0 ** (count - 1)))
    return found
