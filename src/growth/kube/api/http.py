"""Carries bytes to a real API server over HTTP/1.1 and TLS. The embedded cluster has a transport of its own.

TLS is always verified, by the cluster's authority or the system's. Never repeats a request by itself, save once after a
401 with new credentials: a request that was answered 401 was not acted on."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections import deque
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from growth.kube.api.lines import Answer, KeptLines, Line, basic, host_of, proxy_headers, words
from growth.kube.api.transport import NeverSent, Request, TransportError, Withheld
from growth.kube.auth.credentials import ConfigError, Connection, Credential
from growth.kube.redaction import SECRETS, redact

_TOKENS_KEPT: Final = 4
_WITH_BODY: Final = ("POST", "PUT", "PATCH")  # also where it is empty


class HttpTransport:
    """Connections to one API server, as one user."""

    def __init__(self, connection: Connection) -> None:
        SECRETS.add_url(connection.proxy_url)
        self._connection = connection
        self._server = redact(connection.server)  # for messages
        self._lines: KeptLines | None = None
        self._presented: tuple[bytes, bytes] = (b"", b"")  # the client certificate and key those were opened with
        self._tokens: deque[str] = deque()  # the latest that were presented
        self._prefix, self._headers = _address(connection)

    async def __aenter__(self) -> HttpTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.abort()

    async def send(self, request: Request) -> Answer:
        credential = await self._credential()
        response = await self._send(request, credential)
        if response.status != 401:
            return response
        self._connection.credentials.refused(credential)
        renewed = await self._credential()
        if renewed == credential:
            return response
        await response.close()
        return await self._send(request, renewed)

    async def _credential(self) -> Credential:
        try:
            return await self._connection.credentials.current()
        except ConfigError as error:
            raise NeverSent(str(error)) from error

    async def _send(self, request: Request, credential: Credential) -> Answer:
        message, line = self._message(request, credential.token), None
        try:
            async with asyncio.timeout(request.timeout_seconds):
                line = await self._line(credential)
                if request.may_leave is not None and not request.may_leave():
                    line.free()
                    raise Withheld("leadership is not certain")
                return await _begun(line.ask(message))
        except TimeoutError as error:
            lost = NeverSent if line is None else TransportError
            raise lost(f"no answer within {request.timeout_seconds} s") from error

    async def _line(self, credential: Credential) -> Line:
        lines = self._lines_for(credential)
        try:
            return await lines.take()
        except ssl.SSLCertVerificationError as error:
            self._turn_away()  # the authority may have been renewed: read it again next time
            raise NeverSent(f"the certificate of {self._server} is not trusted: {words(error)}") from error
        except (OSError, ValueError) as error:  # ValueError: a name that no host can have
            raise NeverSent(f"no connection to {self._server}: {words(error)}") from error

    def _message(self, request: Request, token: str) -> bytes:
        """As it goes over the line. What would be read as something else there is not sent."""
        headers = {**self._headers, **request.headers}
        if token:
            self._keep_secret(token)
            headers["authorization"] = f"Bearer {token}"
        if request.body or request.method in _WITH_BODY:
            headers["content-length"] = str(len(request.body))
        told = [f"{request.method} {self._prefix}{request.path} HTTP/1.1", *map(": ".join, headers.items()), "", ""]
        head = "\r\n".join(told)
        if head.count("\r") + head.count("\n") != 2 * len(told) - 2 or told[0].count(" ") != 2 or not head.isascii():
            raise NeverSent(f"no connection to {self._server}: what a header or the address says cannot be sent")
        return head.encode() + request.body

    def _keep_secret(self, token: str) -> None:
        """A late answer may quote a token that was renewed meanwhile, but not one of yesterday."""
        if token in self._tokens:
            return
        self._tokens.append(token)
        if len(self._tokens) > _TOKENS_KEPT:
            SECRETS.forget_token(self._tokens.popleft())
        for known in self._tokens:
            SECRETS.add_long_token(known)

    def _lines_for(self, credential: Credential) -> KeptLines:
        presented = (credential.certificate, credential.key)
        if self._lines is None or presented != self._presented:
            self._turn_away()
            self._lines, self._presented = self._new_lines(presented), presented
        return self._lines

    def _new_lines(self, presented: tuple[bytes, bytes]) -> KeptLines:
        connection = self._connection
        try:
            is_secure = urlsplit(connection.server).scheme == "https"
            context = tls_context(connection.authority(), *presented) if is_secure else None
        except (ConfigError, OSError) as error:
            raise NeverSent(f"cannot set up TLS for {self._server}: {words(error)}") from error
        return KeptLines(connection.server, context, connection.tls_server_name, connection.proxy_url)

    def _turn_away(self) -> None:
        """From the connections there are: what is under way comes to its end."""
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.retire()


async def _begun(answer: Answer) -> Answer:
    try:
        await answer.has_begun
    except asyncio.CancelledError:
        await answer.close()
        raise
    return answer


def tls_context(authority: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Verify the server by `authority` (PEM; empty: the system's); present the client certificate if there is one."""
    context = ssl.create_default_context(cadata=authority.decode("ascii", errors="ignore") if authority else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 sets this flag; authorities made by older kubeadm lack an extension it wants
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate:
        with tempfile.TemporaryDirectory(prefix="growth-") as directory:  # ssl reads a private key from files only
            pair = (Path(directory, "certificate"), Path(directory, "key"))
            for path, content in zip(pair, (certificate, key), strict=True):
                path.touch(mode=0o600)
                path.write_bytes(content)
            context.load_cert_chain(*pair)
    return context


def _address(connection: Connection) -> tuple[str, dict[str, str]]:
    """What stands before every path, and the headers of every request."""
    server = urlsplit(connection.server)
    headers = {"host": host_of(server), "accept-encoding": "identity"}  # compressing costs more than the network saves
    if server.username:
        headers["authorization"] = basic(server)
    is_asked_through_proxy = connection.proxy_url and server.scheme == "http"
    if not is_asked_through_proxy:
        return server.path.rstrip("/"), headers
    return f"http://{headers['host']}{server.path.rstrip('/')}", headers | proxy_headers(urlsplit(connection.proxy_url))
