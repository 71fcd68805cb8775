"""Which nodes are not needed? Marks them, waits, looks again, and hands those that stayed idle to removal. It never
deletes anything.

| node of a pool | then |
| --- | --- |
| idle, not below `min`, nobody waits for it | MarkScaleDown: taint now, go later; of several the dearest first |
| idle, but a CapacityBuffer's virtual pods need it | nothing, and a note says whose |
| marked, pods have come, or it must stay | UnmarkScaleDown: mark and taint off, other taints untouched |
| marked, the mark is damaged | MarkScaleDown again, with a new time |
| marked, its time has come, still idle | CreateNodeRemovalRequest |
| its pool goes, or it is dead (`plan/world/swaps`) | the same at once; with pods on it within the budgets, and removal evicts them; not while many are dead |
| it is too old, or its pool's template has changed | the same at once if it is empty; with pods on it, when `plan/nodes_down/renewal` has marked it |

Paused: nothing is marked and nothing goes. Nodes of another manager, malformed ones, those in removal and those that
consolidation empties are not looked at. A pool may keep an empty machine whose hour is paid until that hour is nearly
over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, MarkScaleDown, UnmarkScaleDown
from growth.model.decision import Decision, Settled
from growth.model.instant import CLOCKS_DIFFER_SECONDS
from growth.model.node import OFFERING_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, Node, Taint
from growth.model.nodepool import ORPHAN_NODES, NodePool
from growth.model.note import Note
from growth.model.outcome import Accepted, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import BufferPlacement, look_seconds, place_buffers
from growth.plan.nodes_down.budgets import Recent, disruptions_left, why_braked_now, with_moment
from growth.plan.nodes_down.what_if import is_being_emptied
from growth.plan.world.machines import (
    DRIFTED,
    EMPTY,
    EXPIRED,
    LOOK_AGAIN_SECONDS,
    POOL_DELETED,
    UNHEALTHY,
    removal_of_node,
)
from growth.plan.world.nodes import (
    blocking_pods,
    is_ours,
    is_protected_node,
    lost_at,
    phase_since,
    waiting_shapes,
    why_not_idle,
    working_pods,
    would_take,
)
from growth.plan.world.pools import choice_of_type
from growth.plan.world.records import about_node, instant_of, seen, sooner
from growth.plan.world.swaps import changes_at, is_settling, settles_at, why_replaced

NEEDED_BY_BUFFER: Final = "NeededByBuffer"

_RETRY_SECONDS: Final = 5.0
_HOUR_SECONDS: Final = 3600.0
_HOUR_MARGIN_SECONDS: Final = 120.0  # for the removal itself


class Ledger(Struct, frozen=True):
    wanted_since: Mapping[str, float] = {}  # idle nodes that somebody who waits would fit on
    spare: Mapping[str, tuple[str, ...]] = {}  # idle nodes that buffers need, and of which that was said
    spare_at: float = 0.0  # when that was looked at
    recent: Recent = Recent()


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    if not snapshot.buffers.is_known:
        return Decision(ledger, again_at=snapshot.now + _RETRY_SECONDS)  # which nodes are spare is not known yet
    ledger = replace(ledger, recent=with_moment(ledger.recent, snapshot, settings))
    turn = _Turn(snapshot, ledger, settings)
    ours = [node for node in snapshot.nodes.values() if _is_worth_a_look(node, snapshot)]
    for node in sorted((each for each in ours if each.is_marked), key=lambda each: each.name):
        turn.look_at_marked(node)
    for node in sorted((each for each in ours if not each.is_marked), key=lambda each: (-turn.price(each), each.name)):
        turn.look_at_unmarked(node)
    return Decision(
        Ledger(turn.wanted_since, turn.spare, turn.spare_at, ledger.recent),
        tuple(turn.actions),
        tuple(turn.notes),
        sooner(*turn.again),
    )


def _is_worth_a_look(node: Node, snapshot: Snapshot) -> bool:
    """Most nodes work, are not marked and need not go: they are passed over quickly."""
    pool = snapshot.pools.get(node.pool)
    if pool is None:
        return False
    must_go = pool.deleted_at is not None or not node.is_ready
    is_busy = any(pod.counts_as_work and pod.deleted_at is None for pod in snapshot.pods_by_node.get(node.name, ()))
    return (must_go or not is_busy or node.is_marked) and is_ours(node, snapshot) and not _is_left_alone(node, snapshot)


def _is_left_alone(node: Node, snapshot: Snapshot) -> bool:
    pool = snapshot.pools[node.pool]
    is_orphaned = pool.deleted_at is not None and pool.annotations.get(ORPHAN_NODES) == "true"
    return (
        is_orphaned
        or node.name in snapshot.removals
        or node.deleted_at is not None
        or bool(node.malformed)
        or is_being_emptied(node)
    )


class _Turn:
    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> None:
        self.snapshot, self.ledger, self.settings = snapshot, ledger, settings
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.again: list[float] = []
        self.wanted_since: dict[str, float] = {}
        self.spare: dict[str, tuple[str, ...]] = {}
        self.spare_at = ledger.spare_at
        self._spare_until = _spare_until(ledger, snapshot, settings)
        self._kept: BufferPlacement | None = None
        self._staying = _staying(snapshot)
        self._left: dict[tuple[str, str], int] = {}
        self._prices = {(each.name, each.location): each for each in snapshot.offerings}
        self._shapes = waiting_shapes(snapshot)
        self._is_braked = bool(why_braked_now(snapshot))

    # --------------------------------------------------------------------------------------- marked

    def look_at_marked(self, node: Node) -> None:
        pool, now = self.snapshot.pools[node.pool], self.snapshot.now
        going = self._why_going(node, pool)
        why_stay = "" if going else self._why_stay(node, pool)
        due_at = instant_of(node.annotations.get(SCALE_DOWN_AT))
        if why_stay:
            self._unmark(node, why_stay)
        elif self._is_paused(pool):
            return
        elif (
            due_at is None
            or due_at > now + self._delay(pool) + CLOCKS_DIFFER_SECONDS
            or all(taint.key != SCALE_DOWN_TAINT.key for taint in node.taints)
        ):
            self._mark(node, self._delay(pool))
        elif now < due_at:
            self.again.append(due_at)
        else:
            self._hand_over(node, going or EMPTY)

    def _hand_over(self, node: Node, reason: str) -> None:
        action = removal_of_node(node, self.snapshot, reason)
        if action is None:  # the provider does not show its machine: that must be known first
            self.again.append(self.snapshot.now + LOOK_AGAIN_SECONDS)
            return
        self.actions.append(action)
        self.notes.append(Note(about_node(node), "Removing", f"the node is given back: {reason}"))

    def _why_stay(self, node: Node, pool: NodePool) -> str:
        why_busy = why_not_idle(node, self.snapshot, self._delay(pool))
        if why_busy:
            return why_busy
        if is_settling(node.name, self.snapshot, self.settings):
            return "it was bought to replace others, whose pods are about to come"
        if is_protected_node(node):
            return "it must not be disrupted"
        if pool.spec.consolidation == "Off":
            return f"NodePool {pool.name} keeps its empty nodes"
        if self._spares_on(node):
            return f"CapacityBuffer {', '.join(self._spares_on(node)[:3])} needs its room"
        kind, ready = _kind(node), self._staying
        if ready.get(kind, 0) < _minimum(node, pool):
            ready[kind] = ready.get(kind, 0) + 1
            return f"NodePool {pool.name} keeps at least {_minimum(node, pool)} of {kind[1]}"
        return ""

    def _unmark(self, node: Node, why: str) -> None:
        self.actions.append(UnmarkScaleDown(seen(node), _without_mark(node)))
        self.notes.append(Note(about_node(node), "ScaleDownCancelled", f"the node stays: {why}"))

    # ------------------------------------------------------------------------------------- unmarked

    def look_at_unmarked(self, node: Node) -> None:
        pool = self.snapshot.pools[node.pool]
        if self._is_paused(pool):
            return
        going = self._why_going(node, pool)
        if going:
            self._begin_going(node, pool, going)
        elif self._may_be_marked(node, pool):
            hour_at = self._paid_until_nearly(node, pool)
            if self.snapshot.now < hour_at:
                self.again.append(hour_at)
            elif not self._is_wanted(node, pool):
                self._staying[_kind(node)] = self._staying.get(_kind(node), 0) - int(node.is_ready)
                self._mark(node, self._delay(pool))

    def _begin_going(self, node: Node, pool: NodePool, reason: str) -> None:
        """An empty node goes at once; one with pods only as far as the budgets let it."""
        is_renewed = reason in (EXPIRED, DRIFTED)
        if blocking_pods(node.name, self.snapshot) and (is_renewed or not self._may_disrupt(pool, reason)):
            return
        self._mark(node, 0.0)

    def _may_disrupt(self, pool: NodePool, reason: str) -> bool:
        """One more, within the budgets; what went before growth started counts as used up."""
        known_at = self.ledger.recent.known_at(pool, self.settings)
        if self.snapshot.now < known_at:
            self.again.append(known_at)
            return False
        kind = (pool.name, reason)
        if kind not in self._left:
            is_repair = reason == UNHEALTHY
            self._left[kind] = disruptions_left(
                pool, self.snapshot, self.settings, self.ledger.recent, is_repair=is_repair
            )
        self._left[kind] -= 1
        self.again += [self.snapshot.now + LOOK_AGAIN_SECONDS] if self._left[kind] < 0 else []
        return self._left[kind] >= 0

    def _why_going(self, node: Node, pool: NodePool) -> str:
        if pool.deleted_at is not None:
            return POOL_DELETED
        changes = changes_at(node, pool, self.snapshot, self.settings)
        self.again += [changes] if changes is not None else []
        reason = why_replaced(node, pool, self.snapshot, self.settings)
        return "" if reason == UNHEALTHY and self._is_braked else reason

    def _may_be_marked(self, node: Node, pool: NodePool) -> bool:
        buffers = self._spares_on(node) if pool.spec.consolidation != "Off" else ()
        if buffers:
            self._keep_for_buffer(node, buffers)
            return False
        if is_settling(node.name, self.snapshot, self.settings):
            self.again.append(settles_at(self.snapshot.requests[node.name], self.snapshot, self.settings))
            return False
        if (
            pool.spec.consolidation == "Off"
            or is_protected_node(node)
            or why_not_idle(node, self.snapshot, self._delay(pool))
        ):
            self._wake_when_arrived(node, pool)
            return False
        return self._staying.get(_kind(node), 0) - int(node.is_ready and not node.is_starting) >= _minimum(node, pool)

    def _keep_for_buffer(self, node: Node, buffers: tuple[str, ...]) -> None:
        """Said once of each node, and only of those that would go otherwise."""
        is_known = node.name in self.ledger.spare
        if is_known or not working_pods(self.snapshot, node.name):
            self.spare[node.name] = buffers
        if not is_known and node.name in self.spare:
            message = f"kept although idle: CapacityBuffer {', '.join(buffers[:3])} needs its room"
            self.notes.append(Note(about_node(node), NEEDED_BY_BUFFER, message))

    def _spares_on(self, node: Node) -> tuple[str, ...]:
        """The buffers whose virtual pods would lose their room with this node; what was found a moment ago still
        counts.
        """
        if self._kept is None and node.name in self.ledger.spare and self._spare_until > self.snapshot.now:
            self.again.append(self._spare_until)
            return self.ledger.spare[node.name]
        if self._kept is None:
            self._kept, self.spare_at = place_buffers(self.snapshot, self.settings), self.snapshot.now
        return self._kept.holders_of(node.name)

    def _wake_when_arrived(self, node: Node, pool: NodePool) -> None:
        """Pods that were planned for a node and never come do not hold it for ever."""
        self.again += [freed_at] if (freed_at := lost_at(node.name, self.snapshot)) is not None else []
        request = self.snapshot.requests.get(node.name)
        if request is not None and not request.is_in_flight:
            arrived_at = phase_since(request, self.snapshot) + self._delay(pool)
            self.again += [arrived_at] if arrived_at > self.snapshot.now else []

    def _is_wanted(self, node: Node, pool: NodePool) -> bool:
        """Somebody who waits fits there: the scheduler gets its time first."""
        if not would_take(node, self.snapshot, self._shapes):
            return False
        since = self.ledger.wanted_since.get(node.name, self.snapshot.now)
        self.wanted_since[node.name] = since
        until = since + self._delay(pool)
        self.again += [until] if until > self.snapshot.now else []
        return until > self.snapshot.now

    def _mark(self, node: Node, delay_seconds: float) -> None:
        due_at = self.snapshot.now + delay_seconds
        self.actions.append(MarkScaleDown(seen(node), (*_without_mark(node), SCALE_DOWN_TAINT), due_at))
        self.notes.append(
            Note(about_node(node), "ScaleDown", f"not needed; goes in {delay_seconds:.0f} s unless pods come")
        )

    # ------------------------------------------------------------------------------------- settings

    def _is_paused(self, pool: NodePool) -> bool:
        return self.settings.is_paused or pool.is_paused

    def _delay(self, pool: NodePool) -> float:
        own = pool.spec.scale_down_delay_seconds
        return self.settings.scale_down_delay_seconds if own is None else float(own)

    def price(self, node: Node) -> float:
        machine = self.snapshot.machines.get(node.name)
        offering = self._prices.get((node.labels.get(OFFERING_LABEL, ""), "" if machine is None else machine.location))
        if offering is None:
            offering = next(
                (each for place, each in self._prices.items() if place[0] == node.labels.get(OFFERING_LABEL)), None
            )
        return 0.0 if offering is None else offering.price_per_hour

    def _paid_until_nearly(self, node: Node, pool: NodePool) -> float:
        """When an empty machine whose started hour is paid should be marked, so that it is gone as that hour ends."""
        sold = next((each for each in self.snapshot.offerings if each.name == node.labels.get(OFFERING_LABEL)), None)
        if not pool.spec.keep_until_hour_end or sold is None or not sold.bills_started_hours:
            return 0.0
        machine = self.snapshot.machines.get(node.name)
        began_at = node.created_at if machine is None else machine.created_at
        hours = max(0.0, self.snapshot.now - began_at) // _HOUR_SECONDS
        return began_at + (hours + 1) * _HOUR_SECONDS - self._delay(pool) - _HOUR_MARGIN_SECONDS


def _spare_until(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> float:
    """Until when the last look at buffers counts; not past a clock that went back, nor the last buffer."""
    is_usable = snapshot.buffers.buffers and ledger.spare_at <= snapshot.now
    return ledger.spare_at + look_seconds(snapshot, settings) if is_usable else 0.0


Kind = tuple[str, str]  # pool, offering


def _kind(node: Node) -> Kind:
    return (node.pool, node.labels.get(OFFERING_LABEL, ""))


def _staying(snapshot: Snapshot) -> dict[Kind, int]:
    """Nodes that serve and are not marked."""
    found: dict[Kind, int] = {}
    for node in snapshot.nodes.values():
        is_staying = (
            node.is_ready
            and not node.is_starting
            and not node.is_marked
            and node.name not in snapshot.removals
            and node.deleted_at is None
        )
        if node.pool and is_staying:
            found[_kind(node)] = found.get(_kind(node), 0) + 1
    return found


def _minimum(node: Node, pool: NodePool) -> int:
    choice = choice_of_type(pool, node.labels.get(OFFERING_LABEL, ""))
    return 0 if choice is None else choice.min


def _without_mark(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if taint.key != SCALE_DOWN_TAINT.key)


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """The objects show what came of it; what did not happen is decided anew."""
    outcome = settled.outcome
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    return Decision(ledger, again_at=snapshot.now + seconds)
