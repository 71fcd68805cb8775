"""A turn collects in order and keeps the soonest wish; what was not accepted is tried again; a condition's time is that
of its status."""

from __future__ import annotations

import pytest

from growth.model.action import ReleaseNodeRequest, Seen
from growth.model.api import Condition
from growth.model.decision import About, Decision, Note, Settled
from growth.model.nodepool import NodePoolStatus
from growth.model.outcome import Accepted, Conflict, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.turn import NEVER_FAILED, Conditions, Turn, retry_after, retry_at, without_times

RELEASES = tuple(ReleaseNodeRequest(Seen(name)) for name in "abc")
NOTES = tuple(Note(About("Node", name), "Told", name) for name in "ab")
BEFORE = (Condition("Ready", "True", "Ready", "", "2026-01-01T00:00:00Z"),)


def test_a_turn_keeps_actions_and_notes_in_order_and_the_soonest_wish() -> None:
    turn = Turn()
    turn.do(RELEASES[0])
    turn.do(*RELEASES[1:])
    turn.tell(NOTES[0])
    turn.tell(NOTES[1])
    turn.wake(7.0)
    turn.wake(5.0, None, 6.0)
    turn.wake(None)
    assert turn.decision("ledger") == Decision("ledger", RELEASES, NOTES, 5.0)


def test_a_turn_without_anything_decides_nothing() -> None:
    assert Turn().decision("ledger") == Decision("ledger")


FAILED = [Conflict("c"), Unknown("u"), Refused("r"), NoCapacity("n"), TryLater("t", 30.0)]


@pytest.mark.parametrize(("outcome", "at"), [*zip(FAILED, [105.0, 105.0, 105.0, 105.0, 130.0], strict=True)])
def test_what_was_not_accepted_is_tried_again_when_the_other_side_says_or_after_the_usual_time(
    outcome: Outcome, at: float
) -> None:
    assert retry_at(outcome, 100.0, 5.0) == at
    settled = retry_after(5.0)(Settled(RELEASES[0], outcome), Snapshot(100.0), "ledger", Settings())
    assert settled == Decision("ledger", again_at=at)


def test_what_was_accepted_needs_no_second_look() -> None:
    settled = retry_after(5.0)(Settled(RELEASES[0], Accepted()), Snapshot(100.0), "ledger", Settings())
    assert settled == Decision("ledger")


@pytest.mark.parametrize(
    ("holds", "status", "since"),
    [
        (True, "True", "2026-01-01T00:00:00Z"),
        (False, "False", "1970-01-01T00:01:40Z"),
        (None, "Unknown", "1970-01-01T00:01:40Z"),
    ],
)
def test_the_time_of_a_condition_changes_only_with_its_status(holds: bool | None, status: str, since: str) -> None:
    written = Conditions(BEFORE, 3, 100.0).write("Ready", holds, "Why", "x" * 600)
    assert (written.status, written.reason, written.last_transition_time) == (status, "Why", since)
    assert (len(written.message), written.observed_generation) == (512, 3)


def test_two_statuses_that_differ_in_times_only_say_the_same() -> None:
    later = Conditions((), 4, 100.0).write("Ready", True, "Ready")
    assert without_times(NodePoolStatus(conditions=(later,))) == without_times(NodePoolStatus(conditions=BEFORE))
    changed = Conditions((), 4, 100.0).write("Ready", False, "Paused")
    assert without_times(NodePoolStatus(conditions=(changed,))) != without_times(NodePoolStatus(conditions=BEFORE))


def test_what_fails_again_and_again_is_left_alone_for_longer_and_longer() -> None:
    failed, now, pauses = NEVER_FAILED, 100.0, []
    for _ in range(8):
        failed = failed.and_again(Unknown("500"), now)
        pauses.append(failed.until - now)
        now = failed.until
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert NEVER_FAILED.and_again(Refused("no"), 100.0).until == 160.0
    assert NEVER_FAILED.and_again(TryLater("busy", 90.0), 100.0).until == 190.0
