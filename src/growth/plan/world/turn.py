"""One look of a decision: what it does, what it tells, when it must look again, and how it writes what it saw. Used by
every row of `controllers/loop/table`; nothing is decided here.

    turn = Turn()
    for request in requests:
        with turn.told_on(about(request)):    # a step that its phase does not allow stops no other
            turn.do(action)                   # in this order
            turn.tell(note)
            turn.wake(due_at)                 # the soonest counts; None is no wish
    return turn.decision(ledger)

An action that did not succeed is decided again after a while: `retry_at` says when, and `retry_after` is the whole
`settle` of a row that keeps nothing else of an outcome. A row that writes to many objects of others remembers of each
how often in a row it failed (`Failed`), and leaves it alone for longer and longer.

A phase is written along the transitions of `model/noderequest` only, a condition keeps the time of its last change, and
texts are cut to the bounds of our own API, so that a long reason of a provider never makes a status invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, Seen
from growth.model.api import Condition, LifeEvent
from growth.model.capacitybuffer import CapacityBufferStatus
from growth.model.decision import About, Decision, Note, Settled
from growth.model.instant import InstantError, format_instant, parse_instant
from growth.model.nodepool import NodePoolStatus
from growth.model.noderequest import (
    EVENTS_KEPT,
    NodeRemovalRequestStatus,
    NodeRequestStatus,
    RemovalPhase,
    RequestPhase,
    TransitionError,
    check_transition,
)
from growth.model.outcome import Accepted, Outcome, Refused, TryLater
from growth.model.poolautoscaler import PoolAutoscalerStatus
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot

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


_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0


class Failed(Struct, frozen=True, gc=False):
    """How often in a row writes to one object failed, and until when it is left alone: 1 s, 2 s, 4 s, up to a minute;
    a minute at once after a refusal.
    """

    times: int = 0
    until: float = 0.0

    def and_again(self, outcome: Outcome, now: float) -> Failed:
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(10, self.times))
        pause = _LONGEST_PAUSE_SECONDS if isinstance(outcome, Refused) else pause
        return Failed(self.times + 1, max(now + pause, retry_at(outcome, now, pause)))


NEVER_FAILED: Final = Failed()

LONGEST_REASON: Final = 512

Status = TypeVar("Status", CapacityBufferStatus, NodePoolStatus, PoolAutoscalerStatus)


class Versioned(Protocol):
    """Anything read from the API; some have a namespace."""

    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


def seen(thing: Versioned) -> Seen:
    """Which version of an object a decision saw."""
    return Seen(thing.name, thing.uid, thing.resource_version, getattr(thing, "namespace", ""))


def seen_in_any_version(thing: Versioned) -> Seen:
    """For what is right however the object has changed since."""
    return replace(seen(thing), resource_version="")


def about(thing: Versioned) -> About:
    """The object a note is about; nouns are named as their kinds are."""
    return About(type(thing).__name__, thing.name, getattr(thing, "namespace", ""), thing.uid)


def instant_of(text: str | None) -> float | None:
    """What an instant in a status or annotation means; None if there is none, or if it cannot be read."""
    try:
        return None if not text else parse_instant(text)
    except InstantError:
        return None


def cut(text: str, longest: int = LONGEST_REASON) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def life_event(at: float, name: str, reason: str = "") -> LifeEvent:
    return LifeEvent(format_instant(at), name, cut(reason))


def with_events(events: tuple[LifeEvent, ...], *more: LifeEvent) -> tuple[LifeEvent, ...]:
    """Bounded: the newest are kept."""
    return (events + more)[-EVENTS_KEPT:]


def with_request_phase(
    status: NodeRequestStatus, phase: RequestPhase, at: float, *events: LifeEvent
) -> NodeRequestStatus:
    """The next phase of a NodeRequest, with the events of the arrow that leads there; TransitionError if none does."""
    check_transition("NodeRequest", status.phase, phase)
    return replace(
        status, phase=phase, events=with_events(status.events, *events), last_transition_time=format_instant(at)
    )


def with_removal_phase(
    status: NodeRemovalRequestStatus, phase: RemovalPhase, *events: LifeEvent
) -> NodeRemovalRequestStatus:
    """The next phase of a NodeRemovalRequest, in the same way."""
    check_transition("NodeRemovalRequest", status.phase, phase)
    return replace(status, phase=phase, events=with_events(status.events, *events))


class Conditions(Struct, frozen=True):
    """Writes the conditions of one object. A condition's time changes only when its status does."""

    before: tuple[Condition, ...]
    generation: int
    now: float

    def write(self, kind: str, holds: bool | None, reason: str, message: str = "") -> Condition:
        """One condition; `holds` None is Unknown."""
        status: Literal["True", "False", "Unknown"] = "Unknown" if holds is None else "True" if holds else "False"
        for each in self.before:
            if each.type == kind and each.status == status:
                return Condition(kind, status, reason, cut(message), each.last_transition_time, self.generation)
        return Condition(kind, status, reason, cut(message), format_instant(self.now), self.generation)


def without_times(status: Status) -> Status:
    """A status without the times of its conditions: two that are then equal say the same."""
    timeless = (replace(each, last_transition_time="", observed_generation=0) for each in status.conditions)
    return replace(status, conditions=tuple(timeless))


def sooner(*instants: float | None) -> float | None:
    """The first of several instants, of which some may never come."""
    return min((instant for instant in instants if instant is not None), default=None)
