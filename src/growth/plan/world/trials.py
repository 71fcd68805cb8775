"""Does buying for this pool help? Asked before everything that is bought (for pods, buffers, `min`, replacement,
renewal), and by pool status, which writes the answer down.

A machine was bought in vain if it never became Ready, or if it took none of the pods it was bought for within five
minutes although such pods still wait. It was of use if one of them came (where none was planned: when it is Ready).
One whose pods are gone, or run elsewhere, says nothing unless others run there; one that waits for others of a gang is
of use so far. The NodeRequest says which (`verdict`); the pool's status keeps it for a day, so that neither a restart
nor a record that goes forgets it, and a NodeRequest stays until it is there.

| the pool | may have on its way |
| --- | --- |
| no machine of its template was ever of use | 5; what else pods need is planned, and waits for them |
| 2 in a row were in vain, or it was mended after that and nothing was of use since | 1 |
| 3 in a row were in vain | none for 5 min, twice as long after each further one, 2 h at most (1); then 1 |
| 3 became Ready a while ago and took none of their pods, which wait | none until each has had its five minutes |
| 20 in a day were in vain (from 10 on also those on their way) | none until a day has passed, mended or not |
| otherwise | any number |

(1) From 10 in a day on, longer if need be: so that 19 last for the day, and one is left for who mends the pool.

The same pauses hold for an offering that goes on failing: after each pause one of it is tried. And they hold for a
class of pods that goes on missing (its checksum leaves out labels and names that differ from pod to pod, so that pods
made anew are the same). An offering that has just failed is taken after all others, so that one that works is soon
found.

| an offering that failed, while another one of its pool has worked since | |
| --- | --- |
| 3 in a row were in vain | it says nothing more about the pool: it pauses, and the pool does not |
| from 10 in a day of the pool on: 2 in a row | the same, and they have turns: 15 must last for the day |
| from 10 in a day of the pool on: 1 | it is taken after all others, until the pool is mended |

So pods that can run are not held up by others that cannot: five of what works may always be on their way.

In a row is meant by when machines were ordered, not by when it was known: of three hundred that are ordered together,
the few that never become Ready are known last, and say nothing against the others. What was on its way when the third
failure of a day became known does not count among the twenty.

A pool is mended by a change of its spec or credentials, or of its annotation `growth.dev/retry`. Who has mended a pool
must see at once whether it works now: each mending buys one try. Five after a failure in a day are enough for a person;
what changes a pool more often, or makes it anew (`plan/pool_status`), is a program, and waits for the pause to end like
all others. A mending counts from when it stands in the status: where none can be written, none counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.instant import format_instant
from growth.model.node import TEMPLATE
from growth.model.nodepool import MOST_TRIALS, NodePool, PoolTrials, Trial
from growth.model.noderequest import READY, NodeRequest
from growth.model.pod import class_checksum
from growth.model.snapshot import EMPTY, Snapshot
from growth.plan.world.capacity import kept_for_gangs
from growth.plan.world.limits import Allowance
from growth.plan.world.orders import Verdict, verdict
from growth.plan.world.pools import OfferingKey
from growth.plan.world.swaps import template_digest
from growth.plan.world.turn import instant_of

TAKING_SECONDS: Final = 300.0  # so long after it is Ready a machine may take the first of its pods
MOST_AT_FIRST: Final = 5
FAILURES_BEFORE_ONE: Final = 2
FAILURES_BEFORE_PAUSE: Final = 3
MOST_IN_VAIN: Final = 20
MEMORY_SECONDS: Final = 86_400.0

_PAUSE_SECONDS: Final = 300.0
_LONGEST_PAUSE_SECONDS: Final = 7200.0
_SUSPICION_SECONDS: Final = 30.0
_MOST_SUSPECTS: Final = 3
_COUNTED_AHEAD: Final = 10  # so many in vain, and those on their way count as if they were
_MOST_UNMENDED: Final = 19  # of those
_MOST_BESIDE: Final = 15  # of those, where other offerings work: the rest is theirs


def _gathered(snapshot: Snapshot) -> dict[str, Verdict]:
    """Machines kept for a gang are of use so far. Nowhere written: if the others never come, they were in vain."""
    classes = {name: {class_checksum(pod.shape) for pod in pods} for name, pods in kept_for_gangs(snapshot).items()}
    return {name: Verdict(snapshot.now, classes=tuple(sorted(some))) for name, some in classes.items()}


# ------------------------------------------------------------------------------------- one pool


def trials_of(
    pool: NodePool, requests: Iterable[NodeRequest], now: float, gathered: Mapping[str, Verdict] = EMPTY
) -> PoolTrials:
    """What is written, and what the pool's NodeRequests have shown since."""
    known, shown = pool.status.trials, [(each, verdict(each) or gathered.get(each.name)) for each in requests]
    found = {each.request: _not_from_future(each, now) for each in known.in_vain}
    successes: list[tuple[NodeRequest, Verdict]] = []
    for request, seen in shown:
        if seen is not None and not seen.cause:
            successes.append((request, seen))
            found.pop(request.name, None)
        elif seen is not None and (request.name not in found or not found[request.name].cause):
            found[request.name] = _trial(request, min(seen.at, now), seen.cause, seen.classes)
    worked_at, template = _instant(known.worked_at), known.template
    newest = max((request.created_at for request, _ in successes), default=0.0)
    worked_ordered_at = max(_instant(known.worked_ordered_at), min(newest, now))
    for request, success in successes:
        at = min(success.at, now)
        found = {name: _after_success(each, request, success.classes) for name, each in found.items()}
        if at > worked_at:
            worked_at = at
            template = template_digest(pool.spec) if request.created_at >= _instant(known.mended_at) else template
    for request, seen in shown:  # what was bought after a pause, and says nothing, ends that pause's one try
        is_silent = seen is None and request.phase == READY and request.name not in found
        if is_silent and request.changed_at >= _pool_pause(found.values(), known, worked_ordered_at).until_if_failing:
            found[request.name] = _trial(request, min(request.changed_at, now))
    recent = (each for each in found.values() if _instant(each.at) > now - MEMORY_SECONDS)
    in_vain = tuple(sorted(recent, key=lambda each: (each.at, each.request)))[-MOST_TRIALS:]
    worked = [format_instant(at) if at else None for at in (worked_at, worked_ordered_at)]
    return replace(known, in_vain=in_vain, worked_at=worked[0], worked_ordered_at=worked[1], template=template)


