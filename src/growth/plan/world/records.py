"""How a decision writes what it saw and what happened: versions seen, phases, events and conditions of a status, the
object a note is about. Asked by every row.

Nothing is decided here. A phase is written along the transitions of `model/noderequest` only. Texts are cut to the
bounds of our own API, so that a long reason of a provider never makes a status invalid."""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Seen
from growth.model.api import Condition, LifeEvent
from growth.model.capacitybuffer import CapacityBufferStatus
from growth.model.decision import About
from growth.model.instant import InstantError, format_instant, parse_instant
from growth.model.nodepool import NodePoolStatus
from growth.model.noderequest import (
    EVENTS_KEPT,
    NodeRemovalRequestStatus,
    NodeRequestStatus,
    RemovalPhase,
    RequestPhase,
    check_transition,
)
from growth.model.poolautoscaler import PoolAutoscalerStatus

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


def _with_events(events: tuple[LifeEvent, ...], more: tuple[LifeEvent, ...]) -> tuple[LifeEvent, ...]:
    """Bounded: the newest are kept."""
    return (events + more)[-EVENTS_KEPT:]


def with_request_phase(
    status: NodeRequestStatus, phase: RequestPhase, at: float, *events: LifeEvent
) -> NodeRequestStatus:
    """The next phase of a NodeRequest, with the events of the arrow that leads there; TransitionError if none does."""
    check_transition("NodeRequest", status.phase, phase)
    return replace(
        status, phase=phase, events=_with_events(status.events, events), last_transition_time=format_instant(at)
    )


def with_removal_phase(
    status: NodeRemovalRequestStatus, phase: RemovalPhase, *events: LifeEvent
) -> NodeRemovalRequestStatus:
    """The next phase of a NodeRemovalRequest, in the same way."""
    check_transition("NodeRemovalRequest", status.phase, phase)
    return replace(status, phase=phase, events=_with_events(status.events, events))


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
