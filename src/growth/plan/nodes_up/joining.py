"""How does a plan become true on a node that has joined? Asked for every NodeRequest whose node exists and still
carries our start-up taint.

A tight packing rarely survives a scheduler that spreads. While our taint keeps the scheduler off, growth puts the
planned pods there itself.

| the node | then |
| --- | --- |
| joined, not registered | RegisterNode: the pool's labels, annotations and taints, our start-up taint; others' stay |
| registered, not initialised | wait |
| initialised, planned pods wait | FillNode with those growth may bind, NominatePod for the others, each once |
| being filled | wait: the outcome tells what became of each pod |
| they are of a gang that is not whole yet | it waits for the others, for a while (`plan/nodes_up/demand`) |
| of a gang of growth's scheduler that needs volumes | all are nominated: the scheduler binds it whole |
| all of them bound or nominated | after a moment ReadyNode: the start-up taint goes, the others stay |
| all of them nominated, in a pool that does not let growth bind | ReadyNode at once (1) |
| the same, with room for pods that are planned onto other new nodes | after those pods, a few seconds at most (2) |
| registered and Ready, but its request was deleted | ReadyNode |
| deleted while it served, and joined again | RegisterNode, by its machine, then ReadyNode |

(1) The scheduler forgets a nomination when it next fails to place the pod. (2) Else the scheduler puts them here.

Growth may bind a pod of the default scheduler, or of its own if that is on, without gates, resource claims and unbound
volumes, in a pool that lets it, where every rule of scheduling still allows it. Each bind names the pods that were
counted on the node: the gate lets it through only while no others are there. A pod that is gone, bound elsewhere or no
longer fits is dropped here and is demand again there. A nomination to a node that is gone is taken back.

Whether every rule of scheduling allows a bind is asked as if all planned pods were there already: a plan may hold only
as a whole (a pod and the one it must be beside). The index of all nodes and pods is made only when a pod has rules that
look at other pods, or at volumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import FillNode, NominatePod, ReadyNode, RegisterNode, Seen
from growth.model.decision import Decision, Note, Settled
from growth.model.gang import name_of_gang, waiting_gangs
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, TEMPLATE, Node
from growth.model.nodepool import NodePool
from growth.model.offering import Offering
from growth.model.outcome import Accepted, Conflict, Outcome, Refused
from growth.model.pod import Pod, PodShape
from growth.model.scheduler import DEFAULT_SCHEDULER, SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.virtual_pods import planned_annotation
from growth.plan.nodes_up.demand import held_gangs
from growth.plan.world.capacity import Assignments, Expected, assignments, in_force, why_not_bindable
from growth.plan.world.machines import is_registered, pool_in_name
from growth.plan.world.nodes import is_initialised, working_pods
from growth.plan.world.pools import OfferingKey, boot_taints, by_key, node_labels
from growth.plan.world.swaps import template_digest
from growth.plan.world.turn import Turn, about, retry_at, seen, seen_in_any_version
from growth.solver.flow.fleet import Fleet
from growth.solver.rules import Neighbours
from growth.solver.rules.fit import fits_alone, free_amounts

_RETRY_SECONDS: Final = 2.0
_OTHERS_FIRST_SECONDS: Final = 10.0  # growth itself still puts pods into the room that is left; the scheduler waits
_FILLED_AT_ONCE: Final = 64  # nodes: what was looked at before a bind shall not be old when its turn comes
_OUR_LABELS: Final = (POOL_LABEL, OFFERING_LABEL, REQUEST_LABEL)
_NO_SCHEDULER: Final = SchedulerSettings()


class Ledger(Struct, frozen=True):
    """Lost at a restart: then the moment before the taint goes is waited for once more."""

    last_at: Mapping[str, float] = {}  # by node: since when all its pods are seen there
    done: frozenset[tuple[str, str]] = frozenset()  # (pod, node): bound, nominated or given up there
    unbindable: frozenset[str] = frozenset()  # pods that the API server does not let us bind
    not_before: Mapping[str, float] = {}  # pods whose last attempt had no result
    held_since: Mapping[str, float] = {}  # by node: since when it waits for the others of a gang
    filling: frozenset[str] = frozenset()  # nodes to which pods are being bound


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    assigned = assignments(snapshot)
    look = _Look(snapshot, ledger, in_force(settings, snapshot), assigned)
    for expected in assigned.expected:
        if expected.is_joined:
            look.take(expected)
    look.open_nodes_without_a_record()
    look.withdraw_stale_nominations()
    waiting = {pod.uid for pod in snapshot.waiting_pods}
    starting = frozenset(_starting(snapshot))
    after = Ledger(
        {name: at for name, at in look.last_at.items() if name in starting},
        frozenset(pair for pair in ledger.done | look.given_up if pair[0] in waiting or pair[1] in starting),
        ledger.unbindable & waiting,
        {uid: at for uid, at in ledger.not_before.items() if uid in waiting},
        look.held_since,
        frozenset(look.filling),
    )
    return look.turn.decision(after)


def _starting(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of nodes that start, in order."""

    def look() -> tuple[str, ...]:
        return tuple(sorted(name for name, node in snapshot.nodes.items() if node.is_starting))

    return snapshot.memo.recall("starting nodes", (snapshot.nodes,), look)


