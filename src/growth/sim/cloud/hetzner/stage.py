"""The demo's story with the fake Hetzner as the cloud: the Hetzner provider and the official client at work, in virtual
time. Asked by `growth demo`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from growth.kube.api.client import Client
from growth.providers.contract import Provider
from growth.runtime import Runtime
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cloud.hetzner.embedded import HetznerCloud
from growth.sim.cloud.hetzner.project import Project
from growth.sim.cluster import Cluster
from growth.sim.stories.story import Setting, Story, Summary
from growth.sim.stories.timeline import Say

SETTING: Final = Setting(
    pools=(node_pool("default", "CX31", "CX33", "CX43", "CAX31", "GEX44", architectures=["amd64", "arm64"]),),
    workloads=(deployment("web", 70, cpu="250m", memory="512Mi"), deployment("api", 50, cpu="1", memory="1Gi")),
    opening="one pool: CX31, CX33, CX43, CAX31, GEX44, of which Hetzner does not sell the first and the last; CX43 is nearly sold out",
    load="two Deployments: web 70 × (250m, 512Mi), api 50 × (1 cpu, 1Gi)",
)


class Ordered(Struct, frozen=True):
    """A server, as the story tells of it."""

    server_type: str
    location: str
    status: str


class HetznerShop:
    """What the timeline needs to see of a project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._ordered: dict[int, Ordered] = {}

    @property
    def servers(self) -> Mapping[str, Ordered]:
        return {
            str(each.id): Ordered(each.kind.name.upper(), each.location, each.status)
            for each in self._project.servers.values()
        }

    @property
    def creates(self) -> Sequence[Ordered]:
        for each in self._project.servers.values():
            self._ordered.setdefault(each.id, Ordered(each.kind.name.upper(), each.location, each.status))
        return list(self._ordered.values())

    def price_per_hour(self) -> float:
        return self._project.meter.price_per_hour()

    def amount_due(self) -> float:
        return self._project.meter.amount_due(self._project.now())


class HetznerStory(Story):
    """One telling. The files that a pod would have mounted are in a folder of their own, and go with it."""

    def __init__(self, say: Say, seed: str = "demo") -> None:
        self._files = tempfile.TemporaryDirectory(prefix="growth-demo-")
        super().__init__(say, seed, SETTING, self._stage)

    async def run(self) -> Summary:
        with self._files:
            return await super().run()

    def _stage(self, cluster: Cluster) -> tuple[HetznerShop, Callable[[Client, Runtime], Provider]]:
        cloud = HetznerCloud(cluster, Path(self._files.name))
        cloud.project.stock = {("cx43", place): 2 for place in ("fsn1", "nbg1", "hel1")}
        return HetznerShop(cloud.project), cloud.provider_for()
