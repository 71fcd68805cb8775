"""What is the next step in the life of each NodeRemovalRequest? The only row that has machines deleted.

| phase | seen | then |
| --- | --- | --- |
| Pending | its node is not growth's (`plan/world/machines`), and no machine is recorded | cancel: said on both |
| Pending, CouldNotRemove | pods work on a stranger's node that may run on the machine | wait, and write down why |
| any | the machine is gone, by a list younger than the last step | FinishRemoval (asks the provider once more, by id) |
| any | ... and it is there by its id, without our label: not ours to delete any more | RemovalFailed; |
| – | – a person has deleted the request | cancel: only the record goes |
| Pending | a person wrote it (the node serves and has no mark), and pods are on it | drained within the budgets only |
| Pending | written without a machine's id, and now the provider shows one | cancel, so that it is written with the id |
| Pending | pods on the node, and the reason does not drain | cancel: the mark comes off |
| Pending | pods on the node, and the reason drains | evict them, or take it back (`plan/nodes_down/drain`) |
| Pending | it goes because it was not Ready, and is Ready again; or its pool leaves its nodes | cancel |
| Pending, CouldNotRemove | an annotation forbids to disturb the node | cancel; if it must go, wait for a person |
| Pending, CouldNotRemove | the brake keeps the node (`plan/world/brake`) | wait, and write down why |
| Pending | a person wrote it, and no pods are on the node | it is marked first: else pods could still come |
| Pending | no pods | write Deprovisioning, attempt 1; then DeleteMachine |
| Deprovisioning | the provider answered no | CouldNotRemove; after the last attempt RemovalFailed |
| Deprovisioning | surely not done (gate closed, provider busy) | attempt is taken back: Pending, or CouldNotRemove |
| Deprovisioning | locked for half an hour: each such answer is a no | CouldNotRemove, then RemovalFailed |
| Deprovisioning | a later list still shows it after the retry time | next attempt; irrevocable: an answer is unknown |
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

from growth.model.action import CancelRemoval, DeleteMachine, EvictPod, FinishRemoval, WriteNodeRemovalStatus
from growth.model.decision import Decision, Note, Settled
from growth.model.instant import since
from growth.model.node import Node
from growth.model.noderequest import (
    COULD_NOT_REMOVE,
    DEPROVISIONING,
    PENDING,
    REMOVAL_FAILED,
    NodeRemovalRequest,
    NodeRemovalRequestStatus,
    RemovalPhase,
)
from growth.model.outcome import Accepted, Conflict, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.attempts import is_irrevocable, is_no_by_now, with_next_attempt, without_last_attempt
from growth.plan.nodes_down.budgets import Recent, with_moment
from growth.plan.nodes_down.drain import (
    Drains,
    evicted,
    has_returned,
    is_asked_for_by_a_person,
    is_let_go,
    may_be_taken_back,
    with_tolerating,
)
from growth.plan.world.brake import Brake
from growth.plan.world.machines import (
    DRAINING,
    LOOK_AGAIN_SECONDS,
    UNHEALTHY,
    is_surely_gone,
    machine_to_delete,
    pool_of_removal,
    strangers_on,
    why_strange,
)
from growth.plan.world.marks import unmark_node
from growth.plan.world.nodes import blocking_pods, is_kept_by_wish, is_paused, lost_at
from growth.plan.world.turn import Turn, about, cut, life_event, retry_at, seen, with_removal_phase

_RETRY_SECONDS: Final = 5.0
_CLOSED_LONGEST_SECONDS: Final = 30.0  # each attempt is written twice if the gate is closed


class Ledger(Struct, frozen=True):
    """Lost at a restart: then an attempt that was never asked counts as one whose answer is unknown."""

    unasked: Mapping[str, TryLater | Conflict] = {}  # Deprovisioning ones whose attempt surely did nothing, and why
    not_before: Mapping[str, float] = {}  # by removal or pod: when to try the last step again
    pauses: Mapping[str, float] = {}  # by removal: how long the last one was, in seconds, while the gate is closed
    recent: Recent = Recent()  # the pool's status knows it, too


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    turn, ledger = Turn(), replace(ledger, recent=with_moment(ledger.recent, snapshot, settings))
    look = _Look(snapshot, ledger, settings, turn)
    for _, removal in sorted(snapshot.removals.items()):
        with turn.told_on(about(removal)):
            look.look_at(removal)
    begun = {name for name, removal in snapshot.removals.items() if removal.phase == DEPROVISIONING}
    unasked = {name: why for name, why in ledger.unasked.items() if name in begun}
    not_before = ledger.not_before.items()
    current = {name: at for name, at in not_before if name in snapshot.removals or at > snapshot.now}
    pauses = {name: pause for name, pause in ledger.pauses.items() if name in snapshot.removals}
    return turn.decision(Ledger(unasked, current, pauses, ledger.recent))


class _Look:
    """One look at all removals; the rows of the table above are the branches of `look_at` and what it calls."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings, turn: Turn) -> None:
        self._snapshot, self._ledger, self._settings, self._turn = snapshot, ledger, settings, turn
        self._drains = Drains(snapshot, settings, ledger.not_before, ledger.recent, turn)
        self._brake = Brake(snapshot)

    def look_at(self, removal: NodeRemovalRequest) -> None:
        if removal.name not in self._snapshot.machines:
            self._turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
        node = self._snapshot.nodes.get(removal.spec.node_name)
        if removal.phase == PENDING and node is not None and not node.pool and not removal.spec.machine_id:
            self._refuse(removal, node)
        elif is_surely_gone(removal, self._snapshot):
            self._finish(removal)
        elif removal.phase == PENDING and _was_recorded_too_early(removal, self._snapshot):
            self._turn.do(CancelRemoval(seen(removal)))
        elif removal.phase == REMOVAL_FAILED:
            if removal.deleted_at is not None:
                self._turn.do(CancelRemoval(seen(removal)))
        elif is_paused(self._snapshot.pools.get(pool_of_removal(removal, self._snapshot)), self._settings):
            return
        elif removal.phase == DEPROVISIONING:
            self._deprovisioning(removal)
        else:
            self._not_asked_yet(removal)

    def _finish(self, removal: NodeRemovalRequest) -> None:
        at = self._ledger.not_before.get(removal.name, 0.0)
        if at > self._snapshot.now:
            self._turn.wake(at)
            return
        request, node = self._snapshot.requests.get(removal.name), self._snapshot.nodes.get(removal.spec.node_name)
        machine_id = removal.spec.machine_id or (request.status.machine_id if request is not None else "")
        uid = "" if node is None else node.uid
        self._turn.do(FinishRemoval(seen(removal), removal.spec.node_name, machine_id, uid))

    def _refuse(self, removal: NodeRemovalRequest, node: Node) -> None:
        why = "growth did not buy this node, or its machine is not known: it is not removed"
        self._turn.do(CancelRemoval(seen(removal)))
        self._turn.tell(*(Note(each, "RemovalRefused", why, "Warning") for each in (about(removal), about(node))))

    # --------------------------------------------------------------------- Pending, CouldNotRemove

    def _not_asked_yet(self, removal: NodeRemovalRequest) -> None:
        pods, returned = self._pods(removal)
        may_cancel = may_be_taken_back(removal, self._snapshot)
        if may_cancel and (why := self._why_cancel(removal, pods)):
            self._cancel(removal, why)
        elif why_held := self._why_held(removal):
            self._turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS, self._brake.changes_at())
            self._write_waiting(removal, why_held)
        elif pods and (why_wait := self._drains.why_wait(removal)):
            self._turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
            self._write_waiting(removal, why_wait)
        elif pods:
            self._drain(removal, pods)
        elif self._retry_at(removal) > self._snapshot.now:
            self._turn.wake(self._retry_at(removal))
        elif why_protected := self._drains.why_protected(returned):
            self._turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
            self._write_waiting(removal, cut(why_protected))
        elif mark := self._drains.missing_mark_of_asked(removal):
            self._turn.do(mark)
        elif not (may_cancel and self._drains.is_unclear(removal)):
            self._attempt(removal, returned)

    def _pods(self, removal: NodeRemovalRequest) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
        """Those that must leave first, and those that have returned after an eviction. A stranger's are not growth's
        to evict.
        """
        node = self._snapshot.nodes.get(removal.spec.node_name)
        is_ours = node is None or bool(node.pool)
        pods = blocking_pods(removal.spec.node_name, self._snapshot) if is_ours else ()
        returned = tuple(pod for pod in pods if has_returned(pod, removal.status))
        return tuple(pod for pod in pods if pod not in returned), returned

    def _why_cancel(self, removal: NodeRemovalRequest, pods: tuple[Pod, ...]) -> str:
        node = self._snapshot.nodes.get(removal.spec.node_name)
        if removal.deleted_at is not None:
            return "the request was deleted"
        if pods and removal.spec.reason not in DRAINING:
            return f"pod {pods[0].key} is on the node"
        if is_let_go(removal, self._snapshot):
            return f"NodePool {removal.spec.pool} is deleted and leaves its nodes"
        if removal.spec.reason == UNHEALTHY and node is not None and node.is_ready:
            return "it is Ready again"
        if node is not None and is_kept_by_wish(node, removal.spec.reason):
            return "it must not be disrupted"
        return self._drains.why_take_back(removal, pods)

    def _why_held(self, removal: NodeRemovalRequest) -> str:
        """By the brake, by an annotation that forbids to disturb the node, as long as it works, or by pods that only
        a person can move.
        """
        node = self._snapshot.nodes.get(removal.spec.node_name)
        strangers = strangers_on(removal.spec.node_name, self._snapshot)
        working = [pod.key for each in strangers for pod in blocking_pods(each.name, self._snapshot)]
        if working:
            why = why_strange(removal.spec.node_name, self._snapshot)
            return cut(f"pod {working[0]} runs there, and {why}: a person must move it")
        if node is None:
            return ""
        is_kept = is_kept_by_wish(node, removal.spec.reason) and not is_irrevocable(removal)
        return cut(self._brake.why_held(node)) or ("the node must not be disrupted" if is_kept else "")

    def _cancel(self, removal: NodeRemovalRequest, why: str) -> None:
        node = self._snapshot.nodes.get(removal.spec.node_name)
        self._turn.do(CancelRemoval(seen(removal)))
        if node is not None:
            self._turn.tell(Note(about(node), "RemovalCancelled", f"the node stays: {why}"))
        if node is not None and node.is_marked:
            self._turn.do(unmark_node(node))

    def _drain(self, removal: NodeRemovalRequest, pods: tuple[Pod, ...]) -> None:
        """Through the Eviction API; a budget or a wish not to be disrupted is waited for, and written down."""
        status = with_tolerating(removal.status, pods, self._snapshot.now)
        mark = self._drains.missing_mark(removal)
        if mark is not None and removal.status.drain_began_at is not None:
            self._turn.do(mark)
        elif mark is None and status.tolerating == removal.status.tolerating:  # else they are written down first
            self._turn.do(*(EvictPod(seen(pod)) for pod in self._drains.next_batch(pods)))
        self._turn.wake(lost_at(removal.spec.node_name, self._snapshot))
        self._write_status(removal, replace(status, waiting_for=cut(self._drains.waits_for(pods))))

    def _write_waiting(self, removal: NodeRemovalRequest, text: str) -> None:
        self._write_status(removal, replace(removal.status, waiting_for=text))

    def _write_status(self, removal: NodeRemovalRequest, status: NodeRemovalRequestStatus) -> None:
        if removal.status != status:
            self._turn.do(WriteNodeRemovalStatus(seen(removal), status))

    def _retry_at(self, removal: NodeRemovalRequest) -> float:
        """When the last attempt is old enough, or the gate, which was closed, is asked again."""
        tried_at = since(self._snapshot.now, removal.attempted_at) if removal.attempted_at else 0.0
        retry_at = tried_at + self._settings.removal_retry_seconds if removal.phase != PENDING else 0.0
        return max(retry_at, self._ledger.not_before.get(removal.name, 0.0))

    def _attempt(self, removal: NodeRemovalRequest, returned: tuple[Pod, ...] = ()) -> None:
        """Written before the provider is asked: after a crash it is known that it may have been. Pods that have
        returned are evicted once.
        """
        if removal.status.removal_attempt >= self._settings.removal_attempts:
            action, notes = _give_up(removal, self._snapshot, "all attempts are spent")
            self._turn.do(action)
            self._turn.tell(*notes)
            return
        machine_id, _, why_not = machine_to_delete(removal, self._snapshot)
        if machine_id:
            now, last = self._snapshot.now, self._drains.last_to_evict(removal, returned)
            self._turn.do(*(EvictPod(seen(pod)) for pod in last))
            self._turn.do(WriteNodeRemovalStatus(seen(removal), with_next_attempt(removal, now, len(last))))
        else:
            self._write_waiting(removal, why_not)

    # ------------------------------------------------------------------------------- Deprovisioning

    def _deprovisioning(self, removal: NodeRemovalRequest) -> None:
        (pods, returned), now = self._pods(removal), self._snapshot.now
        if removal.name in self._ledger.unasked:
            self._turn.do(_take_back(removal, self._ledger.unasked[removal.name], now))
        elif now < self._retry_at(removal):
            self._turn.wake(self._retry_at(removal))
        elif pods:  # what may have been asked cannot be taken back: the pods must leave
            self._drain(removal, pods)
        elif self._is_still_there(removal):
            self._attempt(removal, returned)
        else:
            self._turn.wake(now + LOOK_AGAIN_SECONDS)

    def _is_still_there(self, removal: NodeRemovalRequest) -> bool:
        """By a list younger than the last attempt. Without one it is not known what came of that, and asking again
        would use up attempts in vain.
        """
        asked_at = since(self._snapshot.now, removal.attempted_at or removal.created_at)
        return removal.name in self._snapshot.machines and (self._snapshot.machines_at or 0.0) > asked_at


