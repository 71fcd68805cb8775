"""How is a momentary count kept from making a pool flap? Samples are averaged, recommendations must have held for a
while.

| step | over | takes |
| --- | --- | --- |
| observation | the observation window | the mean, rounded half up |
| scaling up | the scale-up window | the smallest recommendation |
| scaling down | the scale-down window, and only after a full observation window | the largest recommendation |

A recommendation is in force from when it was made until the next one that differs. The first is the number of replicas
itself, so that a growth that has just started waits like one that has not. Asked by `plan/warm_pools/warm_pools`."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from growth.plan.warm_pools.counts import Counts

Recommended = tuple[float, int]  # since when, how many replicas


class Sample(Struct, frozen=True, gc=False):
    at: float
    replicas: int
    available: int  # with those that are starting


class Observation(Struct, frozen=True, gc=False):
    """The samples of one pool since it was last scaled, or first seen."""

    since_at: float
    samples: tuple[Sample, ...] = ()

    def with_sample(self, at: float, counts: Counts, window_seconds: float) -> Observation:
        kept = tuple(sample for sample in self.samples if sample.at > at - window_seconds)
        return Observation(self.since_at, (*kept, Sample(at, counts.replicas, counts.soon_available)))

    def is_full(self, at: float, window_seconds: float) -> bool:
        return at - self.since_at >= window_seconds

    @property
    def mean_replicas(self) -> int:
        return mean_half_up([sample.replicas for sample in self.samples])

    @property
    def mean_available(self) -> int:
        return mean_half_up([sample.available for sample in self.samples])


def mean_half_up(numbers: list[int]) -> int:
    """Without a float: 2.5 is 3, and no sum is too large."""
    count = len(numbers)
    return (2 * sum(numbers) + count) // (2 * count)


def with_recommendation(
    history: tuple[Recommended, ...], at: float, replicas: int, longest_seconds: float
) -> tuple[Recommended, ...]:
    """What is still within the longest window, and the new one if it differs from the last."""
    if not history or history[-1][1] != replicas:
        history = (*history, (at, replicas))
    ended = sum(following[0] <= at - longest_seconds for following in history[1:])
    return history[ended:]


def in_force(history: tuple[Recommended, ...], at: float, window_seconds: float) -> list[int]:
    """The recommendations that held at some time in the window, the latest last."""
    ends = [*(following[0] for following in history[1:]), at + 1.0]
    return [replicas for (_, replicas), end in zip(history, ends, strict=True) if end > at - window_seconds]


def stabilised(
    history: tuple[Recommended, ...], at: float, replicas: int, up_seconds: float, down_seconds: float
) -> int:
    """The smallest recommendation of the scale-up window if it is more than there is, the largest of the other if it is
    less.
    """
    least, most = min(in_force(history, at, up_seconds)), max(in_force(history, at, down_seconds))
    return least if least > replicas else min(replicas, most)


def steady_at(history: tuple[Recommended, ...], replicas: int, window_seconds: float, *, is_up: bool) -> float:
    """When the last recommendation that holds the present number leaves the window."""
    ends = [end for (_, wanted), (end, _) in pairwise(history) if (wanted <= replicas if is_up else wanted >= replicas)]
    return max(ends, default=history[-1][0]) + window_seconds
