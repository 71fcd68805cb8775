"""The verbs of growth's client against a real API server: each does what it says, and each failure has its type."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.errors import (
    BlockedByBudget,
    Conflict,
    EffectUnknown,
    Forbidden,
    NotFound,
    Unauthorized,
    Unreachable,
)
from growth.kube.api.events import Recorder, Regarding
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import CAPACITY_BUFFERS, CONFIG_MAPS, DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.manifests import deployment, kwok_node
from tests.e2e.talking import configuration, read, speaking, wait_for, waiting_pod


async def is_running(client: Client, name: str) -> bool:
    return bool(read(await client.get(PODS, name, "default"))["status"].get("phase") == "Running")


async def ready_node(client: Client, name: str) -> None:
    await client.create(NODES, kwok_node(name))

    async def is_ready() -> bool:
        conditions = read(await client.get(NODES, name))["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    await wait_for(is_ready, f"node {name} to be Ready")


def test_a_list_comes_in_pages_and_is_one_moment(cluster: ControlPlane) -> None:
    async def scene() -> None:
        async with speaking(cluster.kubeconfig, ClientSettings(page_size=7)) as client:
            for number in range(20):
                await client.create(CONFIG_MAPS, configuration(f"item-{number:02}"))
            pages = [
                page
                async for page in client.pages(
                    CONFIG_MAPS, "default", labels="", fields="metadata.name!=kube-root-ca.crt"
                )
            ]
            assert [len(page.items) for page in pages] == [7, 7, 6]
            assert len({page.version for page in pages}) == 1
            items, _ = await client.list(CONFIG_MAPS, "default", fields="metadata.name=item-03")
            assert [read(item)["metadata"]["name"] for item in items] == ["item-03"]

    asyncio.run(scene())


def test_patches_and_replacements_hold_to_their_preconditions(cluster: ControlPlane) -> None:
    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            first = read(await client.create(CONFIG_MAPS, configuration("x", a="1")))
            old = first["metadata"]["resourceVersion"]
            second = read(await client.merge_patch(CONFIG_MAPS, "x", {"data": {"a": None, "b": "2"}}, "default"))
            assert second["data"] == {"b": "2"}
            with pytest.raises(Conflict):
                await client.replace(CONFIG_MAPS, first)
            with pytest.raises(Conflict):
                await client.merge_patch(
                    CONFIG_MAPS,
                    "x",
                    {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"c": "3"}},
                    "default",
                )
            third = read(await client.merge_patch(CONFIG_MAPS, "x", {"data": {"b": "3"}}, "default"))
            assert third["data"] == {"b": "3"}
            with pytest.raises(Conflict):
                await client.delete(CONFIG_MAPS, "x", "default", uid="00000000-0000-0000-0000-000000000000")
            with pytest.raises(Conflict):
                await client.delete(CONFIG_MAPS, "x", "default", version=old)
            await client.delete(
                CONFIG_MAPS, "x", "default", uid=third["metadata"]["uid"], version=third["metadata"]["resourceVersion"]
            )
            with pytest.raises(NotFound):
                await client.get(CONFIG_MAPS, "x", "default")

    asyncio.run(scene())


def test_status_and_scale_are_written_beside_the_object(cluster: ControlPlane) -> None:
    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            await client.create(NODES, kwok_node("one"))
            condition = {"type": "growth.dev/Tested", "status": "True", "reason": "Test", "message": "tested"}
            patch = {"status": {"conditions": [condition]}}
            node = read(await client.strategic_patch(NODES, "one", patch, subresource="status"))
            assert "growth.dev/Tested" in {each["type"] for each in node["status"]["conditions"]}
            await client.create(DEPLOYMENTS, deployment("web", 1))
            scale = read(await client.scale(DEPLOYMENTS, "web", "default"))
            assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
            with pytest.raises(Conflict):
                await client.set_scale(DEPLOYMENTS, "web", "default", 7, version="1")
            await client.set_scale(DEPLOYMENTS, "web", "default", 3)
            assert read(await client.get(DEPLOYMENTS, "web", "default"))["spec"]["replicas"] == 3

    asyncio.run(scene())


def test_a_pod_is_bound_once_and_only_the_one_that_was_meant(cluster: ControlPlane) -> None:
    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            await ready_node(client, "one")
            pod = read(await client.create(PODS, waiting_pod("web")))
            with pytest.raises(Conflict):
                await client.bind("web", "default", "one", uid="00000000-0000-0000-0000-000000000000")
            await client.bind("web", "default", "one", uid=pod["metadata"]["uid"])
            await wait_for(lambda: is_running(client, "web"), "the pod to run on its node")
            assert read(await client.get(PODS, "web", "default"))["spec"]["nodeName"] == "one"
            with pytest.raises(Conflict):
                await client.bind("web", "default", "one", uid=pod["metadata"]["uid"])

    asyncio.run(scene())


def test_an_eviction_waits_for_the_budget(cluster: ControlPlane) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }

    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            await ready_node(client, "one")
            pod = read(await client.create(PODS, waiting_pod("web", {"app": "web"})))
            await client.create(POD_DISRUPTION_BUDGETS, budget)
            await client.bind("web", "default", "one")
            await wait_for(lambda: is_running(client, "web"), "the pod to run")

            async def is_healthy() -> bool:
                return bool(
                    read(await client.get(POD_DISRUPTION_BUDGETS, "web", "default"))["status"].get("currentHealthy")
                )

            await wait_for(is_healthy, "the budget to count the pod")
            with pytest.raises(BlockedByBudget) as caught:
                await client.evict("web", "default")
            assert (
                caught.value.causes[0].message == "The disruption budget web needs 1 healthy pods and has 1 currently"
            )
            await client.delete(POD_DISRUPTION_BUDGETS, "web", "default")
            with pytest.raises(Conflict):
                await client.evict("web", "default", uid="00000000-0000-0000-0000-000000000000")
            await client.evict("web", "default", uid=pod["metadata"]["uid"])
            await wait_for(lambda: _is_gone(client, "web"), "the pod to go")
            with pytest.raises(NotFound):
                await client.evict("web", "default")

    asyncio.run(scene())


async def _is_gone(client: Client, name: str) -> bool:
    items, _ = await client.list(PODS, "default", fields=f"metadata.name={name}")
    return not items


def test_two_budgets_over_one_pod_are_a_block_not_a_riddle(cluster: ControlPlane) -> None:
    def budget(name: str) -> dict[str, object]:
        metadata = {"name": name, "namespace": "default"}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }

    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            await ready_node(client, "one")
            await client.create(PODS, waiting_pod("web", {"app": "web"}))
            await client.bind("web", "default", "one")
            await wait_for(lambda: is_running(client, "web"), "the pod to run")
            for name in ("one", "two"):
                await client.create(POD_DISRUPTION_BUDGETS, budget(name))
            with pytest.raises(BlockedByBudget, match="more than one PodDisruptionBudget"):
                await client.evict("web", "default")

    asyncio.run(scene())


def test_rights_version_and_kinds_can_be_asked_for(cluster: ControlPlane) -> None:
    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as admin, speaking(cluster.kubeconfig_for("stranger")) as stranger:
            assert await admin.may("patch", DEPLOYMENTS, "default", subresource="scale")
            assert not await stranger.may("list", PODS)
            assert (await admin.server_version()).startswith("v1.")
            assert "deployments/scale" in {each.name for each in await admin.served("apps", "v1")}
            with pytest.raises(NotFound):
                await admin.served(CAPACITY_BUFFERS.group, CAPACITY_BUFFERS.version)
            with pytest.raises(Forbidden, match='User "stranger" cannot list'):
                await stranger.list(PODS)

    asyncio.run(scene())


def test_a_token_opens_the_door_and_a_wrong_one_does_not(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = cluster.kubeconfig_for("system:serviceaccount:default:default")

    async def scene() -> None:
        async with speaking(kubeconfig) as client:
            assert not await client.may("list", PODS)
        broken = tmp_path / "broken"
        broken.write_text(kubeconfig.read_text().replace("token: ", "token: x"))
        async with speaking(broken) as client:
            with pytest.raises(Unauthorized):
                await client.get(NODES, "one")

    asyncio.run(scene())


def test_a_lost_answer_is_unknown_and_a_dead_server_is_not(cluster: ControlPlane, proxy: Proxy) -> None:
    async def scene() -> None:
        hasty = ClientSettings(timeout_seconds=1.0, attempts=1)
        async with speaking(cluster.kubeconfig_for("hasty", ["system:masters"], server=proxy.url), hasty) as client:
            await client.create(CONFIG_MAPS, configuration("before"))
            proxy.silence()
            with pytest.raises(EffectUnknown):
                await client.create(CONFIG_MAPS, configuration("unknown"))
            with pytest.raises(Unreachable):
                await client.get(CONFIG_MAPS, "before", "default")
            proxy.forward()
        cluster.stop_apiserver(kill=True)
        async with speaking(cluster.kubeconfig, hasty) as client:
            with pytest.raises(Unreachable):
                await client.create(CONFIG_MAPS, configuration("never"))
        cluster.start_apiserver()
        async with speaking(cluster.kubeconfig) as client:
            with pytest.raises(NotFound):
                await client.get(CONFIG_MAPS, "never", "default")

    asyncio.run(scene())


def test_events_read_well_in_describe(cluster: ControlPlane) -> None:
    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            node = read(await client.create(NODES, kwok_node("one")))
            pod = read(await client.create(PODS, waiting_pod("web")))
            recorder = Recorder(client, SystemRuntime(), "growth-0")
            for _ in range(3):
                recorder.record(
                    Regarding("v1", "Node", "one", uid=node["metadata"]["uid"]),
                    "Normal",
                    "ScaleDownMarked",
                    "not needed since noon",
                )
            recorder.record(
                Regarding("v1", "Pod", "web", "default", pod["metadata"]["uid"]),
                "Warning",
                "PoolMissing",
                "there is no pool named gpu",
            )

            async def is_written() -> bool:
                pod = await asyncio.to_thread(cluster.kubectl, "describe", "pod", "web")
                return "PoolMissing" in pod and "ScaleDownMarked" in cluster.kubectl("describe", "node", "one")

            await wait_for(is_written, "the events to be written")
            assert recorder.dropped == 0

    asyncio.run(scene())
    [line] = [
        line.split() for line in cluster.kubectl("describe", "node", "one").splitlines() if "ScaleDownMarked" in line
    ]
    assert (line[:2], line[3], line[-5:]) == (
        ["Normal", "ScaleDownMarked"],
        "(x3",
        ["growth.dev/growth", *["not", "needed", "since", "noon"]],
    )
    [line] = [line.split() for line in cluster.kubectl("describe", "pod", "web").splitlines() if "PoolMissing" in line]
    assert (line[:2], line[3]) == (["Warning", "PoolMissing"], "growth.dev/growth")
