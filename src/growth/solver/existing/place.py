"""How many of these pods find room on the nodes that exist? Asked where nothing is to be bought and no reasons are
wanted: by the buffers, for their virtual pods.

The greedy stage of `solver/purchase/solve` alone: every rule holds, full nodes are filled up first, and the answer
takes a fraction of the time."""

from __future__ import annotations

from msgspec import Struct

from growth.solver.purchase.answer import Dealer
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.greedy import place_by_rules
from growth.solver.purchase.layout import lay_out
from growth.solver.purchase.problem import Placement, PlacementProblem


class ExistingPlacement(Struct, frozen=True):
    """Which pods go where; `left` are counts without room, by demand class."""

    placements: tuple[Placement, ...] = ()
    left: tuple[tuple[int, int], ...] = ()


def place_on_existing(problem: PlacementProblem) -> ExistingPlacement:
    """Onto the nodes of the problem; what could be bought is not looked at."""
    layout = lay_out(problem)
    bins = Bins(layout)
    left_over = place_by_rules(bins, layout.count)
    dealer = Dealer(layout)
    placements = dealer.placements(bins)
    left = dealer.deal({index: int(count) for index, count in enumerate(left_over)})
    return ExistingPlacement(placements, left)
