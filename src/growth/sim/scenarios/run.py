"""What comes of a scenario? Builds its world, lets growth run in it, does what the steps say when their time comes, and
measures.

Asked by `growth simulate` and the scenario tests. One seed decides everything: the same file and seed give the same
result, on every machine. The bound is the solver's proven lower bound for all pods that exist, in an empty cluster
whose pools may buy without limits (`controllers/ask/bound`).
"""

from __future__ import annotations

import copy
import heapq
import math
import tempfile
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from growth.controllers.ask.bound import bound_of, bound_problem
from growth.controllers.growth import Installation
from growth.kube.api.request import ClientSettings
from growth.kube.election import LeaseSettings
from growth.model.labels import Labels
from growth.sim.apiserver.kinds import BY_NAME, CLAIMED, POD, Json
from growth.sim.apiserver.refusal import Refusal, attempt
from growth.sim.apiserver.server import merge_patch
from growth.sim.apiserver.store import Write
from growth.sim.clock import after
from growth.sim.cloud.hetzner.api import FakeRequest
from growth.sim.cloud.hetzner.embedded import HetznerCloud
from growth.sim.cluster import Cluster, World
from growth.sim.faults.kinds import SolverHangs
from growth.sim.faults.network import FaultyApi
from growth.sim.faults.schedule import FaultSchedule
from growth.sim.laws import Judge
from growth.sim.laws.witness import Witness
from growth.sim.process import GrowthProcess
from growth.sim.scenarios.file import Members, ObjectChoice, Patch, Scale, Step
from growth.sim.scenarios.measure import Measure
from growth.sim.scenarios.reader import ReadScenario, ScenarioError
from growth.sim.scenarios.result import Result

Say = Callable[[float, str], None]
SAMPLES: Final = 400
SAMPLES_A_BOUND: Final = 8  # a bound takes a solve


