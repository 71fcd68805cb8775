"""Keeps a sink equal to what the API server holds of one kind of object, through every fault of network and server.

Run by the controllers, one reflector for each kind; the sink is a cache. Translates, never decides.

    what happened                                    what follows
    no version known ............................... list (as a stream if that is offered, else in pages), then watch
    the stream ended in order (its time was up) .... watch on from the last version
    cut, no answer, 5xx, 429, 401, 403 ............. wait (longer each time, at least Retry-After), then watch on
    410, as an answer or as an event ............... list again; the sink keeps what it has until the listing ends
    nothing heard for longer than bookmarks take ... list again
    a line that cannot be read ..................... list again: what it said is unknown
    a version lower than one before (old etcd) ..... list again
    404: the kind is not installed ................. ask again slowly until it appears

Each kind of trouble is reported when it begins, not each time it is met again.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import ApiError, BadRequest, Expired, Forbidden, Invalid, KubeError, NotFound, Unauthorized
from growth.kube.api.pace import Backoff
from growth.kube.api.resources import Resource
from growth.kube.api.transport import Response, TransportError
from growth.kube.watch.stream import Sink, StreamError, TroubleKind, WatchStream
from growth.runtime import Runtime


class Trouble(Struct, frozen=True):
    """Why a cache is not up to date, for people."""

    resource: Resource
    kind: TroubleKind
    message: str


class WatchSettings(Struct, frozen=True):
    silence_seconds: float = 100.0  # bookmarks come once a minute, and a cache older than 150 s stops every deletion
    shortest_watch_seconds: int = 300  # the server ends a watch after this, up to twice as long
    back_off_seconds: float = 0.5
    back_off_limit_seconds: float = 30.0
    missing_seconds: float = 30.0  # between two looks for a kind that is not installed
    lively_seconds: float = 5.0  # a stream that lived this long was no failure
    stream_lists: bool = True


class Selection(Struct, frozen=True):
    """Which objects of a kind to follow; by default all of them."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


class SilenceError(Exception):
    """The connection is dead, or nothing happens and the server sends no bookmarks: only a new listing can tell."""


