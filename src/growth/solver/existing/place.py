"""How many of these pods find room on the nodes that exist? Asked where nothing is to be bought and no reasons are
wanted: by the buffers, for their virtual pods.

The greedy stage of `solver/purchase/solve` alone: every rule holds, full nodes are filled up first, and the answer
takes a fraction of the time."""

from __future__ import annotations

from msgspec import Struct

from growth.solver.purchase.bins import Bins
from growth.solver.purchase.drafting import lay_out
from growth.solver.purchase.greedy import place_all
from growth.solver.purchase.level import take_back_excess
from growth.solver.purchase.problem import Placement, PlacementProblem


class ExistingPlacement(Struct, frozen=True):
    """Which pods go where; `left` are counts without room, by demand class."""

    placements: tuple[Placement, ...] = ()
    left: tuple[tuple[int, int], ...] = ()


def place_on_existing(problem: PlacementProblem) -> ExistingPlacement:
    """Onto the nodes of the problem; what could be bought is not looked at."""
    layout = lay_out(problem)
    bins = Bins(layout)
    left_over = place_all(bins, layout.count)
    taken_back = take_back_excess(bins)
    if taken_back.any():
        left_over = place_all(bins, left_over + taken_back)
        left_over = left_over + take_back_excess(bins)
    hands = [[[demand, problem.demands[demand].count] for demand in members] for members in layout.members]
    placements = []
    for number in range(bins.rooms):
        room = int(layout.room_index[number])
        for index, count in sorted(bins.contents[number].items()):
            placements += [Placement(demand, room, taken) for demand, taken in _deal(hands[index], count)]
    left = [dealt for index in range(len(hands)) for dealt in _deal(hands[index], int(left_over[index]))]
    return ExistingPlacement(tuple(sorted(placements, key=lambda one: (one.room, one.demand))), tuple(sorted(left)))


def _deal(hand: list[list[int]], count: int) -> list[tuple[int, int]]:
    """So many of the demand classes that a class was made of."""
    dealt = []
    while count:
        demand, held = hand[-1]
        taken = min(held, count)
        dealt.append((demand, taken))
        count -= taken
        hand[-1][1] -= taken
        if not hand[-1][1]:
            hand.pop()
    return dealt