class ScenarioRun:
    """One world, and the growth (or growths) in it. Must be made inside a running event loop."""

    def __init__(self, read: ReadScenario, say: Say | None = None, *, draws_bounds: bool = False) -> None:
        self._draws_bounds = draws_bounds
        self.read, self.scenario = read, read.scenario
        self.cluster = Cluster(str(read.scenario.seed), World(catalogue=read.catalogue))
        self._files = tempfile.TemporaryDirectory(prefix="growth-simulate-")  # what a pod would have mounted
        self._hetzner = self._open_hetzner() if read.scenario.provider == "hetzner-fake" else None
        for machine in read.scenario.machines:
            self.cluster.shop.add_foreign(machine.name, machine.server_type, machine.location, Labels(machine.labels))
        self.measure = Measure(self.cluster)
        self.witness = Witness(self.cluster, settings=read.configuration.plans)
        self.judge = Judge(self.witness)
        self.replicas: list[GrowthProcess | None] = [None] * read.scenario.replicas
        self.faults = FaultSchedule(self.cluster, self.replicas)
        self.on_step: Callable[[Step], None] = lambda _step: None
        self.on_start: Callable[[GrowthProcess], None] = lambda _process: None
        self._lives, self._renewals = 0, 0
        self._here: dict[str, Json] = {}  # pods of the trace whose time has not come yet, by name
        if say is not None:
            self.cluster.tell(lambda line: say(self.cluster.runtime.monotonic(), line))

    def _open_hetzner(self) -> HetznerCloud:
        cloud = HetznerCloud(self.cluster, Path(self._files.name), settings=self.read.configuration.hetzner)
        cloud.api.hear = self._count_request
        return cloud

    async def run(self) -> Result:
        with self._files:
            return await self._run()

    async def _run(self) -> Result:
        clock, scenario = self.cluster.runtime, self.scenario
        for item in self.read.objects:
            self._apply(item)
        if scenario.replicas > 1:
            self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LeaseSettings().namespace}})
        for number in range(scenario.replicas):
            self._start(number)
        for step in scenario.steps:
            after(step.at, partial(self._do, step))
        for fault in scenario.faults:
            self.faults.plan(fault)
        clock.spawn("trace", self._follow_trace())
        for number in range(SAMPLES):
            await clock.sleep(scenario.duration / SAMPLES)
            with_bound = self._draws_bounds and number % SAMPLES_A_BOUND == 0
            self.measure.sample(self._bound() if with_bound else None)
        broken = tuple(str(each) for each in self.judge.violations)
        return self.measure.result(scenario.name, scenario.seed, bound=self._bound(), laws_broken=broken)

    def _bound(self) -> float:
        """By what a growth that runs sees; 0 while none does."""
        process = next((each for each in self.replicas if each is not None and each.growth.observer is not None), None)
        if process is None or process.growth.observer is None:
            return 0.0
        problem = bound_problem(process.growth.observer.snapshot(), self.read.configuration.plans)
        return 0.0 if problem is None else bound_of(problem)

    async def _follow_trace(self) -> None:
        """Pods of the trace come and go; one that is gone before its time is no reason to stop."""
        clock, leaving = self.cluster.runtime, list[tuple[float, str]]()
        arriving = deque(self.read.arrivals)
        if self.scenario.trace is not None and self.scenario.trace.made_again:
            self.cluster.store.on_write(self._make_again)
        while arriving or leaving:
            comes_at = arriving[0].at if arriving else math.inf
            goes_at = leaving[0][0] if leaving else math.inf
            await clock.sleep(min(comes_at, goes_at) - clock.monotonic())
            if goes_at < comes_at:
                name = heapq.heappop(leaving)[1]
                self._here.pop(name, None)
                attempt(self.cluster.delete, "Pod", name, "default")
                continue
            arrival = arriving.popleft()
            name = arrival.pod["metadata"]["name"]
            self._here[name] = arrival.pod
            self.cluster.create(arrival.pod)
            if arrival.until is not None:
                heapq.heappush(leaving, (arrival.until, name))

    def _make_again(self, write: Write) -> None:
        """A pod of the trace whose time has not come is gone: as its controller would, a moment later."""
        name = write.key[1]
        if write.type == "DELETED" and write.kind is POD and write.key[0] == "default" and name in self._here:
            after(0.0, partial(attempt, self.cluster.create, self._here[name]))

    # --------------------------------------------------------------------------------------- growth

    def _start(self, number: int) -> None:
        configuration = self.read.configuration
        installation = Installation(
            configuration.installation,
            configuration.plans,
            ClientSettings(requests_per_second=configuration.requests_per_second),
            only_observes=configuration.observe,
            serves_buffers=configuration.serves_buffers,
            serves_warm_pools=configuration.serves_warm_pools,
        )
        self._lives += 1
        process = GrowthProcess(
            self.cluster,
            installation,
            self._lives,
            provider_for=self._hetzner.provider_for() if self._hetzner else None,
            lease=LeaseSettings() if self.scenario.replicas > 1 else None,
        )
        door = FaultyApi(self.cluster.api, process.runtime, self.faults.active, number)
        door.on_read = self.witness.hear_read
        door.on_refused = self.measure.see_refused
        process.door.transport = door
        process.cloud_door.on_call, process.cloud_door.checksums = self._count_call, self._checksums
        process.runtime.solver_hangs = lambda: self.faults.active.hit(SolverHangs) is not None
        self.on_start(process)
        self.replicas[number] = process.start()

    def _checksums(self) -> dict[str, str]:
        """Only where the story tells of them."""
        return {"": f"number {self._renewals}"} if any(step.renew for step in self.scenario.steps) else {}

    def _count_call(self, moment: str, _call: str) -> None:
        self.measure.provider_calls += moment == "before"

    def _count_request(self, request: FakeRequest) -> None:
        is_order = (request.method, request.path) == ("POST", "/servers")
        self.measure.provider_calls += is_order or request.method == "DELETE"

    def _restart(self, step: Step) -> None:
        for number, process in enumerate(self.replicas):
            if process is not None and step.replica in (None, number):
                process.kill()
                self.replicas[number] = None
                after(step.after, partial(self._start, number))

    def _pause(self, step: Step) -> None:
        for number, process in enumerate(self.replicas):
            if process is not None and step.replica in (None, number):
                process.runtime.paused_until = self.cluster.runtime.monotonic() + step.lasts

    # ---------------------------------------------------------------------------------------- steps

    def _do(self, step: Step) -> None:
        """One step now, and again when its time has come."""
        now = self.cluster.runtime.monotonic()
        if step.every is not None and now + step.every < (step.until or self.scenario.duration):
            after(step.every, partial(self._do, step))
        self.on_step(step)
        try:
            self._do_once(step)
        except Refusal as refusal:
            raise ScenarioError(self.read.path, None, f"step {step.verb} at {now:.0f} s: {refusal}") from None

    def _do_once(self, step: Step) -> None:
        for item in step.apply:
            self._apply(item)
        if step.scale is not None:
            self._scale(step.scale)
        if step.delete is not None:
            for kind, name, namespace in self._selected(step.delete):
                self.cluster.delete(kind, name, namespace)
        if step.patch is not None:
            self._patch(step.patch)
        if step.restart:
            self._restart(step)
        if step.pause:
            self._pause(step)
        self._renewals += step.renew is not None
        if step.claim is not None:
            self._claim(step.claim, in_use=True)
        if step.release is not None:
            self._claim(step.release, in_use=False)

    def _apply(self, item: Json) -> None:
        """As `kubectl apply`: made if it is not there, else changed to what is said."""
        metadata, kind = item["metadata"], BY_NAME[item["kind"]]
        namespace = metadata.get("namespace") or ("default" if kind.resource.namespaced else "")
        if not metadata.get("name") or self.cluster.store.get(kind, metadata["name"], namespace) is None:
            self.cluster.create(item)
            return
        change = copy.deepcopy({key: value for key, value in item.items() if key not in ("apiVersion", "kind")})
        self.cluster.verbs.modify(kind, metadata["name"], namespace, lambda live: merge_patch(live, change), "user")

    def _scale(self, scale: Scale) -> None:
        self.cluster.scale(scale.kind, scale.name, scale.replicas, scale.namespace or "default")

    def _patch(self, patch: Patch) -> None:
        for kind, name, namespace in self._selected(patch):
            self.cluster.verbs.modify(
                BY_NAME[kind], name, namespace, lambda live: merge_patch(live, patch.merge), "user"
            )

    def _selected(self, chosen: ObjectChoice) -> list[tuple[str, str, str]]:
        kind = BY_NAME[chosen.kind]
        if chosen.name:
            return [(chosen.kind, chosen.name, chosen.namespace or ("default" if kind.resource.namespaced else ""))]
        found = []
        for item in self.cluster.objects(chosen.kind, chosen.namespace):
            labels = item["metadata"].get("labels") or {}
            if all(labels.get(key) == value for key, value in chosen.selector.items()):
                found.append((chosen.kind, item["metadata"]["name"], item["metadata"].get("namespace", "")))
        return found[: chosen.first]

    def _claim(self, members: Members, *, in_use: bool) -> None:
        """Running pods of the workload get the labels by which its PoolAutoscaler knows those in use, or lose them."""
        labels = self._labels_in_use(members)
        chosen = []
        for pod in self.cluster.objects("Pod", members.namespace or "default"):
            metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
            is_used = all((metadata.get("labels") or {}).get(key) == value for key, value in labels.items())
            if phase == "Running" and is_used != in_use and "deletionTimestamp" not in metadata:
                chosen += [metadata["name"]] if self._belongs(pod, members) else []
        change = {"metadata": {"labels": dict(labels) if in_use else dict.fromkeys(labels)}}
        self.measure.claims_wanted += members.count if in_use else 0
        self.measure.claims_missed += max(0, members.count - len(chosen)) if in_use else 0
        for name in sorted(chosen)[: members.count]:
            namespace = members.namespace or "default"
            self.cluster.verbs.modify(POD, name, namespace, lambda live: merge_patch(live, change), "user")

    def _labels_in_use(self, members: Members) -> dict[str, str]:
        for autoscaler in self.cluster.objects("PoolAutoscaler", members.namespace or "default"):
            target = autoscaler["spec"]["scaleTargetRef"]
            if (target["kind"], target["name"]) == (members.kind, members.name):
                policy = autoscaler["spec"].get("capacityPolicy") or {}
                selector = (policy.get("inUse") or {}).get("matchLabels") or {}
                return dict(selector) or {CLAIMED: "true"}
        return {CLAIMED: "true"}

    def _belongs(self, pod: Json, members: Members) -> bool:
        """To this workload, directly or through a ReplicaSet of its name."""
        owner: Json = next(iter(pod["metadata"].get("ownerReferences") or ()), {})
        name = str(owner.get("name", ""))
        return name == members.name or (owner.get("kind") == "ReplicaSet" and name.rpartition("-")[0] == members.name)
