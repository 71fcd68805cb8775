"""Demand before the verdict, on a real control plane: a burst without a scheduler, one beside it, one who preempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.crowd import create, wait_until_bound
from tests.e2e.manifests import kwok_node
from tests.e2e.running import node_pool, refused_calls, running_growth
from tests.e2e.test_lifecycle import catalogue, overcommitted, pods, server_type

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(300)
BURST, PER_MACHINE, WITH_ROOM = 1000, 64, 16


def burst(name: str, count: int, **spec: Any) -> list[Json]:
    asks = {"requests": {"cpu": "250m", "memory": "64Mi"}}
    container = {"name": "main", "image": "none", "resources": asks}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number:04d}", "namespace": "default"},
            "spec": {"containers": [container], **spec},
        }
        for number in range(count)
    ]


def unbound(cluster: ControlPlane) -> int:
    return sum(not pod["spec"].get("nodeName") for pod in pods(cluster))


def bought(cluster: ControlPlane) -> int:
    return len(cluster.objects("noderequests"))


def test_a_burst_is_bought_for_without_the_schedulers_word_and_never_more_than_one_plan_for_all_needs(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    sold = catalogue(tmp_path, server_type("FULL", 16, 64, 0.1))
    cluster.apply(kwok_node("there"), urgent)
    with running_growth(cluster, tmp_path, {"catalogue": sold}):
        cluster.apply(node_pool("default", "FULL"))

        cluster.stop_component("kube-scheduler", kill=True)
        create(cluster, burst("alone", BURST))
        wait_until_bound(cluster, 120, but=WITH_ROOM)
        assert unbound(cluster) == WITH_ROOM
        first = -(-(BURST - WITH_ROOM) // PER_MACHINE)
        assert bought(cluster) == first

        cluster.start_component("kube-scheduler")
        left = first * PER_MACHINE - (BURST - WITH_ROOM)
        create(cluster, burst("beside", BURST))
        wait_until_bound(cluster, 120)
        both = first + -(-(BURST - left) // PER_MACHINE)
        assert bought(cluster) == both

        create(cluster, burst("urgent", 1, priorityClassName="urgent"))
        wait_until_bound(cluster, 30)
        assert len(pods(cluster)) == 2 * BURST, "one gave way"
        assert bought(cluster) == both
        assert overcommitted(cluster) == []
    assert refused_calls(cluster) == []
