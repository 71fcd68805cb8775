"""What a plan answers: actions to perform, notes for people, its memory, and when to ask again.

A Note says why, for people. The core never logs: a Note becomes event, condition, metric, log line and explain answer;
the journal knows for each reason where it goes.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from msgspec import Struct

from growth.model.action import Action
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


class About(Struct, frozen=True, gc=False):
    """The object a note is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Note(Struct, frozen=True, gc=False):
    """One sentence about one object. `reason` is stable and in CamelCase, as Kubernetes events have it."""

    about: About
    reason: str
    message: str
    severity: Literal["Normal", "Warning"] = "Normal"
    fields: tuple[tuple[str, str | int | float], ...] = ()  # for logs and metrics
