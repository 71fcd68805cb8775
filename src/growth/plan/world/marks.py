"""Which mark does a node carry: whose is it, why was it set, when is it due? The only file that writes or reads marks.

A mark says that the node will go: no pod shall come any more, and when the mark is due its owner looks once more and
hands the node to removal. On the Node it is the taint `growth.dev/scale-down`, whose value names the owner, and the
annotation `growth.dev/scale-down-at`. So it survives a restart, and versions of growth read each other's marks.

| set by | because | due | value of the taint: the owner | handed over by the owner as |
| --- | --- | --- | --- | --- |
| scale-down | the node is idle | after the pool's delay | none: scale-down | Empty |
| scale-down | it must go: its pool goes, or it is dead, old or drifted | at once | none: scale-down | that reason |
| renewal | what replaces an old or drifted node is Ready | at once | none: scale-down | Expired, Drifted |
| consolidation | its pods fit on other nodes | after the pool's delay | consolidation | Consolidated |
| replacement | cheaper nodes are Ready for its pods | after the pool's delay | consolidation | Consolidated |
| removal | its pods are about to leave, and it has no mark, or lost it | at once | by the removal's reason | – |

The reason that scale-down hands over with is asked again when the mark is due (`plan/world/swaps.why_replaced`), so it
need not be written on the Node: a node that must go goes with its pods, one that was only idle stays if pods came.

| taken off by | when |
| --- | --- |
| its owner | the node must stay: pods came, or its pods no longer fit elsewhere |
| scale-up | a pod that waits fits there |
| removal | the removal is taken back |
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import MarkScaleDown, UnmarkScaleDown
from growth.model.instant import is_from_future
from growth.model.node import SCALE_DOWN_AT, SCALE_DOWN_TAINT, Node, Taint
from growth.plan.world.machines import CONSOLIDATED, EMPTY
from growth.plan.world.turn import instant_of, seen

MarkOwner = Literal["scale-down", "consolidation"]
SCALE_DOWN: Final = "scale-down"
CONSOLIDATION: Final = "consolidation"
CONSOLIDATION_TAINT: Final = Taint(SCALE_DOWN_TAINT.key, CONSOLIDATION)


class Mark(Struct, frozen=True):
    """The mark on one node."""

    owner: MarkOwner  # the row that hands the node over, or takes the mark off
    reason: str  # of the removal, unless the node must go for another one
    due_at: float | None  # None: missing, or not readable
    has_taint: bool = True  # without it pods may come

    def is_damaged(self, now: float, delay_seconds: float) -> bool:
        """The owner must write it again: a part is missing, or it is due later than any mark that is set now."""
        is_too_late = self.due_at is not None and is_from_future(now + delay_seconds, self.due_at)
        return self.due_at is None or is_too_late or not self.has_taint


def mark_of(node: Node) -> Mark | None:
    """None: the node is not marked. A mark that names no known owner is scale-down's."""
    if not node.is_marked:
        return None
    due_at = instant_of(node.annotations.get(SCALE_DOWN_AT))
    if CONSOLIDATION_TAINT in node.taints:
        return Mark(CONSOLIDATION, CONSOLIDATED, due_at)
    return Mark(SCALE_DOWN, EMPTY, due_at, any(taint.key == SCALE_DOWN_TAINT.key for taint in node.taints))


def is_marked_by(owner: MarkOwner, node: Node) -> bool:
    mark = mark_of(node)
    return mark is not None and mark.owner == owner


def mark_node(node: Node, owner: MarkOwner, due_at: float) -> MarkScaleDown:
    """From now on no pod comes; from `due_at` on the owner may hand the node over."""
    taint = CONSOLIDATION_TAINT if owner == CONSOLIDATION else SCALE_DOWN_TAINT
    return MarkScaleDown(seen(node), (*without_mark(node).taints, taint), due_at)


def unmark_node(node: Node) -> UnmarkScaleDown:
    return UnmarkScaleDown(seen(node), without_mark(node).taints)


def without_mark(node: Node) -> Node:
    """The node without the taint of a mark; other taints stay."""
    if not node.is_marked:
        return node
    return replace(node, taints=tuple(taint for taint in node.taints if taint.key != SCALE_DOWN_TAINT.key))
