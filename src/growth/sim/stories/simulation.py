"""Does growth keep every law, whatever users do, whatever fails and wherever it dies? Asked by `growth sim` and tests.
One seed is one run of all of growth, unchanged: users act, faults happen, faults stop, and everything must settle.

    set up → faults and users, 5 to 10 virtual minutes → faults stop → settled within 15 minutes → records expire
    → at rest: no writes

The report names every law that was broken; the trace's hash is always the same for the same seed.

Crash points (`growth sim --crash-points`): one run records its writes; then growth dies before each, after each, and
with each answer lost. However it died, the machines bought and given back and the pods bound must be the same as in the
run without a death; names and times do not count."""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from msgspec import Struct

from growth.model.instant import parse_instant
from growth.model.node import POOL_LABEL
from growth.providers.simulated import Server
from growth.sim.clock import run_virtual
from growth.sim.cloud.hetzner.embedded import HetznerCloud
from growth.sim.cluster import Cluster, World
from growth.sim.faults.faults import Adversity, Crash, turn_off_all, turn_on_some
from growth.sim.faults.network import ApiTrouble
from growth.sim.faults.schedule import FaultSchedule
from growth.sim.laws import Judge, Violation
from growth.sim.laws.settled import why_not_settled
from growth.sim.laws.witness import REQUEST, Witness
from growth.sim.stories.behaviours import begin, chosen_behaviours, settings_of
from growth.sim.stories.lives import Lives
from growth.sim.stories.script import Script

SETTLE_SECONDS: Final = 900.0
LOOK_SECONDS: Final = 15.0
RECORDS_SECONDS: Final = 5400.0  # the longest until records have expired and pods without a place are in BackOff
QUIET_SECONDS: Final = 1000.0  # machines without an owner are looked at after ten minutes
REST_SECONDS: Final = 300.0
RESTS: Final = 3


class Wish(Struct, frozen=True):
    """What is not left to chance: these behaviours, these faults. Nothing: the seed draws both."""

    behaviours: tuple[str, ...] = ()
    faults: tuple[str, ...] | None = None
    stops_early: bool = False  # at the first broken law
    stops_at: str = ""  # or only when this law is broken
    crash: Crash | None = None  # beside the faults


CALM: Final = Wish(faults=())


class Report(Struct, frozen=True):
    """What came of one seed."""

    seed: str
    behaviours: tuple[str, ...]
    faults: tuple[str, ...]
    violations: tuple[Violation, ...]
    trace_hash: str
    settled_after_seconds: float | None
    virtual_seconds: float
    machines: int
    lives: int
    writes: int  # asked of the API server by growth, events apart, and of the cloud
    bought: tuple[str, ...] = ()  # pool and server type of each machine, sorted: names and times do not count
    given_back: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()  # apps of the pods that had a node in the end, sorted

    @property
    def succeeded(self) -> bool:
        return not self.violations


