"""Which nodes are bought for this stock? Column generation, exact pricing where it is cheap, then rounding.

`relax` finds patterns and values of pods, with nodes cut at will; `pack` makes whole nodes of that. What was found for
pods that may go to any zone can be repeated for rows with zones, see `solver/purchase/zones`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.patterns.bound import prove
from growth.solver.patterns.dive import BOLDNESS, Finisher, Packing, dive, repack
from growth.solver.patterns.fluid import Selected
from growth.solver.patterns.generate import Generated, extend, generate, generate_all
from growth.solver.patterns.knapsack import priced_uppers, sharpen
from growth.solver.patterns.stock import Budget, Patterns, RoomLeft, Stock

_DIVE_ROUNDS = 40
_BOLDNESSES = (BOLDNESS, 0.6, 0.1, 0.6, 0.2)
_FEW_NODES = 48
_MUCH_WORK = 800  # simplex iterations of the dives
_NEARLY = 0.002  # above the program's price: no other dive can be much better
_EXACT_ROWS = 64  # beyond that, one exact pricing costs more than a whole round of greedy ones
_DEAR = 10.0  # times any price a pod might be worth: what leaving it out counts as
_NEARLY_USED = 0.99  # of its price: the value of a pattern that is worth keeping
_SEARCH_NODES = 300
_NEAR = 0.003  # of the program's price: a bound nearer than that is near enough


@dataclass(frozen=True, slots=True)
class Values:
    """What pods and limits are worth, and what a node of each selected choice can hold then, if that was found out."""

    of_rows: FloatArray  # C
    of_limits: FloatArray  # L
    uppers: FloatArray | None  # K'


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The cheapest nodes if they could be cut, over the patterns found, and the values of pods that proved most."""

    stock: Stock
    selected: Selected
    generated: Generated
    values: Values
    hopeful: Values | None  # that may prove more, but a budget ended before that was known
    price: float
    used: Patterns  # those that the program uses, or nearly uses, by the numbers of the whole stock
    detail: str


def relax(stock: Stock, selected: Selected, known: Patterns, budget: Budget) -> Relaxation:
    """Patterns and values for the stock, beginning with the patterns known."""
    chosen = selected.choices
    small = stock.with_choices(chosen)
    everything = generate_all(small, selected.fluid)
    if everything is not None:
        generated, uppers = everything
        master = generated.master
        detail = f"{len(stock.count)} rows, {len(chosen)} choices, all {len(master.choices)} patterns"
        best = Values(master.values, master.limit_prices, uppers)
        none_kept = Patterns(np.zeros((0, len(stock.count))), np.zeros(0, dtype=np.int64))
        return Relaxation(stock, selected, generated, best, None, master.price, none_kept, detail)
    position = np.full(len(stock.price), -1, dtype=np.int64)
    position[chosen] = np.arange(len(chosen))
    usable = position[known.choices] >= 0
    start = Patterns(known.contents[usable], position[known.choices[usable]])
    generated = generate(small, selected.fluid, start, budget.pricing_rounds, budget.simplex_iterations, budget.seed)
    return _with_exact_pricing(stock, selected, generated, budget)


def _with_exact_pricing(whole: Stock, selected: Selected, generated: Generated, budget: Budget) -> Relaxation:
    """Add patterns that greedy pricing misses, until the program is proven to be near its optimum; keep the values that
    proved most.
    """
    master, stock, fluid = generated.master, generated.master.stock, selected.fluid
    best, hopeful = Values(master.values, master.limit_prices, None), None
    proven, pricings, work = 0.0, 0, 0
    most = np.minimum(generated.most, stock.count)
    while (
        len(stock.count) <= _EXACT_ROWS
        and max(proven, fluid.price) < master.price * (1 - _NEAR)
        and work < budget.exact_iterations
    ):
        quick = priced_uppers(stock, master.values, most, fluid.resource_prices)
        found = sharpen(stock, master.values, most, master.limit_prices, quick, budget.exact_iterations - work)
        proof = prove(stock, RoomLeft.none(stock), found.uppers, master.values, master.limit_prices)
        values = Values(master.values, master.limit_prices, found.uppers)
        hopeful = values if master.price > max(proven, proof.lower_bound) * found.excess * (1 + _NEAR) else None
        if proof.lower_bound > proven:
            best, proven = values, proof.lower_bound
        pricings, work = pricings + found.pricings, work + max(1, found.work)
        if not master.add(found.patterns):
            break
        extend(generated, budget.seed + pricings)
    sizes = f"{len(stock.count)} rows, {len(stock.price)} choices, {generated.rounds} rounds"
    detail = f"{sizes}, {pricings} exact pricings, {len(master.choices)} patterns"
    worth = master.patterns @ master.values >= _NEARLY_USED * master.full_prices()[master.choices]
    kept = np.flatnonzero((master.shares > 1e-9) | worth)
    used = Patterns(master.patterns[kept], selected.choices[master.choices[kept]])
    return Relaxation(whole, selected, generated, best, hopeful, master.price, used, detail)


