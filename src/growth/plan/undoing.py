"""Which machine stands behind a removal, is it surely gone, and can the removal still be taken back? Asked by removal.

Unknown is not absent. Gone is what a list younger than our last step does not show, while the list is credible; the provider is asked once more
by id before anything is finished. Ids come from the record or from the provider's list by name, never from a kubelet.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from growth.model.api import Condition
from growth.model.instant import format_instant
from growth.model.node import REQUEST_LABEL
from growth.model.noderequest import DEPROVISIONING, NodeRemovalRequest, NodeRemovalRequestStatus
from growth.model.snapshot import Snapshot
from growth.plan.records import life_event, with_removal_phase

IRREVOCABLE: Final = "Irrevocable"
_STAMP_SECONDS: Final = 1.0  # stamps in a status are cut to the second
_LIST_LAG_SECONDS: Final = 10.0
_NAMELESS_LAG_SECONDS: Final = 60.0  # without an id only the list can tell


def is_irrevocable(removal: NodeRemovalRequest) -> bool:
    """Has the provider ever been asked without a positive no?"""
    return any(condition.type == IRREVOCABLE and condition.status == "True" for condition in removal.status.conditions)


def is_surely_gone(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    listed_at = snapshot.machines_at
    if listed_at is None or removal.name in snapshot.machines or not _is_credible(snapshot):
        return False
    lag = _LIST_LAG_SECONDS if removal.spec.machine_id else _NAMELESS_LAG_SECONDS
    if removal.phase == DEPROVISIONING and removal.spec.machine_id:
        lag = _STAMP_SECONDS
    return listed_at > max(removal.created_at, removal.attempted_at or 0.0) + lag


def _is_credible(snapshot: Snapshot) -> bool:
    """An empty list while nodes of ours are Ready is no list."""
    if snapshot.machines:
        return True
    return not any(node.is_ready and REQUEST_LABEL in node.labels and node.name not in snapshot.removals for node in snapshot.nodes.values())


def machine_to_delete(removal: NodeRemovalRequest, snapshot: Snapshot) -> tuple[str, str, str]:
    """Its id, the UID of the request it was bought for, and, where there is no id, why not."""
    machine, request = snapshot.machines.get(removal.name), snapshot.requests.get(removal.name)
    uid = request.uid if request is not None else machine.request_uid if machine is not None else ""
    recorded = removal.spec.machine_id
    if machine is not None and recorded and machine.machine_id != recorded:
        return "", "", f"the machine of this name is {machine.machine_id}, not the recorded {recorded}"
    if machine is None and not recorded:
        return "", "", "the provider does not show a machine of this name yet"
    return recorded or (machine.machine_id if machine is not None else ""), uid, ""


def next_attempt(removal: NodeRemovalRequest, now: float) -> NodeRemovalRequestStatus:
    """Deprovisioning, one attempt more. If the last one was never answered with a no, nothing can be cancelled any more."""
    attempt = removal.status.removal_attempt + 1
    status = with_removal_phase(removal.status, DEPROVISIONING, life_event(now, "deletionRequested", f"attempt {attempt}"))
    status = replace(status, removal_attempt=attempt, remove_attempted_at=format_instant(now), waiting_for="")
    if removal.phase != DEPROVISIONING or is_irrevocable(removal):
        return status
    since = format_instant(now)
    unknown = Condition(IRREVOCABLE, "True", "AnswerUnknown", "an earlier delete may have been accepted: nothing is cancelled any more", since)
    return replace(status, conditions=(*removal.status.conditions, unknown))
