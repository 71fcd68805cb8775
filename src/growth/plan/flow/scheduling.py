"""Where do pods go that name growth as their scheduler? Placed round by round, by min-cost flow, and bound. Does
nothing unless it is turned on.

    queue → the fleet as it is now, with room held for others → solver/flow → BindPods, or PodScheduled=False

| a pod | then |
| --- | --- |
| has a place | BindPods, all of a round in one action beside the loop; the next round begins when it is back |
| is nominated to a node that takes it | bound there |
| is nominated to a node that others are leaving | nobody else gets their room |
| has none, and less important pods could make way | they do, if it is so set (`plan/flow/preemption`) |
| has none | PodScheduled=False, Unschedulable (so scale-up sees it), event FailedScheduling; again after a change |
| cannot be placed by growth | the same condition with reason SchedulerError: no machine is bought for it |
| was sent to a node that is gone or has uncounted pods, or bound by another | no more than a Conflict: placed again |
| is of the default scheduler | growth's as well where it is so set, and only while kube-scheduler renews no Lease |

Room is held for pods that are planned onto, or nominated to, a node. A pod is told the same thing once, and another
thing not before half a minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from growth.model.action import Assignment, BindPods, Unscheduled, WritePodsUnscheduled
from growth.model.decision import About, Decision, Note, Settled
from growth.model.gang import why_missing
from growth.model.instant import format_instant
from growth.model.outcome import Accepted, Refused, Unknown
from growth.model.pod import Pod
from growth.model.scheduler import DEFAULT_SCHEDULER, LEASE_NAME, LEASE_NAMESPACE, SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow.preemption import Preempting, make_way
from growth.plan.flow.queue import Backoff, Queue, Unplaced, after_failure, gang_needs, groups_of, is_ours, line_up
from growth.plan.world.capacity import Assignments, assignments, in_force
from growth.plan.world.nodes import Prices, state_of
from growth.plan.world.turn import Turn, about, retry_at, seen
from growth.solver.flow import Fleet, FleetState, place

_TOLD_AGAIN_SECONDS: Final = 30.0
_PREEMPT_AGAIN_SECONDS: Final = 10.0
_UNKNOWN_SECONDS: Final = 5.0  # a bind without an answer: the watch shows by then what became of it


class FleetCache:
    """The fleet of the last round, kept so that only changes are read. It changes in place, so it serves only the
    ledger that came out of that round, or the very same round once more. For any other ledger, and after a round that
    failed, the fleet is made again of the ledger's state; it may then choose another of several equal places.
    """

    def __init__(self) -> None:
        self._fleet = Fleet()
        self._asked: tuple[object, ...] = ()  # in the last round
        self._state: FleetState | None = None  # after it

    def follow(self, state: FleetState, snapshot: Snapshot, settings: Settings, assigned: Assignments) -> Fleet:
        """The fleet of this state, once it has followed the snapshot, with room held for others."""
        asked, is_next = self._asked, state is self._state
        self._asked, self._state = (), None
        if asked and asked[0] is state and asked[1] is snapshot and asked[2] is settings:
            return self._fleet
        fleet = self._fleet if is_next else Fleet(state)
        pods_by_node = _with_held_room(snapshot, settings, assigned)
        fleet.follow(snapshot.nodes, pods_by_node, snapshot.volumes, snapshot.namespaces)
        return fleet

    def keep(self, fleet: Fleet, *asked: object) -> FleetState:
        """The state for the next ledger: this round did not fail."""
        self._fleet, self._asked, self._state = fleet, asked, fleet.state
        return self._state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FleetCache)  # it says nothing that the state does not

    __hash__ = None  # type: ignore[assignment]


class Ledger(Struct, frozen=True):
    """All of it may be lost."""

    fleet: FleetState = FleetState()
    cache: FleetCache = field(default_factory=FleetCache)
    backoffs: Mapping[str, Backoff] = {}  # by UID
    under_way: Mapping[str, str] = {}  # by UID: the node that each is being bound to
    is_back: bool = True  # the outcome of the last binds has come
    hold_until: float = 0.0
    failure: str = ""  # why the API server refused a bind
    preempting: Preempting = Preempting()
    told: str = ""  # whether the pods of the default scheduler are growth's: the reason that was given last


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    turn = Turn()
    ledger = _beside_kube_scheduler(ledger, snapshot, settings.scheduler, turn)
    settings = in_force(settings, snapshot)
    scheduler = settings.scheduler
    if not scheduler.enabled or not ledger.is_back:
        return turn.decision(ledger)
    ledger = _welcome(ledger, snapshot, turn)
    if snapshot.now < ledger.hold_until:
        turn.wake(ledger.hold_until)
        return turn.decision(ledger)
    if not any(is_ours(pod, scheduler) for pod in snapshot.waiting_pods):
        return turn.decision(replace(ledger, backoffs={}))
    assigned = assignments(snapshot)
    fleet = ledger.cache.follow(ledger.fleet, snapshot, settings, assigned)
    planned = {pod.key for each in assigned.expected for pod in each.planned}
    queue = line_up(snapshot, planned, ledger.backoffs, fleet.changes, scheduler)
    answer = _place(fleet, queue, assigned, snapshot, settings)
    if answer.placed:
        turn.do(BindPods(answer.placed, scheduler.parallel_binds, _counted(answer.placed, snapshot, assigned)))
    elif queue.has_more:
        turn.wake(snapshot.now)
    turn.wake(queue.again_at)
    backoffs, told = _tell(ledger, snapshot, fleet.changes, (*answer.left, *queue.unfit), turn)
    if told:
        turn.do(WritePodsUnscheduled(told, scheduler.parallel_binds))
    preempting = ledger.preempting
    if snapshot.now >= preempting.after:
        without = [each for each in snapshot.waiting_pods if each.uid in backoffs and each.key not in planned]
        without = [each for each in without if is_ours(each, scheduler) and _was_tried(backoffs[each.uid], fleet)]
        taken = {each.node_name for each in answer.placed}
        preempting = make_way((fleet.index, taken), without, preempting, snapshot, settings, turn)
    else:
        turn.wake(preempting.after)
    under_way = {each.pod.uid: each.node_name for each in answer.placed}
    state = ledger.cache.keep(fleet, ledger.fleet, snapshot, settings)
    after = Ledger(state, ledger.cache, backoffs, under_way, not answer.placed, preempting=preempting, told=ledger.told)
    return turn.decision(after)


def _beside_kube_scheduler(ledger: Ledger, snapshot: Snapshot, scheduler: SchedulerSettings, turn: Turn) -> Ledger:
    """Whose the pods of the default scheduler are is told when it is first known and when it changes; while nothing is
    known the readiness probe tells it.
    """
    other = snapshot.kube_scheduler
    if not scheduler.stands_in or not other.is_known:
        return ledger
    lease = About("Lease", LEASE_NAME, LEASE_NAMESPACE)
    if other.is_away(snapshot.now):
        since = f"has held it since {format_instant(other.until)}" if other.until else "holds it"
        text = f"nobody {since}: growth places the pods of {DEFAULT_SCHEDULER}"
        note = Note(lease, "ServesDefaultScheduler", text)
    else:
        turn.wake(other.until)
        text = f"{other.holder} renews it: the pods of {DEFAULT_SCHEDULER} are left to kube-scheduler until that ends"
        note = Note(lease, "LeftToKubeScheduler", text, "Warning")
    if note.reason != ledger.told:
        turn.tell(note)
    return replace(ledger, told=note.reason)


def _was_tried(backoff: Backoff, fleet: Fleet) -> bool:
    """Does it have no place in the fleet as it is now?"""
    return backoff.failures > 0 and backoff.changes == fleet.changes


def _welcome(ledger: Ledger, snapshot: Snapshot, turn: Turn) -> Ledger:
    """A pod that has arrived gets an event; one that was sent and has not is placed again in a moment. Pods that wait
    no longer are forgotten.
    """
    sent = ledger.under_way
    for node in dict.fromkeys(sent.values()):
        for pod in snapshot.pods_by_node.get(node, ()):
            if sent.get(pod.uid) == node:
                turn.tell(Note(about(pod), "Scheduled", f"Successfully assigned {pod.key} to {pod.node_name}"))
    waiting = {pod.uid: pod for pod in snapshot.waiting_pods}
    backoffs = {uid: backoff for uid, backoff in ledger.backoffs.items() if uid in waiting}
    for uid in (uid for uid in sent if uid in waiting):
        backoffs[uid] = after_failure(backoffs.get(uid), snapshot.now, changes=-1)
        if ledger.failure:
            text = f"could not be bound to {sent[uid]}: {ledger.failure}"
            turn.tell(Note(about(waiting[uid]), "FailedBinding", text, "Warning"))
    return replace(ledger, backoffs=backoffs, under_way={}, failure="")


def _with_held_room(snapshot: Snapshot, settings: Settings, assigned: Assignments) -> Mapping[str, tuple[Pod, ...]]:
    """The pods of each node, and with them pods of others that are planned onto it or nominated to it."""
    held: dict[str, list[Pod]] = {
        name: [pod for pod in pods if not is_ours(pod, settings.scheduler)] for name, pods in assigned.holders.items()
    }
    for each in assigned.expected:
        held.setdefault(each.node.name, []).extend(each.planned)
    pods_by_node = dict(snapshot.pods_by_node)
    for name, pods in held.items():
        if pods and name in snapshot.nodes:
            pods_by_node[name] = (*pods_by_node.get(name, ()), *(replace(pod, node_name=name) for pod in pods))
    return pods_by_node


def _counted(placed: Iterable[Assignment], snapshot: Snapshot, assigned: Assignments) -> dict[str, tuple[str, ...]]:
    """By node: pods beside which those that are bound there were found to fit."""
    names, counted = {each.node_name for each in placed}, dict[str, tuple[str, ...]]()
    planned = {each.node.name: each.planned for each in assigned.expected if each.node.name in names}
    for name in names:
        here = (snapshot.pods_by_node.get(name, ()), assigned.holders.get(name, ()), planned.get(name, ()))
        counted[name] = tuple(pod.uid for pods in here for pod in pods)
    return counted


# ---------------------------------------------------------------------------------------- one round


class _Answer(Struct, frozen=True):
    """What one round found."""

    placed: tuple[Assignment, ...]
    left: tuple[Unplaced, ...]


def _place(fleet: Fleet, queue: Queue, assigned: Assignments, snapshot: Snapshot, settings: Settings) -> _Answer:
    sent = _to_their_nominations(fleet, queue, snapshot)
    expecting = _expecting(fleet, sent, snapshot, settings)
    groups = groups_of(replace(queue, due=tuple(pod for pod in queue.due if pod.uid not in sent)), snapshot.now)
    answer = place(
        fleet,
        [group for group, _ in groups],
        settings.scheduler,
        gang_needs(queue, snapshot, assigned),
        is_target=lambda node: _is_open(node.name, snapshot),
        price_of=Prices(snapshot).price,
    )
    for pod in (*sent.values(), *expecting):
        fleet.index.remove_pod(pod)
    nominated = [Assignment(seen(pod), pod.node_name) for pod in sent.values()]
    oldest_first = [iter(pods) for _, pods in groups]
    placed = [
        Assignment(seen(next(oldest_first[one.group])), one.node) for one in answer.placed for _ in range(one.count)
    ]
    left = [
        Unplaced(pod, why_missing(pod, snapshot) or one.reason)
        for one in answer.left
        for pod in groups[one.group][1][-one.count :]
    ]
    return _Answer((*nominated, *placed), tuple(left))


def _to_their_nominations(fleet: Fleet, queue: Queue, snapshot: Snapshot) -> dict[str, Pod]:
    """Pods that are nominated to a node which takes them now; their room is counted until the round ends."""
    sent: dict[str, Pod] = {}
    for pod in queue.due:
        name = pod.nominated_node
        may_go = _is_open(name, snapshot) and pod.uid not in queue.gang_of
        if may_go and fleet.index.fits_on(fleet.index.class_of_pod(pod), fleet.index.table.index[name]):
            sent[pod.uid] = replace(pod, node_name=name)
            fleet.index.add_pod(sent[pod.uid])
    return sent


def _expecting(fleet: Fleet, sent: Mapping[str, Pod], snapshot: Snapshot, settings: Settings) -> list[Pod]:
    """Pods of ours that are nominated to a node which others are leaving: the room is theirs in this round."""
    found = []
    for pod in snapshot.waiting_pods:
        name = pod.nominated_node
        is_due = bool(name) and pod.uid not in sent and is_ours(pod, settings.scheduler) and name in snapshot.nodes
        if is_due and any(each.deleted_at is not None for each in snapshot.pods_by_node.get(name, ())):
            found.append(replace(pod, node_name=name))
            fleet.index.add_pod(found[-1])
    return found


def _is_open(name: str, snapshot: Snapshot) -> bool:
    """Asked of the snapshot: the fleet does not follow what no rule of scheduling looks at."""
    state = state_of(name, snapshot)
    return state.node is not None and not state.is_ending


def _tell(
    ledger: Ledger, snapshot: Snapshot, changes: int, unplaced: tuple[Unplaced, ...], turn: Turn
) -> tuple[dict[str, Backoff], tuple[Unscheduled, ...]]:
    """A pod without a place backs off, and its condition says why if that is new."""
    now, backoffs = snapshot.now, dict(ledger.backoffs)
    told = []
    for each in unplaced:
        pod, why = each.pod, each.why
        backoff = backoffs.get(pod.uid)
        if each.reason == "Unschedulable":
            backoff = after_failure(backoff, now, changes)
        backoff = backoff or Backoff(changes=changes)
        if backoff.message != why and (not backoff.message or now >= backoff.told_at + _TOLD_AGAIN_SECONDS):
            backoff = replace(backoff, message=why, told_at=now)
            since = now if pod.unschedulable_at is None else pod.unschedulable_at
            told.append(Unscheduled(seen(pod), since, why, each.reason))
            turn.tell(Note(about(pod), "FailedScheduling", why, "Warning"))
        backoffs[pod.uid] = backoff
    return backoffs, tuple(told)


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """The next look finds which pods are bound. A condition that could not be written is written again."""
    action, outcome = settled.action, settled.outcome
    if isinstance(action, BindPods):
        at = retry_at(outcome, snapshot.now, _UNKNOWN_SECONDS if isinstance(outcome, Unknown) else 0.0)
        failure = outcome.reason if isinstance(outcome, Refused) else ""
        return Decision(replace(ledger, is_back=True, hold_until=at, failure=failure), again_at=at)
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    if not isinstance(action, WritePodsUnscheduled):
        at = retry_at(outcome, snapshot.now, _PREEMPT_AGAIN_SECONDS)
        return Decision(replace(ledger, preempting=replace(ledger.preempting, after=at)), again_at=at)
    untold = {each.pod.uid for each in action.pods}
    backoffs = {uid: replace(each, message="") if uid in untold else each for uid, each in ledger.backoffs.items()}
    return Decision(replace(ledger, backoffs=backoffs))
