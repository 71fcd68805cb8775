"""Which pods must stand on one node with others? Asked before anything else is packed: affinity with the node as its
domain.

Such a class goes where those it wants to be near stand already. If they stand nowhere, a node is opened for the first
of the group, large enough for the whole group if there is such a choice; or one of those it waits for is put onto a new
node together with its share of the class."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import IntArray
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.layout import Layout


def sticks_together(layout: Layout, index: int) -> bool:
    """Does the class have to share a node with others, or with its own?"""
    return any(layout.tally_key[tally] < 0 for tally in layout.rules[index].affinity)


def place_together(bins: Bins, remaining: IntArray) -> IntArray:
    """Place classes that must share nodes, and those of their companions that go with them; returns what remains of all
    classes.
    """
    layout = bins.layout
    remaining = remaining.copy()
    waiting = [int(index) for index in np.flatnonzero(remaining) if sticks_together(layout, int(index))]
    for index in sorted(
        waiting, key=lambda index: (bool(layout.is_virtual[index]), -layout.shapes[index].priority, index)
    ):
        while remaining[index] and (_beside_others(bins, index, remaining) or _onto_new_node(bins, index, remaining)):
            pass
    return remaining


def _beside_others(bins: Bins, index: int, remaining: IntArray) -> bool:
    space = bins.space(index)
    if not space.any():
        return False
    best = int(space.argmax())
    taken = min(int(space[best]), int(remaining[index]), 1 if bins.layout.spreads[index] else int(remaining[index]))
    bins.put(index, best, taken)
    remaining[index] -= taken
    return True


def _onto_new_node(bins: Bins, index: int, remaining: IntArray) -> bool:
    """Open the node that takes most of the class; of equals, the cheapest."""
    layout = bins.layout
    companion = _companion(bins, index, remaining)
    if companion is None:
        return False
    share = int(remaining[index])
    first = layout.need[companion] if companion != index else np.zeros_like(layout.need[index])
    if companion != index:
        share = -(-share // int(remaining[companion]))
    need = layout.need[index]
    asked = np.flatnonzero(need)
    room = layout.offer - first
    fitting = np.minimum((np.maximum(room[:, asked], 0) // need[asked]).min(axis=1), share)
    fitting[(room < 0).any(axis=1) | ~layout.fits[index] | ~layout.fits[companion] | (bins.openable() <= 0)] = 0
    fitting[(bins.area_space(companion, layout.choice_domain) <= 0)] = 0
    level = layout.level.astype(np.int64)
    for choice in np.lexsort(
        (np.arange(len(fitting)), layout.price, ~_holds_group(bins, index, remaining), -fitting, level)
    ):
        if fitting[choice] > 0 and _try(bins, int(choice), index, companion, share, remaining):
            return True
    return False


def _holds_group(bins: Bins, index: int, remaining: IntArray) -> IntArray:
    """Choices with room for all that must stand there together."""
    layout = bins.layout
    group = [
        other
        for other in np.flatnonzero(remaining)
        if set(layout.rules[other].affinity) & set(layout.rules[index].affinity)
    ]
    total = (layout.need[group] * remaining[group][:, None]).sum(axis=0)
    return np.asarray((layout.offer >= total).all(axis=1))


def _companion(bins: Bins, index: int, remaining: IntArray) -> int | None:
    """A class that it waits for and that still has pods: with one of them beside it, it may stand there whoever comes
    first. Else itself, if it may begin.
    """
    rules = bins.layout.rules[index]
    for other in np.flatnonzero(remaining):
        if (
            other != index
            and all(tally in bins.layout.rules[other].adds for tally in rules.affinity)
            and not bins.layout.rules[other].affinity
        ):
            return int(other)
    begins = rules.is_first_of_its_kind and not any(bins.tally[: bins.size, tally].any() for tally in rules.affinity)
    return index if begins else None


def _try(bins: Bins, choice: int, index: int, companion: int, share: int, remaining: IntArray) -> bool:
    """Open a node and see whether the rules agree; if not, it stays empty and is not bought."""
    number = bins.open(choice)
    if companion != index:
        if bins.space(companion)[number] <= 0:
            bins.close_last()
            return False
        bins.put(companion, number, 1)
    taken = min(int(bins.space(index)[number]), share)
    if taken <= 0:
        if companion != index:
            bins.take_out(companion, number, 1)
        bins.close_last()
        return False
    bins.put(index, number, taken)
    remaining[index] -= taken
    if companion != index:
        remaining[companion] -= 1
    return True
