"""For how long is an offering struck out that could not be had, and for which demands is nothing bought for now? Asked
by provisioning and scale-up. Read off the records, so that a restart forgets nothing.

| a record of the offering | says |
| --- | --- |
| Unmet | struck out until its `expiresAt` |
| Provisioning or Ready, newer | the provider has some again: it is over |

The first strike lasts the setting's seconds, after orders without an answer twice that, since a machine may still
come; each further one lasts twice as long as the one before, up to the longest. Where such orders leave less under a
limit than they are themselves, it lasts a minute longer than they count: when the limit is free again it is the turn
of others, else the same would be ordered, and count, for ever.
Several refusals in one strike are one. An Unmet record is kept as long again as it lasted, so that the next one knows.

Machines that came in vain are counted for each pool (`plan/world/trials`). A class of pods that goes on missing, while
the pool serves others, waits; after each pause one pod of it is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import WriteNodeRequestStatus
from growth.model.api import LifeEvent
from growth.model.decision import About, Note
from growth.model.gang import name_of_gang
from growth.model.instant import format_instant, since
from growth.model.node import STARTUP_TAINT, Node
from growth.model.noderequest import (
    ACCEPTED,
    DEPROVISIONING,
    PENDING,
    PROVISIONING,
    READY,
    UNANSWERED,
    UNMET,
    WITHDRAWN,
    NodeRequest,
    NodeRequestStatus,
    classes_of,
    with_classes,
)
from growth.model.outcome import Outcome, TryLater
from growth.model.pod import Pod, PodShape, class_checksum
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import BufferPlacement
from growth.plan.buffers.virtual_pods import planned_entries
from growth.plan.nodes_up.demand import Demand, gang_wait_seconds
from growth.plan.world.capacity import assignments
from growth.plan.world.limits import allowances_now, headroom, may_come_until
from growth.plan.world.market import unmet_until
from growth.plan.world.nodes import is_initialised, readiness_wait_seconds, working_pods
from growth.plan.world.orders import NOT_USED_EVENT, USED_EVENT, needs_pods, verdict
from growth.plan.world.pools import OfferingKey, by_key
from growth.plan.world.trials import (
    FAILURES_BEFORE_PAUSE,
    MEMORY_SECONDS,
    TAKING_SECONDS,
    Pause,
    Standing,
)
from growth.plan.world.turn import about, instant_of, life_event, seen, with_events, with_request_phase
from growth.solver.rules.fit import fits_alone, free_amounts
from growth.solver.rules.taints import stays_under

_MOST_FOR_A_BUFFER: Final = 3


def place_of(request: NodeRequest) -> OfferingKey:
    return (request.spec.target_offering, request.spec.location)


def strikes(requests: Iterable[NodeRequest]) -> Mapping[OfferingKey, NodeRequest]:
    """By offering and location: the latest Unmet, the first of those that struck it out together."""
    found: dict[OfferingKey, NodeRequest] = {}
    for request in sorted(requests, key=lambda each: (each.changed_at, each.name)):
        place = place_of(request)
        known = found.get(place)
        if request.phase in (PROVISIONING, READY):
            found.pop(place, None)
        elif request.phase == UNMET and (known is None or known.status.expires_at != request.status.expires_at):
            found[place] = request
    return found


def struck_until(strike: NodeRequest | None, now: float, settings: Settings, *, may_come: bool = False) -> float:
    """Until when one more refusal strikes the offering out; `may_come`: it was no answer, and a machine may follow."""
    shortest = settings.unmet_seconds * (2 if may_come else 1)
    if strike is None:
        return now + shortest
    until = unmet_until(strike, now, shortest)
    if until > now:
        return until
    return now + min(2 * strike_seconds(strike, settings), max(shortest, settings.unmet_longest_seconds))


def strike_seconds(strike: NodeRequest, settings: Settings) -> float:
    return max(
        settings.unmet_seconds, unmet_until(strike, strike.changed_at, settings.unmet_seconds) - strike.changed_at
    )


# ------------------------------------------------------------------------------ was a machine of use?

NOT_USED: Final = f"Ready for {TAKING_SECONDS:.0f} s, and took none of the pods it was bought for"
_TOOK: Final = "took pods"
_SCHEDULER_SECONDS: Final = 30.0  # so long a pod has waited before a node is blamed for not taking it


def arrival(request: NodeRequest, node: Node, snapshot: Snapshot) -> tuple[LifeEvent, ...]:
    """What is written when it serves: also for which classes of pods it was bought, for they may be gone soon."""
    now, classes = snapshot.now, _planned_classes(request, snapshot)
    used = judged(request, snapshot, is_due=False) if needs_pods(request) else None
    return (
        life_event(node.created_at, "nodeProvisioned"),
        life_event(now, "nodeLabelled"),
        life_event(now, "nodeReady", with_classes("bought for pods", classes) if classes else ""),
        *(() if used is None else (used,)),
    )


def judged(request: NodeRequest, snapshot: Snapshot, *, is_due: bool) -> LifeEvent | None:
    """Whether a machine that serves is of use, as an event of its record; None: not known, yet or ever. `is_due`: it
    has had its time to take a pod.
    """
    classes = _planned_classes(request, snapshot) or frozenset(classes_of(request))
    planned, here = frozenset(request.planned_pods), snapshot.pods_by_node.get(request.name, ())
    waiting = (pod for pod in snapshot.waiting_pods if pod.nominated_node == request.name)
    awaiting = (pod for pod in waiting if pod.volumes_asked_at is not None)  # it has its place: a volume is missing
    guests = [pod for pod in (*here, *awaiting) if not (pod.is_daemon or pod.is_mirror)]
    if any(
        pod.key in planned or class_checksum(pod.shape) in classes for pod in guests
    ):  # equal pods may change places
        return life_event(snapshot.now, USED_EVENT, with_classes(_TOOK, classes))
    runs_others = any(pod.phase == "Running" and not _comes_past_taints(pod) for pod in guests)
    missed = _missed(request, snapshot, classes) if is_due or runs_others else frozenset()
    if runs_others and not missed:  # its own pods are gone, or have a place: the machine works all the same
        return life_event(snapshot.now, USED_EVENT, with_classes(_TOOK, ()))
    if not is_due:
        return None
    return life_event(snapshot.now, NOT_USED_EVENT, with_classes(NOT_USED, missed)) if missed else None


def _comes_past_taints(pod: Pod) -> bool:
    """It runs wherever a kubelet does, and says nothing about others."""
    return stays_under((STARTUP_TAINT,), pod.shape.tolerations)


def _planned_classes(request: NodeRequest, snapshot: Snapshot) -> frozenset[str]:
    """Of its pods that wait, or stand on its node."""
    planned, here = frozenset(request.planned_pods), snapshot.pods_by_node.get(request.name, ())
    shapes = {pod.shape for pod in (*snapshot.waiting_pods, *here) if pod.key in planned}
    return frozenset(class_checksum(shape) for shape in shapes)


def _missed(request: NodeRequest, snapshot: Snapshot, classes: frozenset[str]) -> frozenset[str]:
    """Classes of the pods it was bought for that still wait; while its node is there, of pods made anew as well."""
    planned, long_ago = frozenset(request.planned_pods), snapshot.now - _SCHEDULER_SECONDS
    waiting = [pod for pod in snapshot.waiting_pods if pod.deleted_at is None and not pod.is_gated]
    missed = {pod.shape for pod in waiting if pod.key in planned}
    if missed or request.name not in snapshot.nodes or request.name in snapshot.removals:
        return frozenset(class_checksum(shape) for shape in missed)
    patient = {pod.shape for pod in waiting if pod.unschedulable_at is not None and pod.unschedulable_at <= long_ago}
    return frozenset(class_checksum(shape) for shape in patient) & classes


def serves_by(request: NodeRequest, snapshot: Snapshot, settings: Settings) -> float:
    """When the node of a machine that was accepted must serve; one that is ready for its pods has as long again."""
    node, pool = snapshot.nodes.get(request.name), snapshot.pools.get(request.spec.pool)
    given, now = readiness_wait_seconds(pool, settings), snapshot.now
    is_nearly_there = node is not None and is_initialised(node, request, pool)
    for_pods = given + gang_wait_seconds(request, snapshot, settings)
    began_at = since(now, request.changed_at, request.created_at, otherwise=now)
    return began_at + given + (for_pods if is_nearly_there else 0)


def is_remembered(request: NodeRequest, snapshot: Snapshot) -> bool:
    """Does the pool's status know by now that this machine was in vain?"""
    pool, shown = snapshot.pools.get(request.spec.pool), verdict(request)
    if pool is None or shown is None or not shown.cause or snapshot.now >= shown.at + MEMORY_SECONDS:
        return True
    return any(trial.request == request.name and trial.cause for trial in pool.status.trials.in_vain)


