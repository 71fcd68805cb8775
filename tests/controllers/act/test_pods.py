"""Many pods at once: a bounded number of requests, failures that stop nobody, conditions that leave others alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from growth.controllers.act.looks import BindGate
from growth.controllers.act.pods import bind_pods, write_pods_unscheduled
from growth.kube.api.client import Client
from growth.kube.api.errors import Conflict
from growth.kube.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource
from growth.kube.api.transport import Request, Response
from growth.kube.cache.pods import PodCache
from growth.kube.codec import Codec
from growth.kube.watch.stream import ChangeType
from growth.model.action import (
    Assignment,
    BindPods,
    Seen,
    Unscheduled,
    VolumeAsk,
    VolumeWait,
    WritePodsUnscheduled,
)
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
        self.pods = PodCache(Codec())

    def has_node(self, name: str) -> bool:
        return name in self.nodes

    def bound(self, pod: str, uid: str, node: str, asked_at: float) -> None:
        self.where[pod] = node
        self.pods.bound(pod, uid, node, asked_at)

    def learned(self, resource: Resource, body: bytes) -> None:
        assert resource in (PODS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)


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
        self.tools: Any = type(
            "Tools", (), {**parts, "gate": BindGate(client, self.bench.runtime.monotonic, self.caches.pods)}
        )()
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
        assert stage.line.looks == 4  # at each node one whether it is there, one who stands there

    run_virtual(story())


def test_pods_of_a_node_are_not_listed_while_the_watch_shows_what_we_have_just_bound() -> None:
    async def story() -> None:
        stage = Stage(4, "a", "b", "c")
        seen = [stage.seen(number) for number in range(4)]
        for number in range(4):
            stage.caches.pods.changed(ChangeType.ADDED, Raw(msgspec.json.encode(stage.read(number))))
        await bind_pods(stage.tools, BindPods((Assignment(seen[0], "a"),)))
        assert stage.line.looks == 2
        stage.caches.pods.changed(ChangeType.MODIFIED, Raw(msgspec.json.encode(stage.read(0))))
        await bind_pods(stage.tools, BindPods((Assignment(seen[1], "b"),)))
        assert stage.line.looks == 3  # the watch has shown the first bind; it says nothing about nodes
        beside = {"b": ()}  # the plan has not counted who came there
        with pytest.raises(Conflict, match="pod default/p1 is on node b, and the plan has not counted it"):
            await bind_pods(stage.tools, BindPods((Assignment(seen[2], "b"),), beside=beside))
        await stage.bench.runtime.sleep(1.0)
        await bind_pods(stage.tools, BindPods((Assignment(seen[3], "c"),)))
        assert stage.line.looks == 5  # and has shown nothing of us since

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


@pytest.mark.parametrize("waits", [False, True])
def test_no_pod_is_bound_to_a_node_of_which_a_silent_watch_has_not_told_that_it_is_gone(waits: bool) -> None:
    async def story() -> None:
        stage = Stage(2, "a", "b")
        stage.bench.api.verbs.delete(BY_NAME["Node"], "a", "", "user")
        wait = VolumeWait(NOW, "waits for its volumes") if waits else None
        asked = (Assignment(stage.seen(0), "a", wait), Assignment(stage.seen(1), "b"))
        with pytest.raises(Conflict, match="node a is gone"):
            await bind_pods(stage.tools, BindPods(asked))
        assert "nodeName" not in stage.read(0)["spec"]
        assert "nominatedNodeName" not in stage.read(0)["status"]
        assert stage.read(1)["spec"]["nodeName"] == "b"

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


# ------------------------------------------------------------------------------------------ volumes


def claim(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "made"}
    metadata = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


class Storage(Stage):
    """One pod, and these claims and volumes."""

    def __init__(self, *items: dict[str, Any]) -> None:
        super().__init__(1, "a")
        for item in items:
            self.bench.api.verbs.create(BY_NAME[item["kind"]], item, "user")

    def object(self, kind: str, name: str) -> dict[str, Any]:
        return self.bench.api.verbs.live(BY_NAME[kind], name, "default" if kind.endswith("Claim") else "")

    async def ask(self, volume: str = "", uid: str = "") -> None:
        uid = uid or self.object("PersistentVolumeClaim", "data")["metadata"]["uid"]
        wait = VolumeWait(NOW, "waits on node a", (VolumeAsk(Seen("data", uid, namespace="default"), volume),))
        await bind_pods(self.tools, BindPods((Assignment(self.seen(0), "a", wait),)))

    def selected(self) -> str | None:
        marks = self.object("PersistentVolumeClaim", "data")["metadata"].get("annotations") or {}
        return marks.get("volume.kubernetes.io/selected-node")


def test_a_pod_that_waits_for_its_volume_is_nominated_and_its_claim_says_where() -> None:
    async def story() -> None:
        stage = Storage(claim("data"))
        await stage.ask()
        await stage.ask()  # the same once more changes nothing
        pod = stage.read(0)
        assert "nodeName" not in pod["spec"]
        assert pod["status"]["nominatedNodeName"] == "a"
        told = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
        assert [(each["status"], each["reason"]) for each in told] == [("False", "WaitingForVolumes")]
        assert stage.selected() == "a"
        gone = Unscheduled(stage.seen(0), NOW, "no volume", is_withdrawn=True)
        await write_pods_unscheduled(stage.tools, WritePodsUnscheduled((gone,)))
        assert "nominatedNodeName" not in stage.read(0)["status"]

    run_virtual(story())


def test_a_claim_that_is_promised_elsewhere_or_another_one_of_its_name_is_left_alone() -> None:
    async def story() -> None:
        promised = Storage(claim("data", annotations={"volume.kubernetes.io/selected-node": "b"}))
        with pytest.raises(Conflict, match="is promised to node b"):
            await promised.ask()
        assert promised.selected() == "b"
        assert "nominatedNodeName" not in promised.read(0)["status"]
        another = Storage(claim("data"))
        with pytest.raises(Conflict, match="is gone, or going"):
            await another.ask(uid="of-another")
        assert another.selected() is None

    run_virtual(story())


def test_a_free_volume_is_reserved_for_the_claim_and_one_of_another_claim_is_not() -> None:
    async def story() -> None:
        theirs = {"namespace": "default", "name": "other", "uid": "1"}
        users = {"namespace": "default", "name": "data"}
        stage = Storage(
            claim("data"), volume("free"), volume("taken", claimRef=theirs), volume("users", claimRef=users)
        )
        await stage.ask("free")
        free, uid = stage.object("PersistentVolume", "free"), stage.object("PersistentVolumeClaim", "data")["metadata"]
        assert free["spec"]["claimRef"] == {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "data",
            "uid": uid["uid"],
        }
        assert free["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert stage.selected() is None
        with pytest.raises(Conflict, match="volume taken is reserved for another claim"):
            await stage.ask("taken")
        await stage.ask("users")
        reserved = stage.object("PersistentVolume", "users")
        assert reserved["spec"]["claimRef"]["uid"] == uid["uid"]
        assert "annotations" not in reserved["metadata"]

    run_virtual(story())
