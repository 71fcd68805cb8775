"""What would it cost if pods and nodes could be cut at will, and which choices are worth a closer look?

    minimise   Σ price_k y_k
    where      Σ_k x_ik >= count_i                      every pod is somewhere
               Σ_i need_ir x_ik <= offer_kr y_k         within what the nodes have
               x_ik <= cap_i y_k                        rows of which a node takes few
               Σ_{i in tally} x_ik <= bound y_k         rows that share such a bound
               limits on y

The optimum is a bound for every placement, and its duals are the first values of pods. Choices that another one beats
are left out. If hundreds remain, the program over a few of all sizes says which others would pay at its values; those
join, until none pays. So four hundred types cost little more than forty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import BOUNDLESS, FloatArray, IntArray
from growth.solver.linear import INFINITE, Coefficients, LinearProgram, solve_linear
from growth.solver.patterns.knapsack import priced_uppers
from growth.solver.patterns.stock import RoomLeft, Stock, without_dominated

_ENDLESS = 2**31 - 1  # iterations: the linear solver's own default
_FEW = 48  # kinds that are looked at together without selecting
_SIZES = 20  # price ranges that are represented at first
_JOINING = 16  # kinds that join in one round
_MOST = 96


@dataclass(frozen=True, slots=True)
class Fluid:
    """The optimum of the relaxation and its prices."""

    price: float
    values: FloatArray  # C: what one more pod of a row costs
    limit_prices: FloatArray  # L: what one more unit of a limit saves
    resource_prices: FloatArray  # K × R


@dataclass(frozen=True, slots=True)
class Selected:
    """The choices that matter, and the fluid program over them."""

    choices: IntArray
    fluid: Fluid
    most: FloatArray  # all K × C


def select(stock: Stock, left_out: FloatArray, rooms: RoomLeft | None = None) -> Selected:
    """`left_out` (C) is the price of leaving out a pod; `rooms` is what rooms have left, where that counts."""
    most = stock.most_on_node()
    firsts = _one_of_each_kind(stock, most)
    if not len(firsts):
        nothing = np.zeros(len(stock.count)), np.zeros(len(stock.limit_bound)), np.zeros((0, stock.need.shape[1]))
        return Selected(firsts, Fluid(0.0, *nothing), most)
    firsts = firsts[without_dominated(stock.with_choices(firsts))]
    chosen = np.arange(len(firsts)) if len(firsts) <= _FEW else _of_all_sizes(stock, firsts, most)
    while True:
        fluid = solve_fluid(stock.with_choices(firsts[chosen]), left_out, rooms)
        uppers = priced_uppers(stock, fluid.values, np.minimum(most, stock.count), fluid.resource_prices)
        ratios = uppers[firsts] / np.maximum(stock.price + fluid.limit_prices @ stock.limit_use, 1e-300)[firsts]
        ratios[chosen] = 0.0
        joining = np.argsort(-ratios, kind="stable")[:_JOINING]
        joining = joining[ratios[joining] > 1 + 1e-6]
        if not len(joining) or len(chosen) > _MOST:
            return Selected(firsts[chosen], fluid, most)
        chosen = np.sort(np.concatenate([chosen, joining]))


def _one_of_each_kind(stock: Stock, most: FloatArray) -> IntArray:
    """The first of those choices that differ in nothing but their names; none of those that hold nothing."""
    kinds: dict[bytes, int] = {}
    for choice in np.flatnonzero(most.any(axis=1)):
        numbers = stock.offer[choice], stock.price[choice : choice + 1], stock.limit_use[:, choice]
        tallies = stock.start_tally[choice], stock.start_bound[choice], np.packbits(stock.fits[choice])
        kinds.setdefault(b"".join(part.tobytes() for part in (*numbers, *tallies)), int(choice))
    return np.array(list(kinds.values()), dtype=np.int64)


def _of_all_sizes(stock: Stock, firsts: IntArray, most: FloatArray) -> IntArray:
    """Some of every price range, and for each row the choice where it is cheapest."""
    chosen: set[int] = set()
    by_price = np.argsort(stock.price[firsts], kind="stable")
    prices = stock.price[firsts][by_price]
    steps = np.geomspace(max(prices[0], 1e-9), max(prices[-1], 2e-9), _SIZES)
    chosen.update(int(by_price[position]) for position in np.minimum(np.searchsorted(prices, steps), len(prices) - 1))
    for row in range(len(stock.count)):
        with np.errstate(divide="ignore"):
            per_pod = stock.price[firsts] / np.minimum(most[firsts, row], stock.count[row])
        per_pod = np.where(most[firsts, row] > 0, per_pod, np.inf)
        cheapest = int(per_pod.argmin())
        if np.isfinite(per_pod[cheapest]):
            chosen.add(cheapest)
    return np.array(sorted(chosen), dtype=np.int64)


def solve_fluid(
    stock: Stock,
    left_out: FloatArray,
    rooms: RoomLeft | None = None,
    held: FloatArray | None = None,
    iterations: int = _ENDLESS,
) -> Fluid:
    """The price of leaving out a pod is far above any real value, so that only limits cause it. Every node of a choice
    holds the pods `held` (K × C) beside what the stock says that it offers. After so many `iterations`, what is known
    by then.

    With `rooms`, pods may also go there, taken as one node that costs nothing and can be cut; of each row no more than
    fits into the rooms one by one."""
    has_rooms = bool(rooms)
    if rooms is not None and has_rooms:
        stock = _with_rooms(stock, rooms)
    none_held = np.zeros((len(stock.price), len(stock.count)))
    if held is not None:
        none_held[: len(held)] = held
    model = _Model(stock, left_out, rooms if has_rooms else None, none_held)
    found = solve_linear(model.program(), simplex_iteration_limit=iterations)
    rows, choices, resources, limits = len(stock.count), len(stock.price), stock.need.shape[1], len(stock.limit_bound)
    first_limit = rows + choices * resources
    values, of_resources, of_limits, _ = np.split(found.row_duals, [rows, first_limit, first_limit + limits])
    limit_prices = np.maximum(-of_limits, 0.0) / model.limit_scale
    resource_prices = np.maximum(-of_resources.reshape(choices, resources), 0.0) / model.scale
    if has_rooms:
        limit_prices, resource_prices = limit_prices[:-1], resource_prices[:-1]
    return Fluid(found.objective, np.maximum(values, 0.0), limit_prices, resource_prices)


def _with_rooms(stock: Stock, rooms: RoomLeft) -> Stock:
    """The rooms as one more choice, of which there is one."""
    tallies = stock.adds.shape[1]
    use = np.pad(stock.limit_use, ((0, 1), (0, 1)))
    use[-1, -1] = 1.0
    return Stock(
        stock.need, stock.count, stock.cap,
        np.vstack([stock.offer, np.maximum(rooms.free, 0.0)]), np.append(stock.price, 0.0),
        np.vstack([stock.fits, (rooms.most > 0)[None]]),
        use, np.append(stock.limit_bound, 1.0), stock.adds, stock.bound,
        np.vstack([stock.start_tally, np.zeros((1, tallies))]),
        np.vstack([stock.start_bound, np.full((1, tallies), BOUNDLESS)]),
    )  # fmt: skip


class _Model:
    """Rows: pods, resources of choices, limits, caps of choices. Columns: nodes, missing pods, pods on choices."""

    def __init__(self, stock: Stock, left_out: FloatArray, rooms: RoomLeft | None, held: FloatArray) -> None:
        self.stock, self.left_out, self.rooms, self.held = stock, left_out, rooms, held
        self.scale = np.maximum(stock.offer.max(axis=0), 1.0)
        self.limit_scale = np.maximum(stock.limit_use.max(axis=1), 1e-9) if len(stock.limit_bound) else np.ones(0)
        self.choice_of, self.row_of = np.nonzero(stock.fits)
        self.capped = self._bounds()

    def _bounds(self) -> list[tuple[IntArray, float]]:
        """Sets of rows of which a node takes at most so many together."""
        stock = self.stock
        capped = np.flatnonzero(stock.cap < np.minimum(stock.count, BOUNDLESS))
        bounds = [(np.array([row]), float(stock.cap[row])) for row in capped]
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
        most = np.full(pairs, INFINITE)
        if self.rooms is not None:
            of_rooms = self.choice_of == choices - 1
            most[of_rooms] = self.rooms.most[self.row_of[of_rooms]]
        return LinearProgram(
            cost=np.concatenate([stock.price, self.left_out, np.zeros(pairs)]),
            upper=np.concatenate([np.full(choices + rows, INFINITE), most]),
            row_lower=np.concatenate([stock.count, np.full(total_rows - rows, -INFINITE)]),
            row_upper=upper,
            coefficients=self._coefficients(first_limit, first_cap),
        )

    def _coefficients(self, first_limit: int, first_cap: int) -> Coefficients:
        stock = self.stock
        rows, choices, resources = len(stock.count), len(stock.price), stock.need.shape[1]
        each = np.arange(choices)
        pairs = choices + rows + np.arange(len(self.row_of))
        parts = [  # columns, rows, values
            (choices + np.arange(rows), np.arange(rows), np.ones(rows)),
            (pairs, self.row_of, np.ones(len(pairs))),
        ]
        holder, row = np.nonzero(self.held)
        parts.append((holder, row, self.held[holder, row]))
        for resource in range(resources):
            scaled = stock.need[:, resource] / self.scale[resource]
            asked = scaled[self.row_of] > 0
            first = rows + resource
            parts.append((pairs[asked], first + self.choice_of[asked] * resources, scaled[self.row_of[asked]]))
            parts.append((each, first + each * resources, -stock.offer[:, resource] / self.scale[resource]))
        limit, choice = np.nonzero(stock.limit_use)
        parts.append((choice, first_limit + limit, stock.limit_use[limit, choice] / self.limit_scale[limit]))
        for number, (members, bound) in enumerate(self.capped):
            first = first_cap + number * choices
            inside = np.isin(self.row_of, members)
            parts.append((pairs[inside], first + self.choice_of[inside], np.ones(int(inside.sum()))))
            bounds = np.full(choices, -bound)
            if self.rooms is not None:
                bounds[-1] = -float(stock.count[members].sum())  # rooms are many nodes: they bound nothing together
            parts.append((each, first + each, bounds))
        columns, numbers, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        kept = values != 0
        return Coefficients(numbers[kept], columns[kept], values[kept])
