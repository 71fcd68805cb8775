"""Many pods at once: a bounded number of requests, failures that stop nobody, conditions that leave others alone."""

from __future__ import annotations

from typing import Any

import pytest

from growth.controllers.act.looks import BindGate
from growth.controllers.act.pods import bind_pods, write_pods_unscheduled
from growth.kube.api.client import Client
from growth.kube.api.errors import Conflict
from growth.kube.api.resources import PODS, Resource
from growth.kube.api.transport import Request, Response
from growth.model.action import Assignment, BindPods, Seen, Unscheduled, WritePodsUnscheduled
from growth.model.outcome import Accepted
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import node, pod
from growth.sim.clock import run_virtual
from tests.sim.embedded import Bench

NOW = 1_800_000_000.0


class Caches:
    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes
        self.where: dict[str, str] = {}

    def has_node(self, name: str) -> bool:
        return name in self.nodes

    def bound(self, pod: str, uid: str, node: str) -> None:
        self.where[pod] = node

    def learned(self, resource: Resource, body: bytes) -> None:
        assert resource == PODS


class Counting:
    """Knows how many requests were under way at most."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.most = self.now = self.looks = 0

    async def send(self, request: Request) -> Response:
        self.looks += request.method == "GET"
        self.now += 1
        self.most = max(self.most, self.now)
        await self._bench.runtime.sleep(0.1)
        self.now -= 1
        answer: Response = await self._bench.api.send(request)
        return answer


class Stage:
    def __init__(self, pods: int, *nodes: str) -> None:
        self.bench = Bench()
        self.line = Counting(self.bench)
        self.caches = Caches(*nodes)
        client = Client(self.line, self.bench.runtime)
        parts = {"client": client, "caches": self.caches, "runtime": self.bench.runtime}
        self.tools: Any = type("Tools", (), {**parts, "gate": BindGate(client, self.bench.runtime.monotonic)})()
        for each in (*(node(name) for name in nodes), *(pod(f"p{number}") for number in range(pods))):
            self.bench.api.verbs.create(BY_NAME[each["kind"]], each, "user")

    def seen(self, number: int) -> Seen:
        metadata = self.read(number)["metadata"]
        return Seen(metadata["name"], metadata["uid"], namespace="default")

    def read(self, number: int) -> dict[str, Any]:
        found = self.bench.api.store.read(BY_NAME["Pod"], f"p{number}", "default")
        assert found is not None
        return found


def test_pods_are_bound_so_many_at_a_time_and_the_caches_know_at_once() -> None:
    async def story() -> None:
        stage = Stage(10, "a", "b")
        asked = tuple(Assignment(stage.seen(number), "ab"[number % 2]) for number in range(10))
        assert await bind_pods(stage.tools, BindPods(asked, at_once=4)) == Accepted()
        assert stage.line.most == 4
        assert {stage.read(number)["spec"]["nodeName"] for number in (0, 2)} == {"a"}
        assert len(stage.caches.where) == 10
        assert stage.line.looks == 2  # one at each node

    run_virtual(story())


def test_no_pod_is_bound_beside_one_that_a_lagging_watch_has_not_shown() -> None:
    async def story() -> None:
        stage = Stage(4, "a", "b")
        unseen, counted = stage.seen(0), stage.seen(1)
        for name, each in (("a", unseen), ("b", counted)):
            await Client(stage.bench.api, stage.bench.runtime).bind(each.name, each.namespace, name, uid=each.uid)
        asked = (Assignment(stage.seen(2), "a"), Assignment(stage.seen(3), "b"))
        with pytest.raises(Conflict, match="pod default/p0 is on node a, and the plan has not counted it"):
            await bind_pods(stage.tools, BindPods(asked, beside={"a": (), "b": (counted.uid,)}))
        assert "nodeName" not in stage.read(2)["spec"]
        assert stage.read(3)["spec"]["nodeName"] == "b"

    run_virtual(story())


def test_a_node_that_vanished_and_a_pod_that_is_bound_already_stop_nobody_else() -> None:
    async def story() -> None:
        stage = Stage(3, "a")
        taken, first = stage.seen(1), stage.seen(0)
        await bind_pods(stage.tools, BindPods((Assignment(taken, "a"),)))
        await stage.bench.runtime.sleep(1.0)
        asked = (Assignment(first, "gone"), Assignment(taken, "a"), Assignment(stage.seen(2), "a"))
        with pytest.raises(Conflict, match="node gone is gone"):
            await bind_pods(stage.tools, BindPods(asked, at_once=1))
        assert "nodeName" not in stage.read(0)["spec"]
        assert stage.read(2)["spec"]["nodeName"] == "a"

    run_virtual(story())


def test_the_condition_is_written_beside_the_others() -> None:
    async def story() -> None:
        stage = Stage(1)
        ready = {"type": "Ready", "status": "False"}

        def put(item: dict[str, Any]) -> None:
            item["status"]["conditions"] = [ready]

        stage.bench.api.verbs.modify(BY_NAME["Pod"], "p0", "default", put, "user", "status")
        asked = Unscheduled(stage.seen(0), NOW, "0/0 nodes are available")
        assert await write_pods_unscheduled(stage.tools, WritePodsUnscheduled((asked,))) == Accepted()
        written = stage.read(0)["status"]["conditions"]
        told = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/0 nodes are available",
        }
        assert written == [ready, {**told, "lastTransitionTime": "2027-01-15T08:00:00Z"}]

    run_virtual(story())