# ------------------------------------------------------------------- orders that do not come true

RETRY_FIRST_SECONDS: Final = 2.0
_RETRY_LONGEST_SECONDS: Final = 60.0
_SILENCE_SECONDS: Final = 30.0  # so long nobody is told
STARTED_ANEW: Final = "growth was started anew, and may have ordered it before"
_MOST_UNANSWERED: Final = 3  # then another offering is tried
_TURN_SECONDS: Final = 60.0  # others have it to themselves, when a limit is free again


class Retry(Struct, frozen=True):
    """A launch without a result."""

    at: float
    seconds: float
    asked_at: float
    since: float


def next_try(before: Retry | None, outcome: Outcome, now: float) -> Retry:
    """Ever less often, and not before the provider says."""
    seconds = min(_RETRY_LONGEST_SECONDS, RETRY_FIRST_SECONDS if before is None else before.seconds * 2)
    if isinstance(outcome, TryLater):
        seconds = max(seconds, outcome.retry_after_seconds)
    return Retry(now + seconds, seconds, now, now if before is None else before.since)


def accepted(request: NodeRequest, machine_id: str, now: float, reason: str = "") -> NodeRequestStatus:
    status = with_request_phase(request.status, PROVISIONING, now, life_event(now, ACCEPTED, reason))
    return replace(status, node_id=request.name, machine_id=machine_id or request.status.machine_id)


