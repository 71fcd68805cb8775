"""Which pod goes where, now that the solver has counted? Asked by scale-up with the solver's answer.

The answer speaks of classes and counts; here the pods behind each class are dealt out, the oldest first: into rooms,
onto nodes to buy, and what is left is unplaced. An order that would break a limit is not made, whatever the answer
says."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.plan.nodes_up.demand import Demand
from growth.plan.world.limits import Allowance
from growth.plan.world.orders import Purchases
from growth.solver.purchase.problem import Choice, PlacementProblem, PlacementSolution, Room

MOST_PLANNED_PODS: Final = 1000  # on one request: the bound of its API

Hand = tuple[Demand, ...]


class Dealt(Struct, frozen=True):
    """The answer, with names."""

    orders: tuple[tuple[Choice, Hand], ...] = ()
    into_rooms: tuple[tuple[Room, Hand], ...] = ()
    unplaced: tuple[tuple[Demand, tuple[str, ...]], ...] = ()
    allowances: tuple[Allowance, ...] = ()  # what these orders leave


def deal(
    problem: PlacementProblem, classes: tuple[Hand, ...], solution: PlacementSolution, purchases: Purchases
) -> Dealt:
    return _Dealer(problem, classes, purchases).deal(solution)


class _Dealer:
    def __init__(self, problem: PlacementProblem, classes: tuple[Hand, ...], purchases: Purchases) -> None:
        self._problem = problem
        self._stock = [list(reversed(hand)) for hand in classes]  # the oldest is taken first
        self._purchases = purchases
        self._refused: dict[int, list[str]] = {}

    def deal(self, solution: PlacementSolution) -> Dealt:
        into: dict[int, list[Demand]] = {}
        for placement in solution.placements:
            into.setdefault(placement.room, []).extend(self._take(placement.demand, placement.count))
        orders = []
        for node in solution.nodes:
            choice = self._problem.choices[node.choice]
            why_not = self._purchases.add(choice)
            if why_not:
                for index, _ in node.contents:
                    self._refused.setdefault(index, []).append(why_not)
                continue
            hand = [demand for index, count in node.contents for demand in self._take(index, count)]
            orders.append((choice, tuple(hand)))
        rooms = tuple((self._problem.rooms[index], tuple(hand)) for index, hand in sorted(into.items()) if hand)
        return Dealt(tuple(orders), rooms, self._left_over(solution), self._purchases.left)

    def _take(self, index: int, count: int) -> list[Demand]:
        stock = self._stock[index]
        return [stock.pop() for _ in range(min(count, len(stock)))]

    def _left_over(self, solution: PlacementSolution) -> tuple[tuple[Demand, tuple[str, ...]], ...]:
        reasons = {left.demand: left.reasons for left in solution.unplaced}
        found = []
        for index, stock in enumerate(self._stock):
            told = reasons.get(index, ()) + tuple(dict.fromkeys(self._refused.get(index, ())))
            found += [(demand, told or ("no place was found",)) for demand in reversed(stock)]
        return tuple(found)
