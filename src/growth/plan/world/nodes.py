"""What is this node: how far has it come, does it stay or go, is it idle, what does it cost? Asked by every row.

| a node is | when |
| --- | --- |
| joined | the Node object exists, under the request's name |
| registered | growth has written the pool's labels, annotations and taints on it (label growth.dev/node-request) |
| initialised | ours, Ready, its start-up taints gone, the devices it was bought for reported |
| serving | initialised, and growth's own start-up taint taken off |
| marked | it will go (`plan/world/marks`) |
| in removal | a NodeRemovalRequest has its name |
| idle | no pods but those of DaemonSets, mirrors and finished ones, no pod on its way to it, and not starting |

Whether it stays or goes: `NodeState`, a table of questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from growth.model.instant import is_from_future
from growth.model.labels import ZONE
from growth.model.node import DO_NOT_DISRUPT, STARTUP_TAINT, TEMPLATE, Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import PENDING, READY, NodeRemovalRequest, NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.limits import ordered_amounts
from growth.plan.world.machines import (
    CONSOLIDATED,
    DELETED,
    DRAINING,
    NOT_READY,
    POOL_DELETED,
    UNHEALTHY,
    is_registered,
)
from growth.plan.world.pools import choice_of_type, is_transient, pools_for
from growth.solver.rules import Neighbours
from growth.solver.rules.fit import fits_alone, free_amounts

Kind = tuple[str, str]  # pool, offering

UNREACHABLE_SECONDS: Final = 300.0
_SKEW_SECONDS: Final = 10.0  # between the clocks of a kubelet and the API server

_PROTECTED_NODE: Final = (
    DO_NOT_DISRUPT,
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
)
_PROTECTED_POD: Final = (DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt")
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


# ------------------------------------------------------------------------------------ stays or goes


class NodeState(Struct, frozen=True, gc=False):
    """Does a node stay or go, by the objects of one snapshot? The questions differ because the rows err on different
    sides; each row asks the one that fits it.

    | question | true if | asked for |
    | --- | --- | --- |
    | is_ending | in removal, or its Node object is being deleted | binding: nothing new begins there |
    | is_going | marked, or in removal | swaps and what-if: its pods move, it is no target. Both can be taken back |
    | is_surely_going | in a removal that no waiting pod ends | room for pods: a pod ends a Pending one to save money |
    | is_draining | in removal for a reason that evicts pods | budgets: Empty removals disrupt no pod |
    | is_free | neither marked nor ending, and readable | candidates and renewal: no other row has chosen it |
    | is_staying | Ready and started, neither marked nor ending | scale-down: how many are above the pool's minimum |
    | takes_pods | Ready, started, schedulable, readable; not surely going or deleted | room: marks can be taken off |
    """

    node: Node | None  # None: the name of a request or a removal whose node is not there
    removal: NodeRemovalRequest | None = None

    @property
    def is_marked(self) -> bool:
        return self.node is not None and self.node.is_marked

    @property
    def is_ending(self) -> bool:
        return self.removal is not None or (self.node is not None and self.node.deleted_at is not None)

    @property
    def is_going(self) -> bool:
        return self.removal is not None or self.is_marked

    @property
    def is_surely_going(self) -> bool:
        removal = self.removal
        return removal is not None and (
            removal.spec.reason != CONSOLIDATED or removal.phase != PENDING or removal.deleted_at is not None
        )

    @property
    def is_draining(self) -> bool:
        return self.removal is not None and self.removal.spec.reason in DRAINING

    @property
    def is_free(self) -> bool:
        return self.node is not None and not self.is_marked and not self.is_ending and not self.node.malformed

    @property
    def is_staying(self) -> bool:
        node = self.node
        return node is not None and node.is_ready and not self.is_ending and not node.is_starting and not node.is_marked

    @property
    def takes_pods(self) -> bool:
        node = self.node
        if node is None or node.deleted_at is not None or node.malformed or self.is_surely_going:
            return False
        return node.is_ready and not node.is_unschedulable and not node.is_starting


def state_of(name: str, snapshot: Snapshot) -> NodeState:
    return NodeState(snapshot.nodes.get(name), snapshot.removals.get(name))


def going_nodes(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of nodes that are going, in order."""

    def look() -> tuple[str, ...]:
        return tuple(sorted(name for name in snapshot.nodes if state_of(name, snapshot).is_going))

    return snapshot.memo.recall("going nodes", (snapshot.nodes, snapshot.removals), look)


