"""What objects are there, at which version, and what changed since? The etcd of the embedded cluster.

Asked by the API server's verbs and streams, by agents (scheduler, kubelets …) and by laws. Each version of an object is
encoded once; lists and watchers share those bytes, and decoded objects are not kept. The store never judges a write.

After each write the hooks are called, in the order they were added, with the `Write`. A hook may write in turn; such
writes wait until all hooks have seen the one before, so that every hook sees all writes in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec
from msgspec import Struct

from growth.sim.apiserver.kinds import Json, Kind

Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds) and name
ObjectKey = tuple[str, Key]  # kind and key
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

_FIRST_VERSION: Final = 1000
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Json).decode


class Stored(Struct, frozen=True, gc=False):
    """One version of one object."""

    namespace: str
    name: str
    version: int
    data: bytes  # begins with apiVersion and kind, so that lists of built-in kinds can leave them out

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    def decoded(self) -> Json:
        """A fresh copy, free to change."""
        return _decode(self.data)


def event_line(type_: str, data: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), data)


class Change(Struct, gc=False):
    """One step of a kind's history; for DELETED `after` is the last state, at the version of the deletion."""

    type: ChangeType
    version: int
    after: Stored
    before: Stored | None
    line: bytes = b""  # as watchers get it; made when the first one asks

    def as_line(self) -> bytes:
        if not self.line:
            self.line = event_line(self.type, self.after.data)
        return self.line


class Write(Struct, frozen=True):
    """What hooks get. `item` is for reading only: all hooks share it."""

    kind: Kind
    type: ChangeType
    item: Json
    before: Stored | None
    version: int
    actor: str

    @property
    def key(self) -> Key:
        metadata = self.item["metadata"]
        return metadata.get("namespace", ""), metadata["name"]

    def line(self) -> str:
        """What happened, for a trace: the actor, the object, and the part of it that tells most."""
        status, spec = self.item.get("status") or {}, self.item.get("spec") or {}
        parts = [self.actor, self.type.lower(), self.kind.name, "/".join(part for part in self.key if part)]
        parts += [str(status.get("phase") or ""), str(spec.get("nodeName") or "")]
        if self.kind.name == "Event":
            parts += [str(self.item.get("reason")), str(self.item.get("note"))]
        if self.kind.name == "Node":
            parts += [",".join(taint["key"].rpartition("/")[2] for taint in spec.get("taints") or [])]
        return " ".join(part for part in parts if part)


class Shelf:
    """All objects of one kind, and its latest changes."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.items: dict[Key, Stored] = {}
        self.history: deque[Change] = deque()
        self.compacted = _FIRST_VERSION  # changes up to here are forgotten
        self.listeners: dict[Callable[[], None], None] = {}
        self.prefix_length = len(_encode({"apiVersion": kind.api_version, "kind": kind.name})) - 1


class Store:
    """Objects of all kinds under one counter of versions."""

    def __init__(self, kinds: tuple[Kind, ...], history_length: int = 20_000) -> None:
        self.version = _FIRST_VERSION
        self.history_length = history_length
        self._shelves = {kind.name: Shelf(kind) for kind in kinds}
        self._hooks: list[Callable[[Write], None]] = []
        self._unheard: deque[Write] = deque()  # by the hooks
        self._is_calling_hooks = False

    def shelf(self, kind: Kind) -> Shelf:
        return self._shelves[kind.name]

    def on_write(self, hook: Callable[[Write], None]) -> None:
        self._hooks.append(hook)

    # -------------------------------------------------------------------------------------- reading

    def get(self, kind: Kind, name: str, namespace: str = "") -> Stored | None:
        return self.shelf(kind).items.get((namespace, name))

    def read(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """A decoded copy, free to change."""
        stored = self.get(kind, name, namespace)
        return None if stored is None else stored.decoded()

    def all(self, kind: Kind, namespace: str = "") -> list[Stored]:
        """In the order of their keys, as etcd lists them."""
        items = self.shelf(kind).items
        return [items[key] for key in sorted(items) if not namespace or key[0] == namespace]

    def read_all(self, kind: Kind, namespace: str = "") -> Iterator[Json]:
        return (stored.decoded() for stored in self.all(kind, namespace))

    # -------------------------------------------------------------------------------------- writing

    def put(self, kind: Kind, item: Json, actor: str) -> Stored:
        """Keep this as the object's next version. The item is handed over: its resourceVersion is set, and it must not
        change any more.
        """
        shelf, metadata = self.shelf(kind), item["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        before = shelf.items.get(key)
        stored = self._stored(kind, item, key)
        shelf.items[key] = stored
        self._record(shelf, Change("MODIFIED" if before else "ADDED", stored.version, stored, before), item, actor)
        return stored

    def remove(self, kind: Kind, key: Key, actor: str) -> Json:
        """Forget the object; its last state, as watchers get it."""
        shelf = self.shelf(kind)
        before = shelf.items.pop(key)
        item = before.decoded()
        stored = self._stored(kind, item, key)
        self._record(shelf, Change("DELETED", stored.version, stored, before), item, actor)
        return item

    def go_back(self, version: int, actor: str) -> None:
        """Let every object be what it was at this version, as after a restore from a backup; versions count on."""
        wanted: dict[tuple[str, Key], Stored | None] = {}
        for name, shelf in self._shelves.items():
            for change in reversed(shelf.history):
                if change.version <= version:
                    break
                wanted[name, change.after.key] = change.before
        for (name, key), before in wanted.items():
            shelf = self._shelves[name]
            if before is not None:
                self.put(shelf.kind, before.decoded(), actor)
            elif key in shelf.items:
                self.remove(shelf.kind, key, actor)

    def compact(self, kind: Kind, keep: int = 0) -> None:
        """Forget all but the latest changes: a watcher that resumes from before them gets 410."""
        shelf = self.shelf(kind)
        while len(shelf.history) > keep:
            shelf.compacted = shelf.history.popleft().version

    def _stored(self, kind: Kind, item: Json, key: Key) -> Stored:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        rest = {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}
        data = _encode({"apiVersion": kind.api_version, "kind": kind.name, **rest})
        return Stored(key[0], key[1], self.version, data)

    def _record(self, shelf: Shelf, change: Change, item: Json, actor: str) -> None:
        shelf.history.append(change)
        if len(shelf.history) > self.history_length:
            self.compact(shelf.kind, self.history_length)
        for wake in list(shelf.listeners):
            wake()
        self._unheard.append(Write(shelf.kind, change.type, item, change.before, change.version, actor))
        self._call_hooks()

    def _call_hooks(self) -> None:
        if self._is_calling_hooks:
            return
        self._is_calling_hooks = True
        try:
            while self._unheard:
                write = self._unheard.popleft()
                for hook in self._hooks:
                    hook(write)
        finally:
            self._is_calling_hooks = False
            self._unheard.clear()
