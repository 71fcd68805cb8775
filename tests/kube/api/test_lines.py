"""Kept connections, against a server that says byte for byte what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api import lines as module
from growth.kube.api.http import HttpTransport
from growth.kube.api.lines import KeptLines, Line, host_of
from growth.kube.api.transport import NeverSent, Request, TransportError
from growth.kube.auth.credentials import Connection, Credential
from tests.kube.api.conftest import Play

FINE = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine"


class Server:
    """Answers the questions of each connection with these bytes, one after the other; None hangs up."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.heads: list[str] = []
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Its address; at the end those that are still served are hung up on."""
        server = await asyncio.start_server(self._serve_one, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self.serve(reader, writer))
        self._serving.add(task)
        try:
            await task
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the client aborts when it is done
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def talking(*answers: bytes | None, **more: str) -> AsyncIterator[tuple[HttpTransport, Server]]:
    served = Server(*answers)
    async with served.listening() as address, transport_to(address, **more) as transport:
        yield transport, served


class Token:
    def __init__(self, token: str = "") -> None:
        self._credential = Credential(token=token)

    async def current(self) -> Credential:
        return self._credential

    def refused(self, _: Credential) -> None:
        """It has no other."""


def transport_to(address: str, token: str = "", **more: str) -> HttpTransport:
    return HttpTransport(Connection(address, lambda: b"", Token(token), **more))


async def told(transport: HttpTransport, path: str = "/") -> tuple[int, bytes]:
    answer = await transport.send(Request("GET", path))
    return answer.status, b"".join([chunk async for chunk in answer.chunks()])


def test_one_connection_serves_one_question_after_the_other(play: Play) -> None:
    async def scene() -> None:
        async with talking(FINE, FINE, FINE) as (transport, server):
            for _ in range(3):
                assert await told(transport) == (200, b"fine")
            assert server.connections == 1

    play(scene())


def test_questions_at_once_have_a_connection_each(play: Play) -> None:
    async def scene() -> None:
        async with talking(*[FINE] * 8) as (transport, server):
            assert await asyncio.gather(*(told(transport) for _ in range(4))) == [(200, b"fine")] * 4
            assert server.connections == 4
            await told(transport)
            assert server.connections == 4

    play(scene())


@pytest.mark.parametrize(
    "last",
    [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfine", b"HTTP/1.0 200 OK\r\n\r\nfine"],
    ids=["as it says", "an old server's answer ends with its connection"],
)
def test_a_connection_that_the_server_closes_is_not_used_again(play: Play, last: bytes) -> None:
    async def scene() -> None:
        async with talking(last) as (transport, server):
            assert await told(transport) == (200, b"fine")
            server.answers = [FINE]
            assert await told(transport) == (200, b"fine")
            assert server.connections == 2

    play(scene())


def test_an_answer_may_come_byte_by_byte_behind_a_word_that_is_none(play: Play) -> None:
    whole = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + FINE

    class Dripping(Server):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            for byte in whole:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)

    async def scene() -> None:
        async with Dripping().listening() as address, transport_to(address) as transport:
            assert await told(transport) == (200, b"fine")

    play(scene())


@pytest.mark.parametrize("answer", [b"this is no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-le", None])
def test_what_is_no_answer_leaves_the_effect_unknown(play: Play, answer: bytes | None) -> None:
    async def scene() -> None:
        async with talking(answer) as (transport, _):
            with pytest.raises(TransportError, match="the connection broke") as caught:
                await told(transport)
            assert not isinstance(caught.value, NeverSent)

    play(scene())


def test_bytes_that_nobody_asked_for_end_the_connection(play: Play) -> None:
    async def scene() -> None:
        async with talking(FINE + FINE, FINE) as (transport, server):
            await transport.send(Request("GET", "/"))
            assert (await told(transport))[0] == 200
            assert server.connections == 2

    play(scene())


def test_a_large_answer_is_not_taken_in_faster_than_it_is_read(play: Play) -> None:
    large = b"x" * 8_000_000

    async def scene() -> None:
        async with talking(b"HTTP/1.1 200 OK\r\ncontent-length: 8000000\r\n\r\n" + large, FINE) as (transport, server):
            answer = await transport.send(Request("GET", "/"))
            await asyncio.sleep(0.2)
            assert answer._unread_bytes < 2_000_000
            assert b"".join([chunk async for chunk in answer.chunks()]) == large
            assert await told(transport) == (200, b"fine")
            assert server.connections == 1

    play(scene())


def test_an_answer_that_is_given_up_takes_its_connection_with_it(play: Play) -> None:
    async def scene() -> None:
        begun = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfine"
        async with talking(begun, FINE) as (transport, server):
            answer = await transport.send(Request("GET", "/"))
            await answer.close()
            server.answers = [FINE]
            assert await told(transport) == (200, b"fine")
            assert server.connections == 2

    play(scene())


def test_a_question_that_is_given_up_takes_its_connection_with_it(play: Play) -> None:
    async def scene() -> None:
        async with talking(b"", FINE) as (transport, server):
            with pytest.raises(TransportError, match="no answer within"):
                await transport.send(Request("GET", "/", timeout_seconds=0.1))
            server.answers = [FINE]
            assert await told(transport) == (200, b"fine")
            assert server.connections == 2

    play(scene())


def test_connections_that_nobody_uses_are_closed(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.1)

    async def scene() -> None:
        async with talking(FINE, FINE) as (transport, server):
            await told(transport)
            assert transport._lines is not None
            (kept,) = transport._lines._free
            await asyncio.sleep(0.4)
            assert not kept.is_open
            assert not transport._lines._free
            await told(transport)
            assert server.connections == 2

    play(scene())


def test_new_credentials_let_what_is_under_way_come_to_its_end(play: Play) -> None:
    async def scene() -> None:
        async with talking(FINE, FINE) as (transport, server):
            lines = transport._lines_for(Credential())
            line = await lines.take()
            lines.retire()
            answer = line.ask(b"GET / HTTP/1.1\r\n\r\n")
            assert b"".join([chunk async for chunk in answer.chunks()]) == b"fine"
            assert not line.is_open
            assert not lines._free
            assert server.connections == 1

    play(scene())


@pytest.mark.parametrize("token", ["t\r\nx-forged: yes", "t\nx", "t\u00fc"])
def test_a_token_that_would_be_read_as_something_else_is_never_sent(play: Play, token: str) -> None:
    async def scene() -> None:
        async with talking(FINE, token=token) as (transport, server):
            with pytest.raises(NeverSent) as caught:
                await told(transport)
            assert token not in str(caught.value)
            assert server.heads == []

    play(scene())


@given(st.text(min_size=1), st.dictionaries(st.text(min_size=1), st.text(), max_size=3))
def test_no_path_or_header_makes_a_second_line(path: str, headers: dict[str, str]) -> None:
    transport = transport_to("http://127.0.0.1:1")
    try:
        message = transport._message(Request("GET", path, headers), "")
    except NeverSent:
        return
    assert message.count(b"\r\n") == len({"host", "accept-encoding"} | headers.keys()) + 2
    assert message.split(b"\r\n")[0].count(b" ") == 2


def test_a_server_below_a_path_is_asked_there(play: Play) -> None:
    async def scene() -> None:
        async with talking(FINE) as (direct, server):
            address = f"{direct._connection.server}/k8s/clusters/c-1/"
            async with transport_to(address) as transport:
                await told(transport, "/api/v1/pods")
            assert server.heads[0].startswith("GET /k8s/clusters/c-1/api/v1/pods HTTP/1.1\r\n")

    play(scene())


def test_a_proxy_of_a_server_without_tls_is_asked_itself(play: Play) -> None:
    async def scene() -> None:
        async with talking(FINE) as (direct, proxy):
            behind = direct._connection.server.replace("http://", "http://who:knows@")
            async with transport_to("http://api.example:8080", proxy_url=behind) as transport:
                assert await told(transport, "/version") == (200, b"fine")
            assert proxy.heads[0].startswith("GET http://api.example:8080/version HTTP/1.1\r\nhost: api.example:8080")
            assert "proxy-authorization: Basic d2hvOmtub3dz" in proxy.heads[0]

    play(scene())


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://api.example", "api.example"),
        ("https://api.example:443", "api.example"),
        ("https://api.example:6443", "api.example:6443"),
        ("http://api.example:443", "api.example:443"),
        ("https://[::1]:6443", "[::1]:6443"),
        ("https://[::1]", "[::1]"),
    ],
)
def test_the_host_is_named_as_it_must_be(address: str, host: str) -> None:
    assert host_of(urlsplit(address)) == host


def test_a_line_carries_one_question_at_a_time(play: Play) -> None:
    async def scene() -> None:
        async with talking(b"") as (transport, _):
            line: Line = await KeptLines(transport._connection.server, None).take()
            line.ask(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(AssertionError, match="one question at a time"):
                line.ask(b"GET / HTTP/1.1\r\n\r\n")
            line.abort()

    play(scene())
