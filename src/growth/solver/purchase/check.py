"""Is this solution right? Asked in tests always, and in production where a setting says so. It knows nothing of how the
solution was made: beside the question and the answer it reads `solver/rules` alone, and has knapsacks of its own.

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
from functools import cache

import numpy as np

from growth.model.labels import HOSTNAME
from growth.model.node import Node
from growth.model.pod import PodShape
from growth.model.resources import PODS
from growth.solver.arrays import BoolArray, FloatArray
from growth.solver.exact.node_value import Places, may_share_node, valued_pods
from growth.solver.purchase.problem import Choice, Limit, PlacementProblem, PlacementSolution, planned_node, unmarked
from growth.solver.rules import Neighbours
from growth.solver.rules.pod_class import as_nodes_see_it

_TOLERANCE = 1e-6
_FEW = 12  # nodes, whose sums do not lie close together
_MOST_SUMS = 5000


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
    index = _rooms_as_they_are(problem)
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


def _rooms_as_they_are(problem: PlacementProblem) -> Neighbours:
    shapes = [demand.shape for demand in problem.demands]
    nodes = [unmarked(room) for room in problem.rooms]
    index = Neighbours(nodes, volumes=problem.volumes, namespaces=problem.namespaces, shapes=shapes)
    for number, room in enumerate(problem.rooms):
        for shape, count in room.contents:
            index.add(index.class_of(shape), number, count)
    return index


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
    limits = sum(
        (limit.nodes is not None) + len(limit.resources) + (limit.price_per_hour is not None)
        for limit in problem.limits
    )
    if len(solution.proof.values) != len(problem.demands) or len(solution.proof.limit_prices) != limits:
        return (f"the bound {solution.lower_bound} is not proven: it comes without values",)
    cheaper = _dearest_below(problem, solution.lower_bound)
    needed = solution.lower_bound if cheaper is None else cheaper * (1 + _TOLERANCE) + 1e-12
    proven = _Proof(problem, solution).proven(needed)
    if solution.lower_bound <= proven * (1 + 10 * _TOLERANCE) + 1e-9 or needed <= proven * (1 + 1e-9):
        return ()
    return (f"the bound {solution.lower_bound} is not proven: its values prove {proven}",)


def _dearest_below(problem: PlacementProblem, claimed: float) -> float | None:
    """What whole nodes can cost next below the claim: if that is not enough, the claim is the least. None: they can
    cost nearly anything.
    """
    costs = {choice.offering.price_per_hour + problem.node_price_per_hour for choice in problem.choices}
    sums = {0.0}
    for cost in sorted(costs - {0.0}):
        if claimed > _FEW * cost or len(sums) > _MOST_SUMS:
            return None
        most = [(one, int((claimed - one) / cost)) for one in sums]
        sums = {round(one + times * cost, 12) for one, last in most for times in range(last + 1)}
    return max((one for one in sums if one < claimed * (1 - _TOLERANCE)), default=None)


class _Proof:
    """No node holds more value than it costs, limits included: then all values together, less the prices of limits and
    what rooms can hold, are the least that any plan costs. Values that are too high are scaled down.
    """

    def __init__(self, problem: PlacementProblem, solution: PlacementSolution) -> None:
        self.problem = problem
        counts = [demand.count for demand in problem.demands]
        for left in solution.unplaced:
            counts[left.demand] -= left.count
        names = sorted({name for demand in problem.demands for name in demand.shape.requests} - {PODS})
        self.names = (*names, PODS)
        self.count = np.array(counts, dtype=np.float64)
        self.value = np.maximum(np.array(solution.proof.values), 0.0)
        self.need = np.array([self._amounts(demand.shape) for demand in problem.demands])
        self.limit_prices = [max(0.0, price) for price in solution.proof.limit_prices]
        self.choices = self._choices()
        free = [[float(amounts[name]) for name in self.names] for amounts in (room.free() for room in problem.rooms)]
        self.room_left = np.maximum(np.array(free).reshape(len(free), len(self.names)), 0.0)
        self.within = self._within_rooms()
        shapes = [demand.shape for demand in problem.demands]
        is_spread = any(one.topology_key == HOSTNAME for shape in shapes for one in shape.spread)
        places = self._places() if is_spread else None
        self.pods = valued_pods(self.need, self.value, shapes, problem.namespaces, places)

    def _amounts(self, shape: PodShape) -> list[float]:
        return [float(max(0, shape.requests[name])) for name in self.names[:-1]] + [1.0]

    def proven(self, claimed: float) -> float:
        """What the values prove: at first with pods that can be cut, then exactly where that is in the way."""
        prices, own, offers = self.choices
        of_nodes = float(self.value @ self.count) - self._limits()
        in_rooms = self._in_rooms()
        kinds: dict[bytes, list[int]] = {}
        for number, (offer, usable) in enumerate(offers):
            kinds.setdefault(offer.tobytes() + np.packbits(usable).tobytes(), []).append(number)
        uppers = np.zeros(len(prices))
        for numbers in kinds.values():
            uppers[numbers] = self.pods.most_on_node(*offers[numbers[0]], self.count)
        looked_at: set[int] = set()
        while True:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.where(uppers > own * (1 + 1e-12), (uppers - own) / prices, 0.0)
            scale = max(1.0, float(ratios.max(initial=0.0)))
            proven = (of_nodes - in_rooms) / scale if np.isfinite(scale) else 0.0
            worst = int(ratios.argmax()) if len(ratios) else -1
            if claimed <= proven or worst < 0 or worst in looked_at or not np.isfinite(scale):
                return proven
            alike = next(numbers for numbers in kinds.values() if worst in numbers)
            allowed = (of_nodes - in_rooms) / claimed  # values that are too high by so much prove enough
            enough = min(float(allowed * prices[number] + own[number]) for number in alike)
            exact = self.pods.most_on_node(*offers[worst], self.count, enough)
            uppers[alike] = np.minimum(uppers[alike], exact)
            looked_at.update(alike)

    def _choices(self) -> tuple[FloatArray, FloatArray, list[tuple[FloatArray, BoolArray]]]:
        """For each choice its price, what limits add to it, what daemons leave of it, and who may go there."""
        problem, choices = self.problem, self.problem.choices
        nodes = [planned_node(choice, number) for number, choice in enumerate(choices)]
        allowed = self._allowed(nodes)
        pools = [frozenset(demand.pools) for demand in problem.demands]
        offers = []
        for number, choice in enumerate(choices):
            offer = np.array([float(choice.offering.allocatable[name]) for name in self.names])
            usable = allowed[:, number] & np.array([choice.pool in own for own in pools], dtype=np.bool_)
            for daemon in choice.daemons:
                offer -= self._amounts(daemon)
                usable &= self._beside(daemon)
            offers.append((offer, usable))
        prices = np.array([one.offering.price_per_hour + problem.node_price_per_hour for one in choices])
        return prices, np.array([self._added_by_limits(number) for number in range(len(choices))]), offers

    @cache  # noqa: B019  (a proof lives as long as its checker looks at it)
    def _beside(self, daemon: PodShape) -> BoolArray:
        """Which demands may be on a node with this pod, by host ports and anti-affinity of both?"""
        return np.array(
            [may_share_node(daemon, demand.shape, self.problem.namespaces) for demand in self.problem.demands],
            dtype=np.bool_,
        )

    def _allowed(self, nodes: Sequence[Node]) -> BoolArray:
        """Demands × nodes: by what the rules say of the node itself."""
        index = Neighbours(nodes, volumes=self.problem.volumes, namespaces=self.problem.namespaces)
        known: dict[PodShape, BoolArray] = {}
        for demand in self.problem.demands:
            seen = as_nodes_see_it(demand.shape)
            if seen not in known:
                known[seen] = index.question(index.class_of(seen)).allowed_by_nodes()
        return np.array([known[as_nodes_see_it(demand.shape)] for demand in self.problem.demands], dtype=np.bool_)

    def _priced(self) -> Iterator[tuple[Limit, str, float, float]]:
        """Every limit by what it bounds, how much of it, and at which price."""
        prices = iter(self.limit_prices)
        for limit in self.problem.limits:
            if limit.nodes is not None:
                yield limit, "nodes", float(limit.nodes), next(prices)
            for name, most in sorted(limit.resources.items()):
                yield limit, name, float(most), next(prices)
            if limit.price_per_hour is not None:
                yield limit, "price", limit.price_per_hour, next(prices)

    def _limits(self) -> float:
        return sum(most * price for _, _, most, price in self._priced())

    def _added_by_limits(self, number: int) -> float:
        offering = self.problem.choices[number].offering
        used = {"nodes": 1.0, "price": offering.price_per_hour}
        return sum(
            price * used.get(what, float(offering.allocatable[what]))
            for limit, what, _, price in self._priced()
            if price and number in limit.choices
        )

    def _within_rooms(self) -> BoolArray:
        """Demands × rooms: those that may go there, by what the rules say of the node and by who it is open to."""
        rooms = self.problem.rooms
        pools = {
            pools: [room.is_open and not room.node.malformed and not room.why_closed(pools) for room in rooms]
            for pools in {demand.pools for demand in self.problem.demands}
        }
        is_open = np.array([pools[demand.pools] for demand in self.problem.demands], dtype=np.bool_)
        return self._allowed([unmarked(room) for room in rooms]) & is_open

    def _room_for(self, number: int) -> FloatArray:
        """How many pods of a demand each room takes, by amounts."""
        asked = np.flatnonzero(self.need[number])
        fits = np.floor(self.room_left[:, asked] / self.need[number, asked]).min(axis=1)
        return np.where(self.within[number], fits, 0.0)

    def _places(self) -> Places:
        """What spreads over nodes look at."""
        problem, (_, _, offers) = self.problem, self.choices
        index = _rooms_as_they_are(problem)
        index.add_nodes(planned_node(choice, number) for number, choice in enumerate(problem.choices))
        on_new = np.zeros(len(self.need))
        for offer, usable in offers:
            with np.errstate(divide="ignore", invalid="ignore"):
                often = np.nanmin(np.floor(np.maximum(offer, 0.0) / self.need), axis=1)
            on_new = np.maximum(on_new, np.where(usable, often, 0.0))
        usable = np.array([usable for _, usable in offers], dtype=np.bool_).reshape(len(offers), len(self.need)).T
        daemons = list({daemon for choice in problem.choices for daemon in choice.daemons})
        return Places(index, len(problem.rooms), self._room_for, on_new, usable, daemons, self.count)

    def _in_rooms(self) -> float:
        """The most value that rooms can hold, all together as one node that can be cut; of each demand no more pods
        than fit into them one by one.
        """
        if not self.within.any():
            return 0.0
        most, used = np.zeros(len(self.count)), self.within.any(axis=0)
        room_for: dict[bytes, float] = {}  # how many more pods of one size that may go to the same rooms
        for number in np.argsort(-self.value, kind="stable").tolist():
            alike = self.need[number].tobytes() + np.packbits(self.within[number]).tobytes()
            if alike not in room_for:
                room_for[alike] = float(self._room_for(number).sum())
            most[number] = min(self.count[number], room_for[alike])
            room_for[alike] -= most[number]
        return self.pods.most_on_many(self.room_left[used].sum(axis=0), most)


def _name(choice: Choice) -> str:
    return f"{choice.offering.name} in {choice.offering.location}"
