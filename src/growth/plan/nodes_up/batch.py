"""When is a burst of demands planned? Asked by the survey, for pods and for buffers. What arrives close together is
planned together: it needs fewer machines.

| the burst | is planned |
| --- | --- |
| has not grown for `batchQuietSeconds` | now |
| goes on | `batchLongestSeconds` after it began |
| goes on, of 200 pods or more, some with rules between pods | after twice that (1) |

(1) Large bursts come kind by kind, and what is bought for the first kinds is dear beside what must stay apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from growth.model.pod import Pod
from growth.model.settings import Settings

_MANY_PODS: Final = 200


class Batch(Struct, frozen=True):
    """Demands that arrive close together."""

    began_at: float
    grew_at: float
    counts: Mapping[str, int]


def next_batch(before: Batch | None, arrived: Mapping[str, int], known: Collection[str], now: float) -> Batch | None:
    """With what has arrived since, and each new count; None: there is nothing new."""
    counts = {name: count for name, count in arrived.items() if name not in known}
    if not counts:
        return None
    if before is None:
        return Batch(now, now, counts)
    grew = any(before.counts.get(name) != count for name, count in counts.items())
    return Batch(before.began_at, now if grew else before.grew_at, counts)


def closes_at(batch: Batch | None, settings: Settings, pods: Sequence[Pod] = ()) -> float | None:
    """Each arrival keeps the window open a little longer, but not for ever. `pods`: those in it; None: it is not
    open.
    """
    if batch is None:
        return None
    longest = settings.batch_longest_seconds * (2 if len(pods) >= _MANY_PODS and any(map(_looks_around, pods)) else 1)
    return min(batch.grew_at + settings.batch_quiet_seconds, batch.began_at + longest)


def _looks_around(pod: Pod) -> bool:
    return bool(pod.shape.affinity or pod.shape.anti_affinity or pod.shape.spread)
