"""A hostile tenant writes hundreds of objects of the kinds it may write: the pods of others are bound as fast as
without them, and what growth asks of the API server stays bounded.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from growth.kube.api.transport import Request, Response, Transport
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.apiserver.streams import Answer
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess
from tests.sim import test_buffers as buffers

Json = dict[str, Any]
MANY = 200
MOST_WATCHES = 50
SLOWER = 1.2

REFERENCES = (
    ("apps", "Deployment", "gone-{}"),
    ("apps", "StatefulSet", "gone-{}"),
    ("apps", "ReplicaSet", "gone-{}"),
    ("batch", "Job", "gone-{}"),
    ("", "ReplicationController", "gone-{}"),
    ("apps", "DaemonSet", "x-{}"),
    ("autoscaling.x-k8s.io", "CapacityBuffer", "hostile-{}"),
    ("group-{}.example.com", "Anything", "x"),
    ("apps", "Kind{}", "x"),
    ("", "Pod", "x-{}"),
    ("", "Secret", "x-{}"),
)


def buffer(number: int) -> Json:
    group, kind, name = (part.format(number) for part in REFERENCES[number % len(REFERENCES)])
    spec: Json = {"scalableRef": {"apiGroup": group, "kind": kind, "name": name}, "replicas": 1_000_000}
    if number % 7 == 0:
        spec = {"podTemplateRef": {"name": f"none-{number}"}, "limits": {"cpu": "1e30"}}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": f"hostile-{number}", "namespace": "hostile"},
        "spec": spec,
    }


def autoscaler(number: int) -> Json:
    kinds = (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer"))
    version, kind = (*kinds, ("example.com/v1", f"Kind{number}"))[number % 4]
    spec: Json = {
        "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": f"hostile-{number}"},
        "minReplicas": number,
        "maxReplicas": 1_000_000,
    }
    if number % 3 == 0:
        policies = [
            {"name": f"p{each}", "schedule": "* * * * *", "timeZone": "Europe/Berlin", "targetReplicas": each}
            for each in range(20)
        ]
        spec["cronPolicies"] = policies
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "PoolAutoscaler",
        "metadata": {"name": f"hostile-{number}", "namespace": "hostile"},
        "spec": spec,
    }


class Tap:
    """Counts requests by minute."""

    def __init__(self, cluster: Cluster) -> None:
        self.asked: Counter[int] = Counter()
        self._inner: Transport = cluster.api
        self._clock = cluster.runtime

    async def send(self, request: Request) -> Response:
        self.asked[int(self._clock.monotonic() // 60)] += 1
        return await self._inner.send(request)


class Run:
    """What one run showed."""

    def __init__(self) -> None:
        self.bound_seconds = 0.0
        self.watches = 0
        self.requests_a_minute = 0


def run(hostile: list[Json]) -> Run:
    async def story() -> Run:
        cluster, found = Cluster("tenants"), Run()
        tap = Tap(cluster)
        cluster.create(node_pool("default", "cx32"))
        for name in ("hostile", "quiet"):
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for each in hostile:
            cluster.create(each)
        process = GrowthProcess(cluster, transport=tap).start()
        await cluster.runtime.sleep(30)
        for each in hostile[::2]:  # and makes half of them anew, all at once
            cluster.delete(each["kind"], each["metadata"]["name"], "hostile")
            cluster.create(each)
        web = deployment("web", 8, "2", "1Gi")
        web["metadata"]["namespace"] = "quiet"
        cluster.create(web)
        began_at = cluster.runtime.monotonic()
        while sum(bool(pod["spec"].get("nodeName")) for pod in cluster.objects("Pod")) < 8:
            assert cluster.runtime.monotonic() < began_at + 600
            await cluster.runtime.sleep(0.5)
            found.watches = max(found.watches, sum(not each.is_over for each in cluster.api.watches))
        found.bound_seconds = cluster.runtime.monotonic() - began_at
        await cluster.runtime.sleep(120)
        found.watches = max(found.watches, sum(not each.is_over for each in cluster.api.watches))
        found.requests_a_minute = max(tap.asked.values())
        process.kill()
        assert process.failures == []
        return found

    return run_virtual(story())


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param([buffer(number) for number in range(MANY)], id="CapacityBuffers"),
        pytest.param([autoscaler(number) for number in range(MANY)], id="PoolAutoscalers"),
    ],
)
def test_pods_of_others_are_bound_as_fast_as_without_the_hostile_tenant(hostile: list[Json]) -> None:
    alone, beside = run([]), run(hostile)
    assert beside.requests_a_minute <= 1200, "20 a second, of the 200 that growth may ask"
    assert beside.bound_seconds <= SLOWER * alone.bound_seconds
    assert beside.watches <= MOST_WATCHES


class WithAKindThatFails:
    """An API server that has a kind which nobody can read."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def send(self, request: Request) -> Response:
        return Answer(503, b"") if "/jobs" in request.path else await self.cluster.api.send(request)


def test_a_buffer_whose_size_is_lost_keeps_nodes_for_a_quarter_of_an_hour_and_says_so() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 8, cpu="1", memory="1Gi"), buffers.buffer(replicas=1))
        await buffers.until(cluster, 120, buffers.is_provisioned(cluster))
        reference = {"apiGroup": "batch", "kind": "Job", "name": "any"}

        def rename(item: Json) -> None:
            item["spec"]["scalableRef"] = reference

        cluster.verbs.modify(BY_NAME["CapacityBuffer"], "spare", "default", rename, "user")
        cluster.delete("PodTemplate", "capacitybuffer-spare-pod-template", "default")
        cluster.scale("Deployment", "web", 0)
        await cluster.runtime.sleep(840)
        told = [note.message for note in process.growth.journal.latest(100) if note.reason == "RoomNotKnown"]
        assert len(cluster.objects("Node")) == 3
        assert [each.partition(": ")[2] for each in told] == ["no node is given back meanwhile, for at most 15 minutes"]
        await buffers.until(cluster, 600, lambda: not cluster.objects("Node"))
        told = [note.message for note in process.growth.journal.latest(100) if note.reason == "RoomNotKnown"]
        assert "nodes are given back without regard to it" in told[-1]

    buffers.in_cluster(test, transport=WithAKindThatFails)
