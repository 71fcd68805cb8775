"""What would it cost if pods and nodes could be cut at will? A bound for every placement, and the first values of pods.
Asked by `bound`, `generate`.

minimise   Σ price_k y_k
where      Σ_k x_ik >= count_i                      every pod is somewhere
           Σ_i need_ir x_ik <= offer_kr y_k         within what the nodes have
           x_ik <= cap_i y_k                        rows of which a node takes few
           Σ_{i in tally} x_ik <= bound y_k         rows that share such a bound
           limits on y
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import BOUNDLESS, FloatArray, IntArray
from growth.solver.linear import INFINITE, Coefficients, LinearProgram, solve_linear
from growth.solver.patterns.stock import Stock


@dataclass(frozen=True, slots=True)
class Fluid:
    """The optimum of the relaxation and its prices."""

    price: float
    values: FloatArray  # C: what one more pod of a row costs
    limit_prices: FloatArray  # L: what one more unit of a limit saves
    resource_prices: FloatArray  # K × R


def solve_fluid(stock: Stock, dear: FloatArray, free: FloatArray | None = None) -> Fluid:
    """`dear` is what a pod costs that cannot be placed: far above any real value, so that only limits cause it.

    With `free` (R), pods may also go into the rooms, taken as one node that costs nothing and can be cut.
    """
    has_rooms = free is not None and bool((free > 0).any())
    if free is not None and has_rooms:
        stock = _with_rooms(stock, free)
    model = _Model(stock, dear, has_rooms)
    found = solve_linear(model.program())
    duals = found.row_duals
    rows, choices, resources, limits = len(stock.count), len(stock.price), stock.need.shape[1], len(stock.limit_bound)
    first_limit = rows + choices * resources
    fluid = Fluid(
        price=found.objective,
        values=np.maximum(duals[:rows], 0.0),
        limit_prices=np.maximum(-duals[first_limit : first_limit + limits], 0.0) / model.limit_scale,
        resource_prices=np.maximum(-duals[rows:first_limit].reshape(choices, resources), 0.0) / model.scale,
    )
    return _without_rooms(fluid) if has_rooms else fluid


def _with_rooms(stock: Stock, free: FloatArray) -> Stock:
    """The rooms as one more choice, of which there is one."""
    tallies = stock.adds.shape[1]
    use = np.pad(stock.limit_use, ((0, 1), (0, 1)))
    use[-1, -1] = 1.0
    return Stock(
        stock.need, stock.count, stock.cap, np.vstack([stock.offer, np.maximum(free, 0.0)]), np.append(stock.price, 0.0),
        np.vstack([stock.fits, np.ones((1, len(stock.count)), dtype=np.bool_)]), use, np.append(stock.limit_bound, 1.0), stock.adds, stock.bound,
        np.vstack([stock.start_tally, np.zeros((1, tallies))]), np.vstack([stock.start_bound, np.full((1, tallies), BOUNDLESS)]),
    )  # fmt: skip


def _without_rooms(fluid: Fluid) -> Fluid:
    return Fluid(fluid.price, fluid.values, fluid.limit_prices[:-1], fluid.resource_prices[:-1])


def no_fluid(stock: Stock) -> Fluid:
    """When there is nothing to buy."""
    rows, resources = stock.need.shape
    return Fluid(0.0, np.zeros(rows), np.zeros(len(stock.limit_bound)), np.zeros((0, resources)))


class _Model:
    """Rows: pods, resources of each choice, limits, caps of each choice. Columns: nodes, missing pods, pods on choices."""

    def __init__(self, stock: Stock, dear: FloatArray, has_rooms: bool) -> None:
        self.stock, self.dear, self.has_rooms = stock, dear, has_rooms
        self.scale = np.maximum(stock.offer.max(axis=0), 1.0)
        self.limit_scale = np.maximum(stock.limit_use.max(axis=1), 1e-9) if len(stock.limit_bound) else np.ones(0)
        self.choice_of, self.row_of = np.nonzero(stock.fits)
        self.capped = self._bounds()

    def _bounds(self) -> list[tuple[IntArray, float]]:
        """Sets of rows of which a node takes at most so many together."""
        stock = self.stock
        bounds = [
            (np.array([row]), float(stock.cap[row]))
            for row in np.flatnonzero(stock.cap < np.minimum(stock.count, BOUNDLESS))
        ]
        for tally in range(stock.adds.shape[1]):
            members = np.flatnonzero(stock.adds[:, tally] & (stock.bound[:, tally] < BOUNDLESS))
            if len(members):
                bounds.append((members, float(stock.bound[members, tally].max())))
        return bounds

    def program(self) -> LinearProgram:
        stock, rows, choices = self.stock, len(self.stock.count), len(self.stock.price)
        first_limit = rows + choices * stock.need.shape[1]
        first_cap = first_limit + len(stock.limit_bound)
        total_rows, pairs = first_cap + len(self.capped) * choices, len(self.row_of)
        upper = np.zeros(total_rows)
        upper[:rows] = INFINITE
        upper[first_limit:first_cap] = stock.limit_bound / self.limit_scale
        return LinearProgram(
            cost=np.concatenate([stock.price, self.dear, np.zeros(pairs)]),
            upper=np.full(choices + rows + pairs, INFINITE),
            row_lower=np.concatenate([stock.count, np.full(total_rows - rows, -INFINITE)]),
            row_upper=upper,
            coefficients=self._coefficients(first_limit, first_cap),
        )

    def _coefficients(self, first_limit: int, first_cap: int) -> Coefficients:
        stock = self.stock
        rows, choices, resources = len(stock.count), len(stock.price), stock.need.shape[1]
        pairs = choices + rows + np.arange(len(self.row_of))
        parts = [
            (choices + np.arange(rows), np.arange(rows), np.ones(rows)),
            (pairs, self.row_of, np.ones(len(pairs))),
        ]
        for resource in range(resources):
            scaled = stock.need[:, resource] / self.scale[resource]
            asked = scaled[self.row_of] > 0
            parts.append(
                (pairs[asked], rows + self.choice_of[asked] * resources + resource, scaled[self.row_of[asked]])
            )
            parts.append(
                (
                    np.arange(choices),
                    rows + np.arange(choices) * resources + resource,
                    -stock.offer[:, resource] / self.scale[resource],
                )
            )
        limit, choice = np.nonzero(stock.limit_use)
        parts.append((choice, first_limit + limit, stock.limit_use[limit, choice] / self.limit_scale[limit]))
        for number, (members, bound) in enumerate(self.capped):
            first = first_cap + number * choices
            inside = np.isin(self.row_of, members)
            parts.append((pairs[inside], first + self.choice_of[inside], np.ones(int(inside.sum()))))
            bounds = np.full(choices, -bound)
            if self.has_rooms:
                bounds[-1] = -float(stock.count[members].sum())  # rooms are many nodes: they bound nothing together
            parts.append((np.arange(choices), first + np.arange(choices), bounds))
        columns, numbers, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        kept = values != 0
        return Coefficients(numbers[kept], columns[kept], values[kept])
