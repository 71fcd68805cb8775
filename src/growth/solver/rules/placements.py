"""What is on the nodes, counted: the part of the index that changes. Asked through `Neighbours`.

Everything is kept by entry (a shape, leaving or not) on each node, and counted by class. A counter hears of what
touches it; one that is asked for the first time is filled from what is there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import VolumeWorld
from growth.solver.arrays import Amounts
from growth.solver.rules.claims import AttachmentBook
from growth.solver.rules.node_table import NodeTable
from growth.solver.rules.pod_affinity import Repeller, Term, repelling_terms
from growth.solver.rules.pod_class import Askers, Carriers, Entry, PodClass, PodClasses, entry_of, telling
from growth.solver.rules.resources import Vector
from growth.solver.rules.rule import DomainCounter
from growth.solver.rules.volumes import StaticVolumes


class Placements:
    """Nodes, and the pods on them."""

    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        volumes: VolumeWorld,
        namespaces: Mapping[str, Labels],
        shapes: Iterable[PodShape],
    ) -> None:
        bound = [pod for pod in pods if not pod.is_finished]
        self.table = NodeTable(nodes)
        self.classes = PodClasses(volumes, [*(pod.shape for pod in bound), *shapes])
        self.namespaces = namespaces
        self.book = AttachmentBook(self.table, volumes.nodes)
        self.static_volumes = StaticVolumes(self.table, volumes)
        self.repellers: list[Repeller] = []
        self.repellers_by_label = Askers[Repeller]()
        self._repeller_of: dict[Term, Repeller] = {}
        self._contents: list[dict[Entry, int]] = [{} for _ in self.table.nodes]
        self._nodes_of: list[dict[int, int]] = []  # for each class, how many on which node, also on those that are out
        self._watchers: list[list[tuple[DomainCounter, int]]] = []
        self._vectors: list[Vector] = []
        self._counters: dict[Hashable, DomainCounter] = {}
        self._counters_by_label, self._classes_by_label = Askers[DomainCounter](), Carriers()
        self._counters_of_nodes: list[DomainCounter] = []
        self._splits = 0
        self._log: list[Callable[[], None]] | None = None
        self._fill(bound)

    def _fill(self, pods: list[Pod]) -> None:
        """Many at once: count first, then subtract by class. Most pods share their shape, and so their entry."""
        index_of, plain = self.table.index, dict[PodShape, Entry]()
        for pod in pods:
            index = index_of.get(pod.node_name)
            if index is None:
                continue
            entry = plain.get(pod.shape) if pod.deleted_at is None else None
            if entry is None:
                entry = entry_of(pod)
                if not entry.is_leaving and not entry.pod_name:
                    plain[pod.shape] = entry
            contents = self._contents[index]
            contents[entry] = contents.get(entry, 0) + 1
        for index, contents in enumerate(self._contents):
            for entry, count in contents.items():
                held = self._nodes_of[self._class_of(entry).number]
                held[index] = held.get(index, 0) + count
        for pod_class, held in zip(self.classes.all, self._nodes_of, strict=True):
            self._vectors[pod_class.number].take_many(self.table, held)
            for index, count in held.items():
                self._tell(pod_class, index, count)

    # -------------------------------------------------------------------------------------- classes

    def class_of(self, shape: PodShape) -> PodClass:
        return self._class_of(Entry(shape))

    def class_of_pod(self, pod: Pod) -> PodClass:
        """As if it were not bound anywhere; a claim named after the pod is looked up."""
        entry = entry_of(pod)
        return self._class_of(Entry(entry.shape, False, entry.pod_name, entry.pod_uid))

    def _class_of(self, entry: Entry) -> PodClass:
        found = self.classes.of(entry)
        while len(self._watchers) < len(self.classes.all):
            self._open(self.classes.all[len(self._watchers)])
        if self.classes.splits != self._splits:
            self._recount()
        return found

    def _open(self, pod_class: PodClass) -> None:
        """Line a new class up with every counter there is."""
        self._nodes_of.append({})
        self._vectors.append(Vector(self.table, pod_class.shape.requests))
        self._classes_by_label.add(pod_class.number, pod_class.shape.labels)
        counters = self._counters_by_label.candidates(pod_class.shape.labels)
        watched = [(counter, weight) for counter in counters if (weight := _weight(counter, pod_class))]
        self._watchers.append(watched + [(repeller.counter, 1) for repeller in self._repellers_of(pod_class)])

    def _repellers_of(self, pod_class: PodClass) -> Iterator[Repeller]:
        for term in repelling_terms(pod_class.shape):
            known = self._repeller_of.get(term)
            if known is None:
                known = Repeller(term, DomainCounter(self.table, self.table.column(term.topology_key), lambda _: 0))
                self._repeller_of[term] = known
                self.repellers.append(known)
                self.repellers_by_label.add(known, telling(term.selector.requirements))
            known.counter.asked_by.add(pod_class)
            yield known

    def _recount(self) -> None:
        """Classes were split: count again. Rare, since selectors seldom look at keys that none has looked at before."""
        self._splits = self.classes.splits
        self.repellers.clear()
        self._repeller_of.clear()
        self._counters.clear()
        self._counters_of_nodes.clear()
        self.repellers_by_label = Askers()
        self._counters_by_label, self._classes_by_label = Askers(), Carriers()
        self.book.clear()
        self._forget_all()
        self._nodes_of, self._watchers, self._vectors = [], [], []
        for pod_class in self.classes.all:
            self._open(pod_class)
        for index, contents in enumerate(self._contents):
            for entry, count in contents.items():
                self._count(self.classes.of(entry), index, count)

    def classes_in_use(self) -> list[PodClass]:
        """Those of which there are pods."""
        return [pod_class for pod_class, held in zip(self.classes.all, self._nodes_of, strict=True) if held]

    def nodes_of(self, pod_class: PodClass) -> Iterable[int]:
        """The nodes that have pods of the class, by number."""
        return self._nodes_of[pod_class.number]

    def is_watched(self, pod_class: PodClass) -> bool:
        """Does it matter to any question asked so far where such a pod is, beyond amounts?"""
        return pod_class.attaches or bool(self._watchers[pod_class.number])

    def is_watched_by(self, pod_class: PodClass, among: Set[PodClass]) -> bool:
        """The same, to questions of these classes."""
        watchers = self._watchers[pod_class.number]
        return pod_class.attaches or any(not counter.asked_by.isdisjoint(among) for counter, _ in watchers)

    # ----------------------------------------------------------------------------------- placements

    def add(self, pod_class: PodClass, index: int, count: int = 1) -> None:
        """So many more pods of the class on the node."""
        self._place(pod_class.first, index, count)

    def remove(self, pod_class: PodClass, index: int, count: int = 1) -> None:
        self._place(pod_class.first, index, -count)

    def add_pod(self, pod: Pod, count: int = 1) -> bool:
        """A pod is bound; False if it does not count: it has finished, or its node is not here."""
        index = self.table.index.get(pod.node_name)
        if index is None or pod.is_finished:
            return False
        self._place(entry_of(pod), index, count)
        return True

    def remove_pod(self, pod: Pod) -> bool:
        return self.add_pod(pod, -1)

    def count_in(self, pod_class: PodClass, index: int, count: int) -> None:
        """For a moment, in amounts and counters only: quicker than `add`, and the caller takes it back itself before
        anything else changes.
        """
        self._vectors[pod_class.number].take(self.table, index, count)
        self._tell(pod_class, index, count)

    def count_in_many(self, pod_class: PodClass, numbers: Amounts, counts: Amounts) -> None:
        """The same on many nodes; `numbers` hold no node twice."""
        self._vectors[pod_class.number].take_each(self.table, numbers, counts)
        if self.is_watched(pod_class):
            for index, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                self._tell(pod_class, index, count)

    def counters_with(self, pod_class: PodClass) -> list[DomainCounter]:
        """Those in which a pod of the class counts."""
        return [counter for counter, _ in self._watchers[pod_class.number]]

    def _place(self, entry: Entry, index: int, count: int) -> None:
        pod_class, contents = self._class_of(entry), self._contents[index]
        total = contents.get(entry, 0) + count
        if total < 0:
            raise ValueError(f"node {self.table.nodes[index].name} does not hold that many such pods")
        contents[entry] = total
        if not total:
            del contents[entry]
        self._vectors[pod_class.number].take(self.table, index, count)
        self._count(pod_class, index, count)
        self._note(lambda: self._place(entry, index, -count))

    def _count(self, pod_class: PodClass, index: int, count: int) -> None:
        held = self._nodes_of[pod_class.number]
        total = held.get(index, 0) + count
        held[index] = total
        if not total:
            del held[index]
        if self.table.is_here[index]:
            self._tell(pod_class, index, count)

    def _tell(self, pod_class: PodClass, index: int, count: int) -> None:
        for counter, weight in self._watchers[pod_class.number]:
            counter.add(index, weight * count)
        if pod_class.attaches:
            self.book.add(index, pod_class.needs, count)

    def contents(self, index: int) -> list[tuple[PodClass, int]]:
        """What is on a node, by class."""
        return [(self.classes.of(entry), count) for entry, count in self._contents[index].items()]

    # ---------------------------------------------------------------------------------------- nodes

    def add_nodes(self, nodes: Iterable[Node]) -> range:
        """More nodes, with nothing on them; returns their numbers."""
        numbers = self.table.add_all(list(nodes))
        self._contents.extend({} for _ in numbers)
        for _ in numbers:
            self._note(self._pop_node)
        return numbers

    def _pop_node(self) -> None:
        index = len(self.table) - 1
        for counter in self._all_counters():
            counter.add_node(index, -1)
            counter.forget_node(index)
        self.book.forget_node(index)
        self._forget_nodes(index)
        self._contents.pop()
        self.table.pop()

    def take_out(self, index: int) -> None:
        """As if the node and all on it did not exist."""
        self._move_node(index, -1)
        self._note(lambda: self._move_node(index, 1))

    def _move_node(self, index: int, sign: int) -> None:
        if bool(self.table.is_here[index]) is (sign > 0):
            raise ValueError(f"node {self.table.nodes[index].name} is {'here' if sign > 0 else 'out'} already")
        self.table.is_here[index] = sign > 0
        for counter in self._counters_of_nodes:
            counter.add_node(index, sign)
        class_of, watchers = self.classes.by_entry, self._watchers
        for entry, count in self._contents[index].items():
            pod_class = class_of[entry]
            for counter, weight in watchers[pod_class.number]:
                counter.add(index, weight * sign * count)
            if pod_class.attaches:
                self.book.add(index, pod_class.needs, sign * count)

    def change_node(self, node: Node) -> None:
        """The node of that name has changed; its pods stay. Counters are told only if they could see it."""
        index = self.table.index[node.name]
        before, was_here = self.table.nodes[index], bool(self.table.is_here[index])
        is_seen = before.labels != node.labels or (
            before.taints != node.taints and any(counter.heeds_taints for counter in self._all_counters())
        )
        if was_here and is_seen:
            self._move_node(index, -1)
        self.table.change(index, node)
        if is_seen:
            for counter in self._all_counters():
                counter.reconsider_node(index)
        self.book.forget_node(index)
        self._forget_nodes(index)
        if was_here and is_seen:
            self._move_node(index, 1)
        self._note(lambda: self.change_node(before))

    def _all_counters(self) -> Iterator[DomainCounter]:
        yield from self._counters.values()
        for repeller in self.repellers:
            yield repeller.counter

    def _forget_nodes(self, first: int) -> None:
        """Nodes from this number on are gone or have changed: what is remembered of them is forgotten."""

    def _forget_all(self) -> None:
        """Classes and counters are new: what is remembered of the old ones is forgotten."""

    def counter(self, key: Hashable, make: Callable[[], DomainCounter]) -> DomainCounter:
        """The counter of that key; a new one is filled from what is on the nodes."""
        known = self._counters.get(key)
        if known is not None:
            return known
        made = self._counters[key] = make()
        if made.knows_nodes:
            self._counters_of_nodes.append(made)
        self._counters_by_label.add(made, made.asked)
        for number in self._classes_by_label.candidates(made.asked, range(len(self._watchers))):
            pod_class = self.classes.all[number]
            weight = _weight(made, pod_class)
            if weight:
                self._watchers[pod_class.number].append((made, weight))
                for index, count in self._nodes_of[pod_class.number].items():
                    if self.table.is_here[index]:
                        made.add(index, weight * count)
        return made

    # --------------------------------------------------------------------------------------- trials

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What happens inside is undone at the end; a trial may contain others."""
        outer, log = self._log, list[Callable[[], None]]()
        self._log = log
        try:
            yield
        finally:
            self._log = None
            for undo in reversed(log):
                undo()
            self._log = outer

    def _note(self, undo: Callable[[], None]) -> None:
        if self._log is not None:
            self._log.append(undo)


def _weight(counter: DomainCounter, pod_class: PodClass) -> int:
    if counter.namespaces is not None and pod_class.namespace not in counter.namespaces:
        return 0
    return counter.weight(pod_class)
