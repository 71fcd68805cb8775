"""A right that is lost and a namespace that is missing, on a real API server: probes and log say so, and nobody looks
dead.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from growth.controllers.act.role import Features, manifests
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.running import NAMESPACE, GrowthProcess, install, refused_calls, running_growth


def lines(growth: GrowthProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in growth.log_path.read_text().splitlines() if line.startswith("{")]


def probe(growth: GrowthProcess, path: str) -> tuple[int, str]:
    port = next((line["port"] for line in lines(growth) if line["event"] == "growth listens"), 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


def is_told(growth: GrowthProcess, reason: str) -> bool:
    status, why = probe(growth, "/readyz")
    return status == 503 and reason in why and any(reason in str(line.get("why")) for line in lines(growth))


def test_a_lost_right_is_told_within_a_minute_and_growth_is_ready_when_it_is_back(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with running_growth(cluster, tmp_path) as growth:
        cluster.wait_until(lambda: probe(growth, "/readyz")[0] == 200, "growth is ready", 60)
        assert refused_calls(cluster) == []
        role = next(each for each in manifests(Features("kwok"), NAMESPACE) if each["kind"] == "ClusterRole")
        kept = [rule for rule in role["rules"] if "pods/eviction" not in rule["resources"]]
        assert len(kept) == len(role["rules"]) - 1
        cluster.apply({**role, "rules": kept})
        cluster.wait_until(lambda: is_told(growth, "may not: create pods/eviction"), "the lost right is told", 60)
        assert probe(growth, "/healthz") == (200, "ok\n")
        cluster.apply(role)
        cluster.wait_until(lambda: probe(growth, "/readyz")[0] == 200, "growth is ready again", 60)


@pytest.mark.refused("get leases")
def test_a_missing_namespace_is_told_within_a_minute(cluster: ControlPlane, tmp_path: Path) -> None:
    install(cluster)
    growth = GrowthProcess(cluster, tmp_path, {"namespace": "nowhere"}).start()
    try:
        cluster.wait_until(lambda: is_told(growth, "the namespace nowhere does not exist"), "it is told", 60)
        cluster.wait_until(lambda: is_told(growth, "the Lease nowhere/growth cannot be taken"), "it is told", 60)
        assert probe(growth, "/healthz") == (200, "ok\n")
    finally:
        growth.stop()
