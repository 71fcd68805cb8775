"""For how long is an offering struck out? Asked by provisioning when a launch finds no capacity, or when machines of it keep failing.

The first time for the setting's seconds, each further time for twice as long, up to the longest, until it works again. Several refusals in
one strike are one. Machines that do not become Ready in time count as failures in a row; from the third on each one strikes the offering out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.settings import Settings
from growth.plan.catalogue import Place

FAILURES_THAT_STRIKE: Final = 3


class Strike(Struct, frozen=True):
    count: int
    until: float


class Strikes(Struct, frozen=True):
    """By offering and location. Lost at a restart: then the shortest time holds again."""

    strikes: Mapping[Place, Strike] = {}
    failures: Mapping[Place, int] = {}


def with_strike(known: Strikes, place: Place, now: float, settings: Settings) -> Strikes:
    before = known.strikes.get(place)
    if before is not None and now < before.until:
        return known
    count = 1 if before is None else before.count + 1
    seconds = min(settings.unmet_seconds * 2.0 ** min(count - 1, 30), max(settings.unmet_seconds, settings.unmet_longest_seconds))
    return replace(known, strikes={**known.strikes, place: Strike(count, now + seconds)})


def struck_until(known: Strikes, place: Place, now: float, settings: Settings) -> float:
    strike = with_strike(known, place, now, settings).strikes[place]
    return strike.until


def with_failure(known: Strikes, place: Place) -> Strikes:
    return replace(known, failures={**known.failures, place: known.failures.get(place, 0) + 1})


def strikes_out(known: Strikes, place: Place) -> bool:
    """Would one more failure be the third in a row, or later?"""
    return known.failures.get(place, 0) + 1 >= FAILURES_THAT_STRIKE


def with_acceptance(known: Strikes, place: Place) -> Strikes:
    """The provider has some again. What has failed otherwise must still prove itself."""
    if known.failures.get(place) or place not in known.strikes:
        return known
    return replace(known, strikes={name: strike for name, strike in known.strikes.items() if name != place})


def with_success(known: Strikes, place: Place) -> Strikes:
    if place not in known.strikes and place not in known.failures:
        return known
    return Strikes(
        {name: strike for name, strike in known.strikes.items() if name != place},
        {name: count for name, count in known.failures.items() if name != place},
    )
