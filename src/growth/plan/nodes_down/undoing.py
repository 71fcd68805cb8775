"""Which machine stands behind a removal, is it surely gone, and can the removal still be taken back? Asked by removal.

Gone is what a list younger than our last step does not show; the provider is asked once more by id before anything is
finished. Only the recorded machine is deleted; the record has its id from the request or from the provider's list by
name, never from a kubelet."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from growth.model.api import Condition
from growth.model.instant import format_instant
from growth.model.noderequest import DEPROVISIONING, NodeRemovalRequest, NodeRemovalRequestStatus
from growth.model.snapshot import Snapshot
from growth.plan.world.machines import LIST_LAG_SECONDS, is_surely_absent, past
from growth.plan.world.records import life_event, with_removal_phase

IRREVOCABLE: Final = "Irrevocable"
_STAMP_SECONDS: Final = 1.0  # stamps in a status are cut to the second
_NAMELESS_LAG_SECONDS: Final = 60.0  # without an id only the list can tell


def is_irrevocable(removal: NodeRemovalRequest) -> bool:
    """Has the provider ever been asked without a positive no?"""
    return any(condition.type == IRREVOCABLE and condition.status == "True" for condition in removal.status.conditions)


def is_surely_gone(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    lag = LIST_LAG_SECONDS if removal.spec.machine_id else _NAMELESS_LAG_SECONDS
    if removal.phase == DEPROVISIONING and removal.spec.machine_id:
        lag = _STAMP_SECONDS
    since = max(past(removal.created_at, snapshot.now), past(removal.attempted_at or 0.0, snapshot.now))
    return is_surely_absent(removal.name, since, snapshot, lag)


def machine_to_delete(removal: NodeRemovalRequest, snapshot: Snapshot) -> tuple[str, str, str]:
    """Its id, the UID of the request it was bought for, and, where there is no id, why not."""
    machine, request = snapshot.machines.get(removal.name), snapshot.requests.get(removal.name)
    uid = request.uid if request is not None else machine.request_uid if machine is not None else ""
    recorded = removal.spec.machine_id
    if machine is not None and recorded and machine.machine_id != recorded:
        return "", "", f"the machine of this name is {machine.machine_id}, not the recorded {recorded}"
    if not recorded:
        return "", "", "no machine is recorded, and the provider has not said yet that there is none"
    return recorded, uid, ""


def was_recorded_too_early(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    """It was written while the provider did not show the machine; now it does. Only a recorded machine is deleted, so
    it is written anew.
    """
    return not removal.spec.machine_id and removal.name in snapshot.machines


def next_attempt(removal: NodeRemovalRequest, now: float) -> NodeRemovalRequestStatus:
    """Deprovisioning, one attempt more. If the last one was never answered with a no, nothing can be cancelled any
    more.
    """
    attempt = removal.status.removal_attempt + 1
    status = with_removal_phase(
        removal.status, DEPROVISIONING, life_event(now, "deletionRequested", f"attempt {attempt}")
    )
    status = replace(status, removal_attempt=attempt, remove_attempted_at=format_instant(now), waiting_for="")
    if removal.phase != DEPROVISIONING or is_irrevocable(removal):
        return status
    since = format_instant(now)
    unknown = Condition(
        IRREVOCABLE,
        "True",
        "AnswerUnknown",
        "an earlier delete may have been accepted: nothing is cancelled any more",
        since,
    )
    return replace(status, conditions=(*removal.status.conditions, unknown))
