"""How many more nodes of a pool may be disrupted now? Asked by scale-down, consolidation, replacement and renewal
before a node with pods goes.

A budget is a count or a share of the pool's nodes (a share lets at least one go, unless it is 0 %). Of several budgets
that hold now the smallest counts.

| uses a budget up | |
| --- | --- |
| a node that is being drained, or is marked and has pods | now |
| a node that is not Ready | now |
| a node with pods that went within the budget's window (law S8) | until the window has passed |

A budget with a schedule holds from each time it names, in its time zone, for its duration; one that cannot be read
holds always. What went before growth started is not known, so the first window after a restart counts as used up: a
lost memory errs on the safe side.

While many nodes fail the brake holds (`plan/world/brake`), whatever the budgets say.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from growth.model.node import Node
from growth.model.nodepool import DisruptionBudget, NodePool
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.nodes import NodeState, state_of, working_pods
from growth.plan.world.schedule import ScheduleError, UnknownTimeZoneError, read_schedule


class Recent(Struct, frozen=True):
    """Nodes that were disrupted lately, as far as one row has seen: their pool, and when each was last there."""

    known_since: float = 0.0  # what went before is not known
    seen: Mapping[str, tuple[str, float]] = {}

    def known_at(self, pool: NodePool, settings: Settings) -> float:
        """When the whole window of the pool's budgets is known; of a pool that was made since, everything is."""
        return 0.0 if pool.created_at >= self.known_since > 0.0 else self.known_since + _longest_window(pool, settings)


def with_moment(recent: Recent, snapshot: Snapshot, settings: Settings) -> Recent:
    """What is remembered after one more look; without nodes whose mark or removal was taken back."""
    now = snapshot.now
    oldest = now - max((_longest_window(pool, settings) for pool in snapshot.pools.values()), default=0.0)
    seen = {name: (pool, now if name in snapshot.nodes else at) for name, (pool, at) in recent.seen.items()}
    for name in [name for name, node in snapshot.nodes.items() if _is_disrupted(node, snapshot)]:
        seen.setdefault(name, (snapshot.nodes[name].pool, now))
    known_since = recent.known_since if 0.0 < recent.known_since <= now else now
    seen = {name: each for name, each in seen.items() if each[1] > oldest and not _was_kept(name, snapshot)}
    return Recent(known_since, seen)


def _is_disrupted(node: Node, snapshot: Snapshot) -> bool:
    """Its pods leave, or will."""
    state = NodeState(node, snapshot.removals.get(node.name))
    return (state.is_draining or node.is_marked) and bool(working_pods(snapshot, node.name))


def _was_kept(name: str, snapshot: Snapshot) -> bool:
    state = state_of(name, snapshot)
    return state.node is not None and state.node.is_ready and not state.is_going


def with_disrupted(recent: Recent, node: Node, now: float) -> Recent:
    """The node was chosen just now."""
    return Recent(recent.known_since, {**recent.seen, node.name: (node.pool, now)})


# ------------------------------------------------------------------------------------- what is left


def disruptions_left(
    pool: NodePool, snapshot: Snapshot, settings: Settings, recent: Recent, *, is_repair: bool = False
) -> int:
    """By the strictest budget that holds now. To a repair a node that is not Ready is disrupted already: it does not
    count before it is drained.
    """
    nodes = [node for node in snapshot.nodes.values() if node.pool == pool.name]
    used = sum(_uses_up(node, snapshot, is_repair=is_repair) for node in nodes)
    lefts = []
    for budget in budgets_now(pool, snapshot.now):
        since = snapshot.now - _window(budget, settings)
        gone = [name for name, (of_pool, at) in recent.seen.items() if of_pool == pool.name and at > since]
        gone_lately = sum(name not in snapshot.nodes for name in gone)
        lefts.append(_allowed(budget.nodes, len(nodes)) - used - gone_lately)
    return max(0, min(lefts, default=len(nodes)))


def _uses_up(node: Node, snapshot: Snapshot, *, is_repair: bool) -> bool:
    if not node.is_ready and not is_repair:
        return True
    return NodeState(node, snapshot.removals.get(node.name)).is_draining or _is_disrupted(node, snapshot)


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


def _window(budget: DisruptionBudget, settings: Settings) -> float:
    return settings.disruption_window_seconds if budget.window_seconds is None else float(budget.window_seconds)


def _longest_window(pool: NodePool, settings: Settings) -> float:
    return max((_window(budget, settings) for budget in pool.spec.budgets), default=settings.disruption_window_seconds)


def _allowed(text: str, count: int) -> int:
    """Malformed: nothing may be disrupted."""
    digits = text.removesuffix("%")
    if not digits.isdecimal():
        return 0
    if not text.endswith("%"):
        return int(digits)
    share = count * int(digits) // 100
    return max(1, share) if int(digits) > 0 else 0
