"""When is a pod that found no place tried again? Asked by scale-up, which remembers the answer for each such pod.

| the pod | is part of the demand again |
| --- | --- |
| missed fewer times than the setting | after the longest batch window |
| missed more often | after 30 s, doubling |
| has waited the longest back-off, in vain | never by time: it is in BackOff, with an event that says so |
| any of these | at once, when more can be had than when it missed: a pool changed, an Unmet offering expired, a limit gave way, a node has room |
| has room on a node, but the scheduler has not used it | after a while, doubling; meanwhile it holds that room |

What can be had is compared with the least seen since the miss, so that the same offer is not tried twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from growth.model.settings import Settings

Prospects = Mapping[str, int]  # what could serve a pod, and how much of it there is


class Wait(Struct, frozen=True):
    """How one pod stands."""

    until: float
    misses: int = 0
    seconds: float = 0.0
    is_backed_off: bool = False
    reason: str = ""  # why it missed, in one word
    lodged_on: str = ""  # the node where it has room
    prospects: Prospects = {}


def is_over(wait: Wait, now: float, prospects: Prospects) -> bool:
    """Has its time come, or is there more to be had?"""
    if not wait.is_backed_off and now >= wait.until:
        return True
    return any(amount > wait.prospects.get(name, 0) for name, amount in prospects.items())


def with_prospects(wait: Wait, prospects: Prospects, not_looked_at: tuple[str, ...] = ()) -> Wait:
    """The least that was to be had since the miss; what was not looked at stays as it was."""
    lowered = {
        name: amount if name in not_looked_at else min(amount, prospects.get(name, 0))
        for name, amount in wait.prospects.items()
    }
    return wait if lowered == wait.prospects else replace(wait, prospects=lowered)


def after_miss(wait: Wait | None, now: float, settings: Settings, prospects: Prospects, reason: str = "") -> Wait:
    """One more miss in a row."""
    misses = (wait.misses if wait is not None else 0) + 1
    if misses < settings.misses_before_backoff:
        return Wait(now + settings.batch_longest_seconds, misses, reason=reason, prospects=prospects)
    before = wait.seconds if wait is not None else 0.0
    was_longest = wait is not None and (wait.is_backed_off or before >= settings.backoff_longest_seconds > 0)
    seconds = min(max(settings.backoff_first_seconds, before * 2), settings.backoff_longest_seconds)
    return Wait(now + seconds, misses, seconds, is_backed_off=was_longest, reason=reason, prospects=prospects)


def after_lodging(wait: Wait | None, node: str, now: float, settings: Settings) -> Wait:
    """There is room on this node; the scheduler will use it, or we look again later."""
    before = wait.seconds if wait is not None and wait.lodged_on else 0.0
    seconds = min(
        max(settings.batch_longest_seconds, before * 2),
        max(settings.batch_longest_seconds, settings.backoff_longest_seconds),
    )
    return Wait(now + seconds, seconds=seconds, lodged_on=node)
