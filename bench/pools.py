"""What do 10,000 PoolAutoscalers cost? One pass with nothing to do, one in which all take a sample, memory, and
requests to the API server.

    python -m bench.pools [--autoscalers 10000] [--json]

`quiet` is a pass in which nothing is due, `sampled` one in which every autoscaler takes a sample and decides that
nothing is to be done, `woken` one after a change of one pod. Of the autoscalers a third follows a count, a third a
share, a third a schedule. `mib` is what the nouns, the caches and the memory of the row hold together. `requests` are
counted at a real client, reflectors and loop on the embedded API server, from the start of growth until it has been at
rest for ten minutes: watches are shared, so it does not grow with the number of objects beyond their first status."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from typing import Any

import msgspec
import structlog

from bench.report import Report, main, measured, parser, resident_mib
from growth.kube.api.resources import POOL_AUTOSCALERS
from growth.kube.api.transport import Request, Response
from growth.kube.cache import Cache
from growth.kube.cache.pods import WarmPoolCache
from growth.kube.codec import Codec
from growth.model.action import WritePoolAutoscalerStatus
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.model.warmpool import SANDBOX_SET, WarmPoolView
from growth.plan.warm_pools import warm_pools
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

_START = 1_800_000_000.0
_POLICIES: tuple[dict[str, Any], ...] = (
    {"capacityPolicy": {"targetAvailable": 5, "tolerance": 2}},
    {"capacityPolicy": {"targetAvailable": "90%", "tolerance": "10%"}},
    {
        "cronPolicies": [
            {"name": "up", "schedule": "0 8 * * *", "targetReplicas": 9},
            {"name": "down", "schedule": "0 20 * * *", "targetReplicas": 5},
        ]
    },
)


def autoscaler(number: int, kind: str = "SandboxSet", group: str = "agents.kruise.io/v1alpha1") -> dict[str, Any]:
    reference = {"apiVersion": group, "kind": kind, "name": f"pool-{number}"}
    metadata = {
        "name": f"scaler-{number}",
        "namespace": f"team-{number % 50}",
        "uid": f"a-{number}",
        "generation": 1,
        "resourceVersion": "1",
    }
    spec = {"scaleTargetRef": reference, "maxReplicas": 100, **_POLICIES[number % len(_POLICIES)]}
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "PoolAutoscaler",
        "metadata": {**metadata, "creationTimestamp": "2027-01-15T08:00:00Z"},
        "spec": spec,
    }


def sandbox_set(number: int) -> dict[str, Any]:
    metadata = {
        "name": f"pool-{number}",
        "namespace": f"team-{number % 50}",
        "uid": f"p-{number}",
        "resourceVersion": "1",
    }
    return {"metadata": metadata, "spec": {"replicas": 5}, "status": {"replicas": 5, "availableReplicas": 5}}


class World:
    """Caches filled from bytes, and the row on them."""

    def __init__(self, count: int) -> None:
        self.autoscalers: Cache[PoolAutoscaler] = Cache(POOL_AUTOSCALERS, Codec())
        self.targets = WarmPoolCache(SANDBOX_SET)
        self.settings, self.ledger, self.now = Settings(), warm_pools.Ledger(), _START
        for cache, item in ((self.autoscalers, autoscaler), (self.targets, sandbox_set)):
            cache.relisting()
            cache.listed([msgspec.Raw(msgspec.json.encode(item(number))) for number in range(count)])
            cache.relisted("1")

    def decide(self) -> int:
        """One pass; statuses are written back as the API server would. How many actions there were."""
        view = WarmPoolView(self.targets.view())
        decision = warm_pools.plan(
            Snapshot(self.now, autoscalers=self.autoscalers.view(), warm_pools={SANDBOX_SET.name: view}),
            self.ledger,
            self.settings,
        )
        self.ledger = decision.ledger
        return sum(self._write(action) for action in decision.actions)

    def _write(self, action: Any) -> int:
        if not isinstance(action, WritePoolAutoscalerStatus):
            raise TypeError(f"nothing should be scaled: {action}")
        number = int(action.autoscaler.name.rpartition("-")[2])
        item = autoscaler(number) | {"status": msgspec.to_builtins(action.status)}
        item["metadata"]["resourceVersion"] = str(int(action.autoscaler.resource_version) + 1)
        self.autoscalers.learned(msgspec.json.encode(item))
        return 1


def run(chosen: argparse.Namespace) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    count: int = chosen.autoscalers
    report, case = Report(f"{count:,} PoolAutoscalers"), f"autoscalers_{count}"
    gc.collect()
    before = resident_mib()
    world = World(count)
    while world.decide():  # until every status says what it should
        world.now += 1
    gc.collect()
    report.add(case, mib=resident_mib() - before, **_passes(world))
    embedded = min(count, chosen.embedded)
    report.add(f"embedded_{embedded}", **run_virtual(_requests(embedded)))
    for figure, most in {"quiet_cpu_seconds": 1.0, "sampled_cpu_seconds": 1.0, "mib": 200.0}.items():
        report.limit(case, figure, most)
    report.limit(f"embedded_{embedded}", "requests_at_rest_a_minute", 60)
    return report


def _passes(world: World) -> dict[str, float]:
    with measured() as quiet:
        world.decide()
    world.now += world.settings.warm_pools.sampling_interval_seconds
    with measured() as sampled:
        world.decide()
    world.now += 0.01
    world.targets.scaled("team-0/pool-0", "p-0", 6)
    with measured() as woken:
        world.decide()
    return {
        "quiet_cpu_seconds": quiet.cpu_seconds,
        "sampled_cpu_seconds": sampled.cpu_seconds,
        "woken_cpu_seconds": woken.cpu_seconds,
    }


class Counting:
    """The API server, with a count of what is asked."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.requests = 0

    async def send(self, request: Request) -> Response:
        self.requests += 1
        return await self.cluster.api.send(request)


async def _requests(count: int) -> dict[str, float]:
    """All of growth on the embedded API server, with that many autoscalers of Deployments without pods."""
    cluster = Cluster("bench")
    transport = Counting(cluster)
    for number in range(count):
        spec: dict[str, Any] = {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}},
        }
        cluster.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": f"pool-{number}", "namespace": "default"},
                "spec": spec,
            }
        )
        item = autoscaler(number, "Deployment", "apps/v1")
        bounds = {"scaleTargetRef": item["spec"]["scaleTargetRef"], "maxReplicas": 9}
        cluster.create({**item, "metadata": {"name": f"scaler-{number}", "namespace": "default"}, "spec": bounds})
    process = GrowthProcess(cluster, transport=transport).start()
    await cluster.runtime.sleep(300)
    started = transport.requests
    await cluster.runtime.sleep(600)
    if process.failures:
        raise RuntimeError(f"growth failed: {process.failures}")
    return {"requests_to_start": started, "requests_at_rest_a_minute": (transport.requests - started) / 10}


def _arguments() -> argparse.ArgumentParser:
    arguments = parser(__doc__)
    arguments.add_argument("--autoscalers", type=int, default=10_000)
    arguments.add_argument("--embedded", type=int, default=1_000, help="how many to serve from the embedded API server")
    return arguments


if __name__ == "__main__":
    sys.exit(main(_arguments(), run))