def _take_back(removal: NodeRemovalRequest, why: TryLater | Conflict, now: float) -> WriteNodeRemovalStatus:
    return WriteNodeRemovalStatus(seen(removal), without_last_attempt(removal, why, now))


def _give_up(
    removal: NodeRemovalRequest, snapshot: Snapshot, why: str
) -> tuple[WriteNodeRemovalStatus, tuple[Note, ...]]:
    """Terminal: people are told on the request and on the Node."""
    node, attempts = snapshot.nodes.get(removal.spec.node_name), removal.status.removal_attempt
    message = f"machine {removal.spec.machine_id} could not be removed in {attempts} attempts: {why}"
    notes = [Note(about(removal), "RemovalFailed", message, "Warning")]
    if node is not None:
        message += "; the node stays tainted, a person must look"
        notes.append(Note(about(node), "RemovalFailed", message, "Warning"))
    return _write_phase(removal, REMOVAL_FAILED, snapshot.now, "removalFailed", why), tuple(notes)


def _write_phase(
    removal: NodeRemovalRequest, phase: RemovalPhase, now: float, event: str, why: str
) -> WriteNodeRemovalStatus:
    status = with_removal_phase(removal.status, phase, life_event(now, event, why))
    return WriteNodeRemovalStatus(seen(removal), status)


