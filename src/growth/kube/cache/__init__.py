"""What does the API server hold of one kind of object, as nouns? Filled by a reflector, asked by the observer.

- `version` moves only when something growth reads has changed: a heartbeat that changes none of it wakes nobody.
- Views are immutable and made again only after a change.
- What we wrote ourselves is here at once (`learned`, `forgot`), and older events do not undo it (see below).
- An object that cannot be read is in `malformed` (pods and nodes carry it themselves); it never stops the others.

A listing is taken in as it comes, page by page; what was not in it goes at its end, so no single call is long.

Our own writes: versions are compared as numbers, which the API server allows for objects of one kind.

| for a key we wrote at version w there comes | it is |
| --- | --- |
| an event or listed object below w | older than our write: passed over |
| one at w | our own write: confirmed, what we hold stays |
| one above w | newer: confirmed, it replaces what we hold |
| a bookmark or listing at or above w, and none of these | a write the server lost: an object we made is taken out |
| a listing below the version already reached | a restored etcd: all our writes are forgotten |"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from growth.kube.api.resources import Resource
from growth.kube.codec import Decoded
from growth.kube.watch.stream import ChangeType
from growth.model.malformed import Malformed

Held = TypeVar("Held")


class Decoder(Protocol):
    """Bytes to nouns: the codec, or a part of it."""

    def decode(self, kind: str, raw: Raw | bytes) -> Decoded: ...


class Cache(Generic[Held]):
    """The objects of one kind. `clock` is monotonic seconds, for `age_seconds`."""

    def __init__(self, resource: Resource, codec: Decoder, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.resource = resource
        self.version = 0
        self.synced = False  # a whole listing has been taken in
        self.unnamed = 0  # objects so broken that not even a name could be read
        self._codec = codec
        self._clock = clock
        self._items: dict[str, Held] = {}
        self._versions: dict[str, str] = {}  # of nouns that do not carry their own
        self._malformed: dict[str, Malformed] = {}
        self._damaged: dict[str, Held] = {}  # nouns that say themselves what could not be read
        self._view: Mapping[str, Held] | None = None
        self._writes = OwnWrites()
        self._reached = 0  # the server has told everything up to this version
        self._proved_at: float | None = None
        self._seen: set[str] | None = None  # keys of the listing under way
        self._outdated: dict[str, Decoded] = {}  # listed, but older than our own writes
        self._subscribers: list[Callable[[], None]] = []

    # -------------------------------------------------------------------------------- what is asked

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> Held | None:
        """One object by name, or by namespace/name."""
        return self._items.get(key)

    def view(self) -> Mapping[str, Held]:
        """All nouns by key; the same object until one of them changes."""
        if self._view is None:
            self._view = MappingProxyType(dict(self._items))
        return self._view

    @property
    def malformed(self) -> Mapping[str, Malformed]:
        return MappingProxyType(self._malformed)

    @property
    def damaged(self) -> Mapping[str, Held]:
        """Pods and nodes of which a part could not be read."""
        return MappingProxyType(self._damaged)

    @property
    def age_seconds(self) -> float | None:
        """Since the server last proved this cache complete; None before the first listing."""
        return None if self._proved_at is None else self._clock() - self._proved_at

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Called, cheaply and often, whenever `version` has moved."""
        self._subscribers.append(callback)

    # ----------------------------------------------------------------------------------- our writes

    def learned(self, body: bytes | Raw) -> None:
        """Take the API server's answer to our create, patch or read, unless the watch already knows a newer one."""
        decoded = self._codec.decode(self.resource.kind, body)
        version, held = as_number(decoded.resource_version), self._version_of(decoded.key)
        if held is not None and version < held:
            return
        if held is None and version <= self._reached:
            return  # the watch has passed this version and does not have the object: it is gone again
        if version > self._reached:
            self._writes.put(decoded.key, version, is_new=held is None)
        before = self.version
        self._take(decoded)
        self._tell(before)

    def forgot(self, name: str, namespace: str = "") -> None:
        """An object is gone because we deleted it."""
        key = f"{namespace}/{name}" if namespace else name
        held, before = self._version_of(key), self.version
        if held is not None:
            self._writes.delete(key, held)
            self._drop(key)
        self._tell(before)

    # ------------------------------------------------------------------------- the reflector's sink

    def relisting(self) -> None:
        self._seen = set()
        self._outdated = {}

    def listed(self, objects: Sequence[Raw]) -> None:
        before = self.version
        for item in objects:
            decoded = self._codec.decode(self.resource.kind, item)
            if self._seen is not None:
                self._seen.add(decoded.key)
            if self._writes and self._writes.outdates(decoded.key, as_number(decoded.resource_version)):
                self._outdated[decoded.key] = decoded
            else:
                self._take(decoded)
        self._tell(before)

    def relisted(self, version: str) -> None:
        before, reached = self.version, as_number(version)
        if self.is_restored(version):  # what we wrote may never have been
            self._writes.clear()
            for decoded in self._outdated.values():
                self._take(decoded)
        for key in self._not_listed(reached):
            self._drop(key)
        self._seen, self._outdated, self.synced = None, {}, True
        self._reached = 0
        self._advance(reached)
        self._tell(before, always=True)

    def is_restored(self, version: str) -> bool:
        """A listing older than what was known already: etcd was restored from a snapshot."""
        return as_number(version) < self._reached

    def changed(self, change: ChangeType, item: Raw) -> None:
        decoded, before = self._codec.decode(self.resource.kind, item), self.version
        version = as_number(decoded.resource_version)
        is_old = self._writes.outdates(decoded.key, version)
        if change is ChangeType.DELETED:
            if self._seen is not None:
                self._seen.discard(decoded.key)
            if not is_old:
                self._drop(decoded.key)
        elif not is_old:
            self._take(decoded)
        if self._seen is None:
            self._advance(version)
        self._tell(before)

    def bookmarked(self, version: str) -> None:
        before = self.version
        self._advance(as_number(version))
        self._tell(before)

    # --------------------------------------------------------------------------------------- inside

    def _not_listed(self, reached: int) -> list[str]:
        seen = self._seen or set()
        gone = [key for key in self._items if key not in seen] + [key for key in self._malformed if key not in seen]
        return [key for key in gone if not self._writes.holds(key, reached)]

    def _advance(self, reached: int) -> None:
        self._reached = max(self._reached, reached)
        self._proved_at = self._clock()
        if self._writes:
            for key in self._writes.reached(self._reached):
                self._drop(key)

    def _take(self, decoded: Decoded) -> None:
        key, version, found = decoded
        if not key or key.endswith("/"):
            self.unnamed += 1
            return
        if isinstance(found, Malformed):
            self._take_malformed(key, found)
            return
        noun = cast(Held, found)
        if self._malformed and self._malformed.pop(key, None) is not None:
            self.version += 1
        held = self._items.get(key)
        if not hasattr(noun, "resource_version"):
            self._versions[key] = version
        if held is not None and held == noun:
            return
        self._items[key] = noun
        self._view = None
        if _why_damaged(noun):
            self._damaged[key] = noun
        else:
            self._damaged.pop(key, None)
        self._replaced(key, held, noun)
        if held is None or not _same_but_version(held, noun):
            self.version += 1

    def _take_malformed(self, key: str, found: Malformed) -> None:
        held = self._malformed.get(key)
        if held is None or held.why != found.why or held.uid != found.uid:
            self.version += 1
        if key in self._items:
            self._drop(key)
        self._malformed[key] = found

    def _drop(self, key: str) -> None:
        self._versions.pop(key, None)
        if self._malformed.pop(key, None) is not None:
            self.version += 1
        held = self._items.pop(key, None)
        self._damaged.pop(key, None)
        if held is not None:
            self._view = None
            self.version += 1
            self._replaced(key, held, None)

    def _replaced(self, key: str, before: Held | None, after: Held | None) -> None:
        """For caches with an index of their own."""

    def _version_of(self, key: str) -> int | None:
        """The version we hold of an object, None if we hold none."""
        held: Any = self._items.get(key)
        if held is None:
            held = self._malformed.get(key)
        if held is None:
            return None
        version = self._versions.get(key)
        return as_number(held.resource_version if version is None else version)

    def _tell(self, before: int, *, always: bool = False) -> None:
        if self.version != before or always:
            for callback in self._subscribers:
                callback()


