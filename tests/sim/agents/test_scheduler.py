"""The embedded scheduler: it filters by growth's own rules, spreads, waits, and says why."""

from __future__ import annotations

from collections import Counter
from typing import Any

from growth.sim.apiserver.objects import deployment, node, pod
from growth.sim.cluster import Cluster
from tests.sim.embedded import in_cluster, phases


def condition(item: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in item["status"]["conditions"] if one["type"] == name)
    return found


def pods_by_node(cluster: Cluster) -> Counter[str]:
    return Counter(one["spec"].get("nodeName", "") for one in cluster.objects("Pod"))


def test_pods_are_spread_and_not_packed() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(*(node(f"n{number}") for number in range(4)), deployment("web", 8))
        await cluster.runtime.sleep(10)
        assert pods_by_node(cluster) == {"n0": 2, "n1": 2, "n2": 2, "n3": 2}
        assert phases(cluster) == {"Running": 8}

    in_cluster(test)


def test_a_pod_that_fits_nowhere_says_why_in_familiar_words() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(
            node("small", cpu="1"),
            node("tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
            pod("big", cpu="2"),
        )
        await cluster.runtime.sleep(5)
        [item] = cluster.objects("Pod")
        scheduled = condition(item, "PodScheduled")
        assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
        assert scheduled["message"].startswith("0/2 nodes are available: ")
        assert "insufficient cpu" in scheduled["message"].lower()
        assert "gpu" in scheduled["message"]

    in_cluster(test)


def test_a_waiting_pod_is_scheduled_soon_after_a_node_comes() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(pod("a"))
        await cluster.runtime.sleep(60)
        cluster.create(node("n1"))
        await cluster.runtime.sleep(15)
        assert pods_by_node(cluster) == {"n1": 1}

    in_cluster(test)


def test_a_pod_that_was_tried_thousands_of_times_is_still_tried() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(pod("big", cpu="2"), node("small", cpu="1"))
        await cluster.runtime.sleep(60)
        [waiting] = cluster.scheduler.waiting.values()
        waiting.failures = 5000
        cluster.create(node("small-too", cpu="1"))
        await cluster.runtime.sleep(30)
        cluster.create(node("large", cpu="4"))
        await cluster.runtime.sleep(15)
        assert pods_by_node(cluster) == {"large": 1}

    in_cluster(test)


def test_nothing_is_written_while_nothing_changes() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), deployment("web", 20))
        await cluster.runtime.sleep(120)
        before = cluster.store.version
        await cluster.runtime.sleep(100)
        assert cluster.store.version == before

    in_cluster(test)


def test_a_higher_priority_goes_first() -> None:
    async def test(cluster: Cluster) -> None:
        priority = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
        cluster.create(priority, pod("late", cpu="3", priorityClassName="high"), pod("early", cpu="3"), node("n1"))
        await cluster.runtime.sleep(10)
        assert {item["metadata"]["name"]: item["spec"].get("nodeName") for item in cluster.objects("Pod")} == {
            "late": "n1",
            "early": None,
        }

    in_cluster(test)


def test_a_nominated_node_is_honoured_and_kept_free_for_the_pod() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(pod("nominated", cpu="3"))
        cluster.create(
            node("n1", taints=[{"key": "wait", "effect": "NoSchedule"}]),
            node("n2", taints=[{"key": "wait", "effect": "NoSchedule"}]),
        )
        await cluster.runtime.sleep(2)
        from growth.sim.apiserver.kinds import NODE, POD

        def nominate(item: dict[str, Any]) -> None:
            item["status"]["nominatedNodeName"] = "n2"

        def open_up(item: dict[str, Any]) -> None:
            item["spec"].pop("taints", None)

        for name in ("n1", "n2"):
            cluster.verbs.modify(NODE, name, "", open_up, "test")
        cluster.verbs.modify(POD, "nominated", "default", nominate, "test", "status")
        cluster.create(*(pod(f"other-{number}", cpu="2") for number in range(4)))
        await cluster.runtime.sleep(15)
        placed = {item["metadata"]["name"]: item["spec"].get("nodeName") for item in cluster.objects("Pod")}
        assert placed["nominated"] == "n2"
        assert sorted(str(placed[f"other-{number}"]) for number in range(4)) == ["None", "None", "n1", "n1"]

    in_cluster(test)


def test_a_failed_attempt_wipes_the_nomination() -> None:
    async def test(cluster: Cluster) -> None:
        from growth.sim.apiserver.kinds import POD

        cluster.create(pod("a"))
        await cluster.runtime.sleep(2)

        def nominate(item: dict[str, Any]) -> None:
            item["status"]["nominatedNodeName"] = "nowhere"

        cluster.verbs.modify(POD, "a", "default", nominate, "test", "status")
        await cluster.runtime.sleep(15)
        assert "nominatedNodeName" not in cluster.objects("Pod")[0]["status"]

    in_cluster(test)


def test_anti_affinity_is_the_real_schedulers() -> None:
    async def test(cluster: Cluster) -> None:
        term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        cluster.create(*(node(f"n{number}") for number in range(3)), deployment("web", 4, affinity=affinity))
        await cluster.runtime.sleep(30)
        assert pods_by_node(cluster) == {"n0": 1, "n1": 1, "n2": 1, "": 1}

    in_cluster(test)


def test_gated_pods_and_pods_of_other_schedulers_are_left_alone() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), pod("gated", schedulingGates=[{"name": "wait"}]), pod("other", schedulerName="mine"))
        await cluster.runtime.sleep(10)
        assert pods_by_node(cluster) == {"": 2}
        gated = next(item for item in cluster.objects("Pod") if item["metadata"]["name"] == "gated")
        assert condition(gated, "PodScheduled")["reason"] == "SchedulingGated"

    in_cluster(test)
