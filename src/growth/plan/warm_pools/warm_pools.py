"""How many replicas shall each warm pool have? One PoolAutoscaler after the other, each only when there is a reason to
look at it.

    changed, its time has come, or its target changed → obstacles? → counts → sizing → ScaleWarmPool, or a status that says something new

| a look happens when | does |
| --- | --- |
| its sample is due (every sampling interval, spread over it) | takes a sample, decides, tells the numbers |
| a cron policy fires, a wait ends | decides |
| the autoscaler or its target changed | enforces the bounds, tells what is not only a number |

A pool is scaled with the version that was seen: on changed ground it is a Conflict and looked at again. What is
remembered may be lost: then nothing is scaled down before its windows are full again, and cron policies go on from the
status."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, ScaleWarmPool, Seen, WritePoolAutoscalerStatus
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.note import Note
from growth.model.outcome import Accepted, Conflict, Refused, TryLater, Unknown
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.snapshot import EMPTY, Snapshot
from growth.model.warmpool import WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.counts import Counts, Owned, counts_of
from growth.plan.warm_pools.firings import Timetable, timetable
from growth.plan.warm_pools.obstacles import Obstacle, Target, owners_of, target_of, why_not_active
from growth.plan.warm_pools.size import Memory, Sized, by_bounds, by_capacity, by_cron, why_not_more
from growth.plan.warm_pools.stabilise import Observation
from growth.plan.warm_pools.status import Told, about, as_decided, as_told, status_of
from growth.plan.world.records import cut, sooner

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
    sized: Sized | None = None  # at the last sample
    memory: Memory | None = None
    next_at: float = 0.0
    sample_at: float = 0.0
    hold_until: float = 0.0  # no attempt to scale before this: the last one was refused
    failure: str = ""  # what came of it
    starting_since: float | None = None
    up: int = 0  # members that are not starting
    pending: Told | None = None  # what the status shall say once the scaling has been accepted


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
    is_same = snapshot.autoscalers is ledger.autoscalers and _are_same(snapshot.warm_pools, ledger.warm_pools)
    if is_same and (ledger.due_at is None or snapshot.now < ledger.due_at):
        return Decision(replace(ledger, looked=Looked()), again_at=ledger.due_at)
    return _Pass(snapshot, ledger, settings.warm_pools).decide()


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
        self.snapshot, self.now, self.settings = snapshot, snapshot.now, settings
        self.before = ledger.watches
        self.owners = (
            ledger.owners
            if snapshot.autoscalers is ledger.autoscalers
            else owners_of(snapshot.autoscalers.values(), settings)
        )
        self.owned = Owned(snapshot.warm_pools)
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.unchanged = self.failed = self.samples = 0

    def decide(self) -> Decision[Ledger]:
        watches, due_at = {}, None
        for key, autoscaler in self.snapshot.autoscalers.items():
            if autoscaler.deleted_at is None:
                watches[key] = watch = self._watched_safely(key, autoscaler)
                due_at = watch.next_at if due_at is None or watch.next_at < due_at else due_at
        looked = Looked(self.unchanged, self.failed, self.samples)
        ledger = Ledger(watches, self.snapshot.autoscalers, self.snapshot.warm_pools, self.owners, due_at, looked)
        return Decision(ledger, tuple(self.actions), tuple(self.notes), due_at)

    def _watched_safely(self, key: str, autoscaler: PoolAutoscaler) -> Watch:
        """A mistake of ours about one autoscaler must not stop the others: it is told on that one, and tried again
        later.
        """
        try:
            return self._watched(key, autoscaler)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            self.failed += 1
            self.unchanged += 1
            self.notes.append(Note(about(autoscaler), "ScaleBlocked", f"growth could not decide: {error!r}", "Warning"))
            return replace(
                self._new(autoscaler), next_at=self.now + _REFUSED_SECONDS, sample_at=self.now + _REFUSED_SECONDS
            )

    def _watched(self, key: str, autoscaler: PoolAutoscaler) -> Watch:
        """The memory of one autoscaler after this pass; the same if there was no reason to look."""
        watch = self.before.get(key)
        if watch is None or watch.autoscaler.uid != autoscaler.uid or watch.autoscaler.spec != autoscaler.spec:
            watch = self._new(autoscaler)
        name, place = watch.target
        view, owner = self.snapshot.warm_pools.get(name), self.owners.get(watch.target, "")
        pool = view.pools.get(place) if view is not None else None
        if watch.autoscaler is autoscaler and watch.pool is pool and watch.owner == owner and self.now < watch.next_at:
            return watch
        return self._look(replace(watch, autoscaler=autoscaler, pool=pool, owner=owner), view)

    def _new(self, autoscaler: PoolAutoscaler) -> Watch:
        return Watch(
            autoscaler, target_of(autoscaler, self.settings), self.settings.kind_of(autoscaler.spec.scale_target_ref)
        )

    def _look(self, watch: Watch, view: WarmPoolView | None) -> Watch:
        autoscaler, pool, samples = watch.autoscaler, watch.pool, self.now >= watch.sample_at
        obstacle = why_not_active(autoscaler, watch.owner, self.settings) or _why_not_target(autoscaler, view, pool)
        if samples:
            watch = replace(watch, sample_at=self._next_sample(autoscaler.key))
        if obstacle is not None:
            self.failed += obstacle.event == "FailedGetScale"
            self.unchanged += 1
            self._tell(watch, Told(obstacle=obstacle), samples=samples)
            return Watch(
                autoscaler,
                watch.target,
                watch.kind,
                watch.owner,
                pool,
                next_at=watch.sample_at,
                sample_at=watch.sample_at,
            )
        counts = (
            None
            if pool is None or watch.kind is None
            else counts_of(autoscaler, pool, watch.kind, self.snapshot, self.owned)
        )
        if pool is None or counts is None:
            return replace(watch, next_at=watch.sample_at)  # not known yet: say nothing
        return self._size(watch, pool, counts, samples=samples)

    # --------------------------------------------------------------------------------------- sizing

    def _size(self, watch: Watch, pool: WarmPool, counts: Counts, *, samples: bool) -> Watch:
        autoscaler = watch.autoscaler
        watch = replace(self._with_starting(watch, counts), times=self._times(watch))
        sized, memory = self._sized(watch, counts, samples=samples)
        stuck = (
            why_not_more(counts, watch.starting_since, self.now, self.settings)
            if autoscaler.spec.capacity_policy is not None
            else ""
        )
        if stuck and sized.policy == "capacity" and sized.replicas > counts.replicas:
            waits = "scaling up waits for replicas that do not start"
            sized = Sized(
                counts.replicas,
                "capacity",
                f"{counts.replicas} replicas stay: {stuck}; {sized.replicas} wanted",
                sized.limited,
                waits,
            )
        self._tell_wait(watch, sized)
        told = Told(
            sized, counts, watch.times, stuck, watch.failure, history=memory.history if memory is not None else ()
        )
        next_at = (
            sooner(watch.sample_at, sized.again_at, watch.times.next_at if watch.times is not None else None)
            or watch.sample_at
        )
        watch = replace(watch, memory=memory, sized=sized, next_at=max(next_at, self.now))
        if sized.replicas != counts.replicas and self.now >= watch.hold_until and watch.kind is not None:
            target = Seen(pool.name, pool.uid, pool.resource_version, pool.namespace)
            self.actions.append(ScaleWarmPool(target, watch.kind, autoscaler.key, sized.replicas, counts.replicas))
            return replace(watch, pending=told)
        self.unchanged += 1
        self._tell(watch, told, samples=samples)
        return watch

    def _times(self, watch: Watch) -> Timetable | None:
        """Reckoned again when a policy fires, or when something about them changed."""
        autoscaler, times = watch.autoscaler, watch.times
        if not autoscaler.spec.cron_policies:
            return None
        if (
            times is not None
            and times.firing is None
            and times.applied == autoscaler.status.applied_cron_policies
            and self.now < (times.next_at or 0.0)
        ):
            return times
        return timetable(autoscaler, self.settings.time_zone, self.now)

    def _sized(self, watch: Watch, counts: Counts, *, samples: bool) -> tuple[Sized, Memory | None]:
        autoscaler, memory, last = watch.autoscaler, watch.memory, watch.sized
        if watch.times is not None:
            return by_cron(autoscaler.spec, counts.replicas, watch.times), None
        bounded = by_bounds(autoscaler.spec, counts.replicas)
        if autoscaler.spec.capacity_policy is None:
            return bounded, None
        has_waited = last is not None and last.again_at is not None and self.now >= last.again_at
        if memory is not None and last is not None and not samples and not has_waited:
            is_held = self.now < watch.hold_until
            return (
                bounded if bounded.limited else last if is_held else replace(last, replicas=counts.replicas)
            ), memory
        memory = memory or Memory(Observation(self.now))
        self.samples += 1
        seen = memory.observation.with_sample(self.now, counts, self.settings.observation_window_seconds)
        return by_capacity(autoscaler, counts, Memory(seen, memory.history), self.now, self.settings)

    def _with_starting(self, watch: Watch, counts: Counts) -> Watch:
        """Since when replicas have been starting without one of them getting there."""
        up = counts.replicas - counts.starting
        if not counts.starting:
            return replace(watch, starting_since=None, up=up)
        has_progress = watch.starting_since is None or up > watch.up
        return replace(watch, starting_since=self.now if has_progress else watch.starting_since, up=up)

    def _tell_wait(self, watch: Watch, sized: Sized) -> None:
        if sized.waits and (watch.sized is None or sized.waits != watch.sized.waits):
            self.notes.append(Note(about(watch.autoscaler), "ScaleBlocked", sized.waits))

    def _next_sample(self, key: str) -> float:
        """The next slot of this autoscaler: always the same ones, and not those of all the others."""
        interval = self.settings.sampling_interval_seconds
        if interval <= 0:
            return self.now
        offset = zlib.crc32(key.encode()) % _SLOTS * interval / _SLOTS
        return ((self.now - offset) // interval + 1) * interval + offset

    # -------------------------------------------------------------------------------------- telling

    def _tell(self, watch: Watch, told: Told, *, samples: bool) -> None:
        """Write the status if it says something new; numbers alone are told with a sample, not with every event."""
        autoscaler = watch.autoscaler
        status = status_of(autoscaler, told, self.now)
        kept = as_told if samples else as_decided
        if kept(status) != kept(autoscaler.status):
            self.actions.append(WritePoolAutoscalerStatus(_seen(autoscaler), status))
            self.notes += _notes(autoscaler, told.obstacle)


def _seen(autoscaler: PoolAutoscaler) -> Seen:
    return Seen(autoscaler.name, autoscaler.uid, autoscaler.resource_version, autoscaler.namespace)


def _why_not_target(autoscaler: PoolAutoscaler, view: WarmPoolView | None, pool: WarmPool | None) -> Obstacle | None:
    target = autoscaler.spec.scale_target_ref
    if view is not None and view.problem:
        return Obstacle("FailedGetScale", view.problem, "FailedGetScale")
    if view is not None and view.is_known and pool is None:
        return Obstacle("FailedGetScale", f"there is no {target} in namespace {autoscaler.namespace}", "FailedGetScale")
    return None


def _notes(autoscaler: PoolAutoscaler, obstacle: Obstacle | None) -> list[Note]:
    """An obstacle is told when it appears."""
    if obstacle is None or not obstacle.event:
        return []
    before = next((each for each in autoscaler.status.conditions if each.type == "ScalingActive"), None)
    if before is not None and (before.reason, before.message) == (obstacle.reason, cut(obstacle.message)):
        return []
    return [Note(about(autoscaler), obstacle.event, obstacle.message, "Warning")]


# ------------------------------------------------------------------------------------------- settle


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, ScaleWarmPool):
        watch = ledger.watches.get(action.autoscaler)
        return Decision(ledger) if watch is None else _scaled(action, settled, watch, ledger, now)
    if isinstance(outcome, Accepted) or not isinstance(action, WritePoolAutoscalerStatus):
        return Decision(ledger)
    wait = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    key = f"{action.autoscaler.namespace}/{action.autoscaler.name}"
    watch = ledger.watches.get(key)
    return Decision(ledger) if watch is None else _again(ledger, key, replace(watch, sample_at=now + wait), now + wait)


def _scaled(action: ScaleWarmPool, settled: Settled, watch: Watch, ledger: Ledger, now: float) -> Decision[Ledger]:
    outcome, autoscaler, told = settled.outcome, watch.autoscaler, watch.pending
    watch = replace(watch, pending=None)
    if told is None or told.sized is None:
        return Decision(_with(ledger, action.autoscaler, watch))
    if isinstance(outcome, Accepted):
        return _accepted(action, watch, told, ledger, now)
    if isinstance(outcome, Conflict | Unknown):
        return _again(ledger, action.autoscaler, replace(watch, sample_at=now + _RETRY_SECONDS), now + _RETRY_SECONDS)
    wait = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _REFUSED_SECONDS
    is_refused = isinstance(outcome, Refused)
    text = f"{told.sized.sentence}; not done: {outcome.reason}"
    note = Note(
        about(autoscaler),
        "FailedScale" if is_refused else "ScaleBlocked",
        cut(text, 1000),
        "Warning" if is_refused else "Normal",
    )
    watch = replace(
        watch,
        hold_until=now + wait,
        failure=cut(outcome.reason) if is_refused else "",
        sample_at=now + wait,
        next_at=now + wait,
    )
    status = status_of(autoscaler, replace(told, failure=watch.failure), now)
    writes = (
        (WritePoolAutoscalerStatus(_seen(autoscaler), status),)
        if is_refused and as_decided(status) != as_decided(autoscaler.status)
        else ()
    )
    return replace(_again(ledger, action.autoscaler, watch, now + wait), actions=writes, notes=(note,))


def _accepted(action: ScaleWarmPool, watch: Watch, told: Told, ledger: Ledger, now: float) -> Decision[Ledger]:
    """Tell it, and begin to observe anew: samples of the old size say nothing about the new one."""
    autoscaler, sized = watch.autoscaler, told.sized
    memory = None if watch.memory is None else Memory(Observation(now), watch.memory.history)
    watch = replace(watch, memory=memory, failure="", hold_until=0.0)
    status = status_of(autoscaler, replace(told, failure="", scaled_at=now), now)
    reason = "ScaledUp" if action.replicas > action.before else "ScaledDown"
    sentence = sized.sentence if sized is not None else ""
    fields = (
        ("policy", sized.policy if sized is not None else ""),
        ("before", action.before),
        ("replicas", action.replicas),
    )
    note = Note(
        about(autoscaler),
        reason,
        cut(f"{action.kind.kind} {action.target.name}: {sentence}; {format_instant(now)}", 1000),
        fields=fields,
    )
    return Decision(
        _with(ledger, action.autoscaler, watch),
        (WritePoolAutoscalerStatus(_seen(autoscaler), status),),
        (note,),
        watch.next_at,
    )


def _with(ledger: Ledger, key: str, watch: Watch) -> Ledger:
    due_at = sooner(ledger.due_at, watch.next_at)
    return replace(ledger, watches={**ledger.watches, key: watch}, due_at=due_at)


def _again(ledger: Ledger, key: str, watch: Watch, at: float) -> Decision[Ledger]:
    return Decision(_with(ledger, key, replace(watch, next_at=at)), again_at=at)
