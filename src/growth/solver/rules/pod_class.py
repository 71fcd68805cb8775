"""Which pods can no rule tell apart? They are one class, and every question is asked once for the class. Asked by all
of the solver.

Two pods are one class when all that scheduling can see is equal: their shapes, where labels count only if some selector
looks at their key, and volumes only by what they demand of a node. When a pod arrives whose selectors look at a new
key, classes that differ in it are split; a class that a caller already holds keeps the pods that are like its first.
Classes are never forgotten, so an index that lives long is made again now and then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from msgspec import Struct, structs

from growth.model.labels import Labels, Requirement
from growth.model.pod import Pod, PodShape
from growth.model.snapshot import VolumeWorld
from growth.solver.rules.claims import NO_VOLUMES, VolumeNeeds, volume_needs


class Entry(Struct, frozen=True, cache_hash=True):
    """What was handed in: one shape, leaving or not; with the pod's name where a claim is named after it."""

    shape: PodShape
    is_leaving: bool = False
    pod_name: str = ""
    pod_uid: str = ""


class PodClass:
    """Pods that no rule can tell apart. `labels` are those that some selector looks at."""

    __slots__ = ("attaches", "first", "is_leaving", "labels", "needs", "number", "shape")

    def __init__(self, number: int, first: Entry, labels: Labels, needs: VolumeNeeds) -> None:
        self.number = number
        self.first = first
        self.shape = first.shape
        self.labels = labels
        self.needs = needs
        self.attaches = bool(needs.attachments) or needs.is_uncountable  # matters to attach limits once it is on a node
        self.is_leaving = first.is_leaving  # deletion was requested: spread no longer counts such a pod

    @property
    def namespace(self) -> str:
        return self.shape.namespace

    def __repr__(self) -> str:
        return f"PodClass({self.number}, {self.shape.namespace}, {self.labels}, {self.shape.requests})"


def entry_of(pod: Pod) -> Entry:
    if any(use.is_ephemeral for use in pod.shape.volumes):
        return Entry(pod.shape, pod.deleted_at is not None, pod.name, pod.uid)
    return Entry(pod.shape, pod.deleted_at is not None)


def as_nodes_see_it(shape: PodShape) -> PodShape:
    """Without what only other pods look at."""
    return PodShape(
        namespace=shape.namespace if shape.volumes else "default",
        tolerations=shape.tolerations,
        node_selector=shape.node_selector,
        node_affinity=shape.node_affinity,
        volumes=shape.volumes,
        required_node=shape.required_node,
        malformed=shape.malformed,
    )


class PodClasses:
    """All classes seen so far."""

    def __init__(self, volumes: VolumeWorld, shapes: Iterable[PodShape] = ()) -> None:
        self.all: list[PodClass] = []
        self.splits = 0  # how often an entry has moved to another class
        self._volumes = volumes
        self._keys: frozenset[str] = frozenset().union(*(selected_keys(shape) for shape in set(shapes)))
        self.by_entry: dict[Entry, PodClass] = {}  # all that were asked about
        self._by_key: dict[tuple[PodShape, VolumeNeeds, bool], PodClass] = {}

    def of(self, entry: Entry) -> PodClass:
        """The class of this entry, new if nothing equal was seen."""
        known = self.by_entry.get(entry)
        if known is not None:
            return known
        if not selected_keys(entry.shape) <= self._keys:
            self._look_at(selected_keys(entry.shape))
        key = self._key(entry)
        found = self._by_key.get(key) or self._open(entry, key)
        self.by_entry[entry] = found
        return found

    def looks_at_no_more_than(self, classes: Iterable[PodClass]) -> bool:
        """Would these classes alone be told apart by the same labels?"""
        return self._keys == frozenset().union(*(selected_keys(one.shape) for one in classes))

    def _open(self, entry: Entry, key: tuple[PodShape, VolumeNeeds, bool]) -> PodClass:
        made = PodClass(len(self.all), entry, key[0].labels, key[1])
        self.all.append(made)
        self._by_key[key] = made
        return made

    def _key(self, entry: Entry) -> tuple[PodShape, VolumeNeeds, bool]:
        shape = entry.shape
        seen = Labels({name: value for name, value in shape.labels.items() if name in self._keys})
        needs = volume_needs(shape, self._volumes, entry.pod_name, entry.pod_uid) if shape.volumes else NO_VOLUMES
        return structs.replace(shape, labels=seen, volumes=()), needs, entry.is_leaving

    def _look_at(self, keys: frozenset[str]) -> None:
        """Selectors look at more keys from now on: split what differs in them. The first entry of a class keeps it."""
        self._keys |= keys
        self._by_key = {}
        for entry, held in self.by_entry.items():
            key = self._key(entry)
            found = self._by_key.get(key)
            if found is None and held not in self._by_key.values():
                held.labels = key[0].labels
                found = self._by_key[key] = held
            elif found is None:
                found = self._open(entry, key)
            if found is not held:
                self.by_entry[entry] = found
                self.splits += 1


Item = TypeVar("Item")


def telling(requirements: Iterable[Requirement]) -> Requirement | None:
    """One of the requirements by which those who meet it are quickly found: `app In (a, b)`."""
    return next((one for one in requirements if one.operator == "In"), None)


class Carriers:
    """Numbers of those who carry labels, found by what is asked for without looking at all of them."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[int]] = {}

    def add(self, number: int, labels: Mapping[str, str]) -> None:
        for pair in labels.items():
            self._by_label.setdefault(pair, []).append(number)

    def candidates(self, asked: Requirement | None, everybody: Sequence[int]) -> Sequence[int]:
        """All who may meet the requirement."""
        if asked is None:
            return everybody
        found = (self._by_label.get((asked.key, value), ()) for value in asked.values)
        return sorted({number for numbers in found for number in numbers})


class Askers(Generic[Item]):
    """Things that ask for labels, found by the labels that somebody carries."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str] | None, list[tuple[int, Item]]] = {}
        self._added = 0

    def add(self, item: Item, asked: Requirement | None) -> None:
        pairs = [None] if asked is None else [(asked.key, value) for value in asked.values]
        for pair in pairs:
            self._by_label.setdefault(pair, []).append((self._added, item))
        self._added += 1

    def candidates(self, labels: Mapping[str, str], since: int = 0) -> Iterator[Item]:
        """All that may ask for one of these labels, of those that came after the first so many."""
        for pair in (None, *labels.items()):
            for number, item in self._by_label.get(pair, ()):
                if number >= since:
                    yield item


@lru_cache(maxsize=16_384)
def selected_keys(shape: PodShape) -> frozenset[str]:
    """The label keys that this pod's rules look at on other pods."""
    preferred = (preferred.term for preferred in shape.preferred_affinity + shape.preferred_anti_affinity)
    selectors = [term.selector for term in (*shape.affinity, *shape.anti_affinity, *preferred)]
    selectors += [spread.selector for spread in shape.spread]
    keys = {requirement.key for selector in selectors if selector is not None for requirement in selector.requirements}
    return frozenset(keys.union(*(spread.match_label_keys for spread in shape.spread)))
