"""What does the status of a PoolAutoscaler say? Asked by `plan/warm_pools/warm_pools`; it decides nothing.

| condition | True | False |
| --- | --- | --- |
| ScalingActive | the policy is followed | an obstacle: see `plan/warm_pools/obstacles` |
| AbleToScale | the target can be scaled | the last attempts failed, or replicas do not start |
| ScalingLimited | a bound, or pods in use, decide | the policy's own number holds |
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.api import Condition
from growth.model.instant import format_instant
from growth.model.poolautoscaler import (
    MOST_RECOMMENDATIONS,
    AppliedCronPolicy,
    CapacityStatus,
    PoolAutoscaler,
    PoolAutoscalerStatus,
    Recommendation,
)
from growth.plan.warm_pools.counts import PoolCounts
from growth.plan.warm_pools.firings import Timetable
from growth.plan.warm_pools.obstacles import Obstacle
from growth.plan.warm_pools.size import Recommendations, Scaling
from growth.plan.world.turn import Conditions, cut, without_times

LONGEST_SENTENCE: Final = 1000
NOT_STARTING: Final = "ReplicasNotStarting"


class Report(Struct, frozen=True):
    """All that the status of an autoscaler is made of."""

    scaling: Scaling | None = None
    counts: PoolCounts | None = None
    times: Timetable | None = None
    stuck: str = ""
    failure: str = ""
    obstacle: Obstacle | None = None
    inactive: Obstacle | None = None  # why the policy is not followed, while the bounds are
    history: Recommendations = ()
    scaled_at: float | None = None  # the scaling was accepted


def without_numbers(status: PoolAutoscalerStatus) -> PoolAutoscalerStatus:
    """Without its times, and without the numbers that change with every claim."""
    return replace(without_times(status), current_capacity=CapacityStatus(), last_decision="", recommendations=())


def status_of(autoscaler: PoolAutoscaler, report: Report, now: float) -> PoolAutoscalerStatus:
    """The status after this decision, given the one before."""
    status = replace(
        autoscaler.status,
        observed_generation=autoscaler.generation,
        suspended=autoscaler.spec.suspend,
        applied_cron_policies=_applied(autoscaler, report, now),
        conditions=_conditions(autoscaler, report, now),
    )
    scaling, counts = report.scaling, report.counts
    if scaling is None or counts is None:
        message = report.obstacle.message if report.obstacle is not None else ""
        return replace(status, last_decision=cut(message, LONGEST_SENTENCE), recommendations=())
    is_scaled = report.scaled_at is not None
    kept = report.history[-MOST_RECOMMENDATIONS:]
    return replace(
        status,
        last_scale_time=status.last_scale_time if report.scaled_at is None else format_instant(report.scaled_at),
        current_replicas=scaling.replicas if is_scaled else counts.replicas,
        desired_replicas=scaling.replicas,
        current_capacity=CapacityStatus(counts.available, counts.used, counts.starting),
        recommendations=tuple(Recommendation(format_instant(at), replicas) for at, replicas in kept),
        active_policy=scaling.policy or status.active_policy or "bounds",
        last_decision=cut(scaling.sentence, LONGEST_SENTENCE)
        or status.last_decision
        or f"{counts.replicas} replicas stay until a policy fires",
    )


def _applied(autoscaler: PoolAutoscaler, report: Report, now: float) -> tuple[AppliedCronPolicy, ...]:
    """A firing is past once it was acted upon: the target was scaled, or had that number already."""
    if report.times is not None and report.scaling is not None and report.counts is not None:
        times, scaling, replicas = report.times, report.scaling, report.counts.replicas
        if report.scaled_at is not None or (times.firing is not None and scaling.replicas == replicas):
            return times.after_firing(scaling.replicas)
        return times.applied if times.firing is not None else times.at(replicas)
    applied = autoscaler.status.applied_cron_policies
    if autoscaler.status.suspended and not autoscaler.spec.suspend:  # resumed, with another obstacle
        return tuple(replace(each, since=format_instant(now)) for each in applied)
    return applied


def _conditions(autoscaler: PoolAutoscaler, report: Report, now: float) -> tuple[Condition, ...]:
    write = Conditions(autoscaler.status.conditions, autoscaler.generation, now).write
    obstacle, spec = report.obstacle, autoscaler.spec
    if obstacle is not None:
        is_unreadable = obstacle.event == "FailedGetScale"
        return (
            write("ScalingActive", False, obstacle.reason, obstacle.message),
            write(
                "AbleToScale",
                False if is_unreadable else None,
                obstacle.reason,
                obstacle.message if is_unreadable else "",
            ),
            write("ScalingLimited", None, obstacle.reason),
        )
    policy = "CapacityPolicy" if spec.capacity_policy else "CronPolicies" if spec.cron_policies else "BoundsOnly"
    inactive = report.inactive
    problem = ("FailedScale", report.failure) if report.failure else (NOT_STARTING, report.stuck)
    able = problem if problem[1] else ("ReadyForNewScale", "")
    limited, limit = ("", "") if report.scaling is None else (report.scaling.limited, report.scaling.limit)
    return (
        write("ScalingActive", True, policy)
        if inactive is None
        else write("ScalingActive", False, inactive.reason, inactive.message),
        write("AbleToScale", not problem[1], *able),
        write("ScalingLimited", bool(limited), limited or "DesiredWithinRange", limit),
    )