class Simulation:
    """One world and the growth in it. `trace` gets every line of what happens."""

    def __init__(self, seed: str, trace: Callable[[str], None] = lambda _line: None, wish: Wish | None = None) -> None:
        self.seed = seed
        self.wish = wish or Wish()
        self.chance = random.Random(f"{seed}/simulation")
        world = World(has_cloud_controller=self.chance.random() < 0.5)
        self.cluster = Cluster(seed, world)
        self.behaviours = chosen_behaviours(seed, self.wish.behaviours)
        is_at_hetzner = any(each.is_at_hetzner for each in self.behaviours)
        self._files = tempfile.TemporaryDirectory(prefix="growth-sim-") if is_at_hetzner else None
        hetzner = HetznerCloud(self.cluster, Path(self._files.name)) if self._files is not None else None
        self._settings = settings_of(self.behaviours)
        self.witness = Witness(self.cluster, settings=self._settings)
        self.judge = Judge(self.witness)
        lasts = self.chance.uniform(300, 600)
        schedule = FaultSchedule(self.cluster, [None])
        troubled = random.Random(f"{seed}/faults")
        self.adversity = Adversity(self.cluster, ApiTrouble(), troubled, lasts, schedule, [], [], [])
        longest = max([lasts, *(each.lasts_seconds for each in self.behaviours)])
        self.script = Script(self.cluster, random.Random(f"{seed}/scenario"), longest, {}, schedule.plan)
        opens = None if hetzner is None else hetzner.provider_for()
        self.lives = Lives(self.adversity, self.witness, self.judge, self._settings, self._say, opens)
        self._has_faults = False
        self._trace = trace
        self._digest = hashlib.sha256()
        self.cluster.tell(self._say)

    async def run(self) -> Report:
        with self._files or nullcontext():
            return await self._run()

    async def _run(self) -> Report:
        begin(self.script, self.seed, self.behaviours)
        behaviours = [each.name for each in self.behaviours]
        faults = turn_on_some(self.adversity, self.seed, self.wish.faults)
        self.adversity.crashes += [self.wish.crash] if self.wish.crash else []
        self._has_faults = bool(faults or self.adversity.crashes)
        self._say(f"behaviours: {', '.join(behaviours)}; faults: {', '.join(faults)}")
        self.lives.begin()
        settled = await self._live()
        for name, error in self.lives.failures:
            self.judge.accuse("no task fails", f"task or decision {name}: {error!r}")
        running = [pod for pod in self.witness.pods.values() if pod.node_name and not pod.is_finished]
        return Report(
            self.seed,
            tuple(behaviours),
            tuple(faults),
            tuple(self.judge.violations),
            self._digest.hexdigest()[:16],
            settled,
            self.cluster.runtime.monotonic(),
            len(self.cluster.shop.creates),
            self.lives.count,
            self.lives.writes,
            bought=_kinds(self.cluster.shop.creates),
            given_back=_kinds(self.cluster.shop.deletes),
            bound=tuple(sorted(pod.shape.labels.get("app", pod.name) for pod in running)),
        )

    # ----------------------------------------------------------------------------------- the phases

    async def _live(self) -> float | None:
        """From the first fault to the end; how long it took to settle."""
        settled, drawn = None, self.adversity.lasts_seconds
        if await self._pass(drawn):
            self._stop_faults()
            if await self._pass(self.script.lasts_seconds - drawn):
                self.adversity.schedule.end_all()
                settled = await self._settle()
        if settled is not None and await self._pass(QUIET_SECONDS):
            await self._rest()
        return settled

    async def _pass(self, seconds: float) -> bool:
        """Time passes; False if a law was broken meanwhile and that is enough."""
        until = self.cluster.runtime.monotonic() + seconds
        while self.cluster.runtime.monotonic() < until:
            await self.cluster.runtime.sleep(min(LOOK_SECONDS, until - self.cluster.runtime.monotonic()))
            self._tell_time()
            if self._is_enough():
                return False
        return True

    def _is_enough(self) -> bool:
        stops_at, broken = self.wish.stops_at, self.judge.violations
        return self.wish.stops_early and any(stops_at in ("", each.law) for each in broken)

    def _tell_time(self) -> None:
        is_calm = not self._has_faults and not self.adversity.schedule.active.is_any_on
        self.judge.hear_time(is_calm=is_calm and self.lives.leader is not None)

    def _stop_faults(self) -> None:
        turn_off_all(self.adversity)
        self.lives.mend()
        self._has_faults = False
        self._say("faults stop")

    async def _settle(self) -> float | None:
        """Seconds until all was as it should be; None if it never was in time."""
        began = self.cluster.runtime.monotonic()
        longest = max([SETTLE_SECONDS, *(each.settles_seconds for each in self.behaviours)])
        while self.cluster.runtime.monotonic() < began + longest:
            await self.cluster.runtime.sleep(LOOK_SECONDS)
            self._tell_time()
            if self._is_enough():
                return None
            if self.lives.leader is not None and not self._why_not_settled():
                return self.cluster.runtime.monotonic() - began
        for law, complaint in self._why_not_settled():
            self.judge.accuse(law, complaint)
        return None

    def _why_not_settled(self) -> list[tuple[str, str]]:
        process = self.lives.leader
        if process is None:
            return [("old caches", "no growth leads")]
        return why_not_settled(self.witness, process.growth, self.script.expected)

    async def _rest(self) -> None:
        """When the last record has expired, growth has nothing to write any more; now and then it tries once more what
        failed before, less and less often.
        """
        began = self.cluster.runtime.monotonic()
        while self._is_anything_pending() and self.cluster.runtime.monotonic() < began + RECORDS_SECONDS:
            await self.cluster.runtime.sleep(LOOK_SECONDS)
        await self.cluster.runtime.sleep(LOOK_SECONDS)
        written = [await self._written_at_rest()]
        while written[-1] and len(written) < RESTS:
            written.append(await self._written_at_rest())
        if written[-1]:
            shown = "; ".join(written[-1][:3])
            complaint = f"{len(written[-1])} writes in {REST_SECONDS:.0f} s at rest: {shown}"
            self.judge.accuse("zero writes at rest", complaint)
        for law, complaint in self._why_not_settled():
            self.judge.accuse(law, f"at rest: {complaint}")

    async def _written_at_rest(self) -> list[str]:
        heard = len(self.lives.calls)
        await self.cluster.runtime.sleep(REST_SECONDS)
        return [call for call in self.lives.calls[heard:] if "/leases/" not in call]

    def _is_anything_pending(self) -> bool:
        """A pod without a place, a request, or a node so young that growth has not said yet why it stays."""
        settings, nodes = self._settings, self.cluster.objects("Node")
        waiting = any(not pod.node_name and not pod.is_finished for pod in self.witness.pods.values())
        oldest = self.cluster.runtime.now() - settings.settling_seconds - settings.consolidation_interval_seconds
        is_young = any(parse_instant(node["metadata"]["creationTimestamp"]) > oldest for node in nodes)
        return waiting or is_young or bool(self.cluster.store.shelf(REQUEST).items)

    # ---------------------------------------------------------------------------------------- trace

    def _say(self, line: str) -> None:
        stamped = f"{self.cluster.runtime.monotonic():9.2f}  {line}"
        self._digest.update(stamped.encode())
        self._trace(stamped)