def _trial(request: NodeRequest, at: float, cause: str = "", classes: tuple[str, ...] = ()) -> Trial:
    spec, ordered_at = request.spec, format_instant(min(request.created_at, at))
    place = spec.target_offering, spec.location
    return Trial(request.name, format_instant(at), *place, cause, classes, ordered_at=ordered_at)


def _not_from_future(trial: Trial, now: float) -> Trial:
    """A clock went back: it counts as of now."""
    return trial if _instant(trial.at) <= now else replace(trial, at=format_instant(now))


def _after_success(trial: Trial, request: NodeRequest, classes: tuple[str, ...]) -> Trial:
    if _ordered(trial) > request.created_at:
        return trial
    is_same = place_of_trial(trial) == (request.spec.target_offering, request.spec.location)
    left = tuple(each for each in trial.classes if each not in classes)
    return replace(trial, classes=left, has_worked_since=trial.has_worked_since or is_same)


def _ordered(trial: Trial) -> float:
    """When its machine was ordered; an older version wrote only when it was known."""
    return _instant(trial.ordered_at or trial.at)


def place_of_trial(trial: Trial) -> OfferingKey:
    return (trial.offering, trial.location)


def _is_later(pause: Pause, mended_at: float) -> bool:
    return pause.latest is not None and _instant(pause.latest.at) > mended_at


def _instant(text: str | None) -> float:
    return instant_of(text) or 0.0


# ----------------------------------------------------------------------------------- what follows


class Pause(Struct, frozen=True):
    """How often in a row something was in vain, and until when nothing is bought for it."""

    in_a_row: int = 0
    until: float = 0.0
    latest: Trial | None = None

    @property
    def until_if_failing(self) -> float:
        return self.until if self.in_a_row >= FAILURES_BEFORE_PAUSE else float("inf")


