"""Does the proxy misbehave exactly as told? Tests that blame a client for what the line did rely on it."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane.cluster import ControlPlane, KubectlError
from tests.e2e.controlplane.identities import MASTERS
from tests.e2e.controlplane.proxy import Proxy


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets."""

    def handle(self) -> None:
        while data := self._received():
            self.request.sendall(data)

    def _received(self) -> bytes:
        try:
            return bytes(self.request.recv(65536))
        except ConnectionResetError:
            return b""


@pytest.fixture
def line() -> Iterator[Proxy]:
    """A proxy before a server that echoes."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with Proxy(server.server_address[1]) as proxy:
            yield proxy
        server.shutdown()


def connect(line: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", line.port), timeout=5)


def ask(line: Proxy) -> bytes:
    with connect(line) as client:
        return client.recv(1)


def received(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := client.recv(65536)):
        data += more
    return data


def test_bytes_pass_both_ways(line: Proxy) -> None:
    with connect(line) as client:
        sent = bytes(range(256)) * 4096
        threading.Thread(target=client.sendall, args=(sent,)).start()
        assert received(client, len(sent)) == sent
        assert (line.connections, line.accepted) == (1, 1)


def test_the_end_of_one_side_reaches_the_other(line: Proxy) -> None:
    with connect(line) as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert received(client, 1000) == b"last words"


def test_a_cut_resets_what_is_open_and_lets_new_connections_in(line: Proxy) -> None:
    with connect(line) as client:
        client.sendall(b"x")
        assert received(client, 1) == b"x"
        assert line.cut() == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connect(line) as client:
        client.sendall(b"y")
        assert received(client, 1) == b"y"


def test_silence_holds_bytes_back_without_closing_and_gives_them_back_later(line: Proxy) -> None:
    with connect(line) as before:
        before.sendall(b"x")
        assert received(before, 1) == b"x"
        line.silence()
        with connect(line) as after:
            for client in (before, after):
                client.sendall(b"held")
                client.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    client.recv(1)
            line.forward()
            for client in (before, after):
                client.settimeout(5)
                assert received(client, 4) == b"held"


def test_a_silent_connection_can_be_cut(line: Proxy) -> None:
    with connect(line) as client:
        client.sendall(b"x")
        assert received(client, 1) == b"x"
        line.silence()
        client.sendall(b"held")
        line.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert line.connections == 0


def test_a_refusing_line_resets_new_connections_until_it_forwards_again(line: Proxy) -> None:
    line.refuse()
    with pytest.raises(ConnectionResetError):
        ask(line)
    line.forward()
    with connect(line) as client:
        client.sendall(b"x")
        assert received(client, 1) == b"x"


def test_an_answer_breaks_off_after_exactly_so_many_bytes_and_only_once(line: Proxy) -> None:
    line.cut_after(1000)
    with connect(line) as client:
        client.sendall(b"z" * 5000)
        assert received(client, 5000) == b"z" * 1000
    with connect(line) as client:
        client.sendall(b"z" * 5000)
        assert received(client, 5000) == b"z" * 5000


def test_a_delay_makes_bytes_late_and_not_few(line: Proxy) -> None:
    line.delay(0.2)
    with connect(line) as client:
        began_at = time.monotonic()
        sent = b"d" * 2_000_000
        threading.Thread(target=client.sendall, args=(sent,)).start()
        assert received(client, len(sent)) == sent
        assert 0.4 <= time.monotonic() - began_at < 3


def test_a_server_that_is_not_there_is_a_reset() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        with Proxy(taken.getsockname()[1]) as line, pytest.raises(ConnectionResetError):
            ask(line)


def test_kubectl_reaches_the_api_server_through_the_proxy_and_not_past_it(cluster: ControlPlane, proxy: Proxy) -> None:
    through = cluster.kubeconfig_for("admin", [MASTERS], server=proxy.url)
    assert "v1.36" in cluster.kubectl("get", "--raw", "/version", kubeconfig=through)
    proxy.refuse()
    with pytest.raises(KubectlError, match=r"reset|EOF"):
        cluster.kubectl("get", "--raw", "/version", kubeconfig=through)
