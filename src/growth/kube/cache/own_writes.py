"""Which of our own writes has the watch not brought back yet? Asked by the cache, so that an older event never undoes a
newer write.

Versions are compared as numbers, which the API server allows for objects of one kind.

| then comes, for a key we wrote at version w | it is |
| --- | --- |
| an event or listed object below w | older than our write: passed over |
| one at w | our own write: confirmed, what we hold stays |
| one above w | newer: confirmed, it replaces what we hold |
| a bookmark or listing at or above w, without any of these | a write the server no longer knows: an object we made is taken out |
| a listing below the version already reached | a restored etcd: all our writes are forgotten |
"""

from __future__ import annotations

from msgspec import Struct


class OwnWrite(Struct, frozen=True, gc=False):
    version: int
    is_new: bool = False  # the key was not in the cache before
    is_gone: bool = False  # deleted by us; `version` is the last one we saw


class OwnWrites:
    """A few keys, for the moments between an answer and its event."""

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
        """Is something at this version older than (or just) what we wrote? It confirms a write at its own version or
        below.
        """
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
        """The server has told everything up to here: drop the memory; returns the objects of ours that it never
        mentioned.
        """
        done = [key for key, write in self._writes.items() if write.version <= version]
        return [key for key in done if self._writes.pop(key).is_new]

    def clear(self) -> None:
        self._writes.clear()


def as_number(version: str) -> int:
    """0 for a version that is no number: then whatever comes is taken as it comes."""
    return int(version) if version.isascii() and version.isdigit() else 0
