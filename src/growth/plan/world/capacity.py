"""Where is there room already, or soon? Asked by scale-up, for the solver: what exists or is on its way costs nothing
more.

| node | room |
| --- | --- |
| Ready, schedulable | open |
| marked for scale-down, Ready | open, kind "marked": revive before buying |
| being emptied to save money, nothing asked of the provider yet | the same, once its pods have left: whoever waits and fits there then ends that |
| of a live NodeRequest, or that request alone | open, kind "in-flight", with its planned pods in it |
| cordoned, NotReady, in removal, going, malformed, starting without a request | closed: its pods still count for rules between pods |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from growth.model.node import SCALE_DOWN_TAINT, STARTUP_TAINT, Node
from growth.model.noderequest import PENDING
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import Snapshot
from growth.plan.world.assignments import Expected
from growth.plan.world.fitting import charge, free_amounts, stands
from growth.plan.world.removal_reasons import CONSOLIDATED
from growth.solver.purchase.problem import Room

_SOON_SECONDS: Final = 45.0


def rooms(snapshot: Snapshot, expected: Iterable[Expected], lodged: Mapping[str, tuple[Pod, ...]]) -> tuple[Room, ...]:
    """All rooms by name. `lodged` are pods that wait for the scheduler to put them where there is room: they hold it."""
    on_their_way = {each.node.name: each for each in expected}
    found = {name: _of_expected(each) for name, each in on_their_way.items()}
    for name, node in snapshot.nodes.items():
        if name not in on_their_way:
            found[name] = _of_node(node, snapshot, lodged.get(name, ()))
    return tuple(found[name] for name in sorted(found))


def _of_expected(expected: Expected) -> Room:
    shapes = (*expected.residents, *(pod.shape for pod in expected.planned))
    return Room(expected.node, _counted(shapes), "in-flight", is_open=not expected.node.is_unschedulable)


def _of_node(node: Node, snapshot: Snapshot, lodged: tuple[Pod, ...]) -> Room:
    is_emptied = node.name in snapshot.removals
    staying = [
        pod
        for pod in snapshot.pods_by_node.get(node.name, ())
        if not pod.is_finished and not (is_emptied and _leaves_soon(pod, snapshot.now))
    ]
    shapes = [pod.shape for pod in (*staying, *lodged)]
    future = replace(node, taints=tuple(taint for taint in node.taints if taint.key != SCALE_DOWN_TAINT.key))
    return Room(future, _counted(shapes), "marked" if node.is_marked else "node", is_open=takes_pods(node, snapshot))


def takes_pods(node: Node, snapshot: Snapshot) -> bool:
    """Could the scheduler put a pod here now, once a mark for scale-down is taken back?"""
    if node.deleted_at is not None or node.malformed or _is_surely_going(node.name, snapshot):
        return False
    return (
        node.is_ready and not node.is_unschedulable and not any(taint.key == STARTUP_TAINT.key for taint in node.taints)
    )


def _leaves_soon(pod: Pod, now: float) -> bool:
    """Before a machine that is bought now could serve."""
    return pod.deleted_at is not None and pod.deleted_at <= now + _SOON_SECONDS


def _is_surely_going(name: str, snapshot: Snapshot) -> bool:
    removal = snapshot.removals.get(name)
    return removal is not None and (
        removal.spec.reason != CONSOLIDATED or removal.phase != PENDING or removal.deleted_at is not None
    )


def _counted(shapes: Iterable[PodShape]) -> tuple[tuple[PodShape, int], ...]:
    counts: dict[PodShape, int] = {}
    for shape in shapes:
        counts[shape] = counts.get(shape, 0) + 1
    return tuple(counts.items())


# --------------------------------------------------------------------------------------------- pods
# that hold room


def holders(pods: Iterable[tuple[Pod, str]], snapshot: Snapshot) -> dict[str, tuple[Pod, ...]]:
    """Of pods that are nominated or lodged somewhere, those whose room really exists: by node, each beside those before
    it.
    """
    free: dict[str, PodRoom] = {}
    for pod, name in pods:
        node = snapshot.nodes.get(name)
        if node is not None and name not in free:
            free[name] = PodRoom(node, snapshot)
        if node is not None:
            free[name].take(pod)
    return {name: tuple(room.taken) for name, room in free.items() if room.taken}


def nominated(snapshot: Snapshot) -> dict[str, tuple[Pod, ...]]:
    """Pods that the scheduler, or growth, has sent to a node where there is room for them."""
    return holders(
        ((pod, pod.nominated_node) for pod in snapshot.waiting_pods if pod.nominated_node and may_hold(pod)), snapshot
    )


def may_hold(pod: Pod) -> bool:
    return pod.deleted_at is None and not pod.is_gated


class PodRoom:
    """What is left on one node while pods are counted in, one by one. Pods that are being deleted have left by then."""

    def __init__(self, node: Node, snapshot: Snapshot) -> None:
        staying = (
            pod for pod in snapshot.pods_by_node.get(node.name, ()) if not pod.is_finished and pod.deleted_at is None
        )
        self._node = node
        self._is_open = takes_pods(node, snapshot)
        self._taints = tuple(taint for taint in node.taints if taint.key != SCALE_DOWN_TAINT.key)
        self._free = free_amounts(node.allocatable, (pod.shape for pod in staying))
        self.taken: list[Pod] = []

    def take(self, pod: Pod) -> None:
        need = charge(pod.shape)
        if (
            self._is_open
            and need.fits_in(self._free)
            and stands(pod.shape, self._node.labels, self._taints, self._node.name)
        ):
            self._free = self._free - need
            self.taken.append(pod)
