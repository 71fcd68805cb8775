"""One look of a decision: what it does, what it tells, and when it must look again. Used by every row of
`controllers/loop/table`.

    turn = Turn()
    for request in requests:
        with turn.told_on(about(request)):    # a step that its phase does not allow stops no other
            turn.do(action)                   # in this order
            turn.tell(note)
            turn.wake(due_at)                 # the soonest counts; None is no wish
    return turn.decision(ledger)

An action that did not succeed is decided again after a while: `retry_at` says when, and `retry_after` is the whole
`settle` of a row that keeps nothing else of an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from growth.model.action import Action
from growth.model.decision import About, Decision, Note, Settled
from growth.model.noderequest import TransitionError
from growth.model.outcome import Accepted, Outcome, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.records import sooner

Ledger = TypeVar("Ledger")


class Turn:
    """Collects actions, notes and the next look of one decision."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.again_at: float | None = None

    def do(self, *actions: Action) -> None:
        self.actions += actions

    def tell(self, *notes: Note) -> None:
        self.notes += notes

    def wake(self, *instants: float | None) -> None:
        """Look again at the first of these instants, or earlier if that was asked for before."""
        self.again_at = sooner(self.again_at, *instants)

    @contextmanager
    def told_on(self, about: About) -> Iterator[None]:
        """Look at one object among many: a step that its phase does not allow is told on it, and the others go on."""
        try:
            yield
        except TransitionError as error:
            self.tell(Note(about, "ForbiddenStep", f"growth's next step is not allowed: {error}", "Warning"))

    def decision(self, ledger: Ledger) -> Decision[Ledger]:
        return Decision(ledger, tuple(self.actions), tuple(self.notes), self.again_at)


def retry_at(outcome: Outcome, now: float, otherwise_seconds: float) -> float:
    """When to try again: the other side's word counts, otherwise so many seconds from now."""
    return now + (outcome.retry_after_seconds if isinstance(outcome, TryLater) else otherwise_seconds)


def retry_after(seconds: float) -> Callable[[Settled, Snapshot, Ledger, Settings], Decision[Ledger]]:
    """The `settle` of a row whose objects show what came of an action: what was not accepted is decided again later."""

    def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, _settings: Settings) -> Decision[Ledger]:
        is_done = isinstance(settled.outcome, Accepted)
        return Decision(ledger, again_at=None if is_done else retry_at(settled.outcome, snapshot.now, seconds))

    return settle
