"""Kinds that are known only by their scale: how many, of which shape, and the reason in words when that cannot be
known.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Raw

from growth.controllers.observe.scale import Poller, ReferenceReader, newest_live
from growth.kube.api.client import Page, ServedResource
from growth.kube.api.errors import Forbidden, NotFound, ServerError, Status
from growth.kube.api.resources import Resource
from growth.kube.codec import Codec
from growth.kube.codec.buffer import ScaledObject
from growth.model.capacitybuffer import ScalableReference
from growth.sim.clock import SimRuntime, run_virtual

NAMED = {"metadata": {"name": "web", "namespace": "team"}}
ROLLOUT = ScalableReference("Rollout", "web", "argoproj.io")


def pod(name: str, created: str, **more: Any) -> Raw:
    spec = {"nodeName": "n1", "containers": [{"name": "main", "resources": {"requests": {"cpu": name}}}]}
    return Raw(
        json.dumps(
            {"metadata": {"name": name, "creationTimestamp": created, **more.pop("metadata", {})}, "spec": spec, **more}
        ).encode()
    )


class Server:
    """Answers as an API server with a Rollout kind would; each answer can be changed, or be an error."""

    def __init__(self) -> None:
        self.group: Any = ["v1alpha1"]
        self.kinds: Any = [ServedResource("rollouts", "Rollout", True), ServedResource("rollouts/scale", "Scale", True)]
        self.answer: Any = {**NAMED, "spec": {"replicas": 6}, "status": {"replicas": 6, "selector": "app=web"}}
        self.pods: Any = [pod("1", "2026-01-01T00:00:00Z"), pod("2", "2026-01-02T00:00:00Z")]
        self.selected = ""
        self.discovered = 0

    async def groups(self) -> Any:
        self.discovered += 1
        return {"argoproj.io": _or_raise(self.group)} if self.group else {}

    async def served(self, _group: str, _version: str) -> Any:
        self.discovered += 1
        return _or_raise(self.kinds)

    async def scale(self, resource: Resource, _name: str, _namespace: str) -> bytes:
        assert resource == Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout")
        return json.dumps(_or_raise(self.answer)).encode()

    async def pages(
        self, _resource: Resource, _namespace: str, labels: str, _fields: str, size: int
    ) -> AsyncIterator[Page]:
        self.selected = labels
        yield Page(_or_raise(self.pods)[:size], "1", True)


def _or_raise(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def looked(server: Server, seconds: float = 1.0, later: Any = None) -> ScaledObject:
    async def run() -> ScaledObject:
        runtime = SimRuntime("scale")
        reader = ReferenceReader(server, Codec(), runtime.monotonic)  # type: ignore[arg-type]  # a part of a client
        poller = Poller(runtime, lambda _key: reader.read("team", ROLLOUT), lambda: None)
        poller.want(["team/web"])
        task = runtime.spawn("look", poller.run(lambda: 15.0))
        await runtime.sleep(seconds)
        if later is not None:
            later(server)
            await runtime.sleep(30)
        task.cancel()
        if not poller.is_complete:
            return ScaledObject(why=poller.problem)
        found = poller.known.get("team/web", ScaledObject(is_missing=True))
        assert isinstance(found, ScaledObject)
        return found

    return run_virtual(run())


def test_the_scale_says_how_many_and_the_newest_live_pod_of_which_shape() -> None:
    server = Server()
    found = looked(server)
    assert (found.replicas, found.why, server.selected) == (6, "", "app=web")
    spec = json.loads(found.template)["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert "nodeName" not in spec


def test_a_new_pod_of_the_same_template_changes_nothing() -> None:
    """A PodTemplate that followed every new pod would be written again and again, and its generation would say that
    something has changed."""

    def member(number: int) -> Raw:
        name, token = f"web-{number}", f"kube-api-access-{number}xyz"
        labels = {"app": "web", "apps.kubernetes.io/pod-index": str(number), "statefulset.kubernetes.io/pod-name": name}
        notes = {"cni.example.com/podIP": f"10.0.0.{number}", "growth.dev/do-not-disrupt": "true"}
        mounts = [{"name": token, "mountPath": "/token"}, {"name": "scratch", "mountPath": "/tmp"}]
        resources = {"requests": {"cpu": "1"}}
        spec = {
            "nodeName": f"node-{number}",
            "hostname": name,
            "containers": [{"name": "main", "resources": resources, "volumeMounts": mounts}],
            "volumes": [{"name": token, "projected": {}}, {"name": "scratch", "emptyDir": {}}],
        }
        created = f"2026-01-0{number}T00:00:00Z"
        metadata = {"name": name, "uid": name, "creationTimestamp": created, "labels": labels, "annotations": notes}
        return Raw(json.dumps({"metadata": metadata, "spec": spec, "status": {"podIP": name}}).encode())

    server, texts = Server(), list[str]()
    for number in (1, 2):
        server.pods = [member(number)]
        texts.append(looked(server).template)
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["metadata"] == {
        "labels": {"app": "web"}, "annotations": {"growth.dev/do-not-disrupt": "true"}
    }  # fmt: skip


def test_finished_and_going_pods_are_no_template() -> None:
    old = pod("old", "2026-01-01T00:00:00Z")
    going = pod("going", "2026-01-03T00:00:00Z", metadata={"deletionTimestamp": "2026-01-03T00:00:01Z"})
    done = pod("done", "2026-01-04T00:00:00Z", status={"phase": "Succeeded"})
    newest = newest_live([old, going, done])
    assert newest is not None
    assert newest["metadata"]["name"] == "old"
    assert newest_live([going, done]) is None


@pytest.mark.parametrize(
    ("change", "value", "words"),
    [
        (
            "answer",
            Forbidden(Status(code=403)),
            'add the rule apiGroups: ["argoproj.io"], resources: ["rollouts/scale"], verbs: ["get"]',
        ),
        ("group", [], "no API group argoproj.io is served here"),
        ("kinds", [ServedResource("rollouts", "Rollout", True)], "Rollout of argoproj.io has no scale subresource"),
        ("kinds", [], "no kind Rollout is served in argoproj.io"),
        ("pods", [], "has no live pod to learn a chunk's shape from"),
        ("answer", {**NAMED, "spec": {"replicas": 2}, "status": {}}, "names no selector"),
        ("pods", ServerError(Status(code=500)), "500"),
    ],
)
def test_what_keeps_it_from_being_known_is_said_in_words(change: str, value: Any, words: str) -> None:
    server = Server()
    setattr(server, change, value)
    found = looked(server)
    assert found.template == ""
    assert words in found.why


def test_an_object_that_is_not_there_is_missing_and_one_that_grows_is_noticed() -> None:
    server = Server()
    server.answer = NotFound(Status(code=404))
    assert looked(server).is_missing

    def grow(them: Server) -> None:
        them.answer = {**NAMED, "spec": {"replicas": 9}, "status": {"selector": "app=web"}}

    assert looked(Server(), later=grow).replicas == 9


def test_a_failing_server_leaves_standing_what_was_known() -> None:
    def fail(them: Server) -> None:
        them.answer = ServerError(Status(code=500))

    assert looked(Server(), later=fail).replicas == 6


def test_what_is_served_is_asked_once_a_minute_and_not_for_each_object() -> None:
    server = Server()

    async def run() -> None:
        runtime = SimRuntime("scale")
        reader = ReferenceReader(server, Codec(), runtime.monotonic)  # type: ignore[arg-type]  # a part of a client
        for number in range(200):
            await reader.read("team", ScalableReference("Rollout", f"web-{number}", "argoproj.io"))
            await reader.read("team", ScalableReference("Rollout", "web", f"group-{number}.example.com"))

    run_virtual(run())
    assert server.discovered == 2
