"""Which nodes are bought for these rows of pods? Asked by `solver/solve`: column generation, exact pricing where it is cheap, rounding.

First it learns (patterns, values of pods, a proof), then it carves (whole nodes). What was learnt about pods whose zones are left open can be lifted
onto rows with zones, see `lifting`. It knows nothing of zones, rooms and names itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.bound import prove, quick_uppers, sharpen
from growth.solver.dive import dive
from growth.solver.finish import Finisher
from growth.solver.generate import Generated, extend, generate
from growth.solver.layout import FloatArray, IntArray
from growth.solver.problem import Budget
from growth.solver.rows import Rows
from growth.solver.selection import Selected

_DIVE_ROUNDS = 40
_EXACT_ROWS = 64  # beyond that, one exact pricing costs more than a whole round of greedy ones
_EXACT_PRICINGS = 40
_NEAR = 0.003  # of the program's price: a bound nearer than that is near enough


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns (n × C) and the choice of each, by the numbers of the whole stock."""

    patterns: FloatArray
    choices: IntArray


@dataclass(frozen=True, slots=True)
class Lesson:
    """What column generation found out about rows, with the values that proved most."""

    rows: Rows
    selected: Selected
    generated: Generated
    values: FloatArray  # C
    limit_prices: FloatArray  # L
    uppers: FloatArray | None  # K': what a node of each selected choice can hold at these values, if that was found out
    price: float  # of the program: nodes cut at will, over the patterns found
    detail: str

    def pool(self) -> Patterns:
        """Patterns that the program uses, or nearly uses."""
        master = self.generated.master
        kept = np.flatnonzero((master.shares > 1e-9) | (master.patterns @ master.values >= 0.995 * master.full_prices()[master.choices]))
        return Patterns(master.patterns[kept], self.selected.choices[master.choices[kept]])


@dataclass(frozen=True, slots=True)
class Packed:
    """Nodes in groups of equals, and what found no place."""

    patterns: FloatArray  # n × C
    choices: IntArray  # n, of the whole stock
    times: IntArray  # n
    left: FloatArray  # C
    price: float


def no_patterns(rows: Rows) -> Patterns:
    return Patterns(np.zeros((0, len(rows.stock.count))), np.zeros(0, dtype=np.int64))


def learn(rows: Rows, selected: Selected, known: Patterns, budget: Budget) -> Lesson:
    """Patterns and values for these rows, beginning with the patterns known."""
    stock, chosen = rows.stock, selected.choices
    position = np.full(len(stock.price), -1, dtype=np.int64)
    position[chosen] = np.arange(len(chosen))
    usable = position[known.choices] >= 0
    start = known.patterns[usable], position[known.choices[usable]]
    generated = generate(stock.with_choices(chosen), selected.fluid, start, budget.pricing_rounds, budget.simplex_iterations, budget.seed)
    return _with_exact_pricing(rows, selected, generated, budget)


def _with_exact_pricing(rows: Rows, selected: Selected, generated: Generated, budget: Budget) -> Lesson:
    """Add patterns that greedy pricing misses, until the program is proven to be near its optimum; keep what proved most."""
    master, stock, fluid = generated.master, generated.master.stock, selected.fluid
    nothing = np.zeros(stock.need.shape[1])
    best: tuple[FloatArray, FloatArray, FloatArray | None] = master.values, master.limit_prices, None
    proven, pricings = 0.0, 0
    while len(stock.count) <= _EXACT_ROWS and max(proven, fluid.price) < master.price * (1 - _NEAR) and pricings < _EXACT_PRICINGS:
        quick = quick_uppers(stock, master.values, generated.most, fluid.resource_prices)
        found = sharpen(stock, master.values, generated.most, master.limit_prices, quick, _EXACT_PRICINGS - pricings)
        proof = prove(stock, nothing, found.uppers, master.values, master.limit_prices)
        if proof.lower_bound > proven:
            best, proven = (master.values, master.limit_prices, found.uppers), proof.lower_bound
        pricings += max(1, found.pricings)
        if not master.add(found.patterns, found.choices):
            break
        extend(generated, budget.seed + pricings)
    if not proven:
        best = master.values, master.limit_prices, None
    detail = f"{len(stock.count)} rows, {len(stock.price)} choices, {generated.rounds} rounds, {pricings} exact pricings, {len(master.choices)} patterns"
    return Lesson(rows, selected, generated, *best, master.price, detail)


def carve(lesson: Lesson, budget: Budget) -> Packed:
    """The cheapest nodes found for all pods of the rows that the limits let in."""
    stock, chosen = lesson.rows.stock, lesson.selected.choices
    values = lesson.generated.master.values.copy()
    finisher = Finisher(stock, lesson.selected.most, chosen)
    carving = finisher.finish(dive(lesson.generated, _DIVE_ROUNDS, budget.seed).on(stock, chosen), values)
    finisher.shrink(carving)
    return Packed(*carving.arrays(), carving.left, carving.price)
