"""The embedded cluster, put together: API server, scheduler, controllers, kubelets and a cloud, all on virtual time and
one seed.

Made by scenarios, tests, `growth demo` and `growth sim`. growth itself is not part of it: it is started against `api`
(a Transport) and `cloud` like any other client, with a Runtime of its own, and can be killed and started again."""

from __future__ import annotations

import copy
from collections.abc import Callable

from msgspec import Struct

from growth.providers.catalogue import Catalogue, built_in_catalogue
from growth.runtime import Runtime
from growth.sim.agents.daemons import DaemonSets
from growth.sim.agents.kubelet import Habits, Kubelets
from growth.sim.agents.lifecycle import GarbageCollector, NodeLifecycle
from growth.sim.agents.scheduler import Scheduler
from growth.sim.agents.volumes import VolumeControllers
from growth.sim.agents.workloads import DisruptionBudgets, Workloads
from growth.sim.apiserver.kinds import BY_NAME, Json
from growth.sim.apiserver.schema import Schemas
from growth.sim.apiserver.server import ApiServer, kind_of
from growth.sim.apiserver.store import Stored
from growth.sim.clock import SimRuntime
from growth.sim.cloud.cloud import Cloud, Pace
from growth.sim.cloud.shop import Shop

PROVIDER: str = "sim"


class World(Struct, frozen=True):
    """How the embedded cluster is made."""

    catalogue: Catalogue = built_in_catalogue(PROVIDER)
    pace: Pace = Pace()
    habits: Habits = Habits()
    quota: int | None = None
    has_cloud_controller: bool = True
    scheduler_lag_seconds: float = 0.02
    history_length: int = 20_000


class Cluster:
    """Must be made inside a running event loop."""

    def __init__(
        self,
        seed: str = "0",
        world: World | None = None,
        schemas: Schemas | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        self.world = world = world or World()
        self.seed = seed
        self.runtime = runtime or SimRuntime(f"{seed}/world")
        self.api = ApiServer(self.runtime, seed, schemas, world.history_length)
        self.verbs = self.api.verbs
        self.store = self.api.store
        self.cloud = Cloud(world.catalogue, self.runtime, seed, world.pace, world.quota)
        self.shop: Shop = self.cloud  # another cloud may take its place
        self.kubelets = Kubelets(self.verbs, seed, world.habits, world.catalogue.provider)
        self.cloud.on_boot, self.cloud.on_gone = self.kubelets.booted, self.kubelets.gone
        self.cloud.on_stop = self.kubelets.stopped
        self.lifecycle = NodeLifecycle(self.verbs, self.kubelets, world.has_cloud_controller)
        self.scheduler = Scheduler(self.verbs, seed, world.scheduler_lag_seconds)
        self.workloads = Workloads(self.verbs)
        self.daemons = DaemonSets(self.verbs)
        self.budgets = DisruptionBudgets(self.verbs)
        self.collector = GarbageCollector(self.verbs)
        self.volumes = VolumeControllers(self.verbs, seed)

    def tell(self, say: Callable[[str], None]) -> None:
        """Let `say` hear of every write and every server from now on, a line each."""
        self.store.on_write(lambda write: say(write.line()))
        self.shop.on_change.append(
            lambda what, server: say(f"cloud {what} {server.server_type} in {server.location} for {server.name}")
        )

    def create(self, *items: Json, actor: str = "user") -> list[Stored]:
        """Create objects as a user would, each saying its apiVersion and kind."""
        return [self.verbs.create(kind_of(item), copy.deepcopy(item), actor) for item in items]

    def delete(self, kind: str, name: str, namespace: str = "", **options: object) -> None:
        self.verbs.delete(BY_NAME[kind], name, namespace, "user", dict(options))

    def scale(self, kind: str, name: str, replicas: int, namespace: str = "default") -> None:
        """Set a workload's replica count as a user would."""

        def set_replicas(item: Json) -> None:
            item["spec"]["replicas"] = replicas

        self.verbs.modify(BY_NAME[kind], name, namespace, set_replicas, "user")

    def objects(self, kind: str, namespace: str = "") -> list[Json]:
        return list(self.store.read_all(BY_NAME[kind], namespace))
