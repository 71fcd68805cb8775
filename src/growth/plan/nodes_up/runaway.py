"""Is an offering bought again and again for pods that never come to run on it? Asked by scale-up before it asks the
solver, and by provisioning before it lets a record go.

After three machines of an offering became Ready for a class of pods and took none of it, that offering is barred for
the class. Until the scheduler has had its time with the last of them the class waits as a whole, so that nothing else
is bought in a hurry either. Pods of the class that do run there clear the machine; a class without waiting pods is
forgotten. A machine that became Ready far in the future did so before a clock went back: it counts, and the scheduler
has had its time.

Who leads next reads the same off the records: one that tells of a machine bought in vain stays as long as a pod it
names waits. A pod made later under the same name is another one, perhaps mended, and has a trial of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from growth.model.noderequest import READY, NodeRequest
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import Snapshot

MOST_IN_VAIN: Final = 3
SCHEDULER_SECONDS: Final = 30.0

InVain = Mapping[PodShape, Mapping[str, Mapping[str, float]]]  # shape → offering → machine → when it became Ready


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
