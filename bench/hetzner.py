"""What does buying at Hetzner cost in requests, and does anything leak? In the embedded cluster, on the fake Hetzner,
through the real client.

| case | what |
| --- | --- |
| bought | machines bought and given back while answers are lost, orders fail, machines never boot, lists lie, and
  stock and the limit of requests run out |
| rest | a thousand machines, one virtual hour, nothing happens |
| storm | every request refused (429) for ten minutes in the middle of buying |

    python -m bench.hetzner [--machines 300] [--seed bench] [--json]
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from msgspec.structs import replace

from bench.report import Report, main, measured, parser
from growth.controllers.growth import Installation
from growth.controllers.observe.supply import Supply
from growth.model.nodepool import PoolLimits
from growth.model.outcome import Accepted
from growth.model.settings import Settings
from growth.providers.contract import Order
from growth.providers.hetzner.provider import HetznerProvider
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.clock import run_virtual
from growth.sim.cloud.hetzner.embedded import HetznerCloud, provider_on
from growth.sim.cloud.hetzner.project import FakeTrouble
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

MANY = Installation(settings=Settings(limits=PoolLimits(nodes=10_000, price_per_hour="1000")))
TROUBLE = FakeTrouble(
    lost_before_effect=0.02,
    lost_after_effect=0.05,
    server_error=0.02,
    locked=0.03,
    creation_fails=0.03,
    never_boots=0.05,
    empty_lists=0.02,
    stale_lists=0.05,
)
AT_REST = 1000
STORM_SECONDS = 600.0
LIMITED_SECONDS = 120.0


def run(chosen: argparse.Namespace) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    report = Report("Hetzner: requests, leaks and price")
    cases: tuple[tuple[str, Callable[[Cluster, HetznerCloud], Awaitable[dict[str, float]]]], ...] = (
        (f"bought_{chosen.machines}", lambda cluster, cloud: buy(cluster, cloud, chosen.machines)),
        (f"rest_{AT_REST}", rest),
        ("storm", storm),
    )
    for name, work in cases:
        with measured() as spent:
            figures = run_virtual(_in_cluster(work, f"{chosen.seed}/{name}"))
        report.add(name, **figures, cpu_seconds=spent.cpu_seconds)
    for figure in ("leaked", "twice"):
        report.limit(f"bought_{chosen.machines}", figure, 0)
    report.limit(f"bought_{chosen.machines}", "price_off_percent", 2.0)
    report.limit(f"rest_{AT_REST}", "requests", 600)
    report.limit("storm", "too_early", 0)
    return report


async def _in_cluster(
    work: Callable[[Cluster, HetznerCloud], Awaitable[dict[str, float]]], seed: str
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(seed)
        return await work(cluster, HetznerCloud(cluster, Path(folder)))


async def buy(cluster: Cluster, cloud: HetznerCloud, machines: int) -> dict[str, float]:
    """One pod for each machine; the first choice is sold out before the last."""
    project, clock = cloud.project, cluster.runtime
    project.stock = {("cx33", "fsn1"): machines // 3, ("cx33", "nbg1"): machines // 3}
    project.trouble = TROUBLE
    GrowthProcess(cluster, MANY, provider_for=cloud.provider_for()).start()
    cluster.create(node_pool("default", "CX33"), deployment("web", machines, cpu="3", memory="2Gi"))
    await _until(cluster, lambda: len(project.servers) >= machines // 3, 7200)
    project.trouble = replace(TROUBLE, refused_until=clock.now() + LIMITED_SECONDS)
    await _until(cluster, lambda: _running(cluster) == machines, 7200)
    ran_after = clock.monotonic()
    project.trouble = FakeTrouble()
    await _until(cluster, lambda: len(project.servers) == machines, 3600)
    await clock.sleep(60)
    [pool] = cluster.objects("NodePool")
    price, planned = project.meter.price_per_hour(), float(pool["status"]["pricePerHour"])
    project.trouble = TROUBLE
    cluster.scale("Deployment", "web", 0)
    await clock.sleep(600)
    project.trouble = FakeTrouble()
    await clock.sleep(900)
    left = len(project.meter.running()) + sum(
        len(cluster.objects(kind)) for kind in ("Node", "NodeRequest", "NodeRemovalRequest")
    )
    return {
        "machines": machines,
        "servers_bought": len(project.meter.bills),
        "ran_after_seconds": ran_after,
        "requests": len(cloud.api.log),
        "leaked": left,
        "twice": len(project.meter.duplicates()),
        "price_off_percent": 100 * abs(price - planned) / planned,
    }


async def rest(cluster: Cluster, cloud: HetznerCloud) -> dict[str, float]:
    provider = provider_on(cloud.api, cloud.settings, cluster.runtime)
    await _fill(provider, cloud)
    await cluster.runtime.sleep(60)
    supply = Supply(provider, "bench", cluster.runtime)
    await supply.refresh()
    before = len(cloud.api.log)
    running = cluster.runtime.spawn("supply", supply.run())
    await cluster.runtime.sleep(3600)
    running.cancel()
    return {"machines": len(supply.machines), "requests": len(cloud.api.log) - before}


async def _fill(provider: HetznerProvider, cloud: HetznerCloud) -> None:
    order = Order("default-pool-0", "uid-0", "bench", "default", "hetzner-cx33", "fsn1")
    accepted = await provider.launch(order)
    if not isinstance(accepted, Accepted):
        raise TypeError(f"the first server was not bought: {accepted}")
    first = cloud.project.servers[int(accepted.machine_id)]
    for number in range(1, AT_REST):
        cloud.project.create(replace(first, id=0, name=f"default-pool-{number}", status="initializing"))


async def storm(cluster: Cluster, cloud: HetznerCloud) -> dict[str, float]:
    project, clock = cloud.project, cluster.runtime
    GrowthProcess(cluster, Installation(), provider_for=cloud.provider_for()).start()
    cluster.create(node_pool("default", "CX33"), deployment("web", 30, cpu="3", memory="2Gi"))
    await _until(cluster, lambda: len(project.servers) >= 10, 600)
    ends = clock.now() + STORM_SECONDS
    project.trouble.refused_until = ends
    await clock.sleep(STORM_SECONDS - 1)
    first = min((one.at for one in cloud.api.log if one.status == 429), default=ends)
    early = sum(
        first + 1 < one.at < ends for one in cloud.api.log
    )  # what was on its way within that second could not know
    await _until(cluster, lambda: _running(cluster) == 30, 1200)
    return {"machines": len(project.servers), "requests": len(cloud.api.log), "too_early": early}


async def _until(cluster: Cluster, holds: Callable[[], bool], seconds: float) -> None:
    deadline = cluster.runtime.monotonic() + seconds
    while not holds():
        if cluster.runtime.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} virtual seconds")
        await cluster.runtime.sleep(5)


def _running(cluster: Cluster) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in cluster.objects("Pod"))


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--machines", type=int, default=300)
    arguments.add_argument("--seed", default="bench")
    sys.exit(main(arguments, run))
