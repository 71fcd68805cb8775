"""Several growths in one embedded cluster, each with its share of the pools and its own Lease. A trial of decision 7.

`Growths` starts and kills them and writes down who asked for what. `Sharing` lets the laws of the simulation look on:
they know one growth, so what they judge is all of them together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from growth.controllers.growth import Installation
from growth.kube.api.transport import Request
from growth.kube.election import LeaseSettings
from growth.model.node import POOL_LABEL
from growth.model.settings import Settings
from growth.plan.world.machines import pool_in_name
from growth.sim.apiserver.kinds import POD
from growth.sim.apiserver.objects import node_pool
from growth.sim.apiserver.store import Write
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws import Judge
from growth.sim.laws.memory import Call
from growth.sim.laws.witness import REQUEST, Witness, planned_pods
from growth.sim.process import GrowthProcess
from tests.sim.share_view import ShareApi, ShareCloud, Sight
from tests.sim.shares import SHARE_LABEL, Shares

Json = dict[str, Any]
Result = TypeVar("Result")

LOOK_SECONDS: Final = 15
QUICK: Final = Settings(
    scale_down_delay_seconds=5.0,
    settling_seconds=60.0,
    disruption_window_seconds=0.0,
    consolidation_interval_seconds=5.0,
    machine_collection_grace_seconds=60.0,
)
_RECORDS: Final = ("noderequests", "noderemovalrequests")


class Asked(Struct, frozen=True):
    """A write that left a growth, or a call at the cloud."""

    share: str
    text: str
    pool: str  # that the object or machine is of, by its name; empty: of none
    share_of_pool: str  # when it was asked


class Planned(Struct, frozen=True):
    """A pod that a machine was ordered for, and whose it was then."""

    pod: str
    share: str
    share_of_pool: str


class Growths:
    """One cluster and its growths. `start` and `kill` as often as a test likes."""

    def __init__(self, cluster: Cluster, settings: Settings, *, is_narrow: bool = False) -> None:
        self.cluster, self._settings, self._is_narrow = cluster, settings, is_narrow
        self.shares = Shares(cluster)
        self.heard: dict[str, Shares] = {}  # by the growths of each share
        self.asked: list[Asked] = []
        self.planned: list[Planned] = []
        self.views: dict[str, ShareApi] = {}
        self._living: dict[str, list[GrowthProcess]] = {}
        self._lives: list[GrowthProcess] = []
        namespace = LeaseSettings().namespace
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        cluster.store.on_write(self._see)

    def start(self, share: str, replicas: int = 1) -> None:
        sight = Sight(self.heard.setdefault(share, Shares(self.cluster)), share, self._is_narrow)
        view = self.views.setdefault(share, ShareApi(self.cluster.api, sight))
        for _ in range(replicas):
            process = GrowthProcess(
                self.cluster,
                Installation(settings=self._settings),
                len(self._lives) + 1,
                transport=view,
                cloud=ShareCloud(self.cluster.cloud, sight),
                lease=LeaseSettings(f"growth-{share}" if share else "growth"),
            )
            process.door.on_send = partial(self._hear_request, share, process)
            process.cloud_door.on_call = partial(self._hear_cloud, share, process)
            self._lives.append(process)
            self._living.setdefault(share, []).append(process.start())

    def kill(self, share: str) -> None:
        """Who leads, where there are several."""
        leader = min(self._living[share], key=lambda each: not self._leads(each))
        leader.kill()
        self._living[share].remove(leader)

    def leaders(self, share: str) -> int:
        return sum(map(self._leads, self._living.get(share, ())))

    def growth_of(self, share: str) -> GrowthProcess:
        return self._living[share][0]

    @property
    def failures(self) -> list[tuple[str, BaseException]]:
        return [failure for life in self._lives for failure in life.failures]

    # ------------------------------------------------------------------------------------ what came of it

    def bought(self) -> list[Asked]:
        return [each for each in self.asked if each.text.startswith("create ")]

    def given_back(self) -> list[Asked]:
        return [each for each in self.asked if each.text.startswith("delete ")]

    def trespasses(self) -> list[str]:
        """What a growth asked for of another share's pools, machines, nodes or records, or for another's pods."""
        written = [f"{each.share}: {each.text}" for each in self.asked if each.share_of_pool not in ("", each.share)]
        return [*written, *(f"for {each.pod}" for each in self.planned if each.share != each.share_of_pool)]

    def said(self, *reasons: str) -> list[str]:
        return [str(each.get("note")) for each in self.cluster.objects("Event") if each.get("reason") in reasons]

    def running(self, *apps: str) -> int:
        pods = (each for each in self.cluster.objects("Pod") if "deletionTimestamp" not in each["metadata"])
        mine = (each for each in pods if each["metadata"].get("labels", {}).get("app") in apps)
        return sum(each["status"]["phase"] == "Running" for each in mine)

    def nodes_of(self, pool: str) -> int:
        labels = [each["metadata"].get("labels") or {} for each in self.cluster.objects("Node")]
        return sum(each.get(POOL_LABEL) == pool for each in labels)

    def price_per_hour(self) -> float:
        shop = self.cluster.shop
        return sum(shop.price_of(each.server_id) for each in shop.servers.values() if each.status != "deleting")

    # ----------------------------------------------------------------------------------------------- time

    async def until(self, seconds: float, holds: Callable[[], bool], what: str) -> None:
        began = self.cluster.runtime.monotonic()
        while not holds():
            assert self.cluster.runtime.monotonic() - began < seconds, f"not in time: {what}"
            await self.rest(1)

    async def rest(self, seconds: float) -> None:
        await self.cluster.runtime.sleep(seconds)

    # -------------------------------------------------------------------------------------- what is heard

    def _leads(self, process: GrowthProcess) -> bool:
        return process.election is not None and Context().run(process.election.fence.holds)

    def _hear_request(self, share: str, process: GrowthProcess, request: Request) -> None:
        path = request.path.partition("?")[0]
        if request.method == "GET":
            self._hear_read(request)
        elif "/leases" not in path and "/events" not in path:
            self._hear(share, process, f"{request.method} {path}", _pool_of(path, request.body))

    def _hear_cloud(self, share: str, process: GrowthProcess, moment: str, call: str) -> None:
        if moment == "before":
            asked = call.partition(" ")[2]
            server = self.cluster.shop.servers.get(asked)
            self._hear(share, process, call, pool_in_name(asked if server is None else server.name))

    def _hear(self, share: str, process: GrowthProcess, text: str, pool: str) -> None:
        others = [each for each in self._living[share] if each is not process]
        another_leads = any(map(self._leads, others))
        self._hear_call(Call(text, self._leads(process), another_leads, stood_still=False, life=process.life))
        self.asked.append(Asked(share, text, pool, self.shares.of_pool(pool) if pool else ""))

    def _hear_read(self, request: Request) -> None:
        """Nobody judges."""

    def _hear_call(self, call: Call) -> None:
        """Nobody judges."""

    def _see(self, write: Write) -> None:
        if write.kind is REQUEST and write.type == "ADDED":
            bought_by = self.shares.of_pool(write.item["spec"]["pool"])
            for namespace, name in planned_pods(write.item):
                stored = self.cluster.store.get(POD, name, namespace)
                if stored is not None:
                    self.planned.append(Planned(f"{namespace}/{name}", self.shares.of_waiting(stored), bought_by))


class Sharing(Growths):
    """The same, with all laws."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        super().__init__(cluster, settings)
        self._witness = Witness(cluster, settings=settings)
        self.judge = Judge(self._witness)

    async def rest(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            await self.cluster.runtime.sleep(1)
            if round(self.cluster.runtime.monotonic()) % LOOK_SECONDS == 0:
                self.judge.hear_time(is_calm=all(self.leaders(share) for share in self.shares.names))

    def _hear_read(self, request: Request) -> None:
        self._witness.hear_read(request)

    def _hear_call(self, call: Call) -> None:
        self.judge.hear_call(call)


def _pool_of(path: str, body: bytes) -> str:
    """The pool that a write is about, by the name of its object; a bind is about its node."""
    parts, content = path.strip("/").split("/"), msgspec.json.decode(body) if body else {}
    if parts[-1] == "binding":
        return pool_in_name(content["target"]["name"])
    if parts[-1] in _RECORDS:
        return pool_in_name(content["metadata"]["name"])
    for kind, name in pairwise(parts):
        if kind in (*_RECORDS, "nodes", "nodepools"):
            return name if kind == "nodepools" else pool_in_name(name)
    return ""


def share_pool(name: str, share: str, *server_types: str, **spec: Any) -> Json:
    """A NodePool of a share; empty: of the one without a name."""
    pool = node_pool(name, *server_types, **spec)
    pool["metadata"]["labels"] = {SHARE_LABEL: share} if share else {}
    return pool


def in_pools(*names: str) -> Json:
    """The part of a pod's spec that lets it use these pools."""
    wish = {"key": POOL_LABEL, "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wish]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def shared(test: Callable[[Sharing], Awaitable[Result]], settings: Settings = QUICK) -> Result:
    """Run a test in one cluster with several growths. Whatever it does, no law may be broken, no growth may touch what
    is another's or buy for another's pods, and no machine may be taken for an orphan.
    """

    async def run() -> Result:
        sharing = Sharing(Cluster("sharing"), settings)
        result = await test(sharing)
        assert [str(each) for each in sharing.judge.violations] == []
        assert sharing.trespasses() == []
        assert sharing.said("OrphanedMachine", "OrphanCollected", "MachineUnknown") == []
        assert sharing.failures == []
        return result

    return run_virtual(run())
