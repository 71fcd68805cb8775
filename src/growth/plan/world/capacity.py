"""Where is there room already, or soon? Asked by scale-up, for the solver: what exists or is on its way costs nothing
more.

| node | room |
| --- | --- |
| Ready, schedulable | open |
| marked for scale-down, Ready | open, kind "marked": revive before buying |
| being emptied to save money, nothing asked of the provider yet | the same, once its pods have left: whoever waits and fits there then ends that |
| of a live NodeRequest, or that request alone | open, kind "in-flight", with its planned pods in it |
| cordoned, NotReady, in removal, going, malformed, starting without a request | closed: its pods still count for rules between pods |

Who is planned onto which node that is on its way? Asked by scale-up (those pods need nothing more) and by realising
(those pods are bound).

A plan keeps its assignments: `plannedPods` of a live NodeRequest are held to as long as the pod waits and fits, so
planning again with its own output in flight creates nothing. A pod that is gone, bound, nominated elsewhere or no
longer fits is dropped, and so is demand again.

| NodeRequest | its room |
| --- | --- |
| Pending, Provisioning, no node yet | as its pool and offering promise |
| Pending, Provisioning, node joined | the real node, as it will be when its start-up taints are gone |
| Ready, still tainted | the same |
| anything else, or the pool is going | none |

May growth bind this pod itself? Asked by realising (pods planned onto a new node) and scheduling (pods that name
growth as their scheduler).

Only where a scheduler has nothing else to do for it: volumes are bound, no resource claims are to be allocated, no gate
stands in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import READY, NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.model.resources import Resources
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import ordered_amounts
from growth.plan.world.marks import without_mark
from growth.plan.world.nodes import state_of
from growth.plan.world.pools import OfferingKey, by_key, is_transient, landing_daemons, node_labels, serving_taints
from growth.solver.purchase.problem import Room
from growth.solver.rules.fit import fits_alone, free_after, free_amounts

_SOON_SECONDS: Final = 45.0


def rooms(snapshot: Snapshot, assigned: Assignments) -> tuple[Room, ...]:
    """All rooms by name, with the pods that hold room in them."""
    on_their_way = {each.node.name: each for each in assigned.expected}
    found = {name: _of_expected(each) for name, each in on_their_way.items()}
    for name, node in snapshot.nodes.items():
        if name not in on_their_way:
            found[name] = _of_node(node, snapshot, assigned.holders.get(name, ()))
    return tuple(found[name] for name in sorted(found))


def _of_expected(expected: Expected) -> Room:
    shapes = (*expected.residents, *(pod.shape for pod in expected.planned))
    return Room(expected.node, _counted(shapes), "in-flight", is_open=not expected.node.is_unschedulable)


def _of_node(node: Node, snapshot: Snapshot, holding: tuple[Pod, ...]) -> Room:
    is_emptied = node.name in snapshot.removals
    staying = [
        pod
        for pod in snapshot.pods_by_node.get(node.name, ())
        if not pod.is_finished and not (is_emptied and _leaves_soon(pod, snapshot.now))
    ]
    shapes = [pod.shape for pod in (*staying, *holding)]
    is_open = state_of(node.name, snapshot).takes_pods
    return Room(without_mark(node), _counted(shapes), "marked" if node.is_marked else "node", is_open=is_open)


def _leaves_soon(pod: Pod, now: float) -> bool:
    """Before a machine that is bought now could serve."""
    return pod.deleted_at is not None and pod.deleted_at <= now + _SOON_SECONDS


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
        self._node = without_mark(node)
        self._is_open = state_of(node.name, snapshot).takes_pods
        self._free = free_amounts(node.allocatable, (pod.shape for pod in staying))
        self.taken: list[Pod] = []

    def take(self, pod: Pod) -> None:
        if self._is_open and fits_alone(pod.shape, self._node, self._free):
            self._free = free_after(self._free, pod.shape)
            self.taken.append(pod)


class Expected(Struct, frozen=True):
    """A node on its way, as it will be, with what is on it or will surely come."""

    request: NodeRequest
    node: Node
    is_joined: bool
    residents: tuple[PodShape, ...]  # bound pods, and DaemonSet pods that are still to come
    planned: tuple[Pod, ...] = ()  # kept assignments, not yet bound


class Assignments(Struct, frozen=True):
    """Which waiting pods have a place already."""

    holders: Mapping[str, tuple[Pod, ...]] = {}  # by node: pods that the scheduler shall put there, and hold its room
    expected: tuple[Expected, ...] = ()  # nodes on their way, with their planned pods

    @property
    def keys(self) -> set[str]:
        """Of all these pods."""
        planned = {pod.key for each in self.expected for pod in each.planned}
        return planned | {pod.key for pods in self.holders.values() for pod in pods}


def assignments(
    snapshot: Snapshot,
    offerings: tuple[Offering, ...] | None = None,
    holding: Mapping[str, tuple[Pod, ...]] | None = None,
) -> Assignments:
    """Without more said: by the catalogue as it is, and with the pods that are nominated somewhere."""
    here = nominated(snapshot) if holding is None else holding
    elsewhere = {pod.key for pods in here.values() for pod in pods}
    return Assignments(here, _expected_nodes(snapshot, offerings or snapshot.offerings, elsewhere))


def _expected_nodes(
    snapshot: Snapshot, offerings: tuple[Offering, ...], elsewhere: Collection[str]
) -> tuple[Expected, ...]:
    """Every live request with the pods that stay planned onto it; the oldest request keeps first. `elsewhere`: keys of
    pods that hold other room.
    """
    sold = by_key(offerings)
    waiting = {pod.key: pod for pod in snapshot.waiting_pods if is_plannable(pod) and pod.key not in elsewhere}
    taken: set[str] = set()
    found = []
    for request in sorted(snapshot.requests.values(), key=lambda each: (each.created_at, each.name)):
        room = _room_of(request, snapshot, sold)
        if room is not None:
            kept = _kept(room, waiting, taken)
            taken.update(pod.key for pod in kept)
            found.append(replace(room, planned=kept))
    return tuple(found)


def is_plannable(pod: Pod) -> bool:
    return not (
        pod.is_gated
        or pod.is_daemon
        or pod.is_mirror
        or pod.is_finished
        or pod.deleted_at is not None
        or pod.shape.malformed
    )


def _room_of(request: NodeRequest, snapshot: Snapshot, sold: Mapping[OfferingKey, Offering]) -> Expected | None:
    pool, node = snapshot.pools.get(request.spec.pool), snapshot.nodes.get(request.name)
    if (
        pool is None
        or pool.deleted_at is not None
        or request.deleted_at is not None
        or request.name in snapshot.removals
    ):
        return None
    is_behind_taint = request.phase == READY and node is not None and node.is_starting
    if not (request.is_in_flight or is_behind_taint) or (
        node is not None and (node.malformed or node.deleted_at is not None)
    ):
        return None
    if node is None:
        return _promised(request, pool, snapshot, sold)
    return _joined(request, pool, node, snapshot, sold)


def _promised(
    request: NodeRequest, pool: NodePool, snapshot: Snapshot, sold: Mapping[OfferingKey, Offering]
) -> Expected:
    node = promised_node(request, pool, sold)
    daemons = tuple(each.shape for each in landing_daemons(snapshot.daemon_sets, node.labels, node.taints))
    return Expected(request, node, is_joined=False, residents=daemons)


def promised_node(request: NodeRequest, pool: NodePool, sold: Mapping[OfferingKey, Offering]) -> Node:
    """What was ordered; where the catalogue has learned that it is less, that."""
    spec = request.spec
    ordered = ordered_amounts(spec)
    offering = sold.get((spec.target_offering, spec.location)) or Offering(
        spec.target_offering, "", spec.location, 0.0, ordered
    )
    amounts = _smaller(ordered, offering.allocatable) if ordered else offering.allocatable
    return Node(
        request.name, labels=node_labels(pool, offering, request.name), taints=serving_taints(pool), allocatable=amounts
    )


def _smaller(one: Resources, other: Resources) -> Resources:
    return Resources({name: min(amount, other[name]) for name, amount in one.items()})


def _joined(
    request: NodeRequest, pool: NodePool, node: Node, snapshot: Snapshot, sold: Mapping[OfferingKey, Offering]
) -> Expected:
    """The real node: its own amounts where it states them, a device that has not shown up yet as promised."""
    promised = promised_node(request, pool, sold)
    lasting = tuple(taint for taint in without_mark(node).taints if not is_transient(taint, pool))
    missing = tuple(taint for taint in promised.taints if all(taint.key != each.key for each in lasting))
    amounts = {**promised.allocatable, **node.allocatable} if node.allocatable else promised.allocatable
    future = replace(
        node,
        labels=promised.labels.with_items(node.labels),
        taints=lasting + missing,
        allocatable=Resources(amounts),
        is_ready=True,
    )
    bound = [pod for pod in snapshot.pods_by_node.get(node.name, ()) if not pod.is_finished]
    here = {f"{pod.namespace}/{pod.owner.name}" for pod in bound if pod.owner is not None and pod.is_daemon}
    coming = [
        each.shape
        for each in landing_daemons(snapshot.daemon_sets, future.labels, future.taints)
        if each.key not in here
    ]
    return Expected(request, future, is_joined=True, residents=(*(pod.shape for pod in bound), *coming))


def _kept(room: Expected, waiting: Mapping[str, Pod], taken: set[str]) -> tuple[Pod, ...]:
    """In the order of the plan, as long as each still fits beside those before it."""
    free = free_amounts(room.node.allocatable, room.residents)
    kept: dict[str, Pod] = {}
    for key in room.request.planned_pods:
        pod = waiting.get(key)
        if pod is None or key in taken or key in kept:
            continue
        if fits_alone(pod.shape, room.node, free):
            kept[key] = pod
            free = free_after(free, pod.shape)
    return tuple(kept.values())


def why_not_bindable(pod: Pod, snapshot: Snapshot) -> str:
    """Empty if growth may bind it."""
    if pod.is_gated:
        return "it waits for its scheduling gates"
    if pod.shape.uses_resource_claims:
        return "growth allocates no resource claims: leave the pod to kube-scheduler"
    for use in pod.shape.volumes:
        if use.is_ephemeral or (use.claim and not _is_bound(pod, use.claim, snapshot)):
            name = use.claim or "an ephemeral volume"
            return f"growth binds no volumes, and claim {name} is not bound: leave the pod to kube-scheduler, or use volumes that are bound at once"
    return ""


def _is_bound(pod: Pod, claim: str, snapshot: Snapshot) -> bool:
    found = snapshot.volumes.claims.get(f"{pod.namespace}/{claim}")
    return found is not None and found.is_bound and not found.is_lost and found.deleted_at is None
