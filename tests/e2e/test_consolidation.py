"""Nodes with pods on a real control plane: special constraints keep a node until a fitting one exists; budgets hold
while nodes are emptied.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment, kwok_node
from tests.e2e.running import node_pool, refused_calls, running_growth, running_pods, wait_for_running

Json = dict[str, Any]
QUICK = {
    "plans": {
        "scaleDownDelaySeconds": 3,
        "settlingSeconds": 5,
        "disruptionWindowSeconds": 0,
        "consolidationIntervalSeconds": 2,
    }
}
GPU = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
FULL: Json = {"consolidation": "Full", "budgets": [{"nodes": "100%"}]}


def ours(cluster: ControlPlane) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in cluster.objects("nodes")
        if "growth.dev/pool" in node["metadata"].get("labels", {})
    ]


def marks(cluster: ControlPlane) -> list[str]:
    tainted = [
        node
        for node in cluster.objects("nodes")
        if any(taint["key"] == "growth.dev/scale-down" for taint in node["spec"].get("taints", ()))
    ]
    annotated = [
        node
        for node in cluster.objects("nodes")
        if "growth.dev/scale-down-at" in node["metadata"].get("annotations", {})
    ]
    return [node["metadata"]["name"] for node in (*tainted, *annotated)]


def on_gpu(replicas: int) -> Json:
    """Tolerates the taint, and asks for the label."""
    made = deployment("gpu", replicas, cpu="1", memory="256Mi", pool="gpu")
    made["spec"]["template"]["spec"] |= {
        "nodeSelector": {"accelerator": "gpu"},
        "tolerations": [{"key": "gpu", "operator": "Equal", "value": "true"}],
    }
    return made


def test_a_pod_with_a_toleration_and_a_selector_keeps_its_node_until_a_fitting_one_exists(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    taints: Json = {"labels": {"accelerator": "gpu"}, "taints": [GPU]}
    pinned = on_gpu(1)
    pinned["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "growth.dev/pool", "operator": "Exists"}]}}
            ]
        }
    }
    with running_growth(cluster, tmp_path, QUICK):
        cluster.apply(node_pool("default", "CX32", **FULL, **taints), kwok_node("plain"), pinned)
        wait_for_running(cluster, 1, 90)
        [name] = ours(cluster)
        wanted = "cannot be rescheduled: 1 node: didn't match node selector accelerator=gpu"
        cluster.wait_until(
            lambda: wanted in cluster.kubectl("describe", "node", name), "kubectl describe node says why it stays", 60
        )
        time.sleep(10)
        assert ours(cluster) == [name]
        assert not marks(cluster)
        cluster.apply(kwok_node("other-gpu", labels={"accelerator": "gpu"}, taints=[GPU]))
        cluster.wait_until(lambda: not ours(cluster), "the node goes once another fits", 90)
        wait_for_running(cluster, 1, 30)
        [pod] = cluster.objects("pods", "--namespace=default")
        assert pod["spec"]["nodeName"] == "other-gpu"
        cluster.wait_until(lambda: not cluster.objects("noderemovalrequests"), "the removal is finished", 60)
    assert refused_calls(cluster) == []


def test_nodes_are_emptied_while_budgets_hold_and_nothing_is_bought_for_it(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    guard: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    with running_growth(cluster, tmp_path, QUICK) as growth:
        cluster.apply(node_pool("default", "CX32", **FULL), guard, deployment("web", 24, cpu="1", memory="256Mi"))
        wait_for_running(cluster, 24, 120)
        bought = set(ours(cluster))
        cluster.kubectl("scale", "deployment", "web", "--replicas=8", "--namespace=default")
        cluster.wait_until(lambda: running_pods(cluster) == 8, "the others are gone", 60)
        fewest, killed, ends = 8, False, time.monotonic() + 180
        while len(ours(cluster)) > 3 and time.monotonic() < ends:
            fewest = min(fewest, running_pods(cluster))
            if len(ours(cluster)) < len(bought) and not killed:
                growth.kill()
                growth.start()
                killed = True
            time.sleep(0.5)
        wait_for_running(cluster, 8, 60)
        cluster.wait_until(
            lambda: not cluster.objects("noderemovalrequests") and not marks(cluster), "nothing is left behind", 120
        )
        left = ours(cluster)
    assert len(left) <= 3
    assert set(left) <= bought
    assert fewest >= 6
    assert refused_calls(cluster) == []
