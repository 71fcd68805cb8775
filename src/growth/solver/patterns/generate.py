"""Which patterns are worth buying, and how many nodes of each, if nodes could be cut? Column generation: price patterns
at the values of pods, solve the program over them, take its values, repeat.

    minimise   Σ price_p x_p + Σ penalty_i missing_i
    where      Σ_p pattern_pi x_p + missing_i >= count_i,   Σ_p use_lp x_p <= bound_l

A row may stay uncovered for a penalty a little above its value: that keeps the values within a box while there are few
patterns, and is raised where it still pays in the end. What this program costs is no bound for the problem: patterns
may be missing. Rounds are counted, never timed; it stops early when the program is near the bound or nothing new is
found.

Patterns are priced by a greedy knapsack (`fill_nodes`, also asked by rounding), all nodes side by side: a row is
measured by the largest share it takes of what is *left* on the node, so that a node fills evenly in all its resources.
A little noise in the values gives other good mixes of the same node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import BOUNDLESS, BoolArray, FloatArray, IntArray
from growth.solver.linear import (
    DEVEX,
    DUAL_SIMPLEX,
    INFINITE,
    PRIMAL_SIMPLEX,
    Coefficients,
    LinearProgram,
    LinearSolver,
)
from growth.solver.patterns.fluid import Fluid
from growth.solver.patterns.knapsack import all_full_patterns
from growth.solver.patterns.stock import NodeTallies, Patterns, Stock

_NEAR = 0.004  # of the bound: rounding costs more than what is left to gain
_BOX = 0.15  # how far above its first value a row may be priced while patterns are few
# of the price of the node's share it takes: what a row costs to leave out even if it would fit into what others leave
_LEAST = 0.1
_TINY = 1e-3
_SMOOTHING = 0.3  # share of the first values in those that patterns are priced at
_NODES_AT_ONCE = 24_000  # nodes × rows that one pricing round works on
_NOISE = (0.03, 0.06, 0.12, 0.24, 0.5)  # in the logarithm of values: little for the best mixes, much for others
_BY_SUM = (0.0, 1.0, 0.0, 4.0)  # how much the sum of shares counts beside the largest, in turns
_PATIENCE = 8  # rounds without progress
_TRACE = 1e-6
# times the price of a node of its own: beyond that, limits leave the row uncovered, and no penalty helps
_HIGHEST = 30.0
_LAST_ROUNDS = 8
_EXTRA_ROUNDS = 4
MOST_LISTED = 300


@dataclass(frozen=True, slots=True)
class Generated:
    """The program over all patterns found, and how it came about."""

    master: Master
    most: FloatArray  # K × C
    highest: FloatArray  # C: penalties beyond that mean that limits leave a row uncovered
    least: FloatArray  # C: what a pod counts for that has no value because it fits into what others leave
    rounds: int

    def worths(self) -> FloatArray:
        """Values to fill nodes by: no pod is worth nothing, or it would be left out where there is room for it."""
        return np.maximum(self.master.values, self.least)


def generate(stock: Stock, fluid: Fluid, known: Patterns, rounds: int, iterations: int, seed: int) -> Generated:
    """Patterns for `stock`, beginning with those `known` and the values of `fluid`."""
    most, least = np.minimum(stock.most_on_node(), stock.count), _LEAST * _cheapest_share(stock)
    master = Master(stock, np.maximum(fluid.values * (1 + _BOX), least) + 1e-9)
    master.add(known)
    pricing = _Pricing(stock, most, seed)
    highest = _highest(stock, fluid)
    price = master.solve(after_new_patterns=False)
    smoothing, stale, done = _SMOOTHING, 0, 0
    while done < rounds and master.iterations <= iterations and stale <= _PATIENCE:
        done += 1
        values = smoothing * fluid.values + (1 - smoothing) * master.values
        found = master.add(pricing.patterns(values, master.values, master.full_prices()))
        uncovered = np.flatnonzero((master.missing > _TRACE) & (master.penalties < highest))
        is_raised = len(uncovered) and (found < 5 or done % 5 == 0)
        if is_raised:
            master.raise_penalties(uncovered, 1.4)
        if not found and not is_raised:
            smoothing, stale = smoothing * 0.6, stale + 2
            continue
        before, price = price, master.solve(after_new_patterns=True)
        stale = 0 if before > price * 1.0002 or is_raised else stale + 1
        if price <= fluid.price * (1 + _NEAR) and not (master.missing > _TRACE).any():
            break
    generated = Generated(master, most, highest, least * _TINY, done)
    if (master.missing > _TRACE).any():
        extend(generated, seed)
    return generated


def generate_all(stock: Stock, fluid: Fluid) -> tuple[Generated, FloatArray] | None:
    """The program over all patterns there are, with the most that each choice can hold at its values; None if they are
    too many to list.
    """
    most = np.minimum(stock.most_on_node(), stock.count)
    patterns = all_full_patterns(stock, most, MOST_LISTED)
    if patterns is None:
        return None
    highest = _highest(stock, fluid)
    master = Master(stock, highest + 1e-9)
    master.add(patterns)
    master.solve(after_new_patterns=False)
    uppers = np.zeros(len(stock.price))
    np.maximum.at(uppers, patterns.choices, patterns.contents @ master.values)
    return Generated(master, most, highest, _LEAST * _TINY * _cheapest_share(stock), 0), uppers


def _cheapest_share(stock: Stock) -> FloatArray:
    """What a pod of each row costs where it is cheapest, by its largest share of a node."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nanmax(stock.need[None] / stock.offer[:, None], axis=2)
        price = share * stock.price[:, None]
    return np.asarray(np.where(stock.fits, price, np.inf).min(axis=0, initial=1e9))


