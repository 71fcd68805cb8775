"""Nodes that are too old, changed or dead, in the embedded cluster: replaced one after the other, bought first, at
`max` with one machine more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from growth.model.settings import Settings
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import deployment, disruption_budget, node_pool
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from tests.sim.lives import Lives
from tests.sim.test_consolidation import marks, nodes, running, until

Json = dict[str, Any]
QUICK = Settings(disruption_window_seconds=30.0, repair_after_seconds=400.0)


def in_cluster(test: Callable[[Cluster, Lives], Awaitable[None]], **spec: Any) -> None:
    """Three nodes at `max`, with a pod each that fills it."""

    async def run() -> None:
        cluster = Cluster("renewal")
        lives = Lives(cluster, QUICK)
        lives.start()
        await cluster.runtime.sleep(3)
        cluster.create(node_pool("default", {"name": "cx33", "max": 3}, budgets=[{"nodes": "1"}], **spec))
        cluster.create(deployment("web", 3, "3", "512Mi"), disruption_budget("web", "web", maxUnavailable=1))
        await until(cluster, 300, lambda: running(cluster) == 3, "all run")
        try:
            await test(cluster, lives)
        finally:
            lives.die()
            await cluster.runtime.sleep(1)
        assert lives.failures == []

    run_virtual(run())


def names(cluster: Cluster) -> set[str]:
    return {node["metadata"]["name"] for node in cluster.objects("Node")}


async def renewed(cluster: Cluster, old: set[str], seconds: float) -> tuple[int, int]:
    """Waits until the old nodes are gone; the fewest pods that ran, and the most machines that stood."""
    fewest, most = 3, 3
    began = cluster.runtime.monotonic()
    while names(cluster) & old:
        assert cluster.runtime.monotonic() - began < seconds, "old nodes are still there"
        fewest, most = min(fewest, running(cluster)), max(most, len(cluster.cloud.servers))
        await cluster.runtime.sleep(1)
    return fewest, most


def change(cluster: Cluster, **spec: Any) -> None:
    cluster.verbs.modify(BY_NAME["NodePool"], "default", "", lambda item: item["spec"].update(spec), "user")


def test_drifted_nodes_are_replaced_one_by_one_with_one_machine_over_max() -> None:
    async def test(cluster: Cluster, lives: Lives) -> None:
        old = names(cluster)
        change(cluster, labels={"tier": "web"})
        fewest, most = await renewed(cluster, old, 1800)
        assert (fewest >= 2, most) == (True, 4)
        await until(cluster, 300, lambda: running(cluster) == 3 and nodes(cluster) == 3, "three nodes, three pods")
        assert all(node["metadata"]["labels"]["tier"] == "web" for node in cluster.objects("Node"))
        before = len(cluster.cloud.creates)
        await cluster.runtime.sleep(3600)
        assert (len(cluster.cloud.creates), marks(cluster)) == (before, [])

    in_cluster(test)


def test_expired_nodes_are_replaced_in_turn_also_by_a_growth_that_dies() -> None:
    async def test(cluster: Cluster, lives: Lives) -> None:
        old = names(cluster)
        change(cluster, expireAfterSeconds=60)
        await lives.die_again_and_again(40, 33, 47, 29)
        change(cluster, expireAfterSeconds=86_400)
        await cluster.runtime.sleep(900)  # what was bought and is not needed any more goes after its settling time
        assert running(cluster) == 3
        assert not names(cluster) >= old
        assert (nodes(cluster), marks(cluster), cluster.objects("NodeRemovalRequest")) == (3, [], [])

    in_cluster(test)


def test_a_dead_node_is_replaced_and_one_that_recovers_is_kept() -> None:
    async def test(cluster: Cluster, lives: Lives) -> None:
        sick, dead, _ = sorted(names(cluster))
        cluster.kubelets.fall_ill(sick, 200.0)
        await cluster.runtime.sleep(700)
        assert sick in names(cluster)
        cluster.kubelets.fall_ill(dead, 100_000.0)
        await until(cluster, 1800, lambda: dead not in names(cluster), "the dead node is given up")
        await until(cluster, 300, lambda: running(cluster) == 3, "its pod runs elsewhere")
        assert sick in names(cluster)

    in_cluster(test)
