"""Lists in pages and watches of the embedded API server, byte by byte as growth's client reads them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from growth.kube.api.errors import BadRequest, Expired
from growth.kube.api.resources import NODE_POOLS, NODES, PODS
from growth.kube.api.transport import Request, TransportError
from growth.sim.apiserver.kinds import POD
from growth.sim.apiserver.objects import node, node_pool, pod
from growth.sim.apiserver.streams import Watch
from tests.sim.embedded import Bench, on_api_server


async def open_watch(bench: Bench, query: str) -> tuple[Watch, list[Any]]:
    """A watch whose events arrive in the list while others write."""
    response = await bench.api.send(Request("GET", f"/api/v1/pods?watch=true&{query}"))
    assert isinstance(response, Watch)
    heard: list[Any] = []

    async def read() -> None:
        async for chunk in response.chunks():
            heard.extend(msgspec.json.decode(line) for line in chunk.splitlines())

    _ = bench.runtime.spawn("watch", read())
    return response, heard


def told(heard: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in heard]


def test_a_list_comes_in_pages_of_one_moment() -> None:
    async def test(bench: Bench) -> None:
        for number in range(5):
            await bench.client.create(PODS, pod(f"p{number}"))
        first = await bench.api.send(Request("GET", "/api/v1/pods?limit=2"))
        page = msgspec.json.decode(b"".join([chunk async for chunk in first.chunks()]))
        await bench.client.delete(PODS, "p3", "default")
        names, token = [one["metadata"]["name"] for one in page["items"]], page["metadata"]["continue"]
        while token:
            answer = await bench.api.send(Request("GET", f"/api/v1/pods?limit=2&continue={token}"))
            following = msgspec.json.decode(b"".join([chunk async for chunk in answer.chunks()]))
            assert following["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
            names += [one["metadata"]["name"] for one in following["items"]]
            token = following["metadata"].get("continue", "")
        assert names == ["p0", "p1", "p2", "p3", "p4"]

    on_api_server(test)


def test_items_of_built_in_kinds_do_not_repeat_their_kind_and_those_of_custom_kinds_do() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(NODES, node("n"))
        await bench.client.create(NODE_POOLS, node_pool("default", "CX33"))
        (built_in,), _ = await bench.client.list(NODES)
        (custom,), _ = await bench.client.list(NODE_POOLS)
        assert "kind" not in msgspec.json.decode(built_in)
        assert msgspec.json.decode(custom)["kind"] == "NodePool"

    on_api_server(test)


def test_a_forgotten_continue_token_is_410_and_the_client_lists_again() -> None:
    async def test(bench: Bench) -> None:
        for number in range(4):
            await bench.client.create(PODS, pod(f"p{number}"))
        answer = await bench.api.send(Request("GET", "/api/v1/pods?limit=2"))
        token = msgspec.json.decode(b"".join([chunk async for chunk in answer.chunks()]))["metadata"]["continue"]
        bench.api.pages.forget_tokens()
        again = await bench.api.send(Request("GET", f"/api/v1/pods?limit=2&continue={token}"))
        assert again.status == 410
        items, _ = await bench.client.list(PODS)
        assert len(items) == 4

    on_api_server(test)


def test_labels_and_fields_choose_objects() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(PODS, pod("a", labels={"app": "web", "tier": "1"}))
        await bench.client.create(PODS, pod("b", labels={"app": "db"}))
        await bench.client.create(PODS, pod("c"))
        await bench.client.bind("b", "default", "node-1")

        async def names(labels: str = "", fields: str = "") -> str:
            items, _ = await bench.client.list(PODS, labels=labels, fields=fields)
            return "".join(msgspec.json.decode(item)["metadata"]["name"] for item in items)

        assert await names(labels="app=web") == "a"
        assert await names(labels="app in (web, db)") == "ab"
        assert await names(labels="app notin (web),!tier") == "bc"
        assert await names(labels="app") == "ab"
        assert await names(labels="app!=web") == "bc"
        assert await names(fields="spec.nodeName=node-1") == "b"
        assert await names(fields="spec.nodeName=,metadata.name!=c") == "a"
        with pytest.raises(BadRequest, match="field label not supported"):
            await names(fields="spec.nonsense=1")

    on_api_server(test)


def test_a_watch_tells_every_change_after_its_version() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(PODS, pod("a"))
        _, version = await bench.client.list(PODS)
        await bench.client.create(PODS, pod("b"))
        _watch, heard = await open_watch(bench, f"resourceVersion={version}")
        await bench.client.bind("a", "default", "n")
        await bench.client.delete(PODS, "b", "default")
        await asyncio.sleep(1)
        assert told(heard) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in heard]
        assert versions == sorted(set(versions))

    on_api_server(test)


def test_a_streamed_list_ends_with_its_bookmark() -> None:
    async def test(bench: Bench) -> None:
        for name in ("a", "b"):
            await bench.client.create(PODS, pod(name))
        _watch, heard = await open_watch(
            bench, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        )
        await asyncio.sleep(1)
        assert told(heard) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
        assert heard[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await asyncio.sleep(61)
        assert told(heard)[3:] == [("BOOKMARK", "")]

    on_api_server(test)


def test_an_object_that_enters_or_leaves_the_selection_is_added_or_deleted() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(PODS, pod("a"))
        _watch, heard = await open_watch(bench, "resourceVersion=0&fieldSelector=spec.nodeName%3D")
        await asyncio.sleep(1)
        await bench.client.bind("a", "default", "n")
        await bench.client.merge_patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}}, "default")
        await bench.client.create(PODS, pod("b"))
        await asyncio.sleep(1)
        assert told(heard) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]

    on_api_server(test)


def test_a_watch_from_before_the_compaction_gets_410() -> None:
    async def test(bench: Bench) -> None:
        _, version = await bench.client.list(PODS)
        for number in range(10):
            await bench.client.create(PODS, pod(f"p{number}"))
        bench.api.store.compact(POD, keep=3)
        _watch, heard = await open_watch(bench, f"resourceVersion={version}")
        await asyncio.sleep(1)
        assert [(event["type"], event["object"]["code"]) for event in heard] == [("ERROR", 410)]
        _other, later = await open_watch(bench, f"resourceVersion={bench.api.store.version - 3}")
        await asyncio.sleep(1)
        assert told(later) == [("ADDED", "p7"), ("ADDED", "p8"), ("ADDED", "p9")]

    on_api_server(test)


def test_the_history_is_bounded() -> None:
    async def test(bench: Bench) -> None:
        for number in range(30):
            await bench.client.create(PODS, pod(f"p{number}"))
        assert len(bench.api.store.shelf(POD).history) == 20
        _watch, heard = await open_watch(bench, "resourceVersion=1001")
        await asyncio.sleep(1)
        assert heard[0]["object"]["reason"] == "Expired"

    on_api_server(test, history_length=20)


def test_a_watch_ends_when_its_time_is_up_and_breaks_when_it_is_cut() -> None:
    async def test(bench: Bench) -> None:
        response = await bench.api.send(Request("GET", "/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=30"))
        assert [chunk async for chunk in response.chunks()] == []
        assert bench.runtime.monotonic() == pytest.approx(30)
        other = await bench.api.send(Request("GET", "/api/v1/pods?watch=true&resourceVersion=0"))
        assert isinstance(other, Watch)
        asyncio.get_running_loop().call_later(5, other.cut)
        with pytest.raises(TransportError):
            _ = [chunk async for chunk in other.chunks()]

    on_api_server(test)


def test_an_expired_list_is_typed() -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(Expired):
            await bench.client._read("/api/v1/pods?continue=nonsense")

    on_api_server(test)
