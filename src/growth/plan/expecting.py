"""Do we see yet what we have ordered? Asked by scale-up before it plans again.

A NodeRequest that was accepted must be seen before the next plan, or the same pods would be bought for twice: a cache may lag, or be filled
anew from an older list. What is not seen after a while was deleted at once by somebody, or never will be seen; then planning goes on.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.model.noderequest import NodeRequestSpec
from growth.model.snapshot import Snapshot

PATIENCE_SECONDS: Final = 30.0


class Awaited(Struct, frozen=True):
    """An accepted order, and how many equal ones were known when it was made."""

    spec: NodeRequestSpec
    at: float
    known: int


def with_order(awaited: tuple[Awaited, ...], spec: NodeRequestSpec, snapshot: Snapshot) -> tuple[Awaited, ...]:
    known = _count(spec, snapshot) + sum(1 for each in awaited if each.spec == spec)
    return (*awaited, Awaited(spec, snapshot.now, known))


def still_awaited(awaited: tuple[Awaited, ...], snapshot: Snapshot) -> tuple[Awaited, ...]:
    now = snapshot.now
    return tuple(each for each in awaited if each.at <= now < each.at + PATIENCE_SECONDS and _count(each.spec, snapshot) <= each.known)


def _count(spec: NodeRequestSpec, snapshot: Snapshot) -> int:
    return sum(1 for request in snapshot.requests.values() if request.spec == spec)
