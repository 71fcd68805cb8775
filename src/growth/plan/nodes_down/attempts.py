"""What counts as an attempt to have a machine deleted? Asked by `plan/nodes_down/removal`, and by the gate and the
laws, which must know whether a removal can still be taken back.

| a delete was answered | the attempt |
| --- | --- |
| no | counts |
| not at all, or by an error that says nothing | counts; the next one makes the removal irrevocable |
| not now: the gate is closed, the provider is busy or not to be reached | is taken back |
| not now: something holds this very machine (locked) | is taken back for half an hour, then each such answer is a no |
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from growth.model.api import Condition
from growth.model.instant import format_instant
from growth.model.noderequest import (
    COULD_NOT_REMOVE,
    DEPROVISIONING,
    PENDING,
    NodeRemovalRequest,
    NodeRemovalRequestStatus,
    RemovalPhase,
)
from growth.model.outcome import Conflict, Outcome, TryLater
from growth.plan.world.turn import cut, instant_of, life_event, with_removal_phase

IRREVOCABLE: Final = "Irrevocable"
HELD: Final = "MachineHeld"

ASKED: Final = "deletionRequested"
RETURNED: Final = "returnedPodsEvicted"  # kept when the attempt that it was done for is taken back
_HELD_SECONDS: Final = 1800.0  # a backup or a snapshot has ended by then


def is_irrevocable(removal: NodeRemovalRequest) -> bool:
    """Has the provider ever been asked without a positive no?"""
    return any(condition.type == IRREVOCABLE and condition.status == "True" for condition in removal.status.conditions)


def with_next_attempt(removal: NodeRemovalRequest, now: float, returned: int = 0) -> NodeRemovalRequestStatus:
    """Deprovisioning, one attempt more. If the last one was never answered with a no, nothing can be cancelled any
    more. `returned`: so many pods are evicted for it that had come back.
    """
    attempt, at = removal.status.removal_attempt + 1, format_instant(now)
    evicted = (life_event(now, RETURNED, f"{returned} pods that had come back"),) if returned else ()
    status = with_removal_phase(removal.status, DEPROVISIONING, *evicted, life_event(now, ASKED, f"attempt {attempt}"))
    status = replace(status, removal_attempt=attempt, remove_attempted_at=at, waiting_for="")
    if removal.phase != DEPROVISIONING or is_irrevocable(removal):
        return status
    text = "an earlier delete may have been accepted: nothing is cancelled any more"
    unknown = Condition(IRREVOCABLE, "True", "AnswerUnknown", text, at)
    return replace(status, conditions=(*removal.status.conditions, unknown))


def without_last_attempt(removal: NodeRemovalRequest, why: TryLater | Conflict, now: float) -> NodeRemovalRequestStatus:
    """The provider was surely not asked, or too busy to do it: the attempt does not count, and its event goes. Since
    when something holds the machine is written down.
    """
    status, attempt = removal.status, removal.status.removal_attempt - 1
    conditions = tuple(each for each in status.conditions if each.type != HELD)
    if isinstance(why, TryLater) and why.is_held:
        since_then = format_instant(_held_since(removal, now))
        conditions += (Condition(HELD, "True", "NotNow", cut(why.reason), since_then),)
    phase: RemovalPhase = COULD_NOT_REMOVE if attempt else PENDING
    asked_at = status.remove_attempted_at if attempt else None
    events = status.events[:-1] if status.events and status.events[-1].name == ASKED else status.events
    status = replace(with_removal_phase(status, phase), removal_attempt=attempt, remove_attempted_at=asked_at)
    return replace(status, events=events, conditions=conditions, waiting_for=cut(why.reason))


def _held_since(removal: NodeRemovalRequest, now: float) -> float:
    held = next((each for each in removal.status.conditions if each.type == HELD), None)
    return now if held is None else min(now, instant_of(held.last_transition_time) or now)


def is_no_by_now(removal: NodeRemovalRequest, outcome: Outcome, now: float) -> bool:
    """Has the machine been held for so long that a person should look?"""
    is_held = isinstance(outcome, TryLater) and outcome.is_held
    return is_held and now - _held_since(removal, now) >= _HELD_SECONDS
