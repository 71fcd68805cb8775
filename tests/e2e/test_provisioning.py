"""Pods that cannot be scheduled get machines: the whole path, on a real control plane, under growth's own role."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import Manifest, deployment
from tests.e2e.running import (
    SOON_LEADS,
    node_pool,
    refused_calls,
    running_growth,
    running_pods,
    wait_for_ready_requests,
    wait_for_running,
)

SHAPES = (("web", 100, "500m", "512Mi"), ("db", 50, "1", "3Gi"), ("job", 50, "250m", "256Mi"))
PODS = 200


def three_shapes() -> list[Manifest]:
    return [deployment(name, replicas, cpu=cpu, memory=memory) for name, replicas, cpu, memory in SHAPES]


def offerings_bought(cluster: ControlPlane) -> Counter[str]:
    return Counter(request["spec"]["targetOffering"] for request in cluster.objects("noderequests"))


def are_running(cluster: ControlPlane, least: int) -> bool:
    return running_pods(cluster) >= least


def bring_up(cluster: ControlPlane) -> float:
    """Pool and pods into the cluster; until all run and every request has done its work. Returns the seconds until all
    ran.
    """
    cluster.apply(node_pool("default", "CX33", "CX32"), *three_shapes())
    seconds = wait_for_running(cluster, PODS)
    wait_for_ready_requests(cluster)
    return seconds


class Undisturbed(NamedTuple):
    """What is bought when nothing goes wrong, and what the cluster shows then."""

    bought: Counter[str]
    seconds: float
    nodes: list[Manifest]
    table: str
    refused: list[str]


@pytest.fixture(scope="module")
def undisturbed(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    control_plane.clean()
    with running_growth(control_plane, tmp_path_factory.mktemp("undisturbed")):
        seconds = bring_up(control_plane)
        nodes, table = control_plane.objects("nodes"), control_plane.kubectl("get", "np,nr,nrr")
        bought = offerings_bought(control_plane)
    return Undisturbed(bought, seconds, nodes, table, refused_calls(control_plane))


def test_200_pending_pods_in_3_shapes_run_on_nodes_bought_by_growth(
    undisturbed: Undisturbed, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, table = undisturbed.nodes, undisturbed.table
    with capsys.disabled():
        print(f"\n{PODS} pods Running on {len(nodes)} nodes after {undisturbed.seconds:.1f} s\n{table}")
    assert all(node["metadata"]["labels"]["growth.dev/pool"] == "default" for node in nodes)
    assert not any(taint["key"].startswith("growth.dev/") for node in nodes for taint in node["spec"].get("taints", ()))
    assert undisturbed.bought.total() == len(nodes)
    assert "Ready" in table
    assert undisturbed.refused == []


@pytest.mark.parametrize("requests", [1, 10, 32])
def test_growth_killed_after_so_many_requests_and_started_again_ends_the_same(
    cluster: ControlPlane, tmp_path: Path, undisturbed: Undisturbed, requests: int
) -> None:
    with running_growth(cluster, tmp_path, SOON_LEADS) as growth:
        cluster.apply(node_pool("default", "CX33", "CX32"), *three_shapes())
        cluster.wait_until(lambda: len(cluster.objects("noderequests")) >= requests, f"{requests} NodeRequests")
        growth.kill()
        growth.start()
        wait_for_running(cluster, PODS)
        wait_for_ready_requests(cluster)
        nodes = cluster.objects("nodes")
    assert offerings_bought(cluster) == undisturbed.bought
    assert len(nodes) == undisturbed.bought.total()
    assert refused_calls(cluster) == []


def test_growth_killed_while_machines_join_and_started_again_ends_the_same(
    cluster: ControlPlane, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    with running_growth(cluster, tmp_path, SOON_LEADS) as growth:
        cluster.apply(node_pool("default", "CX33", "CX32"), *three_shapes())
        for least in (10, 100):
            cluster.wait_until(partial(are_running, cluster, least), f"{least} pods are Running")
            growth.kill()
            growth.start()
        wait_for_running(cluster, PODS)
        wait_for_ready_requests(cluster)
    assert offerings_bought(cluster) == undisturbed.bought