def unanswered(request: NodeRequest, reason: str, now: float) -> NodeRequest:
    """With an order more of which nobody knows what came of it."""
    events = with_events(request.status.events, life_event(now, UNANSWERED, reason))
    return replace(request, status=replace(request.status, events=events))


def withdrawn(request: NodeRequest, now: float) -> NodeRequestStatus:
    """Nobody needs it any more, but an order may have been made: a machine that still comes must find a record."""
    doubted = request if request.unanswered else unanswered(request, STARTED_ANEW, now)
    event = life_event(now, WITHDRAWN, "not needed any more; a machine that an earlier order brings goes as well")
    return with_request_phase(doubted.status, DEPROVISIONING, now, event)


def unmet(
    request: NodeRequest, reason: str, snapshot: Snapshot, settings: Settings
) -> tuple[WriteNodeRequestStatus, tuple[Note, ...]]:
    """The offering is struck out for every pool; the pods are planned again at once, onto the next best."""
    now, place = snapshot.now, place_of(request)
    recorded = snapshot.requests.get(request.name, request)
    strike, may_come = strikes(snapshot.requests.values()).get(place), bool(recorded.unanswered)
    ends_at = struck_until(strike, now, settings, may_come=may_come)
    if may_come and _crowds_out(place, recorded, snapshot, settings):
        ends_at = max(ends_at, may_come_until(recorded) + _TURN_SECONDS)
    until = format_instant(ends_at)
    status = with_request_phase(request.status, UNMET, now, life_event(now, "nodeRequestFailed", reason))
    message = f"{place[0]} in {place[1]} cannot be had now, struck out until {until}: {reason}"
    notes = tuple(Note(each, "Unmet", message, "Warning") for each in concerned(request, snapshot))
    return WriteNodeRequestStatus(seen(request), replace(status, expires_at=until)), notes


