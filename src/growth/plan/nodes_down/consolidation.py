"""Which nodes with pods on them are not needed, because their pods fit elsewhere? Only in pools with `consolidation:
Full`; others say that they keep theirs.

| node of such a pool | then |
| --- | --- |
| its pods all fit on nodes that stay, with headroom; budgets, `min`, settling time allow it | MarkScaleDown |
| anything is in the way | nothing; a note on the node says what, when that changes |
| marked by this row, and the pods no longer fit, the pool no longer wants it, or many nodes fail | UnmarkScaleDown |
| marked by this row, its time has come, and the pods still fit | CreateNodeRemovalRequest: removal moves the pods |
| in a pool where removals were taken back | none is chosen while the pool rests (`plan/nodes_down/candidates`) |

The best saving for the fewest pods moved comes first. In a large cluster a look asks about some of the nodes only: half
of them the most promising, half those that were not asked about for the longest time. It buys nothing, so it never
undoes itself: what leaves has a place on what exists. Empty nodes are scale-down's. Nodes that replacement has marked
are handed over here too (see `plan/world/marks`); while a swap is under way, no others are chosen. The timers are in
the objects: the time on the mark, the age of nodes. How many nodes were emptied lately is remembered; after a restart
that is unknown, so the row waits for one window before it chooses the first. A pool that cannot be read is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.decision import Decision, Note, Settled
from growth.model.instant import format_instant, is_due
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.outcome import Accepted
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.budgets import Recent, with_disrupted, with_moment
from growth.plan.nodes_down.candidates import Candidates, Setback, with_attempts
from growth.plan.nodes_down.what_if import Emptying
from growth.plan.world.brake import Brake
from growth.plan.world.machines import CONSOLIDATED, removal_of_node
from growth.plan.world.marks import CONSOLIDATION, Mark, mark_node, mark_of, unmark_node
from growth.plan.world.nodes import delay_seconds, going_nodes, is_paused, state_of, working_pods
from growth.plan.world.swaps import swaps
from growth.plan.world.turn import Turn, about, retry_at, sooner
from growth.solver.reasons import Block

STAYING: Final = "Staying"
_RETRY_SECONDS: Final = 5.0
MOST_JUDGED: Final = 200  # nodes in one look: it takes a millisecond or two each, and nothing else is decided meanwhile


class Ledger(Struct, frozen=True):
    looked_at: float = 0.0
    recent: Recent = Recent()
    going: Mapping[str, str] = {}  # nodes in removal for this reason when last looked, and their pools
    setbacks: Mapping[str, Setback] = {}  # by pool
    told: Mapping[str, tuple[str, Note]] = {}  # by node: what the last note was about
    judged_at: Mapping[str, float] = {}  # by node, where there are more than one look asks about


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    now, interval = snapshot.now, settings.consolidation_interval_seconds
    ledger = _remembered(ledger, snapshot, settings)
    if not snapshot.pools or not snapshot.buffers.is_known:
        return Decision(ledger, again_at=now + _RETRY_SECONDS if snapshot.pools else None)
    marks = {name: mark for name in going_nodes(snapshot) if (mark := _own_mark(name, snapshot)) is not None}
    has_due = any((mark.due_at or now) <= now for mark in marks.values())
    if not has_due and not is_due(now, ledger.looked_at, interval):
        return Decision(ledger, again_at=sooner(ledger.looked_at + interval, *(mark.due_at for mark in marks.values())))
    look = _Look(snapshot, ledger, settings)
    for name, mark in marks.items():
        look.look_at_marked(snapshot.nodes[name], mark)
    if not swaps(snapshot, settings):
        look.look_at_others()
    look.tell_of_other_pools()
    return look.decision()


def _own_mark(name: str, snapshot: Snapshot) -> Mark | None:
    mark = None if name in snapshot.removals else mark_of(snapshot.nodes[name])
    return mark if mark is not None and mark.owner == CONSOLIDATION else None


def _remembered(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> Ledger:
    """What is still of use. A removal that has vanished while its node is still there was taken back."""
    removals = sorted(snapshot.removals.items())
    going = {name: removal.spec.pool for name, removal in removals if removal.spec.reason == CONSOLIDATED}
    over = [(name, pool) for name, pool in ledger.going.items() if name not in snapshot.removals]
    gone = {pool for name, pool in over if name not in snapshot.nodes}
    kept = {pool for name, pool in over if name in snapshot.nodes}
    known = {pool: each for pool, each in ledger.setbacks.items() if pool in snapshot.pools}
    setbacks = with_attempts(known, gone, kept, snapshot.now, settings.settling_seconds)
    return replace(ledger, recent=with_moment(ledger.recent, snapshot, settings), going=going, setbacks=setbacks)


class _Look:
    """One look at all nodes; what is marked in it counts for those that come after."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> None:
        self._snapshot, self._settings, self._ledger = snapshot, settings, ledger
        self._turn = Turn()
        self._candidates = Candidates(snapshot, settings, ledger.recent, self._turn)
        self._told: dict[str, tuple[str, Note]] = {}
        self._judged_at: dict[str, float] = {}
        self._recent = ledger.recent
        self._brake = Brake(snapshot)

    def decision(self) -> Decision[Ledger]:
        """Where no pool wants its nodes emptied, time alone changes nothing but that nodes settle."""
        now = self._snapshot.now
        if self._candidates.pools:
            self._turn.wake(now + self._settings.consolidation_interval_seconds)
        after = replace(self._ledger, looked_at=now, recent=self._recent, told=self._told, judged_at=self._judged_at)
        return self._turn.decision(after)

    @cached_property
    def _on_the_move(self) -> Emptying:
        """For nodes that are chosen: less headroom suffices to go on than to begin."""
        return Emptying(self._snapshot, self._settings, self._settings.consolidation_headroom)

    @cached_property
    def _emptying(self) -> Emptying:
        return Emptying(self._snapshot, self._settings, self._settings.scale_down_headroom)

    # --------------------------------------------------------------------------------------- marked

    def look_at_marked(self, node: Node, mark: Mark) -> None:
        pool, now = self._candidates.pools.get(node.pool), self._snapshot.now
        if pool is None:
            self._unmark(node, f"NodePool {node.pool} gives back empty nodes only")
        elif (block := self._on_the_move.why_stuck(node.name)) is not None:
            self._unmark(node, block.message)
        elif why_held := self._brake.why_held(node):
            self._unmark(node, why_held)
        elif is_paused(pool, self._settings):
            return
        elif mark.due_at is None or mark.is_damaged(now, delay_seconds(pool, self._settings)):
            self._mark(node, pool)
        elif now < mark.due_at:
            self._turn.wake(mark.due_at)
        else:
            self._hand_over(node, mark)

    def _unmark(self, node: Node, why: str) -> None:
        self._turn.do(unmark_node(node))
        self._turn.tell(Note(about(node), "ScaleDownCancelled", f"the node stays: {why}"))

    def _hand_over(self, node: Node, mark: Mark) -> None:
        action = removal_of_node(node, self._snapshot, mark.reason)
        if action is None:  # the provider does not show its machine: that must be known first
            self._turn.wake(self._snapshot.now + _RETRY_SECONDS)
            return
        self._turn.do(action)
        self._turn.tell(Note(about(node), "Removing", "the node is given back: its pods fit on other nodes"))

    # --------------------------------------------------------------------------------------- others

    def look_at_others(self) -> None:
        """Best saving for the fewest pods moved first."""
        found = [node for node in self._snapshot.nodes.values() if self._candidates.is_candidate(node)]
        nodes = sorted(found, key=lambda each: (-self._worth(each), each.name))
        for node in self._some_of(nodes) if len(nodes) > MOST_JUDGED else nodes:
            self._look_at(node, self._candidates.pools[node.pool])

    def _some_of(self, nodes: list[Node]) -> list[Node]:
        """The most promising, and those that were not asked about for the longest; of others what was said holds."""
        known, half = self._ledger.judged_at, MOST_JUDGED // 2
        others = sorted(nodes[half:], key=lambda each: known.get(each.name, 0.0))[: MOST_JUDGED - half]
        asked = {node.name for node in (*nodes[:half], *others)}
        for node in nodes:
            self._judged_at[node.name] = self._snapshot.now if node.name in asked else known.get(node.name, 0.0)
            said = self._ledger.told.get(node.name)
            if node.name not in asked and said is not None:
                self._tell(node, *said)
        return [node for node in nodes if node.name in asked]

    def _worth(self, node: Node) -> float:
        return self._candidates.price(node) / (1 + self._candidates.disruption(node))

    def _look_at(self, node: Node, pool: NodePool) -> None:
        block = self._emptying.why_stays(node)
        if block is not None:
            self._tell_block(node, block)
        elif why_wait := self._why_wait(node, pool):
            self._tell(node, why_wait, Note(about(node), STAYING, f"the node stays for now: {why_wait}"))
        elif not is_paused(pool, self._settings):
            self._emptying.choose(node)
            self._candidates.choose(node)
            self._recent = with_disrupted(self._recent, node, self._snapshot.now)
            self._mark(node, pool)

    def _why_wait(self, node: Node, pool: NodePool) -> str:
        """Its pods fit elsewhere; but not now."""
        setback = self._ledger.setbacks.get(pool.name)
        if setback is None or self._snapshot.now >= setback.until:
            return self._candidates.why_wait(node, pool)
        self._turn.wake(setback.until)
        until = format_instant(setback.until)
        return f"no node of NodePool {pool.name} is emptied before {until}, after {setback.words} taken back"

    def _mark(self, node: Node, pool: NodePool) -> None:
        delay, count = delay_seconds(pool, self._settings), len(working_pods(self._snapshot, node.name))
        self._turn.do(mark_node(node, CONSOLIDATION, self._snapshot.now + delay))
        self._turn.wake(self._snapshot.now + delay)
        text = f"{count} pod{' fits' if count == 1 else 's fit'} on other nodes, and will move in {delay:.0f} s"
        self._turn.tell(Note(about(node), "ScaleDown", text))

    # ---------------------------------------------------------------------------------------- notes

    def tell_of_other_pools(self) -> None:
        """Of nodes that are never candidates, because their pool does not want it."""
        for name, node in self._snapshot.nodes.items():
            pool = self._snapshot.pools.get(node.pool)
            if pool is None or pool.name in self._candidates.pools or pool.deleted_at is not None or node.is_starting:
                continue
            if state_of(name, self._snapshot).is_going or not self._candidates.is_settled(node):
                continue
            if kept := why_pool_keeps(pool, is_empty=not working_pods(self._snapshot, name)):
                self._tell(node, pool.spec.consolidation, Note(about(node), STAYING, f"the node stays: {kept}"))

    def _tell_block(self, node: Node, block: Block) -> None:
        fields = (*block.fields(), ("node", node.name), ("nodepool", node.pool), ("blocked", "scale-down blocked"))
        note = Note(about(node), STAYING, f"the node stays: {block.message}", fields=fields)
        self._tell(node, f"{block.check_type} {block.pod} {block.constraint}", note)

    def _tell(self, node: Node, subject: str, note: Note) -> None:
        """The same reason with other numbers is not told again."""
        before = self._ledger.told.get(node.name)
        self._told[node.name] = before if before is not None and before[0] == subject else (subject, note)
        self._turn.tell(self._told[node.name][1])


def why_pool_keeps(pool: NodePool, *, is_empty: bool) -> str:
    """What the pool's spec says against giving such a node back. Empty: nothing."""
    mode = pool.spec.consolidation
    if mode == "Full" or (is_empty and mode != "Off"):
        return ""
    kept = "keeps its nodes, empty ones too" if mode == "Off" else "gives back empty nodes only, and pods run there"
    return f"NodePool {pool.name} {kept} (consolidation: {mode})"


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, _settings: Settings) -> Decision[Ledger]:
    """The objects show what came of it; what did not happen is decided again, at the next look."""
    if isinstance(settled.outcome, Accepted):
        return Decision(ledger)
    again_at = retry_at(settled.outcome, snapshot.now, _RETRY_SECONDS)
    return Decision(replace(ledger, looked_at=0.0), again_at=again_at)
