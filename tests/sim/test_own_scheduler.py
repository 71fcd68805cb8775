"""growth as a scheduler in the embedded cluster: pods that name it are bound, told why not, and bring machines; taints
evict as they should.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.growth import Installation
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.sim.apiserver.admission import Admission
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import deployment, node_pool, pod_spec
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess
from growth.sim.stories.simulation import simulate

Json = dict[str, Any]
ON = Installation(settings=Settings(scheduler=SchedulerSettings(enabled=True), batch_quiet_seconds=0.2))


def in_cluster(test: Callable[[Cluster], Awaitable[None]], *objects: Json) -> None:
    async def run() -> None:
        cluster = Cluster("own scheduler")
        cluster.create(*objects)
        process = GrowthProcess(cluster, ON)
        process.start()
        try:
            await test(cluster)
        finally:
            process.kill()
            await cluster.runtime.sleep(1)
        assert process.failures == []

    run_virtual(run())


def ours(name: str, replicas: int, **spec: Any) -> Json:
    made = deployment(name, replicas, **spec)
    made["spec"]["template"]["spec"]["schedulerName"] = "growth"
    return dict(made)


def bound(cluster: Cluster) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in cluster.objects("Pod")
        if pod["spec"].get("nodeName")
    }


def condition(pod: Json) -> Json:
    return next((dict(one) for one in pod["status"].get("conditions") or [] if one["type"] == "PodScheduled"), {})


def test_pods_that_find_no_room_bring_machines_and_are_bound_there() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(ours("web", 5, cpu="1"))
        await cluster.runtime.sleep(120)
        assert len(bound(cluster)) == 5
        assert {pod["spec"]["schedulerName"] for pod in cluster.objects("Pod")} == {"growth"}
        cluster.scale("Deployment", "web", 6)  # room is left: nobody is asked for more
        requests = len(cluster.objects("NodeRequest"))
        await cluster.runtime.sleep(30)
        assert len(bound(cluster)) == 6
        assert len(cluster.objects("NodeRequest")) == requests

    in_cluster(test, node_pool("default", "cx32"))


def test_a_pod_without_room_says_so_as_people_know_it() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(ours("web", 1, cpu="1"))
        await cluster.runtime.sleep(10)
        (pod,) = cluster.objects("Pod")
        assert condition(pod) | {"lastTransitionTime": ""} == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/0 nodes are available",
            "lastTransitionTime": "",
        }
        told = [each for each in cluster.objects("Event") if each["reason"] == "FailedScheduling"]
        assert [each["note"] for each in told] == ["0/0 nodes are available"]
        writes = cluster.store.version
        await cluster.runtime.sleep(60)
        heard = cluster.store.version - writes
        assert heard == 0  # at rest nothing is written

    in_cluster(test)


def test_the_event_of_a_pod_that_was_placed_is_the_familiar_one() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(ours("web", 1, cpu="1"))
        await cluster.runtime.sleep(120)
        ((name, node),) = bound(cluster).items()
        cluster.create(ours("more", 1, cpu="100m"))
        await cluster.runtime.sleep(10)
        (more,) = {other for other in bound(cluster) if other != name}
        assert [each["note"] for each in cluster.objects("Event") if each["reason"] == "Scheduled"] == [
            f"Successfully assigned default/{more} to {node}"
        ]

    in_cluster(test, node_pool("default", "cx32"))


def test_a_pod_made_by_hand_with_the_scheduler_name_is_bound() -> None:
    async def test(cluster: Cluster) -> None:
        spec = {**pod_spec(cpu="500m"), "schedulerName": "growth"}
        cluster.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "default"}, "spec": spec}
        )
        await cluster.runtime.sleep(90)
        assert list(bound(cluster)) == ["alone"]
        assert cluster.store.read(BY_NAME["Pod"], "alone", "default")["status"]["phase"] == "Running"  # type: ignore[index]

    in_cluster(test, node_pool("default", "cx32"))


@pytest.mark.parametrize("seed", ["own-1", "own-3"])
def test_the_laws_hold_under_faults_when_growth_schedules_every_pod(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods but those of DaemonSets belong to growth; users, faults and deaths are drawn as for any other seed."""
    complete, begin = Admission._complete_pod, GrowthProcess.__init__

    def complete_as_ours(admission: Admission, pod: Json) -> None:
        owners = pod["metadata"].get("ownerReferences") or []
        if not any(owner["kind"] == "DaemonSet" for owner in owners):
            pod.setdefault("spec", {}).setdefault("schedulerName", "growth")
        complete(admission, pod)

    def begin_with_scheduler(
        process: GrowthProcess, cluster: Cluster, installation: Installation, *others: Any, **named: Any
    ) -> None:
        settings = replace(installation.settings, scheduler=SchedulerSettings(enabled=True))
        begin(process, cluster, replace(installation, settings=settings), *others, **named)

    monkeypatch.setattr(Admission, "_complete_pod", complete_as_ours)
    monkeypatch.setattr(GrowthProcess, "__init__", begin_with_scheduler)
    report = simulate(seed)
    assert report.violations == ()
    assert report.bound