def _highest(stock: Stock, fluid: Fluid) -> FloatArray:
    """How far the penalty of each row may be raised."""
    full = stock.price + fluid.limit_prices @ stock.limit_use
    alone = np.where(stock.fits, full[:, None], np.inf).min(axis=0, initial=np.inf)
    return np.where(np.isfinite(alone), _HIGHEST * (alone + fluid.values), 0.0)


def _solve_covered(master: Master, highest: FloatArray) -> None:
    """Solve after new patterns; where a row would rather pay its penalty than be covered, the penalty is raised."""
    master.solve(after_new_patterns=True)
    for _ in range(_LAST_ROUNDS):
        uncovered = np.flatnonzero((master.missing > _TRACE) & (master.penalties < highest))
        if not len(uncovered):
            break
        master.raise_penalties(uncovered, 2.0)
        master.solve(after_new_patterns=True)


class _Pricing:
    """Draws patterns for all choices at once, each choice in several variants."""

    def __init__(self, stock: Stock, most: FloatArray, seed: int) -> None:
        self.stock, self.most = stock, most
        self.random = np.random.default_rng(seed)
        usable = np.flatnonzero(most.any(axis=1))
        self.variants = int(np.clip(_NODES_AT_ONCE // max(1, len(usable) * len(stock.count)), 2, 40))
        self.choices = np.tile(usable, self.variants)
        self.round = 0

    def patterns(self, values: FloatArray, at: FloatArray, full_prices: FloatArray) -> Patterns:
        """Patterns priced at `values` that pay at the values `at`."""
        strengths = [_NOISE[(self.round + number) % len(_NOISE)] for number in range(self.variants - 1)]
        self.round += self.variants - 1
        each = len(self.choices) // max(1, self.variants)
        strength = np.repeat([0.0, *strengths], each)[:, None]
        noise = strength * self.random.standard_normal((len(self.choices), len(values)))
        by_sum = np.repeat(np.resize(_BY_SUM, self.variants), each)
        found = fill_nodes(self.stock, self.choices, values * np.exp(noise), self.most[self.choices], by_sum=by_sum)
        pays = found @ at > full_prices[self.choices] * (1 + 1e-6)
        return Patterns(found[pays], self.choices[pays])


def extend(generated: Generated, seed: int) -> None:
    """A few more greedy rounds, with every row covered, after patterns were added from elsewhere or penalties kept rows
    from being covered.
    """
    master = generated.master
    pricing = _Pricing(master.stock, generated.most, seed)
    _solve_covered(master, generated.highest)
    for _ in range(_EXTRA_ROUNDS):
        if not master.add(pricing.patterns(master.values, master.values, master.full_prices())):
            break
        _solve_covered(master, generated.highest)


class Master:
    """The program over the patterns found so far; each solve begins where the last one ended."""

    def __init__(self, stock: Stock, penalties: FloatArray) -> None:
        self.stock = stock
        self.rows, self.limits = len(stock.count), len(stock.limit_bound)
        self.scale = np.maximum(stock.limit_use.max(axis=1), 1e-9) if self.limits else np.ones(0)
        self.penalties = penalties.copy()
        self._kept = np.zeros((256, self.rows))  # grows by doubling: patterns come a few at a time
        self.choices: IntArray = np.zeros(0, dtype=np.int64)
        self.iterations = 0
        self._seen: set[bytes] = set()
        self._solver = LinearSolver(self._without_patterns(), simplex_dual_edge_weight_strategy=DEVEX)

    def _without_patterns(self) -> LinearProgram:
        lower, upper = self._row_bounds(self.stock.count, self.stock.limit_bound)
        each = np.arange(self.rows)
        missing = Coefficients(each, each, np.ones(self.rows))
        return LinearProgram(self.penalties, np.full(self.rows, INFINITE), lower, upper, missing)

    def _row_bounds(self, counts: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower = np.concatenate([counts, np.full(self.limits, -INFINITE)])
        return lower, np.concatenate([np.full(self.rows, INFINITE), limits / self.scale])

    def add(self, found: Patterns) -> int:
        """Patterns that are not known yet; returns how many were new."""
        fresh = [
            number
            for number, (content, choice) in enumerate(zip(found.contents, found.choices, strict=True))
            if self._is_new(content, int(choice))
        ]
        if not fresh:
            return 0
        patterns, choices = found.contents[fresh], found.choices[fresh]
        number, row = np.nonzero(patterns)
        used_by, limit = np.nonzero(self.stock.limit_use[:, choices].T)
        used = self.stock.limit_use[limit, choices[used_by]] / self.scale[limit]
        added = Coefficients(
            rows=np.concatenate([row, self.rows + limit]),
            columns=np.concatenate([number, used_by]),
            values=np.concatenate([patterns[number, row], used]),
        )
        self._solver.add_columns(self.stock.price[choices], added)
        size = len(fresh)
        known = len(self.choices)
        while len(self._kept) < known + size:
            self._kept = np.concatenate([self._kept, np.zeros_like(self._kept)])
        self._kept[known : known + size] = patterns
        self.choices = np.concatenate([self.choices, choices])
        return size

    @property
    def patterns(self) -> FloatArray:
        """Patterns × rows, in the order they were added."""
        return self._kept[: len(self.choices)]

    def _is_new(self, pattern: FloatArray, choice: int) -> bool:
        name = choice.to_bytes(4, "little") + pattern.astype(np.int32).tobytes()
        if name in self._seen:
            return False
        self._seen.add(name)
        return True

    def set_counts(self, counts: FloatArray, limit_left: FloatArray) -> None:
        """Go on with what is left of the pods and of the limits."""
        self._solver.set_row_bounds(*self._row_bounds(counts, np.maximum(limit_left, 0.0)))

    def raise_penalties(self, rows: IntArray, factor: float) -> None:
        for row in rows:
            self.penalties[row] *= factor
            self._solver.set_cost(int(row), float(self.penalties[row]))

    def solve(self, after_new_patterns: bool) -> float:
        """The price of the program now: new patterns keep the old basis primal feasible, new counts dual feasible."""
        found = self._solver.run(simplex_strategy=PRIMAL_SIMPLEX if after_new_patterns else DUAL_SIMPLEX)
        self.iterations += found.iterations
        columns, duals = found.columns, found.row_duals
        self.missing: FloatArray = np.maximum(columns[: self.rows], 0.0)
        self.shares: FloatArray = np.maximum(columns[self.rows :], 0.0)
        self.values: FloatArray = np.maximum(duals[: self.rows], 0.0)
        self.limit_prices: FloatArray = np.maximum(-duals[self.rows :], 0.0) / self.scale
        self.price = found.objective
        return self.price

    def full_prices(self) -> FloatArray:
        """What a node of each choice costs, limits included."""
        full: FloatArray = self.stock.price + self.limit_prices @ self.stock.limit_use
        return full


_CHUNK = 0.5  # of what would fit is taken at once, so that large counts take few steps


def fill_nodes(
    stock: Stock,
    choices: IntArray,
    values: FloatArray,
    most: FloatArray,
    held: FloatArray | None = None,
    by_sum: FloatArray | None = None,
) -> FloatArray:
    """Nodes × rows: what the nodes of these choices hold in the end, beside what they hold already.

    `values` and `most` (how many of a row may be added) are nodes × rows. `by_sum` (for each node) is how much the sum
    of all shares counts beside the largest."""
    filling = _Filling(stock, choices, values, most, held, by_sum)
    while filling.step():
        pass
    return filling.added


class _Filling:
    """The nodes that still take something; those that are full are dropped from all arrays."""

    def __init__(
        self, stock: Stock, choices: IntArray, values: FloatArray, most: FloatArray,
        held: FloatArray | None, by_sum: FloatArray | None,
    ) -> None:  # fmt: skip
        self.stock = stock
        self.by_sum = None if by_sum is None else by_sum[:, None]
        rows = np.flatnonzero((most > 0).any(axis=0) & (values > 0).any(axis=0))
        self.rows = rows
        self.need = stock.need[rows]
        self.columns = [np.ascontiguousarray(self.need[:, resource]) for resource in range(self.need.shape[1])]
        self.added = np.zeros((len(choices), len(stock.count)))
        self.alive = np.arange(len(choices))
        self.left = stock.offer[choices] - (0.0 if held is None else held @ stock.need)
        self.values = values[:, rows]
        self.most = most[:, rows].copy()
        self.tallies = NodeTallies(stock, choices, rows, held) if stock.adds.shape[1] else None
        if self.tallies is not None:
            self.tallies.restrict(self.most)

    def step(self) -> bool:
        """Add the best row to every node that takes one; False when none does."""
        if not len(self.rows) or not len(self.alive):
            return False
        share, size = self._shares()
        score = np.where((share <= 1.0) & (self.most > 0), self.values / np.maximum(size, 1e-30), 0.0)
        best = score.argmax(axis=1)
        nodes = np.arange(len(best))
        takes = score[nodes, best] > 0
        if not takes.all():
            if not takes.any():
                return False
            best, share = best[takes], share[takes]
            self._keep(takes)
            nodes = np.arange(len(best))
        self._add(nodes, best, share[nodes, best])
        return True

    def _shares(self) -> tuple[FloatArray, FloatArray]:
        """The largest share of what is left, and what counts as the size of a row."""
        left = np.maximum(self.left, 1e-9)  # amounts are whole, so nothing fits there
        share = self.columns[0] / left[:, :1]
        total = share.copy()
        for resource in range(1, len(self.columns)):
            part = self.columns[resource] / left[:, resource : resource + 1]
            np.maximum(share, part, out=share)
            if self.by_sum is not None:
                total += part
        return share, share if self.by_sum is None else share + self.by_sum * total

    def _keep(self, takes: BoolArray) -> None:
        self.alive, self.left = self.alive[takes], self.left[takes]
        self.values, self.most = self.values[takes], self.most[takes]
        if self.by_sum is not None:
            self.by_sum = self.by_sum[takes]
        if self.tallies is not None:
            self.tallies.keep(takes)

    def _add(self, nodes: IntArray, best: IntArray, share: FloatArray) -> None:
        fitting = np.floor(1.0 / np.maximum(share, 1.0 / BOUNDLESS) + 1e-9)
        need = self.need[best]
        fitting -= (fitting[:, None] * need > self.left).any(axis=1)  # the quotient may have been rounded up
        count = np.minimum(np.maximum(np.floor(fitting * _CHUNK), 1.0), self.most[nodes, best])
        self.added[self.alive, self.rows[best]] += count
        self.most[nodes, best] -= count
        self.left -= count[:, None] * need
        if self.tallies is not None:
            self.tallies.count(nodes, best, count)
            self.tallies.restrict(self.most)
