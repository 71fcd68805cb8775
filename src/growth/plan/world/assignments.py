"""Who is planned onto which node that is on its way? Asked by scale-up (those pods need nothing more) and by realising
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
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from growth.model.node import SCALE_DOWN_TAINT, Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import READY, NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.model.resources import Resources
from growth.model.snapshot import Snapshot
from growth.plan.world.catalogue import Place, by_place
from growth.plan.world.fitting import charge, free_amounts, stands
from growth.plan.world.limits import ordered_amounts
from growth.plan.world.templates import is_transient, landing_daemons, node_labels, serving_taints


class Expected(Struct, frozen=True):
    """A node on its way, as it will be, with what is on it or will surely come."""

    request: NodeRequest
    node: Node
    is_joined: bool
    residents: tuple[PodShape, ...]  # bound pods, and DaemonSet pods that are still to come
    planned: tuple[Pod, ...] = ()  # kept assignments, not yet bound


def expected_nodes(
    snapshot: Snapshot, offerings: tuple[Offering, ...], elsewhere: Collection[str]
) -> tuple[Expected, ...]:
    """Every live request with the pods that stay planned onto it; the oldest request keeps first. `elsewhere`: keys of
    pods that hold other room.
    """
    sold = by_place(offerings)
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


def _room_of(request: NodeRequest, snapshot: Snapshot, sold: Mapping[Place, Offering]) -> Expected | None:
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


def _promised(request: NodeRequest, pool: NodePool, snapshot: Snapshot, sold: Mapping[Place, Offering]) -> Expected:
    node = promised_node(request, pool, sold)
    daemons = tuple(each.shape for each in landing_daemons(snapshot.daemon_sets, node.labels, node.taints))
    return Expected(request, node, is_joined=False, residents=daemons)


def promised_node(request: NodeRequest, pool: NodePool, sold: Mapping[Place, Offering]) -> Node:
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
    request: NodeRequest, pool: NodePool, node: Node, snapshot: Snapshot, sold: Mapping[Place, Offering]
) -> Expected:
    """The real node: its own amounts where it states them, a device that has not shown up yet as promised."""
    promised = promised_node(request, pool, sold)
    lasting = tuple(
        taint for taint in node.taints if not is_transient(taint, pool) and taint.key != SCALE_DOWN_TAINT.key
    )
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
        need = charge(pod.shape)
        if need.fits_in(free) and stands(pod.shape, room.node.labels, room.node.taints, room.node.name):
            kept[key] = pod
            free = free - need
    return tuple(kept.values())
