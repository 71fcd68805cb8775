"""How does a packing read as an answer? Asked at the end of `solver/purchase/solve`: counts of classes go back to the
demand classes they were made of.
"""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.problem import Pattern, Placement, PlacementSolution, PlannedNode, Proof, Stage, Unplaced
from growth.solver.purchase.unplaced import why_unplaced


def write_answer(
    bins: Bins,
    left_over: IntArray,
    proof: Proof,
    lower_bound: float,
    stages: tuple[Stage, ...],
    patterns: tuple[Pattern, ...],
) -> PlacementSolution:
    """The solution of what stands in the bins; `left_over` pods of each class found no place."""
    layout = bins.layout
    dealer = _Dealer(layout)
    placements = []
    for room in range(bins.rooms):
        contents = dealer.deal(bins.contents[room])
        placements += [Placement(demand, int(layout.room_index[room]), count) for demand, count in contents]
    nodes = [
        PlannedNode(int(layout.choice_index[bins.choice[number]]), dealer.deal(bins.contents[number]))
        for number in planned(bins)
    ]
    unplaced = []
    for index in np.flatnonzero(left_over):
        reasons = why_unplaced(bins, int(index))
        unplaced += [
            Unplaced(demand, count, reasons) for demand, count in dealer.deal({int(index): int(left_over[index])})
        ]
    return PlacementSolution(
        "IncompletePlacement" if unplaced else "AllPlaced",
        placements=tuple(sorted(placements, key=lambda one: (one.room, one.demand))),
        nodes=tuple(nodes),
        unplaced=tuple(sorted(unplaced, key=lambda one: one.demand)),
        price_per_hour=price_of(bins),
        lower_bound=lower_bound,
        stages=stages,
        proof=proof,
        patterns=patterns,
    )


def write_proof(layout: Layout, values: FloatArray, limit_prices: FloatArray) -> Proof:
    """The values of classes as those of the demand classes they were made of."""
    of_demand = [0.0] * len(layout.problem.demands)
    for index, members in enumerate(layout.members):
        for demand in members:
            of_demand[demand] = float(values[index])
    return Proof(tuple(of_demand), tuple(float(price) for price in limit_prices))


def planned(bins: Bins) -> list[int]:
    """Planned nodes that hold something."""
    return [number for number in range(bins.rooms, bins.size) if bins.contents[number]]


def price_of(bins: Bins) -> float:
    """What the planned nodes cost, their price of existence included."""
    return float(sum(float(bins.layout.price[bins.choice[number]]) for number in planned(bins)))


class _Dealer:
    """Hands out the demand classes of a class, one after the other."""

    def __init__(self, layout: Layout) -> None:
        self._hands = [
            [[demand, layout.problem.demands[demand].count] for demand in members] for members in layout.members
        ]

    def deal(self, counts: dict[int, int]) -> tuple[tuple[int, int], ...]:
        dealt: dict[int, int] = {}
        for index, wanted in sorted(counts.items()):
            hand, missing = self._hands[index], wanted
            while missing:
                demand, left = hand[-1]
                taken = min(left, missing)
                dealt[demand] = dealt.get(demand, 0) + taken
                missing -= taken
                hand[-1][1] -= taken
                if not hand[-1][1]:
                    hand.pop()
        return tuple(sorted(dealt.items()))
