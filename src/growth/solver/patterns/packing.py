"""Which nodes are bought for these rows of pods? Asked by `solver/purchase/solve`: column generation, exact pricing
where it is cheap, rounding.

First it learns (patterns, values of pods, a proof), then it carves (whole nodes). What was learnt about pods whose
zones are left open can be lifted onto rows with zones, see `lifting`. It knows nothing of zones, rooms and names
itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.bound import prove, quick_uppers, sharpen
from growth.solver.patterns.carving import Carving
from growth.solver.patterns.dive import BOLDNESS, dive
from growth.solver.patterns.finish import Finisher
from growth.solver.patterns.generate import Generated, extend, generate, listed
from growth.solver.patterns.mend import mend
from growth.solver.patterns.selection import Selected
from growth.solver.patterns.small import carve_exactly
from growth.solver.purchase.problem import Budget
from growth.solver.purchase.rows import Rows

_DIVE_ROUNDS = 40
_BOLDNESSES = (BOLDNESS, 0.6, 0.1, 0.6, 0.2)
_FEW_NODES = 48
_MUCH_WORK = 800  # simplex iterations of the dives
_NEARLY = 0.002  # above the program's price: no other dive can be much better
_EXACT_ROWS = 64  # beyond that, one exact pricing costs more than a whole round of greedy ones
_DEAR = 10.0  # times any price a pod might be worth: what leaving it out counts as
_NEARLY_USED = 0.99  # of its price: the value of a pattern that is worth keeping
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
    pool: Patterns  # those that the program uses, or nearly uses
    detail: str


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
    small = stock.with_choices(chosen)
    all_there_are = listed(small, selected.fluid)
    if all_there_are is not None:
        generated, uppers = all_there_are
        master = generated.master
        detail = f"{len(stock.count)} rows, {len(chosen)} choices, all {len(master.choices)} patterns"
        return Lesson(
            rows,
            selected,
            generated,
            master.values,
            master.limit_prices,
            uppers,
            master.price,
            no_patterns(rows),
            detail,
        )
    start = known.patterns[usable], position[known.choices[usable]]
    generated = generate(small, selected.fluid, start, budget.pricing_rounds, budget.simplex_iterations, budget.seed)
    return _with_exact_pricing(rows, selected, generated, budget)


def _with_exact_pricing(rows: Rows, selected: Selected, generated: Generated, budget: Budget) -> Lesson:
    """Add patterns that greedy pricing misses, until the program is proven to be near its optimum; keep what proved
    most.
    """
    master, stock, fluid = generated.master, generated.master.stock, selected.fluid
    nothing = np.zeros(stock.need.shape[1])
    best: tuple[FloatArray, FloatArray, FloatArray | None] = master.values, master.limit_prices, None
    proven, pricings, work = 0.0, 0, 0
    while (
        len(stock.count) <= _EXACT_ROWS
        and max(proven, fluid.price) < master.price * (1 - _NEAR)
        and work < budget.exact_iterations
    ):
        quick = quick_uppers(stock, master.values, generated.most, fluid.resource_prices)
        found = sharpen(
            stock, master.values, generated.most, master.limit_prices, quick, budget.exact_iterations - work
        )
        proof = prove(stock, nothing, found.uppers, master.values, master.limit_prices)
        if proof.lower_bound > proven:
            best, proven = (master.values, master.limit_prices, found.uppers), proof.lower_bound
        pricings, work = pricings + found.pricings, work + max(1, found.work)
        if not master.add(found.patterns, found.choices):
            break
        extend(generated, budget.seed + pricings)
    if not proven:
        best = master.values, master.limit_prices, None
    detail = f"{len(stock.count)} rows, {len(stock.price)} choices, {generated.rounds} rounds, {pricings} exact pricings, {len(master.choices)} patterns"
    return Lesson(rows, selected, generated, *best, master.price, _pool(generated, selected), detail)


def _pool(generated: Generated, selected: Selected) -> Patterns:
    master = generated.master
    kept = np.flatnonzero(
        (master.shares > 1e-9)
        | (master.patterns @ master.values >= _NEARLY_USED * master.full_prices()[master.choices])
    )
    return Patterns(master.patterns[kept], selected.choices[master.choices[kept]])


def carve(lesson: Lesson, budget: Budget) -> Packed:
    """The cheapest nodes found for all pods of the rows that the limits let in."""
    stock, chosen = lesson.rows.stock, lesson.selected.choices
    values = lesson.generated.master.values.copy()
    finisher = Finisher(stock, lesson.selected.most, chosen)
    carving = _rounded(lesson, finisher, values, budget)
    if not lesson.generated.rounds and _leaves_something(carving, lesson.price):
        exact = carve_exactly(lesson.generated, _DEAR).on(stock, chosen)
        finisher.shrink(exact)
        carving = min(carving, exact, key=Carving.rank)
    elif carving.times:
        carving = mend(carving, lesson.generated, finisher, values, lesson.price, budget)
    return Packed(*carving.arrays(), carving.left, carving.price)


def _rounded(lesson: Lesson, finisher: Finisher, values: FloatArray, budget: Budget) -> Carving:
    """The best of a few dives; of one, where a dive is a lot of work. Where few nodes do, they may also be built one
    after the other.
    """
    generated, master, stock = lesson.generated, lesson.generated.master, lesson.rows.stock
    found: list[Carving] = []
    if master.shares.sum() <= _FEW_NODES:
        found.append(finisher.finish(Carving(stock, stock.count.copy(), stock.limit_bound.copy()), values))
    began = master.iterations
    for attempt, boldness in enumerate(_BOLDNESSES):
        whole = Carving(master.stock, stock.count.copy(), stock.limit_bound.copy())
        dived = dive(generated, _DIVE_ROUNDS, budget.seed + attempt, whole, boldness)
        found.append(finisher.finish(dived.on(stock, lesson.selected.choices), values))
        finisher.shrink(found[-1])
        if master.iterations - began > _MUCH_WORK or not _leaves_something(found[-1], lesson.price * (1 + _NEARLY)):
            break
    return min(found, key=Carving.rank)


def _leaves_something(carving: Carving, program_price: float) -> bool:
    """Is there anything left to gain?"""
    return bool(carving.left.any()) or carving.price > program_price * (1 + 1e-6)
