"""Does growth stay small and quick next to a large cluster? 100,000 pods on 5,000 nodes, through transport, watches and
caches.

    python -m bench.scale [--pods 100000 --nodes 5000 --seconds 20 --burst 1000 --pending 50000] [--twice] [--json]
    python -m bench.scale --embedded [--changes 200] [--json]

| figure | |
| --- | --- |
| fill_cpu_seconds, mib | of growth until its caches are full and it leads; what it holds then |
| rest_cpu_share, requests_per_second, writes | while nothing changes, of one core; the lease is not counted |
| tick_ms | the CPU time of a turn of the loop in which nothing changed |
| judged_cpu_seconds | one look at all nodes: is it idle, could it be emptied? Nothing is remembered |
| churn_cpu_share | while 50 pods a second go and come |
| burst_cpu_seconds, burst_seconds | from 1,000 new pods of 20 classes to the last NodeRequest, worker included |
| stall_p999_ms, lease_late_seconds | how late a timer of the event loop fires; how much later than asked the lease is |
| pending_mib | the most that growth and its worker held after so many more pods that no limit lets it buy for |

Against a real API server and etcd, built as for the e2e tests. Nodes are made Ready and pods with their `nodeName`, and
nothing else runs: kwok, kube-scheduler and kube-controller-manager are stopped, for the leases and statuses of 5,000
nodes alone would fill a small machine. growth runs in a process of its own; everything of it is real. With `--embedded`
the API server is the embedded one, behind HTTP in a process of its own, and pods change all the time. With `--twice`
half of everything is measured before, and a row more says how many times as much the whole of it costs.

A small machine needs minutes for the large case: begin with `--nodes 500 --pods 10000 --pending 0`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys

import structlog

from bench.report import Report, main, measured, parser, resident_mib
from bench.scale_embedded import served_cluster
from bench.scale_growth import TimedFence, quantile, stand_for_election, started, tick_at_rest, watch_timer
from bench.scale_real import run_real
from growth.controllers.growth import Growth, Installation
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.http import HttpTransport
from growth.kube.auth.credentials import Connection, Credential
from growth.kube.election import LeaseSettings
from growth.providers.catalogue import built_in_catalogue
from growth.providers.kwok import KwokProvider


class Nobody:
    """The benchmark's server asks for no credentials."""

    async def current(self) -> Credential:
        return Credential()

    def refused(self, credential: Credential) -> None:
        raise AssertionError(f"the server refused {credential}")


def run(chosen: argparse.Namespace) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if not chosen.embedded:
        return run_real(chosen)
    report = Report(f"{chosen.pods:,} pods on {chosen.nodes:,} nodes")
    with served_cluster(chosen.pods, chosen.nodes, chosen.changes) as address:
        asyncio.run(_measure(report, f"pods_{chosen.pods}", address, chosen.seconds))
    return report


async def _measure(report: Report, case: str, address: str, seconds: float) -> None:
    runtime, fence = SystemRuntime(), TimedFence()
    lateness: list[float] = []
    connection = Connection(address, lambda: b"", Nobody())
    lease = LeaseSettings(namespace="default")
    thread = stand_for_election(fence, connection, runtime, lease)
    async with HttpTransport(connection) as transport:
        growth = Growth(
            transport,
            runtime,
            lambda client, _: KwokProvider(client, runtime, built_in_catalogue()),
            Installation(),
            fence,
        )
        stalls = asyncio.create_task(watch_timer(lateness))
        running = asyncio.create_task(growth.run())
        with measured() as filled:
            loop = await started(growth)
        gc.collect()
        gc.freeze()
        with measured() as steady:
            await asyncio.sleep(seconds)
        tick_seconds = await tick_at_rest(loop)
        for task in (stalls, running):
            task.cancel()
    await asyncio.to_thread(thread.stop)
    runtime.close()
    report.add(
        case,
        fill_cpu_seconds=filled.cpu_seconds,
        steady_cpu_share=steady.cpu_seconds / steady.wall_seconds,
        mib=resident_mib(),
    )
    report.add(
        case,
        tick_ms=1000 * tick_seconds,
        stall_p999_ms=1000 * quantile(lateness, 0.999),
        lease_late_seconds=fence.latest_seconds(lease.retry_seconds),
    )
    for figure, most in {"mib": 600.0, "tick_ms": 10.0, "stall_p999_ms": 200.0, "lease_late_seconds": 2.0}.items():
        report.limit(case, figure, most)


def _arguments() -> argparse.ArgumentParser:
    arguments = parser(__doc__)
    arguments.add_argument("--embedded", action="store_true", help="against the embedded API server")
    arguments.add_argument("--pending", type=int, default=50_000, help="pods that wait, at the end; only without")
    arguments.add_argument("--twice", action="store_true", help="half of it, too, and how cost grows; only without")
    arguments.add_argument("--burst", type=int, default=1_000, help="pods that come at once; only without")
    arguments.add_argument("--pods", type=int, default=100_000)
    arguments.add_argument("--nodes", type=int, default=5_000)
    arguments.add_argument("--changes", type=float, default=200.0, help="pod changes a second")
    arguments.add_argument("--seconds", type=float, default=20.0, help="how long to look on")
    return arguments


if __name__ == "__main__":
    sys.exit(main(_arguments(), run))
