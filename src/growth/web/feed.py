"""How does every viewer get what changed, and nobody too much? One page for all of them; each has a bounded queue.

Asked by the page's server. A viewer begins with the whole page and then gets what changed. One that is too slow for
that loses its queue and gets the whole page again: it costs growth no more than one that is quick."""

from __future__ import annotations

import asyncio
import gzip
from collections import deque
from typing import Any, Final, Protocol

import msgspec

from growth.web.state import NO_PAGE, Look, Page, changes, page_of

QUEUE_LENGTH: Final = 16
_SIGN_OF_LIFE_SECONDS: Final = 15.0
_STALLED_SECONDS: Final = 30.0


class Outlet(Protocol):
    """A response that goes on for as long as its reader stays."""

    async def write(self, data: bytes) -> None: ...


class Viewer:
    """One open page. `next` waits until there is something for it."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._queue: deque[bytes] = deque()
        self._is_behind = True
        self._news = asyncio.Event()
        self._news.set()

    def offer(self, event: bytes) -> None:
        if self._is_behind:
            self._news.set()
            return
        self._queue.append(event)
        if len(self._queue) > QUEUE_LENGTH:
            self.fall_behind()
        self._news.set()

    def fall_behind(self) -> None:
        """Next comes the whole page."""
        self._queue.clear()
        self._is_behind = True

    async def next(self) -> bytes:
        while True:
            if self._is_behind and self._feed.has_page:
                self._is_behind = False
                self._queue.clear()
                return self._feed.whole_event()
            if self._queue:
                return self._queue.popleft()
            self._news.clear()
            await self._news.wait()


class Feed:
    """The page as it is, and who looks at it."""

    def __init__(self) -> None:
        self.viewers: set[Viewer] = set()
        self.look: Look | None = None
        self._page: Page = NO_PAGE
        self._number = 0
        self._whole: tuple[int, bytes, bytes] | None = None  # encoded once for all who ask

    @property
    def has_page(self) -> bool:
        return self.look is not None

    def follow(self, look: Look) -> bool:
        """Make the page of this moment and tell every viewer what changed. Whether anything did."""
        if self.look is not None and look.world != self.look.world:
            self.forget()
        is_first, before = self.look is None, self._page
        self._page = page_of(look, before)
        self.look = look
        delta = changes(before, self._page)
        if not delta and not is_first:
            return False
        self._number += 1
        event = _event("delta", self._number, {"number": self._number, "at": self._page.at, "tables": delta})
        for viewer in self.viewers:
            viewer.offer(event)
        return True

    async def serve(self, outlet: Outlet) -> None:
        """Until the reader goes away, or takes nothing for so long that it is as good as gone."""
        viewer = Viewer(self)
        self.viewers.add(viewer)
        try:
            await _send(outlet, b": growth\n\n")
            while True:
                await _send(outlet, await _next(viewer))
        except (ConnectionError, TimeoutError):
            return
        finally:
            self.viewers.discard(viewer)

    def forget(self) -> None:
        """Another world begins: nothing of the old one is past."""
        self.look, self._page = None, NO_PAGE
        for viewer in self.viewers:
            viewer.fall_behind()

    def whole(self) -> bytes:
        return self._encoded()[1]

    def whole_packed(self) -> bytes:
        """The same, by gzip."""
        return self._encoded()[2]

    def whole_event(self) -> bytes:
        return _event("whole", self._number, msgspec.Raw(self.whole()))

    def _encoded(self) -> tuple[int, bytes, bytes]:
        if self._whole is None or self._whole[0] != self._number:
            content = {"number": self._number, "at": self._page.at, "tables": self._page.whole()}
            encoded = msgspec.json.encode(content)
            self._whole = (self._number, encoded, gzip.compress(encoded, 1))
        return self._whole


async def _next(viewer: Viewer) -> bytes:
    """What comes next, or a sign of life."""
    try:
        async with asyncio.timeout(_SIGN_OF_LIFE_SECONDS):
            return await viewer.next()
    except TimeoutError:
        return b": still here\n\n"


async def _send(outlet: Outlet, event: bytes) -> None:
    async with asyncio.timeout(_STALLED_SECONDS):
        await outlet.write(event)


def _event(name: str, number: int, content: Any) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: ".encode() + msgspec.json.encode(content) + b"\n\n"
