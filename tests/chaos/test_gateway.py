"""Does the gateway lie exactly as told? Rounds that blame growth for what was answered rely on it."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec import Struct

from tests.chaos.gateway import Gateway, Lie
from tests.e2e.controlplane.certificates import Authority

EVENT = b'{"type":"ADDED"}\n'


class Setup(Struct):
    gateway: Gateway
    trusted: ssl.SSLContext
    heard: list[str]
    open: list[http.client.HTTPSConnection] = []

    def ask(self, method: str, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection("127.0.0.1", self.gateway.port, context=self.trusted, timeout=5)
        self.open.append(connection)
        connection.request(method, path, body=b"{}" if method == "POST" else None)
        return connection.getresponse()


def handler(heard: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            heard.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_watch = "watch=true" in self.path
            self.send_response_only(200)
            self.send_header("Transfer-Encoding" if is_watch else "Content-Length", "chunked" if is_watch else "1000")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(EVENT), EVENT) if is_watch else b"x" * 1000)
            if is_watch:
                self.rfile.read(1)  # stay open until the client goes

        do_GET = do_POST = _respond  # noqa: N815  (the standard library's names)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return Handler


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    authority, heard = Authority(tmp_path), list[str]()
    pair = authority.issue_server("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(heard))
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    trusted = ssl.create_default_context(cafile=str(authority.certificate))
    with Gateway(server.server_address[1], authority.certificate, context, "test") as gateway:
        made = Setup(gateway, trusted, heard)
        yield made
        for connection in made.open:
            connection.close()
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_the_truth_passes_unchanged(setup: Setup) -> None:
    answer = setup.ask("GET", "/api/v1/pods")
    assert (answer.status, answer.read()) == (200, b"x" * 1000)


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_lie_is_told_before_or_after_the_server_has_heard(setup: Setup, after_effect: bool) -> None:
    setup.gateway.lie(Lie(429, "TooManyRequests", retry_after_seconds=3, after_effect=after_effect))
    answer = setup.ask("POST", "/api/v1/pods")
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert json.loads(answer.read())["reason"] == "TooManyRequests"
    assert setup.heard == (["POST /api/v1/pods"] if after_effect else [])
    setup.gateway.tell_the_truth()
    assert setup.ask("GET", "/api/v1/pods").status == 200


def test_leases_and_where_only_writes_are_hit_reads_hear_the_truth(setup: Setup) -> None:
    setup.gateway.lie(Lie(503, "ServiceUnavailable", writes_only=True))
    assert setup.ask("GET", "/api/v1/pods").status == 200
    assert setup.ask("POST", "/apis/coordination.k8s.io/v1/namespaces/a/leases/growth").status == 200
    assert setup.ask("POST", "/api/v1/pods").status == 503


def test_an_answer_is_cut_short(setup: Setup) -> None:
    setup.gateway.lie(Lie(cut_short=True))
    answer = setup.ask("GET", "/api/v1/pods")
    with pytest.raises(http.client.IncompleteRead):
        answer.read()


def test_an_open_watch_expires_in_its_stream(setup: Setup) -> None:
    answer = setup.ask("GET", "/api/v1/pods?watch=true")
    assert answer.readline() == EVENT
    assert setup.gateway.expire_watches() == 1
    assert json.loads(answer.readline())["object"]["code"] == 410
    assert answer.read() == b""