def _kinds(servers: Sequence[Server]) -> tuple[str, ...]:
    ours = [server for server in servers if POOL_LABEL in server.template.labels]
    return tuple(sorted(f"{server.template.labels[POOL_LABEL]} {server.server_type}" for server in ours))


def simulate(seed: str, trace: Callable[[str], None] = lambda _line: None, wish: Wish | None = None) -> Report:
    """Run one seed to its end."""

    async def run() -> Report:
        return await Simulation(seed, trace, wish).run()

    return run_virtual(run())


# ------------------------------------------------------------------------------------- crash points

_CRASH_SEED: Final = "crash points"
_CRASH_SCENARIOS: Final = ("come and go",)


class Death(Struct, frozen=True):
    """Where growth dies, or loses an answer: at its n-th write."""

    write: int
    moment: str  # before | after | lost

    def __str__(self) -> str:
        return f"{'answer lost to' if self.moment == 'lost' else f'killed {self.moment}'} write {self.write}"


def reference() -> Report:
    """The run in which nothing happens to growth."""
    return simulate(_CRASH_SEED, wish=Wish(_CRASH_SCENARIOS, ()))


def deaths(writes: int, every: int = 1) -> Iterator[Death]:
    for write in range(1, writes + 1, every):
        yield from (Death(write, moment) for moment in ("before", "after", "lost"))


def die_at(death: Death) -> Report:
    crash = Crash(death.write, death.moment, restart_seconds=1.0)
    return simulate(_CRASH_SEED, wish=Wish(_CRASH_SCENARIOS, (), crash=crash))


def differences(wanted: Report, found: Report) -> list[str]:
    """What came out differently; empty: nothing that counts."""
    complaints = [str(violation) for violation in found.violations]
    for name in ("bought", "given_back", "bound"):
        expected, counted = Counter(getattr(wanted, name)), Counter(getattr(found, name))
        more, fewer = sorted((counted - expected).elements()), sorted((expected - counted).elements())
        complaints += [f"{name}: too many {more}, too few {fewer}"] if more or fewer else []
    return complaints
