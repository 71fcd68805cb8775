"""Do so many nodes fail that none is given up? Asked by every row that gives nodes back or buys them, by the pools'
status, and by the gate before every delete.

If many nodes stop reporting at once, the fault may be the network's or growth's own, and what runs there may be well.

| the brake holds | while, of the nodes that are or have been Ready (`was_ever_ready`), those that are NotReady are |
| --- | --- |
| for a pool | at least 2, and more than 20 % of the pool's |
| for every pool | at least 3, and more than 20 % of the cluster's |

| while it holds for its pool | |
| --- | --- |
| a node that is not Ready | is not given up |
| a node with pods | is not disturbed: neither marked, nor drained, nor deleted |
| a Ready node that a live look shows empty | goes as ever |
| a node whose machine is gone or off, by the word of the provider | goes as ever |
| a node that was never opened to pods (`was_ever_ready`) | goes as ever, unless a pod has run there: nothing is lost |

| bought for its pool while it holds | |
| --- | --- |
| for buffers, `min`, replacement and renewal | nothing: what stopped reporting may be back soon |
| for waiting pods | as many machines as a quarter of the pool, at least 3; as many again every 10 minutes |

What is on its way counts, and what left for the provider in the last ten minutes, or since it holds: read off the
objects, so a restart forgets nothing. Only a machine that could not be had does not count. What was ordered before
anybody knew that it holds, and has not left yet, is held to the same (`plan/world/orders`).

A person lifts it for a pool with the annotation `growth.dev/release-brake`: until that time, which is at most a day
ahead, it does not hold for the pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from growth.model.node import Node
from growth.model.nodepool import RELEASE_BRAKE, NodePool
from growth.model.noderequest import ACCEPTED, UNMET, NodeRequest
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import Allowance
from growth.plan.world.machines import is_surely_absent
from growth.plan.world.nodes import blocking_pods, is_ours, was_ever_ready
from growth.plan.world.turn import instant_of, sooner

SHARE: Final = 0.2
POOL_NODES: Final = 2
CLUSTER_NODES: Final = 3
LONGEST_RELEASE_SECONDS: Final = 86_400.0
BRAKED: Final = "Braked"  # the condition of pools for which it holds
FEWEST_MACHINES: Final = 3
MACHINES_SHARE: Final = 0.25
AGAIN_SECONDS: Final = 600.0 + 1.0  # objects tell times in whole seconds, rounded down

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
        made_from = (snapshot.nodes, snapshot.requests, snapshot.removals, snapshot.pools)
        self._snapshot = snapshot
        self._known, self._sick = snapshot.memo.recall("brake", made_from, lambda: _counted(snapshot))
        self._all_known, self._all_sick = self._known.total(), self._sick.total()

    def why(self, pool: str) -> str:
        """In words; empty: it does not hold for this pool."""
        if not (counted := self._counted(pool)):
            return ""
        held = "neither they nor nodes with pods are given up, and little is bought"
        return f"{counted}: until that is understood {held}{_ignored(self._snapshot.pools.get(pool))}"

    def _counted(self, pool: str) -> str:
        """How many fail; empty: it does not hold."""
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
        return counted

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

    def allowance(self, pool: str, but_for: Collection[str] = ()) -> tuple[Allowance, float | None] | None:
        """How many machines may be bought now for pods of this pool, and when it is more by time alone; None: the brake
        does not say. `but_for`: orders that do not count.
        """
        if not self._counted(pool):
            return None
        ordered = {name: at for name, at in self._ordered(pool).items() if name not in but_for}
        size = self._known[pool] - sum(name in self._snapshot.nodes for name in ordered)
        most = max(FEWEST_MACHINES, int(MACHINES_SHARE * size))
        told = f"{self._counted(pool)}: meanwhile at most {most} machines are bought for NodePool {pool} in 10 minutes"
        again = [at + AGAIN_SECONDS for at in ordered.values() if at + AGAIN_SECONDS > self._snapshot.now]
        return Allowance(told, pool, nodes=most - len(ordered), is_firm=True), min(again, default=None)

    def _ordered(self, pool: str) -> dict[str, float]:
        """The machines that count, and when they were ordered."""
        snapshot, since = self._snapshot, self._counts_since(pool)
        young = (each for each in snapshot.nodes.values() if each.pool == pool and each.created_at >= since)
        return {each.name: each.created_at for each in young} | {
            name: _left_at(each)
            for name, each in snapshot.requests.items()
            if each.spec.pool == pool and each.phase != UNMET and (each.is_in_flight or _left_at(each) >= since)
        }

    def _counts_since(self, pool: str) -> float:
        """A brake that has just begun does not blame what was bought before; until its condition is written nobody
        knows since when it holds.
        """
        found, latest = self._snapshot.pools.get(pool), self._snapshot.now - AGAIN_SECONDS
        written = () if found is None else found.status.conditions
        held = (each for each in written if each.type == BRAKED and each.status == "True")
        began = (instant_of(each.last_transition_time) for each in held)
        return max(latest, next((at for at in began if at is not None), latest))

    def changes_at(self) -> float | None:
        """When the first release ends."""
        now = self._snapshot.now
        return sooner(*(_released_until(pool, now) for pool in self._snapshot.pools.values()))


def _left_at(request: NodeRequest) -> float:
    """When the provider accepted it: it may have been made long before, and waited."""
    accepted = (instant_of(each.at) for each in request.status.events if each.name == ACCEPTED)
    return max((request.created_at, *(at for at in accepted if at is not None)))


def _counted(snapshot: Snapshot) -> tuple[Counter[str], Counter[str]]:
    """Nodes that have been Ready, and those of them that are not, by pool; strangers as the pool without a name."""
    known, sick = Counter[str](), Counter[str]()
    for node in snapshot.nodes.values():
        if was_ever_ready(node, snapshot):
            pool = node.pool if is_ours(node, snapshot) else ""
            known[pool] += 1
            sick[pool] += not node.is_ready
    return known, sick


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
