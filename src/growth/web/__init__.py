"""What may a running growth be asked over HTTP? Is it alive, is it ready, its metrics. Read-only; on loopback unless
the settings say otherwise.

Asked by kubelet probes and Prometheus. Answers GET and HEAD only, with no data of workloads: metrics name
CapacityBuffers only where the settings ask for it. The page has a server of its own (`web/page`).
"""

from __future__ import annotations

from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest

from growth.controllers.growth import Growth
from growth.controllers.health import Health
from growth.kube.redaction import redact

_SAFE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


_PROCESS: Final = CollectorRegistry()
ProcessCollector(registry=_PROCESS)  # what the process itself uses: CPU, memory, files; read when it is asked for


class Server:
    """Serves one Growth."""

    def __init__(self, growth: Growth, health: Health) -> None:
        self._growth, self._health = growth, health
        app = web.Application()
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.on_response_prepare.append(_harden)
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one if 0 was asked for."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _alive(self, _request: web.Request) -> web.Response:
        return _answer(self._health.why_not_alive())

    async def _ready(self, _request: web.Request) -> web.Response:
        return _answer(self._health.why_not_ready())

    async def _metrics(self, _request: web.Request) -> web.Response:
        self._growth.refresh_metrics()
        self._growth.metrics.ready.set(not self._health.why_not_ready())
        body = generate_latest(self._growth.metrics.registry) + generate_latest(_PROCESS)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(why_not: tuple[str, ...]) -> web.Response:
    """Ok, or each reason in a line of its own."""
    if not why_not:
        return web.Response(text="ok\n")
    return web.Response(status=503, text="".join(f"{redact(reason)}\n" for reason in why_not))


async def _harden(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SAFE_HEADERS)
