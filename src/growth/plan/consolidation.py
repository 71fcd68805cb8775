"""Which nodes with pods on them are not needed, because their pods fit elsewhere? Only in pools with `consolidation: Full`.

| node of such a pool | then |
| --- | --- |
| its pods all fit on the nodes that stay, with headroom; budgets, `min` and settling time allow it | MarkScaleDown: taint now, so that no pod comes |
| anything stands in the way | nothing; a note on the node says what, when that changes |
| marked by this row, and the pods no longer fit, or the pool no longer wants it | UnmarkScaleDown: it stays |
| marked by this row, and its time has come | looked at once more; then CreateNodeRemovalRequest, and removal moves the pods |

The best saving for the fewest pods moved comes first. It buys nothing, so it never undoes itself: what leaves has a place on what exists.
Empty nodes are scale-down's. The timers are in the objects: the time on the mark, the age of nodes. How many nodes were emptied lately is
remembered; after a restart nobody knows, so the row waits for one window before it chooses the first. A pool that cannot be read is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, MarkScaleDown, UnmarkScaleDown
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.node import OFFERING_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, Node, Taint
from growth.model.nodepool import NodePool
from growth.model.note import Note
from growth.model.outcome import Accepted, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan import handover
from growth.plan.arrival import is_ours, working_pods
from growth.plan.budgets import disruptions_allowed, disruptions_left
from growth.plan.emptying import EMPTYING_TAINT, Emptying, is_being_emptied
from growth.plan.pools import choice_of_type
from growth.plan.records import about_node, instant_of, seen, sooner
from growth.solver.blocking import Block

STAYING: Final = "Staying"
_RETRY_SECONDS: Final = 5.0
_CLOCKS_DIFFER_SECONDS: Final = 60.0


class Ledger(Struct, frozen=True):
    looked_at: float = 0.0
    known_since: float = 0.0  # what was emptied before is not known
    emptied: Mapping[str, tuple[str, float]] = {}  # nodes that were chosen: the pool, and when the node was last seen
    kept_until: Mapping[str, float] = {}  # nodes whose removal was taken back
    going: tuple[str, ...] = ()  # nodes in removal for this reason when last looked
    told: Mapping[str, tuple[str, Note]] = {}  # by node: what the last note was about


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    now = snapshot.now
    full = {name: pool for name, pool in snapshot.pools.items() if pool.spec.consolidation == "Full" and pool.deleted_at is None}
    marked = sorted(name for name, node in snapshot.nodes.items() if is_being_emptied(node) and name not in snapshot.removals)
    ledger = _remembered(ledger, snapshot, settings)
    if not (full or marked) or not snapshot.buffers.is_known:
        return Decision(ledger, again_at=None if not (full or marked) else now + _RETRY_SECONDS)
    next_look_at = ledger.looked_at + settings.consolidation_interval_seconds
    is_due = any((instant_of(snapshot.nodes[name].annotations.get(SCALE_DOWN_AT)) or now) <= now for name in marked)
    if ledger.looked_at <= now < next_look_at and not is_due:
        dues = [instant_of(snapshot.nodes[name].annotations.get(SCALE_DOWN_AT)) for name in marked]
        return Decision(ledger, again_at=sooner(next_look_at, *dues))
    turn = _Turn(snapshot, ledger, settings, full)
    for name in marked:
        turn.look_at_marked(snapshot.nodes[name])
    turn.look_at_others()
    return Decision(turn.ledger(), tuple(turn.actions), tuple(turn.notes), sooner(now + settings.consolidation_interval_seconds, *turn.again))


def _remembered(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> Ledger:
    """What is still of use. A removal that has vanished while its node stands was taken back."""
    now = snapshot.now
    going = tuple(sorted(name for name, removal in snapshot.removals.items() if removal.spec.reason == handover.CONSOLIDATED))
    returned = {name: now + settings.settling_seconds for name in ledger.going if name not in snapshot.removals and name in snapshot.nodes}
    kept_until = {name: at for name, at in {**ledger.kept_until, **returned}.items() if at > now and name in snapshot.nodes}
    oldest = now - settings.disruption_window_seconds
    seen_last = {name: (pool, now if name in snapshot.nodes else at) for name, (pool, at) in ledger.emptied.items()}
    emptied = {name: each for name, each in seen_last.items() if each[1] > oldest}
    known_since = ledger.known_since if 0.0 < ledger.known_since <= now else now
    return replace(ledger, known_since=known_since, going=going, kept_until=kept_until, emptied=emptied)


class _Turn:
    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings, full: Mapping[str, NodePool]) -> None:
        self.snapshot, self.settings, self._ledger, self._full = snapshot, settings, ledger, full
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.again: list[float] = []
        self._told: dict[str, tuple[str, Note]] = {}
        self._emptied = dict(ledger.emptied)
        self._left = {name: self._allowance(pool) for name, pool in full.items()}
        self._prices = {(each.name, each.location): each.price_per_hour for each in snapshot.offerings}
        self._staying = _staying(snapshot)

    def ledger(self) -> Ledger:
        return replace(self._ledger, looked_at=self.snapshot.now, emptied=self._emptied, told=self._told)

    def _allowance(self, pool: NodePool) -> int:
        """What may be disrupted now, less what was emptied within the window and is gone."""
        recent = sum(1 for name, (of_pool, _) in self._emptied.items() if of_pool == pool.name and name not in self.snapshot.nodes)
        return min(disruptions_left(pool, self.snapshot), disruptions_allowed(pool, self.snapshot) - recent)

    @cached_property
    def _on_the_move(self) -> Emptying:
        """For nodes that are chosen: less headroom suffices to go on than to begin."""
        return Emptying(self.snapshot, self.settings, self.settings.consolidation_headroom)

    @cached_property
    def _emptying(self) -> Emptying:
        return Emptying(self.snapshot, self.settings, self.settings.scale_down_headroom)

    # ------------------------------------------------------------------------------------------------------------------ marked

    def look_at_marked(self, node: Node) -> None:
        pool, now = self._full.get(node.pool), self.snapshot.now
        if pool is None:
            self._unmark(node, f"NodePool {node.pool} gives back empty nodes only")
            return
        block = self._on_the_move.why_stuck(node.name)
        due_at = instant_of(node.annotations.get(SCALE_DOWN_AT))
        if block is not None:
            self._unmark(node, block.message)
        elif self._is_paused(pool):
            return
        elif due_at is None or due_at > now + self._delay(pool) + _CLOCKS_DIFFER_SECONDS:
            self._mark(node, pool)
        elif now < due_at:
            self.again.append(due_at)
        else:
            self._hand_over(node)

    def _unmark(self, node: Node, why: str) -> None:
        self.actions.append(UnmarkScaleDown(seen(node), _without_mark(node)))
        self.notes.append(Note(about_node(node), "ScaleDownCancelled", f"the node stays: {why}"))

    def _hand_over(self, node: Node) -> None:
        action = handover.removal_of_node(node, self.snapshot, handover.CONSOLIDATED)
        if action is None:  # the provider does not show its machine: that must be known first
            self.again.append(self.snapshot.now + _RETRY_SECONDS)
            return
        self.actions.append(action)
        self.notes.append(Note(about_node(node), "Removing", "the node is given back: its pods fit on other nodes"))

    # ------------------------------------------------------------------------------------------------------------------ others

    def look_at_others(self) -> None:
        """Best saving for the fewest pods moved first."""
        nodes = [node for node in self.snapshot.nodes.values() if self._is_candidate(node)]
        for node in sorted(nodes, key=lambda each: (-self._worth(each), each.name)):
            self._look_at(node, self._full[node.pool])

    def _is_candidate(self, node: Node) -> bool:
        if node.pool not in self._full or node.is_marked or node.name in self.snapshot.removals or node.deleted_at is not None or node.malformed:
            return False
        request = self.snapshot.requests.get(node.name)
        is_arriving = node.is_starting or (request is not None and request.is_in_flight)
        if not node.is_ready or is_arriving or not is_ours(node, self.snapshot) or not working_pods(self.snapshot, node.name):
            return False
        return self._is_settled(node)

    def _is_settled(self, node: Node) -> bool:
        """A new node is left alone for a while, so that nothing is undone at once; that is nothing to talk about."""
        settled_at = min(node.created_at, self.snapshot.now) + self.settings.settling_seconds
        self.again += [settled_at] if settled_at > self.snapshot.now else []
        return settled_at <= self.snapshot.now

    def _worth(self, node: Node) -> float:
        return self._price(node) / (1 + len(working_pods(self.snapshot, node.name)))

    def _look_at(self, node: Node, pool: NodePool) -> None:
        block = self._emptying.why_stays(node)
        if block is not None:
            self._tell_block(node, block)
            return
        wait = self._why_wait(node, pool)
        if wait:
            self._tell(node, wait, Note(about_node(node), STAYING, f"the node stays for now: {wait}"))
        elif not self._is_paused(pool):
            self._emptying.choose(node)
            self._left[pool.name] -= 1
            self._staying[_kind(node)] -= 1
            self._emptied[node.name] = (pool.name, self.snapshot.now)
            self._mark(node, pool)

    def _why_wait(self, node: Node, pool: NodePool) -> str:
        """Its pods fit elsewhere; but not now."""
        now, settings = self.snapshot.now, self.settings
        least = _minimum(node, pool)
        if self._staying.get(_kind(node), 0) - 1 < least:
            return f"NodePool {pool.name} keeps at least {least} of {_kind(node)[1]}"
        free_at = self._ledger.kept_until.get(node.name, 0.0)
        if now < free_at:
            self.again.append(free_at)
            return f"it is left alone until {format_instant(free_at)}, after an attempt that was taken back"
        known_at = self._ledger.known_since + settings.disruption_window_seconds
        if now < known_at:
            self.again.append(known_at)
            return "how many nodes were emptied before growth started is not known yet"
        if self._left[pool.name] <= 0:
            return f"the disruption budget of NodePool {pool.name} is used up"
        return ""

    def _tell_block(self, node: Node, block: Block) -> None:
        fields = (*block.fields(), ("node", node.name), ("nodepool", node.pool), ("blocked", "scale-down blocked"))
        note = Note(about_node(node), STAYING, f"the node stays: {block.message}", fields=fields)
        self._tell(node, f"{block.check_type} {block.pod} {block.constraint}", note)

    def _tell(self, node: Node, subject: str, note: Note) -> None:
        """The same reason with other numbers is not told again."""
        before = self._ledger.told.get(node.name)
        told = before[1] if before is not None and before[0] == subject else note
        self._told[node.name] = (subject, told)
        self.notes.append(told)

    def _mark(self, node: Node, pool: NodePool) -> None:
        due_at = self.snapshot.now + self._delay(pool)
        self.actions.append(MarkScaleDown(seen(node), (*_without_mark(node), EMPTYING_TAINT), due_at))
        self.again.append(due_at)
        count = len(working_pods(self.snapshot, node.name))
        text = f"{count} pod{' fits' if count == 1 else 's fit'} on other nodes, and will move from {format_instant(due_at)} on"
        self.notes.append(Note(about_node(node), "ScaleDown", text))

    # --------------------------------------------------------------------------------------------------------------- settings

    def _is_paused(self, pool: NodePool) -> bool:
        return self.settings.is_paused or pool.is_paused

    def _delay(self, pool: NodePool) -> float:
        own = pool.spec.scale_down_delay_seconds
        return self.settings.scale_down_delay_seconds if own is None else float(own)

    def _price(self, node: Node) -> float:
        machine, offering = self.snapshot.machines.get(node.name), node.labels.get(OFFERING_LABEL, "")
        known = self._prices.get((offering, "" if machine is None else machine.location))
        return known if known is not None else max((price for place, price in self._prices.items() if place[0] == offering), default=0.0)


def _kind(node: Node) -> tuple[str, str]:
    return (node.pool, node.labels.get(OFFERING_LABEL, ""))


def _staying(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Nodes that serve and are not marked, by pool and offering."""
    found: dict[tuple[str, str], int] = {}
    for node in snapshot.nodes.values():
        is_going = node.is_marked or node.name in snapshot.removals or node.deleted_at is not None
        if node.pool and node.is_ready and not node.is_starting and not is_going:
            found[_kind(node)] = found.get(_kind(node), 0) + 1
    return found


def _minimum(node: Node, pool: NodePool) -> int:
    choice = choice_of_type(pool, node.labels.get(OFFERING_LABEL, ""))
    return 0 if choice is None else choice.min


def _without_mark(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if taint.key != SCALE_DOWN_TAINT.key)


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """The objects show what came of it; what did not happen is decided anew, at the next look."""
    outcome = settled.outcome
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    action = settled.action
    forgotten = action.node.name if isinstance(action, MarkScaleDown) else ""
    emptied = {name: each for name, each in ledger.emptied.items() if name != forgotten}
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    return Decision(replace(ledger, emptied=emptied, looked_at=0.0), again_at=snapshot.now + seconds)
