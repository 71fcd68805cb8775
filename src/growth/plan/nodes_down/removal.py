"""What is the next step in the life of each NodeRemovalRequest? The only row that has machines deleted.

| phase | seen | then |
| --- | --- | --- |
| any | the machine is gone, by a list younger than the last step | FinishRemoval (asks the provider once more, by id) |
| Pending | written without a machine's id, and now the provider shows one | cancel, so that it is written with the id |
| Pending | pods on the node, and the reason does not drain | cancel: the mark comes off |
| Pending | pods on the node, and the reason drains | evict them, or take it back (`plan/nodes_down/drain`) |
| Pending | it goes because it was not Ready, and is Ready again | cancel |
| Pending | no pods | write Deprovisioning, attempt 1; then DeleteMachine |
| Deprovisioning | the provider answered no | CouldNotRemove; after the last attempt RemovalFailed |
| Deprovisioning | surely not asked (the gate was closed) | ask again in time; if pods came, CouldNotRemove |
| Deprovisioning | still there after the retry time | next attempt; an answer is unknown, so it is irrevocable from now on |
| CouldNotRemove | pods came, and it is not irrevocable | cancel |
| CouldNotRemove | the retry time is over | write Deprovisioning, next attempt; then DeleteMachine |
| RemovalFailed | | nothing: a person must look. If the request is deleted, the removal can begin again |

Pods are looked at before every attempt, and live again at the gate. Paused: no further step is begun. Only the recorded
machine is deleted; its id comes from the NodeRequest or from the provider's list by name, never from a kubelet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import (
    Action,
    CancelRemoval,
    DeleteMachine,
    EvictPod,
    FinishRemoval,
    WriteNodeRemovalStatus,
)
from growth.model.api import Condition
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.noderequest import (
    COULD_NOT_REMOVE,
    DEPROVISIONING,
    PENDING,
    REMOVAL_FAILED,
    NodeRemovalRequest,
    NodeRemovalRequestStatus,
)
from growth.model.note import About, Note
from growth.model.outcome import Accepted, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.drain import Draining, evicted
from growth.plan.world.machines import (
    CONSOLIDATED,
    DRAINING,
    LIST_LAG_SECONDS,
    LOOK_AGAIN_SECONDS,
    UNHEALTHY,
    is_surely_absent,
    past,
)
from growth.plan.world.marks import unmark_node
from growth.plan.world.nodes import blocking_pods, lost_at
from growth.plan.world.records import (
    about_node,
    about_removal,
    cut,
    life_event,
    seen,
    seen_pod,
    sooner,
    with_removal_phase,
)
from growth.plan.world.turn import told_on

_RETRY_SECONDS: Final = 5.0


class Ledger(Struct, frozen=True):
    """Lost at a restart: then an attempt that was never asked counts as one whose answer is unknown."""

    unasked: Mapping[str, float] = {}  # removals whose delete was positively not asked, and when to ask
    not_before: Mapping[str, float] = {}  # by removal or pod: when to try the last step again


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    turn = _Turn(snapshot, ledger, settings)
    for _, removal in sorted(snapshot.removals.items()):
        with told_on(about_removal(removal), turn.notes):
            turn.look_at(removal)
    return Decision(_tidied(ledger, snapshot), tuple(turn.actions), tuple(turn.notes), sooner(*turn.again))


def _tidied(ledger: Ledger, snapshot: Snapshot) -> Ledger:
    return Ledger(
        {name: at for name, at in ledger.unasked.items() if name in snapshot.removals},
        {name: at for name, at in ledger.not_before.items() if name in snapshot.removals or at > snapshot.now},
    )


class _Turn:
    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> None:
        self.snapshot, self.ledger, self.settings = snapshot, ledger, settings
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self._draining = Draining(snapshot, settings, ledger.not_before)
        self.again = self._draining.again

    def look_at(self, removal: NodeRemovalRequest) -> None:
        if removal.name not in self.snapshot.machines:
            self.again.append(self.snapshot.now + LOOK_AGAIN_SECONDS)
        if is_surely_gone(removal, self.snapshot):
            self._finish(removal)
        elif removal.phase == PENDING and was_recorded_too_early(removal, self.snapshot):
            self.actions.append(CancelRemoval(seen(removal)))
        elif removal.phase == REMOVAL_FAILED:
            self.actions += [CancelRemoval(seen(removal))] if removal.deleted_at is not None else []
        elif self._is_paused(removal):
            return
        elif removal.phase == DEPROVISIONING:
            self._deprovisioning(removal)
        else:
            self._not_asked_yet(removal)

    def _finish(self, removal: NodeRemovalRequest) -> None:
        if self._is_time(removal.name):
            machine_id = removal.spec.machine_id or machine_to_delete(removal, self.snapshot)[0]
            self.actions.append(FinishRemoval(seen(removal), removal.spec.node_name, machine_id))

    def _is_time(self, name: str) -> bool:
        at = self.ledger.not_before.get(name, 0.0)
        self.again += [at] if at > self.snapshot.now else []
        return at <= self.snapshot.now

    def _is_paused(self, removal: NodeRemovalRequest) -> bool:
        pool = self.snapshot.pools.get(removal.spec.pool)
        return self.settings.is_paused or (pool is not None and pool.is_paused)

    # ------------------------------------------------------------------------------------- Pending,
    # CouldNotRemove

    def _not_asked_yet(self, removal: NodeRemovalRequest) -> None:
        pods = blocking_pods(removal.spec.node_name, self.snapshot)
        may_cancel = _may_be_taken_back(removal)
        if may_cancel and removal.deleted_at is not None:
            self._cancel(removal, "the request was deleted")
        elif may_cancel and pods and removal.spec.reason not in DRAINING:
            self._cancel(removal, f"pod {pods[0].key} is on the node")
        elif may_cancel and self._is_well_again(removal):
            self._cancel(removal, "it is Ready again")
        elif may_cancel and (why := self._draining.why_take_back(removal, pods)):
            self._cancel(removal, why)
        elif pods:
            self._drain(removal, pods)
        elif removal.phase == COULD_NOT_REMOVE and self._retry_at(removal) > self.snapshot.now:
            self.again.append(self._retry_at(removal))
        elif not (may_cancel and self._draining.is_unclear(removal)):
            self._attempt(removal)

    def _is_well_again(self, removal: NodeRemovalRequest) -> bool:
        node = self.snapshot.nodes.get(removal.spec.node_name)
        return removal.spec.reason == UNHEALTHY and node is not None and node.is_ready

    def _cancel(self, removal: NodeRemovalRequest, why: str) -> None:
        node = self.snapshot.nodes.get(removal.spec.node_name)
        self.actions.append(CancelRemoval(seen(removal)))
        if node is not None:
            self.notes.append(Note(about_node(node), "RemovalCancelled", f"the node stays: {why}"))
            if node.is_marked:
                self.actions.append(unmark_node(node))

    def _drain(self, removal: NodeRemovalRequest, pods: tuple[Pod, ...]) -> None:
        """Through the Eviction API; a budget or a wish not to be disrupted is waited for, and written down."""
        self.actions += [EvictPod(seen_pod(pod)) for pod in self._draining.next_batch(pods)]
        self.again += [freed_at] if (freed_at := lost_at(removal.spec.node_name, self.snapshot)) is not None else []
        self._write_waiting(removal, cut(self._draining.waits_for(pods)))

    def _write_waiting(self, removal: NodeRemovalRequest, text: str) -> None:
        if removal.status.waiting_for != text:
            self.actions.append(WriteNodeRemovalStatus(seen(removal), replace(removal.status, waiting_for=text)))

    def _retry_at(self, removal: NodeRemovalRequest) -> float:
        return past(removal.attempted_at or removal.created_at, self.snapshot.now) + self.settings.removal_retry_seconds

    def _attempt(self, removal: NodeRemovalRequest) -> None:
        """Written before the provider is asked: whoever comes after a crash knows that it may have been."""
        if removal.status.removal_attempt >= self.settings.removal_attempts:
            self._give_up(removal, "all attempts are spent")
            return
        machine_id, _, why_not = machine_to_delete(removal, self.snapshot)
        if not machine_id:
            self._write_waiting(removal, why_not)
            return
        self.actions.append(WriteNodeRemovalStatus(seen(removal), next_attempt(removal, self.snapshot.now)))

    def _give_up(self, removal: NodeRemovalRequest, why: str) -> None:
        status, notes = _failed(removal, self.snapshot, why)
        self.actions.append(WriteNodeRemovalStatus(seen(removal), status))
        self.notes += notes

    # ------------------------------------------------------------------------------- Deprovisioning

    def _deprovisioning(self, removal: NodeRemovalRequest) -> None:
        pods = blocking_pods(removal.spec.node_name, self.snapshot)
        ask_at = self.ledger.unasked.get(removal.name)
        if ask_at is not None:
            self._ask_again(removal, pods, ask_at)
        elif self.snapshot.now < self._retry_at(removal):
            self.again.append(self._retry_at(removal))
        elif pods:  # what may have been asked cannot be taken back: the pods must leave
            self._drain(removal, pods)
        else:
            self._attempt(removal)

    def _ask_again(self, removal: NodeRemovalRequest, pods: tuple[Pod, ...], ask_at: float) -> None:
        """Nothing was asked in this attempt, so it goes on, or back, without a new one."""
        if pods and _may_be_taken_back(removal):
            status = with_removal_phase(
                removal.status,
                COULD_NOT_REMOVE,
                life_event(self.snapshot.now, "deletionFailed", f"pod {pods[0].key} came"),
            )
            self.actions.append(WriteNodeRemovalStatus(seen(removal), status))
        elif pods:
            self._drain(removal, pods)
        elif self.snapshot.now < ask_at:
            self.again.append(ask_at)
        else:
            self.actions += _delete(removal, self.snapshot)


def _may_be_taken_back(removal: NodeRemovalRequest) -> bool:
    """Nothing is lost by keeping the node, and the provider was never asked without a positive no."""
    return not is_irrevocable(removal) and (
        removal.spec.reason not in DRAINING or removal.spec.reason in (CONSOLIDATED, UNHEALTHY)
    )


def _delete(removal: NodeRemovalRequest, snapshot: Snapshot) -> tuple[Action, ...]:
    machine_id, request_uid, _ = machine_to_delete(removal, snapshot)
    return (DeleteMachine(seen(removal), removal.spec.node_name, machine_id, request_uid),) if machine_id else ()


def _failed(
    removal: NodeRemovalRequest, snapshot: Snapshot, why: str
) -> tuple[NodeRemovalRequestStatus, tuple[Note, ...]]:
    """Terminal: people are told on the request and on the Node."""
    status = with_removal_phase(removal.status, REMOVAL_FAILED, life_event(snapshot.now, "removalFailed", why))
    node = snapshot.nodes.get(removal.spec.node_name)
    message = (
        f"machine {removal.spec.machine_id} could not be removed in {removal.status.removal_attempt} attempts: {why}"
    )
    notes: list[Note] = [_warning(about_removal(removal), message)]
    if node is not None:
        notes.append(_warning(about_node(node), f"{message}; the node stays tainted, a person must look"))
    return status, tuple(notes)


def _warning(about: About, message: str) -> Note:
    return Note(about, "RemovalFailed", message, "Warning")


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, DeleteMachine):
        return _settle_delete(action, outcome, snapshot, ledger, settings)
    if isinstance(outcome, Accepted):
        if isinstance(action, WriteNodeRemovalStatus) and action.status.phase == DEPROVISIONING:
            return _after_write(action, snapshot, ledger)
        done = (
            {action.removal.name: now + _RETRY_SECONDS} if isinstance(action, FinishRemoval) else {}
        )  # until it is seen to be gone
        done |= (
            {evicted(action.pod.uid): now + _RETRY_SECONDS} if isinstance(action, EvictPod) else {}
        )  # until it is seen to leave
        return Decision(replace(ledger, not_before={**ledger.not_before, **done}))
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    name = (
        action.pod.uid
        if isinstance(action, EvictPod)
        else action.removal.name
        if isinstance(action, FinishRemoval)
        else ""
    )
    not_before = {**ledger.not_before, name: now + seconds} if name else ledger.not_before
    return Decision(replace(ledger, not_before=not_before), again_at=now + seconds)


def _after_write(action: WriteNodeRemovalStatus, snapshot: Snapshot, ledger: Ledger) -> Decision[Ledger]:
    """Deprovisioning is written: now the provider may be asked."""
    removal = snapshot.removals.get(action.removal.name)
    if (
        removal is None
        or removal.uid != action.removal.uid
        or action.status.removal_attempt == removal.status.removal_attempt
    ):
        return Decision(ledger)
    return Decision(ledger, _delete(removal, snapshot))


def _settle_delete(
    action: DeleteMachine, outcome: Outcome, snapshot: Snapshot, ledger: Ledger, settings: Settings
) -> Decision[Ledger]:
    now, removal = snapshot.now, snapshot.removals.get(action.removal.name)
    unasked = {name: at for name, at in ledger.unasked.items() if name != action.removal.name}
    after = replace(ledger, unasked=unasked)
    if removal is None or removal.uid != action.removal.uid or removal.phase != DEPROVISIONING:
        return Decision(after)
    if isinstance(outcome, Refused | NoCapacity):
        return _refused(removal, outcome.reason, snapshot, after, settings)
    if isinstance(outcome, Accepted | Unknown):
        return Decision(after, again_at=now + settings.removal_retry_seconds)
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    ask_at = now + seconds
    return Decision(replace(ledger, unasked={**unasked, removal.name: ask_at}), again_at=ask_at)


def _refused(
    removal: NodeRemovalRequest, reason: str, snapshot: Snapshot, ledger: Ledger, settings: Settings
) -> Decision[Ledger]:
    if removal.status.removal_attempt >= settings.removal_attempts:
        status, notes = _failed(removal, snapshot, reason)
        return Decision(ledger, (WriteNodeRemovalStatus(seen(removal), status),), notes)
    status = with_removal_phase(removal.status, COULD_NOT_REMOVE, life_event(snapshot.now, "deletionFailed", reason))
    note = Note(
        about_removal(removal),
        "CouldNotRemove",
        f"attempt {removal.status.removal_attempt} was refused: {reason}",
        "Warning",
    )
    return Decision(
        ledger,
        (WriteNodeRemovalStatus(seen(removal), status),),
        (note,),
        again_at=snapshot.now + settings.removal_retry_seconds,
    )


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