def pack(relaxed: Relaxation, budget: Budget) -> Packing:
    """The cheapest nodes found for all pods that the limits let in."""
    stock, chosen = relaxed.stock, relaxed.selected.choices
    values = relaxed.generated.master.values.copy()
    finisher = Finisher(stock, relaxed.selected.most, chosen)
    packing = _best_dive(relaxed, finisher, values, budget)
    if not relaxed.generated.rounds and _leaves_something(packing, relaxed.price):
        exact = _pack_exactly(relaxed.generated).on(stock, chosen)
        finisher.shrink(exact)
        return min(packing, exact, key=Packing.rank)
    if packing.times:
        return repack(packing, relaxed.generated, finisher, values, relaxed.price, budget)
    return packing


def _best_dive(relaxed: Relaxation, finisher: Finisher, values: FloatArray, budget: Budget) -> Packing:
    """The best of a few dives; of one, where a dive is a lot of work. Where few nodes do, they may also be built one
    after the other.
    """
    generated, master, stock = relaxed.generated, relaxed.generated.master, relaxed.stock
    found: list[Packing] = []
    if master.shares.sum() <= _FEW_NODES:
        found.append(finisher.finish(Packing(stock, stock.count.copy(), stock.limit_bound.copy()), values))
    began = master.iterations
    for attempt, boldness in enumerate(_BOLDNESSES):
        whole = Packing(master.stock, stock.count.copy(), stock.limit_bound.copy())
        dived = dive(generated, _DIVE_ROUNDS, budget.seed + attempt, whole, boldness)
        found.append(finisher.finish(dived.on(stock, relaxed.selected.choices), values))
        finisher.shrink(found[-1])
        if master.iterations - began > _MUCH_WORK or not _leaves_something(found[-1], relaxed.price * (1 + _NEARLY)):
            break
    return min(found, key=Packing.rank)


def _leaves_something(packing: Packing, program_price: float) -> bool:
    """Is there anything left to gain?"""
    return bool(packing.left.any()) or packing.price > program_price * (1 + 1e-6)


def _pack_exactly(generated: Generated) -> Packing:
    """The cheapest nodes over all patterns there are."""
    master, stock = generated.master, generated.master.stock
    packing = Packing(stock, stock.count.copy(), stock.limit_bound.copy())
    patterns = Patterns(master.patterns, master.choices)
    for number, times in enumerate(choose_exactly(stock, patterns, generated.highest * _DEAR)):
        for _ in range(int(times)):
            pattern, choice = np.minimum(master.patterns[number], packing.left), int(master.choices[number])
            if pattern.any() and packing.how_often(choice) >= 1:
                packing.take(pattern, choice, 1)
    return packing


def choose_exactly(stock: Stock, patterns: Patterns, left_out: FloatArray) -> IntArray:
    """How many nodes of each pattern are cheapest, if a pod of each row that is left out costs `left_out`."""
    rows, limits, count = len(stock.count), len(stock.limit_bound), len(patterns.choices)
    scale = np.maximum(stock.limit_use.max(axis=1, initial=0.0), 1e-9)
    covered = np.hstack([patterns.contents.T, np.eye(rows)])
    used = np.hstack([stock.limit_use[:, patterns.choices] / scale[:, None], np.zeros((limits, rows))])
    program = LinearProgram(
        cost=np.concatenate([stock.price[patterns.choices], left_out]),
        upper=np.concatenate([np.full(count, float(stock.count.sum())), stock.count]),
        row_lower=np.concatenate([stock.count, np.full(limits, -INFINITE)]),
        row_upper=np.concatenate([np.full(rows, INFINITE), stock.limit_bound / scale * (1 + 1e-9)]),
        coefficients=coefficients_of(np.vstack([covered, used])),
        is_integer=True,
    )
    found = solve_linear(program, mip_rel_gap=1e-6, mip_max_nodes=_SEARCH_NODES, presolve="on").columns
    if len(found) != count + rows:
        return np.zeros(count, dtype=np.int64)
    return np.round(found[:count]).astype(np.int64)
