"""The stories that `growth demo` tells: 120 pods come to an empty cluster, machines are bought, the load goes, machines
are given back; or any scenario.

Runs the production controllers in the embedded cluster, with the embedded cloud or with the fake Hetzner (then the
Hetzner provider and the official client are at work). The summary says what came of it; the story failed if a pod found
no place."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.controllers.growth import Growth
from growth.kube.api.client import Client
from growth.providers.contract import Provider
from growth.runtime import Runtime
from growth.sim.apiserver.kinds import Json
from growth.sim.apiserver.objects import daemon_set, deployment, node_pool
from growth.sim.clock import after
from growth.sim.cloud.hetzner.embedded import HetznerCloud
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess
from growth.sim.scenarios.file import Step
from growth.sim.scenarios.reader import ReadScenario
from growth.sim.scenarios.result import Result, broken_expectations
from growth.sim.scenarios.run import ScenarioRun
from growth.sim.scenarios.schema import sentence_of, tag_of
from growth.sim.stories.timeline import Say, Timeline
from growth.solver.purchase.solve import solve

_PLACED_WITHIN_SECONDS: Final = 300.0
_QUIET_SECONDS: Final = 60
_GONE_WITHIN_SECONDS: Final = 900.0

# Another cloud than the embedded one takes its place; answers how growth's provider for it is made.
OtherCloud = Callable[[Cluster], Callable[[Client, Runtime], Provider]]


class Setting(Struct, frozen=True):
    """What a story plays with, and how it is told."""

    pools: tuple[Json, ...]
    workloads: tuple[Json, ...]
    opening: str
    load: str


GPU: Final = "nvidia.com/gpu"
DEMO: Final = Setting(
    pools=(
        node_pool("default", "CX31", "CX32", "CX33", "CAX31", architectures=["amd64", "arm64"]),
        node_pool(
            "gpu", {"name": "GEX44", "max": 5}, taints=[{"key": GPU, "value": "present", "effect": "NoSchedule"}]
        ),
    ),
    workloads=(
        deployment("web", 70, cpu="250m", memory="512Mi"),
        deployment("api", 46, cpu="1", memory="1Gi"),
        deployment(
            "training",
            4,
            cpu="4",
            memory="16Gi",
            requests={GPU: "1"},
            nodeSelector={"growth.dev/pool": "gpu"},
            tolerations=[{"key": GPU, "operator": "Exists"}],
        ),
    ),
    opening="two pools: default (CX31, CX32, CX33, CAX31) and gpu (GEX44); no nodes",
    load="three Deployments: web 70 × (250m, 512Mi), api 46 × (1 cpu, 1Gi), training 4 × (4 cpu, 16Gi, 1 GPU)",
)
HETZNER_DEMO: Final = Setting(
    pools=(node_pool("default", "CX31", "CX33", "CX43", "CAX31", "GEX44", architectures=["amd64", "arm64"]),),
    workloads=(deployment("web", 70, cpu="250m", memory="512Mi"), deployment("api", 50, cpu="1", memory="1Gi")),
    opening="one pool: CX31, CX33, CX43, CAX31, GEX44, of which Hetzner does not sell the first and the last; "
    "CX43 is nearly sold out",
    load="two Deployments: web 70 × (250m, 512Mi), api 50 × (1 cpu, 1Gi)",
)


class Summary(Struct, frozen=True):
    """What came of the story."""

    pods: int
    placed: int
    nodes: int
    price_per_hour: float
    lower_bound: float | None
    placed_after_seconds: float | None  # None: never all
    nodes_left: int
    spent: float
    virtual_seconds: float
    failures: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        return self.placed == self.pods and not self.failures


class Story:
    """One telling, in one embedded cluster. Must run inside a running event loop."""

    def __init__(
        self, say: Say, seed: str = "demo", setting: Setting = DEMO, other_cloud: OtherCloud | None = None
    ) -> None:
        self.setting = setting
        self.cluster = Cluster(seed)
        provider_for = other_cloud(self.cluster) if other_cloud else None
        self.process = GrowthProcess(self.cluster, provider_for=provider_for)
        self.timeline = Timeline(self.cluster, say)
        self.process.runtime.on_offload = self.timeline.look_at_answer
        self._say = say

    @property
    def growth(self) -> Growth | None:
        """The one that runs now."""
        return self.process.growth

    @property
    def chapters(self) -> Mapping[str, float]:
        return {}

    async def run(self) -> Summary:
        clock, cluster = self.cluster.runtime, self.cluster
        cluster.create(*self.setting.pools, daemon_set("network"))
        self.process.start()
        await clock.sleep(2)
        self._tell("you", self.setting.opening)
        cluster.create(*self.setting.workloads)
        self._tell("you", self.setting.load)
        began = clock.monotonic()
        placed_at = await self._until_placed(began + _PLACED_WITHIN_SECONDS)
        price, nodes, view = self.cluster.shop.price_per_hour(), len(cluster.objects("Node")), self.timeline.look()
        for _ in range(_QUIET_SECONDS):
            await clock.sleep(1)
            self.timeline.look()
        self._tell("you", "the load goes: all Deployments scaled to zero")
        for workload in self.setting.workloads:
            cluster.scale("Deployment", workload["metadata"]["name"], 0)
        await self._until_gone(clock.monotonic() + _GONE_WITHIN_SECONDS)
        return Summary(
            pods=view.pods,
            placed=view.bound,
            nodes=nodes,
            price_per_hour=price,
            lower_bound=self._lower_bound(),
            placed_after_seconds=None if placed_at is None else placed_at - began,
            nodes_left=len(cluster.objects("Node")),
            spent=self.cluster.shop.amount_due(),
            virtual_seconds=clock.monotonic(),
            failures=tuple(f"{name}: {error!r}" for name, error in self.process.failures),
        )

    def _lower_bound(self) -> float | None:
        """Of the plan for most pods; not the sum, since pods may be asked about twice. A plan that left pods out, as
        the first of a new pool does, is made once more without limits: nothing that places them all can cost less.
        """
        asked = max(self.timeline.plans, key=lambda plan: sum(one.count for one in plan[0].demands), default=None)
        if asked is None:
            return None
        problem, solution = asked
        whole = solve(replace(problem, limits=())) if solution.unplaced else solution
        return whole.lower_bound or None

    async def _until_placed(self, deadline: float) -> float | None:
        """When every pod ran on its node, or None if they did not in time."""
        wanted = sum(workload["spec"]["replicas"] for workload in self.setting.workloads)
        while self.cluster.runtime.monotonic() < deadline:
            await self.cluster.runtime.sleep(1)
            view = self.timeline.look()
            if view.running == view.pods == wanted:
                return self.cluster.runtime.monotonic()
        return None

    async def _until_gone(self, deadline: float) -> None:
        while self.cluster.runtime.monotonic() < deadline and self.cluster.objects("Node"):
            await self.cluster.runtime.sleep(1)
            self.timeline.look()

    def _tell(self, who: str, what: str) -> None:
        self._say(self.cluster.runtime.monotonic(), who, what)


class HetznerStory(Story):
    """One telling. The files that a pod would have mounted are in a folder of their own, and go with it."""

    def __init__(self, say: Say, seed: str = "demo") -> None:
        self._files = tempfile.TemporaryDirectory(prefix="growth-demo-")
        super().__init__(say, seed, HETZNER_DEMO, self._open_cloud)

    async def run(self) -> Summary:
        with self._files:
            return await super().run()

    def _open_cloud(self, cluster: Cluster) -> Callable[[Client, Runtime], Provider]:
        cloud = HetznerCloud(cluster, Path(self._files.name))
        cloud.project.stock = {("cx43", place): 2 for place in ("fsn1", "nbg1", "hel1")}
        return cloud.provider_for()


class Ending(Struct, frozen=True):
    """What came of a scenario that was told."""

    result: Result
    failures: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        return not self.failures


class ScenarioStory:
    """One telling of a scenario. Must be made inside a running event loop."""

    def __init__(self, say: Say, read: ReadScenario) -> None:
        self._say, self._scenario = say, read.scenario
        self._running = ScenarioRun(read)
        self.timeline = Timeline(self._running.cluster, say)
        self.timeline.listen()
        self._running.on_start = self._meet
        self._running.on_step = lambda step: self._tell(*told_step(step))

    @property
    def growth(self) -> Growth | None:
        """The one that runs now; of several, the first."""
        return next((each.growth for each in self._running.replicas if each is not None), None)

    @property
    def chapters(self) -> Mapping[str, float]:
        """Titles, and when they begin."""
        return {title: float(at) for title, at in self._scenario.chapters.items()}

    def _meet(self, process: GrowthProcess) -> None:
        process.runtime.on_offload = self.timeline.look_at_answer

    async def run(self) -> Ending:
        scenario = self._scenario
        self._tell("you", scenario.about or scenario.name)
        for fault in scenario.faults:
            after(
                fault.begins, partial(self._tell, "fault", f"begins: {tag_of(type(fault))}. {sentence_of(type(fault))}")
            )
            if fault.until is not None and fault.until < scenario.duration:
                after(fault.until, partial(self._tell, "fault", f"over: {tag_of(type(fault))}"))
        self._running.cluster.runtime.spawn("teller", self._look())
        result = await self._running.run()
        laws = (f"law broken: {law}" for law in result.laws_broken)
        return Ending(result, (*broken_expectations(result, scenario.expect), *laws))

    async def _look(self) -> None:
        while True:
            await self._running.cluster.runtime.sleep(1)
            self.timeline.look()

    def _tell(self, who: str, what: str) -> None:
        self._say(self._running.cluster.runtime.monotonic(), who, what)


def told_step(step: Step) -> tuple[str, str]:
    """Who does what in a step, in words."""
    if step.restart:
        return "fault", f"growth is killed, and comes back after {step.after:.0f} s"
    if step.pause:
        return "fault", f"growth stands still for {step.lasts:.0f} s"
    if step.scale is not None:
        return "you", f"scale {step.scale.kind} {step.scale.name} to {step.scale.replicas}"
    if (members := step.claim or step.release) is not None:
        verb = "take into use" if step.claim else "give back"
        return "you", f"{verb} {members.count} of {members.kind} {members.name}"
    if (chosen := step.delete or step.patch) is not None:
        which = chosen.name or ", ".join(f"{key}={value}" for key, value in chosen.selector.items()) or "objects"
        return "you", f"{'delete' if step.delete else 'change'} {chosen.kind} {which}"
    return "you", "add " + ", ".join(_named(item) for item in step.apply)


def _named(item: Json) -> str:
    metadata = item["metadata"]
    return f"{item['kind']} {metadata.get('name') or metadata['generateName'] + '…'}"