class _Look:
    """One look at all nodes that start."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings, assigned: Assignments) -> None:
        on_their_way = assigned.expected
        self.turn = Turn()
        self.last_at = dict(ledger.last_at)
        self.held_since: dict[str, float] = {}
        self.given_up: set[tuple[str, str]] = set()
        self.filling = set(ledger.filling)
        self._held = held_gangs(assigned, snapshot, settings.scheduler)
        self._with_volumes = _gangs_with_volumes(snapshot, settings.scheduler)
        self._snapshot, self._ledger, self._settings = snapshot, ledger, settings
        self._rules = PlacementRules(snapshot, on_their_way)
        sent = ledger.done
        planned = ((pod, each.node.name) for each in on_their_way for pod in each.planned)
        self._unsent = {pod.shape for pod, name in planned if (pod.uid, name) not in sent}
        self._sold = by_key(snapshot.offerings)

    def take(self, expected: Expected) -> None:
        request = expected.request
        node, pool = self._snapshot.nodes[request.name], self._snapshot.pools[request.spec.pool]
        if not is_registered(node):
            place = (request.spec.target_offering, request.spec.location)
            self.turn.do(_register(node, pool, place, request.spec.planned_pods, self._sold))
        elif node.name in self.filling:
            self.held_since |= {name: at for name, at in self._ledger.held_since.items() if name == node.name}
        elif node.is_starting and is_initialised(node, request, pool):
            outstanding = [pod for pod in expected.planned if (pod.uid, node.name) not in self._ledger.done]
            held = self._held_for_gangs(outstanding, node)
            self._send([pod for pod in outstanding if pod.uid not in held], expected, node, pool)
            if not outstanding and pool.spec.bind_planned_pods:
                self._open(node, others_first=self._has_room_for_others(expected))
            elif not outstanding:
                self._untaint(node)

    def _held_for_gangs(self, outstanding: list[Pod], node: Node) -> frozenset[str]:
        """Pods that wait here for others of their gang; when that has lasted too long, they are given up here."""
        named = [(pod, name_of_gang(pod, self._snapshot.pod_groups)) for pod in outstanding]
        held = {pod.uid: (pod, gang) for pod, gang in named if gang in self._held}
        if not held:
            return frozenset()
        now, seconds = self._snapshot.now, self._settings.gang_seconds
        since = self._ledger.held_since.get(node.name, now)
        if now < since + seconds:
            self.held_since[node.name] = since
            self.turn.wake(since + seconds)
        else:
            self.given_up |= {(uid, node.name) for uid in held}
            self.turn.wake(now)
            for pod, gang in held.values():
                text = f"node {node.name} has waited {seconds:.0f} s for others of gang {gang}, and opens"
                self.turn.tell(Note(about(pod), "GangIncomplete", text, "Warning"))
        return frozenset(held)

    def _send(self, pods: list[Pod], expected: Expected, node: Node, pool: NodePool) -> None:
        if not pods or len(self.filling) >= _FILLED_AT_ONCE:
            return  # an outcome that comes back is a reason to look again
        bindable = list[Seen]()
        for pod in pods:
            not_before = self._ledger.not_before.get(pod.uid, 0.0)
            may = may_bind(pod, pool, self._snapshot, self._settings.scheduler)
            may &= name_of_gang(pod, self._snapshot.pod_groups) not in self._with_volumes
            if self._snapshot.now < not_before:
                self.turn.wake(not_before)
            elif pod.uid not in self._ledger.unbindable and may and self._rules.allow(pod, node.name):
                bindable.append(seen(pod))
            else:
                self.turn.do(NominatePod(seen(pod), node.name))
        if bindable:
            self.filling.add(node.name)
            self.turn.do(FillNode(seen(node), tuple(bindable), _counted(expected, self._snapshot)))

    def _has_room_for_others(self, expected: Expected) -> bool:
        free = free_amounts(expected.node.allocatable, expected.residents)
        return any(fits_alone(shape, expected.node, free) for shape in self._unsent)

    def _open(self, node: Node, *, others_first: bool = False) -> None:
        """At least a moment after the last bind, so that the scheduler has seen it before it sees the room."""
        now, name = self._snapshot.now, node.name
        was_sent_here = any(sent_to == name for _, sent_to in self._ledger.done)
        if others_first or working_pods(self._snapshot, name) or was_sent_here:
            self.last_at.setdefault(name, now)
        moment = self._settings.bind_settle_seconds + (_OTHERS_FIRST_SECONDS if others_first else 0.0)
        opens_at = self.last_at[name] + moment if name in self.last_at else now
        if now >= opens_at:
            self._untaint(node)
        else:
            self.turn.wake(opens_at)

    def _untaint(self, node: Node) -> None:
        self.turn.do(ReadyNode(seen(node), tuple(taint for taint in node.taints if taint.key != STARTUP_TAINT.key)))

    def open_nodes_without_a_record(self) -> None:
        """A request that was deleted by hand, or has done its work, cannot open its node any more. One that was deleted
        and registered again by its kubelet begins anew: it is of growth by its machine.
        """
        snapshot = self._snapshot
        for name in _starting(snapshot):
            node, has_record = snapshot.nodes[name], name in snapshot.requests or name in snapshot.removals
            if has_record or node.deleted_at is not None or node.malformed:
                continue
            machine = snapshot.machines.get(name)
            if is_registered(node) and node.is_ready:
                self._open(node)
            elif machine is not None and not is_registered(node) and node.pool in snapshot.pools:
                place = (machine.offering, machine.location)
                self.turn.do(_register(node, snapshot.pools[node.pool], place, (), self._sold))

    def withdraw_stale_nominations(self) -> None:
        """Ours alone: the scheduler takes back its own."""
        snapshot = self._snapshot
        for pod in snapshot.waiting_pods:
            name = pod.nominated_node
            is_ours = name in snapshot.requests or name in snapshot.removals or bool(pool_in_name(name))
            is_gone = name not in snapshot.nodes or name in snapshot.removals
            if name and is_ours and is_gone and pod.deleted_at is None and (pod.uid, "") not in self._ledger.done:
                self.turn.do(NominatePod(seen(pod), ""))


def _counted(expected: Expected, snapshot: Snapshot) -> tuple[str, ...]:
    """Pods beside which each of the planned ones was found to fit."""
    return tuple(pod.uid for pod in (*snapshot.pods_by_node.get(expected.node.name, ()), *expected.planned))


def may_bind(pod: Pod, pool: NodePool, snapshot: Snapshot, scheduler: SchedulerSettings = _NO_SCHEDULER) -> bool:
    """Only where the scheduler would have had nothing else to do."""
    is_ours = scheduler.enabled and scheduler.serves(pod.shape.scheduler_name)
    is_default = pool.spec.bind_planned_pods and pod.shape.scheduler_name == DEFAULT_SCHEDULER
    return (is_ours or is_default) and not why_not_bindable(pod, snapshot)


def _gangs_with_volumes(snapshot: Snapshot, scheduler: SchedulerSettings) -> frozenset[str]:
    """Gangs of growth's own scheduler of which somebody has a claim that waits for a first consumer."""
    waiting = waiting_gangs(snapshot).items() if scheduler.enabled else ()
    ours = ((name, gang.waiting) for name, gang in waiting if scheduler.serves(gang.waiting[0].shape.scheduler_name))
    return frozenset(name for name, pods in ours if any(why_not_bindable(pod, snapshot) for pod in pods))


