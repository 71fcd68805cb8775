"""Is this solution right? Asked in tests always, and in production where a setting says so. It knows nothing of how the
solution was made.

| what | how |
| --- | --- |
| every pod is somewhere, once | by counting |
| pools, limits, closed rooms | by adding up |
| the rules of the scheduler | by carrying the plan out, pod after pod, on the index of `solver/rules` |
| the price | by adding up |
| the bound | from its proof: no node of any choice may hold more value than it costs |

The plan is carried out in the rooms first, then with the new nodes; a pod that the rules never let in must at least not
break any in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from growth.solver.patterns.bound import prove, sharpen
from growth.solver.purchase.layout import lay_out
from growth.solver.purchase.problem import Choice, PlacementProblem, PlacementSolution, planned_node, unmarked
from growth.solver.purchase.rows import everything, rows_of
from growth.solver.rules import Neighbours

_TOLERANCE = 1e-6
_WORK, _NODES = 1 << 60, 1_000_000  # of the search for the best pattern: a checker takes its time


def check(problem: PlacementProblem, solution: PlacementSolution) -> tuple[str, ...]:
    """What is wrong with the solution, in words; nothing if it is right."""
    found = tuple(_wrong_numbers(problem, solution))
    if found:
        return found
    checks = _wrong_counts, _wrong_owners, _beyond_limits, _wrong_price, _broken_rules, why_not_bound
    return tuple(complaint for look in checks for complaint in look(problem, solution))


# ----------------------------------------------------------------------------------------- counting


def _wrong_numbers(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[str]:
    demands, rooms, choices = range(len(problem.demands)), range(len(problem.rooms)), range(len(problem.choices))
    for placement in solution.placements:
        if placement.demand not in demands or placement.room not in rooms or placement.count <= 0:
            yield f"a placement speaks of what is not there: {placement}"
    for node in solution.nodes:
        if node.choice not in choices or any(demand not in demands or count <= 0 for demand, count in node.contents):
            yield f"a planned node speaks of what is not there: {node}"
        elif not node.contents:
            yield f"a node of {_name(problem.choices[node.choice])} is bought for nobody"
    for left in solution.unplaced:
        if left.demand not in demands or left.count <= 0 or not left.reasons:
            yield f"an unplaced demand without a number or a reason: {left}"


def _wrong_counts(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[str]:
    counts = [0] * len(problem.demands)
    for placement in solution.placements:
        counts[placement.demand] += placement.count
    for node in solution.nodes:
        for demand, count in node.contents:
            counts[demand] += count
    for left in solution.unplaced:
        counts[left.demand] += left.count
    for number, count in enumerate(counts):
        if problem.demands[number].count != count:
            yield f"demand {number} has {problem.demands[number].count} pods, the solution speaks of {count}"
    total = sum(one.count for one in problem.demands)
    kind = "NoDemands" if not total else "IncompletePlacement" if solution.unplaced else "AllPlaced"
    if solution.kind != kind:
        yield f"the solution says {solution.kind}, it is {kind}"


def _wrong_owners(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[str]:
    for node in solution.nodes:
        choice = problem.choices[node.choice]
        for demand, _ in node.contents:
            if choice.pool not in problem.demands[demand].pools:
                yield f"demand {demand} may not buy from pool {choice.pool}"
    for placement in solution.placements:
        room = problem.rooms[placement.room]
        if not room.is_open:
            yield f"room {room.node.name} is closed and takes demand {placement.demand}"
        pools = problem.demands[placement.demand].pools
        if room.kind != "node" and room.node.pool and room.node.pool not in pools:
            yield f"room {room.node.name} is for pool {room.node.pool}, not for demand {placement.demand}"


def _beyond_limits(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[str]:
    for limit in problem.limits:
        bought = [problem.choices[node.choice] for node in solution.nodes if node.choice in limit.choices]
        if limit.nodes is not None and len(bought) > limit.nodes:
            yield f"{limit.name}: {len(bought)} nodes, {limit.nodes} allowed"
        for name, most in limit.resources.items():
            used = sum(choice.amounts[name] for choice in bought)
            if used > most:
                yield f"{limit.name}: {used} of {name}, {most} allowed"
        price = sum(choice.offering.price_per_hour for choice in bought)
        if limit.price_per_hour is not None and price > limit.price_per_hour * (1 + _TOLERANCE) + 1e-9:
            yield f"{limit.name}: {price} per hour, {limit.price_per_hour} allowed"


def _wrong_price(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[str]:
    bought = [problem.choices[node.choice].offering for node in solution.nodes]
    price = sum(offering.price_per_hour + problem.node_price_per_hour for offering in bought)
    if abs(price - solution.price_per_hour) > _TOLERANCE * max(1.0, price):
        yield f"the planned nodes cost {price}, the solution says {solution.price_per_hour}"


# -------------------------------------------------------------------------------- carrying it out


def _broken_rules(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[str]:
    """At a glance first: what breaks no rule in the end needs no order. Only what does is carried out pod by pod."""
    if any(_broken_when_done(problem, solution, at_a_glance=True)):
        yield from _broken_when_done(problem, solution, at_a_glance=False)


def _broken_when_done(problem: PlacementProblem, solution: PlacementSolution, at_a_glance: bool) -> Iterator[str]:
    shapes = [demand.shape for demand in problem.demands]
    nodes = [unmarked(room) for room in problem.rooms]
    index = Neighbours(nodes, volumes=problem.volumes, namespaces=problem.namespaces, shapes=shapes)
    for number, room in enumerate(problem.rooms):
        for shape, count in room.contents:
            index.add(index.class_of(shape), number, count)
    waiting = [[placement.demand, placement.room, placement.count] for placement in solution.placements]
    waiting = waiting if at_a_glance else _carry_out(problem, index, waiting)
    planned = [planned_node(problem.choices[node.choice], number) for number, node in enumerate(solution.nodes)]
    for node, number in zip(solution.nodes, index.add_nodes(planned), strict=True):
        for shape in problem.choices[node.choice].daemons:
            index.add(index.class_of(shape), number)
        waiting += [[demand, number, count] for demand, count in node.contents]
    in_the_end = [item for item in waiting if at_a_glance and _needs_no_order(problem, index, item[0])]
    for demand, number, count in in_the_end:
        index.add(index.class_of(problem.demands[demand].shape), number, count)
    in_order = [item for item in waiting if not (at_a_glance and _needs_no_order(problem, index, item[0]))]
    yield from _broken_in_the_end(problem, index, _carry_out(problem, index, in_order))
    yield from _not_allowed_to_stand(problem, index, in_the_end)


def _needs_no_order(problem: PlacementProblem, index: Neighbours, demand: int) -> bool:
    """Is it enough that the pods may stand where they are in the end? Not where a group has to begin somewhere."""
    shape = problem.demands[demand].shape
    return not shape.affinity and index.question(index.class_of(shape)).is_entangled


def _carry_out(problem: PlacementProblem, index: Neighbours, waiting: list[list[int]]) -> list[list[int]]:
    """Put pods where they belong as long as the rules let any in; returns those that are still waiting. Groups begin
    before other pods are around.
    """
    waiting = sorted(waiting, key=lambda item: not problem.demands[item[0]].shape.affinity)
    moved = True
    while moved and waiting:
        moved = False
        for item in waiting:
            demand, number, count = item
            pod_class = index.class_of(problem.demands[demand].shape)
            question = index.question(pod_class)
            if question.why_not(number) is None:
                taken = 1 if question.is_entangled else min(count, int(index.room_for(pod_class)[number])) or 1
                index.add(pod_class, number, taken)
                item[2] -= taken
                moved = True
        waiting = [item for item in waiting if item[2]]
    return waiting


def _broken_in_the_end(problem: PlacementProblem, index: Neighbours, waiting: Sequence[Sequence[int]]) -> Iterator[str]:
    for demand, number, count in waiting:
        index.add(index.class_of(problem.demands[demand].shape), number, count)
    yield from _not_allowed_to_stand(problem, index, waiting)


def _not_allowed_to_stand(
    problem: PlacementProblem, index: Neighbours, placed: Sequence[Sequence[int]]
) -> Iterator[str]:
    for demand, number, _ in placed:
        pod_class = index.class_of(problem.demands[demand].shape)
        index.remove(pod_class, number)
        reason = index.why_not(pod_class, number)
        index.add(pod_class, number)
        if reason is not None:
            yield f"demand {demand} may not stand on {index.table.nodes[number].name}: {reason}"


# ---------------------------------------------------------------------------------------- the bound


def why_not_bound(problem: PlacementProblem, solution: PlacementSolution) -> tuple[str, ...]:
    """Why the lower bound is not proven by the values that came with it."""
    if solution.lower_bound > solution.price_per_hour * (1 + _TOLERANCE) + 1e-9:
        return (f"the bound {solution.lower_bound} is above the price {solution.price_per_hour}",)
    if solution.lower_bound <= 0:
        return ()
    proven = 0.0
    for proven in _proven(problem, solution):
        if solution.lower_bound <= proven * (1 + 10 * _TOLERANCE) + 1e-9:
            return ()
    return (f"the bound {solution.lower_bound} is not proven: its values prove {proven}",)


def _proven(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[float]:
    """What the values prove: at first glance, and after a search for the best pattern of each node."""
    layout = lay_out(problem)
    of_demand = solution.proof.values
    if len(of_demand) != len(problem.demands) or len(solution.proof.limit_prices) != len(layout.limit_bound):
        return
    counts = [demand.count for demand in problem.demands]
    for left in solution.unplaced:
        counts[left.demand] -= left.count
    placed = np.array([sum(counts[demand] for demand in members) for members in layout.members], dtype=np.int64)
    rows = rows_of(layout, everything(layout, placed), layout.limit_bound, with_spreads=False)
    stock = rows.stock
    values = np.array([min(of_demand[layout.members[part.index][0]] for part in group) for group in rows.parts])
    limit_prices = np.maximum(np.array(solution.proof.limit_prices), 0.0)
    most = np.minimum(stock.most_on_node(), stock.count)
    free = np.maximum(layout.room_left[layout.room_fits.any(axis=0)], 0).sum(axis=0).astype(np.float64)
    uppers = np.full(len(stock.price), np.inf)
    for work in (0, _WORK):
        uppers = sharpen(stock, values, most, limit_prices, uppers, work, _NODES).uppers
        yield prove(stock, free, uppers, values, limit_prices).lower_bound


def _name(choice: Choice) -> str:
    return f"{choice.offering.name} in {choice.offering.location}"
