"""What may a running growth be asked over HTTP? Is it alive, is it ready, its metrics. Read-only; on loopback unless
the settings say otherwise.

Asked by kubelet probes and Prometheus. Answers GET and HEAD only, with no data of workloads.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest

from growth.controllers.growth import Growth

_SAFE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


_PROCESS: Final = CollectorRegistry()
ProcessCollector(registry=_PROCESS)  # what the process itself uses: CPU, memory, files; read when it is asked for


class Server:
    """Serves one Growth."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        app = web.Application()
        app.router.add_get("/healthz", self._health)
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

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        if self._growth.is_ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="the caches are not filled yet\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        self._growth.refresh_metrics()
        body = generate_latest(self._growth.metrics.registry) + generate_latest(_PROCESS)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _harden(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SAFE_HEADERS)
