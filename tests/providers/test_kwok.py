"""The KWOK provider on the embedded API server: Node objects are machines, by name and labels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from growth.kube.api.client import Client
from growth.kube.api.transport import Request, Response, TransportError
from growth.model.labels import Labels
from growth.model.node import Taint
from growth.model.offering import Machine
from growth.model.outcome import Accepted, NoCapacity, Outcome, Refused, Unknown
from growth.model.resources import CPU, Resources
from growth.providers.catalogue import built_in_catalogue
from growth.providers.contract import Gone, Order, ProviderError
from growth.providers.kwok import KwokProvider
from growth.sim.apiserver.objects import node
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster

CATALOGUE = built_in_catalogue()


def order(
    name: str = "default-pool-1",
    uid: str = "uid-1",
    cluster: str = "mine",
    offering: str = "kwok-cx33",
    location: str = "fsn1",
) -> Order:
    labels = Labels({"growth.dev/pool": "default", "growth.dev/offering": offering})
    taints = (Taint("growth.dev/unregistered"),)
    return Order(
        name,
        uid,
        cluster,
        "default",
        offering,
        location,
        labels,
        Labels({"note": "x"}),
        taints,
        Resources({CPU: 3500, "pods": 100}),
    )


def on_cluster(
    test: Callable[[Cluster, KwokProvider], Awaitable[None]],
    stock: dict[str, int] | None = None,
    boot_seconds: float = 0.0,
) -> None:
    async def run() -> None:
        cluster = Cluster("test")
        types = tuple(msgspec.structs.replace(one, stock=stock or {}) for one in CATALOGUE.server_types)
        catalogue = msgspec.structs.replace(CATALOGUE, server_types=types, boot_seconds=(boot_seconds, boot_seconds))
        await test(cluster, KwokProvider(Client(cluster.api, cluster.runtime), cluster.runtime, catalogue))

    run_virtual(run())


def test_a_launch_makes_a_node_that_kwok_plays() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        assert await provider.launch(order()) == Accepted("default-pool-1")
        [item] = cluster.objects("Node")
        assert item["spec"]["providerID"] == "kwok://default-pool-1"
        assert {"growth.dev/unregistered", "node.kubernetes.io/not-ready"} == {
            taint["key"] for taint in item["spec"]["taints"]
        }
        assert item["status"]["allocatable"] == {"cpu": "3500m", "pods": "100"}
        labels, annotations = item["metadata"]["labels"], item["metadata"]["annotations"]
        assert (labels["growth.dev/cluster"], labels["growth.dev/request-uid"], labels["growth.dev/pool"]) == (
            "mine",
            "uid-1",
            "default",
        )
        assert (labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"]) == ("cx33", "fsn1")
        assert (annotations["kwok.x-k8s.io/node"], annotations["note"]) == ("fake", "x")
        await cluster.runtime.sleep(15)
        assert cluster.kubelets.is_ready("default-pool-1")

    on_cluster(test)


def test_machines_are_nodes_with_our_cluster_label_and_no_others() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        cluster.create(node("stranger"))
        await provider.launch(order())
        await provider.launch(order("other", "uid-2", cluster="another"))
        [machine] = await provider.list("mine")
        assert (machine.name, machine.offering, machine.location, machine.request_uid) == (
            "default-pool-1",
            "kwok-cx33",
            "fsn1",
            "uid-1",
        )
        assert (machine.provider_id, machine.state, machine.cluster) == ("kwok://default-pool-1", "running", "mine")
        assert await provider.describe("default-pool-1") == machine
        found = await provider.describe("stranger")
        assert isinstance(found, Machine)
        assert found.cluster == ""
        assert await provider.find("default-pool-1") == machine
        assert await provider.find("nobody") == Gone()
        assert await provider.describe("nowhere") == Gone()

    on_cluster(test)


def test_a_name_that_is_taken_is_adopted_only_if_the_labels_match() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        first = await provider.launch(order())
        assert await provider.launch(order()) == first
        assert isinstance(await provider.launch(order(uid="another")), Refused)
        cluster.create(node("stranger"))
        assert isinstance(await provider.launch(order("stranger")), Refused)
        assert len(cluster.objects("Node")) == 2

    on_cluster(test)


def test_a_delete_takes_only_nodes_of_ours_and_may_be_repeated() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        cluster.create(node("stranger"))
        await provider.launch(order())
        assert isinstance(await provider.delete("stranger"), Refused)
        assert isinstance(await provider.delete("default-pool-1"), Accepted)
        assert isinstance(await provider.delete("default-pool-1"), Accepted)
        assert [item["metadata"]["name"] for item in cluster.objects("Node")] == ["stranger"]

    on_cluster(test)


def test_stock_runs_out_by_location_and_a_repeated_launch_is_not_counted_twice() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        assert isinstance(await provider.launch(order()), Accepted)
        assert isinstance(await provider.launch(order()), Accepted)
        assert isinstance(await provider.launch(order("second", "uid-2")), NoCapacity)
        assert isinstance(await provider.launch(order("second", "uid-2", location="nbg1")), Accepted)
        assert isinstance(await provider.launch(order("third", "uid-3", offering="kwok-gex99")), Refused)

    on_cluster(test, stock={"fsn1": 1})


def test_a_machine_that_boots_slowly_is_a_launch_that_takes_long() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        began_at = cluster.runtime.monotonic()
        assert isinstance(await provider.launch(order()), Accepted)
        assert cluster.runtime.monotonic() - began_at == 90.0
        assert [machine.name for machine in await provider.list("mine")] == ["default-pool-1"]

    on_cluster(test, boot_seconds=90.0)


def test_launches_at_the_same_moment_do_not_oversell_the_stock() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        outcomes = await asyncio.gather(
            *(provider.launch(order(f"default-pool-{number}", f"uid-{number}")) for number in range(5))
        )
        assert sum(isinstance(outcome, Accepted) for outcome in outcomes) == 2
        assert len(cluster.objects("Node")) == 2

    on_cluster(test, stock={"fsn1": 2})


def test_a_launch_that_ends_while_another_waits_for_its_list_is_counted() -> None:
    async def test(cluster: Cluster, provider: KwokProvider) -> None:
        async def late(name: str) -> Outcome:
            await cluster.runtime.sleep(0.5)
            return await provider.launch(order(name, f"uid-{name}"))

        send = cluster.api.send

        async def answers_slowly(request: Request) -> Response:
            answer = await send(request)
            await cluster.runtime.sleep(1.0 if request.method == "GET" else 0.0)
            return answer

        cluster.api.send = answers_slowly  # type: ignore[method-assign]
        outcomes = await asyncio.gather(provider.launch(order()), late("second"))
        assert [type(outcome) for outcome in outcomes] == [Accepted, NoCapacity]
        assert len(await provider.list("mine")) == 1

    on_cluster(test, stock={"fsn1": 1})


def test_an_api_server_that_does_not_answer_concludes_nothing() -> None:
    class Down:
        async def send(self, request: Request) -> Response:
            raise TransportError("no route")

    async def run() -> None:
        cluster = Cluster("test")
        provider = KwokProvider(Client(Down(), cluster.runtime), cluster.runtime, CATALOGUE)
        assert isinstance(await provider.launch(order()), Unknown)
        for call in (provider.list("mine"), provider.describe("x")):
            try:
                await call
                raise AssertionError("an answer without a server")
            except ProviderError:
                pass

    run_virtual(run())
