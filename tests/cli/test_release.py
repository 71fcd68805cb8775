"""After growth is gone its objects can go too, and nodes stay as they are; `growth release` says what it did."""

from __future__ import annotations

from typing import Any

import msgspec

from growth.cli.release import HELD, Released, as_text, release_all, why_not_release
from growth.kube.api.client import Client
from growth.kube.api.errors import NotFound
from growth.kube.api.resources import (
    LEASES,
    NAMESPACES,
    NODE_POOLS,
    NODE_REMOVAL_REQUESTS,
    NODE_REQUESTS,
    NODES,
    Resource,
)
from growth.kube.api.transport import Request, Response, TransportError
from growth.kube.election import Election, LeaseSettings
from growth.model.api import FINALIZER
from growth.runtime import Spawned
from tests.sim.embedded import Bench, on_api_server

LEASE = LeaseSettings()
SPECS: dict[str, dict[str, Any]] = {
    "NodePool": {"serverTypes": [{"name": "CAX11"}]},
    "NodeRequest": {"pool": "default", "targetOffering": "kwok-cax11"},
    "NodeRemovalRequest": {"nodeName": "one", "pool": "default"},
    "Node": {
        "taints": [{"key": "growth.dev/scale-down", "effect": "NoSchedule"}, {"key": "mine", "effect": "NoSchedule"}]
    },
}


async def put(bench: Bench, resource: Resource, name: str, *finalizers: str) -> None:
    metadata = {"name": name, **({"finalizers": list(finalizers)} if finalizers else {})}
    item = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": SPECS[resource.kind],
    }
    await bench.client.create(resource, item)


async def finalizers_of(bench: Bench, resource: Resource, name: str) -> list[str] | None:
    try:
        metadata = (await bench.read(resource, name))["metadata"]
    except NotFound:
        return None
    return list(metadata.get("finalizers", []))


def test_our_finalizer_goes_from_every_kind_and_those_of_others_stay() -> None:
    async def scenario(bench: Bench) -> tuple[Released, list[list[str] | None]]:
        for resource in HELD:
            await put(bench, resource, "one", "example.com/theirs", FINALIZER)
        await put(bench, NODE_POOLS, "free")
        released = await release_all(bench.client)
        return released, [await finalizers_of(bench, resource, "one") for resource in HELD]

    released, left = on_api_server(scenario)
    assert released.let_go == ("NodeRequest one", "NodeRemovalRequest one", "NodePool one")
    assert released.failures == ()
    assert left == [["example.com/theirs"]] * 3


def test_what_was_deleted_and_only_held_by_us_goes_and_nothing_else_is_deleted() -> None:
    async def scenario(bench: Bench) -> list[list[str] | None]:
        await put(bench, NODE_POOLS, "deleted", FINALIZER)
        await put(bench, NODE_POOLS, "kept", FINALIZER)
        await bench.client.delete(NODE_POOLS, "deleted")
        await release_all(bench.client)
        return [await finalizers_of(bench, NODE_POOLS, name) for name in ("deleted", "kept")]

    assert on_api_server(scenario) == [None, []]


def test_nodes_are_left_as_they_are_and_those_with_a_taint_of_ours_are_named() -> None:
    async def scenario(bench: Bench) -> tuple[Released, bool]:
        await put(bench, NODES, "one")
        before = await bench.read(NODES, "one")
        released = await release_all(bench.client)
        return released, before == await bench.read(NODES, "one")

    released, is_untouched = on_api_server(scenario)
    assert released.tainted == ("one: growth.dev/scale-down:NoSchedule",)
    assert is_untouched


def test_machines_that_nobody_looks_after_from_now_on_are_named_with_a_node_and_without() -> None:
    async def scenario(bench: Bench) -> Released:
        metadata = {"name": "joined", "labels": {"growth.dev/pool": "default"}}
        spec = {"providerID": "hcloud://17"}
        await bench.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        for name in ("joined", "ordered"):
            await put(bench, NODE_REQUESTS, name, FINALIZER)
        await put(bench, NODE_REMOVAL_REQUESTS, "one", FINALIZER)
        await bench.client.delete(NODE_REQUESTS, "ordered")
        return await release_all(bench.client)

    released = on_api_server(scenario)
    assert released.nodes == ("node joined of pool default (hcloud://17)",)
    assert released.unfinished == (
        "machine ordered (id not known) of pool default was being bought",
        "machine of node one (id not known) was being given back",
    )
    assert as_text(released).splitlines()[-3:] == [
        "1 nodes and 2 unfinished machines are left and are paid for: nobody but you gives them back now.",
        "`growth orphans` lists machines without a node or a record, and gives them back with --delete.",
        "3 released, 0 failed. Nodes and machines were left as they are.",
    ]


def test_a_second_release_has_nothing_to_do() -> None:
    async def scenario(bench: Bench) -> tuple[Released, int]:
        await put(bench, NODE_POOLS, "one", FINALIZER)
        await release_all(bench.client)
        written = bench.api.writes_asked
        return await release_all(bench.client), bench.api.writes_asked - written

    assert on_api_server(scenario) == (Released(), 0)


