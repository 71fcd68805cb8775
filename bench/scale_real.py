"""`bench.scale` against a real API server: fills it, starts growth in a process of its own, and measures it from
outside (CPU and memory) and from inside (ticks, stalls, requests), phase by phase. The figures: `bench/scale.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import structlog
from msgspec.structs import replace

from bench.manifests import pod_object
from bench.report import Report, family_cpu_seconds, family_mib, family_peak_mib
from bench.scale_growth import TimedFence, quantile, stand_for_election, started, tick_at_rest, watch_timer
from growth.controllers.configuration import cluster_id
from growth.controllers.growth import Growth, Installation
from growth.controllers.loop.loop import Loop
from growth.controllers.loop.runtime import SystemRuntime, run_loop
from growth.kube.api.client import Client
from growth.kube.api.http import HttpTransport
from growth.kube.api.resources import NODE_REQUESTS, PODS
from growth.kube.api.transport import Request, Response, Transport
from growth.kube.auth.kubeconfig import load_connection
from growth.kube.election import LeaseSettings
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL
from growth.model.nodepool import PoolLimits
from growth.model.settings import Settings
from growth.model.snapshot import Memo
from growth.plan.nodes_down import consolidation, scale_down
from growth.plan.nodes_down.budgets import Recent
from growth.providers.catalogue import built_in_catalogue
from growth.providers.contract import Order
from growth.providers.kwok import KwokProvider
from tests.e2e.controlplane import build
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.crowd import UNHURRIED, create
from tests.e2e.running import install, node_pool
from tests.e2e.talking import speaking

Json = dict[str, Any]

POOLS, TEMPLATES, AT_A_TIME = 12, 1_200, 5_000
TYPE, LOCATION = "cax41", "fsn1"  # 16 cores
POD = {"cpu": "750m", "memory": "1Gi"}  # twenty of them fill a node, so nothing that comes has room
BURST_CLASSES = 20
CHURN_PER_SECOND = 50
LONGEST_SECONDS = 120.0
MORE_NODES = 300  # than there are may be bought
HAS_WORKED = '{"status": {"trials": {"workedAt": "2026-01-01T00:00:00Z"}}}'  # a new pool is tried with few machines
NOT_NEEDED = ("kwok", "kube-scheduler", "kube-controller-manager")
LIMITS = {
    "fill_cpu_seconds": 60.0,
    "mib": 600.0,
    "rest_cpu_share": 0.05,
    "requests_per_second": 2.0,
    "writes": 0.0,
    "tick_ms": 10.0,
    "judged_cpu_seconds": 5.0,
    "churn_cpu_share": 0.25,
    "burst_cpu_seconds": 2.0,
    "stall_p999_ms": 200.0,
    "lease_late_seconds": 2.0,
    "pending_mib": 1024.0,
}
SIZES = ("pods", "nodes", "burst", "pending")  # what `--twice` halves
MOST_TIMES = {"tick_ms": 1.2, "burst_cpu_seconds": 2.1}


def run_real(chosen: argparse.Namespace) -> Report:
    report = Report(f"{chosen.pods:,} pods on {chosen.nodes:,} nodes of a real API server")
    if chosen.twice:
        half = argparse.Namespace(**{**vars(chosen), **{name: getattr(chosen, name) // 2 for name in SIZES}})
        _run_one(report, half)
        _run_one(report, chosen)
        report.twice(case_name(half), case_name(chosen), MOST_TIMES)
    else:
        _run_one(report, chosen)
    return report


def case_name(chosen: argparse.Namespace) -> str:
    return f"pods_{chosen.pods}"


def _run_one(report: Report, chosen: argparse.Namespace) -> None:
    case = case_name(chosen)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(build.obtain(print), Path(folder)) as cluster:
        install(cluster)
        for name in NOT_NEEDED:
            cluster.stop_component(name, kill=True)
        for number in range(POOLS):
            cluster.apply(node_pool(pool_name(number), TYPE, consolidation="Full"))
            cluster.kubectl(
                "patch", "nodepool", pool_name(number), "--subresource=status", "--type=merge", "-p", HAS_WORKED
            )
        began_at = time.monotonic()
        fill(cluster, chosen.nodes, chosen.pods)
        report.add(case, loaded_seconds=time.monotonic() - began_at)
        with growing(cluster.kubeconfig, chosen.nodes + MORE_NODES) as (process, ask):
            _measure(report, case, cluster, process, ask, chosen)
    for figure, most in LIMITS.items():
        if figure in report.cases[case]:
            report.limit(case, figure, most)


Ask = Callable[[str], Any]


def _measure(
    report: Report, case: str, cluster: ControlPlane, process: int, ask: Ask, chosen: argparse.Namespace
) -> None:
    report.add(case, fill_cpu_seconds=family_cpu_seconds(process), mib=family_mib(process))
    time.sleep(10.0)  # what is looked at once after a start is looked at
    ask("begin")
    report.add(case, rest_cpu_share=_share(process, lambda: time.sleep(chosen.seconds)))
    seen = ask("end")
    writes = sum(count for verb, count in seen["requests"].items() if verb not in ("GET", "lease"))
    asked = sum(seen["requests"].values())
    report.add(case, requests_per_second=asked / chosen.seconds, writes=writes, tick_ms=1000 * ask("tick"))
    report.add(case, judged_cpu_seconds=ask("judge"))
    ask("begin")
    report.add(case, churn_cpu_share=_share(process, lambda: churn(cluster, chosen)))
    before, began_at = family_cpu_seconds(process), time.monotonic()
    create(cluster, burst(chosen.burst))
    asyncio.run(asyncio.wait_for(_ordered(cluster, chosen.burst), LONGEST_SECONDS))
    report.add(case, burst_cpu_seconds=family_cpu_seconds(process) - before, burst_seconds=time.monotonic() - began_at)
    seen = ask("end")
    report.add(case, stall_p999_ms=1000 * seen["stall"], lease_late_seconds=seen["late"], busy_mib=family_mib(process))
    if chosen.pending:
        create_all(cluster, (waiting_pod(number) for number in range(chosen.pending)))
        time.sleep(30.0)
        report.add(case, pending_mib=family_peak_mib(process))


def _share(process: int, work: Callable[[], None]) -> float:
    """Of one core, that a process and its children take meanwhile."""
    before, began_at = family_cpu_seconds(process), time.monotonic()
    work()
    return (family_cpu_seconds(process) - before) / (time.monotonic() - began_at)


# ------------------------------------------------------------------------------------ what is there


def fill(cluster: ControlPlane, nodes: int, pods: int) -> None:
    async def whose() -> str:
        async with speaking(cluster.kubeconfig, UNHURRIED) as client:
            return await cluster_id(client, Installation().name)

    owner = asyncio.run(whose())
    create_all(cluster, (ready_node(number, owner) for number in range(nodes)))
    create_all(cluster, (bound_pod(number, nodes) for number in range(pods)))


def create_all(cluster: ControlPlane, made: Iterator[Json]) -> None:
    """So many at a time: all of them at once would be as large as the cluster."""
    some: list[Json] = []
    for item in made:
        some.append(item)
        if len(some) == AT_A_TIME:
            create(cluster, some)
            some = []
    create(cluster, some)


def pool_name(number: int) -> str:
    return f"pool-{number % POOLS}" if number % POOLS else "default"


def node_name(number: int) -> str:
    return f"{pool_name(number)}-pool-{number:012x}"


def ready_node(number: int, owner: str) -> Json:
    """As growth's kwok provider makes it, and Ready."""
    provider = KwokProvider(None, SystemRuntime(), built_in_catalogue())  # type: ignore[arg-type]  # asked for nothing
    pool, offering = pool_name(number), provider._offerings[f"kwok-{TYPE}", LOCATION]
    labels = Labels({POOL_LABEL: pool})
    order = Order(node_name(number), f"request-{number}", owner, pool, offering.name, LOCATION, labels)
    made = provider._node_for(order, offering)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {**made, "status": {**made["status"], "conditions": [ready]}}


