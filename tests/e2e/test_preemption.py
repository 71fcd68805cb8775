"""Preemption on a real control plane: a pod of higher priority gets the place of one of lower, by eviction."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import Manifest, deployment
from tests.e2e.running import USER, node_pool, running_growth

SETTINGS: Final = {"plans": {"scheduler": {"enabled": True}}}


def of_class(name: str, priority_class: str, **annotations: str) -> Manifest:
    made = deployment(name, 1, cpu="3", memory="1Gi")
    template = made["spec"]["template"]
    template["metadata"]["annotations"] = annotations
    template["spec"] |= {"schedulerName": "growth", "priorityClassName": priority_class}
    return made


def priority_class(name: str, value: int) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def running(cluster: ControlPlane) -> list[str]:
    pods: list[dict[str, Any]] = cluster.objects("pods", "--namespace=default")
    return sorted(
        pod["metadata"]["labels"]["app"]
        for pod in pods
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    )


@pytest.mark.timeout(240)
def test_a_pod_of_higher_priority_gets_the_place_of_one_of_lower(cluster: ControlPlane, tmp_path: Path) -> None:
    kept = of_class("kept", "low", **{"growth.dev/do-not-disrupt": "true"})
    with running_growth(cluster, tmp_path, SETTINGS):
        cluster.apply(
            node_pool("default", {"name": "CX32", "max": 2}), priority_class("low", 1), priority_class("high", 9)
        )
        cluster.apply(kept, of_class("filler", "low"))
        cluster.wait_until(lambda: running(cluster) == ["filler", "kept"], "both run", 90)
        cluster.apply(of_class("urgent", "high"))
        cluster.wait_until(lambda: running(cluster) == ["kept", "urgent"], "the urgent one has its place", 120)
        mine = [each for each in cluster.audit_events() if each.user_name == USER]
    evictions = [each for each in mine if each.request_uri.partition("?")[0].endswith("/eviction")]
    assert len(evictions) == 1
    assert not [each for each in mine if each.verb == "delete" and "/pods/" in each.request_uri]
