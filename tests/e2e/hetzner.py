"""The fake Hetzner beside a real control plane: servers that boot become Node objects, and kwok plays their kubelets.
For e2e tests.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.role import Features
from growth.controllers.act.role import manifests as role_manifests
from growth.kube.crds import definitions
from growth.model.resources import CPU, format_amount
from growth.sim.cloud.hetzner.api import FakeApi
from growth.sim.cloud.hetzner.embedded import TEMPLATE, TOKEN, as_seen_by_kubelet
from growth.sim.cloud.hetzner.inventory import FakeServer
from growth.sim.cloud.hetzner.project import FakePace, Project
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.running import NAMESPACE, GrowthProcess
from tests.fakes.hetzner.server import FakeServing, serving

QUICK = FakePace(create_seconds=(0.3, 1.0), boot_seconds=(0.5, 2.0), delete_seconds=(0.2, 1.0))


class Booting:
    """Turns servers that booted into Node objects, a handful at a time."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._booted: queue.Queue[FakeServer | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def booted(self, server: FakeServer) -> None:
        self._booted.put(server)

    def stop(self) -> None:
        self._booted.put(None)
        self._thread.join(30)

    def _run(self) -> None:
        while (server := self._booted.get()) is not None:
            found = [server]
            while not self._booted.empty() and len(found) < 20:
                another = self._booted.get()
                if another is None:
                    return
                found.append(another)
            self._cluster.apply(*(node_of(each) for each in found if each.status == "running"))


def node_of(server: FakeServer) -> dict[str, Any]:
    """What the machine's kubelet registers, from its user data."""
    seen = as_seen_by_kubelet(server)
    amounts = {
        name: format_amount(name, amount) if name == CPU else str(amount) for name, amount in seen.allocatable.items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": server.name,
            "labels": {**seen.template.labels, "kubernetes.io/hostname": server.name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"providerID": f"hcloud://{server.id}", "taints": json.loads(server.user_data)["taints"]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


@contextmanager
def hetzner_beside(cluster: ControlPlane) -> Iterator[FakeServing]:
    """A fake Hetzner whose servers join this cluster."""
    project = Project(time.time, "e2e", QUICK)
    booting = Booting(cluster)
    project.on_boot = booting.booted
    with serving(FakeApi(project, TOKEN)) as fake:
        try:
            yield fake
        finally:
            booting.stop()


def install_for_hetzner(cluster: ControlPlane, tokens: JoinTokens | None = None) -> None:
    """CRDs, and the role generated for this provider."""
    cluster.apply(*definitions())
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.apply(*role_manifests(Features("hetzner"), NAMESPACE, tokens=tokens))


def project_settings(
    endpoint: str, folder: Path, template: str = TEMPLATE, launch: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The section `hetzner` of growth's settings; its files are written."""
    (folder / "token").write_text(TOKEN)
    (folder / "user-data").write_text(template)
    return {
        "tokenFile": str(folder / "token"),
        "endpoint": endpoint,
        "callSeconds": 5,
        "launch": {
            "userDataFile": str(folder / "user-data"),
            "networks": ["kube"],
            "firewalls": ["workers"],
            "sshKeys": ["ops"],
            **(launch or {}),
        },
    }


@contextmanager
def growth_at_hetzner(
    cluster: ControlPlane,
    fake: FakeServing,
    folder: Path,
    tokens: JoinTokens | None = None,
    template: str = TEMPLATE,
    launch: Mapping[str, Any] | None = None,
    **plans: Any,
) -> Iterator[GrowthProcess]:
    """growth as a process of its own, under the role generated for this provider."""
    install_for_hetzner(cluster, tokens)
    settings = {
        "provider": "hetzner",
        "logLevel": "debug",
        "hetzner": project_settings(fake.endpoint, folder, template, launch),
        "plans": plans,
        "joinTokens": msgspec.to_builtins(tokens or JoinTokens()),
    }
    growth = GrowthProcess(cluster, folder, settings).start()
    try:
        yield growth
    finally:
        growth.stop()
