"""Which cron policy has fired and not been acted upon, and when does the next one fire? Asked by
`plan/warm_pools/warm_pools` and `growth explain`.

| the policy | its times count from |
| --- | --- |
| of an autoscaler as it was created | the autoscaler's creation |
| known, with this schedule and zone | the last time that was acted upon or passed over (`since` in the status) |
| new, or with another schedule or zone | now |
| any, when the autoscaler has just been resumed | now |

A time in the status that has not come yet was written by a clock that was ahead: it counts as now. Of several times
that were missed only the latest is acted upon; of several at the same instant the one with most replicas.

What the latest time asked for holds until the next one, while nobody else scales the target: when a bound that limited
it moves, the count moves with it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.instant import format_instant
from growth.model.poolautoscaler import AppliedCronPolicy, CronPolicy, PoolAutoscaler
from growth.plan.world.schedule import Schedule, read_schedule
from growth.plan.world.turn import instant_of, sooner

_AHEAD_SECONDS: Final = 300.0  # a record further ahead than clocks differ is forgotten


class Firing(Struct, frozen=True, gc=False):
    """A time at which a policy fired."""

    at: float
    policy: CronPolicy


class Timetable(Struct, frozen=True):
    """The cron policies of one autoscaler: what was acted upon, what fired, when the next one fires."""

    applied: tuple[AppliedCronPolicy, ...]  # as the status shall say, before the firing is acted upon
    firing: Firing | None = None
    next_at: float | None = None

    @property
    def held(self) -> AppliedCronPolicy | None:
        """The policy whose last time still holds."""
        return next((each for each in self.applied if each.target_replicas is not None), None)

    def after_firing(self, replicas: int) -> tuple[AppliedCronPolicy, ...]:
        """As the status shall say once the firing has been acted upon, by this many replicas: every time up to it is
        past, and what it asked for holds.
        """
        firing = self.firing
        if firing is None:
            return self.after_setting(replicas)
        text = format_instant(firing.at)
        passed = (
            each
            if each.since is not None and (instant_of(each.since) or 0.0) >= firing.at
            else replace(each, since=text)
            for each in _let_go(self.applied)
        )
        asked = {"target_replicas": firing.policy.target_replicas, "set_replicas": replicas}
        return tuple(
            replace(each, last_schedule_time=text, **asked) if each.name == firing.policy.name else each
            for each in passed
        )

    def after_setting(self, replicas: int) -> tuple[AppliedCronPolicy, ...]:
        """What holds was set to another number: a bound has moved."""
        return tuple(
            each if each.target_replicas is None else replace(each, set_replicas=replicas) for each in self.applied
        )

    def at(self, replicas: int) -> tuple[AppliedCronPolicy, ...]:
        """As the status shall say while nothing fires: what holds is over when somebody else has scaled."""
        held = self.held
        return self.applied if held is None or held.set_replicas == replicas else _let_go(self.applied)


def _let_go(applied: tuple[AppliedCronPolicy, ...]) -> tuple[AppliedCronPolicy, ...]:
    return tuple(replace(each, target_replicas=None, set_replicas=None) for each in applied)


def schedule_of(policy: CronPolicy, zone: str) -> Schedule:
    """Raises ScheduleError or UnknownTimeZoneError."""
    return read_schedule(policy.schedule, policy.time_zone or zone)


def timetable(autoscaler: PoolAutoscaler, zone: str, now: float) -> Timetable:
    """Of an autoscaler whose schedules can be read."""
    applied, fired, nexts = [], [], []
    for policy in autoscaler.spec.cron_policies:
        record, since = _record(policy, autoscaler, zone, now)
        schedule = schedule_of(policy, zone)
        last = schedule.last_until(now)
        if last is not None and last > since:
            fired.append(Firing(last, policy))
        applied.append(record)
        nexts.append(schedule.next_after(now))
    latest = max(fired, key=lambda each: (each.at, each.policy.target_replicas), default=None)
    return Timetable(tuple(applied), latest, sooner(*nexts))


def _record(policy: CronPolicy, autoscaler: PoolAutoscaler, zone: str, now: float) -> tuple[AppliedCronPolicy, float]:
    """What the status shall say of it, and from when its times count."""
    status, text = autoscaler.status, f"{policy.schedule} {policy.time_zone or zone}"
    known = next((each for each in status.applied_cron_policies if each.name == policy.name), None)
    since = instant_of(known.since) if known is not None and known.schedule == text else None
    if since is None or status.suspended:
        since = autoscaler.created_at if known is None and autoscaler.generation <= 1 else now
    since = min(since, now)
    if known is None:
        return AppliedCronPolicy(policy.name, None, format_instant(since), text), since
    last = known.last_schedule_time
    is_ahead = (instant_of(last) or 0.0) > now + _AHEAD_SECONDS
    record = replace(known, last_schedule_time=None if is_ahead else last, since=format_instant(since), schedule=text)
    if is_ahead or known.schedule != text:
        record = replace(record, target_replicas=None, set_replicas=None)
    return record, since
