"""Sixty nodes on a real control plane, half of whose pods go: the rest is moved together, and dear nodes become cheap
ones, while growth dies again and again.

Watched all the time: no PodDisruptionBudget is broken, no pod waits for a place for more than half a minute, nobody but
the Eviction API ends a pod that is moved, nothing is bought beyond the plan. In the end the cluster costs what the
solver says its pods cost, and nothing of growth is left behind."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from growth.model.instant import parse_instant
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import (
    SOON_LEADS,
    USER,
    GrowthProcess,
    node_pool,
    refused_calls,
    running_growth,
    wait_for_running,
)
from tests.e2e.test_consolidation import marks, ours

Json = dict[str, Any]
QUICK = {
    **SOON_LEADS,
    "plans": {
        "scaleDownDelaySeconds": 3,
        "settlingSeconds": 5,
        "disruptionWindowSeconds": 0,
        "consolidationIntervalSeconds": 1,
        "scaleDownHeadroom": 0.05,
    },
}
PENDING_SECONDS = 30.0
ENDERS = (
    USER,
    "system:serviceaccount:kube-system:node-controller",
    "system:serviceaccount:kube-system:pod-garbage-collector",
)


def workload(name: str, replicas: int, kind: str = "Deployment", **spec: Any) -> Json:
    """Pods of which four fill a node."""
    made = deployment(name, replicas, cpu="900m", memory="256Mi")
    made["kind"] = kind
    made["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    made["spec"]["template"]["spec"] |= spec
    return made


def guard(name: str, unavailable: int | str) -> Json:
    spec = {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": name}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def apart(name: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(name: str) -> Json:
    rule = {
        "maxSkew": 3,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    return {"topologySpreadConstraints": [rule]}


class Watching:
    """What was seen while nodes went."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self.broken: list[str] = []
        self.longest_wait = 0.0

    def look(self) -> None:
        for budget in self._cluster.objects("poddisruptionbudgets", "--namespace=default"):
            status = budget["status"]
            if status.get("currentHealthy", 0) < status.get("desiredHealthy", 0):
                self.broken.append(
                    f"{budget['metadata']['name']}: {status['currentHealthy']} of {status['desiredHealthy']}"
                )
        now = time.time()
        waiting = [
            pod for pod in self._cluster.objects("pods", "--namespace=default") if not pod["spec"].get("nodeName")
        ]
        waits = [now - parse_instant(pod["metadata"]["creationTimestamp"]) for pod in waiting]
        self.longest_wait = max([self.longest_wait, *waits])

    def until(self, growth: GrowthProcess, is_over: Callable[[], bool], seconds: float, kills: int) -> None:
        """Looks again and again until it is over; now and then growth dies, and it must have died so often."""
        chance, ends = random.Random("sixty"), time.monotonic() + seconds
        dies_at = time.monotonic() + 3
        while (kills or not is_over()) and time.monotonic() < ends:
            self.look()
            if kills and time.monotonic() > dies_at:
                kills -= 1
                dies_at = time.monotonic() + chance.uniform(3, 15)
                growth.kill()
                growth.start()
            time.sleep(0.5)
        assert is_over(), "not in time"


def ended_by_others(cluster: ControlPlane) -> list[str]:
    """Pods that were deleted, not evicted, by growth or because their node was gone."""
    deletes = [
        event
        for event in cluster.audit_events()
        if event.verb == "delete" and event.resource == "pods" and event.user_name in ENDERS
    ]
    return [f"{event.user_name} {event.request_uri}" for event in deletes]


@pytest.mark.timeout(900)
def test_sixty_nodes_become_thirty_while_every_rule_holds(cluster: ControlPlane, tmp_path: Path) -> None:
    with running_growth(cluster, tmp_path, QUICK) as growth:
        cluster.apply(node_pool("default", "CX33", consolidation="Full", budgets=[{"nodes": "20%"}]))
        cluster.apply(guard("web", "10%"), guard("db", 1), guard("even", 3))
        cluster.apply(
            workload("web", 160),
            workload("db", 20, "StatefulSet", **apart("db")),
            workload("even", 40, **spread("even")),
            workload("rest", 20),
        )
        wait_for_running(cluster, 240, 240)
        bought = set(ours(cluster))
        assert len(bought) == 60
        for name, replicas in (("web", 60), ("even", 30), ("rest", 10)):
            cluster.kubectl("scale", "deployment", name, f"--replicas={replicas}", "--namespace=default")
        wait_for_running(cluster, 120, 120)
        cluster.forget_audit_events()
        watching = Watching(cluster)
        watching.until(growth, lambda: len(ours(cluster)) <= 30, seconds=420, kills=3)
        wait_for_running(cluster, 120, 60)
        cluster.wait_until(
            lambda: not cluster.objects("noderemovalrequests") and not marks(cluster), "nothing is left behind", 120
        )
        assert set(ours(cluster)) <= bought  # nothing was bought for it
        assert watching.broken == []
        assert watching.longest_wait <= PENDING_SECONDS
        assert ended_by_others(cluster) == []
    assert refused_calls(cluster) == []


def types(cluster: ControlPlane) -> list[str]:
    nodes = [node for node in cluster.objects("nodes") if "growth.dev/pool" in node["metadata"].get("labels", {})]
    return sorted(node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes)


@pytest.mark.timeout(900)
def test_sixty_dear_nodes_become_thirty_cheap_ones_while_every_rule_holds(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Of the dear type a node holds two pods, of the cheap one four, for less money."""
    with running_growth(cluster, tmp_path, QUICK) as growth:
        spec: Json = {"consolidation": "Full", "budgets": [{"nodes": "20%"}]}
        cluster.apply(node_pool("default", "CX31", **spec))
        cluster.apply(guard("web", "10%"), guard("db", 2), guard("even", 3))
        cluster.apply(
            workload("web", 60),
            workload("db", 20, "StatefulSet", **apart("db")),
            workload("even", 30, **spread("even")),
            workload("rest", 10),
        )
        wait_for_running(cluster, 120, 240)
        assert types(cluster) == ["cx31"] * 60
        cluster.forget_audit_events()
        cluster.apply(node_pool("default", "CX31", "CX33", **spec))
        watching, orders = Watching(cluster), dict[str, str]()

        def is_over() -> bool:
            orders.update(
                {
                    each["metadata"]["name"]: each["spec"]["reason"]
                    for each in cluster.objects("noderequests")
                    if "reason" in each["spec"]
                }
            )
            return "cx31" not in types(cluster)

        watching.until(growth, is_over, seconds=600, kills=3)
        wait_for_running(cluster, 120, 60)
        cluster.wait_until(
            lambda: not cluster.objects("noderemovalrequests") and not marks(cluster), "nothing is left behind", 180
        )
        assert set(orders.values()) <= {"Demand", "Replacement"}
        cheap = sum(reason == "Replacement" for reason in orders.values())
        assert len(types(cluster)) <= cheap * 1.02
        assert len(types(cluster)) <= 32  # thirty hold them all; five per cent more is the headroom
        assert watching.broken == []
        assert watching.longest_wait <= PENDING_SECONDS
        assert ended_by_others(cluster) == []
    assert refused_calls(cluster) == []