# -------------------------------------------------------------------------------------- the machine


def _was_recorded_too_early(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    """The removal was written while the provider did not show the machine; now it does. Only a recorded machine is
    deleted, so the removal is written again.
    """
    is_begun = removal.status.drain_began_at is not None or is_asked_for_by_a_person(removal, snapshot)
    return not removal.spec.machine_id and removal.name in snapshot.machines and not is_begun


def _delete(removal: NodeRemovalRequest, snapshot: Snapshot) -> tuple[DeleteMachine, ...]:
    machine_id, request_uid, _ = machine_to_delete(removal, snapshot)
    return (DeleteMachine(seen(removal), removal.spec.node_name, machine_id, request_uid),) if machine_id else ()


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, DeleteMachine):
        return _settle_delete(action, outcome, snapshot, ledger, settings)
    is_done, again_at = isinstance(outcome, Accepted), retry_at(outcome, now, _RETRY_SECONDS)
    if is_done and isinstance(action, WriteNodeRemovalStatus) and action.status.phase == DEPROVISIONING:
        return _after_write(action, snapshot, ledger)
    held = dict(ledger.not_before)
    if isinstance(action, FinishRemoval):
        held[action.removal.name] = again_at  # if it was accepted: until it is seen to be gone
        removal = snapshot.removals.get(action.removal.name)
        if isinstance(outcome, Refused) and removal is not None and removal.phase != REMOVAL_FAILED:
            failed, notes = _give_up(removal, snapshot, outcome.reason)
            return Decision(replace(ledger, not_before=held), (failed,), notes)
        if isinstance(outcome, Refused) and removal is not None and removal.deleted_at is not None:
            return Decision(replace(ledger, not_before=held), (CancelRemoval(seen(removal)),))  # a person has looked
    elif isinstance(action, EvictPod):
        held[evicted(action.pod.uid) if is_done else action.pod.uid] = again_at  # until it is seen to leave
    return Decision(replace(ledger, not_before=held), again_at=None if is_done else again_at)


