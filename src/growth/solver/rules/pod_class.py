"""Which pods can no rule tell apart? They are one class, and every question is asked once for the class. Asked by all
of the solver.

Two pods are one class when all that scheduling can see is equal: their shapes, where labels count only if some selector
looks at their key, and volumes only by what they demand of a node. When a pod arrives whose selectors look at a new
key, classes that differ in it are split; a class that a caller already holds keeps the pods that are like its first.
Classes are never forgotten, so an index that lives long is made again now and then."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct, structs

from growth.model.labels import Labels
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


class PodClasses:
    """All classes seen so far."""

    def __init__(self, volumes: VolumeWorld, shapes: Iterable[PodShape] = ()) -> None:
        self.all: list[PodClass] = []
        self.splits = 0  # how often an entry has moved to another class
        self._volumes = volumes
        self._keys: frozenset[str] = frozenset().union(*(selected_keys(shape) for shape in set(shapes)))
        self._by_entry: dict[Entry, PodClass] = {}
        self._by_key: dict[tuple[PodShape, VolumeNeeds, bool], PodClass] = {}

    def of(self, entry: Entry) -> PodClass:
        """The class of this entry, new if nothing equal was seen."""
        known = self._by_entry.get(entry)
        if known is not None:
            return known
        if not selected_keys(entry.shape) <= self._keys:
            self._look_at(selected_keys(entry.shape))
        key = self._key(entry)
        found = self._by_key.get(key) or self._open(entry, key)
        self._by_entry[entry] = found
        return found

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
        for entry, held in self._by_entry.items():
            key = self._key(entry)
            found = self._by_key.get(key)
            if found is None and held not in self._by_key.values():
                held.labels = key[0].labels
                found = self._by_key[key] = held
            elif found is None:
                found = self._open(entry, key)
            if found is not held:
                self._by_entry[entry] = found
                self.splits += 1


@lru_cache(maxsize=16_384)
def selected_keys(shape: PodShape) -> frozenset[str]:
    """The label keys that this pod's rules look at on other pods."""
    preferred = (preferred.term for preferred in shape.preferred_affinity + shape.preferred_anti_affinity)
    selectors = [term.selector for term in (*shape.affinity, *shape.anti_affinity, *preferred)]
    selectors += [spread.selector for spread in shape.spread]
    keys = {requirement.key for selector in selectors if selector is not None for requirement in selector.requirements}
    return frozenset(keys.union(*(spread.match_label_keys for spread in shape.spread)))
