"""How has an offering fared lately, and for how long is it struck out? Asked by provisioning. Read off the records, so
that a restart forgets nothing.

| a record of the offering | says |
| --- | --- |
| Unmet | struck out until its `expiresAt` |
| Deprovisioning or Unmet, its last event nodeNotReady | a machine that did not become Ready in time: a failure |
| Provisioning, newer | the provider has some again: an Unmet for lack of capacity is over |
| Ready, newer | it works again: nothing that is older counts |

The first strike lasts the setting's seconds, each further one twice as long as the one before, up to the longest.
Several refusals in one strike are one. From the third failure in a row on, each one strikes the offering out. What
still counts is kept beyond its time: an Unmet record as long again, and a failure until two more could have followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.noderequest import DEPROVISIONING, PROVISIONING, READY, UNMET, NodeRequest
from growth.model.settings import Settings
from growth.plan.world.market import unmet_until
from growth.plan.world.pools import OfferingKey

FAILURES_THAT_STRIKE: Final = 3
NOT_READY_EVENT: Final = "nodeNotReady"

_LONGEST_TRIAL: Final = 2  # waits for Ready: so long may one machine take to fail


class History(Struct, frozen=True):
    """What still counts of one offering in one location."""

    failures: tuple[NodeRequest, ...] = ()
    strike: NodeRequest | None = None  # the latest Unmet, the first of those that struck it out together

    def keeps(self, request: NodeRequest) -> bool:
        """Is this record needed for what comes? Of many only the latest are."""
        return request is self.strike or any(request is each for each in self.failures[-FAILURES_THAT_STRIKE:])


def place_of(request: NodeRequest) -> OfferingKey:
    return (request.spec.target_offering, request.spec.location)


def has_failed(request: NodeRequest) -> bool:
    events = request.status.events
    return request.phase in (DEPROVISIONING, UNMET) and bool(events) and events[-1].name == NOT_READY_EVENT


def histories(requests: Iterable[NodeRequest]) -> Mapping[OfferingKey, History]:
    """By offering and location, in the order in which things happened."""
    found: dict[OfferingKey, History] = {}
    for request in sorted(requests, key=lambda each: (each.changed_at, each.name)):
        place = place_of(request)
        known = found.get(place, History())
        found[place] = _after(known, request)
    return found


def _after(known: History, request: NodeRequest) -> History:
    if request.phase == READY:
        return History()
    if request.phase == PROVISIONING and known.strike is not None and not has_failed(known.strike):
        return replace(known, strike=None)
    if has_failed(request):
        known = replace(known, failures=(*known.failures, request))
    is_same_strike = known.strike is not None and known.strike.status.expires_at == request.status.expires_at
    return replace(known, strike=request) if request.phase == UNMET and not is_same_strike else known


def struck_until(known: History, now: float, settings: Settings) -> float:
    """Until when one more refusal strikes the offering out."""
    strike, shortest = known.strike, settings.unmet_seconds
    if strike is None:
        return now + shortest
    until = unmet_until(strike, now, shortest)
    if until > now:
        return until
    return now + min(2 * strike_seconds(strike, settings), max(shortest, settings.unmet_longest_seconds))


def strike_seconds(strike: NodeRequest, settings: Settings) -> float:
    return max(
        settings.unmet_seconds, unmet_until(strike, strike.changed_at, settings.unmet_seconds) - strike.changed_at
    )


def remembered_seconds(wait_seconds: float) -> float:
    """Two more machines can have failed by then."""
    return FAILURES_THAT_STRIKE * _LONGEST_TRIAL * wait_seconds
