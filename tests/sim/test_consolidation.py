"""Nodes with pods in the embedded cluster: emptied within budgets, kept with a reason, at rest when nothing can be
saved, whole after a crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from growth.model.instant import parse_instant
from growth.model.node import SCALE_DOWN_AT, SCALE_DOWN_TAINT
from growth.model.settings import Settings
from growth.sim.apiserver.objects import deployment, disruption_budget, node_pool, stateful_set
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from tests.sim.lives import Lives

Json = dict[str, Any]
QUICK = Settings(
    scale_down_delay_seconds=5.0,
    settling_seconds=60.0,
    disruption_window_seconds=0.0,
    consolidation_interval_seconds=5.0,
)
ANY_NUMBER = {"nodes": "100%"}


def in_cluster(
    test: Callable[[Cluster, Lives], Awaitable[None]],
    settings: Settings = QUICK,
    objects: Sequence[Json] = (),
    **spec: Any,
) -> None:
    """With one pool of four cores a node that is consolidated, and growth running."""

    async def run() -> None:
        cluster = Cluster("consolidation")
        cluster.create(node_pool("default", "cx32", **{"consolidation": "Full", "budgets": [ANY_NUMBER], **spec}))
        for item in objects:
            cluster.create(item)
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


async def until(cluster: Cluster, seconds: float, holds: Callable[[], bool], what: str) -> None:
    began = cluster.runtime.monotonic()
    while not holds():
        assert cluster.runtime.monotonic() - began < seconds, f"not in time: {what}"
        await cluster.runtime.sleep(1)


def running(cluster: Cluster, app: str = "web") -> int:
    mine = [each for each in cluster.objects("Pod") if each["metadata"].get("labels", {}).get("app") == app]
    return sum(each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"] for each in mine)


def nodes(cluster: Cluster) -> int:
    return len(cluster.objects("Node"))


def marks(cluster: Cluster) -> list[str]:
    tainted = [
        node
        for node in cluster.objects("Node")
        if any(taint["key"] == SCALE_DOWN_TAINT.key for taint in node["spec"].get("taints") or ())
    ]
    annotated = [
        node for node in cluster.objects("Node") if SCALE_DOWN_AT in (node["metadata"].get("annotations") or {})
    ]
    return [node["metadata"]["name"] for node in (*tainted, *annotated)]


def said(cluster: Cluster, reason: str) -> list[str]:
    return [
        str(event.get("note") or event.get("message") or "")
        for event in cluster.objects("Event")
        if event.get("reason") == reason
    ]


def spread_out(name: str, replicas: int, cpu: str) -> Json:
    """Each pod on a node of its own, for as long as the rule stands."""
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    return deployment(
        name,
        replicas,
        cpu,
        "256Mi",
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )


def test_nodes_whose_pods_fit_elsewhere_are_emptied_and_no_pdb_is_broken() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        cluster.create(deployment("web", 30, "1", "512Mi"))
        cluster.create(disruption_budget("web", "web", maxUnavailable=3))
        await until(cluster, 300, lambda: running(cluster) == 30, "all pods run")
        first = nodes(cluster)
        cluster.scale("Deployment", "web", 12)
        least = 12

        async def watch() -> None:
            nonlocal least
            while True:
                least = min(least, running(cluster))
                await cluster.runtime.sleep(0.5)

        await until(cluster, 60, lambda: running(cluster) == 12, "the others are gone")
        watching = cluster.runtime.spawn("watch", watch())
        await until(cluster, 1800, lambda: nodes(cluster) <= 4, f"of {first} nodes no more than 4 are left")
        await until(cluster, 120, lambda: running(cluster) == 12, "all pods run again")
        watching.cancel()
        assert least >= 12 - 3
        assert len(cluster.cloud.creates) == first  # nothing was bought for it
        await until(
            cluster,
            300,
            lambda: not cluster.objects("NodeRemovalRequest") and not marks(cluster),
            "nothing is left behind",
        )

    in_cluster(test)


def test_a_node_that_stays_says_why_and_goes_when_a_fitting_node_exists() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        cluster.create(spread_out("web", 2, "500m"))
        await until(cluster, 300, lambda: running(cluster) == 2, "both run")
        await until(
            cluster,
            300,
            lambda: any("didn't match pod anti-affinity" in text for text in said(cluster, "Staying")),
            "the reason is an event",
        )
        await cluster.runtime.sleep(600)
        assert nodes(cluster) == 2
        cluster.create(spread_out("other", 3, "500m"))
        await until(cluster, 300, lambda: running(cluster, "other") == 3, "the others run")
        assert nodes(cluster) == 3
        cluster.scale("Deployment", "other", 2)
        await until(cluster, 600, lambda: nodes(cluster) == 2, "the third node is not needed")
        assert (running(cluster), running(cluster, "other")) == (2, 2)

    in_cluster(test)


def test_a_budget_that_allows_nothing_keeps_the_node_and_says_so() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        cluster.create(disruption_budget("web", "web", maxUnavailable=0))
        cluster.create(spread_out("web", 2, "500m"))
        await until(cluster, 300, lambda: running(cluster) == 2, "both run")
        await until(
            cluster,
            300,
            lambda: any("allows no disruption now" in text for text in said(cluster, "Staying")),
            "the reason is told",
        )
        await cluster.runtime.sleep(900)
        assert nodes(cluster) == 2
        assert not marks(cluster)

    in_cluster(test)


def test_a_cluster_at_its_optimum_makes_no_move() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        cluster.create(deployment("web", 6, "1800m", "512Mi"))
        cluster.create(stateful_set("db", 2, "1800m", "512Mi"))
        await until(cluster, 600, lambda: running(cluster) + running(cluster, "db") == 8, "all run")
        await cluster.runtime.sleep(900)
        before, names = nodes(cluster), sorted(each["metadata"]["name"] for each in cluster.objects("Node"))
        bought, gone = len(cluster.cloud.creates), len(cluster.cloud.deletes)
        await cluster.runtime.sleep(3600)
        assert sorted(each["metadata"]["name"] for each in cluster.objects("Node")) == names
        assert (nodes(cluster), len(cluster.cloud.creates), len(cluster.cloud.deletes)) == (before, bought, gone)
        assert not cluster.objects("NodeRemovalRequest")

    in_cluster(test)


def test_small_changes_never_cause_a_node_that_is_bought_and_given_back_within_the_settling_time() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        cluster.create(deployment("web", 20, "700m", "256Mi"))
        await until(cluster, 600, lambda: running(cluster) == 20, "all run")
        for round_ in range(12):
            cluster.scale("Deployment", "web", 20 + (round_ * 7) % 9 - 6)
            await cluster.runtime.sleep(150)
        await cluster.runtime.sleep(900)
        assert not marks(cluster)
        emptied = {
            event["regarding"]["name"]: event
            for event in cluster.objects("Event")
            if "its pods fit on other nodes" in str(event.get("note"))
        }
        assert emptied  # something was saved
        created = {server.name: server.created_at for server in cluster.cloud.creates}
        for name, event in emptied.items():
            assert parse_instant(event["eventTime"]) - created[name] >= 600

    in_cluster(
        test,
        Settings(
            scale_down_delay_seconds=5.0,
            settling_seconds=600.0,
            disruption_window_seconds=0.0,
            consolidation_interval_seconds=5.0,
        ),
    )


def test_a_growth_that_dies_in_the_middle_leaves_no_taint_behind() -> None:
    async def test(cluster: Cluster, process: Lives) -> None:
        cluster.create(deployment("web", 24, "1", "512Mi"))
        await until(cluster, 300, lambda: running(cluster) == 24, "all pods run")
        cluster.scale("Deployment", "web", 8)
        await process.die_again_and_again(63, 37, 29, 21, 33, 28, 40, 26)
        await until(cluster, 1800, lambda: nodes(cluster) <= 3, "nodes go")
        await until(
            cluster,
            600,
            lambda: not cluster.objects("NodeRemovalRequest") and not marks(cluster),
            "nothing is left behind",
        )
        assert running(cluster) == 8

    in_cluster(test)
