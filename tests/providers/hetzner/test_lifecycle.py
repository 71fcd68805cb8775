"""What becomes of a NodeRequest at Hetzner, for every class of error: phase, event and when it is tried again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.node import Taint
from growth.providers.simulated import Server
from growth.sim.apiserver.kinds import NODE
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cloud.hetzner import embedded
from growth.sim.cloud.hetzner.api import FakeAnswer, FakeRequest, Lost
from growth.sim.cloud.hetzner.embedded import as_seen_by_kubelet
from growth.sim.cloud.hetzner.inventory import FakeServer
from tests.providers.hetzner.embedded import Town, in_town
from tests.providers.hetzner.test_errors import refuse

UNMET = [
    (412, "resource_unavailable"),
    (503, "placement_error"),
    (403, "resource_limit_exceeded"),
    (422, "invalid_input"),
    (404, "not_found"),
    (403, "forbidden"),
    (401, "unauthorized"),
    (403, "token_readonly"),
]
WAITING = [
    (409, "conflict"),
    (423, "locked"),
    (503, "maintenance"),
    (429, "rate_limit_exceeded"),
    (500, "server_error"),
    (503, "unavailable"),
    (504, "timeout"),
]
STAYING = [
    (403, "protected", "CouldNotRemove", 1),
    (403, "forbidden", "CouldNotRemove", 1),
    (409, "conflict", "Pending", 0),  # surely not done: the attempt does not count
    (423, "locked", "Pending", 0),
    (429, "rate_limit_exceeded", "Pending", 0),
    (500, "server_error", "Deprovisioning", 1),
]


def allow(town: Town) -> None:
    """Hetzner is itself again."""
    del town.cloud.api._route


def told(town: Town, reason: str) -> list[str]:
    return [str(event["note"]) for event in town.cluster.objects("Event") if event["reason"] == reason]


def told_on(town: Town, reason: str) -> list[str]:
    """The kinds of the objects that it is told on."""
    return sorted(event["regarding"]["kind"] for event in town.cluster.objects("Event") if event["reason"] == reason)


def requests(town: Town) -> list[dict[str, Any]]:
    return town.cluster.objects("NodeRequest")


@pytest.mark.parametrize(("status", "code"), UNMET)
def test_an_order_that_cannot_be_had_is_unmet_told_on_request_pool_and_pod_and_tried_again_later(
    status: int, code: str
) -> None:
    async def test(town: Town) -> None:
        refuse(town.cloud.api, "POST", status, code)
        town.cluster.create(
            node_pool("default", "CX33", locations=["fsn1"]), deployment("web", 1, cpu="1", memory="1Gi")
        )
        await town.wait_for(lambda: "Unmet" in town.phases(), 60)
        [request] = requests(town)
        assert [event["name"] for event in request["status"]["events"]] == ["nodeRequestFailed"]
        assert code in request["status"]["events"][0]["reason"]
        assert request["status"]["expiresAt"] > request["metadata"]["creationTimestamp"]
        await town.cluster.runtime.sleep(30)
        assert told_on(town, "Unmet") == ["NodePool", "NodeRequest", "Pod"]
        allow(town)
        await town.wait_for(lambda: town.running() == 1, 400)

    in_town(test)


@pytest.mark.parametrize(("status", "code"), WAITING)
def test_an_order_without_a_no_stays_pending_and_is_tried_again_under_the_same_name(status: int, code: str) -> None:
    async def test(town: Town) -> None:
        refuse(town.cloud.api, "POST", status, code)
        town.cluster.create(
            node_pool("default", "CX33", locations=["fsn1"]), deployment("web", 1, cpu="1", memory="1Gi")
        )
        await town.wait_for(lambda: bool(requests(town)), 60)
        [request] = requests(town)
        await town.cluster.runtime.sleep(10)
        assert town.phases() == {"Pending": 1}
        allow(town)
        town.project.trouble.refused_until = 0.0
        await town.wait_for(lambda: town.running() == 1, 400)
        assert [server.name for server in town.project.servers.values()] == [request["metadata"]["name"]]

    in_town(test)


@pytest.mark.parametrize(("status", "code", "phase", "attempts"), STAYING)
def test_a_server_that_cannot_be_deleted_stays_recorded_and_goes_later(
    status: int, code: str, phase: str, attempts: int
) -> None:
    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 1, cpu="1", memory="1Gi"))
        await town.wait_for(lambda: town.running() == 1, 200)
        refuse(town.cloud.api, "DELETE", status, code)
        town.cluster.scale("Deployment", "web", 0)
        await town.wait_for(lambda: bool(town.cluster.objects("NodeRemovalRequest")), 300)
        await town.cluster.runtime.sleep(40)
        [removal] = town.cluster.objects("NodeRemovalRequest")
        found = removal["status"]
        assert (found["phase"], found.get("removalAttempt", 0)) == (phase, attempts)
        why = "limit of requests" if code == "rate_limit_exceeded" else code
        assert (why in found.get("waitingFor", "")) == (phase == "Pending")
        assert any(code in text for text in told(town, "CouldNotRemove")) == (phase == "CouldNotRemove")
        assert [server.status for server in town.project.servers.values()] == ["running"]
        allow(town)
        await town.wait_for(town.is_empty, 1200)

    in_town(test)


def test_a_strangers_server_under_our_name_is_left_alone_and_the_request_says_so() -> None:
    async def test(town: Town) -> None:
        refuse(town.cloud.api, "POST", 500, "server_error")
        town.cluster.create(
            node_pool("default", "CX33", locations=["fsn1"]), deployment("web", 1, cpu="1", memory="1Gi")
        )
        await town.wait_for(lambda: bool(requests(town)), 200)
        name = requests(town)[0]["metadata"]["name"]
        kind, image = town.project.kind("cx33"), town.project.images[0]
        assert kind is not None
        town.project.create(
            FakeServer(
                0, name, kind, "fsn1", {}, town.cluster.runtime.now(), image, user_data='{"labels": {}, "taints": []}'
            )
        )
        allow(town)
        await town.wait_for(lambda: "Unmet" in town.phases(), 200)
        assert any("is taken by a server of another owner or request" in text for text in told(town, "Unmet"))
        await town.wait_for(lambda: town.running() == 1, 600)
        assert sorted(server.name == name for server in town.project.servers.values()) == [False, True]

    in_town(test)


def test_an_order_whose_answer_is_lost_is_adopted_and_nothing_is_bought_twice() -> None:
    async def test(town: Town) -> None:
        handle, lost = town.cloud.api.handle, list[str]()

        def lose_one(request: FakeRequest) -> FakeAnswer:
            answer = handle(request)
            if request.method == "POST" and not lost:
                lost.append(request.path)
                raise Lost
            return answer

        town.cloud.api.handle = lose_one  # type: ignore[method-assign]
        town.cluster.create(
            node_pool("default", "CX33", locations=["fsn1"]), deployment("web", 1, cpu="1", memory="1Gi")
        )
        await town.wait_for(lambda: bool(lost), 200)
        assert town.phases() == {"Pending": 1}
        await town.wait_for(lambda: town.running() == 1, 300)
        assert (lost, len(town.project.meter.bills)) == (["/servers"], 1)

    in_town(test)


def test_a_stock_out_falls_over_to_the_next_location_and_then_to_the_next_type() -> None:
    async def test(town: Town) -> None:
        town.project.stock = {("cx33", "fsn1"): 1, ("cx33", "nbg1"): 1}
        town.cluster.create(
            node_pool("default", "CX33", "CX43", locations=["fsn1", "nbg1"]),
            deployment("web", 3, cpu="3500m", memory="1Gi"),
        )
        await town.wait_for(lambda: town.running() == 3, 400)
        places = sorted((server.kind.name, server.location) for server in town.project.servers.values())
        assert {name for name, _ in places} <= {"cx33", "cx43"}
        assert len(set(places)) == len(places)

    in_town(test)


def test_an_unknown_type_is_a_condition_and_the_rest_of_the_pool_works() -> None:
    async def test(town: Town) -> None:
        town.cluster.create(
            node_pool("default", "CX31", "GEX44", "CX32", "CX33"), deployment("web", 2, cpu="1", memory="1Gi")
        )
        await town.wait_for(lambda: town.running() == 2, 400)
        [pool] = town.cluster.objects("NodePool")
        unknown = next(
            condition for condition in pool["status"]["conditions"] if condition["type"] == "UnknownServerType"
        )
        assert (unknown["status"], unknown["message"]) == ("True", "not sold here: CX31, GEX44")
        deprecated = next(condition for condition in pool["status"]["conditions"] if condition["type"] == "Deprecated")
        assert (deprecated["status"], deprecated["message"]) == (
            "True",
            "sold no longer than: CX32 until 2025-12-31T00:00:00Z",
        )
        states = {offering["name"]: offering["state"] for offering in pool["status"]["offerings"]}
        assert states == {"hetzner-cx32": "Unavailable", "hetzner-cx33": "Available"}

    in_town(test)


def test_the_node_carries_the_providers_id_and_the_request_becomes_ready() -> None:
    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 1, cpu="1", memory="1Gi"))
        await town.wait_for(lambda: town.running() == 1 and town.phases() == {"Ready": 1}, 200)
        [node], [server] = town.cluster.objects("Node"), town.project.servers.values()
        assert node["spec"]["providerID"] == f"hcloud://{server.id}"
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "cx33"

    in_town(test)


def test_a_protected_server_is_not_removed_and_people_are_told() -> None:
    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 1, cpu="1", memory="1Gi"))
        await town.wait_for(lambda: town.running() == 1, 200)
        [server] = town.project.servers.values()
        server.is_protected = True
        town.cluster.scale("Deployment", "web", 0)
        await town.wait_for(lambda: bool(told(town, "CouldNotRemove")), 400)
        assert any("delete protection" in text for text in told(town, "CouldNotRemove"))
        assert server.status == "running"
        server.is_protected = False
        await town.wait_for(town.is_empty, 1200)

    in_town(test)


def test_the_cloud_controllers_taint_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    uninitialized = Taint("node.cloudprovider.kubernetes.io/uninitialized", "true")

    def with_taint(server: FakeServer) -> Server:
        seen = as_seen_by_kubelet(server)
        return replace(seen, template=replace(seen.template, taints=(*seen.template.taints, uninitialized)))

    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 1, cpu="1", memory="1Gi"))
        await town.wait_for(lambda: bool(town.cluster.objects("Node")), 120)
        await town.cluster.runtime.sleep(60)
        assert (town.running(), town.phases()) == (0, {"Provisioning": 1})
        [node] = town.cluster.objects("Node")
        town.cluster.verbs.modify(NODE, node["metadata"]["name"], "", without_taint, "cloud-controller")
        await town.wait_for(lambda: town.running() == 1 and town.phases() == {"Ready": 1}, 120)

    def without_taint(item: dict[str, Any]) -> None:
        item["spec"]["taints"] = [taint for taint in item["spec"]["taints"] if taint["key"] != uninitialized.key]

    monkeypatch.setattr(embedded, "as_seen_by_kubelet", with_taint)
    in_town(test)
