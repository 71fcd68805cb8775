"""Workload controllers, kubelets and node life cycle of the embedded cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

from growth.sim.apiserver.kinds import NODE, POD
from growth.sim.apiserver.objects import daemon_set, deployment, job, node, pod, stateful_set
from growth.sim.cluster import Cluster, World
from tests.sim.embedded import in_cluster, phases


def names(cluster: Cluster, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.objects(kind)]


def taint(cluster: Cluster, name: str, *taints: dict[str, Any]) -> None:
    def set_taints(item: dict[str, Any]) -> None:
        item["spec"]["taints"] = list(taints)

    cluster.verbs.modify(NODE, name, "", set_taints, "test")


def test_a_deployment_makes_pods_through_a_replica_set_and_scales() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), node("n2"), deployment("web", 5))
        await cluster.runtime.sleep(20)
        assert phases(cluster) == {"Running": 5}
        [replica_set] = names(cluster, "ReplicaSet")
        assert {item["metadata"]["ownerReferences"][0]["name"] for item in cluster.objects("Pod")} == {replica_set}
        assert cluster.objects("Deployment")[0]["status"]["readyReplicas"] == 5
        cluster.scale("Deployment", "web", 2)
        await cluster.runtime.sleep(20)
        assert phases(cluster) == {"Running": 2}

    in_cluster(test)


def test_many_replicas_come_in_steps() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(deployment("web", 250))
        await cluster.runtime.sleep(5)
        assert phases(cluster) == {"Pending": 250}

    in_cluster(test)


def test_deleting_a_deployment_collects_what_it_owns() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), deployment("web", 3))
        await cluster.runtime.sleep(20)
        cluster.delete("Deployment", "web", "default")
        await cluster.runtime.sleep(20)
        assert (names(cluster, "ReplicaSet"), names(cluster, "Pod")) == ([], [])

    in_cluster(test)


def test_orphaned_and_foreground_deletion() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(deployment("kept", 1), deployment("gone", 1))
        await cluster.runtime.sleep(5)
        cluster.delete("Deployment", "kept", "default", propagationPolicy="Orphan")
        cluster.delete("Deployment", "gone", "default", propagationPolicy="Foreground")
        assert names(cluster, "Deployment") == ["gone", "kept"]
        await cluster.runtime.sleep(10)
        assert names(cluster, "Deployment") == []
        assert [name.rpartition("-")[0] for name in names(cluster, "ReplicaSet")] == ["kept"]

    in_cluster(test)


def test_a_job_runs_to_its_end() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), job("sums", 3, run_seconds=30))
        await cluster.runtime.sleep(20)
        assert phases(cluster) == {"Running": 3}
        await cluster.runtime.sleep(40)
        assert phases(cluster) == {"Succeeded": 3}
        assert cluster.objects("Job")[0]["status"]["succeeded"] == 3

    in_cluster(test)


def test_a_stateful_set_names_its_pods() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), stateful_set("db", 3))
        await cluster.runtime.sleep(10)
        assert names(cluster, "Pod") == ["db-0", "db-1", "db-2"]
        cluster.scale("StatefulSet", "db", 1)
        await cluster.runtime.sleep(10)
        assert names(cluster, "Pod") == ["db-0"]

    in_cluster(test)


def test_a_daemon_set_follows_nodes_and_taints() -> None:
    async def test(cluster: Cluster) -> None:
        plain = daemon_set("plain", tolerations=[])
        cluster.create(
            node("open"),
            node("closed", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
            daemon_set("everywhere"),
            plain,
        )
        await cluster.runtime.sleep(15)
        placed = Counter(
            (item["metadata"]["labels"]["app"], item["spec"]["nodeName"]) for item in cluster.objects("Pod")
        )
        assert sorted(placed) == [("everywhere", "closed"), ("everywhere", "open"), ("plain", "open")]
        assert phases(cluster) == {"Running": 3}
        taint(cluster, "open", {"key": "growth.dev/scale-down", "effect": "NoSchedule"})
        await cluster.runtime.sleep(15)
        assert phases(cluster) == {"Running": 3}
        cluster.delete("Node", "closed")
        await cluster.runtime.sleep(60)
        assert {item["spec"]["nodeName"] for item in cluster.objects("Pod")} == {"open"}

    in_cluster(test)


def test_an_overcommitted_node_rejects_the_pod() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(
            node("n1", cpu="1"),
            pod("first", cpu="800m", schedulerName="mine"),
            pod("second", cpu="800m", schedulerName="mine"),
        )
        await cluster.runtime.sleep(10)
        from growth.sim.apiserver.subresources import bind

        for name in ("first", "second"):
            bind(cluster.verbs, name, "default", {"target": {"name": "n1"}}, "test")
        await cluster.runtime.sleep(10)
        assert phases(cluster) == {"Running": 1, "Failed": 1}
        failed = next(item for item in cluster.objects("Pod") if item["status"]["phase"] == "Failed")
        assert failed["status"]["reason"] == "OutOfcpu"

    in_cluster(test)


def test_a_deleted_pod_is_given_its_grace_and_then_goes() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), pod("a"))
        await cluster.runtime.sleep(10)
        cluster.delete("Pod", "a", "default")
        assert cluster.objects("Pod")[0]["metadata"]["deletionGracePeriodSeconds"] == 30
        await cluster.runtime.sleep(5)
        assert cluster.objects("Pod") == []

    in_cluster(test)


# --------------------------------------------------------------------------------------- life cycle


async def boot_one(cluster: Cluster) -> str:
    from growth.model.labels import Labels
    from growth.providers.simulated import NodeTemplate

    server = await cluster.cloud.create_server(
        "m1", "sim-cx33", "fsn1", Labels({"owner": "test"}), NodeTemplate(Labels({"zone": "a"}))
    )
    await cluster.runtime.sleep(70)
    return server.server_id


def test_a_server_that_boots_becomes_a_ready_node_without_the_not_ready_taint() -> None:
    async def test(cluster: Cluster) -> None:
        seen: list[tuple[str, list[str]]] = []

        def watch(write: Any) -> None:
            if write.kind is NODE:
                seen.append((write.type, [one["key"] for one in write.item["spec"].get("taints") or []]))

        cluster.store.on_write(watch)
        server_id = await boot_one(cluster)
        [item] = cluster.objects("Node")
        assert item["spec"] == {"providerID": f"sim://{server_id}"}
        assert item["metadata"]["labels"]["zone"] == "a"
        assert seen[0] == ("ADDED", ["node.kubernetes.io/not-ready"])
        assert cluster.kubelets.is_ready("m1")

    in_cluster(test)


def test_a_vanished_server_leaves_a_node_that_turns_unknown_and_loses_its_pods_after_300_seconds() -> None:
    async def test(cluster: Cluster) -> None:
        server_id = await boot_one(cluster)
        cluster.create(pod("patient"), pod("daemon-like", tolerations=[{"operator": "Exists"}]))
        await cluster.runtime.sleep(10)
        assert phases(cluster) == {"Running": 2}
        cluster.cloud.vanish(server_id)
        await cluster.runtime.sleep(70)
        [item] = cluster.objects("Node")
        assert {one["key"] for one in item["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
        assert not cluster.kubelets.is_ready("m1")
        leaving = [
            one["metadata"]["name"] for one in cluster.objects("Pod") if one["metadata"].get("deletionTimestamp")
        ]
        assert leaving == []
        await cluster.runtime.sleep(300)
        leaving = [
            one["metadata"]["name"] for one in cluster.objects("Pod") if one["metadata"].get("deletionTimestamp")
        ]
        assert leaving == ["patient"]

    in_cluster(test, World(has_cloud_controller=False))


def test_a_cloud_controller_deletes_the_node_of_a_server_that_is_gone_and_its_pods_follow() -> None:
    async def test(cluster: Cluster) -> None:
        server_id = await boot_one(cluster)
        cluster.create(pod("a"))
        await cluster.runtime.sleep(10)
        cluster.cloud.vanish(server_id)
        await cluster.runtime.sleep(15)
        assert cluster.objects("Node") == []
        await cluster.runtime.sleep(60)
        assert cluster.objects("Pod") == []

    in_cluster(test)


def test_no_execute_taints_evict_at_once_after_a_while_or_never() -> None:
    async def test(cluster: Cluster) -> None:
        mine = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
        cluster.create(
            node("n1"),
            pod("none"),
            pod("sixty", tolerations=[{**mine, "tolerationSeconds": 60}]),
            pod("always", tolerations=[mine]),
        )
        await cluster.runtime.sleep(10)
        taint(cluster, "n1", {"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:10Z"})
        await cluster.runtime.sleep(15)
        assert names(cluster, "Pod") == ["always", "sixty"]
        await cluster.runtime.sleep(60)
        assert names(cluster, "Pod") == ["always"]

    in_cluster(test)


def test_a_no_schedule_taint_added_under_a_running_pod_lets_it_stay() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node("n1"), pod("a"))
        await cluster.runtime.sleep(10)
        taint(cluster, "n1", {"key": "full", "effect": "NoSchedule"})
        await cluster.runtime.sleep(600)
        assert phases(cluster) == {"Running": 1}

    in_cluster(test)


def test_hooks_see_every_write_in_order_also_those_made_by_hooks() -> None:
    async def test(cluster: Cluster) -> None:
        seen: list[int] = []
        cluster.store.on_write(lambda write: seen.append(write.version))
        cluster.create(node("n1"), deployment("web", 10))
        await cluster.runtime.sleep(20)
        assert len(seen) > 30
        assert seen == sorted(seen)
        assert cluster.store.get(POD, "missing", "default") is None

    in_cluster(test)
