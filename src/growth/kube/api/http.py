"""Carries bytes to a real API server over HTTP/1.1 and TLS. The embedded cluster has a transport of its own.

TLS is always verified, by the cluster's authority or the system's. Never repeats a request by itself, save once after a
401 with new credentials: a request that was answered 401 was not acted on."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
from yarl import URL

from growth.kube.api.transport import NeverSent, Request, TransportError, Withheld
from growth.kube.auth.credentials import ConfigError, Connection, Credential
from growth.kube.redaction import SECRETS, redact

_CONNECT_SECONDS = 10.0
_READ_BUFFER_BYTES = 256 << 10
_TOKENS_KEPT = 4


class HttpResponse:
    """An answer whose body is still on its way."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"the answer was cut off: {_words(error)}") from error

    async def close(self) -> None:
        connection = self._response.connection  # gone, and back in the pool, once all was read
        if connection is not None and connection.transport is not None:
            connection.transport.abort()  # a dead connection would never answer the closing message of TLS
        self._response.close()


class HttpTransport:
    """A pool of connections to one API server, as one user."""

    def __init__(self, connection: Connection) -> None:
        SECRETS.add_url(connection.proxy_url)
        self._connection = connection
        self._server = redact(connection.server)  # for messages
        self._session: aiohttp.ClientSession | None = None
        self._presented: tuple[bytes, bytes] = (b"", b"")  # the client certificate and key the session was opened with
        self._tokens: deque[str] = deque()  # the latest that were presented

    async def __aenter__(self) -> HttpTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, request: Request) -> HttpResponse:
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

    async def _send(self, request: Request, credential: Credential) -> HttpResponse:
        # no compression: it costs both sides more than the network saves
        headers = {"accept-encoding": "identity", **request.headers}
        if credential.token:
            self._keep_secret(credential.token)
            headers["authorization"] = f"Bearer {credential.token}"
        session = await self._session_for(credential)
        if request.may_leave is not None and not request.may_leave():
            raise Withheld("leadership is not certain")
        try:
            async with asyncio.timeout(request.timeout_seconds):
                response = await session.request(
                    request.method,
                    URL(self._connection.server + request.path, encoded=True),
                    headers=headers,
                    data=request.body or None,
                    allow_redirects=False,
                    server_hostname=self._connection.tls_server_name or None,
                    proxy=self._connection.proxy_url or None,
                )
        except aiohttp.ClientConnectorCertificateError as error:
            await self.close()  # the authority may have been renewed: read it again next time
            raise NeverSent(f"the certificate of {self._server} is not trusted: {_words(error)}") from error
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.ClientHttpProxyError,
            ValueError,  # an address that cannot be asked so, as one with a user part beside a token
        ) as error:
            raise NeverSent(f"no connection to {self._server}: {_words(error)}") from error
        except TimeoutError as error:
            raise TransportError(f"no answer within {request.timeout_seconds} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"the connection broke: {_words(error)}") from error
        return HttpResponse(response)

    def _keep_secret(self, token: str) -> None:
        """A late answer may quote a token that was renewed meanwhile, but not one of yesterday."""
        if token in self._tokens:
            return
        self._tokens.append(token)
        if len(self._tokens) > _TOKENS_KEPT:
            SECRETS.forget_token(self._tokens.popleft())
        for known in self._tokens:
            SECRETS.add_long_token(known)

    async def _session_for(self, credential: Credential) -> aiohttp.ClientSession:
        presented = (credential.certificate, credential.key)
        if self._session is None or presented != self._presented:
            await self.close()
            try:
                self._session = _open_session(tls_context(self._connection.authority(), *presented))
            except (ConfigError, OSError) as error:
                raise NeverSent(f"cannot set up TLS for {self._server}: {_words(error)}") from error
            self._presented = presented
        return self._session


def _open_session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=30.0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER_BYTES,
        trust_env=False,
    )
    session._retry_connection = False  # aiohttp would send a PUT or DELETE twice when a kept connection breaks
    return session


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


def _words(error: BaseException) -> str:
    return redact(str(error) or type(error).__name__)
