"""The fake Hetzner over HTTP on loopback, in real time, for the real client. Used by tests of the provider and of the
command line, and by tests against a real control plane."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from growth.sim.cloud.hetzner.api import FakeApi, FakeRequest, Lost

TICK_SECONDS: Final = 0.02


class _Quiet(ThreadingHTTPServer):
    """Clients that are gone are no error of the server."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class FakeServing:
    """A running fake. `lock` guards the project; `delay_seconds` holds each answer back."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.lock = threading.RLock()
        self.delay_seconds = 0.0
        self._server = _Quiet(("127.0.0.1", 0), _handler(self))
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True),
            threading.Thread(target=self._tick, daemon=True),
        ]

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> FakeServing:
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(5)

    def _tick(self) -> None:
        while not self._stopping.wait(TICK_SECONDS):
            with self.lock:
                self.api.project.advance()


@contextmanager
def serving(api: FakeApi) -> Iterator[FakeServing]:
    running = FakeServing(api).start()
    try:
        yield running
    finally:
        running.stop()


def _handler(owner: FakeServing) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            address = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            try:
                with owner.lock:
                    answer = owner.api.handle(
                        FakeRequest(
                            self.command, address.path.removeprefix("/v1"), parse_qs(address.query), token, body
                        )
                    )
            except Lost:
                self.close_connection = True
                return
            if owner.delay_seconds:
                time.sleep(owner.delay_seconds)
            content = json.dumps(answer.body).encode()
            self.send_response_only(answer.status)
            for name, value in {
                **answer.headers,
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client has gone

        do_GET = do_POST = do_DELETE = _respond  # noqa: N815  (the standard library's names)

        def log_message(self, *_: Any) -> None:
            """The fake keeps its own log."""

    return Handler
