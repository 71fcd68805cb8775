"""How many replicas shall a warm pool have now, and why? The three policies, for one autoscaler whose target is known.

| policy | asks for |
| --- | --- |
| none | what there is |
| cron | the target of the latest time that was not acted upon; between times what there is |
| capacity | what the watermarks ask for, once it has been steady |

Whatever is asked for is brought between `minReplicas` and `maxReplicas`, at once. While replicas have been starting for
too long the capacity policy adds no more. Asked by `plan/warm_pools/warm_pools`; it writes nothing."""

from __future__ import annotations

from msgspec import Struct

from growth.model.instant import format_instant
from growth.model.poolautoscaler import CapacityPolicy, PoolAutoscaler, PoolAutoscalerSpec, ScalingRules
from growth.model.settings import WarmPoolSettings
from growth.plan.warm_pools.counts import Counts
from growth.plan.warm_pools.firings import Timetable
from growth.plan.warm_pools.stabilise import Observation, Recommended, stabilised, steady_at, with_recommendation
from growth.plan.warm_pools.watermarks import Watermarks, recommended, watermarks


class Sized(Struct, frozen=True):
    """The answer: how many, decided by which policy, why; and what it waits for, if it does."""

    replicas: int
    policy: str
    sentence: str
    limited: str = ""  # TooFewReplicas or TooManyReplicas: a bound decided
    waits: str = ""  # what an otherwise wanted scaling waits for; the same words while it is the same wait
    again_at: float | None = None  # when waiting ends


class Memory(Struct, frozen=True):
    """What sizing by capacity remembers of one pool."""

    observation: Observation
    history: tuple[Recommended, ...] = ()  # recommendations


def by_bounds(spec: PoolAutoscalerSpec, replicas: int, *, is_silent: bool = False) -> Sized:
    """What there is, between the bounds. Silent: where that is no decision, the last one is not talked over."""
    wanted, limited = _clamped(spec, replicas)
    if limited:
        bound = f"minReplicas {spec.min_replicas}" if wanted > replicas else f"maxReplicas {spec.max_replicas}"
        return Sized(wanted, "bounds", f"{replicas} replicas become {wanted}: {bound}", limited)
    if is_silent:
        return Sized(replicas, "", "")
    return Sized(
        replicas, "bounds", f"{replicas} replicas stay: they are between {spec.min_replicas} and {spec.max_replicas}"
    )


def by_cron(spec: PoolAutoscalerSpec, replicas: int, times: Timetable) -> Sized:
    """The latest firing, or what there is."""
    firing = times.firing
    if firing is None:
        return by_bounds(spec, replicas, is_silent=True)
    wanted, limited = _clamped(spec, firing.policy.target_replicas)
    bounded = f", limited to {wanted} by the bounds" if limited else ""
    verb = "stay" if wanted == replicas else f"become {wanted}"
    text = f"{replicas} replicas {verb}: cron policy {firing.policy.name} fired at {format_instant(firing.at)} for {firing.policy.target_replicas}{bounded}"
    return Sized(wanted, f"cron/{firing.policy.name}", text, limited)


def by_capacity(
    autoscaler: PoolAutoscaler, counts: Counts, memory: Memory, now: float, settings: WarmPoolSettings
) -> tuple[Sized, Memory]:
    """By the watermarks of the mean over the window, steadied. The sample of this look is in `memory` already."""
    spec, policy, seen = autoscaler.spec, autoscaler.spec.capacity_policy, memory.observation
    if policy is None:
        raise ValueError(f"{autoscaler.key} has no capacity policy")
    marks = watermarks(policy, seen.mean_replicas, settings.tolerance_percent)
    asked = recommended(marks, replicas=counts.replicas, available=seen.mean_available, used=counts.used)
    wanted, limited = _clamped(spec, asked)
    why = _why(counts, seen, marks, settings.observation_window_seconds)
    observes = wanted < counts.replicas and not seen.is_full(now, settings.observation_window_seconds)
    up, down = _windows(policy, settings)
    followed = counts.replicas if observes else wanted
    history = with_recommendation(memory.history or ((now, counts.replicas),), now, followed, max(up, down))
    memory = Memory(seen, history)
    bounded, out_of_bounds = _clamped(spec, counts.replicas)
    if out_of_bounds:
        return by_bounds(spec, counts.replicas), memory
    steady = stabilised(history, now, bounded, up, down)
    if observes:
        full_at = seen.since_at + settings.observation_window_seconds
        waits = f"a scale-down waits for a full observation window ({settings.observation_window_seconds:.0f} s)"
        return Sized(
            steady, "capacity", f"{why}; {wanted} wanted, not before {format_instant(full_at)}", limited, waits, full_at
        ), memory
    if steady == counts.replicas != wanted:
        return _waiting(
            why,
            wanted,
            limited,
            steady,
            steady_at(history, steady, up if wanted > steady else down, is_up=wanted > steady),
            (up, down),
        ), memory
    verb = "stay" if steady == counts.replicas else f"become {steady}"
    return Sized(
        steady, "capacity", f"{counts.replicas} replicas {verb}: {why}{_about_bound(limited, asked, wanted)}", limited
    ), memory


def _waiting(why: str, wanted: int, limited: str, steady: int, until: float, windows: tuple[int, int]) -> Sized:
    direction, window = ("up", windows[0]) if wanted > steady else ("down", windows[1])
    waits = f"scaling {direction} waits for its stabilization window ({window} s)"
    return Sized(
        steady,
        "capacity",
        f"{steady} replicas stay: {why}; {wanted} wanted, not before {format_instant(until)}",
        limited,
        waits,
        until,
    )


def why_not_more(counts: Counts, starting_since: float | None, now: float, settings: WarmPoolSettings) -> str:
    """Replicas that do not come up would not come up sooner for being more."""
    if starting_since is None or now - starting_since < settings.start_limit_seconds:
        return ""
    return f"{counts.starting} replicas have been starting since {format_instant(starting_since)}, longer than {settings.start_limit_seconds:.0f} s"


def _windows(policy: CapacityPolicy, settings: WarmPoolSettings) -> tuple[int, int]:
    return _window(policy.scale_up, settings.scale_up_window_seconds), _window(
        policy.scale_down, settings.scale_down_window_seconds
    )


def _window(rules: ScalingRules | None, default: int) -> int:
    return (
        default if rules is None or rules.stabilization_window_seconds is None else rules.stabilization_window_seconds
    )


def _clamped(spec: PoolAutoscalerSpec, replicas: int) -> tuple[int, str]:
    wanted = max(spec.min_replicas, min(replicas, spec.max_replicas))
    return wanted, "" if wanted == replicas else "TooFewReplicas" if wanted > replicas else "TooManyReplicas"


def _about_bound(limited: str, asked: int, wanted: int) -> str:
    return f"; {asked} asked for, limited to {wanted} by the bounds" if limited else ""


def _why(counts: Counts, seen: Observation, marks: Watermarks, window_seconds: float) -> str:
    available = seen.mean_available
    relation = "below" if available < marks.lower else "above" if available > marks.upper else "within"
    starting = f", {counts.starting} of them starting" if counts.starting else ""
    mean = f" (mean of {window_seconds:.0f} s)" if window_seconds else ""
    return f"{available} available{starting}{mean} is {relation} {marks} of {seen.mean_replicas}, {counts.used} used"