def _after_write(action: WriteNodeRemovalStatus, snapshot: Snapshot, ledger: Ledger) -> Decision[Ledger]:
    """Deprovisioning is written: now the provider may be asked."""
    removal = snapshot.removals.get(action.removal.name)
    if removal is None or removal.uid != action.removal.uid:
        return Decision(ledger)
    is_same = action.status.removal_attempt == removal.status.removal_attempt
    return Decision(ledger, () if is_same else _delete(removal, snapshot))


def _settle_delete(
    action: DeleteMachine, outcome: Outcome, snapshot: Snapshot, ledger: Ledger, settings: Settings
) -> Decision[Ledger]:
    now, removal = snapshot.now, snapshot.removals.get(action.removal.name)
    unasked = {name: why for name, why in ledger.unasked.items() if name != action.removal.name}
    after = replace(ledger, unasked=unasked)
    if removal is None or removal.uid != action.removal.uid or removal.phase != DEPROVISIONING:
        return Decision(after)
    if isinstance(outcome, Refused | NoCapacity):
        return _settle_refusal(removal, outcome.reason, snapshot, after, settings)
    if isinstance(outcome, Accepted | Unknown):
        return Decision(after, again_at=now + settings.removal_retry_seconds)
    if is_no_by_now(removal, outcome, now):
        return _settle_refusal(removal, outcome.reason, snapshot, after, settings)
    ask_at, pauses = retry_at(outcome, now, _RETRY_SECONDS), dict(ledger.pauses)
    if isinstance(outcome, TryLater):  # most gates open again within seconds; some stay closed for hours
        longer = 2 * pauses.get(removal.name, _RETRY_SECONDS / 2)
        pauses[removal.name] = min(_CLOSED_LONGEST_SECONDS, max(longer, ask_at - now))
        ask_at = max(ask_at, now + pauses[removal.name])
    held = {**ledger.not_before, removal.name: ask_at}
    after = replace(ledger, unasked={**unasked, removal.name: outcome}, not_before=held, pauses=pauses)
    return Decision(after, (_take_back(removal, outcome, now),), again_at=ask_at)


def _settle_refusal(
    removal: NodeRemovalRequest, reason: str, snapshot: Snapshot, ledger: Ledger, settings: Settings
) -> Decision[Ledger]:
    now, attempt = snapshot.now, removal.status.removal_attempt
    if attempt >= settings.removal_attempts:
        action, notes = _give_up(removal, snapshot, reason)
        return Decision(ledger, (action,), notes)
    action = _write_phase(removal, COULD_NOT_REMOVE, now, "deletionFailed", reason)
    note = Note(about(removal), "CouldNotRemove", f"attempt {attempt} was refused: {reason}", "Warning")
    return Decision(ledger, (action,), (note,), again_at=now + settings.removal_retry_seconds)
