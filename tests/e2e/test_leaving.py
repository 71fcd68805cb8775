"""growth is taken away in any order: no finalizer holds anything for ever, no machine is forgotten without a word."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.controlplane.cluster import ControlPlane, KubectlError
from tests.e2e.hetzner import growth_at_hetzner, hetzner_beside
from tests.e2e.manifests import deployment
from tests.e2e.running import NAMESPACE, GrowthProcess, node_pool, running_pods, wait_for_running

KINDS = tuple(f"{each}.growth.dev" for each in ("nodepools", "noderequests", "noderemovalrequests", "poolautoscalers"))
pytestmark = pytest.mark.timeout(300)  # a command of growth takes its time on a busy machine
SOON_SECONDS = 12.0  # growth sees what was done, and does what it does then


def delete(cluster: ControlPlane, *what: str) -> None:
    cluster.kubectl("delete", *what, "--wait=false", "--ignore-not-found")


def growth_first(cluster: ControlPlane, growth: GrowthProcess) -> None:
    growth.stop()
    without_rights(cluster, growth)
    without_namespace(cluster, growth)


def without_kinds(cluster: ControlPlane, _: GrowthProcess) -> None:
    delete(cluster, "crd", *KINDS)


def without_namespace(cluster: ControlPlane, _: GrowthProcess) -> None:
    delete(cluster, "namespace", NAMESPACE)


def without_rights(cluster: ControlPlane, _: GrowthProcess) -> None:
    delete(cluster, "clusterrolebinding", "growth")
    delete(cluster, "clusterrole", "growth")
    delete(cluster, f"--namespace={NAMESPACE}", "rolebinding", "growth")


def without_account(cluster: ControlPlane, _: GrowthProcess) -> None:
    delete(cluster, f"--namespace={NAMESPACE}", "serviceaccount", "growth")


ORDERS = (growth_first, without_kinds, without_namespace, without_rights, without_account)


def growth_says(cluster: ControlPlane, folder: Path, command: str) -> str:
    """What a command of growth prints for an administrator; it must succeed."""
    flags = ["--settings", str(folder / "growth.yaml"), "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(
        [sys.executable, "-m", "growth", command, *flags], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_gone(cluster: ControlPlane, kind: str) -> bool:
    try:
        cluster.kubectl("get", "crd", kind)
    except KubectlError as error:
        return "NotFound" in error.stderr
    return False


@pytest.mark.refused
@pytest.mark.parametrize("leave", ORDERS, ids=lambda each: each.__name__)
def test_growth_leaves_in_any_order_and_every_machine_is_told_of(
    cluster: ControlPlane, tmp_path: Path, leave: Callable[[ControlPlane, GrowthProcess], None]
) -> None:
    with hetzner_beside(cluster) as fake, growth_at_hetzner(cluster, fake, tmp_path) as growth:
        cluster.apply(node_pool("default", "CX33"), deployment("web", 2, cpu="3", memory="2Gi"))
        wait_for_running(cluster, 2)
        leave(cluster, growth)
        time.sleep(SOON_SECONDS if growth.is_running else 0)
        growth.stop()
        told = growth_says(cluster, tmp_path, "release")
        delete(cluster, "crd", *KINDS)
        cluster.wait_until(lambda: all(is_gone(cluster, kind) for kind in KINDS), "growth's kinds are gone", 30)
        left = {server.name for server in fake.api.project.servers.values()}
        assert running_pods(cluster) == 2
        assert len(left) == 2
        assert all(name in told for name in left), told
        assert "no orphaned machines" in growth_says(cluster, tmp_path, "orphans")
        cluster.kubectl("delete", "nodes", "--all")
        listed = growth_says(cluster, tmp_path, "orphans")
        assert all(name in listed for name in left), listed
