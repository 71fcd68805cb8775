"""Which cron policy has fired and not been acted upon, and when does the next one fire? Asked by
`plan/warm_pools/warm_pools` and `growth explain`.

| the policy | its times count from |
| --- | --- |
| of an autoscaler as it was created | the autoscaler's creation |
| known, with this schedule and zone | the last time that was acted upon or passed over (`since` in the status) |
| new, or with another schedule or zone | now |
| any, when the autoscaler has just been resumed | now |

Of several times that were missed only the latest is acted upon; of several at the same instant the one with most
replicas."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from growth.model.instant import format_instant
from growth.model.poolautoscaler import AppliedCronPolicy, CronPolicy, PoolAutoscaler
from growth.plan.world.schedule import Schedule, read_schedule
from growth.plan.world.turn import instant_of, sooner


class Firing(Struct, frozen=True, gc=False):
    """A time at which a policy fired."""

    at: float
    policy: CronPolicy


class Timetable(Struct, frozen=True):
    """The cron policies of one autoscaler: what was acted upon, what fired, when the next one fires."""

    applied: tuple[AppliedCronPolicy, ...]  # as the status shall say, before the firing is acted upon
    firing: Firing | None = None
    next_at: float | None = None

    def after_firing(self) -> tuple[AppliedCronPolicy, ...]:
        """As the status shall say once the firing has been acted upon: every time up to it is past."""
        firing = self.firing
        if firing is None:
            return self.applied
        text = format_instant(firing.at)
        passed = (
            each
            if each.since is not None and (instant_of(each.since) or 0.0) >= firing.at
            else replace(each, since=text)
            for each in self.applied
        )
        return tuple(
            replace(each, last_schedule_time=text) if each.name == firing.policy.name else each for each in passed
        )


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
    last = known.last_schedule_time if known is not None else None
    return AppliedCronPolicy(policy.name, last, format_instant(since), text), since
