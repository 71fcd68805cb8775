"""What would Hetzner's invoice say? Asked by tests and demos: every server from its creation to its deletion, running
or not.

Started hours are billed whole, up to the price of a month; the IPv4 address comes on top for as long as the server
lives."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from msgspec import Struct

from growth.sim.cloud.hetzner.assortment import HOURS_OF_A_MONTH

_HOUR: Final = 3600.0
_MONTH: Final = 730 * _HOUR


class Bill(Struct):
    """One server's life."""

    server_id: int
    name: str
    request: str  # the UID of the NodeRequest it was bought for
    price_per_hour: float
    began_at: float
    ended_at: float | None = None

    def amount(self, now: float) -> float:
        seconds = (now if self.ended_at is None else self.ended_at) - self.began_at
        months, rest = divmod(max(0.0, seconds), _MONTH)
        hours = max(1, math.ceil(rest / _HOUR)) if rest or not months else 0
        return self.price_per_hour * (months * HOURS_OF_A_MONTH + min(hours, HOURS_OF_A_MONTH))


class Meter:
    """Everything that was ever bought."""

    def __init__(self) -> None:
        self.bills: dict[int, Bill] = {}

    def begin(self, bill: Bill) -> None:
        self.bills[bill.server_id] = bill

    def end(self, server_id: int, now: float) -> None:
        bill = self.bills[server_id]
        if bill.ended_at is None:
            bill.ended_at = now

    def running(self) -> list[Bill]:
        return [bill for bill in self.bills.values() if bill.ended_at is None]

    def price_per_hour(self) -> float:
        return sum(bill.price_per_hour for bill in self.running())

    def amount_due(self, now: float) -> float:
        return sum(bill.amount(now) for bill in self.bills.values())

    def duplicates(self) -> list[str]:
        """Requests that ever paid for two servers at the same time."""
        by_request: dict[str, list[Bill]] = {}
        for bill in self.bills.values():
            by_request.setdefault(bill.request, []).append(bill)
        return [
            request for request, bills in by_request.items() if _overlap(sorted(bills, key=lambda bill: bill.began_at))
        ]


def _overlap(bills: list[Bill]) -> bool:
    return any(first.ended_at is None or first.ended_at > second.began_at for first, second in pairwise(bills))
