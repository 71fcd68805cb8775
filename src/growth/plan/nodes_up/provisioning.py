"""What is the next step in the life of each NodeRequest? Asked whenever one changes, and when its time is up.

| phase | seen | then |
| --- | --- | --- |
| Pending | its machine is in the provider's list, and runs | Provisioning (adopted) |
| Pending | pool paused or gone | wait |
| Pending | over a limit, or its pods run or are named by other requests | if it surely has no machine: release, or |
| – | an order may have been made, by an earlier process or without an answer | Deprovisioning: what comes goes |
| Pending | otherwise | LaunchMachine: Accepted → Provisioning; NoCapacity or Refused → Unmet; no answer → again |
| Pending | three orders without an answer in 30 s or more, and the provider's list shows no machine | Unmet; told |
| Provisioning | the node serves | Ready |
| Provisioning | not in time, and no pod has run on it | Deprovisioning |
| Ready | a pod it was bought for is there; or five minutes are over and none came | its record says so |
| Ready | its record is old | release: the machine stays; in vain (`plan/world/trials`): once its pool tells of it |
| Ready | its machine is gone, and an older order has brought another one, which has no node | NodeRemovalRequest |
| Unmet | its machine came late after all | Provisioning if its pods still wait for it; else a NodeRemovalRequest |
| Unmet | its time is over, and no late machine can come | release; if it has a machine, first a NodeRemovalRequest |
| Deprovisioning | no NodeRemovalRequest yet | CreateNodeRemovalRequest |
| Deprovisioning | there is one | its time is written; when it is over and its pool's status tells of it: release |
| deleted by hand, or its pool goes | Pending | the same, once the provider's list shows no machine |
| – by hand | Provisioning, and its node has working pods | release: the node speaks for the machine |
| – with its pool | Provisioning, and its node has working pods | as Deprovisioning |
| – either | Provisioning otherwise | as Deprovisioning |
| – either | Ready | release |
| any that would be released | an order without an answer may still bring a machine | wait: it must find a record |

A launch may be asked for again, under the same name: it finds a machine by its name, and finishes it if need be. What
an earlier process ordered and did not write down counts as an order without an answer, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import LaunchMachine, ReleaseNodeRequest, WriteNodeRequestStatus
from growth.model.api import FINALIZER
from growth.model.decision import Decision, Note, Settled
from growth.model.instant import format_instant
from growth.model.nodepool import NodePool
from growth.model.noderequest import DEPROVISIONING, PENDING, PROVISIONING, READY, UNMET, NodeRequest, NodeRequestStatus
from growth.model.outcome import Accepted, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up.failures import (
    NOT_USED,
    RETRY_FIRST_SECONDS,
    STARTED_ANEW,
    Retry,
    accepted,
    arrival,
    awaits_list_until,
    is_needed,
    is_remembered,
    is_silent,
    judged,
    next_try,
    of_hold,
    of_silence,
    place_of,
    serves_by,
    strike_seconds,
    strikes,
    told_at,
    unanswered,
    unmet,
    withdrawn,
)
from growth.plan.world.limits import may_come_until
from growth.plan.world.machines import (
    DELETED,
    LOOK_AGAIN_SECONDS,
    NOT_READY,
    is_another_machine,
    is_surely_absent,
    recorded_id,
    removal_of_request,
    why_strange,
)
from growth.plan.world.market import unmet_until
from growth.plan.world.nodes import blocking_pods, is_paused, is_serving, lost_at, phase_since, readiness_wait_seconds
from growth.plan.world.orders import NOT_READY_EVENT, USED_EVENT, is_doubled, launch_of, needs_pods, over_limit, verdict
from growth.plan.world.pools import by_key, why_not_buying
from growth.plan.world.swaps import settles_at
from growth.plan.world.trials import TAKING_SECONDS
from growth.plan.world.turn import Turn, about, instant_of, life_event, seen, with_events, with_request_phase

_LATE_LOOK_SECONDS: Final = 300.0  # so much longer a record waits for a machine that comes late
_FAILED_RECORD_SECONDS: Final = 600.0  # and until its pool's status tells of it


class Ledger(Struct, frozen=True):
    retries: Mapping[str, Retry] = {}  # by request
    asked: Mapping[str, float] = {}  # launches under way, and since when
    inherited: frozenset[str] | None = None  # requests that an earlier process may have ordered; None: not known yet

    def may_have_inherited(self, name: str) -> bool:
        return self.inherited is None or name in self.inherited


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    look = _Look(snapshot, ledger, settings)
    for _, request in sorted(snapshot.requests.items()):
        with look.turn.told_on(about(request)):
            look.take(request)
    retries = {name: retry for name, retry in ledger.retries.items() if name in snapshot.requests}
    pending = {name for name, request in snapshot.requests.items() if request.phase == PENDING}
    asked = {name: at for name, at in look.asked.items() if name in pending}
    inherited = pending if ledger.inherited is None else ledger.inherited & pending
    return look.turn.decision(Ledger(retries, asked, frozenset(inherited)))


class _Look:
    """One look at all requests."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> None:
        self.turn = Turn()
        self.asked = dict(ledger.asked)
        self._snapshot, self._ledger, self._settings = snapshot, ledger, settings
        self._strikes = strikes(snapshot.requests.values())
        self._sold = by_key(snapshot.offerings)
        self._over = over_limit(snapshot, settings)

    def take(self, request: NodeRequest) -> None:
        pool = self._snapshot.pools.get(request.spec.pool)
        is_going = request.deleted_at is not None or (pool is not None and pool.deleted_at is not None)
        if request.phase == READY:
            self._ready(request, pool, is_going)
        elif request.phase == UNMET:
            self._unmet(request, is_going)
        elif request.phase == PROVISIONING and request.deleted_at is not None and self._works(request):
            self._release(request)  # it serves already: only the record goes
        elif request.phase == DEPROVISIONING or (request.phase == PROVISIONING and is_going):
            self._give_back(request, DELETED if is_going else NOT_READY)
        elif request.phase == PROVISIONING:
            self._provisioning(request, pool)
        elif is_going:
            self._pending_and_going(request)
        else:
            self._pending(request, pool)

    def _works(self, request: NodeRequest) -> bool:
        """Pods can outlive their Node for a while: without it nothing but this record leads to the machine."""
        return request.name in self._snapshot.nodes and self._has_run(request.name)

    def _has_run(self, name: str) -> bool:
        """A pod that is bound to a node and never began to run there keeps nothing, nor does one on a stranger's."""
        node = self._snapshot.nodes.get(name)
        is_strange = node is not None and not node.pool
        return not is_strange and any(pod.phase != "Pending" for pod in blocking_pods(name, self._snapshot))

    def _release(self, request: NodeRequest) -> None:
        """What was not answered must find a record if it comes, and the list must have had time to show it."""
        late_until = may_come_until(request)
        listed_at = 0.0 if self._snapshot.machines_at is None else self._snapshot.machines_at
        if late_until and listed_at <= late_until:
            self.turn.wake(max(late_until, self._snapshot.now) + LOOK_AGAIN_SECONDS)
        else:
            self.turn.do(ReleaseNodeRequest(seen(request)))

    def _write(self, request: NodeRequest, status: NodeRequestStatus) -> None:
        self.turn.do(WriteNodeRequestStatus(seen(request), status))

    def _warn(self, request: NodeRequest, reason: str, message: str) -> None:
        self.turn.tell(Note(about(request), reason, message, "Warning"))

    # -------------------------------------------------------------------------------------- Pending

    def _pending(self, request: NodeRequest, pool: NodePool | None) -> None:
        machine = self._snapshot.machines.get(request.name)
        if machine is not None and machine.request_uid != request.uid:
            self._warn(request, "NameTaken", f"machine {machine.machine_id} has this name, and is of another request")
            self._release(request)
        elif machine is not None and machine.state == "running":
            now = self._snapshot.now
            self._write(request, accepted(request, machine.machine_id, now, "the machine was there already"))
        elif is_silent(request, self._snapshot.now) and self._is_listed_absent(request):
            self._give_up(request)
        elif request.name in self._over:
            self._warn(request, "OverLimit", f"not launched: {self._over[request.name]}")
            self._withdraw(request, request.created_at)
        elif request.name not in self._ledger.retries and is_doubled(request, self._snapshot, self.asked):
            self._warn(request, "NotNeeded", "not launched: its pods run, or other requests were made for them before")
            self._withdraw(request, request.created_at)
        elif pool is not None and not why_not_buying(pool, self._settings.is_paused):
            self._launch(request, pool)

    def _launch(self, request: NodeRequest, pool: NodePool) -> None:
        if FINALIZER not in request.finalizers:
            message = "not launched: without our finalizer the record could be lost before its machine"
            self._warn(request, "NoFinalizer", message)
            return
        now, retry = self._snapshot.now, self._ledger.retries.get(request.name)
        self.turn.tell(*of_silence(request, self._snapshot))
        self.turn.wake(told_at(request, now))
        if now < (retry_at := awaits_list_until(request, now) if retry is None else retry.at):
            self.turn.wake(retry_at)
        elif request.name not in self.asked:
            self.asked[request.name] = now
            self.turn.do(launch_of(request, pool, self._sold))

    def _give_up(self, request: NodeRequest) -> None:
        write, notes = unmet(request, f"no answer: {request.unanswered[-1].reason}", self._snapshot, self._settings)
        self.turn.do(write)
        self.turn.tell(*of_silence(request, self._snapshot), *notes)

    def _is_listed_absent(self, request: NodeRequest) -> bool:
        """Does a list that is younger than the last order show no machine of this name?"""
        asked_at = instant_of(request.unanswered[-1].at) or request.created_at
        self.turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
        return request.name not in self.asked and is_surely_absent(request.name, asked_at, self._snapshot)

    def _pending_and_going(self, request: NodeRequest) -> None:
        machine = self._snapshot.machines.get(request.name)
        if machine is not None and machine.request_uid in ("", request.uid):
            self._give_back(request, DELETED)
        else:
            self._withdraw(request, request.deleted_at or request.created_at)

    def _withdraw(self, request: NodeRequest, since: float) -> None:
        """What was surely never ordered goes at once."""
        if self._surely_no_machine(request, since):
            if request.unanswered or self._ledger.may_have_inherited(request.name):
                self._write(request, withdrawn(request, self._snapshot.now))
            else:
                self._release(request)

    def _surely_no_machine(self, request: NodeRequest, since: float) -> bool:
        """Only a list that is younger than everything we asked for can say so."""
        retry = self._ledger.retries.get(request.name)
        asked_at = max(since, 0.0 if retry is None else retry.asked_at)
        if request.name not in self.asked and is_surely_absent(request.name, asked_at, self._snapshot):
            return True
        self.turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
        return False

    # --------------------------------------------------------------------------------- Provisioning

    def _provisioning(self, request: NodeRequest, pool: NodePool | None) -> None:
        node, now = self._snapshot.nodes.get(request.name), self._snapshot.now
        if node is not None and is_serving(node, request, pool):
            came = arrival(request, node, self._snapshot)
            self._write(request, with_request_phase(request.status, READY, now, *came))
            message = f"node {node.name} serves after {now - request.created_at:.0f} s"
            self.turn.tell(Note(about(request), "Ready", message))
            return
        deadline = serves_by(request, self._snapshot, self._settings)
        if self._has_run(request.name) or is_paused(pool, self._settings):
            self.turn.wake(lost_at(request.name, self._snapshot))
        elif now >= deadline:
            self._fail(request, readiness_wait_seconds(pool, self._settings))
        else:
            self.turn.wake(deadline)

    def _fail(self, request: NodeRequest, waited: float) -> None:
        now, strange = self._snapshot.now, why_strange(request.name, self._snapshot)
        why = f"no Ready node within {waited:.0f} s{strange and ': '}{strange}"
        status = with_request_phase(request.status, DEPROVISIONING, now, life_event(now, NOT_READY_EVENT, why))
        self._write(request, status)
        self._warn(request, "NotReadyInTime", f"{place_of(request)[0]}: {why}, the machine is given back")

    # ------------------------------------------------------------------------ Ready, Unmet, the end

    def _ready(self, request: NodeRequest, pool: NodePool | None, is_going: bool) -> None:
        """A pool that goes waits for its records only as long as they say something: their nodes are removed by
        themselves.
        """
        ends_at = phase_since(request, self._snapshot) + self._settings.ready_record_seconds
        if request.spec.replaces:
            ends_at = max(ends_at, settles_at(request, self._snapshot, self._settings))
        says_nothing = is_going and (request.deleted_at is not None or request.name not in self._snapshot.nodes)
        is_judged = is_going or self._judge(request)
        is_over = self._snapshot.now >= ends_at
        another_due_at = may_come_until(request) + readiness_wait_seconds(pool, self._settings)
        if is_another_machine(request, self._snapshot) and not is_going and self._snapshot.now < another_due_at:
            self.turn.wake(another_due_at)
        elif is_another_machine(request, self._snapshot):
            self._hand_over(request, DELETED if is_going else NOT_READY)
        elif says_nothing or (is_over and is_judged and (is_going or is_remembered(request, self._snapshot))):
            self._release(request)
        elif not is_over:
            self.turn.wake(ends_at)

    def _judge(self, request: NodeRequest) -> bool:
        """Was it of use? Written down once it is known; False while it may still show."""
        if not needs_pods(request) or verdict(request) is not None:
            return True
        due_at = phase_since(request, self._snapshot) + TAKING_SECONDS
        pool = self._snapshot.pools.get(request.spec.pool)
        is_due = self._snapshot.now >= due_at and not is_paused(pool, self._settings)
        event = judged(request, self._snapshot, is_due=is_due)
        if event is not None:
            self._write(request, replace(request.status, events=with_events(request.status.events, event)))
            if event.name != USED_EVENT:
                self._warn(request, "NotUsed", f"{request.spec.target_offering}: {NOT_USED}")
        elif not is_due:
            self.turn.wake(due_at if due_at > self._snapshot.now else None)
        return event is not None or is_due

    def _unmet(self, request: NodeRequest, is_going: bool) -> None:
        """A machine behind it is handed to removal first; the record then only says that the offering is struck out."""
        ends_at = unmet_until(request, self._snapshot.now, self._settings.unmet_seconds)
        machine = self._snapshot.machines.get(request.name)
        is_late = machine is not None and machine.request_uid == request.uid and not request.status.machine_id
        if machine is not None and is_late and not is_going and is_needed(request, self._snapshot):
            status = accepted(request, machine.machine_id, self._snapshot.now, "the machine came late")
            self._write(request, replace(status, expires_at=None))
        elif is_late and self._snapshot.now < may_come_until(request) + LOOK_AGAIN_SECONDS:  # or it is made once more
            self.turn.wake(may_come_until(request) + LOOK_AGAIN_SECONDS)
        elif is_late and request.name not in self._snapshot.removals:
            self._hand_over(request, NOT_READY)
        elif request.status.machine_id and request.name in self._snapshot.removals:
            self._write(request, replace(request.status, machine_id=""))
        elif request.status.machine_id:
            self._hand_over(request, NOT_READY)
        else:
            is_latest = self._strikes.get(place_of(request)) is request
            kept = strike_seconds(request, self._settings) if is_latest else 0.0
            late_until = may_come_until(request) + _LATE_LOOK_SECONDS if request.unanswered else 0.0
            self._end_at(request, max(late_until, 0.0 if is_going else ends_at + kept))

    def _end_at(self, request: NodeRequest, at: float) -> None:
        if self._snapshot.now >= at:
            self._release(request)
        else:
            self.turn.wake(at)

    def _give_back(self, request: NodeRequest, reason: str) -> None:
        """The machine goes by a NodeRemovalRequest; only once that exists, or it is sure that there is no machine, does
        this record go.
        """
        is_back = recorded_id(request.name, request.uid, self._snapshot) and request.name not in self._snapshot.removals
        if request.is_handed_over and is_back:  # an older order took effect once more
            self._hand_over(request, reason)
        elif request.is_handed_over:
            if is_remembered(request, self._snapshot):
                self._end_at(request, (instant_of(request.status.expires_at) or 0.0) if reason == NOT_READY else 0.0)
        elif request.name not in self._snapshot.removals and not self._never_had_any(request):
            self._hand_over(request, reason)
        elif reason == NOT_READY and verdict(request) is not None:
            until = format_instant(self._snapshot.now + _FAILED_RECORD_SECONDS)
            self._write(request, replace(request.status, expires_at=until))
        else:
            self._release(request)

    def _never_had_any(self, request: NodeRequest) -> bool:
        is_recorded = bool(request.status.machine_id) or request.name in self._snapshot.nodes
        return not is_recorded and self._surely_no_machine(request, request.changed_at)

    def _hand_over(self, request: NodeRequest, reason: str) -> None:
        action = removal_of_request(request, self._snapshot, reason)
        if action is None:
            self.turn.wake(self._snapshot.now + LOOK_AGAIN_SECONDS)
        else:
            self.turn.do(action)


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, LaunchMachine):
        return _settle_launch(action, outcome, snapshot, ledger, settings)
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    if isinstance(action, WriteNodeRequestStatus):  # what a launch brought is not written: ask again, or find it listed
        ledger = _answered(ledger, action.request.name)
    return Decision(ledger, again_at=now + RETRY_FIRST_SECONDS)


