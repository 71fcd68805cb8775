"""What a plan answers: actions to perform, notes for people, its memory, and when to ask again."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from growth.model.action import Action
from growth.model.note import Note
from growth.model.outcome import Outcome

Ledger = TypeVar("Ledger")


class Decision(Struct, Generic[Ledger], frozen=True):
    """The answer of `plan(snapshot, ledger, settings)`."""

    ledger: Ledger
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    again_at: float | None = None  # when time alone may change the answer; None: only a change can


class Settled(Struct, frozen=True):
    """An action and what came of it."""

    action: Action
    outcome: Outcome
