"""The real client over real HTTP: no call is ever repeated by itself, no call waits for ever, and what was never sent
is known to be so.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from growth.controllers.loop.runtime import SystemRuntime
from growth.model.outcome import Accepted, TryLater, Unknown
from growth.providers.hetzner.api import HetznerApi
from growth.providers.hetzner.errors import NeverSent
from growth.providers.hetzner.provider import HetznerProvider
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import HetznerSettings
from growth.providers.hetzner.wire import OneServer
from growth.sim.cloud.hetzner.api import FakeApi
from growth.sim.cloud.hetzner.project import FakePace, FakeTrouble, Project
from tests.fakes.hetzner.openapi import described
from tests.fakes.hetzner.server import FakeServing, serving
from tests.providers.hetzner.worlds import CLUSTER, TOKEN, order

QUICK = FakePace((0.05, 0.1), (0.05, 0.1), (0.05, 0.1))


def over_http(folder: Path, test: Callable[[FakeServing, HetznerProvider], Awaitable[None]], **settings: Any) -> None:
    api = FakeApi(Project(time.time, pace=QUICK), TOKEN)
    violations: list[str] = []
    description = described()
    if description is not None:
        api.look_on = lambda request, answer: violations.extend(description.violations(request, answer))
    (folder / "token").write_text(TOKEN)

    async def run() -> None:
        runtime = SystemRuntime()
        with serving(api) as fake:
            chosen = HetznerSettings(token_file=str(folder / "token"), endpoint=fake.endpoint, **settings)
            try:
                await test(fake, HetznerProvider(chosen, runtime))
            finally:
                runtime.close()

    asyncio.run(run())
    assert violations == []


async def wait_until_gone(fake: FakeServing) -> None:
    while fake.api.project.servers:  # noqa: ASYNC110  (another thread takes them away)
        await asyncio.sleep(0.02)


def test_a_server_is_bought_listed_and_given_back_over_http(tmp_path: Path) -> None:
    async def test(fake: FakeServing, provider: HetznerProvider) -> None:
        accepted = await provider.launch(order())
        assert isinstance(accepted, Accepted)
        [machine] = await provider.list(CLUSTER)
        assert machine.machine_id == accepted.machine_id
        assert isinstance(await provider.delete(machine.machine_id), Accepted)
        await wait_until_gone(fake)
        assert await provider.list(CLUSTER) == ()

    over_http(tmp_path, test)


def test_an_order_without_an_answer_in_time_is_sent_exactly_once(tmp_path: Path) -> None:
    async def test(fake: FakeServing, provider: HetznerProvider) -> None:
        await provider.launch(order("warm-up-1", "uid-0"))
        fake.delay_seconds = 1.0
        assert isinstance(await provider.launch(order()), Unknown)
        fake.delay_seconds = 0.0
        assert [one.method for one in fake.api.log].count("POST") == 2
        assert isinstance(await provider.launch(order()), Accepted)
        assert len(fake.api.project.servers) == 2

    over_http(tmp_path, test, call_seconds=0.4)


def test_a_connection_that_breaks_after_the_request_is_unknown(tmp_path: Path) -> None:
    async def test(fake: FakeServing, provider: HetznerProvider) -> None:
        await provider.launch(order("warm-up-1", "uid-0"))
        fake.api.project.trouble = FakeTrouble(lost_after_effect=1.0)
        posts = [one.method for one in fake.api.log].count("POST")
        assert isinstance(await provider.launch(order()), Unknown)
        assert [one.method for one in fake.api.log].count("POST") == posts + 1

    over_http(tmp_path, test)


def test_where_nobody_listens_it_is_known_that_nothing_was_sent(tmp_path: Path) -> None:
    async def test(fake: FakeServing, provider: HetznerProvider) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        chosen = HetznerSettings(token_file=str(tmp_path / "token"), endpoint=f"http://127.0.0.1:{port}/v1")
        api = HetznerApi(chosen, SystemRuntime())
        with pytest.raises(NeverSent, match="no connection"):
            await api.post("/servers", {}, OneServer, Rank.CREATE)
        assert isinstance(await HetznerProvider(chosen, SystemRuntime(), api).launch(order()), TryLater)

    over_http(tmp_path, test)
