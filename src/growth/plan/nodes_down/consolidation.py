"""Which nodes with pods on them are not needed, because their pods fit elsewhere? Only in pools with `consolidation:
Full`; others say that they keep theirs.

| node of such a pool | then |
| --- | --- |
| its pods all fit on the nodes that stay, with headroom; budgets, `min` and settling time allow it | MarkScaleDown: taint now, so that no pod comes |
| anything stands in the way | nothing; a note on the node says what, when that changes |
| marked by this row, and the pods no longer fit, or the pool no longer wants it | UnmarkScaleDown: it stays |
| marked by this row, and its time has come | looked at once more; then CreateNodeRemovalRequest, and removal moves the pods |
| in a pool where removals were taken back | no other is chosen for the settling time; each further one in a row makes that four times as long |

The best saving for the fewest pods moved comes first. It buys nothing, so it never undoes itself: what leaves has a
place on what exists. Empty nodes are scale-down's. Nodes for which cheaper ones were bought
(`plan/nodes_down/replacement`) come here marked; while that is under way, no others are chosen. The timers are in the
objects: the time on the mark, the age of nodes. How many nodes were emptied lately is remembered; after a restart
nobody knows, so the row waits for one window before it chooses the first. A pool that cannot be read is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, UnmarkScaleDown
from growth.model.decision import Decision, Settled
from growth.model.instant import CLOCKS_DIFFER_SECONDS, format_instant
from growth.model.node import SCALE_DOWN_AT, Node
from growth.model.nodepool import NodePool
from growth.model.note import Note
from growth.model.outcome import Accepted, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.budgets import Recent, with_disrupted, with_moment
from growth.plan.nodes_down.candidates import Movable, Setback, delay_seconds, full_pools, is_paused, with_attempts
from growth.plan.nodes_down.what_if import Emptying, empty_from, is_being_emptied, without_mark
from growth.plan.world.machines import CONSOLIDATED, removal_of_node
from growth.plan.world.nodes import working_pods
from growth.plan.world.records import about_node, instant_of, seen, sooner
from growth.plan.world.swaps import swaps
from growth.solver.reasons import Block

STAYING: Final = "Staying"
_RETRY_SECONDS: Final = 5.0


class Ledger(Struct, frozen=True):
    looked_at: float = 0.0
    recent: Recent = Recent()
    going: Mapping[str, str] = {}  # nodes in removal for this reason when last looked, and their pools
    setbacks: Mapping[str, Setback] = {}  # by pool
    told: Mapping[str, tuple[str, Note]] = {}  # by node: what the last note was about


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    now = snapshot.now
    full = full_pools(snapshot)
    marked = sorted(
        name for name, node in snapshot.nodes.items() if is_being_emptied(node) and name not in snapshot.removals
    )
    ledger = _remembered(ledger, snapshot, settings)
    if not snapshot.pools or not snapshot.buffers.is_known:
        return Decision(ledger, again_at=now + _RETRY_SECONDS if snapshot.pools else None)
    next_look_at = ledger.looked_at + settings.consolidation_interval_seconds
    is_due = any((instant_of(snapshot.nodes[name].annotations.get(SCALE_DOWN_AT)) or now) <= now for name in marked)
    if ledger.looked_at <= now < next_look_at and not is_due:
        dues = [instant_of(snapshot.nodes[name].annotations.get(SCALE_DOWN_AT)) for name in marked]
        return Decision(ledger, again_at=sooner(next_look_at, *dues))
    turn = _Turn(snapshot, ledger, settings)
    for name in marked:
        turn.look_at_marked(snapshot.nodes[name])
    if full and not swaps(snapshot, settings):
        turn.look_at_others()
    turn.tell_of_other_pools()
    return Decision(
        turn.ledger(),
        tuple(turn.actions),
        tuple(turn.notes),
        sooner(now + settings.consolidation_interval_seconds, *turn.again),
    )


def _remembered(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> Ledger:
    """What is still of use. A removal that has vanished while its node stands was taken back."""
    going = {
        name: removal.spec.pool
        for name, removal in sorted(snapshot.removals.items())
        if removal.spec.reason == CONSOLIDATED
    }
    setbacks = _setbacks(ledger, snapshot, settings)
    return replace(ledger, recent=with_moment(ledger.recent, snapshot, settings), going=going, setbacks=setbacks)


def _setbacks(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> dict[str, Setback]:
    over = [(name, pool) for name, pool in ledger.going.items() if name not in snapshot.removals]
    gone = {pool for name, pool in over if name not in snapshot.nodes}
    kept = {pool for name, pool in over if name in snapshot.nodes}
    known = {pool: each for pool, each in ledger.setbacks.items() if pool in snapshot.pools}
    return with_attempts(known, gone, kept, snapshot.now, settings.settling_seconds)


class _Turn:
    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> None:
        self.snapshot, self.settings, self._ledger = snapshot, settings, ledger
        self._movable = Movable(snapshot, settings, ledger.recent)
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.again = self._movable.again
        self._told: dict[str, tuple[str, Note]] = {}
        self._recent = ledger.recent

    def ledger(self) -> Ledger:
        return replace(self._ledger, looked_at=self.snapshot.now, recent=self._recent, told=self._told)

    @cached_property
    def _on_the_move(self) -> Emptying:
        """For nodes that are chosen: less headroom suffices to go on than to begin."""
        return Emptying(self.snapshot, self.settings, self.settings.consolidation_headroom)

    @cached_property
    def _emptying(self) -> Emptying:
        return Emptying(self.snapshot, self.settings, self.settings.scale_down_headroom)

    # --------------------------------------------------------------------------------------- marked

    def look_at_marked(self, node: Node) -> None:
        pool, now = self._movable.pools.get(node.pool), self.snapshot.now
        if pool is None:
            self._unmark(node, f"NodePool {node.pool} gives back empty nodes only")
            return
        block = self._on_the_move.why_stuck(node.name)
        due_at = instant_of(node.annotations.get(SCALE_DOWN_AT))
        if block is not None:
            self._unmark(node, block.message)
        elif is_paused(pool, self.settings):
            return
        elif due_at is None or due_at > now + delay_seconds(pool, self.settings) + CLOCKS_DIFFER_SECONDS:
            self._mark(node, pool)
        elif now < due_at:
            self.again.append(due_at)
        else:
            self._hand_over(node)

    def _unmark(self, node: Node, why: str) -> None:
        self.actions.append(UnmarkScaleDown(seen(node), without_mark(node)))
        self.notes.append(Note(about_node(node), "ScaleDownCancelled", f"the node stays: {why}"))

    def _hand_over(self, node: Node) -> None:
        action = removal_of_node(node, self.snapshot, CONSOLIDATED)
        if action is None:  # the provider does not show its machine: that must be known first
            self.again.append(self.snapshot.now + _RETRY_SECONDS)
            return
        self.actions.append(action)
        self.notes.append(Note(about_node(node), "Removing", "the node is given back: its pods fit on other nodes"))

    def tell_of_other_pools(self) -> None:
        """Nodes that nobody asks about, because their pool does not want it."""
        for name, node in self.snapshot.nodes.items():
            pool = self.snapshot.pools.get(node.pool)
            if (
                pool is None
                or pool.name in self._movable.pools
                or pool.deleted_at is not None
                or node.is_marked
                or node.is_starting
            ):
                continue
            mode = pool.spec.consolidation
            if name in self.snapshot.removals or not self._movable.is_settled(node):
                continue
            if mode == "Off" or working_pods(self.snapshot, name):
                kept = (
                    "keeps its nodes, empty ones too"
                    if mode == "Off"
                    else "gives back empty nodes only, and pods run there"
                )
                self._tell(
                    node,
                    mode,
                    Note(
                        about_node(node),
                        STAYING,
                        f"the node stays: NodePool {pool.name} {kept} (consolidation: {mode})",
                    ),
                )

    # --------------------------------------------------------------------------------------- others

    def look_at_others(self) -> None:
        """Best saving for the fewest pods moved first."""
        nodes = [node for node in self.snapshot.nodes.values() if self._movable.is_candidate(node)]
        for node in sorted(nodes, key=lambda each: (-self._worth(each), each.name)):
            self._look_at(node, self._movable.pools[node.pool])

    def _worth(self, node: Node) -> float:
        return self._movable.price(node) / (1 + self._movable.disruption(node))

    def _look_at(self, node: Node, pool: NodePool) -> None:
        block = self._emptying.why_stays(node)
        if block is not None:
            self._tell_block(node, block)
            return
        wait = self._why_wait(node, pool)
        if wait:
            self._tell(node, wait, Note(about_node(node), STAYING, f"the node stays for now: {wait}"))
        elif not is_paused(pool, self.settings):
            self._emptying.choose(node)
            self._movable.choose(node)
            self._recent = with_disrupted(self._recent, node, self.snapshot.now)
            self._mark(node, pool)

    def _why_wait(self, node: Node, pool: NodePool) -> str:
        """Its pods fit elsewhere; but not now."""
        setback = self._ledger.setbacks.get(pool.name)
        if setback is not None and self.snapshot.now < setback.until:
            self.again.append(setback.until)
            return f"no node of NodePool {pool.name} is emptied before {format_instant(setback.until)}, after {setback.words} taken back"
        return self._movable.why_wait(node, pool)

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
        delay = delay_seconds(pool, self.settings)
        self.actions.append(empty_from(node, self.snapshot.now + delay))
        self.again.append(self.snapshot.now + delay)
        count = len(working_pods(self.snapshot, node.name))
        text = f"{count} pod{' fits' if count == 1 else 's fit'} on other nodes, and will move in {delay:.0f} s"
        self.notes.append(Note(about_node(node), "ScaleDown", text))


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """The objects show what came of it; what did not happen is decided anew, at the next look."""
    outcome = settled.outcome
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    return Decision(replace(ledger, looked_at=0.0), again_at=snapshot.now + seconds)
