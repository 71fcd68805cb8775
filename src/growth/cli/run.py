"""`growth run`: the real process, on a real cluster. Wires the outside to `controllers/growth.py` and waits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import structlog
from cyclopts import Parameter

from growth.cli.explain import explain_on_page
from growth.cli.session import THE_CLUSTER, CatalogueFile, ClusterAccess, ProviderName, provider_of, set_up_logs
from growth.controllers.ask.premises import installed_by
from growth.controllers.configuration import (
    Configuration,
    PageSettings,
    load_configuration,
    print_configuration,
    with_scheduler,
)
from growth.controllers.growth import Growth, Installation
from growth.controllers.health import Health, Premises
from growth.controllers.loop.runtime import SystemRuntime, run_loop
from growth.kube.api.http import HttpTransport
from growth.kube.api.request import ClientSettings
from growth.kube.auth.credentials import Connection
from growth.kube.auth.kubeconfig import load_connection
from growth.kube.election import Election, ElectionThread
from growth.kube.fence import Fence, OpenFence
from growth.runtime import Runtime
from growth.web import Server
from growth.web.guard import Guard, Reviews
from growth.web.page import PageServer, RunningGrowth

log = structlog.get_logger(__name__)


def run(  # noqa: PLR0913 - every flag is an argument
    *,
    settings: Annotated[Path | None, Parameter(help="The settings file (YAML).")] = None,
    access: ClusterAccess = THE_CLUSTER,
    provider: ProviderName = None,
    catalogue: CatalogueFile = None,
    listen_port: Annotated[int | None, Parameter(help="Port of probes and metrics; 0 takes a free one.")] = None,
    observe: Annotated[bool | None, Parameter(help="Watch, plan and explain, but never buy, bind or delete.")] = None,
    scheduler: Annotated[
        bool | None, Parameter(help="Bind pods whose schedulerName is growth, placed by min-cost flow.")
    ] = None,
    default_scheduler: Annotated[
        bool | None,
        Parameter(help="With --scheduler: also pods of default-scheduler, where kube-scheduler is off."),
    ] = None,
    leader_election: Annotated[bool | None, Parameter(help="Needed as soon as there may be two of us.")] = None,
    feature_gates: Annotated[str | None, Parameter(help="CapacityBuffer=false, PoolAutoscaler=false: off.")] = None,
    print_settings: Annotated[bool, Parameter(negative="", help="Print the settings in force and end.")] = False,
) -> None:
    """Run growth against a cluster until it is told to stop."""
    flags = {
        "provider": provider,
        "catalogue": catalogue,
        "listenPort": listen_port,
        "observe": observe,
        "leaderElection": leader_election,
        "featureGates": feature_gates,
    }
    configuration = with_scheduler(load_configuration(settings, os.environ, flags), scheduler, default_scheduler)
    if print_settings:
        print(print_configuration(configuration), end="")
        return
    set_up_logs(configuration.log_level)
    run_loop(_serve(configuration, access))


async def _serve(configuration: Configuration, access: ClusterAccess) -> None:
    runtime = SystemRuntime(configuration.plans.solve_memory_mib)
    connection = load_connection(runtime, access.kubeconfig, access.context)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        async with (
            HttpTransport(connection) as transport,
            _leadership(configuration, connection, runtime, stopping) as (fence, thread),
        ):
            growth = Growth(transport, runtime, provider_of(configuration), _installation(configuration), fence)
            premises = Premises(growth.client, runtime, installed_by(configuration))
            await _until(stopping, growth, Health(growth, premises, thread), configuration)
    finally:
        runtime.close()


async def _until(stopping: asyncio.Event, growth: Growth, health: Health, configuration: Configuration) -> None:
    server = Server(growth, health)
    port = await server.start(configuration.listen_host, configuration.listen_port)
    log.info("growth listens", host=configuration.listen_host, port=port)
    thinks = SystemRuntime(configuration.plans.solve_memory_mib)
    page = await _serve_page(growth, configuration.page, thinks)
    running = asyncio.create_task(growth.run())
    ended = asyncio.create_task(stopping.wait())
    growth.runtime.spawn("freeze", _freeze_when_full(growth))
    health.start()
    await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    log.info("growth stops")
    if not running.done():
        running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    if page is not None:
        await page.stop()
    thinks.close()
    await server.stop()


async def _serve_page(growth: Growth, settings: PageSettings, thinks: Runtime) -> PageServer | None:
    """Nobody's machines wait for a page: where it cannot be served, growth runs without it."""
    if not settings.enabled:
        return None
    reviews = Reviews(growth.client, growth.runtime.monotonic) if settings.is_exposed else None
    guard = Guard(settings.hosts, is_exposed=settings.is_exposed, reviews=reviews)
    page = PageServer(RunningGrowth(growth, thinks), guard, explain_on_page)
    try:
        port = await page.start(settings.host, settings.port)
    except OSError as error:
        log.warning("the page is not served", host=settings.host, port=settings.port, why=str(error))
        await page.stop()
        return None
    log.info("growth shows its page", url=f"http://{settings.host}:{port}/", exposed=settings.is_exposed)
    return page


async def _freeze_when_full(growth: Growth) -> None:
    """What fills the caches stays: looking through it for garbage again and again would hold up the loop."""
    while not growth.is_filled:
        await growth.runtime.sleep(1.0)
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def _leadership(
    configuration: Configuration, connection: Connection, runtime: Runtime, stopping: asyncio.Event
) -> AsyncIterator[tuple[Fence, ElectionThread | None]]:
    """Whether this process may write: always, or while it holds the Lease."""
    if not configuration.leader_election:
        yield OpenFence(runtime.monotonic), None
        return
    identity = f"{socket.gethostname()}-{runtime.new_id()[:8]}"
    lease = configuration.lease
    log.info("growth contends for leadership", identity=identity, lease=f"{lease.namespace}/{lease.name}")

    @asynccontextmanager
    async def open_election(fence: Fence) -> AsyncIterator[Election]:
        async with HttpTransport(connection) as transport:
            yield Election(transport, runtime, identity, lease, fence)

    thread = ElectionThread(Fence(runtime.monotonic, lease.gap_seconds), open_election)
    thread.start()
    runtime.spawn("lease watch", _stop_without_lease(thread, runtime, stopping))
    try:
        yield thread.fence, thread
    finally:
        await asyncio.to_thread(thread.stop)


async def _stop_without_lease(thread: ElectionThread, runtime: Runtime, stopping: asyncio.Event) -> None:
    """A dead thread renews no more: end, to be started again."""
    while thread.alive:
        await runtime.sleep(1.0)
    log.error("the lease is no longer renewed")
    stopping.set()


def _installation(configuration: Configuration) -> Installation:
    paced = ClientSettings(
        requests_per_second=configuration.requests_per_second, burst=int(2 * configuration.requests_per_second)
    )
    return Installation(
        configuration.installation,
        configuration.plans,
        paced,
        only_observes=configuration.observe,
        serves_buffers=configuration.serves_buffers,
        serves_warm_pools=configuration.serves_warm_pools,
        metrics_name_tenants=configuration.metrics_name_tenants,
        join_tokens=configuration.join_tokens,
    )