def _register(
    node: Node, pool: NodePool, place: OfferingKey, planned_pods: tuple[str, ...], sold: Mapping[OfferingKey, Offering]
) -> RegisterNode:
    """What the node says of itself stays; only growth's own labels are written over. Taints it began with are not put
    back. What is growth's alone is right in any version of the node: in its first seconds others write it again and
    again, and hundreds of nodes that join at once were registered a turn of the loop later for each conflict.
    """
    offering = sold.get(place) or Offering(place[0], "", place[1], 0.0)
    wanted = node_labels(pool, offering, node.name)
    labels = tuple((key, value) for key, value in wanted.items() if key in _OUR_LABELS or key not in node.labels)
    # A node that begins with our taint has them from its kubelet: start-up taints that are missing were taken off.
    wanted_taints = boot_taints(pool)[: 1 + len(pool.spec.taints)] if node.is_starting else boot_taints(pool)
    here = {(taint.key, taint.effect) for taint in node.taints}
    missing = tuple(taint for taint in wanted_taints if (taint.key, taint.effect) not in here)
    planned, digest = planned_annotation(planned_pods), template_digest(pool.spec)
    annotations = {**pool.spec.annotations, **planned, TEMPLATE: digest}
    is_ours_alone = not missing and all(key in _OUR_LABELS for key, _ in labels)
    what = seen_in_any_version(node) if is_ours_alone else seen(node)
    return RegisterNode(what, labels, tuple(sorted(annotations.items())), node.taints + missing if missing else None)


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, FillNode):
        freed = replace(ledger, filling=ledger.filling - {action.node.name})
        failed = dict(outcome.failed) if isinstance(outcome, Accepted) else {}
        outcomes = {pod.uid: failed.get(pod.uid, outcome) for pod in action.pods}
        return _settle_pods(action.node.name, outcomes, snapshot, freed, is_bind=True)
    if isinstance(action, NominatePod):
        return _settle_pods(action.node_name, {action.pod.uid: outcome}, snapshot, ledger, is_bind=False)
    return Decision(ledger, again_at=None if isinstance(outcome, Accepted) else retry_at(outcome, now, _RETRY_SECONDS))


