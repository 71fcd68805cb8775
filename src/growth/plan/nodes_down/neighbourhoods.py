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
from growth.solver.arrays import FloatArray
from growth.solver.existing.exchange import Leaving
from growth.solver.purchase.problem import Choice, DemandClass

MOST_TOGETHER: Final = 100
_MOST_GUESSES: Final = 10
_KINDS: Final = 3
_BUCKETS: Final = 5

Kind = tuple[str, str]
Guess = tuple[int, ...]


def neighbourhoods(
    leaving: Sequence[Leaving],
    demands: Sequence[DemandClass],
    choices: Sequence[Choice],
    left: Mapping[str, int],
    spare: Mapping[Kind, int],
    turn: int,
) -> tuple[Guess, ...]:
    """At most as many of a pool as `left`, and of a kind as `spare`; `turn` draws others each time."""
    waste = _waste(leaving, demands, choices)
    share = waste / np.array([max(each.price_per_hour, 1e-9) for each in leaving])
    order = sorted(
        range(len(leaving)),
        key=lambda index: (-int(share[index] * _BUCKETS), zlib.crc32(f"{turn}/{leaving[index].room}".encode())),
    )
    by_kind: dict[Kind, list[int]] = {}
    for index in order:
        by_kind.setdefault((leaving[index].pool, leaving[index].offering), []).append(index)
    dearest = sorted(by_kind.values(), key=lambda some: (-sum(waste[some]), leaving[some[0]].offering))[:_KINDS]
    most_wasteful = sorted(range(len(leaving)), key=lambda index: (-waste[index], leaving[index].room))[:2]
    guesses = [_within([index], leaving, left, spare) for index in (*most_wasteful, order[0])]
    for some in (*dearest, order):
        whole = _within(some, leaving, left, spare)
        guesses += [whole, whole[: (len(whole) + 1) // 2]]
    return tuple(dict.fromkeys(tuple(sorted(guess)) for guess in guesses if guess))[:_MOST_GUESSES]


def _within(
    some: Iterable[int], leaving: Sequence[Leaving], left: Mapping[str, int], spare: Mapping[Kind, int]
) -> Guess:
    """The first of them that may go together."""
    pools, kinds, found = dict(left), dict(spare), list[int]()
    for index in some:
        pool, kind = leaving[index].pool, (leaving[index].pool, leaving[index].offering)
        if len(found) < MOST_TOGETHER and pools.get(pool, 0) > 0 and kinds.get(kind, 0) > 0:
            pools[pool] -= 1
            kinds[kind] -= 1
            found.append(index)
    return tuple(found)


def _waste(leaving: Sequence[Leaving], demands: Sequence[DemandClass], choices: Sequence[Choice]) -> FloatArray:
    prices = np.array([each.price_per_hour for each in leaving])
    names = sorted(
        {name for demand in demands for name, amount in demand.shape.requests.items() if amount > 0 and name != PODS}
    )
    if not choices or not names:
        return prices
    needs = np.array([[demand.shape.requests[name] for name in names] for demand in demands], dtype=np.float64)
    content = np.array(
        [sum((needs[index] * count for index, count in each.contents), np.zeros(len(names))) for each in leaving]
    )
    offers = np.array(
        [[max(choice.offering.allocatable[name], 1e-3) for name in names] for choice in choices], dtype=np.float64
    )
    costs = np.array([choice.offering.price_per_hour for choice in choices])
    fair: FloatArray = np.min(
        [cost * (content / offer).max(axis=1) for cost, offer in zip(costs, offers, strict=True)], axis=0
    )
    wasted: FloatArray = np.maximum(prices - fair, 0.0)
    return wasted
