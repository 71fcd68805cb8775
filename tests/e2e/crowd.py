"""Many nodes and pods in a real cluster, quickly: made in parallel through growth's own client, bound by whoever
schedules, measured by the audit log.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import pstdev
from typing import Any, TypeVar

from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import NODES, PODS
from growth.model.instant import parse_instant
from growth.model.quantity import milli_value
from tests.e2e.controlplane.cleaning import NotCleanError
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import kwok_node
from tests.e2e.talking import speaking

Json = dict[str, Any]
Item = TypeVar("Item")

UNHURRIED = ClientSettings(requests_per_second=10_000.0, burst=10_000)
AT_ONCE = 32
PRICES = {"8": 0.2, "16": 0.4}  # by cores


class Rate(Struct, frozen=True):
    """How quickly pods were bound, and how they stand."""

    bound: int
    per_second: float
    load_deviation: float  # of the share of cpu taken, over all nodes
    price_per_hour: float  # of nodes with pods


def empty(cluster: ControlPlane) -> None:
    """Thousands of objects may take longer to go than the cleaner's minute."""
    for _ in range(2):
        try:
            return cluster.clean()
        except NotCleanError:
            continue
    return cluster.clean()


def nodes(count: int) -> list[Json]:
    return [
        kwok_node(
            f"crowd-{number:03d}",
            cpu="8" if number % 2 else "16",
            memory="64Gi",
            labels={"topology.kubernetes.io/zone": f"zone-{number % 3}"},
        )
        for number in range(count)
    ]


def pods(count: int, scheduler: str) -> list[Json]:
    """Ten templates: eight plain ones of different sizes, one with hostname anti-affinity, one spread over zones."""
    return [_pod(number, number % 10, scheduler) for number in range(count)]


def _pod(number: int, template: int, scheduler: str) -> Json:
    app = f"crowd-{template}"
    requests = {"cpu": f"{100 + 50 * (template % 4)}m", "memory": f"{128 * (1 + template % 3)}Mi"}
    spec: Json = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "image": "registry.invalid/main:1", "resources": {"requests": requests}}],
    }
    likes = {"matchLabels": {"app": app}}
    if template == 8:
        term = {"labelSelector": likes, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if template == 9:
        rule = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": likes,
        }
        spec["topologySpreadConstraints"] = [rule]
    metadata = {"name": f"{app}-{number:05d}", "namespace": "default", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def create(cluster: ControlPlane, made: Sequence[Json]) -> None:
    async def post(client: Client, item: Json) -> None:
        await client.create(NODES if item["kind"] == "Node" else PODS, item)

    _in_parallel(cluster, made, post)


def wait_until_served(cluster: ControlPlane, timeout_seconds: float = 60) -> None:
    """Until kwok and the controllers have done all that new nodes make them do: who is measured meanwhile would have
    half of the machine.
    """
    connection = cluster.connect()
    try:
        cluster.wait_until(
            lambda: not any(each["spec"].get("taints") for each in connection.get("/api/v1/nodes")["items"]),
            "no node has a taint",
            timeout_seconds,
        )
    finally:
        connection.close()


def bind_blindly(cluster: ControlPlane, names: Sequence[str], targets: Sequence[str]) -> None:
    """Nothing but Binding requests: what the API server can do at most."""

    async def bind(client: Client, pair: tuple[str, str]) -> None:
        await client.bind(pair[0], "default", pair[1])

    _in_parallel(cluster, [(name, targets[number % len(targets)]) for number, name in enumerate(names)], bind)


def _in_parallel(
    cluster: ControlPlane, items: Sequence[Item], perform: Callable[[Client, Item], Awaitable[None]]
) -> None:
    waiting = list(reversed(items))

    async def work(client: Client) -> None:
        while waiting:
            await perform(client, waiting.pop())

    async def run() -> None:
        async with speaking(cluster.kubeconfig, UNHURRIED) as client:
            await asyncio.gather(*(work(client) for _ in range(AT_ONCE)))

    asyncio.run(run())


def wait_until_bound(cluster: ControlPlane, timeout_seconds: float, but: int = 0) -> None:
    """Until all pods are bound but so many. Asks over one connection: a kubectl for each look would take half of the
    machine from those who are measured.
    """
    connection = cluster.connect()
    waiting = f"/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D&limit={but + 1}"
    try:
        cluster.wait_until(
            lambda: len(connection.get(waiting)["items"]) <= but, f"all pods but {but} are bound", timeout_seconds
        )
    finally:
        connection.close()


class Meter:
    """CPU seconds of the control plane's programs, and of others by their id, since it was made."""

    def __init__(self, cluster: ControlPlane, **others: int) -> None:
        self._ids = {name: process.pid for name, process in cluster.processes.items() if process.alive} | others
        self._before = self._now()

    def spent(self) -> dict[str, float]:
        return {name: seconds - self._before[name] for name, seconds in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: _cpu_seconds(number) for name, number in self._ids.items()}


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(cluster: ControlPlane, count: int) -> Rate:
    """By the bindings in the audit log: from the first to the last."""

    def bindings() -> list[float]:
        found = (event for event in cluster.audit_events() if event.resource == "pods/binding" and event.code == 201)
        return sorted(parse_instant(event.stage_timestamp) for event in found)

    cluster.wait_until(lambda: len(bindings()) >= count, "the audit log to show every binding", 30)
    at = bindings()
    load, used = _load(cluster)
    return Rate(len(at), (len(at) - 1) / max(1e-9, at[-1] - at[0]), pstdev(load), sum(used))


def _load(cluster: ControlPlane) -> tuple[list[float], list[float]]:
    """The share of cpu that is taken on each node, and the prices of nodes that hold pods."""
    taken: Counter[str] = Counter()
    ours = (
        pod for pod in cluster.objects("pods", "--namespace=default") if pod["metadata"]["name"].startswith("crowd-")
    )
    for pod in ours:  # a controller may still make one of the test before
        taken[pod["spec"]["nodeName"]] += milli_value(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    all_nodes = {node["metadata"]["name"]: node["status"]["allocatable"]["cpu"] for node in cluster.objects("nodes")}
    return [taken[name] / milli_value(cpu) for name, cpu in all_nodes.items()], [
        PRICES[cpu] for name, cpu in all_nodes.items() if taken[name]
    ]
