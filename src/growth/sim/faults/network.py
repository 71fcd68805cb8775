"""The network between growth and the API server on a bad day: slow, lossy, lying and sometimes gone.

It is the Transport of one growth process, in front of the embedded API server. `FaultyTransport` serves seeds: shares
in `ApiTrouble` and one seeded source of chance decide. `FaultyApi` serves scenarios: the faults that are on decide.

| share of requests | the server acts | growth hears |
| --- | --- | --- |
| conflict, throttled, error before | no | 409, 429 with Retry-After, 500/503/504 |
| error after | yes | 500/503/504 |
| lost before / after | no / yes | a broken connection |
| hung before / after | no / yes | nothing, until it gives up |
| unauthorized | no | 401 (the token was rotated) |
| expired | no | 410 in a list |
| torn answer | yes | half a body, then a broken connection |

| share of watches | growth hears |
| --- | --- |
| lag | every event late |
| silence | nothing any more, though the connection is open |
| closed, cut, torn | an end, a broken connection, half a line and a broken connection |
| expired | 410 in the stream |
| repeated | the last events twice |

| fault of a scenario | of | growth hears |
| --- | --- | --- |
| api-down | every request | connection refused |
| api-error | requests like these | the status, and the server does nothing |
| api-slow | requests like these | the answer, later |
| lease-lost | the leader's writes of leases | 500, and the server does nothing |
| lease-slow | every write of the leader | the answer, later |
| watch-silent | watches | nothing any more, though the connection stands |
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from growth.kube.api.transport import NeverSent, Request, Response, Transport, TransportError
from growth.runtime import Runtime
from growth.sim.apiserver.refusal import Refusal, changed_meanwhile, expired, internal, too_many, unavailable
from growth.sim.apiserver.routes import Route, find_route, split
from growth.sim.apiserver.store import event_line
from growth.sim.apiserver.streams import Answer, refuse
from growth.sim.faults.active import ActiveFaults, Kind
from growth.sim.faults.kinds import ApiDown, ApiError, ApiSlow, LeaseLost, LeaseSlow, WatchSilent

FOREVER = 1e9


class ApiTrouble(Struct):
    """Shares are chances: of each request for the first group, of each watch for the second."""

    slow: float = 0.0
    conflict: float = 0.0
    throttled: float = 0.0
    error_before: float = 0.0
    error_after: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    hung_before: float = 0.0
    hung_after: float = 0.0
    unauthorized: float = 0.0
    expired: float = 0.0
    torn_answer: float = 0.0

    watch_lag_seconds: float = 0.0
    watch_silent: float = 0.0
    watch_closed: float = 0.0
    watch_cut: float = 0.0
    watch_torn: float = 0.0
    watch_expired: float = 0.0
    watch_repeated: float = 0.0

    down_until: float = 0.0  # by the runtime's monotonic clock


class FaultyTransport:
    """One process's way to the API server. `on_write` is called before and after each write and may raise."""

    def __init__(self, transport: Transport, runtime: Runtime, trouble: ApiTrouble, seed: str) -> None:
        self.trouble = trouble
        self.on_write: Callable[[str, Request], None] = lambda _moment, _request: None
        self.on_read: Callable[[Request], None] = lambda _request: None
        self._transport = transport
        self._runtime = runtime
        self._chance = random.Random(seed)

    async def send(self, request: Request) -> Response:
        await self._runtime.sleep(self._travel_seconds())
        if self._runtime.monotonic() < self.trouble.down_until:
            raise NeverSent("connection refused")
        if request.method != "GET":
            return await self._write(request)
        if "watch=true" in request.path:
            return await self._watch(request)
        return await self._read(request)

    def _travel_seconds(self) -> float:
        seconds = self._chance.uniform(0.001, 0.02)
        return self._chance.uniform(0.5, 20.0) if self._happens(self.trouble.slow) else seconds

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share

    # ------------------------------------------------------------------------------------- requests

    async def _write(self, request: Request) -> Response:
        trouble = self.trouble
        self.on_write("before", request)
        refusal = self._refusal(request)
        if refusal is not None:
            return refuse(refusal)
        await self._lose(trouble.lost_before, trouble.hung_before)
        response = await self._transport.send(request)
        self.on_write("after", request)
        if self._happens(trouble.error_after):
            return refuse(self._server_error())
        await self._lose(trouble.lost_after, trouble.hung_after)
        return _Torn(response) if self._happens(trouble.torn_answer) else response

    async def _read(self, request: Request) -> Response:
        trouble = self.trouble
        if self._happens(trouble.error_before) or self._happens(trouble.unauthorized):
            return refuse(self._server_error() if self._chance.random() < 0.7 else _rotated())
        if "continue=" in request.path and self._happens(trouble.expired):
            return refuse(expired("The provided continue parameter is too old to display a consistent list result."))
        await self._lose(trouble.lost_before, trouble.hung_before)
        response = await self._transport.send(request)
        self.on_read(request)
        await self._lose(trouble.lost_after, trouble.hung_after)
        return _Torn(response) if self._happens(trouble.torn_answer) else response

    def _refusal(self, request: Request) -> Refusal | None:
        trouble = self.trouble
        if self._happens(trouble.throttled):
            busy = "the server has received too many requests and has asked us to try again later"
            return too_many(busy, self._chance.randint(1, 3))
        if self._happens(trouble.unauthorized):
            return _rotated()
        if self._happens(trouble.error_before):
            return self._server_error()
        if request.method in ("PUT", "PATCH") and self._happens(trouble.conflict):
            route = find_route(split(request.path)[0])
            return changed_meanwhile(route.kind, route.name)
        return None

    def _server_error(self) -> Refusal:
        errors = [internal("etcdserver: request timed out"), unavailable("apiserver is shutting down")]
        return self._chance.choice([*errors, Refusal(504, "Timeout", "timed out")])

    async def _lose(self, lost: float, hung: float) -> None:
        if self._happens(hung):
            await self._runtime.sleep(FOREVER)
        if self._happens(lost):
            raise TransportError("connection reset by peer")

    # -------------------------------------------------------------------------------------- watches

    async def _watch(self, request: Request) -> Response:
        if self._happens(self.trouble.error_before):
            return refuse(self._server_error())
        return FaultyWatch(await self._transport.send(request), self._runtime, self.trouble, self._chance)


