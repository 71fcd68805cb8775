"""Where does every pod go, and what is bought for it, as cheaply as can be? Asked by scale-up, what-if, consolidation and `growth plan`."""

from __future__ import annotations

import numpy as np

from growth.solver.answer import price_of, write_answer
from growth.solver.bins import Bins
from growth.solver.drafting import lay_out
from growth.solver.greedy import place_all
from growth.solver.problem import PlacementProblem, PlacementSolution, Stage


def solve(problem: PlacementProblem) -> PlacementSolution:
    """The cheapest placement found within the problem's budget, with its proof."""
    layout = lay_out(problem)
    bins = Bins(layout)
    left_over = place_all(bins, np.asarray(layout.count))
    return write_answer(bins, left_over, 0.0, (Stage("greedy", price_of(bins)),))
