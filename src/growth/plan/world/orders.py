"""Do we see yet what we have ordered? Asked by scale-up, replacement and renewal before they plan again.

A NodeRequest that was accepted, or may have been, must be seen before the next plan, or the same pods would be bought
for twice: a cache may lag, or be filled anew from an older list. Time alone says nothing: while the API server is away,
nothing is seen. Only what a cache lacks that was proved whole some time after the order was deleted at once by
somebody, or never made; then planning goes on."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.model.noderequest import NodeRequestSpec
from growth.model.outcome import Accepted, Outcome, Unknown
from growth.model.snapshot import Snapshot

PATIENCE_SECONDS: Final = 30.0  # with an order that was accepted
DOUBT_SECONDS: Final = 10.0  # with one of unknown fate: long enough for a watch to show what a lost answer did


class Awaited(Struct, frozen=True):
    """An order, how many equal ones were known when it was made, and how much later a cache must be whole to say that
    it is not there.
    """

    spec: NodeRequestSpec
    at: float
    known: int
    seconds: float = PATIENCE_SECONDS


def must_show(outcome: Outcome) -> bool:
    return isinstance(outcome, Accepted | Unknown)


def with_order(
    awaited: tuple[Awaited, ...], spec: NodeRequestSpec, outcome: Outcome, snapshot: Snapshot
) -> tuple[Awaited, ...]:
    """The snapshot is that of the plan, and its time that of the answer."""
    known = _count(spec, snapshot) + sum(1 for each in awaited if each.spec == spec)
    return (
        *awaited,
        Awaited(spec, snapshot.now, known, DOUBT_SECONDS if isinstance(outcome, Unknown) else PATIENCE_SECONDS),
    )


def still_awaited(awaited: tuple[Awaited, ...], snapshot: Snapshot) -> tuple[Awaited, ...]:
    proved_at = snapshot.now - snapshot.requests_age_seconds
    return tuple(
        each
        for each in awaited
        if each.at <= snapshot.now and proved_at < each.at + each.seconds and _count(each.spec, snapshot) <= each.known
    )


def _count(spec: NodeRequestSpec, snapshot: Snapshot) -> int:
    return sum(1 for request in snapshot.requests.values() if request.spec == spec)
