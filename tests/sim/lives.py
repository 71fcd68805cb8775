"""growth in the embedded cluster, life after life: what is killed is gone, and the next one knows only what the cluster
tells it.
"""

from __future__ import annotations

from growth.controllers.growth import Installation
from growth.model.settings import Settings
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess


class Lives:
    """`die` and `start` as often as a test likes."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster, self._settings = cluster, settings
        self._lives: list[GrowthProcess] = []

    def start(self) -> None:
        self._lives.append(
            GrowthProcess(self._cluster, Installation(settings=self._settings), len(self._lives) + 1).start()
        )

    def die(self) -> None:
        self._lives[-1].kill()

    @property
    def failures(self) -> list[tuple[str, BaseException]]:
        return [failure for life in self._lives for failure in life.failures]

    async def die_again_and_again(self, *seconds: float) -> None:
        """After so long each time; two seconds later the next one starts."""
        for each in seconds:
            await self._cluster.runtime.sleep(each)
            self.die()
            await self._cluster.runtime.sleep(2)
            self.start()
