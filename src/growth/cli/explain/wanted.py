"""What would a PoolAutoscaler want at these numbers, and how is that calculated? Asked by `cli/explain/autoscaler`; one
look, with the functions that decide in a cluster, and without their windows."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from growth.model.poolautoscaler import CapacityPolicy, PoolAutoscaler, PoolAutoscalerSpec, Recommendation
from growth.model.settings import WarmPoolSettings
from growth.plan.warm_pools.counts import PoolCounts
from growth.plan.warm_pools.firings import Timetable, schedule_of, timetable
from growth.plan.warm_pools.obstacles import Obstacle, why_not_by_capacity
from growth.plan.warm_pools.size import (
    Memory,
    Observation,
    Scaling,
    Watermarks,
    by_bounds,
    by_capacity,
    by_cron,
    clamped,
    recommend,
    sparing_used,
    tolerance_of,
    unless_stuck,
    watermarks,
)

_FIRINGS = 3  # of each policy
_AT_ONCE = {"observation_window_seconds": 0.0, "scale_up_window_seconds": 0, "scale_down_window_seconds": 0}


class Firing(Struct, rename="camel"):
    policy: str
    at: str
    local: str
    replicas: int


class Elsewhere(Struct, rename="camel"):
    """What would happen with another number available."""

    available: int
    desired_replicas: int


class AutoscalerAnswer(Struct, rename="camel", omit_defaults=True):
    """What is said of one autoscaler."""

    autoscaler: str
    target: str
    replicas: int
    available: int
    used: int
    starting: int
    desired_replicas: int
    policy: str
    reason: str
    watermarks: Watermarks | None = None
    limited: str = ""
    problem: str = ""
    calculation: list[str] = []
    next_firings: list[Firing] = []
    at_other_numbers: list[Elsewhere] = []
    last_decision: str = ""
    last_scale_time: str = ""
    recommendations: tuple[Recommendation, ...] = ()
    conditions: dict[str, str] = {}  # in a cluster: what its status says


def answer_for(
    autoscaler: PoolAutoscaler,
    counts: PoolCounts,
    around: int,
    settings: WarmPoolSettings,
    now: float,
    problem: str = "",
    stuck: str = "",
) -> AutoscalerAnswer:
    """One look, without windows: what the policy asks for at these numbers. `stuck`: why it adds no more."""
    inactive = _inactive(autoscaler, settings)
    policy = autoscaler.spec.capacity_policy if inactive is None else None
    times = timetable(autoscaler, settings.time_zone, now) if autoscaler.spec.cron_policies and not problem else None
    sized = unless_stuck(wanted(autoscaler, counts, settings, now, times), counts, stuck)
    marks = None if policy is None else watermarks(policy, counts.replicas, settings.tolerance_percent)
    return AutoscalerAnswer(
        autoscaler=autoscaler.key.lstrip("/"),
        target=str(autoscaler.spec.scale_target_ref),
        replicas=counts.replicas,
        available=counts.available,
        used=counts.used,
        starting=counts.starting,
        desired_replicas=counts.replicas if problem else sized.replicas,
        policy=sized.policy or "cron",
        reason=problem or sized.sentence or f"{counts.replicas} replicas stay until a policy fires",
        watermarks=marks,
        limited=sized.limited,
        problem=problem or ("" if inactive is None else inactive.message),
        calculation=[] if policy is None or problem else _calculation(autoscaler.spec, policy, counts, settings),
        next_firings=_firings(autoscaler, settings, now) if times is not None else [],
        at_other_numbers=[] if policy is None or problem else _elsewhere(autoscaler, counts, around, settings, now),
    )


def _inactive(autoscaler: PoolAutoscaler, settings: WarmPoolSettings) -> Obstacle | None:
    kind = settings.kind_of(autoscaler.spec.scale_target_ref)
    return None if kind is None else why_not_by_capacity(autoscaler, kind)


def wanted(
    autoscaler: PoolAutoscaler, counts: PoolCounts, settings: WarmPoolSettings, now: float, times: Timetable | None
) -> Scaling:
    spec = autoscaler.spec
    if times is not None:
        return sparing_used(by_cron(spec, counts.replicas, times), counts)
    if spec.capacity_policy is None or _inactive(autoscaler, settings) is not None:
        return sparing_used(by_bounds(spec, counts.replicas), counts)
    at_once = msgspec.structs.replace(settings, **_AT_ONCE)
    policy = without_windows(spec.capacity_policy)
    unsteadied = msgspec.structs.replace(autoscaler, spec=msgspec.structs.replace(spec, capacity_policy=policy))
    memory = Memory(Observation(now).with_sample(now, counts, 0.0))
    return sparing_used(by_capacity(unsteadied, counts, memory, now, at_once)[0], counts)


def without_windows(policy: CapacityPolicy) -> CapacityPolicy:
    """The same, followed at once."""
    up, down = (
        None if rules is None else msgspec.structs.replace(rules, stabilization_window_seconds=0)
        for rules in (policy.scale_up, policy.scale_down)
    )
    return msgspec.structs.replace(policy, scale_up=up, scale_down=down)


def _calculation(
    spec: PoolAutoscalerSpec, policy: CapacityPolicy, counts: PoolCounts, settings: WarmPoolSettings
) -> list[str]:
    """How the number came about, one step in a line."""
    marks, soon = watermarks(policy, counts.replicas, settings.tolerance_percent), counts.soon_available
    up, down = (
        tolerance_of(policy, rules, settings.tolerance_percent) for rules in (policy.scale_up, policy.scale_down)
    )
    of = f" of {max(1, counts.replicas)} replicas" if isinstance(policy.target_available, str) else ""
    asked = recommend(marks, replicas=counts.replicas, available=soon, used=counts.used, starting=counts.starting)
    is_above = soon > marks.upper and counts.available >= marks.lower
    relation = "<" if soon < marks.lower else ">" if is_above else "within"
    against = (
        f"L = {marks.lower}"
        if relation == "<"
        else f"U = {marks.upper}"
        if relation == ">"
        else f"[{marks.lower}, {marks.upper}]"
    )
    total = f"{counts.used} used + T = {counts.used + marks.target}" if relation != "within" else f"{asked} as it is"
    lines = [
        f"T = {policy.target_available}{of}, rounded up = {marks.target}",
        f"L = T less {up}, at least 1 where T is = {marks.lower}",
        f"U = T and {down} more = {marks.upper}",
        f"A = {counts.available} available + {counts.starting} starting = {soon}",
        f"A = {soon} {relation} {against}: {total}",
    ]
    bounded = clamped(spec, asked)
    if bounded.limited:
        lines.append(f"{bounded.limit}: {bounded.replicas}")
    return lines


def _elsewhere(
    autoscaler: PoolAutoscaler, counts: PoolCounts, around: int, settings: WarmPoolSettings, now: float
) -> list[Elsewhere]:
    """With more or fewer of the same replicas available: the others in use, or starting."""
    answers = []
    for available in range(max(0, counts.available - around), min(counts.replicas, counts.available + around) + 1):
        moved = available - counts.available
        used = max(0, counts.used - moved) if counts.used or not counts.starting else counts.used
        starting = counts.replicas - available - used
        if available != counts.available and starting >= 0:
            other = PoolCounts(counts.replicas, available, used, starting)
            answers.append(Elsewhere(available, wanted(autoscaler, other, settings, now, None).replicas))
    return answers


def _firings(autoscaler: PoolAutoscaler, settings: WarmPoolSettings, now: float) -> list[Firing]:
    found: list[tuple[float, Firing]] = []
    for policy in autoscaler.spec.cron_policies:
        schedule, at = schedule_of(policy, settings.time_zone), now
        for _ in range(_FIRINGS):
            at = schedule.next_after(at)
            moment = datetime.fromtimestamp(at, UTC)
            local = moment.astimezone(schedule.zone).strftime("%a %Y-%m-%d %H:%M %Z")
            universal = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            found.append((at, Firing(policy.name, universal, local, policy.target_replicas)))
    return [firing for _, firing in sorted(found, key=lambda each: each[0])]


def lines_of(answer: AutoscalerAnswer) -> list[str]:
    counts = f"{answer.available} available, {answer.used} used, {answer.starting} starting"
    lines = [
        f"PoolAutoscaler {answer.autoscaler} of {answer.target}",
        f"  now        {answer.replicas} replicas: {counts}",
        f"  wants      {answer.desired_replicas}" + (f" ({answer.policy})" if not answer.problem else ""),
        f"  because    {answer.reason}",
    ]
    if answer.watermarks is not None:
        marks = answer.watermarks
        lines.append(f"  watermarks up below {marks.lower}, down above {marks.upper}, to {marks.target} available")
    lines += [f"  calculated {each}" for each in answer.calculation]
    if answer.problem and answer.problem != answer.reason:
        lines.append(f"  not active {answer.problem}")
    if answer.last_decision:
        scaled = f" (last scaled {answer.last_scale_time})" if answer.last_scale_time else ""
        lines.append(f"  last said  {answer.last_decision}{scaled}")
    lines += [f"  says       {kind}: {text}" for kind, text in answer.conditions.items()]
    lines += [f"  since      {each.at}: {each.replicas} recommended" for each in answer.recommendations]
    lines += [
        f"  fires      {each.local} ({each.at}): {each.policy}, {each.replicas} replicas"
        for each in answer.next_firings
    ]
    lines += [f"  at {each.available:5} available: {each.desired_replicas}" for each in answer.at_other_numbers]
    return lines
