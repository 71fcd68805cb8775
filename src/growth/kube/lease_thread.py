"""Runs the election where a busy event loop cannot delay it: its own thread, its own loop, its own connection.

Used by `growth run`; the embedded cluster spawns `Election.run` through its Runtime instead. What is shared with the
rest is the fence alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from growth.kube.lease import Election, Fence

OpenElection = Callable[
    [Fence], AbstractAsyncContextManager[Election]
]  # called on the thread's loop: opens and closes the connection


class ElectionThread:
    """Contends from `start` until `stop`."""

    def __init__(self, fence: Fence, open_election: OpenElection) -> None:
        self.fence = fence
        self._open_election = open_election
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._stop_wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def alive(self) -> bool:
        """A dead thread renews no more: the process should end, so that it is started again."""
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Close the fence, release the lease and wait. Only after every write has ended; blocks, so call it off the
        event loop.
        """
        self._stop_wanted.set()
        if self._loop is not None and self._stopping is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout_seconds)
        self.fence.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._contend())
        finally:
            self.fence.close()

    async def _contend(self) -> None:
        self._stopping, self._loop = asyncio.Event(), asyncio.get_running_loop()
        if self._stop_wanted.is_set():
            return
        async with self._open_election(self.fence) as election:
            contending = asyncio.create_task(election.run())
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait((contending, stopping), return_when=asyncio.FIRST_COMPLETED)
            for task in (contending, stopping):
                task.cancel()
            await asyncio.gather(contending, stopping, return_exceptions=True)
            await election.release()
