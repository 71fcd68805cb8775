"""What was bought in vain, and what follows? Asked by provisioning (for how long is an offering struck out) and by
scale-up (is an offering bought again and again for pods that never run on it). Read off the records, so that a restart
forgets nothing.

| a record of the offering | says |
| --- | --- |
| Unmet | struck out until its `expiresAt` |
| Deprovisioning or Unmet, its last event nodeNotReady | a machine that did not become Ready in time: a failure |
| Provisioning, newer | the provider has some again: an Unmet for lack of capacity is over |
| Ready, newer | it works again: nothing that is older counts |
| Ready, a pod it was bought for still waits | a machine in vain for that class of pods |

The first strike lasts the setting's seconds, each further one twice as long as the one before, up to the longest.
Several refusals in one strike are one. From the third failure in a row on, each one strikes the offering out. What
still counts is kept beyond its time: an Unmet record as long again, and a failure until two more could have followed.

After three machines of an offering became Ready for a class of pods and took none of it, that offering is barred for
the class. Until the scheduler has had its time with the last of them the class waits as a whole, so that nothing else
is bought in a hurry either. Pods of the class that do run there clear the machine; a class without waiting pods is
forgotten. A machine that became Ready far in the future did so before a clock went back: it counts, and the scheduler
has had its time. The record of a machine in vain stays as long as a pod it names waits, for the process that leads
next. A pod made later under the same name is another one, perhaps mended, and has a trial of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.noderequest import DEPROVISIONING, PROVISIONING, READY, UNMET, NodeRequest
from growth.model.pod import Pod, PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import BufferPlacement
from growth.plan.buffers.virtual_pods import planned_entries
from growth.plan.world.market import unmet_until
from growth.plan.world.nodes import working_pods
from growth.plan.world.pools import OfferingKey
from growth.solver.rules.fit import fits_alone, free_amounts

FAILURES_THAT_STRIKE: Final = 3
NOT_READY_EVENT: Final = "nodeNotReady"

MOST_IN_VAIN: Final = 3
SCHEDULER_SECONDS: Final = 30.0
_LONGEST_TRIAL: Final = 2  # waits for Ready: so long may one machine take to fail

InVain = Mapping[PodShape, Mapping[str, Mapping[str, float]]]  # shape → offering → machine → when it became Ready


class History(Struct, frozen=True):
    """What still counts of one offering in one location."""

    failures: tuple[NodeRequest, ...] = ()
    strike: NodeRequest | None = None  # the latest Unmet, the first of those that struck it out together

    def keeps(self, request: NodeRequest) -> bool:
        """Is this record needed for what comes? Of many only the latest are."""
        return request is self.strike or any(request is each for each in self.failures[-FAILURES_THAT_STRIKE:])


def place_of(request: NodeRequest) -> OfferingKey:
    return (request.spec.target_offering, request.spec.location)


def has_failed(request: NodeRequest) -> bool:
    events = request.status.events
    return request.phase in (DEPROVISIONING, UNMET) and bool(events) and events[-1].name == NOT_READY_EVENT


def histories(requests: Iterable[NodeRequest]) -> Mapping[OfferingKey, History]:
    """By offering and location, in the order in which things happened."""
    found: dict[OfferingKey, History] = {}
    for request in sorted(requests, key=lambda each: (each.changed_at, each.name)):
        place = place_of(request)
        known = found.get(place, History())
        found[place] = _after(known, request)
    return found


def _after(known: History, request: NodeRequest) -> History:
    if request.phase == READY:
        return History()
    if request.phase == PROVISIONING and known.strike is not None and not has_failed(known.strike):
        return replace(known, strike=None)
    if has_failed(request):
        known = replace(known, failures=(*known.failures, request))
    is_same_strike = known.strike is not None and known.strike.status.expires_at == request.status.expires_at
    return replace(known, strike=request) if request.phase == UNMET and not is_same_strike else known


def struck_until(known: History, now: float, settings: Settings) -> float:
    """Until when one more refusal strikes the offering out."""
    strike, shortest = known.strike, settings.unmet_seconds
    if strike is None:
        return now + shortest
    until = unmet_until(strike, now, shortest)
    if until > now:
        return until
    return now + min(2 * strike_seconds(strike, settings), max(shortest, settings.unmet_longest_seconds))


def strike_seconds(strike: NodeRequest, settings: Settings) -> float:
    return max(
        settings.unmet_seconds, unmet_until(strike, strike.changed_at, settings.unmet_seconds) - strike.changed_at
    )


def remembered_seconds(wait_seconds: float) -> float:
    """Two more machines can have failed by then."""
    return FAILURES_THAT_STRIKE * _LONGEST_TRIAL * wait_seconds


# ------------------------------------------------------------------------------ machines in vain


class Verdict(Struct, frozen=True):
    """Which offerings are barred for a shape, and which shapes wait until when."""

    barred: Mapping[PodShape, tuple[str, ...]] = {}
    waits: Mapping[PodShape, float] = {}


def observe(snapshot: Snapshot, known: InVain) -> InVain:
    """What was known, and what the records of Ready requests show now."""
    waiting = {
        pod.key: pod for pod in snapshot.waiting_pods if pod.unschedulable_at is not None and pod.deleted_at is None
    }
    shapes = dict.fromkeys(pod.shape for pod in waiting.values())
    found = {
        shape: {offering: dict(machines) for offering, machines in known.get(shape, {}).items()} for shape in shapes
    }
    for name in sorted(snapshot.requests):
        request = snapshot.requests[name]
        if request.phase == READY and request.planned_pods:
            _look_at(request, snapshot, waiting, found)
    return {
        shape: {place: some for place, some in places.items() if some}
        for shape, places in found.items()
        if any(places.values())
    }


def _look_at(
    request: NodeRequest,
    snapshot: Snapshot,
    waiting: Mapping[str, Pod],
    found: dict[PodShape, dict[str, dict[str, float]]],
) -> None:
    running = {pod.shape for pod in snapshot.pods_by_node.get(request.name, ())}
    offering = request.spec.target_offering
    began_at = max(request.created_at, request.changed_at)
    for shape in dict.fromkeys(
        waiting[key].shape for key in request.planned_pods if key in waiting and waiting[key].created_at <= began_at
    ):
        machines = found[shape].setdefault(offering, {})
        if shape in running:
            machines.pop(request.name, None)
        else:
            machines.setdefault(request.name, request.changed_at)


def records_in_vain(snapshot: Snapshot) -> frozenset[str]:
    """Ready requests that tell of a machine bought in vain. One whose machine has lost its node is no such record: it
    would hide that machine.
    """
    found = observe(snapshot, {})
    names = (name for offerings in found.values() for machines in offerings.values() for name in machines)
    return frozenset(
        name for name in names if name not in snapshot.machines or name in snapshot.nodes or name in snapshot.removals
    )


def judge(in_vain: InVain, now: float) -> Verdict:
    barred: dict[PodShape, tuple[str, ...]] = {}
    waits: dict[PodShape, float] = {}
    for shape, offerings in in_vain.items():
        failed = {
            offering: machines for offering, machines in sorted(offerings.items()) if len(machines) >= MOST_IN_VAIN
        }
        if failed:
            barred[shape] = tuple(failed)
            latest = max(
                (at for machines in failed.values() for at in machines.values() if at < now + SCHEDULER_SECONDS),
                default=0.0,
            )
            if latest + SCHEDULER_SECONDS > now:
                waits[shape] = latest + SCHEDULER_SECONDS
    return Verdict(barred, waits)


def buffers_in_vain(placed: BufferPlacement, snapshot: Snapshot) -> frozenset[str]:
    """Buffers for which three machines came, empty, and have no room for a single chunk: a fourth would not either."""
    shapes = {served.key: served.shape for served in placed.buffers}
    failed: Counter[str] = Counter()
    for name, request in snapshot.requests.items():
        node = snapshot.nodes.get(name)
        if request.phase != READY or node is None or working_pods(snapshot, name):
            continue
        free = free_amounts(
            node.allocatable, (pod.shape for pod in snapshot.pods_by_node.get(name, ()) if not pod.is_finished)
        )
        bought_for = [key for key in planned_entries(request.planned_pods) if key in shapes]
        failed.update(key for key in bought_for if not fits_alone(shapes[key], node, free))
    return frozenset(key for key, count in failed.items() if count >= MOST_IN_VAIN)
