"""Must growth wait for the scheduler's word on a pod, or for more pods? Asked by scale-up. A scheduler judges fifty to
a hundred pods a second; growth has the same rules and all pods at once, so it need not wait for the last of them.

| pod | |
| --- | --- |
| the scheduler says Unschedulable | a demand |
| not judged yet, and none of the lines below | a demand: if it has room the scheduler decides, else it is bought for |
| `demand: AfterVerdict`, or of a scheduler that `schedulers` does not name | the verdict is awaited |
| nominated, or bound to one node by its spec | awaited: the scheduler is about to act |
| could preempt a pod that stands somewhere | awaited: it may need no machine |
| with resource claims, a volume claim that is not seen yet, or of a gang of unknown size | awaited |
| of a scheduler that lately found room where growth saw none | awaited for a day, and that is told |

The last line: a profile or an extender of its own may know room that growth does not. More than three pods within an
hour that were never judged, and stand on nodes that were there when machines were ordered for them, and growth no
longer foresees for that scheduler. Where it gave them room that was meant for others, those others are counted off.

| a burst, planned together since that needs fewer machines | is planned |
| --- | --- |
| has not grown for `batchQuietSeconds` | now |
| goes on | `batchLongestSeconds` after it began |
| goes on, of 200 pods or more, some with rules between pods | after twice that (1) |

(1) Large bursts come kind by kind, and what is bought for the first kinds is dear beside what must stay apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import floor
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.decision import Note
from growth.model.gang import read_gang
from growth.model.instant import format_instant
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up.demand import identity
from growth.plan.nodes_up.waiting import Wait
from growth.plan.world.turn import about

_MOST_SURPRISES: Final = 3  # in an hour
_HOUR_SECONDS: Final = 3600.0
_MISTRUST_SECONDS: Final = 86_400.0
_MANY_PODS: Final = 200  # in one burst


class Foretold(Struct, frozen=True):
    """What was foreseen of a pod of this scheduler, and when."""

    scheduler: str
    at: float


class Trust(Struct, frozen=True):
    """How well growth foresees what schedulers do. It may be lost: then growth begins to learn anew."""

    foretold: Mapping[str, Foretold] = {}  # by the UID of a pod for which a machine was ordered, until it is judged
    surprises: tuple[Foretold, ...] = ()  # of the last hour: such pods that were bound to nodes that were there
    lost_rooms: tuple[Foretold, ...] = ()  # of the last hour: pods that were to find room there, and did not
    awaited_until: Mapping[str, float] = {}  # by scheduler


class Foresight:
    """What growth need not wait for, in one snapshot."""

    def __init__(self, snapshot: Snapshot, trust: Trust, settings: Settings) -> None:
        self._came_before = snapshot.now - settings.batch_quiet_seconds
        self._claims, self._groups = snapshot.volumes.claims, snapshot.pod_groups
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
        if not is_known or pod.nominated_node or shape.required_node:
            return False
        gang = read_gang(pod, self._groups)
        if shape.uses_resource_claims or isinstance(gang, str) or (gang is not None and gang.is_unknown):
            return False
        may_preempt = not shape.never_preempts and shape.priority > self._lowest
        return not may_preempt and all(
            not use.claim or (not use.is_ephemeral and f"{shape.namespace}/{use.claim}" in self._claims)
            for use in shape.volumes
        )


def after_plan(
    trust: Trust, bought: Collection[Pod], joined: Collection[Pod], waits: Mapping[str, Wait], now: float
) -> Trust:
    """Machines were ordered for pods, or pods join machines on their way; `waits`: as they were before."""
    lost = [pod for pod in (*bought, *joined) if _is_lodged(waits.get(identity(pod)))]
    new = {pod.uid: Foretold(pod.shape.scheduler_name, now) for pod in bought if pod.unschedulable_at is None}
    if not (lost or new or trust.foretold):
        return trust
    elsewhere = {pod.uid for pod in joined}
    return replace(
        trust,
        foretold={uid: each for uid, each in trust.foretold.items() if uid not in elsewhere} | new,
        lost_rooms=trust.lost_rooms + tuple(Foretold(pod.shape.scheduler_name, now) for pod in lost),
    )


def _is_lodged(wait: Wait | None) -> bool:
    """Is it left to the scheduler, since there is room for it?"""
    return wait is not None and bool(wait.lodged_on)


def learned(trust: Trust, waits: Mapping[str, Wait], snapshot: Snapshot) -> tuple[Trust, tuple[Note, ...]]:
    """What became of the pods that were ordered for; and what is told when a scheduler is no longer foreseen."""
    if trust == Trust():
        return trust, ()
    now, waiting = snapshot.now, {pod.uid: pod for pod in snapshot.waiting_pods} if trust.foretold else {}
    open_still, settled = dict[str, Foretold](), dict[str, Foretold]()
    for uid, each in trust.foretold.items():
        if uid not in waiting:
            settled[uid] = each
        elif waiting[uid].unschedulable_at is None and now - each.at <= _HOUR_SECONDS:
            open_still[uid] = each
    surprises = _of_this_hour(trust.surprises, now)
    surprises += tuple(Foretold(each.scheduler, now) for each in _found_room(settled, snapshot))
    lost = _of_this_hour(trust.lost_rooms, now)
    awaited = {name: until for name, until in trust.awaited_until.items() if now < until}
    notes = list[Note]()
    for scheduler in sorted({each.scheduler for each in surprises} - awaited.keys()):
        count = sum(each.scheduler == scheduler for each in surprises)
        swapped = sum(each.scheduler == scheduler for each in lost) + sum(map(_is_lodged, waits.values()))
        if count - swapped > _MOST_SURPRISES:
            awaited[scheduler] = now + _MISTRUST_SECONDS
            notes += _of_mistrust(scheduler, count, awaited[scheduler], snapshot)
    after = Trust(open_still, surprises, lost, awaited)
    return (trust if after == trust else after), tuple(notes)


def _of_this_hour(seen: tuple[Foretold, ...], now: float) -> tuple[Foretold, ...]:
    return tuple(each for each in seen if now - each.at <= _HOUR_SECONDS)


def _found_room(settled: Mapping[str, Foretold], snapshot: Snapshot) -> list[Foretold]:
    """Of pods that wait no longer, those bound to a node that was there when a machine was ordered for them. Nearly all
    stand on young nodes, so the old ones are walked only for the rest. Times of creation are whole seconds.
    """
    if not settled:
        return []
    first = floor(min(each.at for each in settled.values()))
    young = {name for name, node in snapshot.nodes.items() if node.created_at >= first}
    rest = settled.keys() - {pod.uid for name in young for pod in snapshot.pods_by_node.get(name, ())}
    if not rest:
        return []
    old = (pod for name, pods in snapshot.pods_by_node.items() if name not in young for pod in pods)
    return [settled[pod.uid] for pod in old if pod.uid in rest]


def _of_mistrust(scheduler: str, count: int, until: float, snapshot: Snapshot) -> list[Note]:
    message = (
        f"{scheduler} bound {count} pods within an hour to nodes where growth saw no room for them; until "
        f"{format_instant(until)} growth waits for its verdict before it buys"
    )
    return [Note(about(pool), "VerdictAwaited", message, "Warning") for pool in snapshot.pools.values()]


# ------------------------------------------------------------------------------------------- bursts


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
