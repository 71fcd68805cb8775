"""What must a fleet be told that was told something before? A fleet lives where the work is done, in a process of its
own; who asks it keeps what it has been told (`FleetState`), and tells only what is new (`FleetChange`).

    the cluster, beside the state → the next state, and the change → in parts: no message is large → the fleet's `Told`

Each part says which revision it follows. A fleet that is of another one was begun anew, or missed something: it is
told everything from nothing. Of a pod that has changed only what others could notice is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import is_
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.flow.fleet import Fleet
from growth.solver.rules import counts, looks, parts_of_world

MOST_TOLD: Final = 2_000  # nodes and pods in one message: about 10 ms to write it
_MOST_SHAPES: Final = 20_000
_NO_WORLD: Final = VolumeWorld()
Revision: TypeAlias = tuple[int, int]  # and the part of it; 0: whole
PodsByNode: TypeAlias = Mapping[str, tuple[Pod, ...]]
Thing = TypeVar("Thing")
_NOWHERE: Final[Revision] = (0, 0)


class FleetChange(Struct, frozen=True):
    """What makes a fleet of the revision `base` one of the next."""

    base: Revision = _NOWHERE  # (0, 0): from nothing
    revision: Revision = _NOWHERE
    nodes: tuple[Node, ...] = ()  # new, or no more as they were
    gone: tuple[str, ...] = ()
    came: tuple[Pod, ...] = ()  # new on their nodes, or no more as they were
    left: tuple[tuple[str, str], ...] = ()  # node, and the pod's UID or key
    volumes: VolumeWorld | None = None  # None: as it was
    namespaces: Mapping[str, Labels] | None = None

    @property
    def is_news(self) -> bool:
        return self.base != self.revision

    def parts(self, most: int = MOST_TOLD) -> list[FleetChange]:
        """The same in messages of so many nodes and pods; the last one makes the revision whole."""
        nodes, came = list(_batches(self.nodes, most)), list(_batches(self.came, most))
        parts = [FleetChange(nodes=batch) for batch in nodes] + [FleetChange(came=batch) for batch in came]
        parts = parts or [FleetChange()]
        parts[0] = replace(
            parts[0], gone=self.gone, left=self.left, volumes=self.volumes, namespaces=self.namespaces, base=self.base
        )
        for number in range(1, len(parts)):
            between = (self.revision[0], number)
            parts[number - 1] = replace(parts[number - 1], revision=between)
            parts[number] = replace(parts[number], base=between)
        parts[-1] = replace(parts[-1], revision=self.revision)
        return parts


class FleetState(Struct, frozen=True):
    """What a fleet has been told."""

    nodes: Mapping[str, Node] = EMPTY
    pods: PodsByNode = EMPTY
    volumes: VolumeWorld = _NO_WORLD
    namespaces: Mapping[str, Labels] = EMPTY
    changes: int = 0  # moves with everything that could let a pod in, or keep it out
    revision: int = 0
    is_known: bool = False  # False: whatever the fleet was told, it is told everything now

    def follow(
        self,
        nodes: Mapping[str, Node],
        pods_by_node: PodsByNode,
        volumes: VolumeWorld = _NO_WORLD,
        namespaces: Mapping[str, Labels] = EMPTY,
    ) -> tuple[FleetState, FleetChange]:
        """The state that is as this cluster is. What is the very same as last time is not looked into."""
        known = self if self.is_known else FleetState()
        is_same_world = self.is_known and all(
            map(is_, (*parts_of_world(self.volumes), self.namespaces), (*parts_of_world(volumes), namespaces))
        )
        change = _Change(known)
        told = change.of_nodes(nodes)
        pods = change.of_pods(nodes, pods_by_node)
        changes = self.changes + change.count if self.is_known and is_same_world else self.changes + 1
        state = FleetState(told, pods, volumes, namespaces, changes, self.revision + 1, is_known=True)
        news = FleetChange(
            (known.revision, 0),
            (state.revision, 0),
            tuple(change.nodes),
            tuple(change.gone),
            tuple(change.came),
            tuple(change.left),
            None if is_same_world else VolumeWorld(*(dict(part) for part in parts_of_world(volumes))),
            None if is_same_world else dict(namespaces),
        )
        return state, news

    def forgotten(self) -> FleetState:
        """Nobody knows what the fleet has heard: it is told everything the next time."""
        return FleetState(changes=self.changes, revision=self.revision)


class _Change:
    """Collects what is new, and counts what matters to pods."""

    def __init__(self, known: FleetState) -> None:
        self._known = known
        self.nodes: list[Node] = []
        self.gone: list[str] = []
        self.came: list[Pod] = []
        self.left: list[tuple[str, str]] = []
        self.count = 0

    def of_nodes(self, nodes: Mapping[str, Node]) -> Mapping[str, Node]:
        """Those that were known stay in their order; new ones come after them."""
        known = self._known.nodes or {}
        self.gone = [name for name in known if name not in nodes]
        self.count += len(self.gone)
        told = {name: nodes[name] for name in known if name in nodes}
        for name, node in nodes.items():
            before = known.get(name)
            if before is node:
                continue
            if before is None or looks(before) != looks(node):
                self.count += 1
                self.nodes.append(node)
            told[name] = node
        return told

    def of_pods(self, nodes: Mapping[str, Node], pods_by_node: PodsByNode) -> PodsByNode:
        known, told = self._known.pods or {}, dict[str, tuple[Pod, ...]]()
        for name in nodes:
            before, after = known.get(name, ()), pods_by_node.get(name, ())
            if before is not after:
                self._compare(name, before, after)
            if after:
                told[name] = after
        return told

    def _compare(self, name: str, before: tuple[Pod, ...], after: tuple[Pod, ...]) -> None:
        old = {name_of(pod): pod for pod in before}
        for pod in after:
            known = old.pop(name_of(pod), None)
            if known is pod or (known is not None and _noticed(known) == _noticed(pod)):
                continue
            self.count += known is None or counts(known) != counts(pod)
            self.came.append(pod)
        self.count += len(old)
        self.left += [(name, each) for each in old]


def name_of(pod: Pod) -> str:
    return pod.uid or pod.key


def _noticed(pod: Pod) -> tuple[object, ...]:
    """All of a bound pod that matters to others, or to the question whether it may leave."""
    return *counts(pod), pod.annotations


def _batches(things: tuple[Thing, ...], most: int) -> Iterator[tuple[Thing, ...]]:
    rest = iter(things)
    while batch := tuple(islice(rest, most)):
        yield batch


class Told:
    """What a fleet has been told, where it lives; it changes in place."""

    _world: tuple[VolumeWorld, Mapping[str, Labels]]

    def __init__(self, state: FleetState) -> None:
        self._forget((state.revision, 0) if state.is_known else _NOWHERE)
        self.nodes.update(state.nodes)
        self.pods.update({name: pods for name, pods in state.pods.items() if name in state.nodes})
        if state.is_known:
            self._world = (state.volumes, state.namespaces)
            self.fleet.follow(self.nodes, self.pods, *self._world)

    def _forget(self, revision: Revision) -> None:
        self.revision = revision
        self.fleet = Fleet()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, ...]] = {}
        self._world = (_NO_WORLD, EMPTY)
        self._shapes: dict[PodShape, PodShape] = {}

    def hear(self, change: FleetChange, shapes: Iterable[PodShape] = ()) -> bool:
        """Was it of use? Not if something was missed. `shapes` are those that will be asked about."""
        if change.base == _NOWHERE:
            self._forget(_NOWHERE)
        if change.base != self.revision or not change.is_news:
            return change.base == self.revision
        self.revision = change.revision
        for name in change.gone:
            self.nodes.pop(name, None)
            self.pods.pop(name, None)
        self.nodes.update((node.name, node) for node in change.nodes)
        self._hear_pods(change)
        volumes, namespaces = self._world
        self._world = (
            volumes if change.volumes is None else change.volumes,
            namespaces if change.namespaces is None else change.namespaces,
        )
        if change.revision[1] == 0:
            self.fleet.follow(self.nodes, self.pods, *self._world, shapes)
        return True

    def _hear_pods(self, change: FleetChange) -> None:
        touched: dict[str, dict[str, Pod]] = {}

        def on(node: str) -> dict[str, Pod]:
            if node not in touched:
                touched[node] = {name_of(pod): pod for pod in self.pods.get(node, ())}
            return touched[node]

        for node, pod in change.left:
            on(node).pop(pod, None)
        for each in change.came:
            on(each.node_name)[name_of(each)] = self._with_known_shape(each)
        self.pods.update((node, tuple(pods.values())) for node, pods in touched.items())

    def _with_known_shape(self, pod: Pod) -> Pod:
        """Many pods have one shape; what came by message has a copy of it."""
        if len(self._shapes) > _MOST_SHAPES:
            self._shapes.clear()
        shape = self._shapes.setdefault(pod.shape, pod.shape)
        return pod if shape is pod.shape else replace(pod, shape=shape)