def _pod(name: str, template: int, requests: Json, **spec: Any) -> Json:
    """Of the size of a real one, owned by a ReplicaSet; it is gone as soon as it is deleted."""
    made = json.loads(json.dumps(pod_object(template, is_bound=False)))
    kept = ("labels", "annotations", "ownerReferences")
    metadata = {key: made["metadata"][key] for key in kept if key in made["metadata"]}
    containers = made["spec"]["containers"]
    for number, container in enumerate(containers):
        container.pop("volumeMounts", None)
        container["resources"] = {"requests": requests if number == 0 else {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "name": name, "namespace": "default"},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec},
    }


def bound_pod(number: int, nodes: int, life: int = 0) -> Json:
    return _pod(f"pod-{number}-{life}", number % TEMPLATES, POD, nodeName=node_name(number % nodes))


def burst(pods: int) -> list[Json]:
    """None of them has room on what is there."""
    return [
        _pod(f"burst-{number}", number % BURST_CLASSES, {"cpu": f"{2000 + 100 * (number % BURST_CLASSES)}m"})
        for number in range(pods)
    ]


def waiting_pod(number: int) -> Json:
    return _pod(f"waiting-{number}", number % TEMPLATES, {"cpu": f"{2000 + 10 * (number % 40)}m"})