def _crowds_out(place: OfferingKey, request: NodeRequest, snapshot: Snapshot, settings: Settings) -> bool:
    """Could what still counts of this offering, because it may come, be had of another one if it did not count?"""
    offering, pool = by_key(snapshot.offerings).get(place), request.spec.pool
    silent = (each for each in snapshot.requests.values() if each.unanswered and place_of(each) == place)
    count = sum(each.phase in (PENDING, UNMET) and snapshot.now < may_come_until(each) for each in silent)
    covering = (each for each in allowances_now(snapshot, settings) if each.covers(pool, place[0]))
    return offering is not None and any(
        headroom(each, offering.allocatable, offering.price_per_hour) < count for each in covering
    )


def concerned(request: NodeRequest, snapshot: Snapshot) -> tuple[About, ...]:
    """Who is told of a purchase that did not come true: the request, its pool, and the pods that wait for it."""
    pool, planned = snapshot.pools.get(request.spec.pool), set(request.planned_pods)
    about_pool = About("NodePool", request.spec.pool, uid=pool.uid if pool is not None else "")
    return (about(request), about_pool, *(about(pod) for pod in snapshot.waiting_pods if pod.key in planned))


def told_at(request: NodeRequest, now: float) -> float | None:
    """When people must hear that an order has no answer; None: there is none, or they have."""
    at = (instant_of(request.unanswered[0].at) or now) + _SILENCE_SECONDS if request.unanswered else now
    return at if at > now else None


def is_silent(request: NodeRequest, now: float) -> bool:
    """Was it ordered so often without an answer, and for so long that people have heard of it?"""
    return len(request.unanswered) >= _MOST_UNANSWERED and told_at(request, now) is None


def awaits_list_until(request: NodeRequest, now: float) -> float:
    """For a process that does not know of the orders before: so long only the list is awaited, which is to say whether
    they brought a machine. One more order would put that off.
    """
    if not is_silent(request, now):
        return 0.0
    return (instant_of(request.unanswered[-1].at) or request.changed_at) + _RETRY_LONGEST_SECONDS


def of_silence(request: NodeRequest, snapshot: Snapshot) -> tuple[Note, ...]:
    orders, place = request.unanswered, place_of(request)
    if not orders or told_at(request, snapshot.now) is not None:
        return ()
    message = f"{place[0]} in {place[1]} was ordered and there is no answer: {orders[-1].reason}"
    return tuple(Note(each, "NoAnswer", message, "Warning") for each in concerned(request, snapshot))


def of_hold(request: NodeRequest, outcome: Outcome, since: float, snapshot: Snapshot) -> tuple[Note, ...]:
    """The order has not left: growth is not sure enough of the world to spend money."""
    if not isinstance(outcome, TryLater) or snapshot.now - since < _SILENCE_SECONDS:
        return ()
    message = f"{place_of(request)[0]} is not ordered for now: {outcome.reason}"
    return tuple(Note(each, "OrderHeld", message, "Warning") for each in concerned(request, snapshot))


def is_needed(request: NodeRequest, snapshot: Snapshot) -> bool:
    """Does a pod it was bought for wait that has no other place?"""
    waiting = {pod.key for pod in snapshot.waiting_pods if pod.deleted_at is None}
    return bool((waiting & set(request.planned_pods)) - assignments(snapshot).keys)


# ------------------------------------------------------------------------------ classes that miss


