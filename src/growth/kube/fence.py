"""May this write leave now? Asked when a write begins, and again at every place where it may have waited: for its turn,
for credentials, for a thread.

| it may not, when | because |
| --- | --- |
| the lease was not renewed in time | another process may lead |
| its work began in an earlier term | another process may have done it meanwhile |
| it should have left by now (`leaving_within`) | what it was decided on may have changed |

A write that leaves in time must also end before another process can lead: `seconds_left` bounds it. Terms and times
belong to the work that asks, whichever task or thread does it (context variables). Knows no Lease: `kube/election.py`
opens and closes the fence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_TERM: Final[ContextVar[int | None]] = ContextVar("the term in which this work began", default=None)
_LEAVES_BY: Final = ContextVar("the time by which its writes must have left", default=math.inf)


class Fence:
    """Closed until somebody opens it. A few numbers, so any thread may ask."""

    def __init__(self, monotonic: Callable[[], float], gap_seconds: float = 5.0) -> None:
        self.term = 0  # grows each time leadership is won
        self._monotonic = monotonic
        self._until = -math.inf
        self._gap_seconds = gap_seconds  # between our last moment and another's first

    def holds(self) -> bool:
        now = self._monotonic()
        return now < self._until and now <= _LEAVES_BY.get() and _TERM.get() in (None, self.term)

    def seconds_left(self) -> float:
        """How long a write that leaves now may take."""
        return max(0.0, self._until + self._gap_seconds - self._monotonic())

    def enter_term(self) -> None:
        """From now on this task, and what it begins, belongs to the term of now."""
        _TERM.set(self.term)

    @contextmanager
    def leaving_within(self, seconds: float) -> Iterator[None]:
        """What is written inside leaves so soon, or not at all."""
        token = _LEAVES_BY.set(self._monotonic() + seconds)
        try:
            yield
        finally:
            _LEAVES_BY.reset(token)

    def extend(self, until: float) -> None:
        if self._monotonic() >= self._until:
            self.term += 1
        self._until = until

    def close(self) -> None:
        self._until = -math.inf


class OpenFence(Fence):
    """Without an election there is nobody else to lead."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__(monotonic)
        self.extend(math.inf)


def belong_to_no_term() -> None:
    """From now on this task serves every term: it tells what happened, and decides nothing."""
    _TERM.set(None)
    _LEAVES_BY.set(math.inf)
