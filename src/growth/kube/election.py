"""Which process leads? Asked before every write through the fence; the answer comes from one Lease object.

Only the monotonic clock decides: a contender watches whether the record changes and counts from when it saw the change,
so clocks that differ or step do no harm. The times written into the record are for people.

    the record                                   a contender
    does not exist ............................. creates it, unless it saw a live holder a moment ago
    names nobody ............................... takes it
    names me, and my fence still holds ......... renews it
    names anyone, unchanged for its duration ... takes it
    names anyone, changed since ................ waits

The fence holds for `deadline_seconds` from the moment the last successful renewal was *asked for*; others wait
`duration_seconds` from when they saw it. The difference is what a write that began in time may still take: its time
limit is cut to that (`kube/fence.py`).

`growth run` contends in a thread with a loop and a connection of its own (`ElectionThread`), so that a busy event loop
cannot delay it; only the fence is shared. The embedded cluster spawns `Election.run` through its Runtime instead."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NoReturn, Self

import msgspec
from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError, NotFound
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import LEASES
from growth.kube.api.transport import Transport
from growth.kube.fence import Fence
from growth.model.instant import InstantError, format_precise_instant, parse_instant
from growth.runtime import Runtime

_STILL_SECONDS: Final = 30.0  # an attempt is two requests, each with a limit below the period
_USUAL_SECONDS: Final = 15.0  # of a Lease that does not say how long it holds
_FAILING_SECONDS: Final = 5.0  # one attempt may fail: somebody else was quicker


class LeaseSpec(Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None

    @property
    def seconds(self) -> float:
        """So long it holds after a renewal."""
        return float(self.lease_duration_seconds or _USUAL_SECONDS)

    @property
    def renewed_at(self) -> float | None:
        """None: never, or what is written there is no time."""
        try:
            return None if self.renew_time is None else parse_instant(self.renew_time)
        except InstantError:
            return None

    @property
    def held_until(self) -> float | None:
        return None if self.renewed_at is None else self.renewed_at + self.seconds


class Lease(Struct, frozen=True):
    """Who leads, as the API server knows it."""

    spec: LeaseSpec = LeaseSpec()


class LeaseSettings(Struct, frozen=True):
    name: str = "growth"
    namespace: str = "growth-system"
    duration_seconds: int = 15
    deadline_seconds: float = 10.0
    retry_seconds: float = 2.0
    request_seconds: float = 1.5  # below the retry period: one hung request must not cost two renewals

    @classmethod
    def lasting(cls, duration_seconds: int, name: str, namespace: str) -> Self:
        """A lease of this length, its other times in the same proportions."""
        usual = cls()
        share = duration_seconds / usual.duration_seconds
        times = (usual.deadline_seconds, usual.retry_seconds, usual.request_seconds)
        return cls(name, namespace, duration_seconds, *(each * share for each in times))

    @property
    def gap_seconds(self) -> float:
        """From the last moment of one leader to the first of the next: what its last write may take."""
        return self.duration_seconds - self.deadline_seconds

    def __post_init__(self) -> None:
        if not 0 < self.request_seconds < self.retry_seconds < self.deadline_seconds < self.duration_seconds:
            order = "request_seconds < retry_seconds < deadline_seconds < duration_seconds"
            raise ValueError(f"lease times must grow: {order}")


class Election:
    """Contends for one lease with a client of its own. `identity` must be new in each process."""

    def __init__(
        self,
        transport: Transport,
        runtime: Runtime,
        identity: str,
        settings: LeaseSettings | None = None,
        fence: Fence | None = None,
    ) -> None:
        self.settings = settings or LeaseSettings()
        self.identity = identity
        self.fence = fence or Fence(runtime.monotonic, self.settings.gap_seconds)
        self.holder = ""  # as last seen
        self.failure: Exception | None = None  # of the last attempt
        self.failing_since: float | None = None  # the first of the attempts in a row that failed
        self.tried_at = runtime.monotonic()  # when the last attempt began
        self._runtime = runtime
        paced = ClientSettings(timeout_seconds=self.settings.request_seconds, attempts=1)
        self._client = Client(transport, runtime, paced)
        self._record: dict[str, Any] | None = None  # as last seen
        self._seen_at = -math.inf  # when it was first seen so
        self._uncertain = True  # it must be read before it is written

    async def run(self) -> NoReturn:
        """Contend and renew until cancelled; call `release` afterwards."""
        while True:
            began_at = self.tried_at = self._runtime.monotonic()
            await self._attempt()
            spent, pause = self._runtime.monotonic() - began_at, self.settings.retry_seconds
            if not self.fence.holds():
                pause *= 1 + self._runtime.jitter() / 5
            await self._runtime.sleep(max(0.0, pause - spent))

    async def release(self) -> None:
        """Let another process lead at once. Only after every write of ours has ended."""
        led = self.fence.holds()
        self.fence.close()
        if not led or self._record is None:
            return
        try:
            await self._client.replace(LEASES, self._renewed(self._record, holder=""))
        except KubeError as failure:
            self.failure = failure  # then the others wait for it to run out

    def why_not_trying(self) -> str:
        """A contender tries every few seconds, whatever it is answered. Empty: it does."""
        still_seconds = self._runtime.monotonic() - self.tried_at
        return f"the lease was not tried for {still_seconds:.0f} s" if still_seconds > _STILL_SECONDS else ""

    def why_not_leading(self) -> str:
        """Why the lease cannot be had by anybody here: some attempts in a row failed. Empty: none of that."""
        if self.failing_since is None or self._runtime.monotonic() - self.failing_since < _FAILING_SECONDS:
            return ""
        return f"the Lease {self.settings.namespace}/{self.settings.name} cannot be taken: {self.failure}"

    async def _attempt(self) -> None:
        try:
            if self._uncertain or not self.fence.holds():
                await self._read()
            if self._is_free():
                await self._take()
            self._uncertain, self.failure, self.failing_since = False, None, None
        except Exception as failure:  # whatever it was: an election that ends would leave nobody to lead
            self._uncertain, self.failure = True, failure
            self.failing_since = self.tried_at if self.failing_since is None else self.failing_since

    async def _read(self) -> None:
        try:
            self._see(await self._client.get(LEASES, self.settings.name, self.settings.namespace))
        except NotFound:
            if not self._is_free():
                raise  # deleted under a leader that may not know yet
            self._record, self.holder = None, ""

    def _is_free(self) -> bool:
        if self._record is None or not self.holder:
            return True
        if self.holder == self.identity and self.fence.holds():
            return True
        promised = self._record["spec"].get("leaseDurationSeconds") or self.settings.duration_seconds
        return self._runtime.monotonic() >= self._seen_at + float(promised)

    async def _take(self) -> None:
        asked_at = self._runtime.monotonic()
        record = self._renewed(self._record or self._blank(), self.identity)
        write = self._client.create if self._record is None else self._client.replace
        self._see(await write(LEASES, record))
        self.fence.extend(asked_at + self.settings.deadline_seconds)

    def _see(self, body: bytes) -> None:
        record = msgspec.json.decode(body, type=dict[str, Any])
        version = record["metadata"]["resourceVersion"]
        if self._record is None or self._record["metadata"]["resourceVersion"] != version:
            self._seen_at = self._runtime.monotonic()
        self._record = record
        self.holder = record.setdefault("spec", {}).get("holderIdentity") or ""

    def _blank(self) -> dict[str, Any]:
        metadata = {"name": self.settings.name, "namespace": self.settings.namespace}
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": {}}

    def _renewed(self, record: dict[str, Any], holder: str) -> dict[str, Any]:
        stamp = format_precise_instant(self._runtime.now())
        before, lasts = record["spec"], self.settings.duration_seconds
        spec = before | {"holderIdentity": holder, "leaseDurationSeconds": lasts, "renewTime": stamp}
        if holder != (before.get("holderIdentity") or ""):
            transitions = (before.get("leaseTransitions") or 0) + bool(holder)
            spec |= {"acquireTime": stamp, "leaseTransitions": transitions}
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": record["metadata"], "spec": spec}


OpenElection = Callable[[Fence], AbstractAsyncContextManager[Election]]  # opens and closes the connection


class ElectionThread:
    """Contends from `start` until `stop`."""

    def __init__(self, fence: Fence, open_election: OpenElection) -> None:
        self.fence = fence
        self.election: Election | None = None  # to be asked how it goes, from any thread
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
        """Close the fence, release the lease and wait. Only after every write has ended; blocks its thread."""
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
            self.election = election
            contending = asyncio.create_task(election.run())
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait((contending, stopping), return_when=asyncio.FIRST_COMPLETED)
            for task in (contending, stopping):
                task.cancel()
            await asyncio.gather(contending, stopping, return_exceptions=True)
            await election.release()
