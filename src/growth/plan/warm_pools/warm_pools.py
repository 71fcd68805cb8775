"""How many replicas shall each warm pool have? One PoolAutoscaler after the other, each only when there is a reason to
look at it.

    changed, its time has come, or its target changed → obstacles? → counts → size → ScaleWarmPool, or a new status

| a look happens when | does |
| --- | --- |
| its sample is due (every sampling interval, spread over it) | takes a sample, decides, tells the numbers |
| a cron policy fires, a wait ends | decides |
| the autoscaler or its target changed | enforces the bounds, tells what is not only a number |

A pool is scaled with the version that was seen: if it has changed since, that is a Conflict and it is looked at again.
The memory may be lost: then nothing is scaled down before its windows are full again, and cron policies go on from the
status."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import ScaleWarmPool, WritePoolAutoscalerStatus
from growth.model.decision import Decision, Note, Settled
from growth.model.instant import format_instant
from growth.model.outcome import Accepted, Conflict, Refused, Unknown
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.snapshot import EMPTY, Snapshot
from growth.model.warmpool import WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.counts import Owned, PoolCounts, counts_of
from growth.plan.warm_pools.firings import Timetable, timetable
from growth.plan.warm_pools.obstacles import Obstacle, Target, owners_of, target_of, why_not_active, why_not_target
from growth.plan.warm_pools.size import Memory, Observation, Scaling, by_bounds, by_capacity, by_cron, why_not_more
from growth.plan.warm_pools.status import LONGEST_SENTENCE, Report, status_of, without_numbers
from growth.plan.world.turn import Turn, about, cut, retry_at, seen, sooner, without_times

_SLOTS = 5  # the looks of one interval are spread over so many passes
_REFUSED_SECONDS = 60.0
_RETRY_SECONDS = 1.0


class Watch(Struct, frozen=True):
    """What is remembered of one autoscaler."""

    autoscaler: PoolAutoscaler  # as it was looked at
    target: Target
    kind: WarmPoolKind | None
    owner: str = ""
    pool: WarmPool | None = None
    times: Timetable | None = None
    scaling: Scaling | None = None  # at the last sample
    memory: Memory | None = None
    next_at: float = 0.0
    sample_at: float = 0.0
    hold_until: float = 0.0  # no attempt to scale before this: the last one was refused
    failure: str = ""  # why it was refused
    starting_since: float | None = None
    up: int = 0  # members that are not starting
    pending: Report | None = None  # what the status shall say once the scaling has been accepted


class Looked(Struct, frozen=True):
    """What one pass did, for metrics."""

    unchanged: int = 0
    failed: int = 0
    samples: int = 0


class Ledger(Struct, frozen=True):
    watches: Mapping[str, Watch] = EMPTY
    autoscalers: Mapping[str, PoolAutoscaler] = EMPTY
    warm_pools: Mapping[str, WarmPoolView] = EMPTY
    owners: Mapping[Target, str] = MappingProxyType({})
    due_at: float | None = None
    looked: Looked = Looked()


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    autoscalers, warm_pools = snapshot.autoscalers, snapshot.warm_pools
    is_same = autoscalers is ledger.autoscalers and _are_same(warm_pools, ledger.warm_pools)
    if is_same and (ledger.due_at is None or snapshot.now < ledger.due_at):
        return Decision(replace(ledger, looked=Looked()), again_at=ledger.due_at)
    look = _Pass(snapshot, ledger, settings.warm_pools)
    watches = {key: look.watch(key, each) for key, each in autoscalers.items() if each.deleted_at is None}
    due_at = min((watch.next_at for watch in watches.values()), default=None)
    look.turn.wake(due_at)
    looked = Looked(look.unchanged, look.failed, look.samples)
    return look.turn.decision(Ledger(watches, autoscalers, warm_pools, look.owners, due_at, looked))


def _are_same(ours: Mapping[str, WarmPoolView], theirs: Mapping[str, WarmPoolView]) -> bool:
    """Did no object of any kind change? Answered without looking at one."""
    if ours.keys() != theirs.keys():
        return False
    pairs = ((ours[name], theirs[name]) for name in ours)
    return all(
        one is other or (one.pools is other.pools and one.problem == other.problem and one.is_known == other.is_known)
        for one, other in pairs
    )


class _Pass:
    """One pass over the autoscalers that have a reason."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: WarmPoolSettings) -> None:
        self.snapshot, self.now, self.settings, self.before = snapshot, snapshot.now, settings, ledger.watches
        is_same = snapshot.autoscalers is ledger.autoscalers
        self.owners = ledger.owners if is_same else owners_of(snapshot.autoscalers.values(), settings)
        self.owned = Owned(snapshot.warm_pools)
        self.turn = Turn()
        self.unchanged = self.failed = self.samples = 0

    def watch(self, key: str, autoscaler: PoolAutoscaler) -> Watch:
        """The memory of one autoscaler after this pass; the same if there was no reason to look. A mistake of ours
        about one autoscaler must not stop the others: it is told on that one, and tried again later.
        """
        try:
            watch = self.before.get(key)
            if watch is None or watch.autoscaler.uid != autoscaler.uid or watch.autoscaler.spec != autoscaler.spec:
                watch = self._new(autoscaler)
            kind, name = watch.target
            view, owner = self.snapshot.warm_pools.get(kind), self.owners.get(watch.target, "")
            pool = view.pools.get(name) if view is not None else None
            is_same = watch.autoscaler is autoscaler and watch.pool is pool and watch.owner == owner
            if is_same and self.now < watch.next_at:
                return watch
            return self._look(replace(watch, autoscaler=autoscaler, pool=pool, owner=owner), view)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            self.failed += 1
            self.unchanged += 1
            self.turn.tell(Note(about(autoscaler), "ScaleBlocked", f"growth could not decide: {error!r}", "Warning"))
            later = self.now + _REFUSED_SECONDS
            return replace(self._new(autoscaler), next_at=later, sample_at=later)

    def _new(self, autoscaler: PoolAutoscaler) -> Watch:
        kind = self.settings.kind_of(autoscaler.spec.scale_target_ref)
        return Watch(autoscaler, target_of(autoscaler, self.settings), kind)

    def _look(self, watch: Watch, view: WarmPoolView | None) -> Watch:
        autoscaler, pool, kind, samples = watch.autoscaler, watch.pool, watch.kind, self.now >= watch.sample_at
        if samples:
            watch = replace(watch, sample_at=self._next_sample(autoscaler.key))
        obstacle = why_not_active(autoscaler, watch.owner, self.settings) or why_not_target(autoscaler, view, pool)
        if obstacle is not None:
            self.failed += obstacle.event == "FailedGetScale"
            self.unchanged += 1
            self._tell(watch, Report(obstacle=obstacle), samples=samples)
            at = watch.sample_at
            return Watch(autoscaler, watch.target, kind, watch.owner, pool, next_at=at, sample_at=at)
        if pool is None or kind is None:
            return replace(watch, next_at=watch.sample_at)  # not known yet: say nothing
        counts = counts_of(autoscaler, pool, kind, self.snapshot, self.owned)
        if counts is None:
            return replace(watch, next_at=watch.sample_at)
        return self._size(watch, pool, kind, counts, samples=samples)

    def _next_sample(self, key: str) -> float:
        """The next slot of this autoscaler: always the same ones, and not those of all the others."""
        interval = self.settings.sampling_interval_seconds
        if interval <= 0:
            return self.now
        offset = zlib.crc32(key.encode()) % _SLOTS * interval / _SLOTS
        return ((self.now - offset) // interval + 1) * interval + offset

    def _size(self, watch: Watch, pool: WarmPool, kind: WarmPoolKind, counts: PoolCounts, *, samples: bool) -> Watch:
        autoscaler, now = watch.autoscaler, self.now
        watch = replace(self._with_starting(watch, counts), times=self._times(watch))
        scaling, memory = self._ask_policy(watch, counts, samples=samples)
        stuck = ""
        if autoscaler.spec.capacity_policy is not None:
            stuck = why_not_more(counts, watch.starting_since, now, self.settings)
        if stuck and scaling.policy == "capacity" and scaling.replicas > counts.replicas:
            sentence = f"{counts.replicas} replicas stay: {stuck}; {scaling.replicas} wanted"
            waits = "scaling up waits for replicas that do not start"
            scaling = Scaling(counts.replicas, "capacity", sentence, scaling.limited, waits)
        if scaling.waits and (watch.scaling is None or scaling.waits != watch.scaling.waits):
            self.turn.tell(Note(about(autoscaler), "ScaleBlocked", scaling.waits))
        history = memory.history if memory is not None else ()
        report = Report(scaling, counts, watch.times, stuck, watch.failure, history=history)
        fires_at = watch.times.next_at if watch.times is not None else None
        next_at = max(now, sooner(watch.sample_at, scaling.again_at, fires_at) or watch.sample_at)
        watch = replace(watch, memory=memory, scaling=scaling, next_at=next_at)
        if scaling.replicas != counts.replicas and now >= watch.hold_until:
            self.turn.do(ScaleWarmPool(seen(pool), kind, autoscaler.key, scaling.replicas, counts.replicas))
            return replace(watch, pending=report)
        self.unchanged += 1
        self._tell(watch, report, samples=samples)
        return watch

    def _with_starting(self, watch: Watch, counts: PoolCounts) -> Watch:
        """Since when replicas have been starting without one of them getting there."""
        up = counts.replicas - counts.starting
        if not counts.starting:
            return replace(watch, starting_since=None, up=up)
        has_progress = watch.starting_since is None or up > watch.up
        return replace(watch, starting_since=self.now if has_progress else watch.starting_since, up=up)

    def _times(self, watch: Watch) -> Timetable | None:
        """Computed again when a policy fires, or when the policies or their record changed."""
        autoscaler, times = watch.autoscaler, watch.times
        if not autoscaler.spec.cron_policies:
            return None
        is_known = times is not None and times.applied == autoscaler.status.applied_cron_policies
        if is_known and times is not None and times.firing is None and self.now < (times.next_at or 0.0):
            return times
        return timetable(autoscaler, self.settings.time_zone, self.now)

    def _ask_policy(self, watch: Watch, counts: PoolCounts, *, samples: bool) -> tuple[Scaling, Memory | None]:
        """What the autoscaler's policy asks for. By capacity that is decided with a sample, or when a wait ends; in
        between the last answer holds for what there is.
        """
        autoscaler, memory, last = watch.autoscaler, watch.memory, watch.scaling
        if watch.times is not None:
            return by_cron(autoscaler.spec, counts.replicas, watch.times), None
        bounded = by_bounds(autoscaler.spec, counts.replicas)
        if autoscaler.spec.capacity_policy is None:
            return bounded, None
        has_waited = last is not None and last.again_at is not None and self.now >= last.again_at
        if memory is not None and last is not None and not samples and not has_waited:
            if bounded.limited:
                return bounded, memory
            return (last if self.now < watch.hold_until else replace(last, replicas=counts.replicas)), memory
        memory = memory or Memory(Observation(self.now))
        self.samples += 1
        observed = memory.observation.with_sample(self.now, counts, self.settings.observation_window_seconds)
        return by_capacity(autoscaler, counts, Memory(observed, memory.history), self.now, self.settings)

    def _tell(self, watch: Watch, report: Report, *, samples: bool) -> None:
        """Write the status if it says something new; numbers alone are told with a sample, not with every event."""
        autoscaler = watch.autoscaler
        status = status_of(autoscaler, report, self.now)
        compared = without_times if samples else without_numbers
        if compared(status) != compared(autoscaler.status):
            self.turn.do(WritePoolAutoscalerStatus(seen(autoscaler), status))
            if report.obstacle is not None and _is_new(report.obstacle, autoscaler):
                self.turn.tell(Note(about(autoscaler), report.obstacle.event, report.obstacle.message, "Warning"))


def _is_new(obstacle: Obstacle, autoscaler: PoolAutoscaler) -> bool:
    """An obstacle gets an event when it appears, not again while it lasts."""
    before = next((each for each in autoscaler.status.conditions if each.type == "ScalingActive"), None)
    is_same = before is not None and (before.reason, before.message) == (obstacle.reason, cut(obstacle.message))
    return bool(obstacle.event) and not is_same


# ------------------------------------------------------------------------------------------- settle


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, ScaleWarmPool):
        watch = ledger.watches.get(action.autoscaler)
        return Decision(ledger) if watch is None else _scaled(action, settled, watch, ledger, now)
    if isinstance(outcome, Accepted) or not isinstance(action, WritePoolAutoscalerStatus):
        return Decision(ledger)
    key, at = f"{action.autoscaler.namespace}/{action.autoscaler.name}", retry_at(outcome, now, _RETRY_SECONDS)
    watch = ledger.watches.get(key)
    return Decision(ledger) if watch is None else _again(ledger, key, watch, at)


