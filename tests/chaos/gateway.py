"""What does growth do when the API server, or something before it, answers wrongly? A gateway that reads the HTTP it
passes on, and can be told to lie:

| told | then |
| --- | --- |
| `lie(Lie(...))` | a share of the requests gets that status; the server hears of them only if `after_effect` |
| `lie(Lie(..., cut_short=True))` | such answers break off in the middle of their body |
| `expire_watches()` | every open watch gets 410 in its stream, and ends |
| `tell_the_truth()` | all of that is over |

It ends TLS and begins it anew, so that clients must prove themselves by a token. Dead lines are the business of
`tests/e2e/controlplane/proxy.py`, which stands before it."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct

from tests.e2e.controlplane.proxy import LONGEST_LINE_BYTES, Loopback

READS = frozenset({"GET", "HEAD"})
PASSED_BYTES = 40  # of a body that is cut short


class Heard(Struct, frozen=True):
    """One request or answer, up to its body."""

    first_line: str
    fields: dict[str, str]
    raw: bytes

    @property
    def method(self) -> str:
        return self.first_line.split(" ")[0]

    @property
    def path(self) -> str:
        return self.first_line.split(" ")[1]

    @property
    def is_chunked(self) -> bool:
        return self.fields.get("transfer-encoding", "").lower() == "chunked"

    @property
    def is_watch(self) -> bool:
        return "watch=true" in self.path or "watch=1" in self.path


class Lie(Struct, frozen=True):
    """What is answered in place of the truth, to a share of the requests. Leases are left alone: who leads is a matter
    of other faults, and none of these would be seen otherwise.
    """

    status: int = 0
    reason: str = ""
    retry_after_seconds: int = 0
    share: float = 1.0
    writes_only: bool = False
    after_effect: bool = False
    cut_short: bool = False

    def is_about(self, request: Heard) -> bool:
        return "/leases/" not in request.path and not (self.writes_only and request.method in READS)

    def answer(self) -> bytes:
        body = json.dumps(status_object(self.status, self.reason)).encode()
        again = f"Retry-After: {self.retry_after_seconds}\r\n" if self.retry_after_seconds else ""
        head = f"HTTP/1.1 {self.status} {self.reason}\r\nContent-Type: application/json\r\n{again}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def status_object(code: int, reason: str) -> dict[str, object]:
    content = {"status": "Failure", "reason": reason, "code": code, "message": f"{reason}, says the gateway"}
    return {"apiVersion": "v1", "kind": "Status", "metadata": {}, **content}


class Gateway(Loopback):
    """Between clients and one API server."""

    def __init__(self, target_port: int, authority: Path, certificate: ssl.SSLContext, seed: str) -> None:
        super().__init__(certificate)
        self._target_port = target_port
        self._trusted = ssl.create_default_context(cafile=str(authority))
        self._chance = random.Random(f"{seed}/gateway")
        self._lie: Lie | None = None
        self._expiring: set[asyncio.Event] = set()  # one for each open watch
        self.lies_told = 0

    def lie(self, lie: Lie) -> None:
        self._lie = lie

    def tell_the_truth(self) -> None:
        self._lie = None

    def expire_watches(self) -> int:
        """Returns how many there were."""

        async def expire() -> int:
            for watch in self._expiring:
                watch.set()
            return len(self._expiring)

        return self._call(expire())

    # Steps

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while not client.is_closing():
                request = await _heard(client_reader)
                body = await client_reader.readexactly(int(request.fields.get("content-length", "0")))
                if server is None or server[0].at_eof():  # the server may have closed while nothing was asked
                    server = await asyncio.open_connection(
                        "127.0.0.1", self._target_port, ssl=self._trusted, limit=LONGEST_LINE_BYTES
                    )
                await self._answer(request, body, server, client)
        except (OSError, EOFError, ValueError):
            pass  # one side is gone, so the other goes too
        finally:
            client.transport.abort()
            if server is not None:
                server[1].transport.abort()

    async def _answer(
        self,
        request: Heard,
        body: bytes,
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        client: asyncio.StreamWriter,
    ) -> None:
        lie = self._drawn(request)
        if lie is not None and not lie.after_effect and not lie.cut_short:
            client.write(lie.answer())
            return await client.drain()
        server[1].write(request.raw + body)
        await server[1].drain()
        answer = await _heard(server[0])
        if request.is_watch and answer.is_chunked:
            return await self._pass_watch(answer, server[0], client)
        content = await _body(request, answer, server[0])
        if lie is None:
            client.write(answer.raw + content)
        elif lie.cut_short:
            client.write(answer.raw + content[:PASSED_BYTES])
        else:
            client.write(lie.answer())
        await client.drain()
        if lie is not None and lie.cut_short:
            client.close()
        return None

    def _drawn(self, request: Heard) -> Lie | None:
        lie = self._lie
        if lie is None or not lie.is_about(request) or self._chance.random() >= lie.share:
            return None
        if request.is_watch and (lie.after_effect or lie.cut_short):
            return None
        self.lies_told += 1
        return lie

    async def _pass_watch(
        self, answer: Heard, server_reader: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        """Chunk by chunk, until it ends or is told that it has expired."""
        client.write(answer.raw)
        expired = asyncio.Event()
        self._expiring.add(expired)
        waiting = asyncio.create_task(expired.wait())
        chunks = _chunks(server_reader)
        coming: asyncio.Future[bytes] | None = None
        try:
            is_whole = True  # after a line of the stream
            while True:
                coming = asyncio.ensure_future(anext(chunks, b""))
                done, _ = await asyncio.wait((coming, waiting), return_when=asyncio.FIRST_COMPLETED)
                if coming not in done and is_whole:
                    client.write(_as_chunk(json.dumps(EXPIRED).encode() + b"\n") + b"0\r\n\r\n")
                    self.lies_told += 1
                    break
                chunk = await coming
                client.write(chunk)
                await client.drain()
                if not chunk or chunk.startswith(b"0\r\n"):
                    break
                is_whole = chunk.endswith(b"\n\r\n")
            await client.drain()
            client.close()
            await client.wait_closed()
        finally:
            self._expiring.discard(expired)
            waiting.cancel()
            if coming is not None:
                coming.cancel()
                coming.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


EXPIRED = {"type": "ERROR", "object": status_object(410, "Expired")}


async def _heard(reader: asyncio.StreamReader) -> Heard:
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *lines = raw.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Heard(first, fields, raw)


async def _body(request: Heard, answer: Heard, reader: asyncio.StreamReader) -> bytes:
    """All of it, with the marks of its chunks where it comes in chunks."""
    code = answer.path  # the second word of an answer's first line
    if request.method == "HEAD" or code in ("204", "304"):
        return b""
    if answer.is_chunked:
        return b"".join([chunk async for chunk in _chunks(reader)])
    return await reader.readexactly(int(answer.fields.get("content-length", "0")))


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        size = await reader.readuntil(b"\r\n")
        count = int(size.split(b";")[0], 16)
        yield size + await reader.readexactly(count + 2)
        if not count:
            return


def _as_chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
