"""A pool that does not let growth bind, on a real scheduler: nobody is stranded, and it costs next to nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import node_pool, refused_calls, running_growth, wait_for_running
from tests.e2e.test_lifecycle import QUICK, catalogue, overcommitted, server_type

MACHINES = 40


def test_without_binding_exactly_full_machines_strand_nobody_and_cost_at_most_one_per_cent_more(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sold = catalogue(tmp_path, server_type("FULL", 4, 8, 0.01), boot_seconds=(0, 8))
    pods = [deployment("three", MACHINES, cpu="3", memory="1Gi"), deployment("one", MACHINES, cpu="1", memory="7Gi")]
    with running_growth(cluster, tmp_path, {"catalogue": sold, "plans": QUICK, "requestsPerSecond": 1000}):
        cluster.apply(node_pool("default", "FULL", bindPlannedPods=False), *pods)
        seconds = wait_for_running(cluster, 2 * MACHINES, 180)
        nodes, crowded = cluster.objects("nodes"), overcommitted(cluster)
    extra = len(nodes) / MACHINES - 1
    with capsys.disabled():
        print(
            f"\nwithout binding: {2 * MACHINES} pods run after {seconds:.1f} s on {len(nodes)} nodes, "
            f"{100 * extra:.1f} % more than the cheapest"
        )
    assert extra <= 0.01
    assert crowded == []
    assert refused_calls(cluster) == []
