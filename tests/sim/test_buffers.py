"""A buffer's life in the embedded cluster: room is bought, used at once, bought again, kept, and given back; nothing is
lost by a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from growth.controllers.growth import Installation
from growth.kube.api.transport import Request, Response
from growth.model.settings import Settings
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import deployment, job, node_pool, pod_spec, stateful_set
from growth.sim.apiserver.streams import Answer
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

Json = dict[str, Any]
Test = Callable[[Cluster], Awaitable[None]]


def buffer(
    name: str = "spare", kind: str = "Deployment", of: str = "web", version: str = "v1beta1", **spec: Any
) -> Json:
    """For a workload, unless a template is named."""
    if "podTemplateRef" not in spec:
        spec.setdefault("scalableRef", {"apiGroup": {"Job": "batch"}.get(kind, "apps"), "kind": kind, "name": of})
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": f"autoscaling.x-k8s.io/{version}",
        "kind": "CapacityBuffer",
        "metadata": metadata,
        "spec": spec,
    }


def pod_template(name: str = "chunk", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": {"spec": pod_spec(**spec)},
    }


def in_cluster(
    test: Callable[[Cluster, GrowthProcess], Awaitable[None]], installation: Installation | None = None, **doors: Any
) -> None:
    """With one pool of four cores a node, and growth running."""

    async def run() -> None:
        cluster = Cluster("buffers")
        cluster.create(node_pool("default", "cx32"))
        process = GrowthProcess(cluster, installation, **{name: make(cluster) for name, make in doors.items()})
        process.start()
        await cluster.runtime.sleep(3)
        try:
            await test(cluster, process)
        finally:
            process.kill()
            await cluster.runtime.sleep(1)
        assert process.failures == []

    run_virtual(run())


def status(cluster: Cluster, name: str = "spare") -> Json:
    return dict(
        next(each for each in cluster.objects("CapacityBuffer") if each["metadata"]["name"] == name).get("status") or {}
    )


def reasons(cluster: Cluster, name: str = "spare") -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status(cluster, name).get("conditions", ())}


def running(cluster: Cluster, app: str = "web") -> int:
    mine = [each for each in cluster.objects("Pod") if each["metadata"].get("labels", {}).get("app") == app]
    return sum(each["status"]["phase"] == "Running" for each in mine)


async def until(cluster: Cluster, seconds: float, holds: Callable[[], bool]) -> float:
    began = cluster.runtime.monotonic()
    while not holds():
        assert cluster.runtime.monotonic() - began < seconds, "it did not happen in time"
        await cluster.runtime.sleep(0.1)
    return cluster.runtime.monotonic() - began


def is_provisioned(cluster: Cluster, name: str = "spare") -> Callable[[], bool]:
    return lambda: reasons(cluster, name).get("Provisioning") == "CapacityProvisioned"


def has_size(cluster: Cluster, size: int, name: str = "spare") -> Callable[[], bool]:
    return lambda: status(cluster, name).get("replicas") == size


def test_room_is_bought_used_at_once_bought_again_kept_and_given_back() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 0, cpu="1", memory="1Gi"), buffer(replicas=5))
        await until(cluster, 120, is_provisioned(cluster))
        nodes = {each["metadata"]["name"] for each in cluster.objects("Node")}
        assert len(nodes) == 2
        assert [each["spec"]["reason"] for each in cluster.objects("NodeRequest")] == ["Buffer", "Buffer"]
        assert status(cluster)["podTemplateRef"] == {"name": "capacitybuffer-spare-pod-template"}
        cluster.scale("Deployment", "web", 5)
        assert await until(cluster, 20, lambda: running(cluster) == 5) < 10, "no machine had to be waited for"
        bound = {each["spec"]["nodeName"] for each in cluster.objects("Pod")}
        assert bound <= nodes
        await until(cluster, 120, lambda: len(cluster.objects("Node")) > 2 and is_provisioned(cluster)())
        kept = len(cluster.objects("Node"))
        await cluster.runtime.sleep(1800)
        assert len(cluster.objects("Node")) == kept, "consolidation keeps the buffer"
        writes = cluster.api.writes_asked
        await cluster.runtime.sleep(1800)
        assert cluster.api.writes_asked == writes, "at rest nothing is written"
        cluster.scale("Deployment", "web", 0)
        cluster.delete("CapacityBuffer", "spare", "default")
        await until(cluster, 600, lambda: not cluster.objects("Node"))
        assert cluster.objects("PodTemplate") == []

    in_cluster(test)


def test_a_percentage_follows_the_workload_up_and_down() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 4, cpu="500m", memory="256Mi"), buffer(percentage=50))
        for replicas, size in ((4, 2), (10, 5), (3, 1), (0, 0)):
            cluster.scale("Deployment", "web", replicas)
            await until(cluster, 60, has_size(cluster, size))
        assert reasons(cluster)["ReadyForProvisioning"] == "BufferEmpty"

    in_cluster(test)


def test_upstream_sizing_is_a_setting() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 15, cpu="100m", memory="64Mi"), buffer(percentage=10))
        await until(cluster, 60, lambda: status(cluster).get("replicas") == 2)

    in_cluster(test, Installation(settings=Settings(buffer_sizing="upstream")))


def test_every_kind_of_reference_and_both_versions_work_and_a_new_template_is_noticed() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(
            stateful_set("db", 4, cpu="100m", memory="64Mi"),
            job("batch", 4, cpu="100m", memory="64Mi", run_seconds=9000), pod_template(cpu="1", memory="1Gi"),
            buffer("of-set", "StatefulSet", "db", percentage=50), buffer("of-job", "Job", "batch", percentage=50),
            buffer("of-template", podTemplateRef={"name": "chunk"}, replicas=2, version="v1alpha1"),
            buffer("of-limits", podTemplateRef={"name": "chunk"}, limits={"cpu": 3}),
        )  # fmt: skip
        for name, size in (("of-set", 2), ("of-job", 2), ("of-template", 2), ("of-limits", 3)):
            await until(cluster, 120, has_size(cluster, size, name))

        def set_cpu(item: Json) -> None:
            item["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"

        cluster.verbs.modify(BY_NAME["PodTemplate"], "chunk", "default", set_cpu, "user")
        await until(
            cluster,
            60,
            lambda: (
                status(cluster, "of-limits").get("replicas") == 2
                and status(cluster, "of-limits")["podTemplateGeneration"] == 2
            ),
        )

    in_cluster(test)


def test_what_cannot_be_served_is_told_on_the_buffer_and_others_are_not_affected() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(
            deployment("web", 0, cpu="1", memory="1Gi"), deployment("giant", 0, cpu="500", memory="1Gi"),
            buffer(replicas=1),
            buffer("lost", of="gone", replicas=1), buffer("huge", replicas=10_000_000),
            buffer("wide", of="giant", replicas=1),
            buffer("tight", limits={"cpu": "100m"}), buffer("odd", "NodePool", "default", replicas=1),
            buffer("theirs", provisioningStrategy="example.com/cold", replicas=3),
            buffer("untold", podTemplateRef={"name": "none"}, replicas=1),
        )  # fmt: skip
        await until(cluster, 120, is_provisioned(cluster))
        await cluster.runtime.sleep(20)
        found = {name: reasons(cluster, name) for name in ("lost", "huge", "wide", "tight", "odd", "untold")}
        assert {name: each["ReadyForProvisioning"] for name, each in found.items()} == {
            "lost": "ScalableRefNotFound", "huge": "ResolutionFailed", "wide": "AttributesSetSuccessfully",
            "tight": "BufferEmpty", "odd": "ResolutionFailed", "untold": "PodTemplateNotFound",
        }  # fmt: skip
        assert found["wide"]["Provisioning"] == "LimitedByPool"
        assert status(cluster, "theirs") == {}
        assert len(cluster.objects("Node")) == 1
        cluster.create(deployment("gone", 0, cpu="100m", memory="64Mi"))
        await until(cluster, 60, is_provisioned(cluster, "lost"))

    in_cluster(test)


def test_a_restart_rebuilds_the_same_state_from_objects_alone() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(
            deployment("web", 0, cpu="1", memory="1Gi"),
            buffer(replicas=5),
            buffer("more", of="web", limits={"cpu": "2"}),
        )
        await until(cluster, 120, lambda: is_provisioned(cluster)() and is_provisioned(cluster, "more")())
        nodes = [each["metadata"]["name"] for each in cluster.objects("Node")]
        await cluster.runtime.sleep(900)  # the records of the orders are gone by then
        process.kill()
        before = status(cluster)
        second = GrowthProcess(cluster, life=2).start()
        await cluster.runtime.sleep(900)
        assert [each["metadata"]["name"] for each in cluster.objects("Node")] == nodes
        assert status(cluster) == before
        assert not any(each.get("taints") for each in (node["spec"] for node in cluster.objects("Node")))
        second.kill()
        assert second.failures == []

    in_cluster(test)


@pytest.mark.parametrize("seconds", [0.3, 1.2, 1.6, 2.5, 20.0, 40.0])
def test_whenever_growth_dies_the_same_machines_are_bought(seconds: float) -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 0, cpu="1", memory="1Gi"), buffer(replicas=5))
        await cluster.runtime.sleep(seconds)
        process.kill()
        second = GrowthProcess(cluster, life=2).start()
        await until(cluster, 180, is_provisioned(cluster))
        await cluster.runtime.sleep(900)
        assert (len(cluster.objects("Node")), len(cluster.cloud.servers)) == (2, 2)
        second.kill()
        assert second.failures == []

    in_cluster(test)


def test_a_pool_autoscaler_sizes_a_buffer_through_its_scale() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        target = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "name": "spare"}
        bounds = {"scaleTargetRef": target, "minReplicas": 4, "maxReplicas": 6}
        cluster.create(deployment("web", 0, cpu="1", memory="1Gi"), buffer(replicas=1))
        await until(cluster, 120, has_size(cluster, 1))
        metadata = {"name": "spare", "namespace": "default"}
        cluster.create(
            {"apiVersion": "growth.dev/v1alpha1", "kind": "PoolAutoscaler", "metadata": metadata, "spec": bounds}
        )
        await until(cluster, 120, has_size(cluster, 4))

    in_cluster(test)


class OnlyTheOlderVersion:
    """An API server with a definition from before v1beta1."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def send(self, request: Request) -> Response:
        if "autoscaling.x-k8s.io/v1beta1" in request.path:
            return _not_found()
        if request.path == "/apis/autoscaling.x-k8s.io/v1alpha1":
            served = [{"name": "capacitybuffers", "kind": "CapacityBuffer", "namespaced": True}]
            return Answer(200, msgspec.json.encode({"kind": "APIResourceList", "resources": served}))
        return await self.cluster.api.send(request)


