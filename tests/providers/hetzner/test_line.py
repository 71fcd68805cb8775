"""One request in a thread, over real sockets: a server that trickles does not hold the thread, what was given up or
fenced off before it was sent is never sent.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from growth.controllers.loop.runtime import SystemRuntime
from growth.providers.hetzner.api import HetznerApi
from growth.providers.hetzner.errors import Limited, NeverSent, NoAnswer
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import HetznerSettings
from growth.providers.hetzner.wire import OneServer

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"


@contextmanager
def trickling(first: bytes) -> Iterator[tuple[str, list[float]]]:
    """A server that sends `first`, and then a byte every 20 ms; and when connections of its clients ended."""
    ended: list[float] = []
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket) -> None:
        try:
            peer.recv(65536)
            peer.sendall(first)
            while not stop.is_set():
                peer.sendall(b" ")
                time.sleep(0.02)
        except OSError:
            ended.append(time.monotonic())
        finally:
            peer.close()

    def accept() -> None:
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", ended
    finally:
        stop.set()
        listener.close()


def api_at(endpoint: str, folder: Path, runtime: SystemRuntime, may_write: Callable[[], bool]) -> HetznerApi:
    (folder / "token").write_text("x" * 64)
    settings = HetznerSettings(token_file=str(folder / "token"), endpoint=endpoint, call_seconds=0.3)
    return HetznerApi(settings, runtime, may_write=may_write)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  (threads change it)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("first", [HEADERS, b"HTTP/1.1 200 OK\r\nX-Slow: "])
def test_a_server_that_sends_a_byte_now_and_then_holds_no_thread(first: bytes, tmp_path: Path) -> None:
    async def run() -> None:
        runtime = SystemRuntime()
        with trickling(first) as (endpoint, ended):
            api = api_at(endpoint, tmp_path, runtime, lambda: True)
            asked = [api.get("/servers/1", OneServer, Rank.LOOK) for _ in range(8)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            sent = [
                answer for answer in answers if not isinstance(answer, NeverSent)
            ]  # a busy machine has no thread yet
            assert sent
            assert all(isinstance(answer, NoAnswer | NeverSent) for answer in answers)
            await until(lambda: len(ended) >= len(sent))  # all threads are free again
            with pytest.raises((NoAnswer, NeverSent)):
                await api.get("/servers/1", OneServer, Rank.LOOK)
        runtime.close()

    asyncio.run(run())


@asynccontextmanager
async def without_a_free_thread(runtime: SystemRuntime) -> AsyncIterator[threading.Event]:
    """Until it is set, or left."""
    release = threading.Event()
    busy = [asyncio.ensure_future(runtime.in_thread(release.wait)) for _ in range(8)]
    await asyncio.sleep(0.05)
    try:
        yield release
    finally:
        release.set()
        await asyncio.gather(*busy)


def test_what_waits_for_a_thread_for_too_long_is_never_sent(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = SystemRuntime()
        with trickling(HEADERS) as (endpoint, _ended):
            api = api_at(endpoint, tmp_path, runtime, lambda: True)
            async with without_a_free_thread(runtime):
                with pytest.raises(NeverSent, match="all threads were busy"):
                    await api.delete("/servers/1", OneServer, Rank.DELETE)
        runtime.close()

    asyncio.run(run())


def test_the_fence_is_asked_in_the_thread_and_only_for_what_changes_something(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = SystemRuntime()
        with trickling(HEADERS) as (endpoint, _ended):
            api = api_at(endpoint, tmp_path, runtime, lambda: False)
            with pytest.raises(NeverSent, match="leadership is not certain"):
                await api.delete("/servers/1", OneServer, Rank.DELETE)
            with pytest.raises(NoAnswer):
                await api.get("/servers/1", OneServer, Rank.LOOK)
        runtime.close()

    asyncio.run(run())


def test_what_waits_for_a_thread_while_a_429_comes_is_not_sent(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = SystemRuntime()
        with trickling(HEADERS) as (endpoint, ended):
            api = api_at(endpoint, tmp_path, runtime, lambda: True)
            async with without_a_free_thread(runtime) as release:
                waiting = asyncio.ensure_future(api.get("/servers/1", OneServer, Rank.LOOK))
                await asyncio.sleep(0.05)
                api.quota.heard({}, is_refused=True)
                release.set()
                with pytest.raises(Limited, match="limit of requests is used up"):
                    await waiting
            assert ended == []
        runtime.close()

    asyncio.run(run())
