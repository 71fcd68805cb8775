"""May these pods stand where they are planned, by every rule of scheduling? Asked by realising before growth binds past
the scheduler.

All planned pods are looked at as if the others were there already: a plan may hold only as a whole (a pod and the one
it must stand beside). The index of all nodes and pods is made only when somebody has rules that look at other pods, or
at volumes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from growth.model.pod import Pod, PodShape
from growth.model.snapshot import Snapshot
from growth.plan.world.capacity import Expected
from growth.solver.rules import Neighbours


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
