"""Is any planned node larger than it need be? Asked by `solver/purchase/solve` when all pods are placed: each node
becomes the cheapest that holds its content.

A node stays in its zone if any of its pods cares about zones, and among choices of equal priority and equal daemons.
"""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import BoolArray
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.layout import Layout


def make_cheaper(bins: Bins) -> None:
    """Exchange the choices of planned nodes for cheaper ones that hold the same."""
    known: dict[tuple[object, ...], int] = {}
    for number in range(bins.rooms, bins.size):
        content = bins.contents[number]
        if not content:
            continue
        choice = int(bins.choice[number])
        name = (choice, *sorted(content.items()))
        cheaper = known.get(name, -1)
        if cheaper < 0 or (cheaper != choice and bins.openable()[cheaper] < 1):
            cheaper = known[name] = _cheapest(bins, number)
        if cheaper != choice:
            bins.exchange(number, cheaper)


def _cheapest(bins: Bins, number: int) -> int:
    layout, choice = bins.layout, int(bins.choice[number])
    able = could_become(bins, number) & (layout.price < layout.price[choice] - 1e-12)
    for candidate in sorted(np.flatnonzero(able), key=lambda able: (layout.price[able], able)):
        if layout.daemons[candidate] == layout.daemons[choice]:
            return int(candidate)
    return choice


def could_become(bins: Bins, number: int) -> BoolArray:
    """Choices that hold what a planned node holds, as long as their daemons are the same. Its own is among them only if
    one more may be bought.
    """
    layout, choice = bins.layout, int(bins.choice[number])
    classes = list(bins.contents[number])
    used = layout.offer[choice] - bins.left[number]
    able = (
        (layout.offer >= used).all(axis=1) & layout.fits[classes].all(axis=0) & (layout.level == layout.level[choice])
    )
    return np.asarray(able & _same_zone(layout, classes, choice) & (bins.openable() >= 1))


def _same_zone(layout: Layout, classes: list[int], choice: int) -> BoolArray:
    cares = any(layout.tally_key[tally] >= 0 for index in classes for tally in _tallies(layout, index))
    if not cares:
        return np.ones(len(layout.price), dtype=np.bool_)
    return np.asarray((layout.choice_domain == layout.choice_domain[:, choice, None]).all(axis=0))


def _tallies(layout: Layout, index: int) -> tuple[int, ...]:
    rules = layout.rules[index]
    return (
        *rules.adds,
        *rules.affinity,
        *(bound.tally for bound in rules.anti),
        *(view.rule.tally for view in layout.spreads[index]),
    )
