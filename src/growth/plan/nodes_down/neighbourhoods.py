"""Which nodes are worth asking about together? Asked by replacement before it asks the solver: a few guesses, each
answered in full there.

A node wastes what it costs beyond the price of its content, put as a fraction onto the machine that suits it best.
Small and large pods fit together better than either alone, so of those that waste about the same some are drawn, others
each time: by a checksum, not by chance.

| guess | finds |
| --- | --- |
| single nodes that waste most | one node for a cheaper one, or for several small ones |
| as many of one kind as may go, and half as many | many for many of another kind |
| as many as may go, whatever their kind | several small ones for a large one, and what is left |
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from growth.model.resources import PODS
from growth.plan.world.nodes import Kind
from growth.solver.arrays import FloatArray
from growth.solver.existing.exchange import Leaving
from growth.solver.purchase.problem import Choice, DemandClass

MOST_TOGETHER: Final = 100
_MOST_GUESSES: Final = 10
_KINDS: Final = 3
_BUCKETS: Final = 5

Guess = tuple[int, ...]


def neighbourhoods(
    leaving: Sequence[Leaving],
    demands: Sequence[DemandClass],
    choices: Sequence[Choice],
    left: Mapping[str, int],
    above_minimum: Mapping[Kind, int],
    draw: int,
) -> tuple[Guess, ...]:
    """At most as many of a pool as `left`, and of a kind as `above_minimum`; `draw` numbers the draws."""
    waste = _waste(leaving, demands, choices)
    share = waste / np.array([max(each.price_per_hour, 1e-9) for each in leaving])
    lots = [zlib.crc32(f"{draw}/{each.room}".encode()) for each in leaving]
    order = sorted(range(len(leaving)), key=lambda index: (-int(share[index] * _BUCKETS), lots[index]))
    by_kind: dict[Kind, list[int]] = {}
    for index in order:
        by_kind.setdefault((leaving[index].pool, leaving[index].offering), []).append(index)
    dearest = sorted(by_kind.values(), key=lambda some: (-sum(waste[some]), leaving[some[0]].offering))[:_KINDS]
    most_wasteful = sorted(range(len(leaving)), key=lambda index: (-waste[index], leaving[index].room))[:2]
    guesses = [_within([index], leaving, left, above_minimum) for index in (*most_wasteful, order[0])]
    for some in (*dearest, order):
        whole = _within(some, leaving, left, above_minimum)
        guesses += [whole, whole[: (len(whole) + 1) // 2]]
    return tuple(dict.fromkeys(tuple(sorted(guess)) for guess in guesses if guess))[:_MOST_GUESSES]


def _within(
    some: Iterable[int], leaving: Sequence[Leaving], left: Mapping[str, int], above_minimum: Mapping[Kind, int]
) -> Guess:
    """The first of them that may go together."""
    pools, kinds, found = dict(left), dict(above_minimum), list[int]()
    for index in some:
        pool, kind = leaving[index].pool, (leaving[index].pool, leaving[index].offering)
        if len(found) < MOST_TOGETHER and pools.get(pool, 0) > 0 and kinds.get(kind, 0) > 0:
            pools[pool] -= 1
            kinds[kind] -= 1
            found.append(index)
    return tuple(found)


def _waste(leaving: Sequence[Leaving], demands: Sequence[DemandClass], choices: Sequence[Choice]) -> FloatArray:
    prices = np.array([each.price_per_hour for each in leaving])
    asked = [demand.shape.requests for demand in demands]
    names = sorted({name for each in asked for name, amount in each.items() if amount > 0 and name != PODS})
    if not choices or not names:
        return prices
    needs, nothing = (
        np.array([[each[name] for name in names] for each in asked], dtype=np.float64),
        np.zeros(len(names)),
    )
    content = np.array([sum((needs[index] * count for index, count in each.contents), nothing) for each in leaving])
    fair = np.full(len(leaving), np.inf)
    for offering in (choice.offering for choice in choices):
        amounts = np.array([max(offering.allocatable[name], 1e-3) for name in names])
        fair = np.minimum(fair, offering.price_per_hour * (content / amounts).max(axis=1))
    wasted: FloatArray = np.maximum(prices - fair, 0.0)
    return wasted
