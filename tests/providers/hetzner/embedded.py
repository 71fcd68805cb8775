"""growth, whole, in the embedded cluster with the fake Hetzner as its cloud, for tests."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from growth.controllers.growth import Installation
from growth.sim.clock import run_virtual
from growth.sim.cloud.hetzner.embedded import HetznerCloud
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess


class Town:
    """A cluster, its cloud, and growth between them."""

    def __init__(self, folder: Path, seed: str, installation: Installation | None, **cloud: Any) -> None:
        self.cluster = Cluster(seed)
        self.cloud = HetznerCloud(self.cluster, folder, **cloud)
        self.project = self.cloud.project
        self.installation = installation
        self.lives = 0
        self.growth = self.start()

    def start(self) -> GrowthProcess:
        self.lives += 1
        self.growth = GrowthProcess(
            self.cluster, self.installation, self.lives, provider_for=self.cloud.provider_for()
        ).start()
        return self.growth

    async def wait_for(self, holds: Callable[[], bool], longest_seconds: float) -> None:
        clock = self.cluster.runtime
        deadline = clock.monotonic() + longest_seconds
        while not holds():
            assert clock.monotonic() < deadline, f"not within {longest_seconds} s"
            await clock.sleep(2)

    def running(self) -> int:
        return sum(pod["status"]["phase"] == "Running" for pod in self.cluster.objects("Pod"))

    def phases(self) -> Counter[str]:
        return Counter(
            request.get("status", {}).get("phase", "Pending") for request in self.cluster.objects("NodeRequest")
        )

    def is_empty(self) -> bool:
        return not (
            self.project.servers
            or any(self.cluster.objects(kind) for kind in ("Node", "NodeRequest", "NodeRemovalRequest"))
        )


def in_town(
    test: Callable[[Town], Awaitable[None]], seed: str = "town", installation: Installation | None = None, **cloud: Any
) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            town = Town(Path(folder), seed, installation, **cloud)
            await test(town)
            assert town.growth.failures == []

    run_virtual(run())