def _rotated() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


class _Torn:
    """Half of a body, and then a broken connection."""

    def __init__(self, response: Response) -> None:
        self.status, self.headers = response.status, response.headers
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.chunks():
            yield chunk[: len(chunk) // 2]
            break
        raise TransportError("connection reset by peer")

    async def close(self) -> None:
        await self._response.close()


class FaultyWatch:
    """A watch that may lag, fall silent, end, tear, expire or repeat itself, at a moment drawn when it is opened."""

    def __init__(self, response: Response, runtime: Runtime, trouble: ApiTrouble, chance: random.Random) -> None:
        self.status, self.headers = response.status, response.headers
        self._response = response
        self._runtime = runtime
        self._trouble = trouble
        self._fate = self._draw(chance)
        self._fate_at = runtime.monotonic() + chance.uniform(1.0, 120.0)
        self._lag_seconds = chance.uniform(0.0, trouble.watch_lag_seconds)
        self._coming: asyncio.Future[bytes] | None = None

    def _draw(self, chance: random.Random) -> str:
        fates = ("silent", "closed", "cut", "torn", "expired", "repeated")
        wanted: Mapping[str, float] = {fate: getattr(self._trouble, f"watch_{fate}") for fate in fates}
        return next((fate for fate, share in wanted.items() if share > 0 and chance.random() < share), "")

    async def chunks(self) -> AsyncIterator[bytes]:
        source = aiter(self._response.chunks())
        before = b""
        while True:
            try:
                chunk = await self._next(source)
            except StopAsyncIteration:
                return
            if chunk is None:
                async for piece in self._fulfil(before):
                    yield piece
                if self._fate != "repeated":
                    return
                self._fate = ""
                continue
            before = chunk
            if self._lag_seconds:
                await self._runtime.sleep(self._lag_seconds)
            yield chunk

    async def _next(self, source: AsyncIterator[bytes]) -> bytes | None:
        """The next piece, or None when the watch's fate comes first."""
        if not self._fate and self._coming is None:
            return await anext(source)
        if self._coming is None:
            self._coming = asyncio.ensure_future(_first(source))
        left = max(0.0, self._fate_at - self._runtime.monotonic()) if self._fate else None
        done, _ = await asyncio.wait((self._coming,), timeout=left)
        if not done:
            return None
        came, self._coming = self._coming, None
        return came.result()

    async def _fulfil(self, before: bytes) -> AsyncIterator[bytes]:
        if self._fate == "silent":
            await self._runtime.sleep(FOREVER)
        elif self._fate == "torn":
            yield b'{"type":"MODIFIED","object":{"apiVer'
        elif self._fate == "expired":
            yield event_line("ERROR", expired("too old resource version").body())
        elif self._fate == "repeated":
            yield before
        if self._fate in ("cut", "torn"):
            raise TransportError("connection reset by peer")

    async def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
        await self._response.close()


async def _first(source: AsyncIterator[bytes]) -> bytes:
    return await anext(source)


_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class FaultyApi:
    """One process's way to the API server. `on_write` and `on_read` are told of every request that arrives,
    `on_refused` of every write that was answered with an error, `on_done` of every one that was not."""

    def __init__(self, transport: Transport, runtime: Runtime, faults: ActiveFaults, replica: int = 0) -> None:
        self.on_write: Callable[[Request], None] = lambda _request: None
        self.on_read: Callable[[Request], None] = lambda _request: None
        self.on_refused: Callable[[Request], None] = lambda _request: None
        self.on_done: Callable[[Request], None] = lambda _request: None
        self.on_news: Callable[[str], None] = lambda _plural: None  # a list was answered, or a watch said something
        self._transport, self._runtime, self._faults, self._replica = transport, runtime, faults, replica

    async def send(self, request: Request) -> Response:
        faults, about = self._faults, _about(request, _route(request.path))
        is_write = request.method != "GET"
        late = faults.hit(ApiSlow, **about)
        slow = late.seconds if late is not None else 0.0
        slow += sum(each.seconds for each in self._aimed(LeaseSlow)) if is_write else 0.0
        if slow:
            await self._runtime.sleep(slow)
        if faults.hit(ApiDown):
            raise NeverSent("connection refused")
        refusal = self._refusal(request, about)
        if refusal is not None:
            if is_write:
                self.on_refused(request)
            return Answer(refusal.code, refusal.body(), refusal.headers())
        (self.on_write if is_write else self.on_read)(request)
        response = await self._transport.send(request)
        if is_write:
            (self.on_refused if response.status >= 400 else self.on_done)(request)
        if about["verb"] == "list" and response.status < 400:
            self.on_news(about["resource"])
        if about["verb"] != "watch":
            return response
        return _Silenced(response, self._runtime, faults, partial(self.on_news, about["resource"]))

    def _aimed(self, kind: type[Kind]) -> Iterator[Kind]:
        return (each for each in self._faults.of(kind) if self._faults.is_for(each, self._replica))

    def _refusal(self, request: Request, about: dict[str, str]) -> Refusal | None:
        if about["resource"] == "leases" and request.method != "GET" and any(self._aimed(LeaseLost)):
            return Refusal(500, "InternalError", "etcdserver: request timed out")
        error = self._faults.hit(ApiError, **about)
        if error is None:
            return None
        words = f"the API server says {error.status}"
        return Refusal(error.status, "Fault", words, retry_after_seconds=error.retry_after_seconds)


def _route(path: str) -> Route | None:
    parts = split(path)[0]
    try:
        return find_route(parts) if parts[0] in ("api", "apis") and len(parts) > 2 else None
    except (Refusal, IndexError):
        return None


def _about(request: Request, route: Route | None) -> dict[str, str]:
    """What a fault of the API server can be meant for."""
    resource, subresource = (route.kind.resource.plural, route.subresource) if route else ("", "")
    return {"verb": _verb(request, route), "resource": resource, "subresource": subresource}


def _verb(request: Request, route: Route | None) -> str:
    if request.method != "GET":
        return _VERBS[request.method]
    if "watch=true" in request.path:
        return "watch"
    return "get" if route is not None and route.name else "list"


class _Silenced:
    """A watch whose events stop while its fault is on; the connection stands."""

    def __init__(self, response: Response, runtime: Runtime, faults: ActiveFaults, on_news: Callable[[], None]) -> None:
        self._response, self._runtime, self._faults, self._on_news = response, runtime, faults, on_news
        self.status, self.headers = response.status, response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.chunks():
            if self._faults.hit(WatchSilent):
                await asyncio.Event().wait()
            self._on_news()
            yield chunk

    async def close(self) -> None:
        await self._response.close()
