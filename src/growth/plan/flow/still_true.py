"""What is still true of a round's answer? Asked by `plan/flow/scheduling`: the cluster went on while the keeper worked.

| since the question | a pod that was sent there |
| --- | --- |
| it is gone, bound or being deleted | is not bound |
| its node is gone, or in removal; has just been cordoned | is placed again |
| its node, or what is on it, has changed | is bound if it still fits (`solver/rules/fit`), else placed again |
| – and it wants a host port or a volume there | is placed again |
| what its volumes ask of a node has changed | is placed again |
| a pod came or went anywhere that its rules between pods look at, or that must not be beside it | is placed again |
| another one of its gang is placed again | is placed again: a gang goes whole or not at all |
| none of these | is bound |

Who is placed again has the next round, which begins at once. Also which pods of others hold room on a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from growth.model.action import Assignment
from growth.model.labels import LabelSelector
from growth.model.pod import Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow.queue import Queue, is_ours
from growth.plan.flow.volumes import volume_waits
from growth.plan.world.capacity import Assignments, assignments
from growth.plan.world.nodes import state_of
from growth.plan.world.turn import seen
from growth.solver.flow.changes import FleetState, name_of
from growth.solver.rules.claims import volume_needs
from growth.solver.rules.fit import fits_alone, free_after, free_amounts
from growth.solver.rules.selectors import read_selector


def still_true(
    chosen: Iterable[tuple[Pod, str]], queue: Queue, asked: FleetState, snapshot: Snapshot, settings: Settings
) -> tuple[Assignment, ...]:
    """Of what was chosen for the fleet as it was asked, what the shared rules allow now. A gang goes whole or not at
    all.
    """
    waiting = {pod.uid: pod for pod in snapshot.waiting_pods if is_ours(pod, settings.scheduler)}
    now = Since(asked, snapshot, settings)
    going, torn = list[tuple[Pod, str]](), set[str]()
    for pod, name in chosen:
        if pod.uid in waiting and now.takes(pod, name):
            going.append((waiting[pod.uid], name))
        elif pod.uid in queue.gang_of:
            torn.add(queue.gang_of[pod.uid].name)
    return tuple(
        Assignment(seen(pod), name)
        for pod, name in going
        if pod.uid not in queue.gang_of or queue.gang_of[pod.uid].name not in torn
    )


def counted_beside(placed: Iterable[Assignment], snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """By node: pods beside which those that are bound there were found to fit."""
    names, counted = {each.node_name for each in placed}, dict[str, tuple[str, ...]]()
    assigned = assignments(snapshot)
    planned = {each.node.name: each.planned for each in assigned.expected if each.node.name in names}
    for name in names:
        here = (snapshot.pods_by_node.get(name, ()), assigned.holders.get(name, ()), planned.get(name, ()))
        counted[name] = tuple(pod.uid for pods in here for pod in pods)
    return counted


class Since:
    """What has changed since a question was asked."""

    def __init__(self, asked: FleetState, snapshot: Snapshot, settings: Settings) -> None:
        held = held_room(snapshot, settings, assignments(snapshot))
        self._asked, self._snapshot, self._here = asked, snapshot, with_held_room(snapshot, held)
        _, since = asked.follow(snapshot.nodes, self._here, snapshot.volumes, snapshot.namespaces)
        left = {name for _, name in since.left}
        away = [pod for node, _ in since.left for pod in asked.pods.get(node, ()) if name_of(pod) in left]
        self._news = _News([*since.came, *away])
        self._touched = {node.name for node in since.nodes} | {pod.node_name for pod in since.came}
        self._free: dict[str, Resources] = {}

    def takes(self, pod: Pod, name: str) -> bool:
        """Does this node take the pod, beside those that were asked about before it?"""
        if not is_open(name, self._snapshot) or self._news.concern(pod.shape) or self._has_other_volumes(pod):
            return False
        if name not in self._touched:
            return True
        node, shape = self._snapshot.nodes[name], pod.shape
        is_closed = node.malformed or (node.is_unschedulable and not self._asked.nodes[name].is_unschedulable)
        if is_closed or shape.host_ports or shape.volumes:  # not a question of the two alone: placed again
            return False
        if name not in self._free:
            here = (each.shape for each in self._here.get(name, ()) if not each.is_finished)
            self._free[name] = free_amounts(node.allocatable, here)
        if not fits_alone(shape, node, self._free[name]):
            return False
        self._free[name] = free_after(self._free[name], shape)
        return True

    def _has_other_volumes(self, pod: Pod) -> bool:
        before, after = self._asked.volumes, self._snapshot.volumes
        if not pod.shape.volumes or before is after:
            return False
        asked, wanted = (volume_needs(pod.shape, world, pod.name, pod.uid) for world in (before, after))
        return asked != wanted


class _News:
    """Pods that came, changed or went. Namespaces are not looked at: a pod that is placed again for nothing is placed
    again a moment later.
    """

    def __init__(self, pods: Iterable[Pod]) -> None:
        shapes = {pod.shape for pod in pods}
        self._labels = {shape.labels for shape in shapes}
        self._pairs = {pair for labels in self._labels for pair in labels.items()}
        self._avoid = {term.selector for shape in shapes for term in shape.anti_affinity}

    def concern(self, shape: PodShape) -> bool:
        """Do the rules between pods look at one of them, or do its own at such a pod?"""
        if not self._labels:
            return False
        near = [term.selector for term in (*shape.affinity, *shape.anti_affinity)]
        if any(self._is_matched(selector) for selector in (*near, *(spread.selector for spread in shape.spread))):
            return True
        return any(read_selector(selector).matches(shape.labels) for selector in self._avoid)

    def _is_matched(self, selector: LabelSelector | None) -> bool:
        read = read_selector(selector)
        for each in read.requirements:  # quick: mostly nobody has such a label at all
            if each.operator == "In" and not any((each.key, value) in self._pairs for value in each.values):
                return False
        return any(read.matches(labels) for labels in self._labels)


# ----------------------------------------------------------------------------------------- held room


def held_room(snapshot: Snapshot, settings: Settings, assigned: Assignments) -> dict[str, tuple[Pod, ...]]:
    """By node, the pods of others that are planned onto it or nominated to it, and ours that wait there for volumes."""
    held: dict[str, list[Pod]] = {
        name: [pod for pod in pods if not is_ours(pod, settings.scheduler)] for name, pods in assigned.holders.items()
    }
    for each in assigned.expected:
        held.setdefault(each.node.name, []).extend(each.planned)
    for name, pods in volume_waits(snapshot, settings.scheduler).held.items():
        held.setdefault(name, []).extend(pods)
    return {
        name: tuple(replace(pod, node_name=name) for pod in pods)
        for name, pods in held.items()
        if pods and name in snapshot.nodes
    }


def with_held_room(snapshot: Snapshot, held: Mapping[str, tuple[Pod, ...]]) -> Mapping[str, tuple[Pod, ...]]:
    """The pods of each node, and with them those that hold room."""
    here = snapshot.pods_by_node
    return {**here, **{name: (*here.get(name, ()), *pods) for name, pods in held.items()}} if held else here


def is_open(name: str, snapshot: Snapshot) -> bool:
    """Asked of the snapshot: the fleet does not follow what no rule of scheduling looks at."""
    state = state_of(name, snapshot)
    return state.node is not None and not state.is_ending


def closed_nodes(snapshot: Snapshot) -> frozenset[str]:
    """All that are not open; of thousands of nodes, quickly."""
    ending = {*snapshot.removals, *(name for name, node in snapshot.nodes.items() if node.deleted_at is not None)}
    return frozenset(name for name in ending if not is_open(name, snapshot))
