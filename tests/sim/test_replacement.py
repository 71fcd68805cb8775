"""Nodes replaced by cheaper ones in the embedded cluster: bought first, never below capacity, undone when a purchase
fails, whole after a crash.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from growth.model.instant import parse_instant
from growth.model.settings import Settings
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from tests.sim.lives import Lives
from tests.sim.test_consolidation import marks, running, until

Json = dict[str, Any]
QUICK = Settings(
    scale_down_delay_seconds=5.0,
    settling_seconds=120.0,
    disruption_window_seconds=0.0,
    consolidation_interval_seconds=5.0,
)
TYPES = ("cax41", "cax21", "cax11")


def in_cluster(test: Callable[[Cluster, Lives], Awaitable[None]], settings: Settings = QUICK) -> None:
    """A pool that may buy large nodes only, until the test lets it buy small ones."""

    async def run() -> None:
        cluster = Cluster("replacement")
        cluster.create(node_pool("default", "cax41", consolidation="Full", budgets=[{"nodes": "100%"}]))
        process = Lives(cluster, settings)
        process.start()
        await cluster.runtime.sleep(3)
        try:
            await test(cluster, process)
        finally:
            process.die()
            await cluster.runtime.sleep(1)
        assert process.failures == []

    run_virtual(run())


def allow(cluster: Cluster, *types: str) -> None:
    def change(item: Json) -> None:
        item["spec"]["serverTypes"] = [{"name": name} for name in types]

    cluster.verbs.modify(BY_NAME["NodePool"], "default", "", change, "user")


def types(cluster: Cluster) -> list[str]:
    return sorted(
        node["metadata"]["labels"].get("node.kubernetes.io/instance-type", "") for node in cluster.objects("Node")
    )


async def one_large_node(cluster: Cluster) -> None:
    cluster.create(deployment("web", 12, "1", "512Mi"))
    await until(cluster, 300, lambda: running(cluster) == 12, "all run")
    cluster.scale("Deployment", "web", 5)
    await until(cluster, 120, lambda: running(cluster) == 5, "the others are gone")
    assert types(cluster) == ["cax41"]
    allow(cluster, *TYPES)


def _is_fresh(cluster: Cluster, item: Json) -> bool:
    return cluster.runtime.now() - parse_instant(item["metadata"]["creationTimestamp"]) < 10


def test_a_large_node_is_replaced_by_cheaper_ones_and_no_pod_waits_for_room() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        await one_large_node(cluster)
        before = cluster.cloud.price_per_hour()
        while "cax41" in types(cluster):
            assert cluster.runtime.monotonic() < 1800, "the large node is still there"
            assert all(_is_fresh(cluster, each) for each in cluster.objects("Pod") if not each["spec"].get("nodeName"))
            await cluster.runtime.sleep(1)
        await until(cluster, 60, lambda: running(cluster) == 5, "all run again")
        assert cluster.cloud.price_per_hour() < before
        await cluster.runtime.sleep(900)
        assert not marks(cluster)
        assert not cluster.objects("NodeRemovalRequest")
        bought = len(cluster.cloud.creates)
        await cluster.runtime.sleep(7200)
        assert len(cluster.cloud.creates) == bought  # nothing is undone

    in_cluster(test)


def test_what_is_sold_out_is_given_up_and_nothing_is_left_behind() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        for offering in await cluster.cloud.sold():
            if offering.server_type.lower() in ("cax21", "cax11"):
                cluster.cloud.sold_out[offering.name, offering.location] = None
        await one_large_node(cluster)
        await cluster.runtime.sleep(1800)
        assert types(cluster) == ["cax41"]
        assert running(cluster) == 5
        assert not marks(cluster)

    in_cluster(test)


def test_a_growth_that_dies_at_any_moment_finishes_what_it_began() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        await one_large_node(cluster)
        await process.die_again_and_again(121, 27, 33, 29, 41, 24, 38, 23)
        await until(cluster, 3600, lambda: "cax41" not in types(cluster), "the large node goes")
        await until(
            cluster,
            900,
            lambda: not cluster.objects("NodeRemovalRequest") and not marks(cluster),
            "nothing is left behind",
        )
        assert running(cluster) == 5

    in_cluster(test)


def test_small_changes_of_demand_never_undo_a_replacement_within_the_settling_time() -> None:
    async def test(cluster: Cluster, lives: Lives) -> None:
        chance = random.Random("demand")
        cluster.create(deployment("web", 14, "1", "512Mi"), deployment("side", 6, "700m", "256Mi"))
        await until(cluster, 300, lambda: running(cluster) + running(cluster, "side") == 20, "all run")
        allow(cluster, *TYPES)
        replaced: dict[str, float] = {}  # machines bought to replace others, and when
        gone: dict[str, float] = {}
        for _ in range(20):
            cluster.scale("Deployment", "web", chance.randint(4, 8))
            cluster.scale("Deployment", "side", chance.randint(2, 4))
            for _ in range(60):
                requests = {each["metadata"]["name"]: each for each in cluster.objects("NodeRequest")}
                replaced |= {
                    name: cluster.runtime.now()
                    for name, each in requests.items()
                    if each["spec"].get("replaces") and name not in replaced
                }
                gone |= {each.name: cluster.runtime.now() for each in cluster.cloud.deletes if each.name not in gone}
                await cluster.runtime.sleep(5)
        assert replaced  # something was saved
        assert all(gone[name] - replaced[name] >= QUICK.settling_seconds for name in replaced if name in gone)

    in_cluster(test)