def test_a_definition_that_serves_only_the_older_version_without_a_scale_is_good_enough() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 0, cpu="1", memory="1Gi"), buffer(replicas=5, version="v1alpha1"))
        await until(cluster, 120, is_provisioned(cluster))
        assert "NoScaleOnBuffers" in {note.reason for note in process.growth.journal.latest(1000)}

    in_cluster(test, transport=OnlyTheOlderVersion)


def _not_found() -> Answer:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
        "message": "not found",
    }
    return Answer(404, msgspec.json.encode(body))


class WithoutTheKind:
    """An API server on which CapacityBuffer is not installed until `arrives`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.is_installed = False
        self.asked = 0

    async def send(self, request: Request) -> Response:
        if "autoscaling.x-k8s.io" in request.path and not self.is_installed:
            self.asked += 1
            return _not_found()
        return await self.cluster.api.send(request)


def test_a_missing_kind_is_one_warning_holds_nothing_up_and_is_noticed_when_it_comes() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        door: Any = process.door.transport
        cluster.create(deployment("web", 3, cpu="1", memory="1Gi"))
        await until(cluster, 120, lambda: running(cluster) == 3)
        await cluster.runtime.sleep(300)
        told = [note for note in process.growth.journal.latest(1000) if note.about.kind == "Resource"]
        assert [note.reason for note in told] == ["NoCapacityBuffers"]
        assert door.asked < 60
        cluster.create(buffer(replicas=2))
        door.is_installed = True
        await until(cluster, 180, is_provisioned(cluster))

    in_cluster(test, transport=WithoutTheKind)


def test_turned_off_by_its_gate_nothing_is_read_or_written() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 0, cpu="1", memory="1Gi"), buffer(replicas=5))
        await cluster.runtime.sleep(300)
        assert status(cluster) == {}
        assert cluster.objects("Node") == []
        assert not [watch for watch in cluster.api.watches if watch.selection.kind.name == "CapacityBuffer"]

    in_cluster(test, Installation(serves_buffers=False))


def test_only_what_buffers_refer_to_is_watched() -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        def followed() -> set[str]:
            return {watch.selection.kind.name for watch in cluster.api.watches if not watch.is_over}

        assert not followed() & {"Deployment", "PodTemplate", "LimitRange", "ResourceQuota", "Job"}
        cluster.create(deployment("web", 0, cpu="1", memory="1Gi"), buffer(replicas=1))
        await until(cluster, 120, is_provisioned(cluster))
        assert {"Deployment", "PodTemplate", "LimitRange", "ResourceQuota"} <= followed()
        assert "Job" not in followed()

    in_cluster(test)


@pytest.mark.parametrize("names_tenants", [True, False])
def test_metrics_say_how_buffers_stand_and_name_them_only_if_asked_to(names_tenants: bool) -> None:
    async def test(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(
            deployment("web", 0, cpu="1", memory="1Gi"), buffer(replicas=5), buffer("lost", of="gone", replicas=1)
        )
        await until(cluster, 120, is_provisioned(cluster))
        await cluster.runtime.sleep(120)
        process.growth.refresh_metrics()
        one = {"namespace": "default", "buffer": "spare"} if names_tenants else {"namespace": "", "buffer": ""}
        assert ("spare" in generate_latest(process.growth.metrics.registry).decode()) == names_tenants
        read = process.growth.metrics.registry.get_sample_value
        assert read("growth_buffer_virtual_pods", one) == 5
        assert read("growth_buffer_capacity_cpu_cores", one) == 5
        assert read("growth_buffer_capacity_memory_bytes", one) == 5 * 1024**3
        assert read("growth_buffer_nodes", one) == 2
        assert (read("growth_buffers", {"state": "Provisioned"}), read("growth_buffers", {"state": "Failed"})) == (1, 1)
        assert read("growth_buffer_consolidation_blocked_total") == 2

    in_cluster(test, Installation(metrics_name_tenants=names_tenants))


def test_the_overhead_of_a_runtime_class_is_kept_free_for_spare_pods_as_real_ones_need_it() -> None:
    """1.5 cores and 0.6 of overhead: one such pod fills a node of four cores, where two without it would fit."""

    async def test(cluster: Cluster, _process: GrowthProcess) -> None:
        cluster.create(
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "gvisor"},
                "overhead": {"podFixed": {"cpu": "600m"}},
            }
        )
        cluster.create(deployment("web", 1, cpu="1500m", memory="512Mi", runtimeClassName="gvisor"), buffer(replicas=1))
        await until(
            cluster,
            300,
            lambda: running(cluster) == 1 and reasons(cluster).get("Provisioning") == "CapacityProvisioned",
        )
        assert len(cluster.objects("Node")) == 2
        bought = len(cluster.objects("NodeRequest"))
        cluster.delete("CapacityBuffer", "spare", "default")
        cluster.scale("Deployment", "web", 2)
        await until(cluster, 30, lambda: running(cluster) == 2)
        assert len(cluster.objects("NodeRequest")) == bought

    in_cluster(test)
