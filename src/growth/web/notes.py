"""What did growth say lately, and what last about each object? Heard from the journal; asked by the page.

May be heard in one thread and read in another: entries are only added, each as a whole."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from growth.kube.redaction import redact
from growth.model.decision import About, Note

ENTRIES_KEPT: Final = 300
_OBJECTS_KEPT: Final = 50_000


class Entry(Struct, frozen=True, gc=False):
    """A note, and when it was told."""

    number: int
    at: float
    note: Note


class Notes:
    """The latest entries of the journal, and the last word on each object."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._number = 0
        self._entries: deque[Entry] = deque(maxlen=ENTRIES_KEPT)
        self._last: OrderedDict[tuple[str, str, str], Note] = OrderedDict()

    @property
    def version(self) -> int:
        """Moves whenever something new was told."""
        return self._number

    def hear(self, note: Note, is_new: bool) -> None:
        key = _key(note.about)
        if is_new or self._last.get(key) != note:
            self._last.pop(key, None)
            self._last[key] = note
        if len(self._last) > _OBJECTS_KEPT:
            self._last.popitem(last=False)
        if is_new:
            self._number += 1
            self._entries.append(Entry(self._number, self._now(), note))

    def entries(self) -> tuple[Entry, ...]:
        """Oldest first."""
        return tuple(self._entries.copy())

    def last(self, about: About) -> Note | None:
        return self._last.get(_key(about))

    def about(self, kind: str, name: str) -> tuple[Entry, ...]:
        """The entries on one object, named as `namespace/name` where it has a namespace; oldest first."""
        return tuple(
            entry for entry in self.entries() if (entry.note.about.kind, name_of(entry.note.about)) == (kind, name)
        )


def name_of(about: About) -> str:
    return f"{about.namespace}/{about.name}" if about.namespace else about.name


def row_of(entry: Entry) -> dict[str, object]:
    note = entry.note
    return {
        "at": entry.at,
        "kind": note.about.kind,
        "name": name_of(note.about),
        "reason": note.reason,
        "message": redact(note.message),
        "warning": note.severity == "Warning",
    }


def _key(about: About) -> tuple[str, str, str]:
    return about.kind, about.namespace, about.name
