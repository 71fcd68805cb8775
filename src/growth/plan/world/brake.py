"""Do so many nodes fail that none is given up? Asked by every row that gives nodes back or buys them, by the pools'
status, and by the gate before every delete.

If many nodes stop reporting at once, the fault may be the network's or growth's own, and what runs there may be well.

| the brake holds | while, of the nodes that were ever Ready, those that are NotReady are |
| --- | --- |
| for a pool | at least 2, and more than 20 % of the pool's |
| for every pool | at least 3, and more than 20 % of the cluster's |

| while it holds for its pool | |
| --- | --- |
| a node that is not Ready | is not given up |
| a node with pods | is not disturbed: neither marked, nor drained, nor deleted |
| a Ready node that a live look shows empty | goes as ever |
| a node whose machine is gone or off, by the word of the provider | goes as ever |
| a node that never was Ready | goes as ever, unless a pod has run there: nothing is lost with it |

A person lifts it for a pool with the annotation `growth.dev/release-brake`: until that time, which is at most a day
ahead, it does not hold for the pool. Buffers buy nothing while it holds.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from growth.model.node import Node
from growth.model.nodepool import RELEASE_BRAKE, NodePool
from growth.model.snapshot import Snapshot
from growth.plan.world.machines import is_surely_absent
from growth.plan.world.nodes import blocking_pods, is_ours, was_ever_ready
from growth.plan.world.turn import instant_of, sooner

SHARE: Final = 0.2
POOL_NODES: Final = 2
CLUSTER_NODES: Final = 3
LONGEST_RELEASE_SECONDS: Final = 86_400.0

_IS_OFF: Final = ("stopped", "deleting")


def why_braked(pool: str, snapshot: Snapshot) -> str:
    """In words; empty: the brake does not hold for this pool."""
    return Brake(snapshot).why(pool)


def is_switched_off(state: str) -> bool:
    """By the state of its machine: what ran there is over, whatever the network does."""
    return state in _IS_OFF


class Brake:
    """One look at all nodes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known, self._sick = Counter[str](), Counter[str]()  # by pool
        self._all_known = self._all_sick = 0
        for node in snapshot.nodes.values():
            if was_ever_ready(node, snapshot):
                self._count(node)

    def _count(self, node: Node) -> None:
        is_sick, pool = not node.is_ready, node.pool if is_ours(node, self._snapshot) else ""
        self._all_known += 1
        self._all_sick += is_sick
        self._known[pool] += 1
        self._sick[pool] += is_sick

    def why(self, pool: str) -> str:
        """In words; empty: it does not hold for this pool."""
        sick, known = (self._sick[pool], self._known[pool]) if pool else (0, 0)
        if sick >= POOL_NODES and sick > SHARE * known:
            counted = f"{sick} of {known} nodes of NodePool {pool} are NotReady"
        elif self._all_sick >= CLUSTER_NODES and self._all_sick > SHARE * self._all_known:
            counted = f"{self._all_sick} of {self._all_known} nodes are NotReady"
        else:
            return ""
        found = self._snapshot.pools.get(pool)
        if found is not None and _released_until(found, self._snapshot.now) is not None:
            return ""
        return f"{counted}: until that is understood neither they nor nodes with pods are given up{_ignored(found)}"

    def why_held(self, node: Node) -> str:
        """In words why this node is not given up now; empty: the brake does not keep it."""
        why = self.why(node.pool)
        if not why or _is_surely_off(node, self._snapshot):
            return ""
        pods = blocking_pods(node.name, self._snapshot)
        if node.is_ready:
            return why if pods else ""
        has_served = was_ever_ready(node, self._snapshot) or any(pod.phase == "Running" for pod in pods)
        return why if has_served else ""

    def changes_at(self) -> float | None:
        """When the first release ends."""
        now = self._snapshot.now
        return sooner(*(_released_until(pool, now) for pool in self._snapshot.pools.values()))


def _released_until(pool: NodePool, now: float) -> float | None:
    at = instant_of(pool.annotations.get(RELEASE_BRAKE))
    return at if at is not None and now < at <= now + LONGEST_RELEASE_SECONDS else None


def _ignored(pool: NodePool | None) -> str:
    """Told while it is of no use: a time that cannot be read, or is too far ahead."""
    text = "" if pool is None else pool.annotations.get(RELEASE_BRAKE, "")
    if not text:
        return ""
    return f" ({RELEASE_BRAKE} must be a time at most 24 h ahead: it is {text[:40]})"


def _is_surely_off(node: Node, snapshot: Snapshot) -> bool:
    machine = snapshot.machines.get(node.name)
    if machine is not None:
        return is_switched_off(machine.state)
    return is_surely_absent(node.name, node.created_at, snapshot)
