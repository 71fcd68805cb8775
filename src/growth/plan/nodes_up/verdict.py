"""Must growth wait for the scheduler's word on a pod? Asked by scale-up. A scheduler judges some fifty to a hundred
pods a second; growth has the same rules and all pods at once, so it need not wait for the last of them.

| pod | |
| --- | --- |
| the scheduler says Unschedulable | a demand |
| not judged yet, and none of the lines below | a demand: if it has room the scheduler decides, else it is bought for |
| `demand: AfterVerdict`, or of a scheduler that `schedulers` does not name | the verdict is awaited |
| nominated, or bound to one node by its spec | awaited: the scheduler is about to act |
| could preempt a pod that stands somewhere | awaited: it may need no machine |
| with resource claims, or a volume claim that is not seen yet | awaited: only the scheduler can tell |
| of a scheduler that lately found room where growth saw none | awaited for a day, and that is told |

The last line: a profile or an extender of its own may know room that growth does not. More than three such pods within
an hour, on nodes that were there when their machines were ordered, and growth no longer foresees for that scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.decision import Note
from growth.model.instant import format_instant
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.turn import about

_MOST_SURPRISES: Final = 3  # in an hour
_HOUR_SECONDS: Final = 3600.0
_MISTRUST_SECONDS: Final = 86_400.0


class Foretold(Struct, frozen=True):
    """A pod for which a machine was ordered before its scheduler had judged it."""

    scheduler: str
    at: float


class Trust(Struct, frozen=True):
    """How well growth foresees what schedulers do. It may be lost: then growth begins to learn anew."""

    foretold: Mapping[str, Foretold] = {}  # by the UID of the pod
    surprises: tuple[Foretold, ...] = ()  # of the last hour: when pods ordered for were bound to nodes that were there
    awaited_until: Mapping[str, float] = {}  # by scheduler


class Foresight:
    """What growth need not wait for, in one snapshot."""

    def __init__(self, snapshot: Snapshot, trust: Trust, settings: Settings) -> None:
        self._came_before = snapshot.now - settings.batch_quiet_seconds
        self._claims = snapshot.volumes.claims
        self._lowest = snapshot.lowest_priority
        awaited = {name for name, until in trust.awaited_until.items() if snapshot.now < until}
        is_off = settings.demand == "AfterVerdict"
        self._schedulers = frozenset[str]() if is_off else frozenset(settings.schedulers) - awaited

    def is_asked(self, pod: Pod) -> bool:
        """Is it known that the pod needs a place, as far as its scheduler is concerned?"""
        return pod.unschedulable_at is not None or self._is_foreseen(pod)

    def is_ripe(self, pod: Pod) -> bool:
        """Was it judged, or left alone for a while?"""
        return pod.unschedulable_at is not None or pod.created_at <= self._came_before

    def _is_foreseen(self, pod: Pod) -> bool:
        shape = pod.shape
        is_known = shape.scheduler_name in self._schedulers and not pod.is_gated and pod.deleted_at is None
        if not is_known or pod.nominated_node or shape.required_node or shape.uses_resource_claims:
            return False
        may_preempt = not shape.never_preempts and shape.priority > self._lowest
        return not may_preempt and all(
            not use.claim or (not use.is_ephemeral and f"{shape.namespace}/{use.claim}" in self._claims)
            for use in shape.volumes
        )


def ordered_for(trust: Trust, pods: Collection[Pod], now: float) -> Trust:
    """Machines were ordered for these pods; of those not judged yet it is remembered."""
    new = {pod.uid: Foretold(pod.shape.scheduler_name, now) for pod in pods if pod.unschedulable_at is None}
    return replace(trust, foretold={**trust.foretold, **new}) if new else trust


def learned(trust: Trust, snapshot: Snapshot) -> tuple[Trust, tuple[Note, ...]]:
    """What became of the pods that were ordered for; and what is told when a scheduler is no longer foreseen."""
    now = snapshot.now
    waiting = {pod.uid for pod in snapshot.waiting_pods} if trust.foretold else set[str]()
    settled = {uid: each for uid, each in trust.foretold.items() if uid not in waiting}
    late = {uid for uid, each in trust.foretold.items() if now - each.at > _HOUR_SECONDS}
    surprises = tuple(each for each in trust.surprises if now - each.at <= _HOUR_SECONDS)
    awaited = {name: until for name, until in trust.awaited_until.items() if now < until}
    if not settled and not late and surprises == trust.surprises and awaited == trust.awaited_until:
        return trust, ()
    surprises += tuple(
        Foretold(each.scheduler, now) for uid, each in settled.items() if _was_there(uid, each, snapshot)
    )
    notes = list[Note]()
    for scheduler in sorted({each.scheduler for each in surprises} - awaited.keys()):
        count = sum(each.scheduler == scheduler for each in surprises)
        if count > _MOST_SURPRISES:
            awaited[scheduler] = now + _MISTRUST_SECONDS
            notes += _of_mistrust(scheduler, count, awaited[scheduler], snapshot)
    left = {uid: each for uid, each in trust.foretold.items() if uid not in settled and uid not in late}
    return Trust(left, surprises, awaited), tuple(notes)


def _was_there(uid: str, foretold: Foretold, snapshot: Snapshot) -> bool:
    """Is the pod bound to a node that was there when a machine was ordered for it?"""
    older = (name for name, node in snapshot.nodes.items() if node.created_at < foretold.at)
    return any(pod.uid == uid for name in older for pod in snapshot.pods_by_node.get(name, ()))


def _of_mistrust(scheduler: str, count: int, until: float, snapshot: Snapshot) -> list[Note]:
    message = (
        f"{scheduler} bound {count} pods within an hour to nodes where growth saw no room for them; until "
        f"{format_instant(until)} growth waits for its verdict before it buys"
    )
    return [Note(about(pool), "VerdictAwaited", message, "Warning") for pool in snapshot.pools.values()]