def _scaled(action: ScaleWarmPool, settled: Settled, watch: Watch, ledger: Ledger, now: float) -> Decision[Ledger]:
    outcome, autoscaler, report, key = settled.outcome, watch.autoscaler, watch.pending, action.autoscaler
    watch = replace(watch, pending=None)
    if report is None or report.scaling is None:
        return Decision(_with(ledger, key, watch))
    if isinstance(outcome, Accepted):
        return _accepted(action, watch, report, ledger, now)
    if isinstance(outcome, Conflict | Unknown):
        return _again(ledger, key, watch, now + _RETRY_SECONDS)
    turn, at, text = (
        Turn(),
        retry_at(outcome, now, _REFUSED_SECONDS),
        f"{report.scaling.sentence}; not done: {outcome.reason}",
    )
    watch = replace(watch, hold_until=at, failure="")
    if isinstance(outcome, Refused):
        watch = replace(watch, failure=cut(outcome.reason))
        turn.tell(Note(about(autoscaler), "FailedScale", cut(text, LONGEST_SENTENCE), "Warning"))
        status = status_of(autoscaler, replace(report, failure=watch.failure), now)
        if without_numbers(status) != without_numbers(autoscaler.status):
            turn.do(WritePoolAutoscalerStatus(seen(autoscaler), status))
    else:
        turn.tell(Note(about(autoscaler), "ScaleBlocked", cut(text, LONGEST_SENTENCE)))
    again = _again(ledger, key, watch, at)
    return replace(again, actions=tuple(turn.actions), notes=tuple(turn.notes))


