"""How many replicas shall a warm pool have now, and why? The three policies, for one autoscaler whose target is known.

| policy | asks for |
| --- | --- |
| none | what there is |
| cron | the target of the latest time, until somebody else scales; then what there is |
| capacity | what the watermarks ask for, once that has been steady |

Every answer is brought between `minReplicas` and `maxReplicas`, at once; none takes a replica that is in use
(`plan/warm_pools/in_use`). While replicas have been starting for too long the capacity policy adds no more.

**Watermarks**: integers only. R replicas, A available, t and tol from the policy; T is the target, L the lower and U
the upper watermark:

| target | tolerance | T | L | U |
| --- | --- | --- | --- | --- |
| percentage | percentage | ⌈R·t/100⌉ | ⌈R·(t−tol)/100⌉ | ⌈R·(t+tol)/100⌉ |
| count | count | t | max(0, T−tol) | T+tol |
| count | percentage | t | max(0, T−⌈T·tol/100⌉) | T+⌈T·tol/100⌉ |
| percentage | count | ⌈R·t/100⌉ | max(0, T−tol) | T+tol |

Without a tolerance the setting counts, as a percentage; `scaleUp` and `scaleDown` may each have their own, for L and
for U. L is never smaller than 1 while T is not. A percentage at R = 0 counts as at R = 1. The pool is right while
L ≤ A ≤ U; otherwise it shall have as many as are used, and T more: never fewer for being below L, or more for being
above U.

**Steadiness**: a momentary count must not make a pool flap.

| step | over | takes |
| --- | --- | --- |
| observation | the observation window | the mean, rounded half up |
| scaling up | the scale-up window | the smallest recommendation |
| scaling down | the scale-down window, and only after a full observation window | the largest recommendation |

A recommendation is in force from when it was made until the next one that differs. The first is the number of replicas
itself, so that a growth that has just started waits like one that has not."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.instant import format_instant
from growth.model.poolautoscaler import CapacityPolicy, CountOrShare, PoolAutoscaler, PoolAutoscalerSpec, ScalingRules
from growth.model.settings import WarmPoolSettings
from growth.plan.warm_pools.counts import PoolCounts
from growth.plan.warm_pools.firings import Timetable

Recommended = tuple[float, int]  # since when, how many replicas
Recommendations = tuple[Recommended, ...]  # the oldest first


PODS_IN_USE: Final = "PodsInUse"


class Scaling(Struct, frozen=True):
    """How many replicas, by which policy and why; and what a scaling waits for, if it does."""

    replicas: int
    policy: str
    sentence: str
    limited: str = ""  # TooFewReplicas, TooManyReplicas or PodsInUse: not the policy's own number
    limit: str = ""  # what limits it, in words
    waits: str = ""  # what an otherwise wanted scaling waits for; the same words while it is the same wait
    again_at: float | None = None  # when waiting ends


def by_bounds(spec: PoolAutoscalerSpec, replicas: int, *, is_silent: bool = False) -> Scaling:
    """What there is, between the bounds. Silent: staying is no decision, so it has no words."""
    bounded = clamped(spec, replicas)
    if bounded.limited:
        sentence = f"{replicas} replicas become {bounded.replicas}: {bounded.limit}"
        return Scaling(bounded.replicas, "bounds", sentence, bounded.limited, bounded.limit)
    if is_silent:
        return Scaling(replicas, "", "")
    bounds = f"they are between {spec.min_replicas} and {spec.max_replicas}"
    return Scaling(replicas, "bounds", f"{replicas} replicas stay: {bounds}")


def by_cron(spec: PoolAutoscalerSpec, replicas: int, times: Timetable) -> Scaling:
    """The latest firing; between firings what the last one asked for, or what there is."""
    if times.firing is not None:
        policy = times.firing.policy
        return _fired(spec, replicas, policy.name, policy.target_replicas, format_instant(times.firing.at))
    held = times.held
    if held is None or held.target_replicas is None or held.set_replicas != replicas:
        return by_bounds(spec, replicas, is_silent=True)
    scaling = _fired(spec, replicas, held.name, held.target_replicas, held.last_schedule_time or "")
    return scaling if scaling.limited or scaling.replicas != replicas else Scaling(replicas, "", "")


def _fired(spec: PoolAutoscalerSpec, replicas: int, name: str, target: int, at: str) -> Scaling:
    bounded = clamped(spec, target)
    verb = "stay" if bounded.replicas == replicas else f"become {bounded.replicas}"
    limit = f", limited to {bounded.replicas} by the bounds" if bounded.limited else ""
    sentence = f"{replicas} replicas {verb}: cron policy {name} fired at {at} for {target}{limit}"
    return Scaling(bounded.replicas, f"cron/{name}", sentence, bounded.limited, bounded.limit)


class Clamped(Struct, frozen=True):
    """A number brought between the bounds."""

    replicas: int
    limited: str = ""
    limit: str = ""


def clamped(spec: PoolAutoscalerSpec, replicas: int) -> Clamped:
    if replicas < spec.min_replicas:
        return Clamped(spec.min_replicas, "TooFewReplicas", f"minReplicas is {spec.min_replicas}")
    if replicas > spec.max_replicas:
        return Clamped(spec.max_replicas, "TooManyReplicas", f"maxReplicas is {spec.max_replicas}")
    return Clamped(replicas)


def sparing_used(scaling: Scaling, counts: PoolCounts) -> Scaling:
    """The same, but no replica that is in use goes; it says what it waits for."""
    least = min(counts.replicas, counts.kept.replicas)
    if scaling.replicas >= least:
        return scaling
    verb = "stay" if least == counts.replicas else f"become {least}"
    sentence = f"{counts.replicas} replicas {verb}, {scaling.replicas} wanted: {counts.kept.why}"
    waits = "scaling down waits for pods in use"
    return Scaling(least, scaling.policy or "bounds", sentence, PODS_IN_USE, counts.kept.why, waits)


# --------------------------------------------------------------------------------- capacity policy


class Sample(Struct, frozen=True, gc=False):
    at: float
    replicas: int
    available: int  # with those that are starting


class Observation(Struct, frozen=True, gc=False):
    """The samples of one pool since it was last scaled, or first seen."""

    since_at: float
    samples: tuple[Sample, ...] = ()

    def with_sample(self, at: float, counts: PoolCounts, window_seconds: float) -> Observation:
        kept = tuple(sample for sample in self.samples if sample.at > at - window_seconds)
        return Observation(self.since_at, (*kept, Sample(at, counts.replicas, counts.soon_available)))

    def is_of_another_size(self, replicas: int) -> bool:
        """The samples were taken when the pool had another number of replicas."""
        return bool(self.samples) and self.samples[-1].replicas != replicas

    def is_full(self, at: float, window_seconds: float) -> bool:
        return at - self.since_at >= window_seconds

    @property
    def mean_replicas(self) -> int:
        return mean_half_up([sample.replicas for sample in self.samples])

    @property
    def mean_available(self) -> int:
        return mean_half_up([sample.available for sample in self.samples])


class Memory(Struct, frozen=True):
    """What sizing by capacity remembers of one pool."""

    observation: Observation
    history: Recommendations = ()


class _Asked(Struct, frozen=True):
    """What the watermarks ask for, within the bounds."""

    replicas: int
    bounded: Clamped
    why: str
    bound: str  # what the bounds changed, in words


def by_capacity(
    autoscaler: PoolAutoscaler, counts: PoolCounts, memory: Memory, now: float, settings: WarmPoolSettings
) -> tuple[Scaling, Memory]:
    """By the watermarks of the mean over the window, steadied. The sample of this look is in `memory` already."""
    spec, policy, seen = autoscaler.spec, autoscaler.spec.capacity_policy, memory.observation
    if policy is None:
        raise ValueError(f"{autoscaler.key} has no capacity policy")
    asked = _ask(spec, policy, counts, seen, settings)
    is_observing = asked.replicas < counts.replicas and not seen.is_full(now, settings.observation_window_seconds)
    followed = counts.replicas if is_observing else asked.replicas
    up_seconds = _window(policy.scale_up, settings.scale_up_window_seconds)
    down_seconds = _window(policy.scale_down, settings.scale_down_window_seconds)
    before = memory.history or ((now, counts.replicas),)
    history = with_recommendation(before, now, followed, max(up_seconds, down_seconds))
    if is_observing:
        scaling = _while_observing(asked, counts, seen, settings.observation_window_seconds)
    else:
        scaling = _steadied(asked, counts, history, now, up_seconds, down_seconds)
    if clamped(spec, scaling.replicas).limited:  # a bound waits for no window
        scaling = by_bounds(spec, counts.replicas)
    return scaling, Memory(seen, history)


def _ask(
    spec: PoolAutoscalerSpec, policy: CapacityPolicy, counts: PoolCounts, seen: Observation, settings: WarmPoolSettings
) -> _Asked:
    marks, available = watermarks(policy, seen.mean_replicas, settings.tolerance_percent), seen.mean_available
    asked = recommend(marks, replicas=counts.replicas, available=available, used=counts.used, starting=counts.starting)
    bounded = clamped(spec, asked)
    relation = "below" if available < marks.lower else "above" if available > marks.upper else "within"
    starting = f", {counts.starting} of them starting" if counts.starting else ""
    window = settings.observation_window_seconds
    mean = f" (mean of {window:.0f} s)" if window else ""
    why = f"{available} available{starting}{mean} is {relation} {marks} of {seen.mean_replicas}, {counts.used} used"
    bound = f"; {asked} asked for, limited to {bounded.replicas} by the bounds" if bounded.limited else ""
    return _Asked(bounded.replicas, bounded, why, bound)


def _window(rules: ScalingRules | None, default: int) -> int:
    chosen = None if rules is None else rules.stabilization_window_seconds
    return default if chosen is None else chosen


def _while_observing(asked: _Asked, counts: PoolCounts, seen: Observation, window_seconds: float) -> Scaling:
    """A scale-down is not even recommended before the observation window is full, so the present number stays."""
    until = seen.since_at + window_seconds
    waits = f"a scale-down waits for a full observation window ({window_seconds:.0f} s)"
    sentence = f"{asked.why}; {asked.replicas} wanted, not before {format_instant(until)}"
    return Scaling(counts.replicas, "capacity", sentence, asked.bounded.limited, asked.bounded.limit, waits, until)


def _steadied(
    asked: _Asked, counts: PoolCounts, history: Recommendations, now: float, up_seconds: int, down_seconds: int
) -> Scaling:
    """What the recommendations of the windows agree on; if they do not yet, the present number."""
    steady = stabilise(history, now, counts.replicas, up_seconds, down_seconds)
    if not steady == counts.replicas != asked.replicas:
        verb = "stay" if steady == counts.replicas else f"become {steady}"
        sentence = f"{counts.replicas} replicas {verb}: {asked.why}{asked.bound}"
        return Scaling(steady, "capacity", sentence, asked.bounded.limited, asked.bounded.limit)
    is_up = asked.replicas > steady
    direction, window = ("up", up_seconds) if is_up else ("down", down_seconds)
    until = steady_at(history, steady, window, is_up=is_up)
    waits = f"scaling {direction} waits for its stabilization window ({window} s)"
    sentence = f"{steady} replicas stay: {asked.why}; {asked.replicas} wanted, not before {format_instant(until)}"
    return Scaling(steady, "capacity", sentence, asked.bounded.limited, asked.bounded.limit, waits, until)


def why_not_more(counts: PoolCounts, starting_since: float | None, now: float, settings: WarmPoolSettings) -> str:
    """Replicas that do not come up would not come up sooner for being more."""
    if starting_since is None or now - starting_since < settings.start_limit_seconds:
        return ""
    since, limit = format_instant(starting_since), settings.start_limit_seconds
    return f"{counts.starting} replicas have been starting since {since}, longer than {limit:.0f} s"


def unless_stuck(scaling: Scaling, counts: PoolCounts, stuck: str) -> Scaling:
    """No more by capacity while replicas do not start."""
    if not stuck or scaling.policy != "capacity" or scaling.replicas <= counts.replicas:
        return scaling
    sentence = f"{counts.replicas} replicas stay: {stuck}; {scaling.replicas} wanted"
    waits = "scaling up waits for replicas that do not start"
    return Scaling(counts.replicas, "capacity", sentence, scaling.limited, scaling.limit, waits)


# -------------------------------------------------------------------------------------- watermarks


class Watermarks(Struct, frozen=True, gc=False):
    """What is aimed at, and between which bounds nothing happens."""

    target: int
    lower: int
    upper: int

    def __str__(self) -> str:
        return f"[{self.lower}, {self.upper}] around {self.target}"


def watermarks(policy: CapacityPolicy, replicas: int, default_percent: int) -> Watermarks:
    """Those of a pool of this size."""
    size, target = max(1, replicas), policy.target_available
    up, down = (tolerance_of(policy, rules, default_percent) for rules in (policy.scale_up, policy.scale_down))
    marks = Watermarks(
        share_of(size, percent(target)) if isinstance(target, str) else target,
        _mark(target, up, size, -1),
        _mark(target, down, size, 1),
    )
    return replace(marks, lower=1) if marks.target >= 1 and marks.lower < 1 else marks


def tolerance_of(policy: CapacityPolicy, rules: ScalingRules | None, default_percent: int) -> CountOrShare:
    """Of one direction: its own, or the policy's, or the setting."""
    own = policy.tolerance if rules is None or rules.tolerance is None else rules.tolerance
    return f"{default_percent}%" if own is None else own


