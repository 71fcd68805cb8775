"""A lost answer never means a second object, and pods are bound only behind our own taint."""

from __future__ import annotations

from typing import Any

import pytest

from growth.controllers.ways import Hands, create_node_request
from growth.kube.client import Client
from growth.kube.exchange import ClientSettings
from growth.kube.resources import NODE_POOLS, Resource
from growth.kube.transport import Request, Response, TransportError
from growth.model.action import CreateNodeRequest, Seen
from growth.model.noderequest import NodeRequestSpec
from growth.model.outcome import Accepted
from growth.sim.clock import run_virtual
from growth.sim.streams import Answer
from tests.controllers.gatehouse import Gatehouse


class Losing:
    """The way to an API server that acts on the first create, and whose answer is lost; the second answer comes as the test says."""

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
        hands: Any = Hands(client, house.shelf, learned, house.gate, house.runtime, house.metrics, "", lambda: None)  # type: ignore[arg-type]
        action = CreateNodeRequest(Seen("default", pool.uid), NodeRequestSpec("default", "sim-cx33", "fsn1"))
        assert await create_node_request(hands, action) == Accepted()
        await house.runtime.sleep(1.0)
        assert (network.creates, len(house.observer.requests.view()), len(learned.bodies)) == (creates, 1, 1)

    run_virtual(story())
