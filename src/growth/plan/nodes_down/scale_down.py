"""Which nodes are not needed? Marks them, waits, looks again, and hands those that stayed idle to removal. It never
deletes anything.

| node of a pool | then | |
| --- | --- | --- |
| idle, above `min`, and no waiting pod fits there | MarkScaleDown: go later; the dearest first | `_mark_idle` |
| idle, but a CapacityBuffer's virtual pods need it | nothing, and a note says whose | `keep_for_buffer` |
| marked, pods have come, or it must stay | UnmarkScaleDown: mark and taint off, other taints untouched | `_why_stay` |
| marked, the mark is damaged | MarkScaleDown again, with a new time | `look_at_marked` |
| marked, its time has come, still idle, and no waiting pod fits there | CreateNodeRemovalRequest | `_hand_over` |
| its pool goes, or it is dead | marked to go at once; with pods on it within the budgets | `_begin_going` |
| too old, or its pool's template has changed | the same if empty; with pods on it renewal marks it | `_begin_going` |
| ... and empty, but `min` needs it | when another serves; if none can be had, one at a time | `_awaits_another` |
| ... and empty, but a buffer needs it | within the budgets | `_is_reserve` |
| idle or to go, and nothing but the node says that it is growth's | handed over unmarked | `_mark_or_hand_over` |
| marked, and its pool is deleted but leaves its nodes | UnmarkScaleDown | `_why_stay` |

A node that must go (the rows with `_begin_going`) goes with its pods, and removal evicts them. While the brake holds
(`plan/world/brake`) neither nodes with pods nor dead ones begin to go. Paused: nothing is marked and nothing goes.
Nodes of another manager, malformed ones, those in removal and those that consolidation has marked are not looked at.
A pool may keep an empty machine whose hour is paid until that hour is nearly over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.decision import Decision, Note
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import BufferPlacement, look_seconds, place_buffers
from growth.plan.nodes_down.budgets import Recent, disruptions_left, with_moment
from growth.plan.world import nodes
from growth.plan.world.brake import Brake
from growth.plan.world.machines import (
    DRIFTED,
    EMPTY,
    EXPIRED,
    LOOK_AGAIN_SECONDS,
    POOL_DELETED,
    UNHEALTHY,
    is_left_over,
    removal_of_node,
)
from growth.plan.world.marks import (
    CONSOLIDATION,
    SCALE_DOWN,
    is_marked_by,
    mark_node,
    mark_of,
    unmark_node,
    without_mark,
)
from growth.plan.world.nodes import Prices, delay_seconds, is_paused, kind_of, minimum, readiness_wait_seconds, state_of
from growth.plan.world.swaps import changes_at, is_settling, settles_at, why_replaced
from growth.plan.world.turn import Turn, about, retry_after

NEEDED_BY_BUFFER: Final = "NeededByBuffer"

_MUST_GO: Final = {
    POOL_DELETED: "NodePool {pool} is being deleted",
    UNHEALTHY: "it has not been Ready for too long",
    EXPIRED: "it is older than NodePool {pool} allows",
    DRIFTED: "NodePool {pool} makes its nodes differently by now",
}
_RETRY_SECONDS: Final = 5.0
_HOUR_SECONDS: Final = 3600.0
_HOUR_MARGIN_SECONDS: Final = 120.0  # for the removal itself

settle = retry_after(_RETRY_SECONDS)


class Ledger(Struct, frozen=True):
    wanted_since: Mapping[str, float] = {}  # idle nodes that a waiting pod would fit on
    needed: Mapping[str, tuple[str, ...]] = {}  # idle nodes that buffers need, and of which that was said
    needed_at: float = 0.0  # when that was looked at
    recent: Recent = Recent()
    due_since: Mapping[str, float] = {}  # idle nodes that must be replaced, and that `min` needs until another serves


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    if not snapshot.buffers.is_known:
        return Decision(ledger, again_at=snapshot.now + _RETRY_SECONDS)  # which nodes they need is not known yet
    look = _Look(snapshot, replace(ledger, recent=with_moment(ledger.recent, snapshot, settings)), settings)
    prices = Prices(snapshot)
    ours = [node for node in _those_not_at_work(snapshot) if _is_worth_a_look(node, snapshot)]
    for node in sorted((each for each in ours if each.is_marked), key=lambda each: each.name):
        look.look_at_marked(node)
    unmarked = (each for each in ours if not each.is_marked)
    for node in sorted(unmarked, key=lambda each: (-prices.price(each), each.name)):
        look.look_at_unmarked(node)
    return look.decision()


def _those_not_at_work(snapshot: Snapshot) -> Iterator[Node]:
    """Most nodes work, are not marked and need not go: they are passed over quickly."""

    def look() -> frozenset[str]:
        living = {name for name, pool in snapshot.pools.items() if pool.deleted_at is None}
        nodes = snapshot.nodes.items()
        return frozenset(name for name, node in nodes if node.pool in living and node.is_ready and not node.is_marked)

    unremarkable = snapshot.memo.recall("unremarkable nodes", (snapshot.nodes, snapshot.pools), look)
    busy = snapshot.memo.recall_each("busy nodes", snapshot.pods_by_node, _are_at_work)
    return (node for name, node in snapshot.nodes.items() if name not in unremarkable or not busy.get(name))


def _are_at_work(pods: tuple[Pod, ...]) -> bool:
    return any(pod.counts_as_work and pod.deleted_at is None for pod in pods)


def _is_worth_a_look(node: Node, snapshot: Snapshot) -> bool:
    pool = snapshot.pools.get(node.pool)
    if pool is None:
        return False
    if not nodes.is_ours(node, snapshot) or state_of(node.name, snapshot).is_ending or node.malformed:
        return False
    return node.is_marked if pool.leaves_its_nodes else not is_marked_by(CONSOLIDATION, node)


class _Look:
    """One look at all nodes; what is marked in it counts for those that come after."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> None:
        self._snapshot, self._ledger, self._settings = snapshot, ledger, settings
        self._turn = Turn()
        self._buffers = _BufferNeeds(snapshot, ledger, settings, self._turn)
        self._staying = nodes.staying_by_kind(snapshot)
        self._left: dict[tuple[str, str], int] = {}  # disruptions, by pool and reason
        self._wanted_since: dict[str, float] = {}
        self._due_since: dict[str, float] = {}
        self._shapes = nodes.waiting_shapes(snapshot, settings)
        self._brake = Brake(snapshot)
        self._turn.wake(self._brake.changes_at())

    def decision(self) -> Decision[Ledger]:
        needs = self._buffers
        ledger = self._ledger
        return self._turn.decision(
            Ledger(self._wanted_since, needs.said, needs.looked_at, ledger.recent, self._due_since)
        )

    # --------------------------------------------------------------------------------------- marked

    def look_at_marked(self, node: Node) -> None:
        pool, mark, now = self._snapshot.pools[node.pool], mark_of(node), self._snapshot.now
        delay = delay_seconds(pool, self._settings)
        must_go = self._why_going(node, pool)
        why_stay = "" if must_go else self._why_stay(node, pool)
        if why_stay:
            self._turn.do(unmark_node(node))
            self._turn.tell(Note(about(node), "ScaleDownCancelled", f"the node stays: {why_stay}"))
        elif mark is None or is_paused(pool, self._settings):
            return
        elif mark.due_at is None or mark.is_damaged(now, delay):
            self._mark(node, delay)
        elif now < mark.due_at:
            self._turn.wake(mark.due_at)
        elif self._brake.why_held(node):
            self._turn.wake(now + LOOK_AGAIN_SECONDS)
        elif must_go or not self._is_wanted(without_mark(node), pool):  # what is wanted scale-up revives
            self._hand_over(node, must_go or mark.reason)

    def _why_stay(self, node: Node, pool: NodePool) -> str:
        if pool.leaves_its_nodes:
            return f"NodePool {pool.name} is deleted and leaves its nodes"
        why_busy = nodes.why_not_idle(node, self._snapshot, delay_seconds(pool, self._settings))
        if why_busy:
            return why_busy
        if is_settling(node.name, self._snapshot, self._settings):
            return "it was bought to replace others, whose pods are about to come"
        if nodes.is_protected_node(node):
            return "it must not be disrupted"
        if pool.spec.consolidation == "Off":
            return f"NodePool {pool.name} keeps its empty nodes"
        if buffers := self._buffers.holders_of(node):
            return f"CapacityBuffer {', '.join(buffers[:3])} needs its room"
        kind, least = kind_of(node), minimum(node, pool)
        if self._staying.get(kind, 0) < least:
            self._staying[kind] = self._staying.get(kind, 0) + 1
            return f"NodePool {pool.name} keeps at least {least} of {kind[1]}"
        return ""

    def _hand_over(self, node: Node, reason: str) -> None:
        action = removal_of_node(node, self._snapshot, reason)
        if action is None:  # the provider does not show its machine: that must be known first
            self._turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
            return
        self._turn.do(action)
        self._turn.tell(Note(about(node), "Removing", f"the node is given back: {reason}"))

    # ------------------------------------------------------------------------------------- unmarked

    def look_at_unmarked(self, node: Node) -> None:
        pool = self._snapshot.pools[node.pool]
        if is_paused(pool, self._settings):
            return
        must_go = self._why_going(node, pool)
        if self._brake.why_held(node):  # told on the pool
            self._turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
        elif must_go:
            self._begin_going(node, pool, must_go)
        elif pool.spec.consolidation != "Off" and (buffers := self._buffers.holders_of(node)):
            self._buffers.keep_for_buffer(node, buffers)
        elif is_settling(node.name, self._snapshot, self._settings):
            self._turn.wake(settles_at(self._snapshot.requests[node.name], self._snapshot, self._settings))
        elif pool.spec.consolidation == "Off" or nodes.is_protected_node(node) or self._is_busy(node, pool):
            self._wake_when_idle(node, pool)
        else:
            self._mark_idle(node, pool)

    def _begin_going(self, node: Node, pool: NodePool, reason: str) -> None:
        """An empty node goes at once; one with pods only as far as the budgets let it, or when renewal marks it. One
        that is not Ready is disrupted already, whatever it goes for: else it would wait for itself.
        """
        is_renewed, kind = reason in (EXPIRED, DRIFTED), reason if node.is_ready else UNHEALTHY
        if nodes.blocking_pods(node.name, self._snapshot) and (is_renewed or not self._may_disrupt(pool, kind)):
            return
        if is_renewed and (self._awaits_another(node, pool) or self._is_reserve(node, pool, kind)):
            return
        self._mark_or_hand_over(node, reason, 0.0, f"it goes: {_MUST_GO[reason].format(pool=pool.name)}")

    def _awaits_another(self, node: Node, pool: NodePool) -> bool:
        """Where `min` needs it, scale-up has another made first. Where none can be had in time it goes all the same,
        once all others are there.
        """
        kind, least, now = kind_of(node), minimum(node, pool), self._snapshot.now
        staying = self._staying.get(kind, 0)
        if least and staying <= least:
            since = self._due_since[node.name] = self._ledger.due_since.get(node.name, now)
            until = since + readiness_wait_seconds(pool, self._settings)
            self._turn.wake(until if now < until else None)
            if now < until or staying < least:
                return True
        self._staying[kind] = staying - 1
        return False

    def _is_reserve(self, node: Node, pool: NodePool, kind: str) -> bool:
        """What buffers need is not given up all at once: budgets hold, as for pods."""
        return bool(self._buffers.holders_of(node)) and not self._may_disrupt(pool, kind)

    def _may_disrupt(self, pool: NodePool, reason: str) -> bool:
        """One more, within the budgets; what went before growth started counts as used up."""
        known_at, kind = self._ledger.recent.known_at(pool, self._settings), (pool.name, reason)
        if self._snapshot.now < known_at:
            self._turn.wake(known_at)
            return False
        if kind not in self._left:
            recent, is_repair = self._ledger.recent, reason == UNHEALTHY
            self._left[kind] = disruptions_left(pool, self._snapshot, self._settings, recent, is_repair=is_repair)
        self._left[kind] -= 1
        if self._left[kind] < 0:
            self._turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
        return self._left[kind] >= 0

    def _is_busy(self, node: Node, pool: NodePool) -> bool:
        return bool(nodes.why_not_idle(node, self._snapshot, delay_seconds(pool, self._settings)))

    def _wake_when_idle(self, node: Node, pool: NodePool) -> None:
        """Pods that were planned for a node and never come do not hold it for ever."""
        self._turn.wake(nodes.lost_at(node.name, self._snapshot))
        request = self._snapshot.requests.get(node.name)
        if request is not None and not request.is_in_flight:
            awaited_until = nodes.phase_since(request, self._snapshot) + delay_seconds(pool, self._settings)
            self._turn.wake(awaited_until if awaited_until > self._snapshot.now else None)

    def _mark_idle(self, node: Node, pool: NodePool) -> None:
        """Unless `min` keeps it, its hour is paid, or a waiting pod fits there: the scheduler gets its time first."""
        kind, now = kind_of(node), self._snapshot.now
        if self._staying.get(kind, 0) - int(node.is_ready and not node.is_starting) < minimum(node, pool):
            return
        hour_at = _paid_until_nearly(node, pool, self._snapshot, self._settings)
        if now < hour_at:
            self._turn.wake(hour_at)
        elif not self._is_wanted(node, pool):
            self._staying[kind] = self._staying.get(kind, 0) - int(node.is_ready)
            self._mark_or_hand_over(node, EMPTY, delay_seconds(pool, self._settings))

    def _is_wanted(self, node: Node, pool: NodePool) -> bool:
        if not nodes.would_take(node, self._snapshot, self._shapes):
            return False
        since = self._wanted_since[node.name] = self._ledger.wanted_since.get(node.name, self._snapshot.now)
        until = since + delay_seconds(pool, self._settings)
        if until > self._snapshot.now:
            self._turn.wake(until)
        return until > self._snapshot.now

    # ----------------------------------------------------------------------------------------- both

    def _why_going(self, node: Node, pool: NodePool) -> str:
        """The reason, if it must go whatever it costs."""
        if pool.deleted_at is not None:
            return "" if pool.leaves_its_nodes else POOL_DELETED
        self._turn.wake(changes_at(node, pool, self._snapshot, self._settings))
        reason = why_replaced(node, pool, self._snapshot, self._settings)
        return "" if reason == UNHEALTHY and self._brake.why_held(node) else reason

    def _mark_or_hand_over(self, node: Node, reason: str, delay: float, why: str = "") -> None:
        """What is left of a node takes no pods. A mark would say nothing, and nobody could take it off once a stranger
        turned out to be there.
        """
        if is_left_over(node, self._snapshot):
            self._hand_over(node, reason)
        else:
            self._mark(node, delay, why)

    def _mark(self, node: Node, delay: float, why: str = "") -> None:
        text = why or f"not needed; goes in {delay:.0f} s unless pods come"
        self._turn.do(mark_node(node, SCALE_DOWN, self._snapshot.now + delay))
        self._turn.tell(Note(about(node), "ScaleDown", text))


