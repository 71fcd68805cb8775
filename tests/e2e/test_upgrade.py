"""An upgrade in the middle of everything, and the way back: what one version wrote the other reads, and no machine is
bought or given back for it.

The version before is taken from git: the last one whose objects, marks, annotations and digests the present version
promises to read.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import USER, GrowthProcess, install, node_pool, wait_for_ready_requests, wait_for_running
from tests.e2e.test_buffers import buffer, is_provisioned, with_buffers
from tests.house.tree import ROOT

Json = dict[str, Any]

BEFORE: Final = "5dd5e7c"
QUIET_SECONDS: Final = 25.0  # several looks of every row
SLOW_TO_GO: Final = {"plans": {"scaleDownDelaySeconds": 1800, "settlingSeconds": 5, "consolidationIntervalSeconds": 2}}
LEASE: Final = ("leases", "--namespace=growth-system")


@pytest.fixture(scope="module")
def version_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the version before."""
    folder = tmp_path_factory.mktemp("before")
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", BEFORE, "src"], check=False, capture_output=True)
    if archive.returncode:
        pytest.skip(f"this checkout has no history with {BEFORE} in it")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / "src"


def machines(cluster: ControlPlane) -> set[tuple[str, str]]:
    return {(node["metadata"]["name"], node["metadata"]["uid"]) for node in cluster.objects("nodes")}


def requests(cluster: ControlPlane) -> set[tuple[str, str, str]]:
    found = cluster.objects("noderequests")
    return {(each["metadata"]["name"], each["metadata"]["uid"], each["status"]["phase"]) for each in found}


def marks(cluster: ControlPlane) -> dict[str, tuple[str, list[str]]]:
    """Of every marked node: when it goes, and the values of growth's taints."""
    found = {}
    for node in cluster.objects("nodes"):
        due_at = node["metadata"].get("annotations", {}).get("growth.dev/scale-down-at")
        taints = [f"{taint['key']}={taint.get('value', '')}" for taint in node["spec"].get("taints", ())]
        if due_at or any("growth.dev/" in taint for taint in taints):
            found[node["metadata"]["name"]] = (due_at, taints)
    return found


def removals(cluster: ControlPlane) -> set[str]:
    return {each["metadata"]["uid"] for each in cluster.objects("noderemovalrequests")}


def machines_touched(cluster: ControlPlane) -> Iterator[str]:
    """What growth made or deleted since the audit log was forgotten, of the objects that stand for machines."""
    for event in cluster.audit_events():
        kinds = ("nodes", "noderequests", "noderemovalrequests")
        if event.user_name == USER and event.verb in ("create", "delete") and event.resource in kinds:
            yield f"{event.verb} {event.request_uri}"


def holder(cluster: ControlPlane) -> str:
    found = cluster.objects(*LEASE)
    return str(found[0]["spec"].get("holderIdentity") or "") if found else ""


def hand_over(cluster: ControlPlane, growth: GrowthProcess, source: Path | None) -> None:
    """Stop the version that runs, start the other, and give it time to look at everything."""
    cluster.forget_audit_events()
    growth.stop()
    before = holder(cluster)
    growth.start(source)
    cluster.wait_until(lambda: holder(cluster) not in ("", before), "the other version leads", 60)
    time.sleep(QUIET_SECONDS)


@pytest.mark.timeout(600)
def test_an_upgrade_and_the_way_back_buy_and_give_back_nothing(
    cluster: ControlPlane, tmp_path: Path, version_before: Path
) -> None:
    install(cluster)
    with_buffers(cluster)
    cluster.apply(node_pool("default", "CX33", "CX43", consolidation="Full", labels={"team": "web"}))
    cluster.apply(node_pool("warm", {"name": "CX23", "min": 1}, priority=1))
    growth = GrowthProcess(cluster, tmp_path, SLOW_TO_GO).start(version_before)
    try:
        cluster.apply(deployment("web", 12, cpu="900m"), deployment("batch", 4, cpu="900m"), buffer(replicas=2))
        wait_for_running(cluster, 16)
        cluster.wait_until(is_provisioned(cluster), "the buffer has its room")
        cluster.kubectl("scale", "deployment", "batch", "--replicas=0", "--namespace=default")
        cluster.kubectl("scale", "deployment", "web", "--replicas=5", "--namespace=default")
        wait_for_running(cluster, 5)
        cluster.wait_until(lambda: bool(marks(cluster)), "nodes that are not needed are marked")
        wait_for_ready_requests(cluster)
        time.sleep(10)
        state = (machines(cluster), requests(cluster), marks(cluster), removals(cluster))
        assert len(state[0]) >= 4
        for source in (None, version_before, None):
            hand_over(cluster, growth, source)
            assert list(machines_touched(cluster)) == []
            assert (machines(cluster), requests(cluster), marks(cluster), removals(cluster)) == state
    finally:
        growth.stop()
