"""How many replicas shall each warm pool have? One PoolAutoscaler after the other, each only when there is a reason to
look at it.

    changed, its time has come, or its target changed → obstacles? → counts → size → ScaleWarmPool, or a new status

| a look happens when | does |
| --- | --- |
| its sample is due (every sampling interval, spread over it) | takes a sample, decides, tells the numbers |
| a cron policy fires, a wait ends | decides |
| the autoscaler or its target changed | enforces the bounds, tells what is not only a number |
| somebody else scaled the target | begins to observe anew, with a sample |
| a write that had to wait may be made | decides |

A pool is scaled with the version that was seen: if it has changed since, that is a Conflict and it is looked at again.
When the next write may be, and what is told of those that failed: `plan/warm_pools/memory`. The memory may be lost:
then nothing is scaled down before its windows are full again, and cron policies go on from the status."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from msgspec.structs import replace

from growth.model.action import ScaleWarmPool, WritePoolAutoscalerStatus
from growth.model.decision import Decision, Note, Settled
from growth.model.outcome import Accepted
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.snapshot import Snapshot
from growth.model.warmpool import WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.counts import Owned, PoolCounts, Rise, counts_of, first_rise, next_rise, sparing_of
from growth.plan.warm_pools.firings import Timetable, timetable
from growth.plan.warm_pools.memory import Ledger, Looked, Watch, settle_scaling, writes_before
from growth.plan.warm_pools.obstacles import (
    Obstacle,
    owners_of,
    target_of,
    why_not_active,
    why_not_by_capacity,
    why_not_counted,
    why_not_target,
)
from growth.plan.warm_pools.size import (
    PODS_IN_USE,
    Memory,
    Observation,
    Scaling,
    by_bounds,
    by_capacity,
    by_cron,
    sparing_used,
    unless_stuck,
    why_not_more,
)
from growth.plan.warm_pools.status import Report, status_of, without_numbers
from growth.plan.world.turn import NEVER_FAILED, Turn, about, cut, seen, sooner, without_times

__all__ = ["Ledger", "Watch", "plan", "settle"]

_SLOTS = 5  # the looks of one interval are spread over so many passes
_REFUSED_SECONDS = 60.0


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
    return look.turn.decision(Ledger(watches, autoscalers, warm_pools, look.owners, look.writes, due_at, looked))


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
        self.writes = {
            target: each for target, each in ledger.writes.items() if target in self.owners or each.next_at > self.now
        }
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
            return self._hindered(watch, obstacle, samples=samples)
        if pool is None or kind is None:
            return replace(watch, next_at=watch.sample_at)  # not known yet: say nothing
        watch = replace(watch, rise=self._rise(watch, pool, kind))
        counts = counts_of(autoscaler, pool, kind, self.snapshot, self.owned, watch.rise)
        if counts is not None:
            return self._size(watch, pool, kind, counts, samples=samples)
        obstacle = why_not_counted(self.snapshot.warm_pools)
        waiting = replace(watch, next_at=watch.sample_at)
        return waiting if obstacle is None else self._hindered(watch, obstacle, samples=samples)

    def _hindered(self, watch: Watch, obstacle: Obstacle, *, samples: bool) -> Watch:
        self.failed += obstacle.event == "FailedGetScale"
        self.unchanged += 1
        self._tell(watch, Report(obstacle=obstacle), samples=samples)
        fresh = Watch(watch.autoscaler, watch.target, watch.kind, watch.owner, watch.pool, failed=watch.failed)
        return replace(fresh, next_at=watch.sample_at, sample_at=watch.sample_at)

    def _rise(self, watch: Watch, pool: WarmPool, kind: WarmPoolKind) -> Rise | None:
        if kind.members != "Leave":
            return None
        if watch.rise is None:
            return first_rise(pool, watch.autoscaler.status, self.now)
        return next_rise(watch.rise, pool, self.now, self.settings.start_limit_seconds)

    def _next_sample(self, key: str) -> float:
        """The next slot of this autoscaler: always the same ones, and not those of all the others."""
        interval = self.settings.sampling_interval_seconds
        if interval <= 0:
            return self.now
        offset = zlib.crc32(key.encode()) % _SLOTS * interval / _SLOTS
        return ((self.now - offset) // interval + 1) * interval + offset

    def _size(self, watch: Watch, pool: WarmPool, kind: WarmPoolKind, counts: PoolCounts, *, samples: bool) -> Watch:
        autoscaler, now, inactive = (
            watch.autoscaler,
            self.now,
            why_not_by_capacity(watch.autoscaler, watch.kind or kind),
        )
        watch = replace(self._with_starting(watch, counts), times=self._times(watch))
        writes = self.writes.get(watch.target) or writes_before(autoscaler, now)
        may_write_at = now if writes is None else writes.next_at
        asked = (by_bounds(autoscaler.spec, counts.replicas), None)
        scaling, memory = asked if inactive else self._ask_policy(watch, counts, may_write_at, samples=samples)
        stuck = ""
        if autoscaler.spec.capacity_policy is not None and inactive is None:
            stuck = why_not_more(counts, watch.starting_since, now, self.settings)
        scaling = sparing_used(unless_stuck(scaling, counts, stuck), counts)
        if scaling.waits and (watch.scaling is None or scaling.waits != watch.scaling.waits):
            waits = f"{scaling.waits}: {scaling.limit}" if scaling.limited == PODS_IN_USE else scaling.waits
            self.turn.tell(Note(about(autoscaler), "ScaleBlocked", waits))
        is_wanted = scaling.replicas != counts.replicas
        if writes is not None and not is_wanted:
            writes = self.writes[watch.target] = writes.in_order()
        failure, history = "" if writes is None else writes.failure, memory.history if memory is not None else ()
        report = Report(scaling, counts, watch.times, stuck, failure, inactive=inactive, history=history)
        fires_at = watch.times.next_at if watch.times is not None else None
        is_held = is_wanted and now < may_write_at
        due = sooner(watch.sample_at, scaling.again_at, fires_at, may_write_at if is_held else None)
        watch = replace(
            watch, memory=memory, scaling=scaling, is_held=is_held, next_at=max(now, due or watch.sample_at)
        )
        if is_wanted and not is_held:
            is_less = scaling.replicas < counts.replicas
            sparing = sparing_of(autoscaler, pool, kind, self.snapshot, self.owned) if is_less else None
            wish = (scaling.replicas, counts.replicas, sparing)
            self.turn.do(ScaleWarmPool(seen(pool), kind, autoscaler.key, *wish))
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
        """Computed again when a policy fires, or when the policies or their record changed. A record that could not be
        written counts as if it had been.
        """
        autoscaler, times = watch.autoscaler, watch.times
        if not autoscaler.spec.cron_policies:
            return None
        if watch.unwritten is not None:
            status = replace(autoscaler.status, applied_cron_policies=watch.unwritten)
            autoscaler = replace(autoscaler, status=status)
        is_known = times is not None and times.applied == autoscaler.status.applied_cron_policies
        if is_known and times is not None and times.firing is None and self.now < (times.next_at or 0.0):
            return times
        return timetable(autoscaler, self.settings.time_zone, self.now)

    def _ask_policy(
        self, watch: Watch, counts: PoolCounts, may_write_at: float, *, samples: bool
    ) -> tuple[Scaling, Memory | None]:
        """What the autoscaler's policy asks for. By capacity that is decided with a sample, when a wait ends, or when
        the count is not what it was or may be; in between the last answer holds for what there is.
        """
        autoscaler, memory, last = watch.autoscaler, watch.memory, watch.scaling
        if watch.times is not None:
            return by_cron(autoscaler.spec, counts.replicas, watch.times), None
        bounded = by_bounds(autoscaler.spec, counts.replicas)
        if autoscaler.spec.capacity_policy is None:
            return bounded, None
        if memory is not None and memory.observation.is_of_another_size(counts.replicas):
            memory, samples = None, True  # somebody else scaled it
        ends = (last.again_at if last is not None else None, may_write_at if watch.is_held else None)
        has_waited = any(end is not None and self.now >= end for end in ends)
        if memory is not None and last is not None and not (samples or has_waited or bounded.limited):
            return (last if watch.is_held else replace(last, replicas=counts.replicas)), memory
        memory = memory or Memory(Observation(self.now))
        self.samples += 1
        observed = memory.observation.with_sample(self.now, counts, self.settings.observation_window_seconds)
        return by_capacity(autoscaler, counts, Memory(observed, memory.history), self.now, self.settings)

    def _tell(self, watch: Watch, report: Report, *, samples: bool) -> None:
        """Write the status if it says something new; numbers alone are told with a sample, not with every event. After
        writes that failed it is left alone for a while.
        """
        autoscaler = watch.autoscaler
        if self.now < watch.failed.until:
            return
        status = status_of(autoscaler, report, self.now)
        compared = without_times if samples else without_numbers
        if compared(status) != compared(autoscaler.status):
            self.turn.do(WritePoolAutoscalerStatus(seen(autoscaler), status))
            obstacle = report.obstacle or report.inactive
            if obstacle is not None and _is_new(obstacle, autoscaler):
                self.turn.tell(Note(about(autoscaler), obstacle.event, obstacle.message, "Warning"))


def _is_new(obstacle: Obstacle, autoscaler: PoolAutoscaler) -> bool:
    """An obstacle gets an event when it appears, not again while it lasts."""
    before = next((each for each in autoscaler.status.conditions if each.type == "ScalingActive"), None)
    is_same = before is not None and (before.reason, before.message) == (obstacle.reason, cut(obstacle.message))
    return bool(obstacle.event) and not is_same


# ------------------------------------------------------------------------------------------- settle


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, ScaleWarmPool):
        return settle_scaling(action, outcome, ledger, now)
    if not isinstance(action, WritePoolAutoscalerStatus):
        return Decision(ledger)
    key = f"{action.autoscaler.namespace}/{action.autoscaler.name}"
    watch = ledger.watches.get(key)
    if watch is None or (isinstance(outcome, Accepted) and watch.failed is NEVER_FAILED):
        return Decision(ledger)
    if isinstance(outcome, Accepted):
        return Decision(ledger.with_watch(key, replace(watch, failed=NEVER_FAILED, unwritten=None)))
    failed, unwritten = watch.failed.and_again(outcome, now), action.status.applied_cron_policies
    after = replace(watch, failed=failed, unwritten=unwritten, next_at=min(watch.next_at, failed.until))
    return Decision(ledger.with_watch(key, after), again_at=failed.until)