def _pause(trials: Iterable[Trial], known: PoolTrials, since: float = 0.0) -> Pause:
    """Of what was ordered since then. What was under way when a pause began does not prolong it."""
    mended_at = _instant(known.mended_at)
    in_order = sorted((each for each in trials if _ordered(each) > since), key=lambda each: (each.at, each.request))
    older = [each for each in in_order if each.cause and _instant(each.at) <= mended_at]
    count = FAILURES_BEFORE_ONE if len(older) >= FAILURES_BEFORE_PAUSE else 0
    until, seconds, latest = 0.0, _PAUSE_SECONDS, older[-1] if older else None
    for each in in_order:
        at = _instant(each.at)
        if at <= mended_at:
            continue
        count, latest = (count + 1, each) if each.cause else (count, latest)
        if count == FAILURES_BEFORE_PAUSE and each.cause:
            until = at + seconds
        elif count >= FAILURES_BEFORE_PAUSE and at >= until:
            seconds = min(2 * seconds, _LONGEST_PAUSE_SECONDS)
            until = at + seconds
    return Pause(count, until, latest)


def _pool_pause(trials: Iterable[Trial], known: PoolTrials, since: float) -> Pause:
    """Without the offerings that had gone on failing before another one last worked: each of them pauses by itself."""
    counted = list(trials)
    beside = _beside(counted, known, since)
    return _pause((each for each in counted if place_of_trial(each) not in beside), known, since)


def _beside(trials: Iterable[Trial], known: PoolTrials, since: float) -> dict[OfferingKey, Pause]:
    """Those that go on failing while others work, and how: where many were in vain, two of them are enough."""
    in_vain = [each for each in trials if each.cause]
    most = FAILURES_BEFORE_ONE if len(_counted(in_vain)) >= _COUNTED_AHEAD else FAILURES_BEFORE_PAUSE
    older = _by_place((each for each in in_vain if _ordered(each) <= since), known)
    mended_at = _instant(known.mended_at)
    failing = (place for place, pause in older.items() if pause.in_a_row >= most and _is_later(pause, mended_at))
    return {place: older[place] for place in failing}


class Standing(Struct, frozen=True):
    """How far a pool may be trusted with money now."""

    pool: str
    pause: Pause = Pause()
    in_vain: int = 0  # in the last day, that count
    places_in_vain: tuple[OfferingKey, ...] = ()  # in the last day, one for each machine
    on_their_way: int = 0  # and those that are still to show whether they are of use
    most: int | None = None  # may be on their way; None: any number
    until: float | None = None  # when that changes by time alone
    why: str = ""  # in words; empty: nothing holds it back
    offerings: Mapping[OfferingKey, Pause] = {}  # those that have failed and have not worked since
    classes: Mapping[str, Pause] = {}  # of pods, that machines took none of
    trials: PoolTrials = PoolTrials()  # what all of this follows from, as it is written down

    @property
    def is_failing(self) -> bool:
        return self.pause.in_a_row >= FAILURES_BEFORE_PAUSE or self.in_vain >= MOST_IN_VAIN

    def is_closed(self, place: OfferingKey, now: float) -> bool:
        """Is this offering left alone?"""
        pause = self.offerings.get(place)
        return pause is not None and now < pause.until

    def is_probed(self, place: OfferingKey) -> bool:
        """Has it failed so often that after each pause one machine of it is tried, until one works?"""
        pause = self.offerings.get(place)
        return pause is not None and pause.until > 0.0

    def demotion(self, place: OfferingKey, now: float) -> int:
        """Failed lately: what has failed less often is taken first."""
        pause = self.offerings.get(place)
        if pause is None or pause.latest is None:
            return 0
        is_late = self.in_vain >= _COUNTED_AHEAD and _is_later(pause, _instant(self.trials.mended_at))
        is_doubted = is_late or max(self.pause.in_a_row, pause.in_a_row) >= FAILURES_BEFORE_ONE
        is_recent = now < max(pause.until, _instant(pause.latest.at) + _PAUSE_SECONDS)
        return pause.in_a_row if is_doubted and (is_late or is_recent or self.is_failing) else 0

    def allowance(self) -> Allowance | None:
        if self.most is None:
            return None
        left, is_pace = self.most - self.on_their_way, self.most == MOST_AT_FIRST and not self.in_vain
        return Allowance(self.why, self.pool, nodes=left, is_firm=True, is_pace=is_pace, is_step=left > 0)

    def wakes_at(self, now: float) -> float | None:
        """When time alone lets more be bought."""
        pauses = (each.until for each in (*self.offerings.values(), *self.classes.values()))
        return min((at for at in (self.until, *pauses) if at is not None and at > now), default=None)


