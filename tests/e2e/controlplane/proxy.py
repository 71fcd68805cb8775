"""What does a client do when the network before a server misbehaves? Asked by tests of the watch client and of `growth
run`.

A proxy on a loopback port that passes bytes both ways (TLS goes through untouched) and can be told, from any thread, to
misbehave:

| told        | open connections                                                    | new connections         |
| ----------- | ------------------------------------------------------------------- | ----------------------- |
| `forward`   | bytes flow, those held back first                                   | the same                |
| `silence`   | stay open, nothing passes                                           | accepted, then the same |
| `refuse`    | reset                                                               | reset                   |
| `cut`       | reset                                                               | as before               |
| `cut_after` | the one that would carry a byte too many to its client ends before it | count on, as before   |

It never looks into the bytes. It runs in a thread of its own, so that it serves tests with and without an event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

Result = TypeVar("Result")
Line = asyncio.Queue[
    tuple[float, bytes]
]  # what is under way in one direction: when it is due, and the bytes; no bytes are the end

CHUNK_BYTES = 65536
LONGEST_LINE_BYTES = 1 << 20  # of what is read line by line
CHUNKS_UNDER_WAY = 256  # what the line holds at most; beyond it the sender has to wait
ANSWER_TIMEOUT_SECONDS = 5.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Loopback:
    """A server on a loopback port, in a thread with an event loop of its own: `with ... as server:` listens on
    `server.port` until the block ends. Others say how a connection is served.
    """

    def __init__(self, certificate: ssl.SSLContext | None = None) -> None:
        """With a `certificate` it speaks TLS."""
        self._certificate = certificate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0
        self.accepted = 0  # connections since the start, refused ones included

    @property
    def url(self) -> str:
        """Where a client is sent instead of to the server; the API server's certificate is valid here too."""
        return f"https://127.0.0.1:{self.port}"

    def cut(self) -> int:
        """Reset every open connection once; returns how many clients lost theirs."""
        return self._call(self._cut_all())

    @property
    def connections(self) -> int:
        """How many clients are connected now."""

        async def count() -> int:
            return len(self._serving)

        return self._call(count())

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._call(self._listen())
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_TIMEOUT_SECONDS)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_TIMEOUT_SECONDS)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._certificate, limit=LONGEST_LINE_BYTES)

    async def _close(self) -> None:
        self._server.close()
        await self._cut_all()
        await self._server.wait_closed()

    async def _cut_all(self) -> int:
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        return len(serving)

    def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = self._loop.create_task(self._serve(reader, client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class Proxy(Loopback):
    """Passes bytes, or does not."""

    def __init__(self, target_port: int) -> None:
        super().__init__()
        self._target_port = target_port
        self._flowing = asyncio.Event()
        self._refusing = False
        self._delay_seconds = 0.0
        self._bytes_until_cut: int | None = None

    # What tests say

    def forward(self) -> None:
        """Behave: pass everything on, first of all what was held back."""
        self._call(self._set(flowing=True))

    def silence(self) -> None:
        """Hold every byte back without closing anything, as a dead line does."""
        self._call(self._set(flowing=False))

    def refuse(self) -> None:
        """Reset what is open and whatever comes, as a dead server does."""
        self._call(self._set(flowing=True, refusing=True))
        self.cut()

    def cut_after(self, count_bytes: int) -> None:
        """Let exactly so many more bytes pass to clients, then end the connection that would carry the next one: an
        answer that breaks off. Once.
        """

        async def arm() -> None:
            self._bytes_until_cut = count_bytes

        self._call(arm())

    def delay(self, seconds: float) -> None:
        """From now on each byte arrives so much later, in either direction; the rate stays."""

        async def slow() -> None:
            self._delay_seconds = seconds

        self._call(slow())

    # Steps

    async def _listen(self) -> asyncio.Server:
        self._flowing.set()
        return await super()._listen()

    async def _set(self, *, flowing: bool, refusing: bool = False) -> None:
        self._refusing = refusing
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    # One connection

    def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._refusing:
            self.accepted += 1
            _reset(client)
        else:
            super()._accept(reader, client)

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Until both sides have ended, one of them breaks, or a test cuts; then nothing of the connection is left."""
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            _reset(client)
            return
        up, down = Line(CHUNKS_UNDER_WAY), Line(CHUNKS_UNDER_WAY)
        steps = (
            self._take_in(client_reader, up),
            self._hand_out(up, server),
            self._take_in(server_reader, down),
            self._hand_out(down, client, limited=True),
        )
        tasks = [self._loop.create_task(step) for step in steps]
        end: Callable[[asyncio.StreamWriter], None] = _reset
        try:
            await asyncio.gather(*tasks)
            end = asyncio.StreamWriter.close  # both sides have ended well: nothing may be lost
        except EOFError:
            end = asyncio.StreamWriter.close  # what passed before the cut still arrives
        except OSError:
            pass  # one side is gone, so the other goes too
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            end(client)
            end(server)

    async def _take_in(self, reader: asyncio.StreamReader, line: Line) -> None:
        """Reading goes on while earlier bytes are under way, so that a delay makes them late and not few."""
        data = b"?"
        while data:
            data = await reader.read(CHUNK_BYTES)
            await line.put((self._loop.time() + self._delay_seconds, data))

    async def _hand_out(self, line: Line, writer: asyncio.StreamWriter, *, limited: bool = False) -> None:
        while True:
            due_at, data = await line.get()
            await asyncio.sleep(due_at - self._loop.time())
            await self._flowing.wait()
            if not data:
                writer.write_eof()
                return
            passed = self._until_cut(data) if limited else data
            writer.write(passed)
            await writer.drain()
            if len(passed) < len(data):
                raise EOFError("cut by the test")

    def _until_cut(self, data: bytes) -> bytes:
        if self._bytes_until_cut is None:
            return data
        passed = data[: self._bytes_until_cut]
        self._bytes_until_cut = None if len(passed) < len(data) else self._bytes_until_cut - len(passed)
        return passed


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side sees a reset at once, with nothing flushed."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
