"""What does the status of a PoolAutoscaler say? Asked by `plan/warm_pools/warm_pools`; it decides nothing.

| condition | True | False |
| --- | --- | --- |
| ScalingActive | the policy is followed | an obstacle: see `plan/warm_pools/obstacles` |
| AbleToScale | the target can be scaled | the last attempt was refused, or replicas do not start |
| ScalingLimited | a bound decided | the policy's own number is within the bounds |
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from growth.model.api import Condition
from growth.model.instant import format_instant
from growth.model.note import About
from growth.model.poolautoscaler import (
    MOST_RECOMMENDATIONS,
    AppliedCronPolicy,
    CapacityStatus,
    PoolAutoscaler,
    PoolAutoscalerStatus,
    Recommendation,
)
from growth.plan.warm_pools.counts import Counts
from growth.plan.warm_pools.firings import Timetable
from growth.plan.warm_pools.obstacles import Obstacle
from growth.plan.warm_pools.size import Sized
from growth.plan.warm_pools.stabilise import Recommended
from growth.plan.world.records import cut

State = tuple[Literal["True", "False", "Unknown"], str, str]  # status, reason, message


class Told(Struct, frozen=True):
    """All that a status is made of."""

    sized: Sized | None = None
    counts: Counts | None = None
    times: Timetable | None = None
    stuck: str = ""
    failure: str = ""
    obstacle: Obstacle | None = None
    history: tuple[Recommended, ...] = ()
    scaled_at: float | None = None  # the scaling was accepted


def about(autoscaler: PoolAutoscaler) -> About:
    return About("PoolAutoscaler", autoscaler.name, autoscaler.namespace, autoscaler.uid)


def as_told(status: PoolAutoscalerStatus) -> PoolAutoscalerStatus:
    """Without the times of its conditions: they follow from the rest."""
    return replace(
        status,
        conditions=tuple(replace(each, last_transition_time="", observed_generation=0) for each in status.conditions),
    )


def as_decided(status: PoolAutoscalerStatus) -> PoolAutoscalerStatus:
    """Without the numbers that change with every claim."""
    return replace(as_told(status), current_capacity=CapacityStatus(), last_decision="", recommendations=())


def status_of(autoscaler: PoolAutoscaler, told: Told, now: float) -> PoolAutoscalerStatus:
    """The status after this decision, given the one before."""
    status = replace(
        autoscaler.status,
        observed_generation=autoscaler.generation,
        suspended=autoscaler.spec.suspend,
        applied_cron_policies=_applied(autoscaler, told, now),
        conditions=_conditions(autoscaler, told, now),
    )
    if told.sized is None or told.counts is None:
        message = told.obstacle.message if told.obstacle is not None else ""
        return replace(status, last_decision=cut(message, 1000), recommendations=())
    sized, counts = told.sized, told.counts
    return replace(
        status,
        last_scale_time=format_instant(told.scaled_at) if told.scaled_at is not None else status.last_scale_time,
        current_replicas=sized.replicas if told.scaled_at is not None else counts.replicas,
        desired_replicas=sized.replicas,
        current_capacity=CapacityStatus(counts.available, counts.used, counts.starting),
        recommendations=tuple(
            Recommendation(format_instant(at), replicas) for at, replicas in told.history[-MOST_RECOMMENDATIONS:]
        ),
        active_policy=sized.policy or status.active_policy or "bounds",
        last_decision=cut(sized.sentence, 1000)
        or status.last_decision
        or f"{counts.replicas} replicas stay until a policy fires",
    )


def _applied(autoscaler: PoolAutoscaler, told: Told, now: float) -> tuple[AppliedCronPolicy, ...]:
    """A firing is past once it was acted upon: the target was scaled, or had that number already."""
    if told.times is not None and told.sized is not None and told.counts is not None:
        is_done = told.scaled_at is not None or told.sized.replicas == told.counts.replicas
        return told.times.after_firing() if is_done else told.times.applied
    applied = autoscaler.status.applied_cron_policies
    if autoscaler.status.suspended and not autoscaler.spec.suspend:  # resumed, though something else stands in the way
        return tuple(replace(each, since=format_instant(now)) for each in applied)
    return applied


def _conditions(autoscaler: PoolAutoscaler, told: Told, now: float) -> tuple[Condition, ...]:
    obstacle, limited = told.obstacle, told.sized.limited if told.sized is not None else ""
    if obstacle is None:
        active: State = ("True", _followed(autoscaler), "")
        able, bounded = _able(told), _limited(autoscaler, limited)
    else:
        unknown: State = ("Unknown", obstacle.reason, "")
        active, bounded = ("False", obstacle.reason, obstacle.message), unknown
        able = ("False", obstacle.reason, obstacle.message) if obstacle.event == "FailedGetScale" else unknown
    states = {"ScalingActive": active, "AbleToScale": able, "ScalingLimited": bounded}
    return tuple(_condition(autoscaler, kind, state, now) for kind, state in states.items())


def _followed(autoscaler: PoolAutoscaler) -> str:
    return (
        "CapacityPolicy"
        if autoscaler.spec.capacity_policy is not None
        else "CronPolicies"
        if autoscaler.spec.cron_policies
        else "BoundsOnly"
    )


def _able(told: Told) -> State:
    if told.failure:
        return "False", "FailedScale", told.failure
    if told.stuck:
        return "False", "ReplicasNotStarting", told.stuck
    return "True", "ReadyForNewScale", ""


def _limited(autoscaler: PoolAutoscaler, limited: str) -> State:
    if not limited:
        return "False", "DesiredWithinRange", ""
    spec = autoscaler.spec
    bound = (
        f"minReplicas is {spec.min_replicas}" if limited == "TooFewReplicas" else f"maxReplicas is {spec.max_replicas}"
    )
    return "True", limited, bound


def _condition(autoscaler: PoolAutoscaler, kind: str, state: State, now: float) -> Condition:
    """Its time changes only when its status does."""
    status, reason, message = state
    before = next((each for each in autoscaler.status.conditions if each.type == kind), None)
    since = before.last_transition_time if before is not None and before.status == status else format_instant(now)
    return Condition(kind, status, reason, cut(message), since, autoscaler.generation)