def _settle_pods(
    node: str, outcomes: Mapping[str, Outcome], snapshot: Snapshot, ledger: Ledger, *, is_bind: bool
) -> Decision[Ledger]:
    """What came of each pod that was sent to a node. What must not be bound is nominated; what must not even be
    nominated is left to the scheduler; where somebody else was faster, the pod is planned again if it still waits.
    """
    now, last_at = snapshot.now, ledger.last_at
    refused = {uid: outcome.reason for uid, outcome in outcomes.items() if isinstance(outcome, Refused)}
    sent = {uid for uid, outcome in outcomes.items() if isinstance(outcome, Accepted | Conflict)}
    later = {
        uid: retry_at(each, now, _RETRY_SECONDS)
        for uid, each in outcomes.items()
        if not (uid in refused or uid in sent)
    }
    if any(isinstance(outcome, Accepted) for outcome in outcomes.values()):
        # the moment is counted from the next look: this one was taken before the bind
        last_at = {name: at for name, at in last_at.items() if name != node}
    after = replace(
        ledger,
        last_at=last_at,
        done=ledger.done | {(uid, node) for uid in (sent if is_bind else {*sent, *refused})},
        unbindable=ledger.unbindable | {*refused} if is_bind else ledger.unbindable,
        not_before={**ledger.not_before, **later},
    )
    told = [pod for pod in snapshot.waiting_pods if pod.uid in refused] if refused else []
    notes = tuple(
        Note(about(pod), "BindRefused", f"could not be sent to {node}: {refused[pod.uid]}", "Warning") for pod in told
    )
    return Decision(after, notes=notes, again_at=now if sent or refused else min(later.values(), default=now))


# ------------------------------------------------------------------------------ rules of scheduling


class PlacementRules:
    """The world as it will be when all plans have come true. Its index is kept from look to look and told what is new:
    that a planned pod is bound changes nothing of it, and to make it anew for each of many looks cost more than the
    rest of them.
    """

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
        with neighbours.trial():
            neighbours.remove_pod(planned)
            return neighbours.why_not(neighbours.class_of_pod(pod), neighbours.table.index[node_name]) is None

    def _does_someone_repel(self) -> bool:
        if self._someone_repels is None:
            placed = {pod.shape for pods in self._snapshot.pods_by_node.values() for pod in pods}
            planned = {pod.shape for each in self._expected.values() for pod in each.planned}
            self._someone_repels = any(shape.anti_affinity for shape in placed | planned)
        return self._someone_repels

    def _neighbours(self) -> Neighbours:
        if self._known is None:
            snapshot, pods = self._snapshot, dict(self._snapshot.pods_by_node)
            for name, each in self._expected.items():
                pods[name] = (*pods.get(name, ()), *(replace(pod, node_name=name) for pod in each.planned))
            nodes = {**snapshot.nodes, **{name: each.node for name, each in self._expected.items()}}
            fleet = snapshot.memo.recall("the world when all plans have come true", (), Fleet)
            fleet.follow(nodes, pods, snapshot.volumes, snapshot.namespaces)
            self._known = fleet.index
        return self._known


def _looks_around(shape: PodShape) -> bool:
    return bool(shape.affinity or shape.anti_affinity or shape.spread or shape.host_ports or shape.volumes)
