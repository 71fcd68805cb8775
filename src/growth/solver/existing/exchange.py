"""Which of these nodes shall be exchanged for which others? Asked by replacement and renewal, answered in the worker
process like any placement.

The same solver answers for each neighbourhood (some nodes that would go together): where do their pods go, on the nodes
that stay and on new ones?

| asked to save money | |
| --- | --- |
| some pod has no place, or nothing need be bought | no exchange (what fits elsewhere is consolidation's) |
| a new node would be of the pool and offering of one that goes | never offered: such a move saves nothing |
| a new node would be of a lower priority than one that goes | never offered: the next pod would bring it back |
| several neighbourhoods save something | the one that saves most first; of equal ones the least disruption |

Asked to renew nodes (drift, expiry), like may replace like, and what it costs does not matter.
"""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.pod import PodShape
from growth.model.resources import CPU, MEMORY, Resources
from growth.solver.purchase.problem import (
    Choice,
    DemandClass,
    Limit,
    PlacementProblem,
    PlacementSolution,
    PlannedNode,
    Room,
)
from growth.solver.purchase.solve import solve
from growth.solver.rules.fit import is_enough

_SAME_PRICE: Final = 1e-9
_FEW: Final = 3


class Leaving(Struct, frozen=True):
    """A node that may go: its room, its kind, its price, and what must move from it, as counts of demand classes."""

    room: int
    pool: str
    offering: str
    price_per_hour: float
    contents: tuple[tuple[int, int], ...]
    disruption: float = 0.0
    priority: tuple[int, int] = (0, 0)  # of its pool, of its type


class ExchangeProblem(Struct, frozen=True):
    """`world` has every room and every choice; the counts of its demand classes are not looked at."""

    world: PlacementProblem
    leaving: tuple[Leaving, ...]
    neighbourhoods: tuple[tuple[int, ...], ...]  # of `leaving`
    saves_money: bool = True
    headroom: float = 0.0  # so much more than the pods need must have room: where they go cannot be steered


class Exchange(Struct, frozen=True):
    """These nodes go, and these are bought; indices as in the problem."""

    leaving: tuple[int, ...]
    bought: tuple[PlannedNode, ...] = ()
    price_before: float = 0.0
    price_after: float = 0.0  # of what is bought
    disruption: float = 0.0

    @property
    def saved_per_hour(self) -> float:
        return self.price_before - self.price_after


def exchange(problem: ExchangeProblem) -> tuple[Exchange, ...]:
    """The best few of the neighbourhoods, the best first."""
    problem = replace(problem, world=replace(problem.world, rooms=_narrowed(problem)))
    found = [each for each in (_try(problem, some) for some in problem.neighbourhoods) if each is not None]
    if not problem.saves_money:
        return tuple(sorted(found, key=lambda each: -len(each.leaving)))
    return tuple(sorted(found, key=lambda each: (-round(each.saved_per_hour, 9), each.disruption))[:_FEW])


def no_exchange(_problem: ExchangeProblem) -> tuple[Exchange, ...]:
    """The answer where none was found in time: everything stays as it is."""
    return ()


def _narrowed(problem: ExchangeProblem) -> tuple[Room, ...]:
    """Where no rule looks at other pods, rooms that could not even take the smallest pod are left empty: they cost time
    and change nothing.
    """
    world, going = problem.world, {each.room for each in problem.leaving}
    shapes = {demand.shape for demand in world.demands} | {shape for room in world.rooms for shape, _ in room.contents}
    preferring = any(shape.preferred_affinity or shape.preferred_anti_affinity for shape in shapes)
    if preferring or any(shape.affinity or shape.anti_affinity or shape.spread for shape in shapes):
        return world.rooms
    names = {name for demand in world.demands for name in demand.shape.requests}
    smallest = {name: min(demand.shape.requests[name] for demand in world.demands) for name in names}
    least = PodShape(requests=Resources(smallest))

    def has_room(room: Room) -> bool:
        return room.is_open and is_enough(room.free(), least)

    return tuple(
        room if index in going or has_room(room) else replace(room, contents=(), is_open=False)
        for index, room in enumerate(world.rooms)
    )


def _try(problem: ExchangeProblem, neighbourhood: tuple[int, ...]) -> Exchange | None:
    going = [problem.leaving[index] for index in neighbourhood]
    choices = enumerate(problem.world.choices)
    offered = [index for index, choice in choices if not problem.saves_money or _may_replace(choice, going)]
    asked = _without(problem, going, offered)
    solution = solve(asked)
    before = sum(each.price_per_hour for each in going)
    if not _is_of_use(solution, before, problem.saves_money):
        return None
    bought = tuple(PlannedNode(offered[node.choice]) for node in solution.nodes)
    return Exchange(neighbourhood, bought, before, solution.price_per_hour, sum(each.disruption for each in going))


def _may_replace(choice: Choice, going: list[Leaving]) -> bool:
    """Another kind of node, and none that the pools would rather do without."""
    if any((choice.pool, choice.offering.name) == (each.pool, each.offering) for each in going):
        return False
    return (choice.pool_priority, choice.type_priority) >= max(each.priority for each in going)


def _is_of_use(solution: PlacementSolution, before: float, saves_money: bool) -> bool:
    if solution.kind == "IncompletePlacement":
        return False
    return not saves_money or (bool(solution.nodes) and solution.price_per_hour < before - _SAME_PRICE)


def _without(problem: ExchangeProblem, going: list[Leaving], offered: list[int]) -> PlacementProblem:
    """The world without these nodes, and their pods asking for places."""
    world, gone = problem.world, {each.room for each in going}
    counts: dict[int, int] = {}
    for each in going:
        for index, count in each.contents:
            counts[index] = counts.get(index, 0) + count
    roomy = _with_headroom(counts, world.demands, problem.headroom)
    demands = tuple(replace(world.demands[index], count=count) for index, count in sorted(roomy.items()))
    numbers = {index: number for number, index in enumerate(offered)}
    staying = (room for index, room in enumerate(world.rooms) if index not in gone)
    return replace(
        world,
        demands=demands,
        rooms=tuple(room for room in staying if room.is_open or room.contents),
        choices=tuple(world.choices[index] for index in offered),
        limits=tuple(_renumbered(limit, numbers) for limit in world.limits),
        is_explained=False,
    )


def _with_headroom(counts: dict[int, int], demands: tuple[DemandClass, ...], headroom: float) -> dict[int, int]:
    """A few pods more, of the most common kinds that no rule looks at, until there is about so much more of cpu and
    memory.
    """
    plain = [index for index in counts if _is_plain(demands[index].shape)]
    plain.sort(key=lambda index: (-counts[index], index))
    found = dict(counts)
    for name in (CPU, MEMORY):
        needs = {index: demands[index].shape.requests[name] for index in plain}
        missing = headroom * sum(demands[index].shape.requests[name] * count for index, count in counts.items())
        missing -= sum(demands[index].shape.requests[name] * (found[index] - count) for index, count in counts.items())
        common = next((index for index in plain if needs[index] > 0), None)
        if common is not None and missing > 0:
            found[common] += math.floor(missing / needs[common] + 0.5)
    return found


def _is_plain(shape: PodShape) -> bool:
    return not (shape.affinity or shape.anti_affinity or shape.spread or shape.host_ports or shape.volumes)


def _renumbered(limit: Limit, numbers: dict[int, int]) -> Limit:
    return replace(limit, choices=tuple(numbers[index] for index in limit.choices if index in numbers))
