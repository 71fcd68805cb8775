"""What growth measures of itself is what is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from growth.controllers.loop.metrics import UNPLACED, Metrics
from growth.kube.api.resources import NODE_REQUESTS
from growth.model.instant import format_instant
from growth.model.nodepool import PoolTrials, Trial
from growth.sim.apiserver.kinds import Json
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.clock import SimRuntime, run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess
from tests.controllers.act.gatehouse import Gatehouse
from tests.plan.builders import NOW, node, offering, pool, world


def counted(house: Gatehouse) -> float | None:
    house.observer.refresh_metrics()
    return house.metrics.registry.get_sample_value("growth_orphaned_machines")


def test_a_machine_that_no_object_speaks_of_is_counted_as_orphaned() -> None:
    async def scenario() -> list[float | None]:
        house = Gatehouse()
        house.shelf.put("known")
        house.shelf.put("forgotten")
        await house.open()
        before = counted(house)
        await house.put(NODE_REQUESTS, "known", spec={"pool": "default", "targetOffering": "sim-cx33"})
        return [before, counted(house)]

    assert run_virtual(scenario()) == [2.0, 1.0]


def sample(process: GrowthProcess, name: str, **labels: str) -> float | None:
    process.growth.refresh_metrics()
    return process.growth.metrics.registry.get_sample_value(name, labels)


def in_cluster(story: Callable[[Cluster, GrowthProcess], Awaitable[None]], *pools: Json) -> None:
    async def play() -> None:
        cluster = Cluster("metrics")
        cluster.create(*pools)
        process = GrowthProcess(cluster).start()
        await cluster.runtime.sleep(5)
        await story(cluster, process)
        assert process.failures == []

    run_virtual(play())


def test_series_whose_labels_are_known_begin_at_zero() -> None:
    async def story(_cluster: Cluster, process: GrowthProcess) -> None:
        assert sample(process, "growth_loop_failures_total", row="scale-up") == 0
        assert sample(process, "growth_actions_total", action="LaunchMachine", outcome="NoCapacity") == 0
        assert sample(process, "growth_provider_calls_total", call="delete", outcome="Refused") == 0
        assert sample(process, "growth_provider_calls_total", call="list", outcome="ProviderError") == 0
        assert sample(process, "growth_node_requests", phase="Unmet") == 0
        assert sample(process, "growth_node_removal_requests", phase="RemovalFailed") == 0
        assert sample(process, "growth_buffers", state="Failed") == 0
        assert [sample(process, "growth_unplaced", reason=reason) for reason in UNPLACED] == [0] * len(UNPLACED)

    in_cluster(story)


def test_demands_are_counted_and_those_without_a_place_by_reason() -> None:
    async def story(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.cloud.sold_out["sim-cx31", "fsn1"] = None
        apart = {"labelSelector": {"matchLabels": {"app": "twins"}}, "topologyKey": "topology.kubernetes.io/zone"}
        alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
        cluster.create(
            deployment("crowd", 3, "3", "1Gi", nodeSelector={"growth.dev/pool": "tight"}),
            deployment("sold-out", 1, "1", "1Gi", nodeSelector={"growth.dev/pool": "gone"}),
            deployment("giant", 1, "500", "1Gi", nodeSelector={"growth.dev/pool": "tight"}),
            deployment("twins", 2, "1", "1Gi", nodeSelector={"growth.dev/pool": "one-zone"}, affinity=alone),
            deployment("lost", 2, nodeSelector={"growth.dev/pool": "nowhere"}),
            deployment("homeless", 1),
        )
        await cluster.runtime.sleep(15)
        assert sample(process, "growth_demands") == 10
        found = {reason: sample(process, "growth_unplaced", reason=reason) for reason in UNPLACED}
        assert {reason: count for reason, count in found.items() if count} == {
            "Limited": 1, "NotForSale": 1, "NothingFits": 1, "Rules": 1, "MissingPool": 2, "NoPool": 1,
        }  # fmt: skip
        for name in ("crowd", "sold-out", "giant", "twins", "lost", "homeless"):
            cluster.scale("Deployment", name, 0)
        await cluster.runtime.sleep(60)
        assert sample(process, "growth_demands") == 0
        assert [sample(process, "growth_unplaced", reason=reason) for reason in UNPLACED] == [0] * len(UNPLACED)

    tight, gone = node_pool("tight", {"name": "CX33", "max": 2}), node_pool("gone", "CX31", locations=["fsn1"])
    in_cluster(story, tight, gone, node_pool("one-zone", "CX32", locations=["fsn1"]))


def test_each_node_is_measured_once_from_its_request_to_ready_and_from_its_removal_to_its_end() -> None:
    async def story(cluster: Cluster, process: GrowthProcess) -> None:
        cluster.create(deployment("web", 2, "3", "1Gi"))
        await cluster.runtime.sleep(120)
        assert sample(process, "growth_node_ready_duration_seconds_count", offering="sim-cx33") == 2
        seconds = sample(process, "growth_node_ready_duration_seconds_sum", offering="sim-cx33")
        assert seconds is not None
        assert 10 < seconds / 2 < 100
        cluster.scale("Deployment", "web", 0)
        await cluster.runtime.sleep(180)
        assert cluster.objects("Node") == []
        assert sample(process, "growth_node_removal_duration_seconds_count", offering="sim-cx33") == 2
        assert sample(process, "growth_provider_calls_total", call="delete", outcome="Accepted") == 2

    in_cluster(story, node_pool("default", "CX33"))


def test_machines_in_vain_their_price_and_pools_that_fail_are_told() -> None:
    small = offering("small", 2, 4096, 0.25)
    causes = tuple(
        Trial(f"default-pool-{number}", format_instant(NOW - 600 + number), small.name, small.location, "never Ready")
        for number in range(4)
    )
    broken = replace(pool(), status=replace(pool().status, trials=PoolTrials(in_vain=causes)))
    ill = [node(f"other-{number}", "other", of=small, is_ready=False) for number in range(2)]
    snapshot = world(pools=[broken, pool("other")], offerings=[small], nodes=ill)

    async def measure() -> dict[str, tuple[float | None, ...]]:
        metrics = Metrics(SimRuntime("metrics"))
        metrics.count(snapshot)
        names = ("growth_pool_failing", "growth_machines_in_vain", "growth_price_in_vain", "growth_pool_braked")
        return {
            each: tuple(metrics.registry.get_sample_value(name, {"pool": each}) for name in names)
            for each in ("default", "other")
        }

    assert run_virtual(measure()) == {"default": (1.0, 4.0, 1.0, 0.0), "other": (0.0, 0.0, 0.0, 1.0)}


def test_machines_that_are_granted_are_counted_by_pool() -> None:
    async def story(cluster: Cluster, process: GrowthProcess) -> None:
        assert sample(process, "growth_machines_bought_total", pool="default") == 0.0
        cluster.create(deployment("web", 2, cpu="3"))
        await cluster.runtime.sleep(120)
        assert sample(process, "growth_machines_bought_total", pool="default") == 2.0

    in_cluster(story, node_pool("default", "CX33"))
