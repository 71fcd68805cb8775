"""growth as a real process against the real control plane, under its own generated role. For e2e tests; can be killed
and started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from growth.controllers.act.role import Features
from growth.controllers.act.role import manifests as role_manifests
from growth.kube.crds import definitions
from tests.e2e.controlplane.cluster import ControlPlane

NAMESPACE: Final = "growth-system"
SOON_LEADS: Final = {"leaseSeconds": 6}  # for tests that kill growth: the next one waits for the Lease of the last
USER: Final = f"system:serviceaccount:{NAMESPACE}:growth"


def install(cluster: ControlPlane) -> None:
    """CRDs, and the role growth runs under."""
    cluster.apply(*definitions())
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.apply(*role_manifests(Features("kwok"), NAMESPACE))


class GrowthProcess:
    """One installation; `start` and `kill` as often as a test likes."""

    def __init__(
        self,
        cluster: ControlPlane,
        folder: Path,
        settings: dict[str, Any] | None = None,
        kubeconfig: Path | None = None,
    ) -> None:
        """Without a `kubeconfig` it gets one of its service account at each start."""
        self.cluster = cluster
        self._kubeconfig = kubeconfig
        self.log_path = folder / "growth.log"
        self._settings = folder / "growth.yaml"
        self._settings.write_text(yaml.safe_dump({"listenPort": 0, **(settings or {})}))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, source: Path | None = None) -> GrowthProcess:
        """`source`: the folder of another version's packages."""
        environment = {**os.environ, "PYTHONPATH": str(source)} if source else None
        kubeconfig = self._kubeconfig or self.cluster.kubeconfig_for(USER)
        command = [
            sys.executable,
            "-m",
            "growth",
            "run",
            "--settings",
            str(self._settings),
            "--kubeconfig",
            str(kubeconfig),
        ]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
        return self

    def kill(self) -> None:
        """As a power cut: nothing is tidied up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """As a machine that stands still: nothing is lost, and time goes on."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, number)
            self._process.wait(timeout=30)
            self._process = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("growth was not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


@contextmanager
def running_growth(
    cluster: ControlPlane, folder: Path, settings: dict[str, Any] | None = None
) -> Iterator[GrowthProcess]:
    """Installed and started; stopped at the end, whatever happens."""
    install(cluster)
    growth = GrowthProcess(cluster, folder, settings).start()
    try:
        yield growth
    finally:
        growth.stop()


def node_pool(name: str, *types: str | dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A NodePool of these server types, each a name or a whole choice."""
    choices = [{"name": one} if isinstance(one, str) else one for one in types]
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"serverTypes": choices, **spec},
    }


def phase(request: dict[str, Any]) -> str:
    return str(request.get("status", {}).get("phase", "Pending"))


def wait_for_ready_requests(cluster: ControlPlane) -> None:
    cluster.wait_until(
        lambda: {phase(request) for request in cluster.objects("noderequests")} <= {"Ready"},
        "every NodeRequest is Ready",
    )


def refused_calls(cluster: ControlPlane) -> list[str]:
    """What growth asked for and had no right to."""
    return [
        f"{event.verb} {event.resource}"
        for event in cluster.audit_events()
        if event.user_name == USER and event.code == 403
    ]


def running_pods(cluster: ControlPlane) -> int:
    return sum(
        pod.get("status", {}).get("phase") == "Running" for pod in cluster.objects("pods", "--namespace=default")
    )


def wait_for_running(cluster: ControlPlane, count: int, timeout_seconds: float = 120.0) -> float:
    """Wait until so many pods run; returns the seconds it took."""
    began_at = time.monotonic()
    cluster.wait_until(lambda: running_pods(cluster) == count, f"{count} pods are Running", timeout_seconds)
    return time.monotonic() - began_at