class Reflector:
    """Follows one kind of object until its task is cancelled."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        resource: Resource,
        sink: Sink,
        settings: WatchSettings | None = None,
        *,
        selection: Selection | None = None,
        report: Callable[[Trouble], None] = lambda _trouble: None,
    ) -> None:
        self.resource = resource
        self.synced = False  # the sink has held a whole listing
        self.trouble: Trouble | None = None
        self.listings = 0
        self._client = client
        self._runtime = runtime
        self._sink = sink
        self._settings = settings or WatchSettings()
        self._selection = selection or Selection()
        self._report = report
        self._version = ""  # everything up to here is in the sink; "" asks for a listing
        self._proved_at = -math.inf
        self._stream_lists = self._settings.stream_lists
        self._cut_listings = 0
        self._backoff = Backoff(runtime, self._settings.back_off_seconds, self._settings.back_off_limit_seconds)

    @property
    def age_seconds(self) -> float:
        """Time since the server last proved that the sink is up to date, or that it does not know the kind."""
        return self._runtime.monotonic() - self._proved_at

    @property
    def missing(self) -> bool:
        """The server does not know this kind of object."""
        return self.trouble is not None and self.trouble.kind is TroubleKind.MISSING

    async def run(self) -> NoReturn:
        while True:
            began_at, failure = self._runtime.monotonic(), None
            try:
                await self._follow()
            except Exception as error:  # whatever it was: a cache that is no longer filled is worse
                failure = error
            lively = self._runtime.monotonic() - began_at >= self._settings.lively_seconds
            if lively:
                self._backoff.reset()
            if failure is not None:
                await self._recover(failure)
            elif not lively:
                await self._backoff.wait()

    # ---------------------------------------------------------------------------- while all is well

    async def _follow(self) -> None:
        if not self._version and (not self._stream_lists or self._cut_listings >= 2):
            await self._list_in_pages()
        await self._watch()

    async def _list_in_pages(self) -> None:
        asked_at, version = self._runtime.monotonic(), ""
        chosen = self._selection
        async for page in self._client.pages(self.resource, chosen.namespace, chosen.labels, chosen.fields):
            if page.first:
                version = page.version
                self._sink.relisting()
            self._sink.listed(page.items)
        self._sink.relisted(version)
        self._listed(version, asked_at)

    async def _watch(self) -> None:
        asked_at = self._runtime.monotonic()
        response = await self._client.watch(self.resource, self._selection.namespace, **self._query())
        try:
            self.trouble = None
            await self._read(response, WatchStream(self._sink, self._version), asked_at)
        finally:
            await response.close()

    async def _read(self, response: Response, stream: WatchStream, asked_at: float) -> None:
        self._cut_listings += stream.listing
        async for chunk in self._chunks(response):
            was_listing = stream.listing
            try:
                heard = stream.feed(chunk)
            finally:
                self._version = stream.version
            if was_listing and not stream.listing:
                self._listed(stream.version, asked_at)
            elif heard and not stream.listing:
                self._proved_at = self._runtime.monotonic()

    async def _chunks(self, response: Response) -> AsyncIterator[bytes]:
        chunks = aiter(response.chunks())
        while True:
            try:
                chunk = await self._runtime.within(self._settings.silence_seconds, anext(chunks, None))
            except TimeoutError:
                raise SilenceError(f"nothing heard for {self._settings.silence_seconds:.0f} s") from None
            if chunk is None:
                return
            yield chunk

    def _query(self) -> dict[str, str | int]:
        seconds = int(self._settings.shortest_watch_seconds * (1 + self._runtime.jitter()))
        common: dict[str, str | int] = {"allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        common |= {"labelSelector": self._selection.labels, "fieldSelector": self._selection.fields}
        if self._version:
            return common | {"resourceVersion": self._version}
        return common | {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    def _listed(self, version: str, asked_at: float) -> None:
        """A listing shows the cluster as it was when it was asked for, or later."""
        self.synced, self.listings = True, self.listings + 1
        self._version, self._proved_at, self._cut_listings = version, asked_at, 0

    # ------------------------------------------------------------------------------ after a failure

    async def _recover(self, failure: Exception) -> None:
        match failure:
            case Invalid() | BadRequest() if not self._version and self._stream_lists:
                self._stream_lists = False  # not offered here: list in pages, at once
                return
            case NotFound():
                await self._look_again_later(failure)
                return
            case StreamError():
                self._trouble(failure.kind, failure)
            case Forbidden() | Unauthorized():
                self._trouble(TroubleKind.FORBIDDEN, failure)
            case Expired() | SilenceError():
                pass  # the way of the world: history is short, and some servers send no bookmarks
            case KubeError() | TransportError():
                self._trouble(TroubleKind.UNREACHABLE, failure)
            case _:
                self._trouble(TroubleKind.FAILED, failure)
        if not _may_resume(failure):
            self._version = ""
        await self._backoff.wait(getattr(failure, "retry_after_seconds", None))

    async def _look_again_later(self, failure: NotFound) -> None:
        self._trouble(TroubleKind.MISSING, failure)
        self._version = ""
        if not self.synced:
            self._proved_at = self._runtime.monotonic()
        await self._runtime.sleep(self._settings.missing_seconds * (1 + self._runtime.jitter()) / 2)

    def _trouble(self, kind: TroubleKind, failure: Exception) -> None:
        if self.trouble is None or self.trouble.kind is not kind:
            self.trouble = Trouble(self.resource, kind, str(failure) or type(failure).__name__)
            self._report(self.trouble)


def _may_resume(failure: Exception) -> bool:
    """Can the server watch on from the last version, and does the sink hold everything up to it?"""
    if isinstance(failure, ApiError) and any(cause.reason == "ResourceVersionTooLarge" for cause in failure.causes):
        return False  # the server is younger than what we saw
    return isinstance(failure, KubeError | TransportError) and not isinstance(failure, Expired)
