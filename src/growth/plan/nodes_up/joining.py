"""How does a plan become true on a node that has joined? Asked for every NodeRequest whose node exists and still
carries our start-up taint.

A tight packing rarely survives a scheduler that spreads. While our taint keeps the scheduler off, growth puts the
planned pods there itself.

| the node | then |
| --- | --- |
| joined, not registered | RegisterNode: labels and annotations of the pool, its taints, our start-up taint; taints of others stay |
| registered, not initialised | wait |
| initialised, planned pods wait | BindPod for those growth may bind, NominatePod for the others, each once |
| all of them bound or nominated | after a moment ReadyNode: the start-up taint goes, the others stay |
| all of them nominated, in a pool that does not let growth bind | the same at once: the scheduler forgets a nomination when it next fails to place the pod |
| the same, with room for pods that are planned onto other new nodes | the same, but they go first, for a few seconds: else the scheduler puts them here |
| registered and Ready, but its request was deleted | the same |

Growth may bind a pod of the default scheduler, or of its own if that is on, without gates, resource claims and unbound
volumes, in a pool that lets it, where every rule of scheduling still allows it. Each bind names the pods that were
counted on the node: the gate lets it through only while no others are there. A pod that is gone, bound elsewhere or no
longer fits is dropped here and is demand again there. A nomination to a node that is gone is taken back.

May these pods stand where they are planned, by every rule of scheduling? Asked by realising before growth binds past
the scheduler.

All planned pods are looked at as if the others were there already: a plan may hold only as a whole (a pod and the one
it must stand beside). The index of all nodes and pods is made only when somebody has rules that look at other pods, or
at volumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, BindPod, NominatePod, ReadyNode, RegisterNode
from growth.model.decision import Decision, Settled
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, TEMPLATE, Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRequest
from growth.model.note import Note
from growth.model.offering import Offering
from growth.model.outcome import Accepted, Conflict, Refused, TryLater
from growth.model.pod import Pod, PodShape
from growth.model.settings import SchedulerSettings, Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.virtual_pods import planned_annotation
from growth.plan.world.capacity import Expected, assignments, why_not_bindable
from growth.plan.world.nodes import is_initialised, is_registered, working_pods
from growth.plan.world.pools import OfferingKey, boot_taints, by_key, node_labels
from growth.plan.world.records import about_pod, seen, seen_pod, sooner
from growth.plan.world.swaps import template_digest
from growth.solver.rules import Neighbours
from growth.solver.rules.fit import fits_alone, free_amounts

_RETRY_SECONDS: Final = 2.0
_OTHERS_FIRST_SECONDS: Final = (
    10.0  # growth itself still puts pods into the room that is left; only the scheduler waits
)
_OUR_LABELS: Final = (POOL_LABEL, OFFERING_LABEL, REQUEST_LABEL)
_POOL_MARK: Final = "-pool-"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_NO_SCHEDULER: Final = SchedulerSettings()


class Ledger(Struct, frozen=True):
    """Lost at a restart: then the moment before the taint goes is waited for once more."""

    last_at: Mapping[str, float] = {}  # by node: since when all its pods are seen there
    done: frozenset[tuple[str, str]] = frozenset()  # (pod, node): bound, nominated or given up there
    unbindable: frozenset[str] = frozenset()  # pods that the API server does not let us bind
    not_before: Mapping[str, float] = {}  # pods whose last attempt had no result


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    on_their_way = assignments(snapshot).expected
    turn = _Turn(snapshot, ledger, settings, PlacementRules(snapshot, on_their_way))
    turn.unbound = {
        pod.shape: None for each in on_their_way for pod in each.planned if (pod.uid, each.node.name) not in ledger.done
    }
    for expected in on_their_way:
        if expected.is_joined:
            turn.look_at(expected)
    turn.open_nodes_without_a_record()
    turn.withdraw_stale_nominations()
    return Decision(
        _tidied(ledger, turn.last_at, snapshot), tuple(turn.actions), tuple(turn.notes), sooner(*turn.again)
    )


def _tidied(ledger: Ledger, last_at: Mapping[str, float], snapshot: Snapshot) -> Ledger:
    waiting = {pod.uid for pod in snapshot.waiting_pods}
    starting = {name for name, node in snapshot.nodes.items() if node.is_starting}
    return Ledger(
        {name: at for name, at in last_at.items() if name in starting},
        frozenset(pair for pair in ledger.done if pair[0] in waiting or pair[1] in starting),
        ledger.unbindable & waiting,
        {uid: at for uid, at in ledger.not_before.items() if uid in waiting},
    )


class _Turn:
    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings, rules: PlacementRules) -> None:
        self.snapshot, self.ledger, self.settings, self.rules = snapshot, ledger, settings, rules
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.again: list[float] = []
        self.last_at = dict(ledger.last_at)
        self.unbound: Mapping[PodShape, None] = {}  # of pods that are still to be sent to their new nodes
        self._sold = by_key(snapshot.offerings)

    def look_at(self, expected: Expected) -> None:
        request = expected.request
        node, pool = self.snapshot.nodes[request.name], self.snapshot.pools[request.spec.pool]
        if not is_registered(node):
            self.actions.append(_register(node, pool, request, self._sold))
        elif node.is_starting and is_initialised(node, request, pool):
            outstanding = [pod for pod in expected.planned if (pod.uid, node.name) not in self.ledger.done]
            beside = _counted(expected, self.snapshot)
            for pod in outstanding:
                self._realise(pod, node, pool, beside)
            if not outstanding and pool.spec.bind_planned_pods:
                self._open(node, others_first=self._has_room_for_others(expected))
            elif not outstanding:
                self._untaint(node)

    def _realise(self, pod: Pod, node: Node, pool: NodePool, beside: tuple[str, ...]) -> None:
        not_before = self.ledger.not_before.get(pod.uid, 0.0)
        if self.snapshot.now < not_before:
            self.again.append(not_before)
        elif (
            pod.uid not in self.ledger.unbindable
            and may_bind(pod, pool, self.snapshot, self.settings.scheduler)
            and self.rules.allow(pod, node.name)
        ):
            self.actions.append(BindPod(seen_pod(pod), node.name, beside))
        else:
            self.actions.append(NominatePod(seen_pod(pod), node.name))

    def _has_room_for_others(self, expected: Expected) -> bool:
        node = expected.node
        free = free_amounts(node.allocatable, expected.residents)
        return any(fits_alone(shape, node, free) for shape in self.unbound)

    def _open(self, node: Node, *, others_first: bool = False) -> None:
        """At least a moment after the last bind, so that the scheduler has seen it before it sees the room."""
        now = self.snapshot.now
        if (
            others_first
            or working_pods(self.snapshot, node.name)
            or any(name == node.name for _, name in self.ledger.done)
        ):
            self.last_at.setdefault(node.name, now)
        moment = self.settings.bind_settle_seconds + (_OTHERS_FIRST_SECONDS if others_first else 0.0)
        opens_at = self.last_at[node.name] + moment if node.name in self.last_at else now
        if now >= opens_at:
            self._untaint(node)
        else:
            self.again.append(opens_at)

    def _untaint(self, node: Node) -> None:
        self.actions.append(
            ReadyNode(seen(node), tuple(taint for taint in node.taints if taint.key != STARTUP_TAINT.key))
        )

    def open_nodes_without_a_record(self) -> None:
        """A request that was deleted by hand cannot open its node any more."""
        for name, node in sorted(self.snapshot.nodes.items()):
            if not node.is_starting or name in self.snapshot.requests or name in self.snapshot.removals:
                continue
            if is_registered(node) and node.is_ready and node.deleted_at is None and not node.malformed:
                self._open(node)

    def withdraw_stale_nominations(self) -> None:
        """Ours alone: the scheduler takes back its own."""
        for pod in self.snapshot.waiting_pods:
            name = pod.nominated_node
            is_ours = name in self.snapshot.requests or name in self.snapshot.removals or _POOL_MARK in name
            is_gone = name not in self.snapshot.nodes or name in self.snapshot.removals
            if name and is_ours and is_gone and pod.deleted_at is None and (pod.uid, "") not in self.ledger.done:
                self.actions.append(NominatePod(seen_pod(pod), ""))


def _counted(expected: Expected, snapshot: Snapshot) -> tuple[str, ...]:
    """Pods beside which each of the planned ones was found to fit."""
    return tuple(pod.uid for pod in (*snapshot.pods_by_node.get(expected.node.name, ()), *expected.planned))


def may_bind(pod: Pod, pool: NodePool, snapshot: Snapshot, scheduler: SchedulerSettings = _NO_SCHEDULER) -> bool:
    """Only where the scheduler would have had nothing else to do."""
    if pod.shape.scheduler_name == scheduler.name and scheduler.enabled:
        return not why_not_bindable(pod, snapshot)
    return (
        pool.spec.bind_planned_pods
        and pod.shape.scheduler_name == _DEFAULT_SCHEDULER
        and not why_not_bindable(pod, snapshot)
    )


def _register(node: Node, pool: NodePool, request: NodeRequest, sold: Mapping[OfferingKey, Offering]) -> RegisterNode:
    """What the node says of itself stays; only growth's own labels are written over. Taints it began with are not put
    back.
    """
    place = (request.spec.target_offering, request.spec.location)
    offering = sold.get(place) or Offering(place[0], "", place[1], 0.0)
    wanted = node_labels(pool, offering, node.name)
    labels = tuple((key, value) for key, value in wanted.items() if key in _OUR_LABELS or key not in node.labels)
    begins_with_ours = (
        node.is_starting
    )  # then the kubelet brought all of them, and start-up taints that are missing were taken off
    wanted_taints = boot_taints(pool)[: 1 + len(pool.spec.taints)] if begins_with_ours else boot_taints(pool)
    missing = tuple(
        taint
        for taint in wanted_taints
        if all((taint.key, taint.effect) != (each.key, each.effect) for each in node.taints)
    )
    annotations = {
        **pool.spec.annotations,
        **planned_annotation(request.spec.planned_pods),
        TEMPLATE: template_digest(pool.spec),
    }
    return RegisterNode(seen(node), labels, tuple(sorted(annotations.items())), node.taints + missing)


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, BindPod | NominatePod):
        return _settle_pod(action, settled, snapshot, ledger)
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    return Decision(ledger, again_at=now + seconds)


def _settle_pod(
    action: BindPod | NominatePod, settled: Settled, snapshot: Snapshot, ledger: Ledger
) -> Decision[Ledger]:
    outcome, now, uid = settled.outcome, snapshot.now, action.pod.uid
    if isinstance(outcome, Accepted):  # the moment is counted from the next look: this one was taken before the bind
        last_at = {name: at for name, at in ledger.last_at.items() if name != action.node_name}
        return Decision(replace(ledger, done=ledger.done | {(uid, action.node_name)}, last_at=last_at), again_at=now)
    if isinstance(outcome, Conflict):  # somebody else was faster: it is planned again if it still waits
        return Decision(replace(ledger, done=ledger.done | {(uid, action.node_name)}), again_at=now)
    if isinstance(outcome, Refused):
        return _refused(action, outcome.reason, snapshot, ledger)
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    return Decision(replace(ledger, not_before={**ledger.not_before, uid: now + seconds}), again_at=now + seconds)


def _refused(action: BindPod | NominatePod, reason: str, snapshot: Snapshot, ledger: Ledger) -> Decision[Ledger]:
    """What must not be bound is nominated; what must not even be nominated is left to the scheduler."""
    pod = next((pod for pod in snapshot.waiting_pods if pod.uid == action.pod.uid), None)
    notes = (
        ()
        if pod is None
        else (Note(about_pod(pod), "BindRefused", f"could not be sent to {action.node_name}: {reason}", "Warning"),)
    )
    if isinstance(action, BindPod):
        return Decision(
            replace(ledger, unbindable=ledger.unbindable | {action.pod.uid}), notes=notes, again_at=snapshot.now
        )
    return Decision(
        replace(ledger, done=ledger.done | {(action.pod.uid, action.node_name)}), notes=notes, again_at=snapshot.now
    )


class PlacementRules:
    """The world as it will be when all plans have come true."""

    def __init__(self, snapshot: Snapshot, expected: Iterable[Expected]) -> None:
        self._snapshot = snapshot
        self._expected = {each.node.name: each for each in expected}
        self._known: Neighbours | None = None
        self._someone_repels: bool | None = None

    def allow(self, pod: Pod, node_name: str) -> bool:
        if not (_looks_around(pod.shape) or self._does_someone_repel()):
            return True
        neighbours = self._neighbours()
        planned = replace(pod, node_name=node_name)
        neighbours.remove_pod(planned)
        reason = neighbours.why_not(neighbours.class_of_pod(pod), neighbours.table.index[node_name])
        neighbours.add_pod(planned)
        return reason is None

    def _does_someone_repel(self) -> bool:
        if self._someone_repels is None:
            placed = {pod.shape for pods in self._snapshot.pods_by_node.values() for pod in pods}
            planned = {pod.shape for each in self._expected.values() for pod in each.planned}
            self._someone_repels = any(shape.anti_affinity for shape in placed | planned)
        return self._someone_repels

    def _neighbours(self) -> Neighbours:
        if self._known is None:
            nodes = {**self._snapshot.nodes, **{name: each.node for name, each in self._expected.items()}}
            bound = [pod for pods in self._snapshot.pods_by_node.values() for pod in pods]
            planned = [
                replace(pod, node_name=each.node.name) for each in self._expected.values() for pod in each.planned
            ]
            self._known = Neighbours(
                nodes.values(), [*bound, *planned], self._snapshot.volumes, self._snapshot.namespaces
            )
        return self._known


def _looks_around(shape: PodShape) -> bool:
    return bool(shape.affinity or shape.anti_affinity or shape.spread or shape.host_ports or shape.volumes)
