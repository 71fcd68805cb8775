"""How are many objects sent: in pages, and as a stream of changes? Asked by the server for lists and watches.

A paged list is one moment: its continue token names the remaining objects of that moment until it is forgotten (410).
A watch sends every change after a version, or first all objects and an initial-events-end bookmark; bookmarks come once
a minute where the client asked for them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from growth.kube.api.transport import TransportError
from growth.runtime import Runtime
from growth.sim.apiserver.kinds import Json, Kind
from growth.sim.apiserver.refusal import Refusal, bad_request, expired
from growth.sim.apiserver.selectors import ObjectTest, object_test
from growth.sim.apiserver.store import Change, Shelf, Store, Stored, event_line

BOOKMARK_SECONDS: Final = 60.0
_LONGEST_WATCH_SECONDS: Final = 3600.0
_TOKENS_KEPT: Final = 200
_PIECE: Final = 1 << 20
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}


class Answer:
    """A whole answer: status, headers and body."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json", **(headers or {})}
        self.body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.body), _PIECE):
            yield self.body[start : start + _PIECE]

    async def close(self) -> None:
        return None


def refuse(refusal: Refusal) -> Answer:
    return Answer(refusal.code, refusal.body(), refusal.headers())


class Selection(Struct, frozen=True):
    """The part of a query that chooses objects."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def test(self) -> ObjectTest | None:
        return object_test(self.kind, self.labels, self.fields)

    def of(self, store: Store) -> list[Stored]:
        items, test = store.all(self.kind, self.namespace), self.test()
        return items if test is None else [stored for stored in items if test(stored.decoded())]


# -------------------------------------------------------------------------------------------- lists


class Pages:
    """Lists, and the remaining objects of lists that continue tokens name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._remaining: OrderedDict[str, tuple[list[Stored], int]] = OrderedDict()  # token → objects, version
        self._made = 0

    def forget_tokens(self) -> None:
        """As after a compaction: every continue token has expired."""
        self._remaining.clear()

    def answer(self, selection: Selection, limit: int, token: str) -> bytes:
        if token and token not in self._remaining:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        items, version = self._remaining[token] if token else (selection.of(self._store), self._store.version)
        page, left = (items[:limit], items[limit:]) if limit else (items, [])
        metadata: Json = {"resourceVersion": str(version)}
        if left:
            metadata |= {"continue": self._keep(left, version), "remainingItemCount": len(left)}
        kind = selection.kind
        head = msgspec.json.encode({"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata})
        # Built-in kinds leave out apiVersion and kind, and the comma after them.
        start = 0 if kind.is_custom else self._store.shelf(kind).prefix_length + 1
        encoded = [stored.data if not start else b"{" + stored.data[start:] for stored in page]
        return head[:-1] + b',"items":[' + b",".join(encoded) + b"]}"

    def _keep(self, left: list[Stored], version: int) -> str:
        self._made += 1
        token = f"rest-{self._made}"
        self._remaining[token] = (left, version)
        if len(self._remaining) > _TOKENS_KEPT:
            self._remaining.popitem(last=False)
        return token


# ------------------------------------------------------------------------------------------ watches


class WatchQuery(Struct, frozen=True):
    """How a watch was asked for."""

    version: str = ""
    sends_initial_events: bool = False
    bookmarks: bool = False
    timeout_seconds: float = _LONGEST_WATCH_SECONDS


class Watch:
    """One open stream. `cut` ends it as a broken connection would, `end` as a server that closes politely."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json", "transfer-encoding": "chunked"}

    def __init__(self, store: Store, runtime: Runtime, selection: Selection, query: WatchQuery) -> None:
        self.selection = selection
        self._store = store
        self._shelf = store.shelf(selection.kind)
        self._runtime = runtime
        self._query = query
        self._test = selection.test()
        self._sent = store.version  # changes up to this version are sent
        self._first = self._opening()
        self._news = asyncio.Event()
        self._ended_by: str = ""
        self._shelf.listeners[self._news.set] = None

    def _opening(self) -> list[bytes]:
        """What is sent at once; sets where the stream goes on from."""
        query = self._query
        if query.version in ("", "0") or query.sends_initial_events:
            lines = [event_line("ADDED", stored.data) for stored in self.selection.of(self._store)]
            return [*lines, self._bookmark(_INITIAL_EVENTS_END)] if query.sends_initial_events else lines
        if not query.version.isdigit():
            raise bad_request(f"invalid resource version: {query.version!r}")
        self._sent = int(query.version)
        if self._sent < self._shelf.compacted:
            return [self._too_old_line()]
        if self._sent > self._store.version:
            wrong = f"Too large resource version: {self._sent}, current: {self._store.version}"
            return [event_line("ERROR", Refusal(504, "Timeout", wrong).body())]
        return []

    async def chunks(self) -> AsyncIterator[bytes]:
        began_at = self._runtime.monotonic()
        ends_at, bookmark_at = began_at + self._query.timeout_seconds, began_at + BOOKMARK_SECONDS
        try:
            if self._first:
                yield b"".join(self._first)
                if self._first[-1].startswith(b'{"type":"ERROR"'):
                    return
            while not self._ended_by and self._runtime.monotonic() < ends_at:
                self._news.clear()
                news = b"".join(self._changes())
                if news:
                    yield news
                    continue
                if self._query.bookmarks and self._runtime.monotonic() >= bookmark_at:
                    bookmark_at += BOOKMARK_SECONDS
                    yield self._bookmark({})
                await self._wait_until(min(bookmark_at, ends_at))
            if self._ended_by == "cut":
                raise TransportError("connection reset")
        finally:
            await self.close()

    async def _wait_until(self, at: float) -> None:
        """For news, or for that time: a timer is cheaper than a timeout, and there are twenty watches that wait."""
        timer = asyncio.get_running_loop().call_at(at, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    def _changes(self) -> Iterator[bytes]:
        if self._sent < self._shelf.compacted:
            yield self._too_old_line()
            self._ended_by = "end"
            return
        for change in _after(self._shelf, self._sent):
            self._sent = change.version
            yield self._line_of(change)

    def _line_of(self, change: Change) -> bytes:
        """The line, or nothing. An object that leaves or enters the selection is sent as deleted or added."""
        if self.selection.namespace and change.after.namespace != self.selection.namespace:
            return b""
        if self._test is None:
            return change.as_line()
        was = change.before is not None and self._test(change.before.decoded())
        is_in = change.type != "DELETED" and self._test(change.after.decoded())
        if change.type == "DELETED" or (was and is_in):
            return change.as_line() if was else b""
        return event_line("DELETED" if was else "ADDED", change.after.data) if was or is_in else b""

    def _bookmark(self, annotations: Mapping[str, str]) -> bytes:
        self._sent = max(self._sent, self._store.version)
        metadata: Json = {"resourceVersion": str(self._sent), "creationTimestamp": None}
        metadata |= {"annotations": annotations} if annotations else {}
        kind = self.selection.kind
        extra: Json = {"spec": {"containers": None}, "status": {}} if kind.name == "Pod" else {}
        body = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata, **extra}
        return event_line("BOOKMARK", msgspec.json.encode(body))

    def _too_old_line(self) -> bytes:
        refusal = expired(f"too old resource version: {self._sent} ({self._shelf.compacted})")
        return event_line("ERROR", refusal.body())

    @property
    def is_over(self) -> bool:
        return self._ended_by != ""

    def cut(self) -> None:
        self._ended_by = "cut"
        self._news.set()

    def end(self) -> None:
        self._ended_by = "end"
        self._news.set()

    async def close(self) -> None:
        self._ended_by = self._ended_by or "end"
        self._shelf.listeners.pop(self._news.set, None)


def _after(shelf: Shelf, version: int) -> list[Change]:
    found: list[Change] = []
    for change in reversed(shelf.history):
        if change.version <= version:
            break
        found.append(change)
    return found[::-1]
