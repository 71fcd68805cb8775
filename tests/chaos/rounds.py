"""How does chaos go on? In rounds: the demand changes, a fault begins and ends, growth is killed again and again, and
then everything must be at rest within `RECOVERED_SECONDS`. Faults, kills and moments are drawn from the seed.

| a kill of | hits |
| --- | --- |
| leader | the replica that leads, at any moment |
| both | the two of them |
| order, deletion | both, when the provider has done what it was asked for and has not answered yet |
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.world import POLL_SECONDS, QUIET_SECONDS, World

RECOVERED_SECONDS: Final = 30.0
GIVEN_UP_SECONDS: Final = 120.0
FEWEST_PODS, MOST_PODS = 1, 9
EFFECT_SECONDS: Final = 4.0  # how long a kill waits for the order or the deletion that it is to follow


class Round(Struct, frozen=True):
    """As it was drawn."""

    number: int
    fault: str
    pods: int
    within: tuple[str, ...]  # kills while the fault lasts
    after: tuple[str, ...]
    changes_first: bool

    def __str__(self) -> str:
        kills = ", ".join((*self.within, *(f"{each} after it" for each in self.after)))
        return f"{self.number:3d}  {self.fault}; kills: {kills}; {self.pods} pods"


class Result(Struct):
    """What came of all rounds so far."""

    seconds: dict[str, list[float]] = {}  # to recover, by fault
    kills: Counter[str] = Counter()
    failures: list[str] = []


def draw(seed: str, rounds: int) -> Iterator[Round]:
    """Every fault once, in an order of chance, before any comes again."""
    chance = random.Random(f"{seed}/rounds")
    names: list[str] = []
    pods = 2
    for number in range(1, rounds + 1):
        if not names:
            names = chance.sample(sorted(FAULTS), len(FAULTS))
        pods = chance.choice([each for each in range(FEWEST_PODS, MOST_PODS + 1) if each != pods])
        kills = [chance.choice(("leader", "leader", "both", "order or deletion")) for _ in range(chance.randint(1, 2))]
        within = chance.randint(0, len(kills))
        yield Round(
            number, names.pop(), pods, tuple(kills[:within]), tuple(kills[within:]), changes_first=chance.random() < 0.5
        )


class Chaos:
    """Carries rounds out on one world."""

    def __init__(self, world: World, seed: str) -> None:
        self._world, self._seed = world, seed
        self._chance = random.Random(f"{seed}/moments")
        self.result = Result({}, Counter(), [])

    @property
    def broken(self) -> list[str]:
        """Laws, and rounds that were not recovered from in time."""
        return [*self.result.failures, *self._world.witness.broken]

    def begin(self) -> None:
        """The first machines: from then on the pool is known to work."""
        self._world.witness.most_machines = self._world.wanted
        self._recover("the start", time.monotonic(), GIVEN_UP_SECONDS)

    def play(self, drawn: Round) -> float:
        """Returns how long it took to recover."""
        world, fault = self._world, FAULTS[drawn.fault]
        world.cluster.forget_audit_events()
        world.witness.most_machines = max(world.wanted, drawn.pods)
        changes_first = drawn.changes_first or fault.needs_api
        if changes_first:
            world.scale(drawn.pods)
            time.sleep(self._chance.uniform(0.0, 3.0))
        with fault.act(world, self._chance):
            if not changes_first:
                world.scale(drawn.pods)
            self._trouble(drawn, fault)
        for kill in drawn.after:
            time.sleep(self._chance.uniform(0.0, 2.0))
            self._kill(kill)
        name = f"round {drawn.number} ({drawn.fault})"
        seconds = self._recover(name, time.monotonic(), RECOVERED_SECONDS)
        self.result.seconds.setdefault(drawn.fault, []).append(seconds)
        world.witness.look_at_bills()
        return seconds

    def _trouble(self, drawn: Round, fault: Fault) -> None:
        ends_at = time.monotonic() + self._chance.uniform(*fault.seconds)
        for kill in drawn.within:
            time.sleep(self._chance.uniform(0.0, 1.5))
            self._kill(kill)
        time.sleep(max(0.0, ends_at - time.monotonic()))

    def _kill(self, kind: str) -> None:
        world = self._world
        if kind == "order or deletion" and self._kill_at_effect():
            return
        leader = world.leader()
        hit = [leader] if kind == "leader" and leader is not None else world.replicas
        for replica in hit:
            replica.process.kill()
            self.result.kills["leader" if hit == [leader] else "both"] += 1
        self._restart()

    def _kill_at_effect(self) -> bool:
        """Kill both when the provider has just done something, before its answer leaves; False if it does nothing."""
        world, done, once = self._world, threading.Event(), threading.Lock()

        def killing(what: str) -> None:
            if once.acquire(blocking=False):
                for replica in world.replicas:
                    replica.process.kill()
                    self.result.kills[what] += 1
                done.set()

        world.witness.on_effect = killing
        happened = done.wait(EFFECT_SECONDS) or not once.acquire(blocking=False)
        if happened:
            done.wait()
        world.witness.on_effect = lambda _what: None
        if happened:
            self._restart()
        return happened

    def _restart(self) -> None:
        for replica in self._world.replicas:
            replica.keep_running()

    # ------------------------------------------------------------------------------------ recovery

    def _recover(self, name: str, began_at: float, limit_seconds: float) -> float:
        """Wait for rest: nothing is missing, and for a while nothing is written."""
        world, why = self._world, ""
        while time.monotonic() < began_at + GIVEN_UP_SECONDS:
            self._restart_ended(name)
            why = world.why_not_at_rest()
            if not why:
                at, writes = time.monotonic(), world.writes()
                time.sleep(QUIET_SECONDS)
                why = world.why_not_at_rest() or ("growth goes on writing" if world.writes() > writes else "")
                if not why:
                    return self._judged(name, at - began_at, limit_seconds)
            else:
                time.sleep(POLL_SECONDS)
        self.result.failures.append(f"{name}: not recovered after {GIVEN_UP_SECONDS:.0f} s: {why}")
        return GIVEN_UP_SECONDS

    def _judged(self, name: str, seconds: float, limit_seconds: float) -> float:
        if seconds > limit_seconds:
            self.result.failures.append(f"{name}: recovered only after {seconds:.1f} s")
        return seconds

    def _restart_ended(self, name: str) -> None:
        for number, replica in enumerate(self._world.replicas, 1):
            if not replica.process.is_running:
                self.result.failures.append(f"{name}: replica {number} ended by itself")
                replica.keep_running()
