"""What is remembered of each autoscaler and of each target, and what follows from the outcome of a write? Asked by
`plan/warm_pools/warm_pools`.

Two writes to one target are never closer than ten seconds, whoever asked for them:

| the last write to a target | the next one comes after | and is told |
| --- | --- | --- |
| was accepted | 10 s | ScaledUp or ScaledDown |
| was accepted, and somebody else undid it, n times in a row | 10 s · 2ⁿ, at most 1 min | ScaleBlocked at the third |
| failed, n times in a row | 10 s · 2ⁿ⁻¹, at most 5 min; refused: at least 1 min | FailedScale, AbleToScale False |

A version that has moved on (Conflict) and a lost answer (Unknown) are told from the second in a row on: the first one
is everyday life. TryLater is a ScaleBlocked until the second. A target that has what it shall have clears the count.
The memory may be lost: the time of the last scaling is in the status."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import ScaleWarmPool, WritePoolAutoscalerStatus
from growth.model.decision import Decision, Note
from growth.model.instant import format_instant
from growth.model.outcome import Accepted, Outcome, Refused, TryLater
from growth.model.poolautoscaler import AppliedCronPolicy, PoolAutoscaler
from growth.model.snapshot import EMPTY
from growth.model.warmpool import WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.counts import Rise
from growth.plan.warm_pools.firings import Timetable
from growth.plan.warm_pools.obstacles import Target
from growth.plan.warm_pools.size import Memory, Observation, Scaling
from growth.plan.warm_pools.status import LONGEST_SENTENCE, Report, status_of, without_numbers
from growth.plan.world.turn import NEVER_FAILED, Failed, Turn, about, cut, instant_of, retry_at, seen, sooner

APART_SECONDS: Final = 10.0
_REFUSED_SECONDS: Final = 60.0
_LONGEST_PAUSE_SECONDS: Final = 300.0
_LONGEST_CONTEST_SECONDS: Final = 60.0
_CONTEST_SECONDS: Final = 120.0  # what is undone within this is a contest
_TOLD_CONTEST: Final = 3


class Writes(Struct, frozen=True, gc=False):
    """What came of our writes to one target."""

    at: float  # of the last one
    failures: int = 0  # in a row
    failure: str = ""  # why, once it is told
    replicas: int | None = None  # that the last accepted one set
    undone: int = 0  # how often in a row somebody else changed them back
    not_before: float = 0.0  # the server's own word

    @property
    def next_at(self) -> float:
        """When the next write may be."""
        pause = APART_SECONDS
        if self.failures:
            pause = min(_LONGEST_PAUSE_SECONDS, APART_SECONDS * 2 ** min(10, self.failures - 1))
        elif self.undone:
            pause = min(_LONGEST_CONTEST_SECONDS, APART_SECONDS * 2 ** min(10, self.undone))
        return max(self.at + pause, self.not_before)

    def after(self, outcome: Outcome, replicas: int, now: float) -> Writes:
        if isinstance(outcome, Accepted):
            is_again = self.replicas == replicas and now - self.at < _CONTEST_SECONDS
            return Writes(now, replicas=replicas, undone=self.undone + 1 if is_again else 0)
        failures, reason = self.failures + 1, outcome.reason
        later = retry_at(outcome, now, _REFUSED_SECONDS if isinstance(outcome, Refused) else 0.0)
        is_told = isinstance(outcome, Refused) or failures > 1
        return replace(self, at=now, failures=failures, failure=cut(reason) if is_told else "", not_before=later)

    def in_order(self) -> Writes:
        """The target has what it shall have."""
        return self if not self.failures else replace(self, failures=0, failure="", not_before=0.0)


def writes_before(autoscaler: PoolAutoscaler, now: float) -> Writes | None:
    """What the status knows of a write before this growth was started."""
    at = instant_of(autoscaler.status.last_scale_time)
    return None if at is None or at > now else Writes(at)


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
    rise: Rise | None = None  # of a pool whose members leave
    next_at: float = 0.0
    sample_at: float = 0.0
    is_held: bool = False  # a scaling was wanted, and no write allowed yet
    starting_since: float | None = None
    up: int = 0  # members that are not starting
    pending: Report | None = None  # what the status shall say once the scaling has been accepted
    failed: Failed = NEVER_FAILED  # writes of its status
    unwritten: tuple[AppliedCronPolicy, ...] | None = None  # what the last of those would have said of cron policies


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
    writes: Mapping[Target, Writes] = MappingProxyType({})
    due_at: float | None = None
    looked: Looked = Looked()

    def with_watch(self, key: str, watch: Watch) -> Ledger:
        return replace(self, watches={**self.watches, key: watch}, due_at=sooner(self.due_at, watch.next_at))

    def again(self, key: str, watch: Watch, at: float) -> Decision[Ledger]:
        """Take a sample and decide again at this instant."""
        return Decision(self.with_watch(key, replace(watch, next_at=at, sample_at=at)), again_at=at)


def settle_scaling(action: ScaleWarmPool, outcome: Outcome, ledger: Ledger, now: float) -> Decision[Ledger]:
    """What follows from the outcome of a write to a target."""
    key = action.autoscaler
    watch = ledger.watches.get(key)
    if watch is None:
        return Decision(ledger)
    before = ledger.writes.get(watch.target) or Writes(now - _CONTEST_SECONDS)
    writes = before.after(outcome, action.replicas, now)
    ledger = replace(ledger, writes={**ledger.writes, watch.target: writes})
    report, watch = watch.pending, replace(watch, pending=None)
    if report is None or report.scaling is None:
        return Decision(ledger.with_watch(key, watch))
    if isinstance(outcome, Accepted):
        return _accepted(action, watch, report, writes, ledger, now)
    return _failed(action, outcome, watch, report, writes, ledger, now)


def _accepted(
    action: ScaleWarmPool, watch: Watch, report: Report, writes: Writes, ledger: Ledger, now: float
) -> Decision[Ledger]:
    """Report it and forget the samples: those of the old size say nothing about the new one."""
    autoscaler, scaling = watch.autoscaler, report.scaling
    memory = None if watch.memory is None else Memory(Observation(now), watch.memory.history)
    policy, sentence = ("", "") if scaling is None else (scaling.policy, scaling.sentence)
    turn, status = Turn(), status_of(autoscaler, replace(report, failure="", scaled_at=now), now)
    turn.wake(watch.next_at)
    turn.do(WritePoolAutoscalerStatus(seen(autoscaler), status))
    target = f"{action.kind.kind} {action.target.name}"
    fields = (("policy", policy), ("before", action.before), ("replicas", action.replicas))
    reason = "ScaledUp" if action.replicas > action.before else "ScaledDown"
    text = f"{target}: {sentence}; {format_instant(now)}"
    turn.tell(Note(about(autoscaler), reason, cut(text, LONGEST_SENTENCE), fields=fields))
    if writes.undone == _TOLD_CONTEST:
        text = f"somebody else keeps changing the replicas of {target}: growth sets {action.replicas}, but more rarely"
        turn.tell(Note(about(autoscaler), "ScaleBlocked", text, "Warning"))
    return turn.decision(ledger.with_watch(action.autoscaler, replace(watch, memory=memory)))


def _failed(
    action: ScaleWarmPool,
    outcome: Outcome,
    watch: Watch,
    report: Report,
    writes: Writes,
    ledger: Ledger,
    now: float,
) -> Decision[Ledger]:
    autoscaler, turn = watch.autoscaler, Turn()
    sentence = "" if report.scaling is None else report.scaling.sentence
    text = cut(f"{sentence}; not done: {getattr(outcome, 'reason', '')}", LONGEST_SENTENCE)
    if isinstance(outcome, TryLater):
        turn.tell(Note(about(autoscaler), "ScaleBlocked", text))
    elif writes.failure:
        turn.tell(Note(about(autoscaler), "FailedScale", text, "Warning"))
    status = status_of(autoscaler, replace(report, failure=writes.failure), now)
    if writes.failure and without_numbers(status) != without_numbers(autoscaler.status):
        turn.do(WritePoolAutoscalerStatus(seen(autoscaler), status))
    again = ledger.again(action.autoscaler, replace(watch, is_held=True), writes.next_at)
    return replace(again, actions=tuple(turn.actions), notes=tuple(turn.notes))
