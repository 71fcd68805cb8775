"""Can this autoscaler work at all? What admission cannot see, and what an older schema let through. Asked by
`plan/warm_pools/warm_pools` and `growth explain`.

| reason | when | event |
| --- | --- | --- |
| Suspended | `spec.suspend` | |
| InvalidSpec | bounds, policies or tolerance contradict each other | ScaleBlocked |
| KindNotAllowed | the target's kind is not among those the operator allows | ScaleBlocked |
| TargetTaken | an older autoscaler has the same target | ScaleBlocked |
| InvalidSchedule | five fields that can never fire | ScaleBlocked |
| UnknownTimeZone | no such zone | UnknownTimeZone |
| FailedGetScale | the target, its kind or the owners of its pods are not there or cannot be read | FailedGetScale |
| TargetControlled | the target is a ReplicaSet that a Deployment controls and would set back | ScaleBlocked |

One more leaves the bounds in force: InUseUnknown, a capacity policy on a kind that cannot tell what is in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from growth.model.poolautoscaler import MOST_POLICIES, PoolAutoscaler, PoolAutoscalerSpec
from growth.model.settings import WarmPoolSettings
from growth.model.warmpool import REPLICA_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.firings import schedule_of
from growth.plan.warm_pools.in_use import selector_of
from growth.plan.warm_pools.size import why_not_tolerance
from growth.plan.world.schedule import ScheduleError, UnknownTimeZoneError

Target = tuple[str, str]  # the kind's name, and namespace/name


class Obstacle(Struct, frozen=True, gc=False):
    """Why nothing can be scaled. `event` is the reason that people are told."""

    reason: str
    message: str
    event: str = "ScaleBlocked"


def why_not_active(autoscaler: PoolAutoscaler, owner: str, settings: WarmPoolSettings) -> Obstacle | None:
    """What is in the way before the target has been looked at; `owner` is the autoscaler that has the target."""
    spec = autoscaler.spec
    if spec.suspend:
        return Obstacle("Suspended", "the autoscaler is suspended", "")
    problem = why_not_valid(spec)
    if problem:
        return Obstacle("InvalidSpec", problem)
    target = spec.scale_target_ref
    if settings.kind_of(target) is None:
        allowed = ", ".join(kind.name for kind in settings.allowed_kinds())
        named = f"{target.kind}.{target.group}" if target.group else target.kind
        return Obstacle("KindNotAllowed", f"{named} may not be scaled here; allowed are {allowed}")
    if owner != autoscaler.key:
        return Obstacle("TargetTaken", f"{target} is scaled by the older PoolAutoscaler {owner.partition('/')[2]}")
    return _why_not_schedules(autoscaler, settings.time_zone)


def why_not_target(autoscaler: PoolAutoscaler, view: WarmPoolView | None, pool: WarmPool | None) -> Obstacle | None:
    """The target, or its whole kind, is not there or cannot be read; None also while that is not known."""
    if view is not None and view.problem:
        return Obstacle("FailedGetScale", view.problem, "FailedGetScale")
    if view is not None and view.is_known and pool is None:
        target = autoscaler.spec.scale_target_ref
        return Obstacle("FailedGetScale", f"there is no {target} in namespace {autoscaler.namespace}", "FailedGetScale")
    reference = autoscaler.spec.scale_target_ref
    if pool is not None and pool.owner_uid and reference.kind == REPLICA_SET.kind:
        advice = "name what controls it, such as its Deployment, instead"
        return Obstacle("TargetControlled", f"{reference} is controlled by another object that scales it: {advice}")
    return None


def why_not_counted(views: Mapping[str, WarmPoolView]) -> Obstacle | None:
    """Why the pods of a Deployment cannot be found, where that is known: its ReplicaSets cannot be read."""
    view = views.get(REPLICA_SET.name)
    return None if view is None or not view.problem else Obstacle("FailedGetScale", view.problem, "FailedGetScale")


def why_not_by_capacity(autoscaler: PoolAutoscaler, kind: WarmPoolKind) -> Obstacle | None:
    """A capacity policy that cannot see demand would only ever shrink its pool; its bounds still hold."""
    spec = autoscaler.spec
    if spec.capacity_policy is None or spec.pods_in_use is not None or kind.members != "Pods":
        return None
    told = f"nothing tells which pods of a {kind.kind} are in use: set inUse to the labels that your code gives them"
    return Obstacle("InUseUnknown", f"{told}; until then only minReplicas and maxReplicas hold")


def _why_not_schedules(autoscaler: PoolAutoscaler, zone: str) -> Obstacle | None:
    for policy in autoscaler.spec.cron_policies:
        try:
            schedule_of(policy, zone)
        except UnknownTimeZoneError as error:
            return Obstacle("UnknownTimeZone", f"policy {policy.name}: {error}", "UnknownTimeZone")
        except ScheduleError as error:
            return Obstacle("InvalidSchedule", f"policy {policy.name}: {error}")
    return None


def why_not_valid(spec: PoolAutoscalerSpec) -> str:
    """What the API server refuses too, for files and for objects that an older schema let in."""
    names = [policy.name for policy in spec.cron_policies]
    twice = next((name for name in names if names.count(name) > 1), "")
    if spec.min_replicas > spec.max_replicas:
        return f"minReplicas {spec.min_replicas} is larger than maxReplicas {spec.max_replicas}"
    if names and spec.capacity_policy is not None:
        return "cronPolicies and capacityPolicy cannot be used together"
    if len(names) > MOST_POLICIES:
        return f"{len(names)} cron policies are more than {MOST_POLICIES}"
    if twice:
        return f"two cron policies are named {twice}"
    policy, in_use = spec.capacity_policy, spec.pods_in_use
    if spec.in_use is not None and policy is not None and policy.in_use is not None:
        return "inUse and capacityPolicy.inUse cannot be used together"
    malformed = "" if in_use is None else selector_of(in_use).malformed
    return malformed if policy is None else why_not_tolerance(policy, spec.max_replicas) or malformed


def target_of(autoscaler: PoolAutoscaler, settings: WarmPoolSettings) -> Target:
    reference = autoscaler.spec.scale_target_ref
    kind = settings.kind_of(reference)
    name = f"{reference.kind}.{reference.group}" if kind is None else kind.name
    return name, f"{autoscaler.namespace}/{reference.name}"


def owners_of(autoscalers: Iterable[PoolAutoscaler], settings: WarmPoolSettings) -> Mapping[Target, str]:
    """The autoscaler that has each target: the oldest, then the first by name. One that is being deleted has none, even
    where a finalizer keeps it for long.
    """
    owners: dict[Target, str] = {}
    staying = (each for each in autoscalers if each.deleted_at is None)
    for autoscaler in sorted(staying, key=lambda each: (each.created_at, each.key)):
        owners.setdefault(target_of(autoscaler, settings), autoscaler.key)
    return owners