def readiness_wait_seconds(pool: NodePool | None, settings: Settings) -> float:
    """How long a machine may take until its node is Ready."""
    chosen = None if pool is None else pool.spec.readiness_wait_seconds
    return settings.readiness_wait_seconds if chosen is None else float(chosen)


def staying_by_kind(snapshot: Snapshot) -> dict[Kind, int]:
    """How many nodes of each pool and offering serve and stay."""

    def count() -> dict[Kind, int]:
        nodes = snapshot.nodes.items()
        staying = (node for name, node in nodes if node.pool and state_of(name, snapshot).is_staying)
        return dict(Counter(map(kind_of, staying)))

    return dict(snapshot.memo.recall("staying nodes by kind", (snapshot.nodes, snapshot.removals), count))


# ----------------------------------------------------------------------------------- pool and price


def kind_of(node: Node) -> Kind:
    return (node.pool, node.offering)


def minimum(node: Node, pool: NodePool) -> int:
    """How many nodes of this node's type its pool keeps at least."""
    choice = choice_of_type(pool, node.offering)
    return 0 if choice is None else choice.min


def delay_seconds(pool: NodePool, settings: Settings) -> float:
    """How long a node of the pool stays marked before it goes."""
    own = pool.spec.scale_down_delay_seconds
    return settings.scale_down_delay_seconds if own is None else float(own)


def is_paused(pool: NodePool | None, settings: Settings) -> bool:
    return settings.is_paused or (pool is not None and pool.is_paused)