class Troubled:
    """A line on which things happen before a patch arrives: somebody else writes, or the answer is lost, or the server
    refuses.
    """

    def __init__(self, bench: Bench, trouble: str) -> None:
        self.bench = bench
        self.trouble = trouble
        self.patches = 0

    async def send(self, request: Request) -> Response:
        if request.method != "PATCH":
            return await self.bench.api.send(request)
        self.patches += 1
        if self.trouble == "changed" and self.patches == 1:
            await self.bench.client.merge_patch(
                NODE_POOLS, "one", {"metadata": {"finalizers": ["example.com/new", FINALIZER]}}
            )
        if self.trouble == "refused" and "noderequests" in request.path:
            return await self.bench.api.send(Request("TRACE", request.path))
        answer = await self.bench.api.send(request)
        if self.trouble == "lost" and self.patches == 1:
            raise TransportError("the answer was lost")
        return answer


def released_with(trouble: str) -> tuple[Released, list[list[str] | None]]:
    async def scenario(bench: Bench) -> tuple[Released, list[list[str] | None]]:
        await put(bench, NODE_REQUESTS, "one", FINALIZER)
        await put(bench, NODE_POOLS, "one", FINALIZER)
        released = await release_all(Client(Troubled(bench, trouble), bench.runtime))
        return released, [await finalizers_of(bench, resource, "one") for resource in (NODE_REQUESTS, NODE_POOLS)]

    return on_api_server(scenario)


def test_an_object_that_changes_meanwhile_is_read_again_so_that_no_finalizer_of_others_is_lost() -> None:
    async def scenario(bench: Bench) -> list[str] | None:
        await put(bench, NODE_POOLS, "one", FINALIZER)
        await release_all(Client(Troubled(bench, "changed"), bench.runtime))
        return await finalizers_of(bench, NODE_POOLS, "one")

    assert on_api_server(scenario) == ["example.com/new"]


def test_a_lost_answer_is_made_good() -> None:
    released, left = released_with("lost")
    assert (released.failures, left) == ((), [[], []])


def test_one_that_is_refused_is_told_and_the_others_are_released() -> None:
    released, left = released_with("refused")
    assert [failure.split(":")[0] for failure in released.failures] == ["NodeRequest one"]
    assert released.let_go == ("NodePool one",)
    assert left == [[FINALIZER], []]


def test_a_cluster_without_our_kinds_has_nothing_to_release() -> None:
    class Bare:
        def __init__(self, bench: Bench) -> None:
            self.bench = bench

        async def send(self, request: Request) -> Response:
            path = request.path.replace("/apis/growth.dev/", "/apis/absent.dev/")
            return await self.bench.api.send(msgspec.structs.replace(request, path=path))

    async def scenario(bench: Bench) -> Released:
        return await release_all(Client(Bare(bench), bench.runtime))

    assert on_api_server(scenario) == Released()


# ---------------------------------------------------------------------------------- who still leads


async def led(bench: Bench) -> tuple[Election, Spawned]:
    """A contender that has won the Lease and goes on renewing it."""
    await bench.client.create(NAMESPACES, {"metadata": {"name": LEASE.namespace}})
    election = Election(bench.api, bench.runtime, "me", LEASE)
    running = bench.runtime.spawn("election", election.run())
    await bench.runtime.sleep(5.0)
    assert election.fence.holds()
    return election, running


def test_without_a_lease_or_with_one_that_was_given_back_nobody_leads() -> None:
    async def scenario(bench: Bench) -> list[str]:
        first = await why_not_release(bench.client, bench.runtime, LEASE)
        election, running = await led(bench)
        running.cancel()
        await election.release()
        return [first, await why_not_release(bench.client, bench.runtime, LEASE)]

    assert on_api_server(scenario) == ["", ""]


def test_a_growth_that_renews_its_lease_keeps_us_from_releasing() -> None:
    async def scenario(bench: Bench) -> str:
        await led(bench)
        return await why_not_release(bench.client, bench.runtime, LEASE)

    assert "me keeps renewing the Lease growth-system/growth" in on_api_server(scenario)


def test_a_growth_that_died_holding_its_lease_does_not_keep_us() -> None:
    async def scenario(bench: Bench) -> tuple[str, str]:
        _, running = await led(bench)
        running.cancel()
        held = await bench.read(LEASES, LEASE.name, LEASE.namespace)
        return held["spec"]["holderIdentity"], await why_not_release(bench.client, bench.runtime, LEASE)

    assert on_api_server(scenario) == ("me", "")


def test_a_removal_in_flight_is_let_go_too() -> None:
    async def scenario(bench: Bench) -> list[str] | None:
        await put(bench, NODE_REMOVAL_REQUESTS, "one", FINALIZER)
        await bench.client.merge_patch(
            NODE_REMOVAL_REQUESTS, "one", {"status": {"phase": "Deprovisioning"}}, subresource="status"
        )
        await release_all(bench.client)
        return await finalizers_of(bench, NODE_REMOVAL_REQUESTS, "one")

    assert on_api_server(scenario) == []


def test_what_was_let_go_and_what_was_not_is_listed() -> None:
    released = Released(
        ("NodePool default",), ("NodeRequest a: Forbidden (403): no",), ("node-1: growth.dev/scale-down:NoSchedule",)
    )
    lines = as_text(released).splitlines()
    assert lines[:3] == [
        "released NodePool default",
        "failed   NodeRequest a: Forbidden (403): no",
        "tainted  node-1: growth.dev/scale-down:NoSchedule",
    ]
    assert "kubectl taint node" in lines[3]
    assert lines[4] == "1 released, 1 failed. Nodes and machines were left as they are."


def test_with_nothing_to_let_go_one_line_is_enough() -> None:
    assert as_text(Released()) == "0 released, 0 failed. Nodes and machines were left as they are."
