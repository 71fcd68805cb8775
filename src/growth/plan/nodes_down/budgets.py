"""How many more nodes of a pool may be disrupted now? Asked by scale-down, consolidation, replacement and renewal
before a node with pods goes.

A budget is a count or a share of the pool's nodes (a share lets at least one go, unless it is 0 %). Of several budgets
that hold now the smallest counts.

| uses a budget up | |
| --- | --- |
| a node that is being drained, or is marked and has pods | now, until its Node is gone |
| a node that is not Ready | now |
| a node with pods that went within the budget's window (law S8) | until the window has passed |
| a node whose removal was taken back after pods had been evicted | the same: they were disrupted all the same |

A budget with a schedule holds from each time it names, in its time zone, for its duration; one that cannot be read
holds always. Which nodes were disrupted lately stands in the pool's status, so that it survives a restart. What went
before that was first written is not known, and counts as used up for one window: a lost memory errs on the safe side.

While many nodes fail the brake holds (`plan/world/brake`), whatever the budgets say.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from growth.model.node import Node
from growth.model.nodepool import DisruptionBudget, NodePool
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.nodes import disrupted_nodes, is_being_emptied, state_of, was_kept
from growth.plan.world.pools import longest_window_seconds, nodes_by_pool, window_seconds
from growth.plan.world.schedule import ScheduleError, UnknownTimeZoneError, read_schedule
from growth.plan.world.turn import instant_of


class Recent(Struct, frozen=True):
    """Nodes that were disrupted lately, as far as one row has seen: their pool, and when each was last there."""

    known_since: float = 0.0  # what went before is not known
    seen: Mapping[str, tuple[str, float]] = {}
    emptied: frozenset[str] = frozenset()  # of these, those that lost pods: that counts even if the node stays

    def known_at(self, pool: NodePool, settings: Settings) -> float:
        """When the whole window of the pool's budgets is known; of a pool that was made since, everything is."""
        if pool.created_at >= self.known_since > 0.0:
            return 0.0
        recorded_since = instant_of(pool.status.recorded_since)
        known_since = self.known_since if recorded_since is None else min(self.known_since, recorded_since)
        return known_since + longest_window_seconds(pool, settings)


def with_moment(recent: Recent, snapshot: Snapshot, settings: Settings) -> Recent:
    """What is remembered after one more look; without nodes whose mark or removal was taken back before any pod had to
    leave.
    """
    now, disrupted = snapshot.now, disrupted_nodes(snapshot)
    known_since = recent.known_since if 0.0 < recent.known_since <= now else now
    if not recent.seen and not disrupted and not any(pool.status.disrupted for pool in snapshot.pools.values()):
        return Recent(known_since)
    oldest = now - max((longest_window_seconds(pool, settings) for pool in snapshot.pools.values()), default=0.0)
    seen = {name: (pool, at if _is_over(name, snapshot) else now) for name, (pool, at) in recent.seen.items()}
    emptied = set(recent.emptied)
    for pool in snapshot.pools.values():
        for each in pool.status.disrupted:
            gone_at = instant_of(each.gone_at) if _is_over(each.name, snapshot) else None
            seen.setdefault(each.name, (pool.name, now if gone_at is None else min(now, gone_at)))
            emptied |= {each.name} if each.emptied else set()
    for node in disrupted:
        seen.setdefault(node.name, (_pool_of(node, snapshot), now))
    emptied |= {name for name in seen if is_being_emptied(name, snapshot)}
    counted = {name for name in seen if name in emptied or not was_kept(name, snapshot)}
    seen = {name: each for name, each in seen.items() if each[1] > oldest and name in counted}
    return Recent(known_since, seen, frozenset(emptied & seen.keys()))


def _is_over(name: str, snapshot: Snapshot) -> bool:
    """Gone, or it stays after all."""
    return name not in snapshot.nodes or was_kept(name, snapshot)


def _pool_of(node: Node, snapshot: Snapshot) -> str:
    """A node whose machine is gone already belongs to the pool that its removal names."""
    removal = snapshot.removals.get(node.name)
    return node.pool or (removal.spec.pool if removal is not None else "")


def with_disrupted(recent: Recent, node: Node, now: float) -> Recent:
    """The node was chosen just now."""
    return replace(recent, seen={**recent.seen, node.name: (node.pool, now)})


# ------------------------------------------------------------------------------------- what is left


def disruptions_left(
    pool: NodePool, snapshot: Snapshot, settings: Settings, recent: Recent, *, is_repair: bool = False
) -> int:
    """By the strictest budget that holds now. To a repair a node that is not Ready is disrupted already: it does not
    count before it is drained.
    """
    by_pool = nodes_by_pool(snapshot)
    stray = (node for node in by_pool.get("", ()) if _pool_of(node, snapshot) == pool.name)
    nodes = {node.name: node for node in (*by_pool.get(pool.name, ()), *stray)}
    leaving = {node.name for node in disrupted_nodes(snapshot)}
    leaving |= {name for name in snapshot.removals if state_of(name, snapshot).is_draining}
    used = {name for name, node in nodes.items() if name in leaving or not (node.is_ready or is_repair)}
    lefts = []
    for budget in budgets_now(pool, snapshot.now):
        since = snapshot.now - window_seconds(budget, settings)
        lately = {name for name, (of_pool, at) in recent.seen.items() if of_pool == pool.name and at > since}
        gone = {name for name in lately if name not in snapshot.nodes or name in recent.emptied}
        lefts.append(_allowed(budget.nodes, len(nodes)) - len(used | gone))
    return max(0, min(lefts, default=len(nodes)))


def budgets_now(pool: NodePool, now: float) -> list[DisruptionBudget]:
    return [budget for budget in pool.spec.budgets if _holds(budget, now)]


def budgets_change_at(pool: NodePool, now: float) -> float | None:
    """When the next budget with a schedule begins or ends to hold."""
    return min((at for budget in pool.spec.budgets if (at := _changes_at(budget, now)) is not None), default=None)


def _holds(budget: DisruptionBudget, now: float) -> bool:
    if budget.schedule is None or budget.duration_seconds is None:
        return True
    try:
        began_at = read_schedule(budget.schedule, budget.time_zone or "UTC").last_until(now)
    except (ScheduleError, UnknownTimeZoneError):
        return True
    return began_at is not None and now < began_at + budget.duration_seconds


def _changes_at(budget: DisruptionBudget, now: float) -> float | None:
    if budget.schedule is None or budget.duration_seconds is None:
        return None
    try:
        schedule = read_schedule(budget.schedule, budget.time_zone or "UTC")
        began_at = schedule.last_until(now)
        ends_at = now if began_at is None else began_at + budget.duration_seconds
        return ends_at if ends_at > now else schedule.next_after(now)
    except (ScheduleError, UnknownTimeZoneError):
        return None


def _allowed(text: str, count: int) -> int:
    """Malformed: nothing may be disrupted."""
    digits = text.removesuffix("%")
    if not digits.isdecimal():
        return 0
    if not text.endswith("%"):
        return int(digits)
    share = count * int(digits) // 100
    return max(1, share) if int(digits) > 0 else 0
