"""Where do pods go that name growth as their scheduler? Placed round by round, by min-cost flow, and bound. Does
nothing unless it is turned on.

    question: the queue, what is new of the fleet, room held for others → the keeper (`plan/flow/keeper`), meanwhile
    everything else goes on → plan: what is still true of its answer → BindPods, or PodScheduled=False

| a pod | then |
| --- | --- |
| has a place | BindPods, all of a round in one action beside the loop; the next round begins when it is back |
| – that has changed since the question: it is gone, closed or too full | nothing: it is placed again |
| – and a claim of it waits for a first consumer | the same action asks for its volume (`plan/flow/volumes`) |
| waits for volumes on its node | nobody else gets its room, until it is bound or goes back to the queue |
| is nominated to a node that takes it | bound there |
| is nominated to a node that others are leaving | nobody else gets their room |
| has none, and less important pods could make way | they do, if it is so set (`plan/flow/preemption`) |
| has none | PodScheduled=False, Unschedulable (so scale-up sees it), event FailedScheduling; again after a change |
| cannot be placed by growth | the same condition with reason SchedulerError: no machine is bought for it |
| was sent to a node that is gone or has uncounted pods, or bound by another | no more than a Conflict: placed again |
| runs, and another place costs less | it is moved there by eviction, if it is so set (`plan/flow/improvement`) |
| is of the default scheduler | growth's as well where it is so set, and only while kube-scheduler renews no Lease |

Room is held for pods that are planned onto, or nominated to, a node. A pod is told the same thing once, and another
thing not before half a minute. A round that got no answer in time is followed by smaller ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import BindPods, Unscheduled, WritePodsUnscheduled
from growth.model.decision import Decision, Note, Settled
from growth.model.gang import why_missing
from growth.model.outcome import Accepted, Refused, Unknown
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow.improvement import carry_out, comparison, does_anybody_hope, next_look
from growth.plan.flow.keeper import Keeper, RoundAnswer, RoundProblem
from growth.plan.flow.preemption import NOBODY, Preempting, Wanting, Wishes, is_leaving, make_way, wishes
from growth.plan.flow.queue import (
    Backoff,
    Queue,
    Tried,
    Unplaced,
    after_failure,
    beside_kube_scheduler,
    gang_needs,
    groups_of,
    is_ours,
    line_up,
)
from growth.plan.flow.still_true import closed_nodes, counted_beside, held_room, is_open, still_true, with_held_room
from growth.plan.flow.volumes import volume_waits, with_volumes
from growth.plan.world.capacity import assignments, in_force
from growth.plan.world.nodes import Prices
from growth.plan.world.turn import Turn, about, retry_at, seen
from growth.solver.flow import Group
from growth.solver.flow.changes import FleetState

_TOLD_AGAIN_SECONDS: Final = 30.0
_PREEMPT_AGAIN_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 1.0
_MOST_SILENCES: Final = 4
_UNKNOWN_SECONDS: Final = 5.0  # a bind without an answer: the watch shows by then what became of it


class Ledger(Struct, frozen=True):
    """All of it may be lost."""

    fleet: FleetState = FleetState()  # what the keeper has been told
    backoffs: Mapping[str, Backoff] = {}  # by UID
    under_way: Mapping[str, str] = {}  # by UID: the node that each is being bound to
    is_back: bool = True  # the outcome of the last binds has come
    hold_until: float = 0.0
    failure: str = ""  # why the API server refused a bind
    preempting: Preempting = Preempting()
    silences: int = 0  # rounds in a row without an answer
    improve_at: float = 0.0  # when running pods are looked at again
    told: str = ""  # whether the pods of the default scheduler are growth's: the reason that was given last


class AskedRound(Struct, frozen=True):
    """One round, as it was asked."""

    problem: RoundProblem | None  # None: nobody is due, nothing is asked
    queue: Queue
    fleet: FleetState  # after the problem was told
    wished: Wishes  # who may preempt, if the round leaves it
    hands: tuple[tuple[Group, list[Pod]], ...] = ()  # the groups of the problem, with their pods


def question(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> AskedRound | None:
    """None: no round begins now."""
    settings = in_force(settings, snapshot)
    scheduler = settings.scheduler
    if not scheduler.enabled or not ledger.is_back or snapshot.now < ledger.hold_until:
        return None
    if not any(is_ours(pod, scheduler) for pod in snapshot.waiting_pods):
        return _comparing(AskedRound(None, Queue(), ledger.fleet, NOBODY), snapshot, ledger, settings)
    assigned = assignments(snapshot)
    held = held_room(snapshot, settings, assigned)
    pods_by_node = with_held_room(snapshot, held)
    fleet, change = ledger.fleet.follow(snapshot.nodes, pods_by_node, snapshot.volumes, snapshot.namespaces)
    waits = volume_waits(snapshot, scheduler)
    planned = {pod.key for each in assigned.expected for pod in each.planned} | waits.out
    backoffs = _welcome(ledger, snapshot, Turn()).backoffs
    smaller = replace(scheduler, pods_per_round=max(1, scheduler.pods_per_round >> (3 * ledger.silences)))
    queue = line_up(snapshot, planned, backoffs, fleet.changes, smaller)
    hands, nominated = _hands(queue, waits.ready, backoffs, snapshot)
    wanting = _wanting(snapshot, settings, hands, planned, Tried(backoffs, fleet.changes))
    holding = frozenset(pod.uid for pods in held.values() for pod in pods)
    wished = wishes(wanting, ledger.preempting, holding, snapshot, settings)
    if not queue.due and not wished.wanting:
        idle = AskedRound(None, queue, ledger.fleet, wished)
        return _comparing(idle, snapshot, ledger, settings) or idle
    problem = RoundProblem(
        change,
        scheduler,
        tuple(group for group, _ in hands),
        nominated,
        tuple(_expecting(snapshot, settings)),
        gang_needs(queue, snapshot, assigned),
        closed_nodes(snapshot),
        _prices(snapshot, settings),
        wished,
    )
    return AskedRound(problem, queue, fleet, wished, hands)


def _comparing(idle: AskedRound, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> AskedRound | None:
    """Nobody is to be placed: are running pods where they should be?"""
    is_due = settings.scheduler.improves and 0.0 < ledger.improve_at <= snapshot.now
    if not is_due or does_anybody_hope(snapshot, settings.scheduler):
        return None
    here = with_held_room(snapshot, held_room(snapshot, settings, assignments(snapshot)))
    fleet, change = ledger.fleet.follow(snapshot.nodes, here, snapshot.volumes, snapshot.namespaces)
    problem = RoundProblem(change, settings.scheduler, comparison=comparison(snapshot, settings))
    return replace(idle, problem=problem, fleet=fleet)


def _hands(
    queue: Queue, ready: Collection[str], backoffs: Mapping[str, Backoff], snapshot: Snapshot
) -> tuple[tuple[tuple[Group, list[Pod]], ...], dict[int, str]]:
    """Groups with their pods; each pod that may go to the node it is nominated to is a group of its own, and these come
    first. `ready`: UIDs of pods that have waited for volumes; of gangs, these alone have nodes.
    """

    def groups(due: Iterable[Pod]) -> list[tuple[Group, list[Pod]]]:
        return groups_of(replace(queue, due=tuple(due)), snapshot.now, backoffs)

    sent = [pod for pod in queue.due if is_open(pod.nominated_node, snapshot)]
    sent = [pod for pod in sent if pod.uid not in queue.gang_of or pod.uid in ready]
    names = {pod.uid for pod in sent}
    alone = [each for pod in sent for each in groups((pod,))]
    others = groups(pod for pod in queue.due if pod.uid not in names)
    return (*alone, *others), {number: pod.nominated_node for number, pod in enumerate(sent)}


def _wanting(
    snapshot: Snapshot,
    settings: Settings,
    hands: tuple[tuple[Group, list[Pod]], ...],
    planned: Collection[str],
    tried: Tried,
) -> Iterator[Wanting]:
    """Pods that have no place in the fleet as it is now, or may be left without one by this round."""
    asked = {pod.uid: (number, at) for number, (_, pods) in enumerate(hands) for at, pod in enumerate(pods)}
    for pod in snapshot.waiting_pods:
        if pod.key in planned or not is_ours(pod, settings.scheduler):
            continue
        if pod.uid in asked:
            yield Wanting(pod, *asked[pod.uid])
        elif tried.without_success(pod):
            yield Wanting(pod)


def _expecting(snapshot: Snapshot, settings: Settings) -> Iterator[Pod]:
    """Pods of ours that are nominated to a node which others are leaving: the room is theirs in this round."""
    for pod in snapshot.waiting_pods:
        name = pod.nominated_node
        if name and name in snapshot.nodes and is_ours(pod, settings.scheduler) and is_leaving(name, snapshot):
            yield replace(pod, node_name=name)


def _prices(snapshot: Snapshot, settings: Settings) -> dict[str, float]:
    if settings.scheduler.cost_model != "cheapest":
        return {}
    prices = Prices(snapshot)
    return {name: prices.price(node) for name, node in snapshot.nodes.items()}


# ---------------------------------------------------------------------------------------- its answer


def plan(
    snapshot: Snapshot,
    ledger: Ledger,
    settings: Settings,
    question: AskedRound | None = None,
    answer: RoundAnswer | None = None,
) -> Decision[Ledger]:
    """The snapshot may be later than that of the question."""
    turn = Turn()
    ledger = replace(ledger, told=beside_kube_scheduler(ledger.told, snapshot, settings.scheduler, turn))
    settings = in_force(settings, snapshot)
    if not settings.scheduler.enabled or not ledger.is_back:
        return turn.decision(ledger)
    ledger = _welcome(ledger, snapshot, turn)
    if snapshot.now < ledger.hold_until:
        turn.wake(ledger.hold_until)
        return turn.decision(ledger)
    if question is None:
        at = next_look(ledger.improve_at, snapshot, settings, turn)
        return turn.decision(replace(ledger, backoffs={}, improve_at=at))
    if question.problem is not None and (answer is None or answer.is_behind):
        is_silent = answer is None
        turn.wake(snapshot.now + _SILENT_SECONDS * is_silent)
        is_compared = is_silent and question.problem.comparison is not None
        return turn.decision(
            replace(
                ledger,
                fleet=ledger.fleet.forgotten(),
                silences=min(_MOST_SILENCES, ledger.silences + is_silent),
                improve_at=next_look(0.0, snapshot, settings, turn) if is_compared else ledger.improve_at,
            )
        )
    return _carried_out(question, answer or RoundAnswer(), snapshot, ledger, settings, turn)


def _carried_out(
    question: AskedRound, answer: RoundAnswer, snapshot: Snapshot, ledger: Ledger, settings: Settings, turn: Turn
) -> Decision[Ledger]:
    scheduler, queue, changes = settings.scheduler, question.queue, question.fleet.changes
    chosen, waits = _chosen(question, answer), volume_waits(snapshot, scheduler)
    true = still_true(chosen, queue, question.fleet, snapshot, settings)
    placed, too_late = with_volumes(true, queue.gang_of, snapshot)
    if placed:
        turn.do(BindPods(placed, scheduler.parallel_binds, counted_beside(placed, snapshot)))
    elif queue.has_more or chosen:
        turn.wake(snapshot.now)
    turn.wake(queue.again_at, waits.again_at)
    waiting = {pod.uid: pod for pod in snapshot.waiting_pods}
    unplaced = [
        replace(each, pod=waiting[each.pod.uid])
        for each in (*_left(question, answer, snapshot, ledger.backoffs), *queue.unfit, *too_late, *waits.over)
        if each.pod.uid in waiting
    ]
    backoffs, told = _tell(ledger, snapshot, changes, unplaced, turn)
    if told:
        turn.do(WritePodsUnscheduled(told, scheduler.parallel_binds))
    if answer.moves:
        carry_out(answer.moves, question.fleet, snapshot, settings, turn)
    is_compared = question.problem is not None and question.problem.comparison is not None
    return turn.decision(
        Ledger(
            question.fleet,
            backoffs,
            {each.pod.uid: each.node_name for each in placed},
            is_back=not placed,
            preempting=make_way(answer.ways, question.wished, ledger.preempting, snapshot, turn),
            silences=ledger.silences if queue.has_more else 0,
            improve_at=next_look(0.0 if is_compared else ledger.improve_at, snapshot, settings, turn),
            told=ledger.told,
        )
    )


def plan_on_the_spot(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    """Question, answer and plan at once."""
    asked = question(snapshot, ledger, settings)
    problem = None if asked is None else asked.problem
    answer = None if problem is None else Keeper(ledger.fleet)(problem)
    return plan(snapshot, ledger, settings, asked, answer)


def _chosen(question: AskedRound, answer: RoundAnswer) -> list[tuple[Pod, str]]:
    """Which pod goes to which node, in the order in which the rules hold: the oldest of a group first."""
    alone = [question.hands[number][1][0] for number in sorted(answer.nominated)]
    sent = [(pod, pod.nominated_node) for pod in alone]
    oldest_first = [iter(pods) for _, pods in question.hands]
    placed = answer.placed.placed
    return [*sent, *((next(oldest_first[one.group]), one.node) for one in placed for _ in range(one.count))]


def _left(
    question: AskedRound, answer: RoundAnswer, snapshot: Snapshot, backoffs: Mapping[str, Backoff]
) -> list[Unplaced]:
    return [
        Unplaced(pod, why_missing(pod, snapshot) or _also(one.reason, backoffs.get(pod.uid)))
        for one in answer.placed.left
        for pod in question.hands[one.group][1][-one.count :]
    ]


def _also(reason: str, backoff: Backoff | None) -> str:
    avoided = ", ".join(backoff.avoided) if backoff is not None else ""
    return f"no volume could be made for node {avoided}; of all nodes: {reason}" if avoided else reason


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
        if _is_asked_for(waiting[uid], sent[uid]):
            told = f"waits on node {sent[uid]} for volumes of its own, or of its gang"
            turn.tell(Note(about(waiting[uid]), "WaitingForVolumes", told))
            continue
        backoffs[uid] = after_failure(backoffs.get(uid), snapshot.now, changes=-1)
        if ledger.failure:
            text = f"could not be bound to {sent[uid]}: {ledger.failure}"
            turn.tell(Note(about(waiting[uid]), "FailedBinding", text, "Warning"))
    return replace(ledger, backoffs=backoffs, under_way={}, failure="")


def _is_asked_for(pod: Pod, node: str) -> bool:
    """It was not sent to be bound: volumes were asked for there, or others of its gang have some."""
    return pod.volumes_asked_at is not None and pod.nominated_node == node


def _tell(
    ledger: Ledger, snapshot: Snapshot, changes: int, unplaced: Iterable[Unplaced], turn: Turn
) -> tuple[dict[str, Backoff], tuple[Unscheduled, ...]]:
    """A pod without a place backs off, and its condition says why if that is new."""
    now, backoffs = snapshot.now, dict(ledger.backoffs)
    told = []
    for each in unplaced:
        pod, why, backoff = each.pod, each.why, backoffs.get(each.pod.uid)
        if each.is_withdrawn and backoff is not None and _is_being_withdrawn(each, backoff, now):
            turn.wake(backoff.told_at + _TOLD_AGAIN_SECONDS)
            continue
        if each.is_withdrawn or (backoff is not None and backoff.avoided):
            backoff = _placed_anew(each, backoff, now)
            turn.wake(backoff.until)
        elif each.reason == "Unschedulable":
            backoff = after_failure(backoff, now, changes)
        backoff = backoff or Backoff(changes=changes)
        is_late = not backoff.message or now >= backoff.told_at + _TOLD_AGAIN_SECONDS
        if each.is_withdrawn or (backoff.message != why and is_late):
            backoff = replace(backoff, message=why, told_at=now)
            since = now if pod.unschedulable_at is None else pod.unschedulable_at
            told.append(Unscheduled(seen(pod), since, why, each.reason, each.is_withdrawn))
            turn.tell(Note(about(pod), "FailedScheduling", why, "Warning"))
        backoffs[pod.uid] = backoff
    return backoffs, tuple(told)


def _is_being_withdrawn(each: Unplaced, backoff: Backoff, now: float) -> bool:
    """Was it told just now, so that the write may still be under way?"""
    was_told = backoff.message == each.why and backoff.told_at >= (each.pod.volumes_asked_at or 0.0)
    return was_told and now < backoff.told_at + _TOLD_AGAIN_SECONDS


def _placed_anew(each: Unplaced, before: Backoff | None, now: float) -> Backoff:
    """It is tried again whether or not anything changes: elsewhere first, where no volume could be made; then there."""
    known = before.avoided if before is not None else ()
    avoided = tuple(dict.fromkeys((*known, each.avoided))) if each.avoided else ()
    return replace(after_failure(before, now, changes=-1), avoided=avoided)


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
