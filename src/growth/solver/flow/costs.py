"""What does a place on a machine cost, and which places are the cheapest? The three cost models. Asked by the network
(its steps) and wherever counts of pods become machines.

| part | cost |
| --- | --- |
| `spread` | `loadCost` × how many pods of mean size are there with the new one: rising with every pod |
| `pack` | `loadCost` × how many more would have fitted into the machine: falling the fuller it is |
| `cheapest` | nothing on a machine that is kept; on an empty one `priceCost` × its price per hour × the pod's share |
| soft taint | `softTaintCost` for each PreferNoSchedule taint that is not tolerated |
| preference | `preferenceCost` × its weight where it is not met |
| unscheduled | more than any way to a machine, and `waitingCost` for each minute of waiting |

A higher priority is priced beyond all of this: it goes first. In `spread` the first pod on an empty machine of mean
size costs one `loadCost`, the second two. Machines of other sizes cost by their share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from growth.model.scheduler import SchedulerSettings
from growth.solver.arrays import FloatArray, IntArray, Mask

PRICED_MINUTES: Final = 60  # of waiting; whoever has waited longer goes first in any case
_COARSE_MINUTES: Final = 15  # so exactly longer waits are told apart
_LEVELS: Final = 64  # steps of a class of machines; more would not change where pods go
_FEW_STEPS: Final = 4_000  # so many are counted one by one


@dataclass(frozen=True, slots=True)
class LoadCosts:
    """How full and how dear the machines are at this moment, and which share of each the mean pod takes."""

    settings: SchedulerSettings
    load: FloatArray  # N
    unit: FloatArray  # N
    scale: float  # pods of mean size on a machine of mean size
    upkeep: FloatArray  # N: price per hour of keeping the machine for the pods to come

    @property
    def height(self) -> float:
        """The cost of a whole machine."""
        return self.settings.load_cost * self.scale

    def first(self, share: FloatArray, load: FloatArray, numbers: IntArray | slice = slice(None)) -> FloatArray:
        """What a pod that takes this share costs on each machine."""
        if self.settings.cost_model == "spread":
            return self.height * (load + share)
        if self.settings.cost_model == "pack":
            return self.height * (1.0 - load)
        return self.settings.price_cost * self.upkeep[numbers] * share

    def slope(self, share: FloatArray) -> FloatArray:
        """How much dearer the next one is."""
        return self.height * share if self.settings.cost_model == "spread" else np.zeros(len(share))

    def steps(self, class_of: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The ways from classes of machines to the sink: class, width, cost. Machines of class -1 are left out."""
        often = np.floor((1.0 - self.load) / np.maximum(self.unit, 1e-12) + 1e-9)
        slots = np.where((class_of >= 0) & (self.unit > 0), often, 0).astype(np.int64)
        used = np.flatnonzero(slots > 0)
        owners, slots, load, unit = class_of[used], slots[used], self.load[used], self.unit[used]
        if self.settings.cost_model != "spread":
            return _merged(owners, slots, self._flat(used))
        if int(slots.sum()) <= _FEW_STEPS:
            machine = np.repeat(np.arange(len(used)), slots)
            which = np.arange(len(machine)) - np.repeat(np.cumsum(slots) - slots, slots) + 1
            costs = self.height * (load[machine] + which * unit[machine])
            return _merged(owners[machine], np.ones(len(machine), np.int64), costs)
        return self._graded(owners, slots, load, unit)

    def _flat(self, used: IntArray) -> FloatArray:
        """All steps of one machine cost the same."""
        costs = self.first(self.unit[used], self.load[used], used)
        top = float(costs.max(initial=0.0))
        return costs if len(np.unique(costs)) <= _LEVELS else np.ceil(costs * _LEVELS / top) * top / _LEVELS

    def _graded(
        self, owners: IntArray, slots: IntArray, load: FloatArray, unit: FloatArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """So many steps that only their grade counts."""
        classes = int(owners.max()) + 1
        widths, before = np.zeros((_LEVELS, classes), np.int64), np.zeros(classes, np.int64)
        for level in range(_LEVELS):
            within = np.clip(np.floor(((level + 1) / _LEVELS - load) / unit + 1e-9), 0, slots)
            until = np.bincount(owners, weights=within, minlength=classes).astype(np.int64)
            widths[level], before = until - before, until
        levels, owned = np.nonzero(widths)
        return owned, widths[levels, owned], np.rint(self.height * (levels + 1) / _LEVELS).astype(np.int64)


def _merged(owners: IntArray, widths: IntArray, costs: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Steps of one class and one cost are one step."""
    whole = np.rint(costs).astype(np.int64)
    pairs, inverse = np.unique(np.stack((owners, whole)), axis=1, return_inverse=True)
    width = np.bincount(np.asarray(inverse).reshape(-1), weights=widths, minlength=pairs.shape[1]).astype(np.int64)
    kept = width > 0
    return pairs[0][kept], width[kept], pairs[1][kept]


def load_costs(
    settings: SchedulerSettings, load: FloatArray, unit: FloatArray, is_open: Mask, upkeep: FloatArray
) -> LoadCosts:
    """`is_open` marks the machines that may be used: only they make the mean."""
    usable = unit[is_open & (unit > 0) & (unit < 1e6)]
    scale = float((1.0 / usable).mean()) if len(usable) else 1.0
    return LoadCosts(settings, load, unit, scale, upkeep)


def minutes_waited(seconds: float) -> int:
    """Whole minutes; after an hour quarters of an hour."""
    minutes = max(0, int(seconds // 60))
    return minutes if minutes < PRICED_MINUTES else minutes - minutes % _COARSE_MINUTES


def price_of_waiting(settings: SchedulerSettings, minutes: Iterable[int]) -> IntArray:
    """What leaving a pod out costs more for the time it has waited."""
    return settings.waiting_cost * np.minimum(np.array(tuple(minutes), np.int64), PRICED_MINUTES)


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
    taken = np.zeros(len(room), np.int64)
    if count == 1:
        taken[open_to_it[np.argmin(first[open_to_it])]] = 1
        return taken
    if len(open_to_it) > count:  # no machine beyond the `count` cheapest gets any
        open_to_it = np.sort(open_to_it[np.argpartition(first[open_to_it], count - 1)[:count]])
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
