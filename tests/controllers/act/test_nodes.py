"""What is written, and under which conditions; a lost answer never means a second object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.act.nodes import Tools, create_node_request, write_node_request_status
from growth.kube.api.client import Client
from growth.kube.api.errors import Conflict as ApiConflict
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import NODE_POOLS, NODE_REQUESTS, Resource
from growth.kube.api.transport import Request, Response, TransportError
from growth.model.action import CreateNodeRequest, Seen, WriteNodeRequestStatus
from growth.model.api import FINALIZER
from growth.model.noderequest import NodeRequestSpec, NodeRequestStatus
from growth.model.outcome import Accepted, Outcome, TryLater
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.streams import Answer
from growth.sim.clock import run_virtual
from tests.controllers.act.gatehouse import Gatehouse
from tests.controllers.act.test_gate import asked, ordered


class Losing:
    """The way to an API server that acts on the first create, and whose answer is lost; the second answer comes as the
    test says.
    """

    def __init__(self, server: Any, second: str) -> None:
        self.creates = 0
        self._server = server
        self._second = second

    async def send(self, request: Request) -> Response:
        answer: Response = await self._server.send(request)
        if request.method != "POST":
            return answer
        self.creates += 1
        if self.creates == 1:
            raise TransportError("connection reset by peer")
        if self._second == "unauthorized" and self.creates == 2:
            return Answer(401, b"Unauthorized")
        return Answer(409, b'{"kind":"Status","metadata":{},"status":"Fail') if self._second == "torn" else answer


class Learned:
    def __init__(self) -> None:
        self.bodies: list[Resource] = []

    def learned(self, resource: Resource, _body: bytes) -> None:
        self.bodies.append(resource)


@pytest.mark.parametrize(("second", "creates"), [("whole", 2), ("torn", 2), ("unauthorized", 3)])
def test_a_request_whose_answer_was_lost_is_found_again_whatever_the_next_answer_is(second: str, creates: int) -> None:
    """Seeds 197 (torn) and 161 (unauthorized) bought a second machine for the same pods."""

    async def story() -> None:
        house = Gatehouse()
        await house.open()
        pool = await house.put(NODE_POOLS, "default", spec={"serverTypes": [{"name": "CX33"}]})
        network, learned = Losing(house.server, second), Learned()
        client = Client(network, house.runtime, ClientSettings(attempts=1))
        tools: Any = Tools(client, house.shelf, learned, house.gate, house.runtime, house.metrics, "", lambda: None)  # type: ignore[arg-type]
        action = CreateNodeRequest(Seen("default", pool.uid), NodeRequestSpec("default", "sim-cx33", "fsn1"))
        assert await create_node_request(tools, action) == Accepted()
        await house.runtime.sleep(1.0)
        assert (network.creates, len(house.observer.requests.view()), len(learned.bodies)) == (creates, 1, 1)

    run_virtual(story())


def on_server(story: Callable[[Gatehouse, Tools], Awaitable[None]]) -> None:
    async def play() -> None:
        house = Gatehouse()
        await house.open()
        tools: Any = Tools(
            house.client, house.shelf, house.observer, house.gate, house.runtime, house.metrics, "", lambda: None
        )
        await story(house, tools)

    run_virtual(play())


def test_ruling_16_a_request_is_held_by_our_finalizer_and_owned_by_its_pool_without_holding_it() -> None:
    async def story(house: Gatehouse, tools: Tools) -> None:
        pool = await house.put(NODE_POOLS, "default", spec={"serverTypes": [{"name": "CX33"}]})
        await create_node_request(
            tools, CreateNodeRequest(Seen("default", pool.uid), NodeRequestSpec("default", "sim-cx33", "fsn1"))
        )
        [item] = [stored.decoded() for stored in house.server.store.all(BY_NAME["NodeRequest"])]
        assert (item["metadata"]["finalizers"], item["metadata"]["labels"]) == (
            [FINALIZER],
            {"growth.dev/pool": "default"},
        )
        [owner] = item["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner.get("blockOwnerDeletion")) == ("NodePool", pool.uid, None)
        assert item["metadata"]["name"].startswith("default-pool-")

    on_server(story)


def test_a_status_is_written_whole_and_only_onto_the_version_that_was_seen() -> None:
    async def story(house: Gatehouse, tools: Tools) -> None:
        status = {"phase": "Provisioning", "machineID": "17"}
        await house.put(NODE_REQUESTS, "a", spec={"pool": "default", "targetOffering": "sim-cx33"}, status=status)
        seen = house.observer.requests.view()["a"]
        action = WriteNodeRequestStatus(
            Seen("a", seen.uid, seen.resource_version), NodeRequestStatus("Unmet", expires_at="2026-01-01T00:10:00Z")
        )
        assert await write_node_request_status(tools, action) == Accepted()
        written = house.observer.requests.view()["a"].status
        assert (written.phase, written.machine_id, written.expires_at) == ("Unmet", "", "2026-01-01T00:10:00Z")
        with pytest.raises(ApiConflict):
            await write_node_request_status(tools, action)

    on_server(story)


def test_nothing_is_bought_for_a_pool_that_was_changed_while_growth_did_not_hear_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await ordered(house)
        known = house.observer.pool("default")
        assert known is not None
        older = replace(known, generation=known.generation - 1)
        monkeypatch.setattr(house.observer, "pool", lambda _name: older)
        return await house.gate.why_not_launch(action)

    assert asked(story) == TryLater("NodePool default was changed, and growth has not heard of it", 1.0)
