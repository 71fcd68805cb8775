"""HTTP/1.1 on connections that are kept: one question at a time on each, its answer as it comes.

Used by `kube/api/http.py` alone, which knows the cluster and the credentials. Never repeats a question.

Kept by hand, because what growth asks is small and comes in thousands: a bind is some 400 bytes there and 400 back. The
general client that was here before (aiohttp's) needed 0.4 ms of CPU for it, this needs a fifth. Answers are parsed by
httptools (llhttp, the parser of Node.js); TLS is the event loop's.

| what happens | what follows |
| --- | --- |
| an answer has come to its end | its connection is kept for the next question, for half a minute |
| the server says that it closes, or has closed | the connection is not used again |
| the connection ends before the answer does | TransportError for who waits or reads: the effect is unknown |
| an answer is given up before its end | its connection is aborted |
| bytes that nobody asked for, or that are no HTTP | aborted, too |
| an answer comes faster than it is read | the connection is not read from until it is |"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, cast
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

from growth.kube.api.transport import TransportError
from growth.kube.redaction import redact

_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 30.0
_MOST_UNREAD_BYTES: Final = 256 << 10
_PORTS: Final = {"http": 80, "https": 443}


class Answer:
    """Status and headers once `has_begun` is done, the body as it comes."""

    def __init__(self, line: Line) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.has_begun = line.loop.create_future()
        self._line = line
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._is_whole = False
        self._error: TransportError | None = None
        self._news: asyncio.Future[None] | None = None  # somebody reads, and waits for more

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            if self._unread:
                yield self._taken()
            elif self._is_whole:
                return
            elif self._error is not None:
                raise self._error
            else:
                self._news = self._line.loop.create_future()
                await self._news

    async def close(self) -> None:
        if not self._is_whole:
            self._line.abort()

    def _taken(self) -> bytes:
        taken = self._unread.popleft() if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        if not self._is_whole:
            self._line.read_on()
        return taken

    # ---------------------------------------------------------------------------- told by its line

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        if not self.has_begun.done():
            self.has_begun.set_result(None)

    def add(self, piece: bytes) -> bool:
        """Whether there is room for more."""
        self._unread.append(piece)
        self._unread_bytes += len(piece)
        self._wake()
        return self._unread_bytes <= _MOST_UNREAD_BYTES

    def end(self) -> None:
        self._is_whole = True
        self._wake()

    def fail(self, why: str) -> None:
        if not self.has_begun.done():
            self.has_begun.set_exception(TransportError(f"the connection broke: {why}"))
        self._error = TransportError(f"the answer was cut off: {why}")
        self._wake()

    @property
    def ends_with_connection(self) -> bool:
        """It has begun, and does not say how long it is."""
        return self.status > 0 and not {"content-length", "transfer-encoding"} & self.headers.keys()

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)


class Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, is_free: Callable[[Line], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_open = False
        self.free_since = 0.0
        self._is_free = is_free
        self._is_paused = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._answer: Answer | None = None

    def ask(self, message: bytes) -> Answer:
        if self._answer is not None:
            raise AssertionError("a line carries one question at a time")
        self._answer = Answer(self)
        self.carrier.write(message)
        return self._answer

    def free(self) -> None:
        """For the next question."""
        self._is_free(self)

    def abort(self) -> None:
        """At once: a dead connection would never answer the closing message of TLS."""
        self.is_open = False
        self._fail("it was given up")
        if self._transport is not None:
            self._transport.abort()

    def read_on(self) -> None:
        if self._is_paused and self.is_open:
            self._is_paused = False
            self.carrier.resume_reading()

    @property
    def carrier(self) -> asyncio.Transport:
        if self._transport is None:
            raise AssertionError("a line is used when its connection is made")
        return self._transport

    # ------------------------------------------------------------------------- told by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"what came is no answer: {error}")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if exc is None and self._answer is not None and self._answer.ends_with_connection:
            self._end()
        else:
            self._fail(words(exc) if exc is not None else "the server hung up")
        self._is_free(self)

    # --------------------------------------------------------------------------- told by the parser

    def on_message_begin(self) -> None:
        if self._answer is None:
            raise ValueError("nobody asked")
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._answer is not None and status >= 200:  # below: the answer is still to come
            self._answer.begin(status, self._headers)

    def on_body(self, body: bytes) -> None:
        if self._answer is not None and not self._answer.add(body) and not self._is_paused:
            self._is_paused = True
            self.carrier.pause_reading()

    def on_message_complete(self) -> None:
        if self._answer is None or not self._answer.status:
            return
        if not self._parser.should_keep_alive():
            self.is_open = False
        self.read_on()
        self._end()
        self._is_free(self)

    def _end(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end()

    def _fail(self, why: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.fail(why)


class KeptLines:
    """The connections to one server, as one user. Direct, or through a proxy."""

    def __init__(self, server: str, context: ssl.SSLContext | None, tls_name: str = "", proxy: str = "") -> None:
        self._server, self._context, self._proxy = urlsplit(server), context, urlsplit(proxy) if proxy else None
        self._tls_name = tls_name or self._server.hostname
        self._free: deque[Line] = deque()  # the longest unused first
        self._used: set[Line] = set()
        self._is_retired = False
        self._sweeping: asyncio.TimerHandle | None = None

    async def take(self) -> Line:
        """One that is free, or a new one. Raises OSError (of TLS, too) and ValueError: there is none to be had."""
        line = self._kept()
        if line is None:
            async with asyncio.timeout(_CONNECT_SECONDS):
                line = await self._open()
        self._used.add(line)
        return line

    def _kept(self) -> Line | None:
        while self._free:
            line = self._free.pop()
            if line.is_open and line.loop.time() - line.free_since < _IDLE_SECONDS:
                return line
            line.abort()
        return None

    def give_back(self, line: Line) -> None:
        self._used.discard(line)
        if self._is_retired or not line.is_open:
            line.abort()
            return
        line.free_since = line.loop.time()
        self._free.append(line)
        if self._sweeping is None:
            self._sweeping = line.loop.call_later(_IDLE_SECONDS, self._sweep)

    def retire(self) -> None:
        """Questions under way come to their end; nothing is asked here any more."""
        self._is_retired = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        while self._free:
            self._free.pop().abort()

    def abort(self) -> None:
        self.retire()
        for line in self._used:
            line.abort()

    def _sweep(self) -> None:
        self._sweeping = None
        while self._free and (line := self._free[0]).loop.time() - line.free_since >= _IDLE_SECONDS:
            self._free.popleft().abort()
        if self._free:
            self._sweeping = self._free[0].loop.call_later(_IDLE_SECONDS, self._sweep)

    # --------------------------------------------------------------------------------------- opening

    async def _open(self) -> Line:
        if self._proxy is not None and self._context is not None:
            return await self._open_through(self._proxy, self._context)
        if self._proxy is not None:  # without TLS the proxy itself is asked
            return await _connected(self._proxy, self.give_back, _to_proxy(self._proxy))
        return await _connected(self._server, self.give_back, self._context, self._tls_name)

    async def _open_through(self, proxy: SplitResult, context: ssl.SSLContext) -> Line:
        """TLS is spoken with the server; the proxy carries it."""
        outer = await _connected(proxy, _nothing, _to_proxy(proxy))
        where = f"{_bracketed(self._server)}:{_port(self._server)}"
        rights = "".join(f"{name}: {value}\r\n" for name, value in proxy_headers(proxy).items())
        inner = Line(self.give_back)
        try:
            answer = outer.ask(f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{rights}\r\n".encode("ascii"))
            await answer.has_begun
            if answer.status != 200:
                raise ConnectionError(f"the proxy answered {answer.status}")
            carrier = await inner.loop.start_tls(outer.carrier, inner, context, server_hostname=self._tls_name)
            inner.connection_made(cast(asyncio.Transport, carrier))
        except TransportError as error:
            raise ConnectionError(f"the proxy: {error}") from error
        except BaseException:
            outer.abort()
            raise
        return inner


def _nothing(_: Line) -> None:
    """A line that only carries another one is never free."""


async def _connected(
    address: SplitResult, is_free: Callable[[Line], None], context: ssl.SSLContext | None, tls_name: str | None = None
) -> Line:
    name = (tls_name or address.hostname) if context is not None else None
    opened = asyncio.get_running_loop().create_connection(
        lambda: Line(is_free), address.hostname or "", _port(address), ssl=context, server_hostname=name
    )
    return (await opened)[1]


def _to_proxy(proxy: SplitResult) -> ssl.SSLContext | None:
    return ssl.create_default_context() if proxy.scheme == "https" else None


def _port(address: SplitResult) -> int:
    return address.port or _PORTS[address.scheme]


def proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """What a proxy is told that wants to know who asks."""
    return {"proxy-authorization": basic(proxy)} if proxy.username else {}


def basic(address: SplitResult) -> str:
    """The user and password that stand in an address."""
    known = f"{unquote(address.username or '')}:{unquote(address.password or '')}"
    return f"Basic {b64encode(known.encode()).decode()}"


def host_of(address: SplitResult) -> str:
    """As the Host header has it."""
    is_usual = address.port in (None, _PORTS.get(address.scheme))
    return _bracketed(address) if is_usual else f"{_bracketed(address)}:{address.port}"


def _bracketed(found: SplitResult) -> str:
    name = found.hostname or ""
    return f"[{name}]" if ":" in name else name


def words(error: BaseException) -> str:
    return redact(str(error) or type(error).__name__)
