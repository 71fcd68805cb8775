"""The embedded cluster with the fake Hetzner as its cloud: the real provider, the real hcloud client, virtual time.
Asked by tests and `growth demo`.

What a real machine reads from its user data, the embedded kubelets do too: the template is JSON with the node's labels
and taints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from growth.kube.api.client import Client
from growth.model.labels import Labels
from growth.model.node import Taint
from growth.providers.contract import Provider
from growth.providers.hetzner.catalogue import estimated
from growth.providers.hetzner.settings import HetznerSettings, Launch, Reserved
from growth.providers.hetzner.wire import HetznerServerType
from growth.providers.simulated import NodeTemplate, Server
from growth.runtime import Runtime
from growth.sim.agents.timers import after
from growth.sim.clock import SimRuntime
from growth.sim.cloud.hetzner.api import FakeApi
from growth.sim.cloud.hetzner.inprocess import provider_on
from growth.sim.cloud.hetzner.project import FakeServer, Pace, Project
from growth.sim.cluster import Cluster
from growth.sim.process import send_off

TOKEN: Final = "f4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3n0"  # noqa: S105  (opens nothing)
TEMPLATE: Final = '{"labels": {{ growth.labels_json }}, "taints": {{ growth.taints_json }}}\n'


class HetznerCloud:
    """A fake project whose servers join the embedded cluster. `folder` takes the files that a pod would have mounted."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        pace: Pace | None = None,
        token: str = TOKEN,
        template: str = TEMPLATE,
        **launch: Any,
    ) -> None:
        self.cluster = cluster
        self.project = Project(cluster.runtime.now, cluster.seed, pace)
        self.project.wake_at = self._wake_at
        self.project.on_boot, self.project.on_gone = self._booted, self._gone
        self.api = FakeApi(self.project, token)
        (folder / "token").write_text(f"{token}\n")
        (folder / "user-data").write_text(template)
        self.settings = HetznerSettings(
            token_file=str(folder / "token"), launch=Launch(user_data_file=str(folder / "user-data"), **launch)
        )
        cluster.kubelets.scheme = "hcloud"

    def provider_for(self) -> Callable[[Client, Runtime], Provider]:
        """For `GrowthProcess`: a request that is on its way arrives even if its sender has died."""

        def open_provider(_client: Client, runtime: Runtime) -> Provider:
            owner = cast(SimRuntime, runtime)
            return provider_on(
                self.api,
                self.settings,
                runtime,
                self.cluster.seed,
                lambda call: send_off(call, owner),
                self.cluster.runtime,
            )

        return open_provider

    def _wake_at(self, at: float) -> None:
        after(max(0.0, at - self.cluster.runtime.now()), self.project.advance)

    def _booted(self, server: FakeServer) -> None:
        self.cluster.kubelets.booted(as_seen_by_kubelet(server), True)

    def _gone(self, server: FakeServer) -> None:
        self.cluster.kubelets.gone(as_seen_by_kubelet(server))


def as_seen_by_kubelet(server: FakeServer) -> Server:
    """The node that a server's user data makes of it."""
    read = json.loads(server.user_data)
    kind = server.kind
    allocatable = estimated(
        HetznerServerType(kind.name, kind.cores, kind.memory, float(kind.disk), kind.architecture, ()), Reserved()
    )
    template = NodeTemplate(
        Labels(read["labels"]), taints=tuple(msgspec.convert(taint, Taint) for taint in read["taints"])
    )
    return Server(
        str(server.id),
        server.name,
        kind.name,
        server.location,
        Labels(server.labels),
        "running",
        server.created_at,
        allocatable,
        template,
    )