def _answered(ledger: Ledger, name: str) -> Ledger:
    return replace(ledger, asked={key: at for key, at in ledger.asked.items() if key != name})


def _settle_launch(
    action: LaunchMachine, outcome: Outcome, snapshot: Snapshot, ledger: Ledger, settings: Settings
) -> Decision[Ledger]:
    now, name = snapshot.now, action.request.name
    request, before = snapshot.requests.get(name), ledger.retries.get(name)
    if request is None or request.uid != action.request.uid or request.phase != PENDING:
        return Decision(_answered(ledger, name))
    is_answered = isinstance(outcome, Accepted | NoCapacity | Refused)
    if is_answered and ledger.may_have_inherited(name) and not request.unanswered:
        request = unanswered(request, STARTED_ANEW, now)
    if isinstance(outcome, Accepted):  # it counts as asked until the phase is seen to be written
        status = accepted(request, outcome.machine_id, now)
        note = Note(about(request), "Provisioning", "{} ordered in {}".format(*place_of(request)))
        return Decision(ledger, (WriteNodeRequestStatus(seen(request), status),), (note,))
    if isinstance(outcome, NoCapacity | Refused):
        write, notes = unmet(request, outcome.reason, snapshot, settings)
        return Decision(ledger, (write,), notes, again_at=now)
    retry = next_try(before, outcome, now)
    ledger = replace(_answered(ledger, name), retries={**ledger.retries, name: retry})
    if not (isinstance(outcome, Unknown) or (isinstance(outcome, TryLater) and outcome.was_asked)):
        return Decision(ledger, (), of_hold(request, outcome, retry.since, snapshot), again_at=retry.at)
    status = unanswered(request, outcome.reason, now).status
    return Decision(ledger, (WriteNodeRequestStatus(seen(request), status),), again_at=retry.at)
