"""Does it matter where growth dies? One run records its writes; then growth dies before each, after each, and with each
answer lost.

Asked by `growth sim --crash-points` and tests. However it died, the machines bought and given back and the pods bound
must be the same as in the run without a death; names and times do not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from growth.sim.faults.faults import Crash
from growth.sim.stories.simulation import Report, Wish, simulate

SEED: Final = "crash points"
SCENARIOS: Final = ("come and go",)
MOMENTS: Final = ("before", "after", "lost")
RESTART_SECONDS: Final = 1.0


class Death(Struct, frozen=True):
    """Where growth dies, or loses an answer: at its n-th write."""

    write: int
    moment: str

    def __str__(self) -> str:
        return f"{'answer lost to' if self.moment == 'lost' else f'killed {self.moment}'} write {self.write}"


def reference() -> Report:
    """The run in which nothing happens to growth."""
    return simulate(SEED, wish=Wish(SCENARIOS, ()))


def deaths(writes: int, every: int = 1) -> Iterator[Death]:
    for write in range(1, writes + 1, every):
        yield from (Death(write, moment) for moment in MOMENTS)


def die_at(death: Death) -> Report:
    return simulate(SEED, wish=Wish(SCENARIOS, (), crash=Crash(death.write, death.moment, RESTART_SECONDS)))


def differences(wanted: Report, found: Report) -> list[str]:
    """What came out differently; empty: nothing that counts."""
    told = [str(violation) for violation in found.violations]
    for name in ("bought", "given_back", "bound"):
        before, after = Counter(getattr(wanted, name)), Counter(getattr(found, name))
        if before != after:
            told.append(
                f"{name}: too many {sorted((after - before).elements())}, too few {sorted((before - after).elements())}"
            )
    return told
