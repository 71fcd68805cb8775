"""The HTTP transport against a small server on loopback, with and without TLS."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from growth.kube.api.http import HttpTransport
from growth.kube.api.transport import NeverSent, Request, TransportError, Withheld
from growth.kube.auth.credentials import Connection, Credential
from growth.kube.redaction import redact
from tests.kube.api.conftest import Play
from tests.kube.certificates import Pair, authority, signed

CANARY = "c4n4ry-of-the-proxy"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Identity:
    """Credentials that change when refused."""

    def __init__(self, *credentials: Credential) -> None:
        self._credentials = list(credentials) or [Credential()]
        self.refusals = 0

    async def current(self) -> Credential:
        return self._credentials[0]

    def refused(self, credential: Credential) -> None:
        self.refusals += 1
        if len(self._credentials) > 1 and credential == self._credentials[0]:
            self._credentials.pop(0)


class Known:
    """Made once: signing in pure Python takes a moment."""

    trusted = authority()
    server = signed(trusted, "server", "localhost", "127.0.0.1")
    elsewhere = signed(trusted, "server", "api.example")
    client = signed(trusted, "client")
    stranger = authority("stranger")


@asynccontextmanager
async def serving(
    handler: Handler, server: Pair | None = None, folder: Path | None = None, clients: Pair | None = None
) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(
        runner, "127.0.0.1", 0, ssl_context=_server_context(server, folder, clients) if server and folder else None
    )
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if server else 'http'}://localhost:{port}"
    finally:
        await runner.cleanup()


def _server_context(server: Pair, folder: Path, clients: Pair | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "certificate").write_bytes(server.certificate)
    (folder / "key").write_bytes(server.key)
    context.load_cert_chain(folder / "certificate", folder / "key")
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.certificate.decode())
    return context


def transport_to(
    address: str, identity: Identity | None = None, trusted: Pair | None = None, **more: str
) -> HttpTransport:
    return HttpTransport(
        Connection(address, lambda: trusted.certificate if trusted else b"", identity or Identity(), **more)
    )


async def body_of(transport: HttpTransport, request: Request) -> tuple[int, bytes]:
    response = await transport.send(request)
    try:
        return response.status, b"".join([chunk async for chunk in response.chunks()])
    finally:
        await response.close()


async def echo(request: web.Request) -> web.Response:
    peer = request.get_extra_info("peercert")
    body = await request.read()
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "body": body.decode(),
            "token": request.headers.get("authorization", ""),
            "type": request.headers.get("content-type", ""),
            "peer": peer["subject"][0][0][1] if peer else "",
        },
        headers={"Retry-After": "3"},
    )


def test_a_request_arrives_as_it_was_written(play: Play) -> None:
    async def scene() -> None:
        async with serving(echo) as address, transport_to(address, Identity(Credential(token="t0"))) as transport:
            request = Request(
                "PATCH", "/api/v1/nodes/a%2Fb?force=true&x=%2C", {"content-type": "application/merge-patch+json"}, b"{}"
            )
            response = await transport.send(request)
            said = b"".join([chunk async for chunk in response.chunks()])
            assert response.headers["retry-after"] == "3"
            assert b'"path": "/api/v1/nodes/a%2Fb?force=true&x=%2C"' in said
            assert b'"token": "Bearer t0"' in said
            assert b'"type": "application/merge-patch+json"' in said

    play(scene())


def test_the_server_and_the_client_show_their_certificates(tmp_path: Path, play: Play) -> None:
    async def scene() -> None:
        known = Known
        identity = Identity(Credential(certificate=known.client.certificate, key=known.client.key))
        async with (
            serving(echo, known.server, tmp_path, clients=known.trusted) as address,
            transport_to(address, identity, known.trusted) as transport,
        ):
            status, body = await body_of(transport, Request("GET", "/version"))
            assert (status, b'"peer": "client"' in body) == (200, True)

    play(scene())


@pytest.mark.parametrize("case", ["stranger", "system", "wrong name"])
def test_a_server_that_cannot_be_verified_is_never_spoken_to(tmp_path: Path, case: str, play: Play) -> None:
    async def scene() -> None:
        known = Known
        server = known.elsewhere if case == "wrong name" else known.server
        trusted = {"stranger": known.stranger, "system": None, "wrong name": known.trusted}[case]
        async with (
            serving(echo, server, tmp_path) as address,
            transport_to(address, Identity(Credential(token="secret")), trusted) as transport,
        ):
            with pytest.raises(NeverSent, match="is not trusted"):
                await transport.send(Request("GET", "/version"))

    play(scene())


def test_a_renewed_authority_is_read_after_a_failure(tmp_path: Path, play: Play) -> None:
    async def scene() -> None:
        authorities = [Known.stranger, Known.trusted]
        async with (
            serving(echo, Known.server, tmp_path) as address,
            HttpTransport(Connection(address, lambda: authorities.pop(0).certificate, Identity())) as transport,
        ):
            with pytest.raises(NeverSent):
                await transport.send(Request("GET", "/"))
            assert (await body_of(transport, Request("GET", "/")))[0] == 200

    play(scene())


def test_the_name_in_the_servers_certificate_may_be_given(tmp_path: Path, play: Play) -> None:
    async def scene() -> None:
        known = Known
        async with (
            serving(echo, known.elsewhere, tmp_path) as address,
            transport_to(address, trusted=known.trusted, tls_server_name="api.example") as transport,
        ):
            assert (await body_of(transport, Request("GET", "/version")))[0] == 200

    play(scene())


@asynccontextmanager
async def proxying(answer: bytes) -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that answers CONNECT and, if that was a yes, passes bytes both ways."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode())
        writer.write(answer)
        if b"200" in answer:
            host, port = asked[-1].split()[1].rsplit(":", 1)
            onward = await asyncio.open_connection(host, int(port))
            await asyncio.gather(_pass_on(reader, onward[1]), _pass_on(onward[0], writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
    except ConnectionError:
        pass  # the client aborts when it is done
    writer.close()


def test_a_proxy_carries_tls_that_is_verified_end_to_end(tmp_path: Path, play: Play) -> None:
    async def scene() -> None:
        async with (
            serving(echo, Known.server, tmp_path) as address,
            proxying(b"HTTP/1.1 200 OK\r\n\r\n") as (proxy, asked),
            transport_to(address, trusted=Known.trusted, proxy_url=proxy) as transport,
        ):
            assert (await body_of(transport, Request("GET", "/version")))[0] == 200
            assert asked == [f"CONNECT {address.removeprefix('https://')} HTTP/1.1"]

    play(scene())


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", b"nonsense\r\n\r\n"])
def test_the_password_of_a_proxy_stands_in_no_error(answer: bytes, play: Play) -> None:
    async def ask() -> BaseException:
        async with proxying(answer) as (proxy, _):
            with_password = proxy.replace("http://", f"http://canary:{CANARY}@")
            async with transport_to("https://api.example", proxy_url=with_password) as transport:
                with pytest.raises(TransportError) as failure:
                    await transport.send(Request("GET", "/version"))
        return failure.value

    error = play(ask())
    encoded = base64.b64encode(f"canary:{CANARY}".encode()).decode()
    shown = redact("".join(traceback.format_exception(error)))
    for text in (str(error), shown):
        assert CANARY not in text
        assert "canary:" not in text
        assert encoded not in text


def test_a_proxy_that_refuses_means_never_sent(play: Play) -> None:
    async def scene() -> None:
        async with (
            proxying(b"HTTP/1.1 403 Forbidden\r\n\r\n") as (proxy, _),
            transport_to("https://api.example", proxy_url=proxy) as transport,
        ):
            with pytest.raises(NeverSent):
                await transport.send(Request("DELETE", "/"))

    play(scene())


def test_after_a_401_new_credentials_are_tried_once(play: Play) -> None:
    seen: list[str] = []

    async def strict(request: web.Request) -> web.Response:
        seen.append(request.headers["authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401)

    async def scene() -> None:
        async with (
            serving(strict) as address,
            transport_to(address, Identity(Credential("old"), Credential("new"))) as transport,
        ):
            assert (await transport.send(Request("POST", "/"))).status == 200
            assert seen == ["Bearer old", "Bearer new"]

    play(scene())


def test_after_a_401_a_write_is_repeated_only_if_it_may_still_leave(play: Play) -> None:
    seen: list[str] = []

    async def strict(request: web.Request) -> web.Response:
        seen.append(request.headers["authorization"])
        return web.Response(status=401)

    async def scene() -> None:
        async with (
            serving(strict) as address,
            transport_to(address, Identity(Credential("old"), Credential("new"))) as transport,
        ):
            with pytest.raises(Withheld):
                await transport.send(Request("POST", "/", may_leave=lambda: not seen))
            assert seen == ["Bearer old"]

    play(scene())


def test_a_401_that_credentials_cannot_cure_is_handed_on(play: Play) -> None:
    seen: list[str] = []

    async def unauthorized(request: web.Request) -> web.Response:
        seen.append(request.method)
        return web.Response(status=401, text="no")

    async def scene() -> None:
        identity = Identity(Credential("old"))
        async with serving(unauthorized) as address, transport_to(address, identity) as transport:
            assert (await body_of(transport, Request("GET", "/"))) == (401, b"no")
            assert (identity.refusals, seen) == (1, ["GET"])

    play(scene())


def test_nothing_listening_means_never_sent(play: Play) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]

        async def scene() -> None:
            async with transport_to(f"http://127.0.0.1:{port}") as transport:
                with pytest.raises(NeverSent, match="no connection"):
                    await transport.send(Request("DELETE", "/"))

        play(scene())


def test_a_server_that_hangs_up_leaves_the_effect_unknown_and_is_not_asked_twice(play: Play) -> None:
    seen: list[str] = []

    async def rude(request: web.Request) -> web.Response:
        seen.append(request.method)
        if len(seen) == 1:
            return web.Response(text="fine")
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def scene() -> None:
        async with serving(rude) as address, transport_to(address) as transport:
            await body_of(transport, Request("GET", "/"))  # so that the next goes over a kept connection
            with pytest.raises(TransportError) as caught:
                await transport.send(Request("PUT", "/"))
            assert not isinstance(caught.value, NeverSent)
            assert seen == ["GET", "PUT"]

    play(scene())


def test_no_headers_in_time_is_a_lost_answer(play: Play) -> None:
    async def slow(_request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async def scene() -> None:
        async with serving(slow) as address, transport_to(address) as transport:
            with pytest.raises(TransportError, match=r"no answer within 0\.2 s"):
                await transport.send(Request("GET", "/", timeout_seconds=0.2))

    play(scene())


def test_a_stream_comes_in_pieces_without_a_limit_on_lines_and_a_cut_is_noticed(play: Play) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"x" * 2_000_000)
        assert request.transport is not None
        request.transport.close()
        return response

    async def scene() -> None:
        async with serving(stream) as address, transport_to(address) as transport:
            response = await transport.send(Request("GET", "/"))
            received = 0

            async def read() -> None:
                nonlocal received
                async for chunk in response.chunks():
                    received += len(chunk)

            with pytest.raises(TransportError, match="cut off"):
                await read()
            assert received > 600_000
            await response.close()

    play(scene())


def test_redirects_are_not_followed(play: Play) -> None:
    async def elsewhere(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"location": "http://127.0.0.1:1/"})

    async def scene() -> None:
        async with serving(elsewhere) as address, transport_to(address) as transport:
            assert (await transport.send(Request("GET", "/"))).status == 302

    play(scene())