def standings(snapshot: Snapshot) -> dict[str, Standing]:
    """Of all pools. Several rows ask in one moment, so the latest answer is kept in the memo."""
    made_from = (snapshot.pools, snapshot.requests, snapshot.nodes, snapshot.waiting_pods, snapshot.pods_by_node)
    return snapshot.memo.recall_now("standings", snapshot.now, made_from, lambda: _standings(snapshot))


def _standings(snapshot: Snapshot) -> dict[str, Standing]:
    waiting = {pod.key for pod in snapshot.waiting_pods if pod.deleted_at is None}
    requests: dict[str, list[NodeRequest]] = {name: [] for name in sorted(snapshot.pools)}
    for each in snapshot.requests.values():
        requests.get(each.spec.pool, []).append(each)
    return {name: _standing(snapshot.pools[name], some, snapshot, waiting) for name, some in requests.items()}


def _standing(pool: NodePool, requests: list[NodeRequest], snapshot: Snapshot, waiting: set[str]) -> Standing:
    now, gathered = snapshot.now, _gathered(snapshot)
    trials = trials_of(pool, requests, now, gathered)
    in_vain = tuple(each for each in trials.in_vain if each.cause)
    worked_at = _instant(trials.worked_ordered_at or trials.worked_at)
    pause = _pool_pause(trials.in_vain, trials, worked_at)
    in_flight = sum(each.is_in_flight and each.name not in gathered for each in requests)
    unjudged = (each for each in requests if each.phase == READY and verdict(each) is None)
    silent = [each for each in unjudged if not waiting.isdisjoint(each.planned_pods)]
    suspects = [each for each in silent if now >= each.changed_at + _SUSPICION_SECONDS]
    standing = Standing(
        pool.name,
        pause,
        len(_counted(in_vain)),
        tuple(place_of_trial(each) for each in in_vain),
        in_flight + len(silent),
        offerings=_with_turns(_by_place(in_vain, trials), _beside(in_vain, trials, worked_at), _counted(in_vain)),
        classes=_by_class(in_vain, trials),
        trials=trials_of(pool, requests, now) if gathered else trials,
    )
    most, until, why = _bound(standing, trials, len(suspects), _has_worked(pool, trials, snapshot), now)
    return replace(standing, most=most, until=until, why=why)


def _counted(in_vain: Iterable[Trial]) -> list[Trial]:
    """Which of a day's machines in vain count: not those that were on their way when the third became known."""
    known = sorted((each for each in in_vain if each.cause), key=lambda each: (each.at, each.request))
    first, others = known[:FAILURES_BEFORE_PAUSE], known[FAILURES_BEFORE_PAUSE:]
    return first + [each for each in others if _ordered(each) > _instant(first[-1].at)]