def _accepted(action: ScaleWarmPool, watch: Watch, report: Report, ledger: Ledger, now: float) -> Decision[Ledger]:
    """Report it and forget the samples: those of the old size say nothing about the new one."""
    autoscaler, scaling = watch.autoscaler, report.scaling
    memory = None if watch.memory is None else Memory(Observation(now), watch.memory.history)
    watch = replace(watch, memory=memory, failure="", hold_until=0.0)
    policy, sentence = ("", "") if scaling is None else (scaling.policy, scaling.sentence)
    turn = Turn()
    turn.wake(watch.next_at)
    turn.do(
        WritePoolAutoscalerStatus(
            seen(autoscaler), status_of(autoscaler, replace(report, failure="", scaled_at=now), now)
        )
    )
    reason = "ScaledUp" if action.replicas > action.before else "ScaledDown"
    text = f"{action.kind.kind} {action.target.name}: {sentence}; {format_instant(now)}"
    fields = (("policy", policy), ("before", action.before), ("replicas", action.replicas))
    turn.tell(Note(about(autoscaler), reason, cut(text, LONGEST_SENTENCE), fields=fields))
    return turn.decision(_with(ledger, action.autoscaler, watch))


def _with(ledger: Ledger, key: str, watch: Watch) -> Ledger:
    due_at = sooner(ledger.due_at, watch.next_at)
    return replace(ledger, watches={**ledger.watches, key: watch}, due_at=due_at)


def _again(ledger: Ledger, key: str, watch: Watch, at: float) -> Decision[Ledger]:
    """Take a sample and decide again at this instant."""
    return Decision(_with(ledger, key, replace(watch, next_at=at, sample_at=at)), again_at=at)
