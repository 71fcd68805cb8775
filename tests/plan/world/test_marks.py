"""The mark on a node is written and read in one way, and as earlier versions did: an upgrade or a downgrade in the
middle of a removal changes nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import MarkScaleDown, UnmarkScaleDown
from growth.model.instant import format_instant
from growth.model.labels import Labels
from growth.model.node import Node, Taint
from growth.plan.world.marks import (
    CONSOLIDATION,
    SCALE_DOWN,
    Mark,
    MarkOwner,
    is_marked_by,
    mark_node,
    mark_of,
    unmark_node,
    without_mark,
)
from tests.plan.builders import NOW, node

KEY, AT = "growth.dev/scale-down", "growth.dev/scale-down-at"
PLAIN, EMPTYING, OTHER = Taint(KEY), Taint(KEY, "consolidation"), Taint("team", "a")


def marked(*taints: Taint, at: str | None = format_instant(NOW + 60)) -> Node:
    annotations: dict[str, Any] = {} if at is None else {AT: at}
    return node("n", taints=taints, annotations=annotations)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (marked(PLAIN), Mark(SCALE_DOWN, "Empty", NOW + 60)),
        (marked(EMPTYING), Mark(CONSOLIDATION, "Consolidated", NOW + 60)),
        (marked(PLAIN, at=None), Mark(SCALE_DOWN, "Empty", None)),
        (marked(EMPTYING, at="soon"), Mark(CONSOLIDATION, "Consolidated", None)),
        (marked(), Mark(SCALE_DOWN, "Empty", NOW + 60, has_taint=False)),
        (marked(Taint(KEY, "else")), Mark(SCALE_DOWN, "Empty", NOW + 60)),
        (marked(Taint(KEY, "consolidation", "NoExecute")), Mark(SCALE_DOWN, "Empty", NOW + 60)),
        (marked(OTHER, at=None), None),
    ],
)
def test_what_an_earlier_version_wrote_is_read(written: Node, read: Mark | None) -> None:
    assert mark_of(written) == read
    assert written.is_marked == (read is not None)


@pytest.mark.parametrize(("owner", "taint"), [(SCALE_DOWN, PLAIN), (CONSOLIDATION, EMPTYING)])
def test_what_is_written_is_what_an_earlier_version_understands(owner: MarkOwner, taint: Taint) -> None:
    """It knows the owner by the whole taint, and takes every taint of this key for part of the mark."""
    action = mark_node(marked(OTHER, PLAIN, EMPTYING), owner, NOW + 30)
    assert isinstance(action, MarkScaleDown)
    assert (action.taints, action.scale_down_at) == ((OTHER, taint), NOW + 30)


@pytest.mark.parametrize("owner", [SCALE_DOWN, CONSOLIDATION])
def test_a_mark_that_was_written_is_read_as_it_was(owner: MarkOwner) -> None:
    action = mark_node(node("n", taints=(OTHER,)), owner, NOW + 30)
    annotations = Labels({AT: format_instant(action.scale_down_at)})
    after = replace(node("n"), taints=action.taints, annotations=annotations)
    found = mark_of(after)
    assert found is not None
    assert (found.owner, found.due_at, found.is_damaged(NOW, 30.0)) == (owner, NOW + 30, False)
    assert is_marked_by(owner, after)
    assert not is_marked_by(CONSOLIDATION if owner == SCALE_DOWN else SCALE_DOWN, after)


def test_other_taints_stay_when_a_mark_is_taken_off() -> None:
    action = unmark_node(marked(OTHER, EMPTYING))
    assert isinstance(action, UnmarkScaleDown)
    assert action.taints == without_mark(marked(OTHER, EMPTYING)).taints == (OTHER,)


@pytest.mark.parametrize(
    ("mark", "is_damaged"),
    [
        (Mark(SCALE_DOWN, "Empty", NOW - 500), False),
        (Mark(SCALE_DOWN, "Empty", NOW + 90), False),  # clocks of two machines may differ by a minute
        (Mark(SCALE_DOWN, "Empty", NOW + 91), True),
        (Mark(SCALE_DOWN, "Empty", None), True),
        (Mark(SCALE_DOWN, "Empty", NOW, has_taint=False), True),
    ],
)
def test_a_mark_without_all_its_parts_or_far_in_the_future_is_damaged(mark: Mark, is_damaged: bool) -> None:
    assert mark.is_damaged(NOW, 30.0) == is_damaged


def test_the_taint_of_a_mark_on_a_strangers_node_is_a_taint_like_any_other() -> None:
    foreign = replace(marked(OTHER, EMPTYING), pool="")
    assert mark_of(foreign) is None
    assert without_mark(foreign) == foreign
