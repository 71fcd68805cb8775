"""A small embedded cluster for the table of node cases: a catalogue made for the row, one growth, and short questions
about the outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from growth.model.nodepool import NodePoolSpec
from growth.model.resources import Resources, sum_resources
from growth.plan.world.swaps import template_digest
from growth.providers.catalogue import Catalogue, Location, ServerType
from growth.sim.apiserver.kinds import BY_NAME, Json
from growth.sim.apiserver.objects import node_pool
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster, World
from growth.sim.process import GrowthProcess


def machine_type(name: str, cpu: int, mib: int, price: float, **more: Any) -> ServerType:
    """All of it is for pods."""
    amounts = {"cpu": str(cpu), "memory": f"{mib}Mi", "ephemeral-storage": "40Gi"}
    return ServerType(name, str(cpu), f"{mib}Mi", price, allocatable=amounts, **more)


SMALL = machine_type("small", 2, 4096, 0.01)
HETZNER = tuple(
    machine_type(name, cpu, gib * 1024, price)
    for name, cpu, gib, price in (
        ("cx22", 2, 4, 0.0060), ("cx32", 4, 8, 0.0106), ("cx42", 8, 16, 0.0170), ("cx52", 16, 32, 0.0314),
        ("cax11", 2, 4, 0.0074), ("cax21", 4, 8, 0.0122), ("cax31", 8, 16, 0.0226), ("cax41", 16, 32, 0.0443),
        ("ccx13", 2, 8, 0.0386), ("ccx63", 48, 192, 0.5347),
    )
)  # fmt: skip


class Town:
    """One row of the table being played."""

    def __init__(self, types: tuple[ServerType, ...], zones: tuple[str, ...]) -> None:
        catalogue = Catalogue("sim", tuple(Location(zone) for zone in zones), types)
        self.cluster = Cluster("cases", World(catalogue))
        self.growth = GrowthProcess(self.cluster).start()
        self.lives = 1

    def pool(self, *choices: str | Json, name: str = "default", **spec: Any) -> None:
        """A pool whose machines have been of use before: else few are bought at first."""
        self.cluster.create(node_pool(name, *choices, **spec))
        template = template_digest(NodePoolSpec((), labels=spec.get("labels", {})))

        def has_worked(item: Json) -> None:
            item["status"] = {"trials": {"template": template}}

        self.cluster.verbs.modify(BY_NAME["NodePool"], name, "", has_worked, "user", "status")

    def restart(self) -> None:
        self.growth.kill()
        self.lives += 1
        self.growth = GrowthProcess(self.cluster, life=self.lives).start()

    async def passes(self, seconds: float) -> None:
        await self.cluster.runtime.sleep(seconds)

    async def until(self, holds: Callable[[], bool], seconds: float = 600.0) -> None:
        ends_at = self.cluster.runtime.monotonic() + seconds
        while not holds():
            assert self.cluster.runtime.monotonic() < ends_at, "it did not happen in time"
            await self.passes(0.25)

    # ------------------------------------------------------------------------------ what came of it

    @property
    def nodes(self) -> list[Json]:
        return self.cluster.objects("Node")

    @property
    def requests(self) -> list[Json]:
        return self.cluster.objects("NodeRequest")

    @property
    def bought(self) -> Counter[str]:
        return Counter(server.server_type for server in self.cluster.cloud.creates)

    @property
    def price(self) -> float:
        return sum(
            self.cluster.cloud.bills[server.server_id].price_per_hour for server in self.cluster.cloud.servers.values()
        )

    def running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self.cluster.objects("Pod"))

    def waiting(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.cluster.objects("Pod") if not pod["spec"].get("nodeName")]

    def said(self, reason: str) -> list[str]:
        """Names of the objects that an event with this reason is about."""
        return [event["regarding"]["name"] for event in self.cluster.objects("Event") if event["reason"] == reason]

    def filling(self) -> list[tuple[Resources, Resources]]:
        """Of each node: what its pods ask for, and what it has."""
        found = []
        for node in self.nodes:
            pods = [
                pod for pod in self.cluster.objects("Pod") if pod["spec"].get("nodeName") == node["metadata"]["name"]
            ]
            asked = [
                Resources.parse(part["resources"]["requests"]) for pod in pods for part in pod["spec"]["containers"]
            ]
            found.append((sum_resources(asked), Resources.parse(node["status"]["allocatable"])))
        return found


def played(story: Callable[[Town], Awaitable[None]], *types: ServerType, zones: tuple[str, ...] = ("a",)) -> None:
    async def play() -> None:
        town = Town(types or (SMALL,), zones)
        await story(town)
        assert town.growth.failures == []

    run_virtual(play())
