"""No pod is bound where the scheduler may be, or where somebody stands whom the plan did not count."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from growth.controllers.act.looks import BindGate, SharedReads
from growth.kube.api.client import Client
from growth.kube.api.errors import Refused
from growth.kube.api.resources import NODES, PODS
from growth.kube.api.transport import Request, Response
from growth.kube.cache.pods import PodCache
from growth.kube.codec import Codec
from growth.model.action import Seen
from growth.model.node import STARTUP_TAINT
from growth.model.outcome import Conflict, Outcome, TryLater
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.streams import Answer
from growth.sim.clock import run_virtual
from tests.controllers.act.gatehouse import Gatehouse

NODE = "default-pool-1"
HELD = {"taints": [{"key": STARTUP_TAINT.key, "effect": "NoSchedule"}]}
Story = Callable[[Gatehouse], Awaitable[Outcome | None]]


def asked(story: Story) -> Outcome | None:
    """What the gate says at the end of the story, in which a node of ours is held by our taint."""

    async def play() -> Outcome | None:
        house = Gatehouse()
        await house.open()
        await house.put(NODES, NODE, spec=HELD)
        return await story(house)

    return run_virtual(play())


async def why_not(house: Gatehouse, *beside: Seen) -> Outcome | None:
    return await house.gate.why_not_bind(NODE, frozenset(pod.uid for pod in beside))


async def stands_there(house: Gatehouse, name: str, **parts: Any) -> Seen:
    spec = {"nodeName": NODE, "containers": [{"name": "main"}]}
    return await house.put(PODS, name, metadata={"namespace": "default"}, spec=spec, **parts)


def test_pods_are_bound_only_while_our_start_up_taint_is_on_the_node_live() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        assert await why_not(house) is None
        await house.client.merge_patch(NODES, NODE, {"spec": {"taints": None}})
        assert await why_not(house) is None  # in the same breath: one look for many pods
        await house.runtime.sleep(1.0)
        return await why_not(house)

    assert asked(story) == Conflict("node default-pool-1 is no longer held by our start-up taint")


def test_no_pod_is_bound_to_a_node_that_is_gone() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        await house.client.delete(NODES, NODE)
        return await why_not(house)

    assert isinstance(asked(story), Conflict)


def test_no_pod_is_bound_beside_one_that_the_plan_did_not_count() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        counted, _ = await stands_there(house, "counted"), await stands_there(house, "guest")
        return await why_not(house, counted)

    assert asked(story) == TryLater("pod default/guest is on node default-pool-1, and the plan has not counted it", 2.0)


def test_pods_that_the_plan_counted_and_finished_ones_are_no_obstacle() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        counted, _ = await stands_there(house, "counted"), await stands_there(house, "done", status={"phase": "Failed"})
        return await why_not(house, counted, Seen("planned", "uid-planned"))

    assert asked(story) is None


class Counting:
    """A slow line to the API server, which may forbid everything."""

    def __init__(self, house: Gatehouse, *, forbids: bool) -> None:
        self.house, self.forbids, self.requests = house, forbids, 0

    async def send(self, request: Request) -> Response:
        self.requests += 1
        await self.house.runtime.sleep(0.2)
        return (
            Answer(403, Refusal(403, "Forbidden", "not allowed").body())
            if self.forbids
            else await self.house.server.send(request)
        )


@pytest.mark.parametrize(("forbids", "requests"), [(False, 2), (True, 1)])
def test_those_who_ask_at_the_same_time_share_one_look_and_its_failure(forbids: bool, requests: int) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        line = Counting(house, forbids=forbids)
        gate = BindGate(Client(line, house.runtime), house.runtime.monotonic, PodCache(Codec()))
        askers = [house.runtime.spawn(f"asker {number}", is_refused(gate)) for number in range(5)]
        assert [await asker for asker in askers] == [forbids] * 5
        assert line.requests == requests
        return None

    assert asked(story) is None


def test_who_asks_while_an_object_is_read_gets_what_was_read_after_it_asked_and_all_such_share_one_read() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        line = Counting(house, forbids=False)
        reads = SharedReads(Client(line, house.runtime), NODES)
        first = house.runtime.spawn("first", reads.read(NODE))
        await house.runtime.sleep(0.1)
        await house.client.merge_patch(NODES, NODE, {"metadata": {"labels": {"is": "changed"}}})
        others = [house.runtime.spawn(f"asker {number}", reads.read(NODE)) for number in range(5)]
        await first
        assert [(await other)["metadata"]["labels"]["is"] for other in others] == ["changed"] * 5
        assert line.requests == 2
        return None

    assert asked(story) is None


@pytest.mark.parametrize(("heard_seconds_ago", "lists"), [(0.9, 0), (1.0, 1)])
def test_who_stands_on_a_node_is_listed_only_if_the_watch_has_shown_no_bind_of_ours_of_the_last_second(
    heard_seconds_ago: float, lists: int
) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        line, pods = Counting(house, forbids=False), PodCache(Codec())
        pods.heard_at = house.runtime.monotonic() + 0.2 - heard_seconds_ago  # the node is read first, which takes 0.2 s
        gate = BindGate(Client(line, house.runtime), house.runtime.monotonic, pods)
        assert await gate.why_not_bind(NODE, frozenset()) is None
        assert line.requests == 1 + lists
        return None

    assert asked(story) is None


def test_a_cache_that_is_up_to_date_tells_who_stands_there_uncounted() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        line, pods = Counting(house, forbids=False), PodCache(Codec())
        guest = await stands_there(house, "guest")
        pods.learned(await house.client.get(PODS, guest.name, "default"))
        pods.heard_at = house.runtime.monotonic()
        gate = BindGate(Client(line, house.runtime), house.runtime.monotonic, pods)
        assert await gate.why_not_bind(NODE, frozenset({guest.uid})) is None
        return await gate.why_not_bind(NODE, frozenset())

    assert asked(story) == TryLater("pod default/guest is on node default-pool-1, and the plan has not counted it", 2.0)


async def is_refused(gate: BindGate) -> bool:
    try:
        assert await gate.why_not_bind(NODE, frozenset()) is None
    except Refused:
        return True
    return False