def _mark(target: CountOrShare, tolerance: CountOrShare, replicas: int, sign: int) -> int:
    if isinstance(target, str) and isinstance(tolerance, str):
        return share_of(replicas, max(0, percent(target) + sign * percent(tolerance)))
    wanted = share_of(replicas, percent(target)) if isinstance(target, str) else target
    distance = share_of(wanted, percent(tolerance)) if isinstance(tolerance, str) else tolerance
    return max(0, wanted + sign * distance)


def percent(text: str) -> int:
    """The whole number before the sign; its form has been checked."""
    return int(text.removesuffix("%"))


def share_of(count: int, percentage: int) -> int:
    """⌈count·percentage/100⌉, exactly: a float is wrong for hundreds of pairs."""
    return -(-count * percentage // 100)


def recommend(marks: Watermarks, *, replicas: int, available: int, used: int, starting: int = 0) -> int:
    """How many replicas these watermarks ask for; the present number while the pool is right. Those starting are among
    the available ones; none goes on account of them while too few are really there.
    """
    if available < marks.lower:
        return max(replicas, used + marks.target)
    is_above = available > marks.upper and available - starting >= marks.lower
    return min(replicas, used + marks.target) if is_above else replicas


def why_not_tolerance(policy: CapacityPolicy, max_replicas: int) -> str:
    """A tolerance that reaches the target, at every size the pool may have, would never let it grow before it is empty.
    Empty if it is smaller.
    """
    own = policy.scale_up.tolerance if policy.scale_up is not None else None
    target, tolerance = policy.target_available, policy.tolerance if own is None else own
    name = "tolerance" if own is None else "scaleUp.tolerance"
    if tolerance is None:
        return ""
    if isinstance(target, str) and isinstance(tolerance, str):
        reaches = percent(tolerance) >= percent(target)
    else:
        wanted = share_of(max_replicas, percent(target)) if isinstance(target, str) else target
        reaches = (share_of(wanted, percent(tolerance)) if isinstance(tolerance, str) else tolerance) >= wanted
    at = f" at maxReplicas {max_replicas}" if isinstance(target, str) and isinstance(tolerance, int) else ""
    return f"{name} {tolerance} must be smaller than targetAvailable {target}{at}" if reaches else ""


# -------------------------------------------------------------------------------------- steadiness


def mean_half_up(numbers: list[int]) -> int:
    """Without a float: 2.5 is 3, and no sum is too large."""
    count = len(numbers)
    return (2 * sum(numbers) + count) // (2 * count)


def with_recommendation(history: Recommendations, at: float, replicas: int, longest_seconds: float) -> Recommendations:
    """What is still within the longest window, and the new one if it differs from the last."""
    if not history or history[-1][1] != replicas:
        history = (*history, (at, replicas))
    ended = sum(following[0] <= at - longest_seconds for following in history[1:])
    return history[ended:]


def in_force(history: Recommendations, at: float, window_seconds: float) -> list[int]:
    """The recommendations that held at some time in the window, the latest last."""
    ends = [*(following[0] for following in history[1:]), at + 1.0]
    return [replicas for (_, replicas), end in zip(history, ends, strict=True) if end > at - window_seconds]


def stabilise(history: Recommendations, at: float, replicas: int, up_seconds: float, down_seconds: float) -> int:
    """The smallest recommendation of the scale-up window if it is more than there is, the largest of the other if it is
    less.
    """
    least, most = min(in_force(history, at, up_seconds)), max(in_force(history, at, down_seconds))
    return least if least > replicas else min(replicas, most)


def steady_at(history: Recommendations, replicas: int, window_seconds: float, *, is_up: bool) -> float:
    """When the last recommendation that holds the present number leaves the window."""
    ends = [end for (_, wanted), (end, _) in pairwise(history) if (wanted <= replicas if is_up else wanted >= replicas)]
    return max(ends, default=history[-1][0]) + window_seconds
