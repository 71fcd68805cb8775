"""A server with one collection: versions, history, compaction, pages, watches, streamed listings and a queue of faults,
one for each request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from growth.kube.api.transport import NeverSent, Request, TransportError
from tests.kube.scripted import Answer, bookmark, event, json_answer, named, query_of, status_answer

FAULTS: Final = (
    *("500", "503", "429", "410", "404", "403", "401", "never sent", "lost", "hang"),
    *("cut", "cut in a line", "silence", "close early", "bad line", "gone event", "error event", "compact"),
)
_REFUSALS: Final = {
    "500": "InternalError",
    "503": "",
    "429": "TooManyRequests",
    "410": "Expired",
    "404": "NotFound",
    "403": "Forbidden",
    "401": "Unauthorized",
}
_TICK: Final = 0.5


class SmallServer:
    def __init__(self, *names: str, streams_lists: bool = True, bookmarks: bool = True) -> None:
        self.version = 100
        self.items: dict[str, str] = {name: str(index) for index, name in enumerate(names, start=1)}
        self.history: list[tuple[int, str, str]] = []
        self.oldest = 100  # watches may begin here or later
        self.faults_used_up = asyncio.Event()
        self.faults_used_up.set()
        self._faults: deque[str] = deque()
        self.requests: list[Request] = []
        self.streams_lists = streams_lists
        self.bookmarks = bookmarks
        self.is_installed = True
        self.epoch = 0  # grows when every open stream is cut

    def plan(self, *faults: str) -> None:
        """What shall happen to the next requests; "" for nothing."""
        self._faults.extend(faults)
        if faults:
            self.faults_used_up.clear()

    # --------------------------------------------------------------------------------------- writes

    def put(self, name: str) -> None:
        self.version += 1
        self.history.append((self.version, "MODIFIED" if name in self.items else "ADDED", name))
        self.items[name] = str(self.version)

    def remove(self, name: str) -> None:
        if self.items.pop(name, None) is not None:
            self.version += 1
            self.history.append((self.version, "DELETED", name))

    def compact(self) -> None:
        self.oldest = self.version  # streams that are open still get their history

    def restore(self, items: dict[str, str], version: int) -> None:
        """As after an etcd restore: an older state, a lower version, and every connection gone."""
        self.items, self.version, self.oldest, self.history = dict(items), version, version, []
        self.epoch += 1

    # -------------------------------------------------------------------------------------- answers

    async def send(self, request: Request) -> Answer:
        self.requests.append(request)
        fault = self._faults.popleft() if self._faults else ""
        if not self._faults:
            self.faults_used_up.set()
        await self._fail_to_answer(fault)
        query = query_of(request)
        if not self.is_installed:
            return status_answer(404, "NotFound", "the server could not find the requested resource")
        if fault in _REFUSALS:
            return status_answer(int(fault), _REFUSALS[fault], "a fault", retry_after="3")
        if query.get("watch") != "true":
            return self._page(query)
        if query.get("sendInitialEvents") and not self.streams_lists:
            return status_answer(
                422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            )
        if not query.get("sendInitialEvents") and int(query["resourceVersion"]) < self.oldest:
            return status_answer(410, "Expired", "too old resource version")
        return _Stream(self, query, fault)

    async def _fail_to_answer(self, fault: str) -> None:
        if fault == "never sent":
            raise NeverSent("connection refused")
        if fault == "lost":
            raise TransportError("connection reset")
        if fault == "hang":
            await asyncio.sleep(10_000_000)
        if fault == "compact":
            self.compact()

    def _page(self, query: dict[str, str]) -> Answer:
        start = query.get("continue", "")
        version, _, after = (start or f"{self.version}:").partition(":")
        if int(version) < self.oldest:
            return status_answer(410, "Expired", "the continue token is too old")
        names = [name for name in sorted(self.items) if name > after]
        chosen = names[: int(query["limit"])] if "limit" in query else names
        token = f"{version}:{chosen[-1]}" if len(chosen) < len(names) else ""
        metadata = {"resourceVersion": version, "continue": token}
        return json_answer({"metadata": metadata, "items": [named(name, self.items[name]) for name in chosen] or None})

    def after(self, version: int) -> list[tuple[int, str, str]]:
        return [each for each in self.history if each[0] > version]


class _Stream(Answer):
    """A watch: the listing if asked for, then history as it is made, a bookmark each minute, and perhaps a fault after
    a while.
    """

    def __init__(self, server: SmallServer, query: dict[str, str], fault: str) -> None:
        super().__init__()
        self._server = server
        self._query = query
        self._fault = fault

    async def chunks(self) -> AsyncIterator[bytes]:
        server, elapsed = self._server, 0.0
        epoch, sent = server.epoch, int(self._query.get("resourceVersion", server.version))
        if "sendInitialEvents" in self._query:
            lines = [event("ADDED", named(name, version)) for name, version in sorted(server.items.items())]
            if self._fault in ("cut", "cut in a line"):
                yield b"".join(lines)[: -5 if self._fault == "cut in a line" else None]
                raise TransportError("cut off")
            yield b"".join(lines) + bookmark(str(sent), ends_listing=True)
        while elapsed < int(self._query["timeoutSeconds"]):
            await asyncio.sleep(_TICK)
            elapsed += _TICK
            if server.epoch != epoch:
                raise TransportError("cut off")
            fresh = server.after(sent)
            if fresh:
                sent = fresh[-1][0]
                yield b"".join(event(change, named(name, str(version))) for version, change, name in fresh)
            elif server.bookmarks and elapsed % 60 == 0:
                sent = max(sent, server.version)
                yield bookmark(str(server.version))
            if elapsed >= 2 and self._fault:
                async for chunk in self._go_wrong():
                    yield chunk
                return

    async def _go_wrong(self) -> AsyncIterator[bytes]:
        match self._fault:
            case "silence":
                await asyncio.sleep(10_000_000)
            case "bad line":
                yield b'{"type": "ADDED", "object": {"metadata"\n'
                await asyncio.sleep(10_000_000)
            case "gone event" | "error event":
                code = 410 if self._fault == "gone event" else 500
                yield event("ERROR", {"kind": "Status", "code": code, "message": "a fault"})
            case "cut in a line":
                yield event("ADDED", named("never", "1"))[:-9]
                raise TransportError("cut off")
            case "close early":
                return
            case _:
                raise TransportError("cut off")
