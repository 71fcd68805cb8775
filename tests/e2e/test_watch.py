"""The watch client against a real API server: it survives restarts, cuts, silence, and history that is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from growth.kube.api.client import Client, Page
from growth.kube.api.errors import AlreadyExists
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import CONFIG_MAPS, NODES, Resource
from growth.kube.watch.reflector import WatchSettings
from growth.kube.watch.stream import TroubleKind
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.manifests import namespace
from tests.e2e.talking import QUICK, configuration, following, read, speaking, wait_until

WHERE = "watched"
WIDGETS = Resource("example.test", "v1", "widgets", "Widget", namespaced=False)


async def put(client: Client, *names: str, **data: str) -> None:
    for name in names:
        try:
            await client.create(CONFIG_MAPS, configuration(name, WHERE, **data))
        except AlreadyExists:
            await client.replace(CONFIG_MAPS, configuration(name, WHERE, **data))


async def remove(client: Client, *names: str) -> None:
    for name in names:
        await client.delete(CONFIG_MAPS, name, WHERE)


def furnished(cluster: ControlPlane) -> None:
    """A namespace in which the controller manager has already put its own configuration map."""
    cluster.apply(namespace(WHERE))
    cluster.wait_until(lambda: cluster.objects("configmaps", f"--namespace={WHERE}"), "the first configuration map")
    cluster.kubectl("delete", "configmap", "kube-root-ca.crt", f"--namespace={WHERE}")
    cluster.wait_until(lambda: cluster.objects("configmaps", f"--namespace={WHERE}"), "it to come back")


ROOT = "kube-root-ca.crt"


def behind(cluster: ControlPlane, proxy: Proxy) -> Path:
    return cluster.kubeconfig_for("watcher", ["system:masters"], server=proxy.url)


def test_a_streamed_listing_is_followed_by_its_changes(cluster: ControlPlane) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            await put(client, "a", "b")
            async with following(cluster.kubeconfig, CONFIG_MAPS, namespace=WHERE) as follower:
                await follower.holds(ROOT, "a", "b")
                await put(client, "c")
                await put(client, "a", colour="blue")
                await remove(client, "b")
                await follower.holds(ROOT, "a", "c")
                assert (
                    follower.sink.items["a"]
                    == read(await client.get(CONFIG_MAPS, "a", WHERE))["metadata"]["resourceVersion"]
                )
                assert "MODIFIED a" in follower.sink.calls
                assert (follower.reflector.listings, follower.troubles) == (1, [])

    asyncio.run(scene())


def test_a_listing_in_pages_is_followed_by_its_changes(cluster: ControlPlane) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            await put(client, "a", "b", "c", "d")
            async with following(
                cluster.kubeconfig, CONFIG_MAPS, WatchSettings(stream_lists=False), WHERE, page_size=2
            ) as follower:
                await follower.holds(ROOT, "a", "b", "c", "d")
                await remove(client, "d")
                await follower.holds(ROOT, "a", "b", "c")
                assert follower.reflector.listings == 1

    asyncio.run(scene())


def test_it_survives_restarts_of_the_api_server(cluster: ControlPlane) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with (
            speaking(cluster.kubeconfig) as client,
            following(cluster.kubeconfig, CONFIG_MAPS, namespace=WHERE) as follower,
        ):
            await put(client, "a")
            await follower.holds(ROOT, "a")
            for kill, previous, name in ((False, "a", "b"), (True, "b", "c")):
                cluster.restart_apiserver(kill=kill)
                await asyncio.sleep(0.1)  # the loop stood still meanwhile: let it see that its connections are gone
                await put(client, name)
                await remove(client, previous)
                await follower.holds(ROOT, name)

    asyncio.run(scene())


def test_it_survives_an_api_server_that_is_away(cluster: ControlPlane) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with (
            speaking(cluster.kubeconfig) as client,
            following(cluster.kubeconfig, CONFIG_MAPS, namespace=WHERE) as follower,
        ):
            await follower.holds(ROOT)
            cluster.stop_apiserver()
            await wait_until(lambda: follower.troubles, lambda: "the trouble to be noticed")
            assert follower.troubles[0].kind is TroubleKind.UNREACHABLE
            assert follower.names == {ROOT}
            cluster.start_apiserver()
            await put(client, "a")
            await follower.holds(ROOT, "a")
            assert follower.reflector.trouble is None

    asyncio.run(scene())


def test_after_a_cut_it_goes_on_from_where_it_was(cluster: ControlPlane, proxy: Proxy) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with (
            speaking(cluster.kubeconfig) as client,
            following(behind(cluster, proxy), CONFIG_MAPS, namespace=WHERE) as follower,
        ):
            await put(client, "a")
            await follower.holds(ROOT, "a")
            proxy.refuse()
            await put(client, "b")
            await remove(client, "a")
            await asyncio.sleep(0.5)
            assert follower.names == {ROOT, "a"}
            proxy.forward()
            await follower.holds(ROOT, "b")
            assert follower.reflector.listings == 1
            assert "DELETED a" in follower.sink.calls

    asyncio.run(scene())


def test_a_listing_cut_in_the_middle_is_begun_again(cluster: ControlPlane, proxy: Proxy) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with speaking(cluster.kubeconfig) as client:
            await put(client, *(f"large-{number}" for number in range(20)), content="x" * 20_000)
            proxy.cut_after(150_000)
            async with following(behind(cluster, proxy), CONFIG_MAPS, namespace=WHERE) as follower:
                await follower.holds(ROOT, *(f"large-{number}" for number in range(20)))
                begun, told = follower.sink.calls.count("relisting"), [each.kind for each in follower.troubles]
                is_streamed = (begun, told) == (2, [TroubleKind.UNREACHABLE])
                assert is_streamed or (begun, told) == (1, []), "a page is asked for again, and was not taken in before"

    asyncio.run(scene())


def test_a_line_that_falls_silent_is_noticed(cluster: ControlPlane, proxy: Proxy) -> None:
    furnished(cluster)
    attentive = WatchSettings(silence_seconds=3.0, back_off_seconds=0.1, back_off_limit_seconds=1.0)

    async def scene() -> None:
        async with (
            speaking(cluster.kubeconfig) as client,
            following(behind(cluster, proxy), CONFIG_MAPS, attentive, WHERE) as follower,
        ):
            await put(client, "a")
            await follower.holds(ROOT, "a")
            proxy.silence()
            await put(client, "b")
            await remove(client, "a")
            await wait_until(lambda: follower.troubles, lambda: "a new line to be tried, which is as silent")
            assert follower.troubles[0].kind is TroubleKind.UNREACHABLE
            assert follower.reflector.age_seconds > 2.5
            proxy.forward()
            await follower.holds(ROOT, "b")
            assert follower.reflector.listings == 2

    asyncio.run(scene())


def test_bookmarks_prove_a_quiet_cache_fresh(cluster: ControlPlane) -> None:
    """The API server sends one each minute, and one just before the end of a watch: here they are short."""

    async def scene() -> None:
        async with following(cluster.kubeconfig, NODES, replace(QUICK, shortest_watch_seconds=8)) as follower:
            await wait_until(lambda: follower.reflector.synced, lambda: "the first listing")
            await wait_until(
                lambda: any(call.startswith("bookmarked") for call in follower.sink.calls),
                lambda: "a bookmark",
                timeout_seconds=90,
            )
            assert follower.reflector.age_seconds < 1
            assert follower.reflector.listings == 1

    asyncio.run(scene())


def test_when_history_is_gone_everything_is_listed_again(cluster: ControlPlane, proxy: Proxy) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with (
            speaking(cluster.kubeconfig) as client,
            following(behind(cluster, proxy), CONFIG_MAPS, namespace=WHERE) as follower,
        ):
            await put(client, "a", "b")
            await follower.holds(ROOT, "a", "b")
            proxy.refuse()
            await remove(client, "a")
            await put(client, "c")
            cluster.forget_history()
            assert follower.names == {ROOT, "a", "b"}
            proxy.forward()
            await follower.holds(ROOT, "b", "c")
            assert follower.reflector.listings == 2
            assert "DELETED a" not in follower.sink.calls

    asyncio.run(scene())


def test_a_list_whose_continuation_is_gone_starts_again(cluster: ControlPlane) -> None:
    furnished(cluster)

    async def scene() -> None:
        async with speaking(cluster.kubeconfig, ClientSettings(page_size=2)) as client:
            await put(client, "a", "b", "c", "d")
            pages: list[Page] = []
            async for page in client.pages(CONFIG_MAPS, WHERE):
                pages.append(page)
                if len(pages) == 1:
                    await put(client, "e")
                    cluster.forget_history()
            assert [page.first for page in pages] == [True, True, False, False]
            names = [read(item)["metadata"]["name"] for page in pages[1:] for item in page.items]
            assert names == ["a", "b", "c", "d", "e", ROOT]
            assert len({page.version for page in pages[1:]}) == 1

    asyncio.run(scene())


def test_a_kind_is_found_when_it_is_installed(cluster: ControlPlane) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.test"},
        "spec": {"group": "example.test", "scope": "Cluster", "names": names, "versions": [version]},
    }

    async def scene() -> None:
        async with following(cluster.kubeconfig, WIDGETS) as follower:
            await wait_until(lambda: follower.reflector.missing, lambda: "the kind to be missed")
            await asyncio.to_thread(cluster.apply, definition)
            await asyncio.to_thread(
                cluster.kubectl, "wait", "--for=condition=Established", "crd/widgets.example.test", "--timeout=30s"
            )
            async with speaking(cluster.kubeconfig) as client:
                await client.create(
                    WIDGETS, {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "one"}}
                )
            await follower.holds("one")
            assert [trouble.kind for trouble in follower.troubles].count(TroubleKind.MISSING) == 1

    asyncio.run(scene())


def test_who_may_not_list_is_told_so_and_goes_on_once_allowed(cluster: ControlPlane) -> None:
    furnished(cluster)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [rule],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "name": "stranger", "apiGroup": "rbac.authorization.k8s.io"}],
    }

    async def scene() -> None:
        async with following(cluster.kubeconfig_for("stranger"), CONFIG_MAPS, QUICK, WHERE) as follower:
            await wait_until(lambda: follower.troubles, lambda: "the refusal to be noticed")
            assert follower.troubles[0].kind is TroubleKind.FORBIDDEN
            assert 'User "stranger" cannot' in follower.troubles[0].message
            await asyncio.to_thread(cluster.apply, role, binding)
            await follower.holds(ROOT)

    asyncio.run(scene())