def _same_but_version(held: Any, noun: Any) -> bool:
    """Equal in everything growth reads; the version itself is only a precondition for writes."""
    return hasattr(held, "resource_version") and replace(held, resource_version=noun.resource_version) == noun


def _why_damaged(noun: Any) -> str:
    return getattr(noun, "malformed", "") or getattr(getattr(noun, "shape", None), "malformed", "")


class OwnWrite(Struct, frozen=True, gc=False):
    version: int
    is_new: bool = False  # the key was not in the cache before
    is_gone: bool = False  # deleted by us; `version` is the last one we saw


class OwnWrites:
    """Our writes between their answer and their event: a few keys."""

    def __init__(self) -> None:
        self._writes: dict[str, OwnWrite] = {}

    def __len__(self) -> int:
        return len(self._writes)

    def put(self, key: str, version: int, *, is_new: bool) -> None:
        before = self._writes.get(key)
        self._writes[key] = OwnWrite(version, is_new or (before is not None and before.is_new))

    def delete(self, key: str, version: int) -> None:
        self._writes[key] = OwnWrite(version, is_gone=True)

    def outdates(self, key: str, version: int) -> bool:
        """Is this version not newer than our write? A version at or above our write confirms it."""
        write = self._writes.get(key)
        if write is None:
            return False
        if version >= write.version and not (write.is_gone and version == write.version):
            del self._writes[key]
        return version <= write.version

    def holds(self, key: str, version: int) -> bool:
        """Is this key our own write, newer than a listing at that version?"""
        write = self._writes.get(key)
        return write is not None and not write.is_gone and write.version > version

    def reached(self, version: int) -> list[str]:
        """The server has shown everything up to here: forget these writes; returns our objects that it never showed."""
        done = [key for key, write in self._writes.items() if write.version <= version]
        return [key for key in done if self._writes.pop(key).is_new]

    def clear(self) -> None:
        self._writes.clear()


def as_number(version: str) -> int:
    """A resourceVersion as a number; 0 if it is none: then every object counts as new."""
    return int(version) if version.isascii() and version.isdigit() else 0
