"""How do the growths of one simulation live? One process, or several that elect a leader; each may be killed at a
write, lose an answer, stand still, and have a wrong clock.

Made by `sim/stories/simulation`. Between a growth and the API server stand the faulty network of seeds and the faults
that scenarios know too, one behind the other."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Final

from msgspec.structs import replace

from growth.controllers.growth import Installation
from growth.kube.api.client import Client
from growth.kube.api.transport import Request, TransportError
from growth.kube.election import LeaseSettings
from growth.kube.fence import belong_to_no_term
from growth.model.settings import Settings
from growth.providers.contract import Provider
from growth.runtime import Runtime
from growth.sim.clock import after
from growth.sim.faults.faults import Adversity
from growth.sim.faults.kinds import SolverHangs
from growth.sim.faults.network import FaultyApi, FaultyTransport
from growth.sim.laws import Judge
from growth.sim.laws.memory import Call
from growth.sim.laws.witness import Witness
from growth.sim.process import GrowthProcess

AWAKE_SECONDS: Final = 35.0  # a process that stood still may finish what it had begun, within the limit of a request


class KilledError(Exception):
    """growth died in the middle of a call."""


class Lives:
    """All growths of one world."""

    def __init__(
        self,
        adversity: Adversity,
        witness: Witness,
        judge: Judge,
        settings: Settings,
        say: Callable[[str], None],
        provider_for: Callable[[Client, Runtime], Provider] | None = None,
    ) -> None:
        self.count = 0  # of lives, also those that are over
        self.writes = 0  # asked of the API server, events apart, and of the cloud
        self.calls: list[str] = []  # what growth asked to write
        self._failures: list[tuple[str, BaseException]] = []  # of lives that are over
        self._adversity, self._witness, self._judge = adversity, witness, judge
        self._cluster, self._replicas = adversity.cluster, adversity.schedule.replicas
        self._settings, self._say, self._provider_for = settings, say, provider_for

    @property
    def leader(self) -> GrowthProcess | None:
        """The growth that acts; None while there is none."""
        return next((each for each in self._replicas if each is not None and self._leads(each)), None)

    @property
    def failures(self) -> list[tuple[str, BaseException]]:
        """Tasks that ended with an exception, of all lives."""
        alive = [each.failures for each in self._replicas if each is not None]
        return [*(failure for failures in alive for failure in failures), *self._failures]

    def begin(self) -> None:
        """Start every growth, and let happen to them what was drawn."""
        if len(self._replicas) > 1:
            name = LeaseSettings().namespace
            self._cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for number in range(len(self._replicas)):
            self._start(number)
        for at, step in self._adversity.clock_steps:
            after(at, partial(self._step_clock, step))
        for at, seconds in self._adversity.pauses:
            after(at, partial(self._pause, seconds))

    def mend(self) -> None:
        """Clocks are right again, and nobody stands still."""
        for process in self._replicas:
            if process is not None:
                process.runtime.skew_seconds = 0.0
                process.runtime.paused_until = 0.0

    def _start(self, number: int) -> None:
        belong_to_no_term()  # a new process inherits nothing from the call that its predecessor died in
        self.count += 1
        lease = LeaseSettings() if len(self._replicas) > 1 else None
        installation = Installation(settings=self._settings)
        opens = self._provider_for
        process = GrowthProcess(self._cluster, installation, self.count, provider_for=opens, lease=lease)
        self._replicas[number] = process
        faults = self._adversity.schedule.active
        behind = FaultyApi(self._cluster.api, process.runtime, faults, number)
        behind.on_read, behind.on_done = self._witness.hear_read, partial(self._at_effect, number, process)
        behind.on_news = self._witness.hear_kind
        seed = f"{self._cluster.seed}/network/{self.count}"
        transport = FaultyTransport(behind, process.runtime, self._adversity.trouble, seed)
        transport.on_write = partial(self._at_write, number, process)
        process.cloud_door.on_call = partial(self._at_cloud_call, number, process)
        process.door.transport = transport
        process.door.on_send = partial(self._at_send, number, process)
        process.runtime.solver_hangs = lambda: faults.hit(SolverHangs) is not None
        process.start()
        self._say(f"growth starts, life {self.count}")

    def _leads(self, process: GrowthProcess) -> bool:
        """By the lease alone, whatever the task that is running may still do."""
        return process.election is None or Context().run(process.election.fence.holds)

    # ---------------------------------------------------------------------------------------- calls

    def _at_send(self, number: int, process: GrowthProcess, request: Request) -> None:
        if request.method != "GET" and "/leases" not in request.path:
            self._judge.hear_call(self._call(number, process, f"{request.method} {request.path.partition('?')[0]}"))

    def _at_effect(self, number: int, process: GrowthProcess, request: Request) -> None:
        path = request.path.partition("?")[0]
        if "/leases" not in path and "/events" not in path:
            call = self._call(number, process, f"{request.method} {path}")
            self._judge.hear_effect(replace(call, was_given_up=process.door.has_given_up(request)))

    def _call(self, number: int, process: GrowthProcess, text: str) -> Call:
        others = [each for at, each in enumerate(self._replicas) if each is not None and at != number]
        stood_still = self._cluster.runtime.monotonic() - process.runtime.paused_until < AWAKE_SECONDS
        loop, another_leads = process.growth.loop, any(self._leads(each) for each in others)
        memory = process.growth.fence.term, 0 if loop is None else loop.clock_went_back
        return Call(text, self._leads(process), another_leads, stood_still, life=process.life, memory=memory)

    def _at_write(self, number: int, process: GrowthProcess, moment: str, request: Request) -> None:
        path = request.path.partition("?")[0]
        if moment == "before":
            self.calls.append(f"{request.method} {path}")
        if not path.endswith("/events") and "/events/" not in path:
            self._at_call(number, process, moment, f"{request.method} {path}")

    def _at_cloud_call(self, number: int, process: GrowthProcess, moment: str, call: str) -> None:
        if moment == "before":
            self._judge.hear_call(self._call(number, process, call))
        try:
            self._at_call(number, process, moment, call)
        except TransportError:
            raise ConnectionError("connection reset by peer") from None

    def _at_call(self, number: int, process: GrowthProcess, moment: str, call: str) -> None:
        """A write, or a call that changes something at the cloud: here growth may be killed, or its answer lost.

        What a dead process sent off before it died goes its way, and kills no process a second time: each life is
        followed by one other."""
        self.writes += moment == "before"
        crashes = self._adversity.crashes
        crash = crashes[0] if crashes else None
        if process.runtime.is_dead or crash is None or moment != ("before" if crash.moment == "before" else "after"):
            return
        crash.writes_left -= 1
        if crash.writes_left > 0:
            return
        crashes.pop(0)
        if crash.moment == "lost":
            self._say(f"the answer is lost to {call}")
            raise TransportError("connection reset by peer")
        self._say(f"growth is killed {moment} {call}")
        self._failures += process.failures
        process.kill()
        after(crash.restart_seconds, partial(self._start, number))
        if moment == "before":
            raise KilledError

    # ------------------------------------------------------------------------------- clock and pause

    def _step_clock(self, seconds: float) -> None:
        process = self.leader
        if process is not None and self._adversity.lasts_seconds:
            process.runtime.skew_seconds = seconds
            self._say(f"growth's clock is off by {seconds:+.0f} s")

    def _pause(self, seconds: float) -> None:
        process = self.leader
        if process is not None and self._adversity.lasts_seconds:
            process.runtime.paused_until = self._cluster.runtime.monotonic() + seconds
            self._say(f"growth stands still for {seconds:.0f} s")
