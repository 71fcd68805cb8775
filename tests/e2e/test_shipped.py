"""growth as it ships: the chart's role, its settings file, two replicas of which one leads."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e.chart import Helm, Json, only
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment, namespace
from tests.e2e.running import NAMESPACE, GrowthProcess, node_pool, refused_calls, wait_for_running

RUNS_IN_A_POD = ("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service")
_PLACE = {"listenHost", "listenPort"}  # of the pod; here both replicas share one host


def shipped_settings(rendered: list[Json]) -> dict[str, object]:
    [text] = only("ConfigMap", rendered)["data"].values()
    settings: dict[str, object] = yaml.safe_load(text)
    return {name: value for name, value in settings.items() if name not in _PLACE}


def install_rendered(cluster: ControlPlane, rendered: list[Json]) -> None:
    cluster.apply(namespace(NAMESPACE), *(item for item in rendered if item["kind"] not in RUNS_IN_A_POD))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")


def test_two_replicas_under_the_charts_role_buy_once_and_the_second_takes_over(
    helm: Helm, cluster: ControlPlane, tmp_path: Path
) -> None:
    rendered = helm.render("settings.provider=kwok")
    install_rendered(cluster, rendered)
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = (GrowthProcess(cluster, folder, shipped_settings(rendered)).start() for folder in folders)
    try:
        cluster.apply(node_pool("default", "CX33"), deployment("web", 20, cpu="500m", memory="512Mi"))
        wait_for_running(cluster, 20)
        assert len(cluster.objects("nodes")) == len(cluster.objects("noderequests")) == 3
        leader, follower = sorted((first, second), key=lambda process: "orders" not in process.log_path.read_text())
        assert "orders" not in follower.log_path.read_text()
        leader.kill()
        cluster.kubectl("scale", "deployment", "web", "--replicas=40", "--namespace=default")
        wait_for_running(cluster, 40)
        assert "orders" in follower.log_path.read_text()
    finally:
        first.stop()
        second.stop()
    assert refused_calls(cluster) == []