class Prices:
    """What nodes cost per hour, by the catalogue: the price of the offering in the machine's location, else in the
    zone that the node's label names, else where it is dearest; 0 if the catalogue does not know the offering.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._machines, offerings = snapshot.machines, snapshot.offerings
        self._listed = snapshot.memo.recall("price list", (offerings,), lambda: _PriceList(offerings))

    def price(self, node: Node) -> float:
        machine, offering, listed = self._machines.get(node.name), node.offering, self._listed
        known = None if machine is None else listed.by_location.get((offering, machine.location))
        if known is None:
            known = listed.by_zone.get((offering, node.labels.get(ZONE, "")))
        return listed.dearest.get(offering, 0.0) if known is None else known


class _PriceList:
    """The catalogue, by offering and place."""

    def __init__(self, offerings: tuple[Offering, ...]) -> None:
        self.by_location = {(each.name, each.location): each.price_per_hour for each in offerings}
        self.by_zone = {(each.name, each.zone): each.price_per_hour for each in offerings}
        self.dearest: dict[str, float] = {}
        for each in offerings:
            self.dearest[each.name] = max(each.price_per_hour, self.dearest.get(each.name, 0.0))


# ------------------------------------------------------------------------------------- its way in


def is_ours(node: Node, snapshot: Snapshot) -> bool:
    """A node of a pool that there is, bought by growth (`plan.world.machines`)."""
    return node.pool in snapshot.pools


def is_initialised(node: Node, request: NodeRequest, pool: NodePool | None) -> bool:
    if not node.pool or not node.is_ready or not is_registered(node) or node.malformed:
        return False
    if any(is_transient(taint, pool) and taint.key != STARTUP_TAINT.key for taint in node.taints):
        return False
    ordered = ordered_amounts(request.spec).items()
    return all(name in node.allocatable for name, amount in ordered if amount > 0 and "/" in name)


def is_serving(node: Node, request: NodeRequest, pool: NodePool | None) -> bool:
    return is_initialised(node, request, pool) and not node.is_starting


def was_ever_ready(node: Node, snapshot: Snapshot) -> bool:
    """Is it Ready, or was it until it was opened to pods? Registering a node puts our start-up taint and the digest of
    its template onto it; when it is Ready, the taint comes off. Anybody may take it off: of one given up as never Ready
    that tells nothing, nor does a condition that changed: so it does when a kubelet falls silent. One that was Ready
    behind the taint counts as if it never was: it has served nobody, and must not hold the brake for ever.
    """
    request, removal = snapshot.requests.get(node.name), snapshot.removals.get(node.name)
    if node.is_ready or (removal is not None and removal.spec.reason == NOT_READY):
        return node.is_ready
    was_opened = TEMPLATE in node.annotations and not node.is_starting
    if was_opened or (request is not None and request.phase == READY):
        return True
    return request is None and not node.is_starting and node.ready_changed_at > node.created_at + _SKEW_SECONDS


def phase_since(request: NodeRequest, snapshot: Snapshot) -> float:
    """Since when a request is in its phase. A stamp from the future was written before a clock went back: then the
    time its node became Ready counts, or its age.
    """
    node = snapshot.nodes.get(request.name)
    ready_at = (node.ready_changed_at,) if node is not None and request.phase == READY else ()
    stamps = (request.changed_at, *ready_at, request.created_at)
    return next((at for at in stamps if not is_from_future(snapshot.now, at)), 0.0)


# ------------------------------------------------------------------------------------- idle


def is_protected_node(node: Node) -> bool:
    return any(node.annotations.get(key) == "true" for key in _PROTECTED_NODE)


def is_kept_by_wish(node: Node, reason: str) -> bool:
    """Does its annotation keep a node from a removal for this reason? What died or never came up goes all the same;
    what works stays until the annotation is gone, whoever wrote the removal.
    """
    has_served = node.is_ready and not (node.is_starting and reason in (NOT_READY, DELETED))
    may_stay = has_served if reason in (POOL_DELETED, UNHEALTHY, NOT_READY, DELETED) else True
    return may_stay and is_protected_node(node)


def is_protected_pod(pod: Pod) -> bool:
    said = pod.annotations
    if not said:  # as of most pods
        return False
    return said.get(_SAFE_TO_EVICT) == "false" or any(said.get(key) == "true" for key in _PROTECTED_POD)


def why_not_idle(node: Node, snapshot: Snapshot, arrival_seconds: float) -> str:
    """In words; empty: it is idle. Pods that were planned for the node are awaited for so long after it was Ready."""
    request = snapshot.requests.get(node.name)
    if request is not None and request.is_in_flight:
        return "it is still starting"
    pods = blocking_pods(node.name, snapshot)
    if pods:
        more = f" and {len(pods) - 1} more run there"
        return f"pod {pods[0].key}{' runs there' if len(pods) == 1 else more}"
    planned: frozenset[str] = frozenset()
    if request is not None and request.phase == READY:
        is_young = snapshot.now < phase_since(request, snapshot) + arrival_seconds
        planned = frozenset(request.planned_pods) if is_young else planned
    for pod in snapshot.waiting_pods:
        if pod.deleted_at is None and (pod.nominated_node == node.name or pod.key in planned):
            return f"pod {pod.key} is on its way there"
    return ""


def disrupted_nodes(snapshot: Snapshot) -> tuple[Node, ...]:
    """Those whose pods leave, or will."""

    states = (state_of(name, snapshot) for name in going_nodes(snapshot))
    leaving = (state.node for state in states if state.is_marked or state.is_draining)
    return tuple(node for node in leaving if node is not None and working_pods(snapshot, node.name))


def was_kept(name: str, snapshot: Snapshot) -> bool:
    """A node that was disrupted works on: its mark or removal was taken back."""
    state = state_of(name, snapshot)
    return state.node is not None and state.node.is_ready and not state.is_going


def is_being_emptied(name: str, snapshot: Snapshot) -> bool:
    """Pods of it are, or were, evicted for its removal."""
    removal = snapshot.removals.get(name)
    return removal is not None and removal.status.drain_began_at is not None


def working_pods(snapshot: Snapshot, node: str) -> tuple[Pod, ...]:
    """Those that keep the node from being idle."""
    return snapshot.memo.recall_each("working pods", snapshot.pods_by_node, _working).get(node, ())


def _working(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.counts_as_work)


def blocking_pods(node_name: str, snapshot: Snapshot) -> tuple[Pod, ...]:
    """Working pods that would die with the machine."""
    node = snapshot.nodes.get(node_name)
    return tuple(pod for pod in working_pods(snapshot, node_name) if not is_lost(pod, node, snapshot.now))


def is_lost(pod: Pod, node: Node | None, now: float) -> bool:
    """On a node that has been unreachable for long, a pod whose deletion is overdue no longer counts: the kubelet
    cannot end it.
    """
    if node is None or node.is_ready or now - node.ready_changed_at <= UNREACHABLE_SECONDS:
        return False
    return pod.deleted_at is not None and now > pod.deleted_at + pod.grace_seconds


def lost_at(node_name: str, snapshot: Snapshot) -> float | None:
    """When time alone frees a dead node of its last pods; None: it does not."""
    node, pods = snapshot.nodes.get(node_name), working_pods(snapshot, node_name)
    if node is None or node.is_ready or not pods or any(pod.deleted_at is None for pod in pods):
        return None
    overdue = ((pod.deleted_at or 0.0) + pod.grace_seconds for pod in pods)
    at = max(node.ready_changed_at + UNREACHABLE_SECONDS, *overdue) + 1.0
    return at if at > snapshot.now else None


def waiting_shapes(snapshot: Snapshot, settings: Settings) -> tuple[PodShape, ...]:
    """Shapes of the pods that the scheduler found no place for, and that growth may place."""
    looking = (pod for pod in snapshot.waiting_pods if pod.unschedulable_at is not None)
    return tuple(dict.fromkeys(pod.shape for pod in looking if may_be_placed(pod, settings)))


def may_be_placed(pod: Pod, settings: Settings) -> bool:
    """Not gated, not going, without claims that only a scheduler can allocate, and worth money: a node that is kept for
    a pod costs as much as one that is bought for it.
    """
    is_free = pod.deleted_at is None and not pod.is_gated and not pod.shape.uses_resource_claims
    return is_free and pod.shape.priority >= settings.priority_cutoff


def would_take(node: Node, snapshot: Snapshot, shapes: Iterable[PodShape]) -> bool:
    """Does a pod of one of these shapes, that may use the node's pool, fit there as the node is now? By every rule of
    scheduling; those of the node alone are asked first, since they are quick.
    """
    if node.is_unschedulable:
        return False
    pods = (pod.shape for pod in snapshot.pods_by_node.get(node.name, ()) if not pod.is_finished)
    free = free_amounts(node.allocatable, pods)
    alone = [shape for shape in shapes if fits_alone(shape, node, free)]
    wanting = [shape for shape in alone if node.pool in pools_for(shape, snapshot.pools).names]
    if not wanting:
        return False
    bound = [pod for pods in snapshot.pods_by_node.values() for pod in pods if not pod.is_finished]
    nodes = [node if each.name == node.name else each for each in snapshot.nodes.values()]
    index = Neighbours(nodes, bound, snapshot.volumes, snapshot.namespaces, shapes=wanting)
    return any(index.fits_on(index.class_of(shape), index.table.index[node.name]) for shape in wanting)
