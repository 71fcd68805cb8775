"""Where do pods go that name growth as their scheduler? Placed round by round, by min-cost flow, and bound. Does
nothing unless it is turned on.

    queue (plan/flow/queue) → fleet as it is now, with room held for others → solver/flow → BindPods, or PodScheduled=False with the reason

| a pod | then |
| --- | --- |
| has a place | BindPods, all of a round in one action beside the loop; the next round begins when it is back |
| is nominated to a node that takes it | bound there |
| has none | condition PodScheduled=False, Unschedulable, and event FailedScheduling: so scale-up sees it as a demand; tried again when something changes |
| cannot be placed by growth | the same condition with reason SchedulerError: no machine is bought for it |
| was sent to a node that is gone, or bound by another | no more than a Conflict: it is placed again |

Room is held for pods that are planned onto, or nominated to, a node. A pod is told the same thing once, and another
thing not before half a minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, Assignment, BindPods, Unscheduled, WritePodsUnscheduled
from growth.model.decision import Decision, Settled
from growth.model.note import Note
from growth.model.outcome import Accepted, Refused, TryLater, Unknown
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow.queue import Queue, Wait, after_failure, gang_needs, groups_of, is_ours, line_up
from growth.plan.world.capacity import assignments
from growth.plan.world.nodes import Prices, state_of
from growth.plan.world.records import about_pod, seen_pod, sooner
from growth.solver.flow import Fleet, Round, place

_TOLD_AGAIN_SECONDS: Final = 30.0
_UNKNOWN_SECONDS: Final = 5.0  # a bind without an answer: the watch shows by then what became of it


class Ledger(Struct, frozen=True):
    """All of it may be lost. The fleet is a copy of what snapshots say, kept so that only changes are read."""

    fleet: Fleet | None = None
    waits: Mapping[str, Wait] = {}  # by UID
    under_way: Mapping[str, str] = {}  # by UID: the node that each is being bound to
    is_back: bool = True  # the outcome of the last binds has come
    hold_until: float = 0.0
    failure: str = ""  # why the API server refused a bind


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    scheduler = settings.scheduler
    if not scheduler.enabled or not ledger.is_back:
        return Decision(ledger)
    ledger, notes = _welcome(ledger, snapshot)
    if snapshot.now < ledger.hold_until:
        return Decision(ledger, notes=notes, again_at=ledger.hold_until)
    if not any(is_ours(pod, scheduler) for pod in snapshot.waiting_pods):
        return Decision(replace(ledger, waits={}), notes=notes)
    fleet = ledger.fleet or Fleet()
    planned = _follow(fleet, snapshot, settings)
    queue = line_up(snapshot, planned, ledger.waits, fleet.changes, scheduler)
    assigned, left = _place(fleet, queue, snapshot, settings)
    waits, told = _told(ledger, snapshot, fleet.changes, left, queue)
    actions: list[Action] = []
    if assigned:
        actions.append(
            BindPods(tuple(Assignment(seen_pod(pod), node) for pod, node in assigned), scheduler.parallel_binds)
        )
    if told:
        actions.append(WritePodsUnscheduled(tuple(each for each, _ in told), scheduler.parallel_binds))
    after = Ledger(fleet, waits, {pod.uid: node for pod, node in assigned}, is_back=not assigned)
    again = sooner(queue.again_at, snapshot.now if queue.has_more and not assigned else None)
    return Decision(after, tuple(actions), (*notes, *(note for _, note in told)), again)


def _welcome(ledger: Ledger, snapshot: Snapshot) -> tuple[Ledger, tuple[Note, ...]]:
    """Who has arrived is told so; who has not is placed again in a moment. Those who wait no longer are forgotten."""
    sent = ledger.under_way
    arrived = [
        pod
        for node in dict.fromkeys(sent.values())
        for pod in snapshot.pods_by_node.get(node, ())
        if sent.get(pod.uid) == node
    ]
    notes = [
        Note(about_pod(pod), "Scheduled", f"Successfully assigned {pod.key} to {pod.node_name}") for pod in arrived
    ]
    waiting = {pod.uid: pod for pod in snapshot.waiting_pods}
    waits = {uid: wait for uid, wait in ledger.waits.items() if uid in waiting}
    for uid in (uid for uid in sent if uid in waiting):
        waits[uid] = after_failure(waits.get(uid), snapshot.now, changes=-1)
        if ledger.failure:
            notes.append(
                Note(
                    about_pod(waiting[uid]),
                    "FailedBinding",
                    f"could not be bound to {sent[uid]}: {ledger.failure}",
                    "Warning",
                )
            )
    return replace(ledger, waits=waits, under_way={}, failure=""), tuple(notes)


def _follow(fleet: Fleet, snapshot: Snapshot, settings: Settings) -> set[str]:
    """The fleet as it is now, room for others held; returns the keys of pods that are planned onto a machine on its
    way.
    """
    assigned = assignments(snapshot)
    held: dict[str, list[Pod]] = {
        name: [pod for pod in pods if not is_ours(pod, settings.scheduler)] for name, pods in assigned.holders.items()
    }
    for each in assigned.expected:
        held.setdefault(each.node.name, []).extend(each.planned)
    pods_by_node = dict(snapshot.pods_by_node)
    for name, pods in held.items():
        if pods and name in snapshot.nodes:
            pods_by_node[name] = (*pods_by_node.get(name, ()), *(replace(pod, node_name=name) for pod in pods))
    fleet.follow(snapshot.nodes, pods_by_node, snapshot.volumes, snapshot.namespaces)
    return {pod.key for each in assigned.expected for pod in each.planned}


# ---------------------------------------------------------------------------------------- one round


def _place(
    fleet: Fleet, queue: Queue, snapshot: Snapshot, settings: Settings
) -> tuple[list[tuple[Pod, str]], list[tuple[Pod, str]]]:
    """(pod, node) for those that have a place, (pod, why) for those that have none."""
    sent = _to_their_nominations(fleet, queue, snapshot)
    hands = groups_of(replace(queue, due=tuple(pod for pod in queue.due if pod.uid not in sent)), snapshot.now)
    answer = place(
        fleet,
        [group for group, _ in hands],
        settings.scheduler,
        gang_needs(queue, snapshot, settings.scheduler),
        is_target=lambda node: _is_open(node.name, snapshot),
        price_of=Prices(snapshot).price,
    )
    for pod in sent.values():
        fleet.index.remove_pod(pod)
    return [(pod, pod.node_name) for pod in sent.values()] + _dealt(answer, [pods for _, pods in hands]), _left(
        answer, [pods for _, pods in hands]
    )


def _to_their_nominations(fleet: Fleet, queue: Queue, snapshot: Snapshot) -> dict[str, Pod]:
    """Pods that somebody nominated to a node which takes them now; their room is counted until the round ends."""
    sent: dict[str, Pod] = {}
    for pod in queue.due:
        name = pod.nominated_node
        may_go = _is_open(name, snapshot) and pod.uid not in queue.gang_of
        if may_go and fleet.index.fits_on(fleet.index.class_of_pod(pod), fleet.index.table.index[name]):
            sent[pod.uid] = replace(pod, node_name=name)
            fleet.index.add_pod(sent[pod.uid])
    return sent


def _is_open(name: str, snapshot: Snapshot) -> bool:
    """Asked of the snapshot: the fleet does not follow what no rule of scheduling looks at."""
    state = state_of(name, snapshot)
    return state.node is not None and not state.is_ending


def _dealt(answer: Round, hands: list[list[Pod]]) -> list[tuple[Pod, str]]:
    """In the order of the answer, the oldest of each group first."""
    turns = [iter(pods) for pods in hands]
    return [(next(turns[one.group]), one.node) for one in answer.placed for _ in range(one.count)]


def _left(answer: Round, hands: list[list[Pod]]) -> list[tuple[Pod, str]]:
    return [(pod, one.reason) for one in answer.left for pod in hands[one.group][-one.count :]]


def _told(
    ledger: Ledger, snapshot: Snapshot, changes: int, left: list[tuple[Pod, str]], queue: Queue
) -> tuple[dict[str, Wait], list[tuple[Unscheduled, Note]]]:
    """Who has no place waits, and is told why if that is news."""
    waits = dict(ledger.waits)
    told = []
    reasons = [(pod, why, "Unschedulable") for pod, why in left] + [
        (pod, why, "SchedulerError") for pod, why in queue.unfit
    ]
    for pod, why, reason in reasons:
        wait = waits.get(pod.uid)
        if reason == "Unschedulable":
            wait = after_failure(wait, snapshot.now, changes)
        wait = wait or Wait(changes=changes)
        if wait.message != why and (not wait.message or snapshot.now >= wait.told_at + _TOLD_AGAIN_SECONDS):
            wait = replace(wait, message=why, told_at=snapshot.now)
            since = snapshot.now if pod.unschedulable_at is None else pod.unschedulable_at
            told.append(
                (
                    Unscheduled(seen_pod(pod), since, why, reason),
                    Note(about_pod(pod), "FailedScheduling", why, "Warning"),
                )
            )
        waits[pod.uid] = wait
    return waits, told


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """The next look finds who is bound. What could not be told is told again."""
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    seconds = (
        outcome.retry_after_seconds
        if isinstance(outcome, TryLater)
        else _UNKNOWN_SECONDS
        if isinstance(outcome, Unknown)
        else 0.0
    )
    if isinstance(action, BindPods):
        failure = outcome.reason if isinstance(outcome, Refused) else ""
        return Decision(
            replace(ledger, is_back=True, hold_until=now + seconds, failure=failure), again_at=now + seconds
        )
    if isinstance(outcome, Accepted) or not isinstance(action, WritePodsUnscheduled):
        return Decision(ledger)
    untold = {each.pod.uid for each in action.pods}
    waits = {uid: replace(wait, message="") if uid in untold else wait for uid, wait in ledger.waits.items()}
    return Decision(replace(ledger, waits=waits))