def churn(cluster: ControlPlane, chosen: argparse.Namespace) -> None:
    """Pods go and others come in their place, so many a second."""

    async def replace_one(client: Client, number: int) -> None:
        await client.delete(PODS, f"pod-{number}-0", "default")
        await client.create(PODS, bound_pod(number, chosen.nodes, life=1))

    async def run() -> None:
        async with speaking(cluster.kubeconfig, UNHURRIED) as client, asyncio.TaskGroup() as group:
            for number in range(min(chosen.pods, int(CHURN_PER_SECOND * chosen.seconds))):
                group.create_task(replace_one(client, number))
                await asyncio.sleep(1 / CHURN_PER_SECOND)

    asyncio.run(run())


async def _ordered(cluster: ControlPlane, pods: int) -> None:
    """Until NodeRequests name so many pods."""
    async with speaking(cluster.kubeconfig, UNHURRIED) as client:
        while True:
            items, _ = await client.list(NODE_REQUESTS)
            if sum(len(json.loads(bytes(item))["spec"].get("plannedPods") or ()) for item in items) >= pods:
                return
            await asyncio.sleep(0.2)


# ----------------------------------------------------------------------- growth, in its own process


@contextmanager
def growing(kubeconfig: Path, most_nodes: int) -> Iterator[tuple[int, Ask]]:
    """The id of a growth that leads, and how to ask it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_grow, args=(theirs, kubeconfig, most_nodes))
    process.start()

    def ask(what: str) -> Any:
        ours.send(what)
        return ours.recv()

    try:
        ours.recv()
        yield process.pid or 0, ask
        ask("stop")
        process.join(15)  # with its worker
    finally:
        process.terminate()
        process.join(10)


def _grow(pipe: Pipe, kubeconfig: Path, most_nodes: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    run_loop(_grow_until_told(pipe, kubeconfig, most_nodes))


class Counting:
    """A transport that counts what is asked for."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.requests: Counter[str] = Counter()

    async def send(self, request: Request) -> Response:
        self.requests[request.method] += 1
        return await self._transport.send(request)


async def _grow_until_told(pipe: Pipe, kubeconfig: Path, most_nodes: int) -> None:
    runtime, fence = SystemRuntime(), TimedFence()
    lease = LeaseSettings(namespace="default")
    connection = load_connection(runtime, kubeconfig)
    thread = stand_for_election(fence, connection, runtime, lease)
    settings = Settings(limits=PoolLimits(nodes=most_nodes, price_per_hour="100000"))
    async with HttpTransport(connection) as transport:
        line = Counting(transport)
        growth = Growth(
            line,
            runtime,
            lambda client, _: KwokProvider(client, runtime, built_in_catalogue()),
            Installation(settings=settings),
            fence,
        )
        running = asyncio.create_task(growth.run())
        loop = await started(growth)
        pipe.send("started")
        await _answer(pipe, line, loop, fence, lease, settings)
        running.cancel()
    await asyncio.to_thread(thread.stop)
    runtime.close()


async def _answer(
    pipe: Pipe, line: Counting, loop: Loop, fence: TimedFence, lease: LeaseSettings, settings: Settings
) -> None:
    lateness: list[float] = []
    stalls = asyncio.create_task(watch_timer(lateness))
    while True:
        asked = await asyncio.to_thread(pipe.recv)
        if asked == "begin":
            line.requests.clear()
            lateness.clear()
            fence.renewed_at.clear()
            pipe.send(None)
        elif asked == "end":
            late = fence.latest_seconds(lease.retry_seconds)
            pipe.send({"requests": dict(line.requests), "stall": quantile(lateness, 0.999), "late": late})
        elif asked == "tick":
            pipe.send(await tick_at_rest(loop))
        elif asked == "judge":
            pipe.send(_judged(loop, settings))
        else:
            stalls.cancel()
            pipe.send(None)
            return


def _judged(loop: Loop, settings: Settings) -> float:
    """CPU seconds of one look at all nodes by somebody who remembers nothing."""
    snapshot = loop.observer.snapshot()
    anew = replace(snapshot, memo=Memo())
    began_at = time.thread_time()
    scale_down.plan(anew, scale_down.Ledger(), settings)
    consolidation.plan(anew, consolidation.Ledger(recent=Recent(1.0)), settings)
    return time.thread_time() - began_at
