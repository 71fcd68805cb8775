"""On which of these machines do so many equal pods go? The cheapest places first, each place dearer by its slope. Asked
wherever counts become machines.
"""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray, IntArray

_HALVINGS = 30


def fill(first: FloatArray, slope: FloatArray, room: IntArray, count: int, rank: FloatArray | None = None) -> IntArray:
    """How many on each, `count` in all or as many as there is room for. `rank` decides between equal costs, then the
    order of machines.
    """
    count = min(count, int(room.sum()))
    if count <= 0:
        return np.zeros(len(room), np.int64)
    if not slope.any():
        return _one_after_the_other(np.lexsort((first if rank is None else rank, first)), room, count)
    open_to_it = np.flatnonzero(room > 0)
    if len(open_to_it) > count:  # no machine beyond the `count` cheapest gets any
        open_to_it = np.sort(open_to_it[np.argpartition(first[open_to_it], count - 1)[:count]])
    taken = np.zeros(len(room), np.int64)
    taken[open_to_it] = _level(first[open_to_it], slope[open_to_it], room[open_to_it], count)
    return taken


def _level(first: FloatArray, slope: FloatArray, room: IntArray, count: int) -> IntArray:
    """All places up to a certain cost, and as many of the next as are missing."""
    low, high = float(first.min()) - 1.0, float((first + slope * room).max()) + 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if int(_below(middle, first, slope, room).sum()) >= count:
            high = middle
        else:
            low = middle
    taken = _below(low, first, slope, room)
    extra = _below(high, first, slope, room) - taken
    return taken + _one_after_the_other(
        np.argsort(first + slope * taken, kind="stable"), extra, count - int(taken.sum())
    )


def _below(level: float, first: FloatArray, slope: FloatArray, room: IntArray) -> IntArray:
    """How many places of each machine cost at most this."""
    steep = np.maximum(slope, 1e-9)
    below: IntArray = np.clip(np.floor((level - first) / steep) + 1, 0, room).astype(np.int64)
    return below


def _one_after_the_other(order: IntArray, room: IntArray, count: int) -> IntArray:
    taken = np.zeros(len(room), np.int64)
    before = np.cumsum(room[order]) - room[order]
    taken[order] = np.clip(count - before, 0, room[order])
    return taken
