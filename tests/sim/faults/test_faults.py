"""The faulty network does what its table says: what the server acts on, and what growth hears."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from growth.kube.api.client import Client
from growth.kube.api.errors import (
    Conflict,
    EffectUnknown,
    KubeError,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import PODS
from growth.kube.api.transport import Request, TransportError
from growth.kube.watch.reflector import Reflector
from growth.sim.apiserver.kinds import POD
from growth.sim.apiserver.objects import pod
from growth.sim.apiserver.server import ApiServer
from growth.sim.clock import SimRuntime, run_virtual
from growth.sim.faults.network import ApiTrouble, FaultyTransport

ONCE = ClientSettings(attempts=1)


class Shop:
    def __init__(self, **trouble: float) -> None:
        self.runtime = SimRuntime("test")
        self.api = ApiServer(self.runtime, "test")
        self.trouble = ApiTrouble(**trouble)
        self.network = FaultyTransport(self.api, self.runtime, self.trouble, "test")
        self.client = Client(self.network, self.runtime, ONCE)

    def names(self) -> list[str]:
        return [stored.name for stored in self.api.store.all(POD)]


def with_trouble(test: Callable[[Shop], Awaitable[None]], **trouble: float) -> None:
    async def run() -> None:
        await test(Shop(**trouble))

    run_virtual(run())


@pytest.mark.parametrize(
    ("trouble", "error", "acted"),
    [
        ("throttled", TooManyRequests, False),
        ("unauthorized", Unauthorized, False),
        ("error_before", EffectUnknown, False),
        ("error_after", EffectUnknown, True),
        ("lost_before", EffectUnknown, False),
        ("lost_after", EffectUnknown, True),
        ("hung_before", EffectUnknown, False),
        ("hung_after", EffectUnknown, True),
        ("torn_answer", EffectUnknown, True),
    ],
)
def test_a_write_is_or_is_not_performed_and_the_client_cannot_always_tell(
    trouble: str, error: type[KubeError], acted: bool
) -> None:
    async def test(shop: Shop) -> None:
        with pytest.raises(error):
            await shop.client.create(PODS, pod("a"))
        assert shop.names() == (["a"] if acted else [])

    with_trouble(test, **{trouble: 1.0})


def test_a_conflict_is_told_without_an_effect() -> None:
    async def test(shop: Shop) -> None:
        await shop.client.create(PODS, pod("a"))
        with pytest.raises(Conflict):
            await shop.client.merge_patch(PODS, "a", {"metadata": {"labels": {"surprise": "yes"}}}, "default")
        assert "surprise" not in str(shop.api.store.get(POD, "a", "default"))

    with_trouble(test, conflict=1.0)


@pytest.mark.parametrize("trouble", ["lost_before", "lost_after", "hung_before", "hung_after", "torn_answer"])
def test_a_read_that_gets_no_answer_is_unreachable(trouble: str) -> None:
    async def test(shop: Shop) -> None:
        with pytest.raises(Unreachable):
            await shop.client.list(PODS)

    with_trouble(test, **{trouble: 1.0})


def test_a_server_that_is_down_is_never_reached_and_comes_back() -> None:
    async def test(shop: Shop) -> None:
        with pytest.raises(Unreachable):
            await shop.client.create(PODS, pod("a"))
        await shop.runtime.sleep(60)
        await shop.client.create(PODS, pod("a"))

    with_trouble(test, down_until=60.0)


def test_errors_of_reads_are_typed() -> None:
    async def test(shop: Shop) -> None:
        with pytest.raises((ServerError, Unauthorized)):
            await shop.client.list(PODS)

    with_trouble(test, error_before=1.0)


class Heard:
    """A sink that remembers the names it holds."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self._listed: dict[str, str] = {}

    def relisting(self) -> None:
        self._listed = {}

    def listed(self, objects: Any) -> None:
        for item in objects:
            metadata = msgspec.json.decode(item)["metadata"]
            self._listed[metadata["name"]] = metadata["resourceVersion"]

    def relisted(self, version: str) -> None:
        self.held = dict(self._listed)

    def changed(self, change: Any, item: Any) -> None:
        metadata = msgspec.json.decode(item)["metadata"]
        if change == "DELETED":
            self.held.pop(metadata["name"], None)
            self._listed.pop(metadata["name"], None)
        else:
            self.held[metadata["name"]] = metadata["resourceVersion"]

    def bookmarked(self, version: str) -> None: ...


@pytest.mark.parametrize(
    "fate",
    ["watch_silent", "watch_closed", "watch_cut", "watch_torn", "watch_expired", "watch_repeated", "watch_lag_seconds"],
)
def test_a_cache_is_right_again_however_its_watch_fails(fate: str) -> None:
    async def test(shop: Shop) -> None:
        sink = Heard()
        reflector = Reflector(shop.client, shop.runtime, PODS, sink)
        _ = shop.runtime.spawn("watch", reflector.run())
        for number in range(40):
            await asyncio.sleep(7)
            await Client(shop.api, shop.runtime).create(PODS, pod(f"p{number}"))
            if number > 5:
                await Client(shop.api, shop.runtime).delete(PODS, f"p{number - 5}", "default")
        await asyncio.sleep(200)
        expected = {stored.name: str(stored.version) for stored in shop.api.store.all(POD)}
        assert sink.held == expected
        assert shop.runtime.failures == []

    with_trouble(test, **{fate: 1.0 if fate != "watch_lag_seconds" else 5.0})


def test_without_trouble_nothing_is_lost() -> None:
    async def test(shop: Shop) -> None:
        for number in range(20):
            await shop.client.create(PODS, pod(f"p{number}"))
        items, _ = await shop.client.list(PODS)
        assert len(items) == 20
        shop.trouble.lost_before = 1.0
        with pytest.raises(TransportError):
            await shop.network.send(Request("GET", "/api/v1/pods"))

    with_trouble(test)