def _bound(
    standing: Standing, trials: PoolTrials, suspects: int, has_worked: bool, now: float
) -> tuple[int | None, float | None, str]:
    """How many may be on their way, until when that holds, and why: the table above, the strictest first."""
    pool, pause, count = f"NodePool {standing.pool}", standing.pause, standing.in_vain
    last = "" if pause.latest is None else f", the last ({pause.latest.offering}): {pause.latest.cause}"
    mended_at, latest = _instant(trials.mended_at), max((_instant(each.at) for each in trials.in_vain), default=0.0)
    spent = MOST_IN_VAIN if mended_at > latest or pause.in_a_row < FAILURES_BEFORE_PAUSE else _MOST_UNMENDED
    if count >= spent:
        again_at = _instant(_counted(trials.in_vain)[count - spent].at) + MEMORY_SECONDS
        told = f"{pool} is failing: {count} machines in a day were in vain{last}"
        return 0, again_at, f"{told}; tried again at {format_instant(again_at)}"
    until = max(pause.until, _spread(_counted(trials.in_vain), pause, trials))
    if pause.in_a_row >= FAILURES_BEFORE_PAUSE and now < until:
        told = f"{pool} is failing: {pause.in_a_row} machines in a row were in vain{last}"
        return 0, until, f"{told}; tried again at {format_instant(until)}"
    if suspects >= _MOST_SUSPECTS:
        told = f"{pool}: {suspects} machines are Ready and have taken none of the pods they were bought for"
        return 0, None, told
    if pause.in_a_row >= FAILURES_BEFORE_ONE or count >= MOST_IN_VAIN:
        return 1, None, f"{pool}: {pause.in_a_row} machines in a row were in vain{last}; one at a time"
    most = MOST_IN_VAIN - count if count >= _COUNTED_AHEAD else None
    if not has_worked and (most is None or most > MOST_AT_FIRST):
        return MOST_AT_FIRST, None, f"{pool} has had no machine of use yet: the first {MOST_AT_FIRST} are awaited"
    return most, None, "" if most is None else f"{pool}: {count} machines in a day were in vain; {most} at a time"


def _spread(counted: list[Trial], pause: Pause, trials: PoolTrials) -> float:
    """When the next may be tried, so that what is left for a day lasts until the first of them are a day old. A pool
    that has worked meanwhile is trusted again, until it fails as often in a row.
    """
    has_worked = _instant(trials.worked_ordered_at or trials.worked_at) > _ordered(counted[0]) if counted else False
    if len(counted) >= _MOST_UNMENDED or (has_worked and pause.in_a_row < _COUNTED_AHEAD):
        return 0.0
    return _turn_at(counted, 0, _MOST_UNMENDED)


def _turn_at(counted: list[Trial], number: int, most: int) -> float:
    """When who is so far back in the line may be tried, so that no more than `most` are in vain in a day."""
    if len(counted) + number < _COUNTED_AHEAD or not counted:
        return 0.0
    first, last, left = _instant(counted[0].at), _instant(counted[-1].at), most - len(counted)
    if number < left:
        return last + (number + 1) * (first + MEMORY_SECONDS - last) / left
    return _instant(counted[min(number - left, len(counted) - 1)].at) + MEMORY_SECONDS


def _with_turns(
    pauses: dict[OfferingKey, Pause], beside: Mapping[OfferingKey, Pause], counted: list[Trial]
) -> dict[OfferingKey, Pause]:
    """Of what fails while others work, whoever was tried last is the last to be tried again."""
    in_line = sorted(beside, key=lambda place: ("" if (last := pauses[place].latest) is None else last.at, place))
    turns = {place: _turn_at(counted, number, _MOST_BESIDE) for number, place in enumerate(in_line)}
    return {place: replace(each, until=max(each.until, turns.get(place, 0.0))) for place, each in pauses.items()}


def _by_place(in_vain: Iterable[Trial], trials: PoolTrials) -> dict[OfferingKey, Pause]:
    found: dict[OfferingKey, list[Trial]] = {}
    for each in in_vain:
        if not each.has_worked_since:
            found.setdefault(place_of_trial(each), []).append(each)
    return {place: _pause(some, trials) for place, some in sorted(found.items())}


def _by_class(in_vain: Iterable[Trial], trials: PoolTrials) -> dict[str, Pause]:
    found: dict[str, list[Trial]] = {}
    for each in in_vain:
        for name in each.classes:
            found.setdefault(name, []).append(each)
    return {name: _pause(some, trials) for name, some in sorted(found.items())}


def _has_worked(pool: NodePool, trials: PoolTrials, snapshot: Snapshot) -> bool:
    """A node that serves, and is not itself in doubt, tells of machines bought before anything was written down."""
    digest = template_digest(pool.spec)
    if trials.template == digest:
        return True
    doubted = {each.request for each in trials.in_vain} | set(snapshot.requests)
    serving = (each for each in snapshot.nodes.values() if each.pool == pool.name and each.name not in doubted)
    return any(
        each.is_ready and not each.is_starting and each.annotations.get(TEMPLATE, digest) == digest for each in serving
    )