class Held(Struct, frozen=True):
    """Machines were bought in vain for pods like this one."""

    until: float | None  # None: until it is known what came of a machine that is being tried
    cause: str

    @property
    def message(self) -> str:
        then = "one machine is being tried" if self.until is None else f"tried again at {format_instant(self.until)}"
        return f"no place for this pod: machines were bought in vain for pods like it: {self.cause}; {then}"


def held_back(demands: Iterable[Demand], standings: Mapping[str, Standing], snapshot: Snapshot) -> dict[str, Held]:
    """By name, demands for which nothing is bought now. Of a class whose pause is over one pod is tried, the oldest, or
    its whole gang.
    """
    doubted, held = list(_doubted(demands, standings)), dict[str, Held]()
    tried = dict.fromkeys(_being_tried(snapshot), "") if doubted else {}
    for demand, key, pause in doubted:
        cause = "" if pause.latest is None else pause.latest.cause
        if snapshot.now < pause.until:
            held[demand.name] = Held(pause.until, cause)
        elif tried.setdefault(key, gang := name_of_gang(demand.pod, snapshot.pod_groups) or demand.name) != gang:
            held[demand.name] = Held(None, cause)
    return held


def doubted_gangs(demands: Iterable[Demand], standings: Mapping[str, Standing], snapshot: Snapshot) -> frozenset[str]:
    """Gangs for whose pods machines came in vain."""
    names = (name_of_gang(demand.pod, snapshot.pod_groups) for demand, _, _ in _doubted(demands, standings))
    return frozenset(name for name in names if name)


def _doubted(demands: Iterable[Demand], standings: Mapping[str, Standing]) -> Iterator[tuple[Demand, str, Pause]]:
    """Those whose class fails in all of its pools, the oldest first, with the class and how long it pauses."""
    failing = {
        (name, key): pause
        for name, standing in standings.items()
        for key, pause in standing.classes.items()
        if pause.in_a_row >= FAILURES_BEFORE_PAUSE
    }
    known: dict[PodShape, str] = {}
    for demand in sorted(demands, key=lambda each: (each.pod.created_at, each.pod.key)) if failing else ():
        shape = demand.pod.shape
        key = known[shape] = known.get(shape) or class_checksum(shape)
        pauses = [failing[name, key] for name in demand.pools if (name, key) in failing]
        if pauses and len(pauses) == len(demand.pools):
            yield demand, key, min(pauses, key=lambda each: each.until)


def _being_tried(snapshot: Snapshot) -> set[str]:
    """Classes of pods for which a machine is on its way, or is still to show whether it takes them."""
    waiting = {pod.key: pod for pod in snapshot.waiting_pods}
    open_requests = (
        each
        for each in snapshot.requests.values()
        if each.is_in_flight or (each.phase == READY and verdict(each) is None)
    )
    shapes = {waiting[key].shape for each in open_requests for key in each.planned_pods if key in waiting}
    return {class_checksum(shape) for shape in shapes}


def buffers_in_vain(placed: BufferPlacement, snapshot: Snapshot) -> frozenset[str]:
    """Buffers for which three machines came, empty, and have no room for a single chunk: a fourth would not either."""
    shapes = {served.key: served.shape for served in placed.buffers}
    failed: Counter[str] = Counter()
    for name, request in snapshot.requests.items():
        node = snapshot.nodes.get(name)
        if request.phase != READY or node is None or working_pods(snapshot, name):
            continue
        free = free_amounts(
            node.allocatable, (pod.shape for pod in snapshot.pods_by_node.get(name, ()) if not pod.is_finished)
        )
        bought_for = [key for key in planned_entries(request.planned_pods) if key in shapes]
        failed.update(key for key in bought_for if not fits_alone(shapes[key], node, free))
    return frozenset(key for key, count in failed.items() if count >= _MOST_FOR_A_BUFFER)
