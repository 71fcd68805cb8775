"""Where is there room already, or soon, and which waiting pods have it? Asked by scale-up, replacement and the buffers
for the solver (what exists or is on its way costs nothing more), by joining (planned pods are bound) and by growth's
own scheduler.

| node | room |
| --- | --- |
| Ready, schedulable | open; so is one that was NotReady a moment ago and still has Kubernetes' taint for that |
| marked for scale-down, Ready | open, kind "marked": revive before buying |
| being emptied to save money, provider not asked | the same, once its pods have left: a pod that fits ends it |
| of a live NodeRequest, or that request alone | open, kind "in-flight", with its planned pods in it |
| cordoned, NotReady, in removal, going, malformed, starting without a request | closed, but its pods count for rules |

A plan keeps its assignments: `plannedPods` of a live NodeRequest are held to as long as the pod waits and fits, so
planning again with its own output in flight creates nothing. A pod that is gone, bound, nominated elsewhere or no
longer fits is dropped, and so is demand again.

| NodeRequest | the node it is expected to become |
| --- | --- |
| Pending, Provisioning, no node yet | as its pool and offering promise |
| Pending, Provisioning, node joined | the real node, as it will be when its start-up taints are gone |
| Ready, still tainted | the same |
| anything else, or the pool is going | none |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.gang import waiting_gangs
from growth.model.node import NOT_READY_TAINTS, Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import PROVISIONING, READY, NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.model.resources import Resources
from growth.model.scheduler import DEFAULT_SCHEDULER
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import ordered_amounts
from growth.plan.world.marks import without_mark
from growth.plan.world.nodes import is_initialised, state_of
from growth.plan.world.pools import (
    OfferingKey,
    by_key,
    daemon_shapes,
    is_transient,
    landing_daemons,
    node_labels,
    serving_taints,
)
from growth.solver.purchase.problem import Room
from growth.solver.rules.fit import fit_together, fits_alone, free_after, free_amounts

_SOON_SECONDS: Final = 45.0


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


def rooms(snapshot: Snapshot, assigned: Assignments) -> tuple[Room, ...]:
    """All rooms by name, with the pods that hold room in them."""
    on_their_way = {each.node.name: each for each in assigned.expected}
    found = {name: _of_expected(each) for name, each in on_their_way.items()}
    for name, node in snapshot.nodes.items():
        if name not in on_their_way:
            found[name] = _of_node(node, snapshot, assigned.holders.get(name, ()))
    return tuple(found[name] for name in sorted(found))


def coming_rooms(assigned: Assignments) -> tuple[Room, ...]:
    """Only those on their way: few, and quickly found."""
    return tuple(_of_expected(each) for each in assigned.expected)


def _of_expected(expected: Expected) -> Room:
    shapes = (*expected.residents, *(pod.shape for pod in expected.planned))
    return Room(expected.node, _counted(shapes), "in-flight", is_open=not expected.node.is_unschedulable)


def _of_node(node: Node, snapshot: Snapshot, holding: tuple[Pod, ...]) -> Room:
    """A pod that leaves a node in removal before a machine that is bought now could serve has left."""
    name, gone_at = node.name, snapshot.now + _SOON_SECONDS
    contents = snapshot.memo.recall_each("shapes on nodes", snapshot.pods_by_node, _shapes_among).get(name, ())
    if holding or name in snapshot.removals:
        here = (pod for pod in snapshot.pods_by_node.get(name, ()) if not pod.is_finished)
        is_emptied = name in snapshot.removals
        staying = (pod for pod in here if not is_emptied or pod.deleted_at is None or pod.deleted_at > gone_at)
        contents = _counted(pod.shape for pod in (*staying, *holding))
    is_open = state_of(name, snapshot).takes_pods
    return Room(_soon(node), contents, "marked" if node.is_marked else "node", is_open=is_open)


def _shapes_among(pods: tuple[Pod, ...]) -> tuple[tuple[PodShape, int], ...]:
    return _counted(pod.shape for pod in pods if not pod.is_finished)


def _soon(node: Node) -> Node:
    """As it will be in a moment: a mark can be taken off, and Kubernetes takes its own taint off a node that is Ready
    again.
    """
    found = without_mark(node)
    if not node.is_ready or not any(each.key in NOT_READY_TAINTS for each in found.taints):
        return found
    return replace(found, taints=tuple(each for each in found.taints if each.key not in NOT_READY_TAINTS))


def _counted(shapes: Iterable[PodShape]) -> tuple[tuple[PodShape, int], ...]:
    return tuple(Counter(shapes).items())


# -------------------------------------------------------------------------------------- assignments


def assignments(
    snapshot: Snapshot,
    offerings: tuple[Offering, ...] | None = None,
    holding: Mapping[str, tuple[Pod, ...]] | None = None,
) -> Assignments:
    """Without more said: by the catalogue as it is, and with the pods that are nominated somewhere; that answer is kept
    in the memo, so nothing here may depend on the time.
    """
    if offerings is None and holding is None:
        made_from = (
            snapshot.nodes, snapshot.pods_by_node, snapshot.waiting_pods, snapshot.requests, snapshot.removals,
            snapshot.pools, snapshot.offerings, *snapshot.daemon_sets,
        )  # fmt: skip
        return snapshot.memo.recall("assignments", made_from, lambda: assignments(snapshot, snapshot.offerings))
    if holding is None:
        sent = ((pod, pod.nominated_node) for pod in snapshot.waiting_pods if pod.nominated_node and may_hold(pod))
        holding = holders(sent, snapshot)
    elsewhere = {pod.key for pods in holding.values() for pod in pods}
    return Assignments(holding, _expected_nodes(snapshot, offerings or snapshot.offerings, elsewhere))


def holders(pods: Iterable[tuple[Pod, str]], snapshot: Snapshot) -> dict[str, tuple[Pod, ...]]:
    """Of pods that are sent to a node, those whose room really exists: by node, each beside those before it. Pods that
    are being deleted have left by then.
    """
    sent: dict[str, list[Pod]] = {}
    for pod, name in pods:
        if name in snapshot.nodes and state_of(name, snapshot).takes_pods:
            sent.setdefault(name, []).append(pod)
    found = {}
    for name, wanting in sent.items():
        node, here = _soon(snapshot.nodes[name]), snapshot.pods_by_node.get(name, ())
        staying = (each.shape for each in here if not each.is_finished and each.deleted_at is None)
        free, holding = free_amounts(node.allocatable, staying), list[Pod]()
        for pod in wanting:
            if fits_alone(pod.shape, node, free):
                free = free_after(free, pod.shape)
                holding.append(pod)
        if holding:
            found[name] = tuple(holding)
    return found


def may_hold(pod: Pod) -> bool:
    return pod.deleted_at is None and not pod.is_gated


def _expected_nodes(
    snapshot: Snapshot, offerings: tuple[Offering, ...], elsewhere: Collection[str]
) -> tuple[Expected, ...]:
    """Every live request with the pods that stay planned onto it; the oldest request keeps first. `elsewhere`: keys of
    pods that hold other room; mostly there are none, and that answer is kept in the memo.
    """
    ordered = _on_their_way(snapshot, offerings)

    def look() -> tuple[Expected, ...]:
        waiting = {pod.key: pod for pod in snapshot.waiting_pods if is_plannable(pod) and pod.key not in elsewhere}
        found = []
        for expected in ordered:
            planned = _still_planned(expected, waiting)
            for key in planned:
                del waiting[key]
            found.append(replace(expected, planned=tuple(planned.values())) if planned else expected)
        return tuple(found)

    if not ordered:
        return ()
    return look() if elsewhere else snapshot.memo.recall("expected nodes", (snapshot.waiting_pods, ordered), look)


def _on_their_way(snapshot: Snapshot, offerings: tuple[Offering, ...]) -> tuple[Expected, ...]:
    """The same without any pod that waits: that answer is kept in the memo."""

    def look() -> tuple[Expected, ...]:
        sold = by_key(offerings)
        in_order = sorted(snapshot.requests.values(), key=lambda each: (each.created_at, each.name))
        return tuple(found for each in in_order if (found := _expected(each, snapshot, sold)) is not None)

    made_from = (
        snapshot.nodes, snapshot.pods_by_node, snapshot.requests, snapshot.removals, snapshot.pools, offerings,
        *snapshot.daemon_sets,
    )  # fmt: skip
    return snapshot.memo.recall("nodes on their way", made_from, look)


def is_plannable(pod: Pod) -> bool:
    is_of_one_node = pod.is_daemon or pod.is_mirror
    is_over = pod.is_finished or pod.deleted_at is not None
    return not (pod.is_gated or is_of_one_node or is_over or pod.shape.malformed)


def _expected(request: NodeRequest, snapshot: Snapshot, sold: Mapping[OfferingKey, Offering]) -> Expected | None:
    pool, node = snapshot.pools.get(request.spec.pool), snapshot.nodes.get(request.name)
    if pool is None or pool.deleted_at is not None:
        return None
    if request.deleted_at is not None or request.name in snapshot.removals:
        return None
    is_behind_taint = request.phase == READY and node is not None and node.is_starting
    if not (request.is_in_flight or is_behind_taint):
        return None
    promised = promised_node(request, pool, sold)
    if node is None or not node.pool:  # a stranger that has the name of our request is not what was ordered
        daemons = daemon_shapes(snapshot.daemon_sets, promised.labels, promised.taints)
        return Expected(request, promised, is_joined=False, residents=daemons)
    if node.malformed or node.deleted_at is not None:
        return None
    return _joined(request, pool, node, promised, snapshot)


def awaits_pods(expected: Expected, snapshot: Snapshot) -> bool:
    """Is its node there, and ready for its planned pods behind the start-up taint?"""
    node = snapshot.nodes.get(expected.request.name) if expected.is_joined else None
    pool = snapshot.pools.get(expected.request.spec.pool)
    return node is not None and node.is_starting and is_initialised(node, expected.request, pool)


def kept_for_gangs(snapshot: Snapshot) -> Mapping[str, tuple[Pod, ...]]:
    """By request, machines that have come and whose pods wait for others of a gang, with those pods."""
    parts = (waiting_gangs(snapshot), snapshot.requests, snapshot.nodes, snapshot.pools)
    return snapshot.memo.recall("kept for gangs", parts, lambda: _kept_for_gangs(snapshot))


def _kept_for_gangs(snapshot: Snapshot) -> dict[str, tuple[Pod, ...]]:
    gangs = waiting_gangs(snapshot).values()
    members = {pod.key: pod for gang in gangs if gang.needed for pod in gang.waiting}
    found: dict[str, tuple[Pod, ...]] = {}
    for name, request in snapshot.requests.items() if members else ():
        pods = tuple(members[key] for key in request.planned_pods if key in members)
        node, pool = snapshot.nodes.get(name), snapshot.pools.get(request.spec.pool)
        if pods and node is not None and request.phase == PROVISIONING and is_initialised(node, request, pool):
            found[name] = pods
    return found


def promised_node(request: NodeRequest, pool: NodePool, sold: Mapping[OfferingKey, Offering]) -> Node:
    """What was ordered; where the catalogue has learned that it is less, that."""
    spec = request.spec
    ordered = ordered_amounts(spec)
    unknown = Offering(spec.target_offering, "", spec.location, 0.0, ordered)
    offering = sold.get((spec.target_offering, spec.location)) or unknown
    offered = offering.allocatable
    amounts = Resources({name: min(amount, offered[name]) for name, amount in ordered.items()}) if ordered else offered
    labels = node_labels(pool, offering, request.name)
    return Node(
        request.name,
        labels=labels,
        taints=serving_taints(pool),
        allocatable=amounts,
        pool=spec.pool,
        offering=spec.target_offering,
    )


def _joined(request: NodeRequest, pool: NodePool, node: Node, promised: Node, snapshot: Snapshot) -> Expected:
    """The real node: its own amounts where it states them, a device that has not shown up yet as promised."""
    lasting = tuple(taint for taint in without_mark(node).taints if not is_transient(taint, pool))
    missing = tuple(taint for taint in promised.taints if all(taint.key != each.key for each in lasting))
    amounts = {**promised.allocatable, **node.allocatable} if node.allocatable else promised.allocatable
    future = replace(
        node,
        labels=promised.labels.with_items(node.labels),
        taints=lasting + missing,
        allocatable=Resources(amounts),
        is_ready=True,
        pool=promised.pool,
        offering=promised.offering,
    )
    bound = [pod for pod in snapshot.pods_by_node.get(node.name, ()) if not pod.is_finished]
    here = {f"{pod.namespace}/{pod.owner.name}" for pod in bound if pod.owner is not None and pod.is_daemon}
    landing = landing_daemons(snapshot.daemon_sets, future.labels, future.taints)
    coming = (each.shape for each in landing if each.key not in here)
    return Expected(request, future, is_joined=True, residents=(*(pod.shape for pod in bound), *coming))


def _still_planned(expected: Expected, waiting: Mapping[str, Pod]) -> dict[str, Pod]:
    """In the order of the plan, as long as each still fits beside those before it."""
    wanting = {key: waiting[key] for key in expected.request.planned_pods if key in waiting}
    if not wanting:
        return {}
    free = free_amounts(expected.node.allocatable, expected.residents)
    if fit_together([pod.shape for pod in wanting.values()], expected.node, free):
        return wanting
    planned: dict[str, Pod] = {}
    for key, pod in wanting.items():
        if fits_alone(pod.shape, expected.node, free):
            planned[key] = pod
            free = free_after(free, pod.shape)
    return planned


# ------------------------------------------------------------------------------------------ binding


def why_not_bindable(pod: Pod, snapshot: Snapshot) -> str:
    """Why growth must not bind this pod itself; empty if it may. Only where a scheduler has nothing else to do for it:
    volumes are bound, no resource claims are to be allocated, no gate is closed.
    """
    if pod.is_gated or pod.shape.uses_resource_claims:
        return why_not_allocated(pod) or "it waits for its scheduling gates"
    for use in pod.shape.volumes:
        if use.is_ephemeral or (use.claim and not _is_bound(pod, use.claim, snapshot)):
            name = use.claim or "an ephemeral volume"
            return f"claim {name} is not bound, and its scheduler must ask for a volume"
    return ""


def in_force(settings: Settings, snapshot: Snapshot) -> Settings:
    """What the settings say of growth's own scheduler, as it holds now: pods of the default scheduler are left to
    kube-scheduler while it is there, and while that is not known.
    """
    scheduler = settings.scheduler
    if not scheduler.stands_in or snapshot.kube_scheduler.is_away(snapshot.now):
        return settings
    left = replace(scheduler, serves_default=False, enabled=scheduler.name != DEFAULT_SCHEDULER)
    return snapshot.memo.recall("scheduler in force", (settings,), lambda: replace(settings, scheduler=left), most=1)


def why_not_allocated(pod: Pod) -> str:
    """Why growth's own scheduler cannot have this pod; empty if it can."""
    uses_claims = pod.shape.uses_resource_claims
    return "growth allocates no resource claims: leave the pod to kube-scheduler" if uses_claims else ""


def _is_bound(pod: Pod, claim: str, snapshot: Snapshot) -> bool:
    found = snapshot.volumes.claims.get(f"{pod.namespace}/{claim}")
    return found is not None and found.is_bound and not found.is_lost and found.deleted_at is None
