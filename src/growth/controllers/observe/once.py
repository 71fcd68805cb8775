"""What does a cluster look like, once, for somebody who only wants to know? Asked by `growth explain`; it writes
nothing and then is gone.

The same observer as in a running growth fills its caches, gives one snapshot and stops.
"""

from __future__ import annotations

from typing import Final

from growth.controllers.identity import cluster_id
from growth.controllers.loop.metrics import Metrics
from growth.controllers.observe.observer import Observer
from growth.controllers.observe.supply import Supply
from growth.kube.api.client import Client
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.providers.contract import Provider
from growth.runtime import Runtime

_POLL_SECONDS: Final = 0.05
_BUFFERS_SECONDS: Final = 5.0  # the kind may not be installed


async def look_once(
    client: Client, runtime: Runtime, provider: Provider, installation: str, settings: Settings, seconds: float = 30.0
) -> Snapshot:
    """Raise TimeoutError, with the kinds that nobody answered for."""
    metrics = Metrics(runtime)
    supply = Supply(provider, await cluster_id(client, installation), runtime)
    observer = Observer(client, runtime, supply, metrics, settings=settings)
    tasks = [*observer.start(), runtime.spawn("supply", supply.run())]
    try:
        return await _snapshot(observer, runtime, seconds)
    finally:
        for task in tasks:
            task.cancel()


async def _snapshot(observer: Observer, runtime: Runtime, seconds: float) -> Snapshot:
    began_at = runtime.monotonic()
    while True:
        spent = runtime.monotonic() - began_at
        if observer.is_synced and (observer.snapshot().buffers.is_known or spent > _BUFFERS_SECONDS):
            return observer.snapshot()
        if spent > seconds:
            raise TimeoutError(f"no answer within {seconds:.0f} s about: {', '.join(observer.missing)}")
        await runtime.sleep(_POLL_SECONDS)
