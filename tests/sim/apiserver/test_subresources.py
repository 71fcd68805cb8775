"""Binding, eviction and scale through growth's own client."""

from __future__ import annotations

import msgspec
import pytest

from growth.kube.api.errors import BlockedByBudget, Conflict, InternalError, KubeError, NotFound
from growth.kube.api.resources import DEPLOYMENTS, PODS
from growth.sim.apiserver.objects import deployment, disruption_budget, node, pod
from growth.sim.cluster import Cluster
from tests.sim.embedded import Bench, in_cluster, on_api_server, phases


def test_a_pod_is_bound_once() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(PODS, pod("a"))
        uid = (await bench.read(PODS, "a", "default"))["metadata"]["uid"]
        with pytest.raises(Conflict, match="UID in precondition"):
            await bench.client.bind("a", "default", "n", uid="another")
        await bench.client.bind("a", "default", "n", uid=uid)
        with pytest.raises(Conflict, match='already assigned to node "n"'):
            await bench.client.bind("a", "default", "m", uid=uid)
        bound = await bench.read(PODS, "a", "default")
        assert bound["spec"]["nodeName"] == "n"
        assert [(one["type"], one["status"]) for one in bound["status"]["conditions"]] == [("PodScheduled", "True")]

    on_api_server(test)


def test_a_gated_or_leaving_pod_is_not_bound() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(PODS, pod("gated", schedulingGates=[{"name": "wait"}]))
        with pytest.raises(Conflict, match="schedulingGates"):
            await bench.client.bind("gated", "default", "n")
        leaving = pod("leaving")
        leaving["metadata"]["finalizers"] = ["example.com/wait"]
        await bench.client.create(PODS, leaving)
        await bench.client.delete(PODS, "leaving", "default")
        with pytest.raises(Conflict, match="being deleted"):
            await bench.client.bind("leaving", "default", "n")
        with pytest.raises(NotFound):
            await bench.client.bind("missing", "default", "n")

    on_api_server(test)


def test_an_eviction_obeys_the_disruption_budget() -> None:
    async def test(cluster: Cluster) -> None:
        bench = Bench()
        bench.api, bench.client = cluster.api, type(bench.client)(cluster.api, bench.runtime)
        cluster.create(node("n1"), deployment("web", 3), disruption_budget("web", "web", minAvailable=2))
        await cluster.runtime.sleep(30)
        assert phases(cluster) == {"Running": 3}
        names = [one["metadata"]["name"] for one in cluster.objects("Pod")]
        await bench.client.evict(names[0], "default")
        with pytest.raises(BlockedByBudget) as refused:
            await bench.client.evict(names[1], "default")
        assert refused.value.retry_after_seconds == 10
        await cluster.runtime.sleep(30)
        assert phases(cluster) == {"Running": 3}
        await bench.client.evict(names[1], "default")

    in_cluster(test)


def test_a_pending_pod_is_evicted_whatever_the_budget() -> None:
    async def test(cluster: Cluster) -> None:
        bench = Bench()
        bench.client = type(bench.client)(cluster.api, bench.runtime)
        cluster.create(deployment("web", 1), disruption_budget("web", "web", minAvailable=1))
        await cluster.runtime.sleep(5)
        [name] = [one["metadata"]["name"] for one in cluster.objects("Pod")]
        await bench.client.evict(name, "default")
        assert name not in [one["metadata"]["name"] for one in cluster.objects("Pod")]

    in_cluster(test)


def test_two_budgets_on_one_pod_are_an_error_of_the_server() -> None:
    async def test(cluster: Cluster) -> None:
        bench = Bench()
        bench.client = type(bench.client)(cluster.api, bench.runtime)
        budgets = [disruption_budget(name, "web", maxUnavailable=1) for name in ("one", "two")]
        cluster.create(node("n1"), deployment("web", 1), *budgets)
        await cluster.runtime.sleep(30)
        [name] = [one["metadata"]["name"] for one in cluster.objects("Pod")]
        with pytest.raises(KubeError, match="more than one PodDisruptionBudget") as refused:
            await bench.client.evict(name, "default")
        assert not isinstance(refused.value, InternalError) or refused.value.code == 500

    in_cluster(test)


def test_scale_reads_and_sets_replicas_with_a_version() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(DEPLOYMENTS, deployment("web", 3))
        scale = msgspec.json.decode(await bench.client.scale(DEPLOYMENTS, "web", "default"))
        assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (3, "app=web")
        version = scale["metadata"]["resourceVersion"]
        await bench.client.set_scale(DEPLOYMENTS, "web", "default", 5, version)
        with pytest.raises(Conflict):
            await bench.client.set_scale(DEPLOYMENTS, "web", "default", 7, version)
        assert (await bench.read(DEPLOYMENTS, "web", "default"))["spec"]["replicas"] == 5
        with pytest.raises(NotFound):
            await bench.client.scale(PODS, "web", "default")

    on_api_server(test)
