"""What is written for a buffer: its status and its own PodTemplate, never somebody else's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from growth.controllers.act.nodes import Tools
from growth.controllers.act.pods import write_buffer_status, write_pod_template
from growth.kube.api.resources import CAPACITY_BUFFERS, POD_TEMPLATES, Resource
from growth.model.action import Seen, WriteBufferStatus, WritePodTemplate
from growth.model.capacitybuffer import CapacityBufferStatus
from growth.model.outcome import Accepted, Refused
from tests.sim.embedded import Bench, on_api_server

TEXT = '{"metadata":{},"spec":{"containers":[{"name":"main","image":"x"}]}}'
BUFFER = {
    "apiVersion": CAPACITY_BUFFERS.api_version,
    "kind": "CapacityBuffer",
    "metadata": {"name": "spare", "namespace": "default"},
    "spec": {"scalableRef": {"kind": "Deployment", "name": "web"}, "replicas": 1},
}


class Learned:
    """The caches, as far as these ways need them."""

    def __init__(self) -> None:
        self.bodies: list[Resource] = []

    def learned(self, resource: Resource, _body: bytes) -> None:
        self.bodies.append(resource)

    def served(self, resource: Resource) -> Resource:
        return resource


def on_server(test: Callable[[Bench, Tools, Seen], Awaitable[None]]) -> None:
    async def run(bench: Bench) -> None:
        made = msgspec.json.decode(await bench.client.create(CAPACITY_BUFFERS, BUFFER))["metadata"]
        tools: Any = Tools(bench.client, None, Learned(), None, bench.runtime, None, "", lambda: None)  # type: ignore[arg-type]
        await test(bench, tools, Seen("spare", made["uid"], made["resourceVersion"], "default"))

    on_api_server(run)


def test_the_status_goes_to_the_buffer_in_its_namespace() -> None:
    async def test(bench: Bench, tools: Tools, seen: Seen) -> None:
        assert await write_buffer_status(tools, WriteBufferStatus(seen, CapacityBufferStatus(replicas=3))) == Accepted()
        assert (await bench.read(CAPACITY_BUFFERS, "spare", "default"))["status"]["replicas"] == 3

    on_server(test)


def test_a_template_is_made_owned_and_brought_up_to_date() -> None:
    async def test(bench: Bench, tools: Tools, seen: Seen) -> None:
        for digest in ("one", "two"):
            assert await write_pod_template(tools, WritePodTemplate(seen, "mine", TEXT, digest)) == Accepted()
            found = await bench.read(POD_TEMPLATES, "mine", "default")
            assert found["metadata"]["annotations"] == {"growth.dev/template-digest": digest}
            assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [seen.uid]

    on_server(test)


def test_a_template_of_somebody_else_is_refused_and_stays_as_it_is() -> None:
    async def test(bench: Bench, tools: Tools, seen: Seen) -> None:
        theirs = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "mine", "namespace": "default"},
            "template": {},
        }
        before = msgspec.json.decode(await bench.client.create(POD_TEMPLATES, theirs))
        outcome = await write_pod_template(tools, WritePodTemplate(seen, "mine", TEXT, "one"))
        assert isinstance(outcome, Refused)
        assert await bench.read(POD_TEMPLATES, "mine", "default") == before

    on_server(test)
