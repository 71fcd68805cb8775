"""How long does a pool rest after an attempt that came to nothing? Asked by consolidation and replacement.

Where pods go cannot be steered: somebody else may take the room that was meant for them. What failed once may well fail
again, and each time pods move and machines may be bought. So each attempt in a row that came to nothing is followed by
a rest four times as long; a row ends with one that worked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

_LONGEST_SECONDS: Final = 86_400.0


class Setback(Struct, frozen=True):
    """Attempts of a pool that came to nothing, in a row, and the end of its rest."""

    count: int
    until: float

    @property
    def words(self) -> str:
        return "an attempt that was" if self.count == 1 else f"{self.count} attempts in a row that were"


def with_attempts(
    known: Mapping[str, Setback], worked: Collection[str], failed: Collection[str], now: float, first_seconds: float
) -> dict[str, Setback]:
    """By pool. Where some attempts worked and others failed at once, the row begins anew; what fails while a pool rests
    began before, and counts no more.
    """
    found = {pool: each for pool, each in known.items() if pool not in worked}
    for pool in sorted(each for each in failed if each not in found or found[each].until <= now):
        count = found[pool].count + 1 if pool in found else 1
        found[pool] = Setback(count, now + min(_LONGEST_SECONDS, first_seconds * 4.0 ** (count - 1)))
    return found
