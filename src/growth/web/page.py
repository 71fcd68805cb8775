"""The page: what growth does and why, to look at. Serves its files, its data as JSON and as a stream, and explanations.

| address | answers |
| --- | --- |
| `/`, `/NAME` | the files of the page, from the folder `files` |
| `/api/state` | the whole page as JSON |
| `/api/events` | the same as server-sent events: the whole first, then what changed |
| `/api/explain?kind=&name=` | why, in the words of `growth explain`, and what was said about it lately |
| `/api/stage` (POST) | steers a story: pause, play, speed, chapter; only in the demo |

Reads only: nothing here can change a cluster. Who is answered is decided by `web/guard`."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping
from importlib.resources import files
from operator import is_
from typing import Any, Final, Protocol

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec import Struct

from growth.controllers.ask.bound import bound_of, bound_problem
from growth.controllers.growth import Growth
from growth.kube.redaction import redact
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import NO_PLACEMENT, place_buffers
from growth.runtime import Runtime
from growth.web.feed import Feed
from growth.web.guard import Asked, Guard
from growth.web.notes import Notes, row_of
from growth.web.state import Look

MOST_VIEWERS: Final = 50
_WATCHED_SECONDS: Final = 0.5  # between two looks while somebody watches
_ALONE_SECONDS: Final = 10.0
_SOLVE_SECONDS: Final = 60.0  # for one bound
_SAMPLE_SECONDS: Final = 60.0
_PLACEMENT_SECONDS: Final = 10.0
_LONGEST_CONTROL: Final = 1000

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_SAFE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

log = structlog.get_logger(__name__)

Explain = Callable[
    [str, str, Snapshot, Settings], Mapping[str, Any]
]  # kind, name; raises ValueError if it is not there


class Watched(Protocol):
    """What the page shows: a running growth, or a story."""

    def look(self, is_watched: bool) -> Look | None:
        """This moment; None while there is nothing to show."""

    async def find_bound(self, look: Look) -> None:
        """Find out what the pods of this moment cost at least; the next look tells."""


class RunningGrowth:
    """What the page sees of a growth that runs. `thinks` finds bounds, in a worker of its own: a viewer must not keep
    the solver from the loop.
    """

    def __init__(self, growth: Growth, thinks: Runtime) -> None:
        self._growth, self._thinks = growth, thinks
        self._notes = Notes(growth.runtime.now)
        growth.journal.listeners.append(self._notes.hear)
        self._bound: float | None = None
        self._bound_for: tuple[object, ...] | None = None
        self._placement, self._placed_at = NO_PLACEMENT, float("-inf")

    def look(self, is_watched: bool) -> Look | None:
        growth, observer = self._growth, self._growth.observer
        if observer is None or not observer.is_synced:
            return None
        snapshot, settings, now = observer.snapshot(), growth.installation.settings, growth.runtime.monotonic()
        if is_watched and now >= self._placed_at + _PLACEMENT_SECONDS:
            self._placement, self._placed_at = place_buffers(snapshot, settings), now
        leads, moment = growth.fence.holds(), snapshot.now // _SAMPLE_SECONDS
        return Look(
            snapshot,
            settings,
            self._notes,
            version=(observer.version, self._notes.version, self._bound, self._placed_at, leads, moment),
            placement=self._placement,
            bound_per_hour=self._bound,
            leads=leads,
            only_observes=growth.installation.only_observes,
            sample_seconds=_SAMPLE_SECONDS,
        )

    async def find_bound(self, look: Look) -> None:
        """If pods or prices are others than those it was found for."""
        snapshot = look.snapshot
        asked = (snapshot.pods_by_node, snapshot.waiting_pods, snapshot.pools, snapshot.offerings)
        if self._bound_for is not None and all(map(is_, asked, self._bound_for)):
            return
        problem = bound_problem(snapshot, look.settings)
        self._bound = 0.0 if problem is None else await self._thinks.offload(_SOLVE_SECONDS, bound_of, problem)
        self._bound_for = asked


class Control(Struct, frozen=True, forbid_unknown_fields=True):
    """What a viewer of a story wishes. Fields that are None stay as they are."""

    pause: bool | None = None
    speed: float | None = None
    chapter: int | None = None


class PageServer:
    """Serves one page to many viewers."""

    def __init__(
        self,
        watched: Watched,
        guard: Guard,
        explain: Explain,
        steer: Callable[[Control], None] | None = None,
    ) -> None:
        self.feed = Feed()
        self._watched, self._guard, self._explain, self._steer = watched, guard, explain, steer
        self._explaining = asyncio.Semaphore(1)  # one at a time: the loop needs the processor more
        self._news = asyncio.Event()
        self._files = _read_files()
        self._tasks: list[asyncio.Task[None]] = []
        app = web.Application(middlewares=[self._check], client_max_size=_LONGEST_CONTROL)
        app.router.add_get("/api/state", self._state)
        app.router.add_get("/api/events", self._events, allow_head=False)
        app.router.add_get("/api/explain", self._explained)
        app.router.add_post("/api/stage", self._stage)
        app.router.add_get("/{name:[a-z0-9.-]*}", self._file)
        app.on_response_prepare.append(_harden)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one if 0 was asked for."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._follow_bound())]
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runner.cleanup()

    # ------------------------------------------------------------------------------------ following

    async def _follow(self) -> None:
        """Look again and again; a mistake in drawing must not end it."""
        seen: object = None
        while True:
            self._news.clear()
            is_watched = bool(self.feed.viewers)
            try:
                look = self._watched.look(is_watched)
                if look is not None and look.version != seen:
                    self.feed.follow(look)
                    seen = look.version
            except Exception:
                log.exception("the page could not be made")
            await _wait(self._news, _WATCHED_SECONDS if is_watched else _ALONE_SECONDS)
            if is_watched:
                await asyncio.sleep(0)

    async def _follow_bound(self) -> None:
        """The bound takes a solve: only while somebody watches."""
        while True:
            look = self.feed.look
            if self.feed.viewers and look is not None:
                try:
                    await self._watched.find_bound(look)
                except Exception:
                    log.exception("the bound was not found")
                await asyncio.sleep(look.bound_seconds)
            else:
                await asyncio.sleep(1.0)

    # ------------------------------------------------------------------------------------ answering

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(request.method, request.path, request.headers.get("Host", ""), headers)
        refusal = await self._guard.why_not(asked)
        if refusal is not None:
            response = web.Response(status=refusal.status, text=f"{refusal.why}\n")
            if refusal.status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
            return response
        try:
            return await handler(request)
        except web.HTTPException as error:
            return web.Response(status=error.status, text=f"{error.reason}\n", headers=_allowed(error))

    async def _file(self, request: web.Request) -> web.Response:
        known = self._files.get(request.match_info["name"] or "index.html")
        if known is None:
            raise web.HTTPNotFound
        media, plain, packed = known
        return _answer(request, media, plain, packed)

    async def _state(self, request: web.Request) -> web.Response:
        if not self.feed.has_page:
            raise web.HTTPServiceUnavailable(reason="growth does not know its cluster yet")
        return _answer(request, "application/json", self.feed.whole(), self.feed.whole_packed())

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if len(self.feed.viewers) >= MOST_VIEWERS:
            raise web.HTTPServiceUnavailable(reason="too many viewers")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        self._news.set()
        await self.feed.serve(response)
        return response

    async def _explained(self, request: web.Request) -> web.Response:
        look, kind, name = self.feed.look, request.query.get("kind", ""), request.query.get("name", "")
        if look is None:
            raise web.HTTPServiceUnavailable(reason="growth does not know its cluster yet")
        try:
            async with self._explaining:
                answer = await asyncio.to_thread(self._explain, kind, name, look.snapshot, look.settings)
        except ValueError as error:
            answer = {"gone": redact(str(error))}
        said = [row_of(entry) for entry in look.notes.about(kind, name)]
        body = redact(msgspec.json.encode({"kind": kind, "name": name, "answer": answer, "said": said}).decode())
        return _answer(request, "application/json", body.encode())

    async def _stage(self, request: web.Request) -> web.Response:
        if self._steer is None:
            raise web.HTTPNotFound
        try:
            control = msgspec.json.decode(await request.read(), type=Control)
        except msgspec.DecodeError as error:
            return web.Response(status=400, text=f"{error}\n")
        self._steer(control)
        self._news.set()
        return web.Response(status=204)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _answer(request: web.Request, media: str, plain: bytes, packed: bytes | None = None) -> web.Response:
    headers = {"Content-Type": media, "Vary": "Accept-Encoding"}
    if packed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=packed, headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=plain, headers=headers)


def _allowed(error: web.HTTPException) -> dict[str, str]:
    return {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}


def _read_files() -> dict[str, tuple[str, bytes, bytes]]:
    """Every file by name: its media type, its bytes, and the same by gzip."""
    found = {}
    for file in (files("growth.web") / "files").iterdir():
        plain = file.read_bytes()
        found[file.name] = (_TYPES[file.name.rpartition(".")[2]], plain, gzip.compress(plain, 9, mtime=0))
    return found


async def _harden(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SAFE_HEADERS)
