"""How are many objects told: in pages, and as a stream of changes? Asked by `apiserver` for lists and watches.

A paged list is one moment: its continue token names the rest of that moment's objects until it is forgotten (410). A
watch tells every change after a version, or first all objects and an initial-events-end bookmark; bookmarks come once a
minute to those who asked."""

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
from growth.sim.apiserver.selecting import Test, object_test
from growth.sim.apiserver.store import Change, Shelf, Store, Stored

BOOKMARK_SECONDS: Final = 60.0
_SHORTEST_WAIT_SECONDS: Final = (
    1e-6  # less than its resolution lets no time pass on a virtual clock, and the wait would never end
)
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


class Asked(Struct, frozen=True):
    """The part of a query that chooses objects."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def test(self) -> Test | None:
        return object_test(self.kind, self.labels, self.fields)


# -------------------------------------------------------------------------------------------- lists


class _Rest(Struct):
    version: int
    items: list[Stored]


class Pages:
    """Lists, and the rests of lists that continue tokens name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rests: OrderedDict[str, _Rest] = OrderedDict()
        self._made = 0

    def forget_tokens(self) -> None:
        """As after a compaction: every continue token has expired."""
        self._rests.clear()

    def answer(self, asked: Asked, limit: int, token: str) -> bytes:
        if token:
            rest = self._rests.get(token)
            if rest is None:
                raise expired("The provided continue parameter is too old to display a consistent list result.")
            items, version = rest.items, rest.version
        else:
            items, version = _chosen(self._store, asked), self._store.version
        page, left = (items[:limit], items[limit:]) if limit else (items, [])
        return _list_body(
            asked.kind,
            self._store.shelf(asked.kind),
            page,
            version,
            self._keep(left, version) if left else "",
            len(left),
        )

    def _keep(self, left: list[Stored], version: int) -> str:
        self._made += 1
        token = f"rest-{self._made}"
        self._rests[token] = _Rest(version, left)
        if len(self._rests) > _TOKENS_KEPT:
            self._rests.popitem(last=False)
        return token


def _chosen(store: Store, asked: Asked) -> list[Stored]:
    items, test = store.all(asked.kind, asked.namespace), asked.test()
    return items if test is None else [stored for stored in items if test(stored.decoded())]


def _list_body(kind: Kind, shelf: Shelf, page: list[Stored], version: int, token: str, left: int) -> bytes:
    metadata: Json = {"resourceVersion": str(version)}
    if token:
        metadata |= {"continue": token, "remainingItemCount": left}
    head = msgspec.json.encode({"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata})
    start = (
        0 if kind.is_custom else shelf.prefix_length + 1
    )  # built-in kinds leave out apiVersion and kind, and the comma after them
    items = [stored.data if not start else b"{" + stored.data[start:] for stored in page]
    return head[:-1] + b',"items":[' + b",".join(items) + b"]}"


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

    def __init__(self, store: Store, runtime: Runtime, asked: Asked, query: WatchQuery) -> None:
        self.asked = asked
        self._store = store
        self._shelf = store.shelf(asked.kind)
        self._runtime = runtime
        self._query = query
        self._test = asked.test()
        self._first = self._opening()
        self._news = asyncio.Event()
        self._ended_by: str = ""
        self._shelf.listeners[self._news.set] = None

    def _opening(self) -> list[bytes]:
        """What is sent at once; sets where the stream goes on from."""
        query = self._query
        if query.version in ("", "0") or query.sends_initial_events:
            self._told = self._store.version
            lines = [_line("ADDED", stored.data) for stored in _chosen(self._store, self.asked)]
            return [*lines, self._bookmark(_INITIAL_EVENTS_END)] if query.sends_initial_events else lines
        if not query.version.isdigit():
            raise bad_request(f"invalid resource version: {query.version!r}")
        self._told = int(query.version)
        if self._told < self._shelf.compacted:
            return [_error_line(_too_old(self._told, self._shelf.compacted))]
        if self._told > self._store.version:
            return [
                _error_line(
                    Refusal(504, "Timeout", f"Too large resource version: {self._told}, current: {self._store.version}")
                )
            ]
        return []

    async def chunks(self) -> AsyncIterator[bytes]:
        began_at = self._runtime.monotonic()
        try:
            if self._first:
                yield b"".join(self._first)
                if self._first[-1].startswith(b'{"type":"ERROR"'):
                    return
            bookmark_at = began_at + BOOKMARK_SECONDS
            while not self._ended_by and self._runtime.monotonic() < began_at + self._query.timeout_seconds:
                self._news.clear()
                news = b"".join(self._changes())
                if news:
                    yield news
                    continue
                if self._query.bookmarks and self._runtime.monotonic() >= bookmark_at:
                    bookmark_at += BOOKMARK_SECONDS
                    yield self._bookmark({})
                await self._wait(min(bookmark_at, began_at + self._query.timeout_seconds) - self._runtime.monotonic())
            if self._ended_by == "cut":
                raise TransportError("connection reset")
        finally:
            await self.close()

    async def _wait(self, seconds: float) -> None:
        try:
            await self._runtime.within(max(_SHORTEST_WAIT_SECONDS, seconds), self._news.wait())
        except TimeoutError:
            return

    def _changes(self) -> Iterator[bytes]:
        if self._told < self._shelf.compacted:
            yield _error_line(_too_old(self._told, self._shelf.compacted))
            self._ended_by = "end"
            return
        for change in _after(self._shelf, self._told):
            self._told = change.version
            line = self._told_as(change)
            if line:
                yield line

    def _told_as(self, change: Change) -> bytes:
        """Nothing, or the line. An object that leaves or enters the selection is told as deleted or added."""
        if self.asked.namespace and change.after.namespace != self.asked.namespace:
            return b""
        if self._test is None:
            return change.as_line()
        was = change.before is not None and self._test(change.before.decoded())
        is_in = change.type != "DELETED" and self._test(change.after.decoded())
        if change.type == "DELETED" or (was and is_in):
            return change.as_line() if was else b""
        return _line("DELETED" if was else "ADDED", change.after.data) if was or is_in else b""

    def _bookmark(self, annotations: Mapping[str, str]) -> bytes:
        self._told = max(self._told, self._store.version)
        metadata: Json = {
            "resourceVersion": str(self._told),
            "creationTimestamp": None,
            **({"annotations": annotations} if annotations else {}),
        }
        extra: Json = {"spec": {"containers": None}, "status": {}} if self.asked.kind.name == "Pod" else {}
        return _line(
            "BOOKMARK",
            msgspec.json.encode(
                {"kind": self.asked.kind.name, "apiVersion": self.asked.kind.api_version, "metadata": metadata, **extra}
            ),
        )

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


def _line(change: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (change.encode(), data)


def _error_line(refusal: Refusal) -> bytes:
    return _line("ERROR", refusal.body())


def _too_old(version: int, compacted: int) -> Refusal:
    return expired(f"too old resource version: {version} ({compacted})")