def _paid_until_nearly(node: Node, pool: NodePool, snapshot: Snapshot, settings: Settings) -> float:
    """When an empty machine whose started hour is paid should be marked, so that it is gone as that hour ends."""
    sold = next((each for each in snapshot.offerings if each.name == node.offering), None)
    if not pool.spec.keep_until_hour_end or sold is None or not sold.bills_started_hours:
        return 0.0
    machine = snapshot.machines.get(node.name)
    began_at = node.created_at if machine is None else machine.created_at
    hours = max(0.0, snapshot.now - began_at) // _HOUR_SECONDS
    return began_at + (hours + 1) * _HOUR_SECONDS - delay_seconds(pool, settings) - _HOUR_MARGIN_SECONDS


class _BufferNeeds:
    """Which nodes buffers need. To find out is dear, so an answer counts for a while."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings, turn: Turn) -> None:
        self._snapshot, self._settings, self._turn = snapshot, settings, turn
        self._before, self.looked_at = ledger.needed, ledger.needed_at
        is_usable = snapshot.buffers.buffers and ledger.needed_at <= snapshot.now  # or a clock went back
        self._usable_until = ledger.needed_at + look_seconds(snapshot, settings) if is_usable else 0.0
        self._kept: BufferPlacement | None = None
        self.said: dict[str, tuple[str, ...]] = {}

    def holders_of(self, node: Node) -> tuple[str, ...]:
        """The buffers whose virtual pods would lose their room with this node."""
        if self._kept is None and node.name in self._before and self._usable_until > self._snapshot.now:
            self._turn.wake(self._usable_until)
            return self._before[node.name]
        if self._kept is None:
            self._kept, self.looked_at = place_buffers(self._snapshot, self._settings), self._snapshot.now
        return self._kept.holders_of(node.name)

    def keep_for_buffer(self, node: Node, buffers: tuple[str, ...]) -> None:
        """Said once of each node, and only of those that would go otherwise."""
        is_known = node.name in self._before
        if is_known or not nodes.working_pods(self._snapshot, node.name):
            self.said[node.name] = buffers
        if not is_known and node.name in self.said:
            message = f"kept although idle: CapacityBuffer {', '.join(buffers[:3])} needs its room"
            self._turn.tell(Note(about(node), NEEDED_BY_BUFFER, message))
