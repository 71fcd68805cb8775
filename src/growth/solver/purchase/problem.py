"""The question put to the solver and its answer: class counts in, class counts out, small and picklable.

Asked by scale-up, buffers, replacement and `growth plan`; answered by `solver/purchase/solve`. Pods have no names
here: the asker keeps for each demand class the list of its pods and deals them out by the counts of the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, Labels
from growth.model.node import SCALE_DOWN_TAINT, STARTUP_TAINT, Node, Taint
from growth.model.offering import Offering
from growth.model.pod import PodShape
from growth.model.resources import Resources
from growth.model.snapshot import EMPTY, VolumeWorld
from growth.solver.patterns.stock import Budget
from growth.solver.rules.fit import free_amounts

_TELLING_GAP: Final = 0.5  # of a few machines under rules between pods the bound, which knows few of them, says little

_NOTHING: Final = 0.0005  # what is told as 0.0 %
_GANGS_TRIED_AGAIN: Final = 8
_IN_STEPS: Final = (
    "gang {} starts as a whole: what is in doubt is tried first, the others are bought when that has come"
)


class DemandClass(Struct, frozen=True):
    """Pods that no rule can tell apart."""

    shape: PodShape
    count: int
    pools: tuple[str, ...] = ()  # NodePools it may buy from
    is_virtual: bool = False  # spare capacity: placed after every real demand


class Room(Struct, frozen=True):
    """A node that exists, or is on its way: it may take pods and costs nothing more.

    A closed room (cordoned, not ready, in removal) takes none, but its pods still count for affinity and spread.
    """

    node: Node
    contents: tuple[tuple[PodShape, int], ...] = ()
    kind: Literal["node", "marked", "in-flight"] = "node"
    is_open: bool = True
    is_idle: bool = False  # nobody works there, so it could go: filled after nodes where pods are

    def why_closed(self, pools: Sequence[str]) -> str:
        """Why pods of these pools may not go there, whatever they are. Empty: they may."""
        if self.kind != "node" and self.node.pool and self.node.pool not in pools:
            return f"kept for pods of NodePool {self.node.pool}"
        if self.is_open:
            return ""
        if self.node.is_unschedulable:
            return "cordoned (spec.unschedulable)"
        return "takes no pods" if self.node.is_ready else "not ready"

    def free(self) -> Resources:
        """What its contents leave of the node's amounts."""
        return free_amounts(self.node.allocatable, (shape for shape, count in self.contents for _ in range(count)))


def unmarked(room: Room) -> Node:
    """The node without growth's own marks: whether a room is open is said by `is_open`. On a stranger's node they are
    taints like any other.
    """
    own = (SCALE_DOWN_TAINT.key, STARTUP_TAINT.key) if room.node.pool else ()
    return replace(room.node, taints=tuple(taint for taint in room.node.taints if taint.key not in own))


class Choice(Struct, frozen=True):
    """An offering that a pool may buy, and the node it would become."""

    pool: str
    offering: Offering
    labels: Labels  # of the node, without its hostname
    taints: tuple[Taint, ...] = ()
    daemons: tuple[PodShape, ...] = ()  # DaemonSet pods that will land on it
    pool_priority: int = 0
    type_priority: int = 0
    counted: Resources | None = None  # as limits count it, where nodes turned out smaller than sold

    @property
    def amounts(self) -> Resources:
        """What one such node takes of the limits."""
        return self.offering.allocatable if self.counted is None else self.counted


def planned_node(choice: Choice, number: int) -> Node:
    """The node that a choice would become; its name is no real node's."""
    name = f"planned-{number}"
    return Node(name, choice.labels.with_items({HOSTNAME: name}), choice.taints, choice.offering.allocatable)


class Limit(Struct, frozen=True):
    """What the planned nodes of some choices may not exceed together: a type over its zones, a pool, the cluster."""

    name: str
    choices: tuple[int, ...]
    nodes: int | None = None
    resources: Mapping[str, int] = EMPTY  # of what limits count of each choice
    price_per_hour: float | None = None
    stated: Mapping[str, str] = EMPTY  # in words and numbers: of "nodes", of each resource by name, of "price"
    is_step: bool = False  # they are tried: once they have come, more may be bought; it keeps no gang out for ever

    def words(self, of: str) -> str:
        return self.stated.get(of) or (self.name if of == "nodes" else f"{self.name} ({of})")


class GangDemand(Struct, frozen=True, gc=False):
    """Classes of pods that start together: at least so many of them get a place, or none."""

    name: str
    demands: tuple[int, ...]
    least: int
    is_doubted: bool = False  # machines came in vain for pods like these: one is tried first


class Pattern(Struct, frozen=True, gc=False):
    """A mix of pods that made good use of a node."""

    pool: str
    offering: str
    location: str
    contents: tuple[tuple[PodShape, int], ...]


class PlacementProblem(Struct, frozen=True):
    demands: tuple[DemandClass, ...] = ()
    rooms: tuple[Room, ...] = ()
    choices: tuple[Choice, ...] = ()
    limits: tuple[Limit, ...] = ()
    gangs: tuple[GangDemand, ...] = ()
    namespaces: Mapping[str, Labels] = EMPTY
    volumes: VolumeWorld = VolumeWorld()
    preferences: Literal["Respect", "Ignore"] = "Respect"
    node_price_per_hour: float = 0.0  # what a node costs beside its machine
    budget: Budget = Budget()
    patterns: tuple[Pattern, ...] = ()  # of an earlier solution: a head start, nothing more
    is_explained: bool = True  # whether the answer says why for pods that found no place
    is_checked: bool = False  # whether the answer is looked at by `solver/purchase/check` before it is given


class Placement(Struct, frozen=True, gc=False):
    """So many pods of a class into a room."""

    demand: int
    room: int
    count: int


class PlannedNode(Struct, frozen=True, gc=False):
    """A node to buy, and what goes onto it: (demand class, count)."""

    choice: int
    contents: tuple[tuple[int, int], ...] = ()


class Unplaced(Struct, frozen=True, gc=False):
    """So many pods of a class found no place, in words that add up over all rooms and choices."""

    demand: int
    count: int
    reasons: tuple[str, ...]


class Stage(Struct, frozen=True, gc=False):
    """What one stage of the solver did."""

    name: str
    price_per_hour: float
    detail: str = ""


class Proof(Struct, frozen=True, gc=False):
    """Why nothing can be cheaper: no node holds more of these values than it costs, so their sum bounds every plan.

    Limit prices are in the order of the limits, each with its nodes, its resources by name and its price, as far as
    it has them."""

    values: tuple[float, ...] = ()  # of one pod of each demand class
    limit_prices: tuple[float, ...] = ()


class PlacementSolution(Struct, frozen=True):
    """AllPlaced, NoDemands or IncompletePlacement, with its proof."""

    kind: Literal["AllPlaced", "NoDemands", "IncompletePlacement"]
    placements: tuple[Placement, ...] = ()
    nodes: tuple[PlannedNode, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    price_per_hour: float = 0.0  # of the planned nodes, what each costs beside its machine included
    lower_bound: float = 0.0  # no placement of the same pods can cost less
    stages: tuple[Stage, ...] = ()
    proof: Proof = Proof()
    patterns: tuple[Pattern, ...] = ()  # for the next problem
    complaints: tuple[str, ...] = ()  # what the checker said of a plan that was thrown away

    @property
    def gap(self) -> float:
        """How far above the bound, as a share: 0.013 is 1.3 %."""
        return self.price_per_hour / self.lower_bound - 1 if self.lower_bound > 0 else 0.0

    @property
    def gap_in_words(self) -> str:
        """To be said after a price; empty where nothing is proven, or too little to be worth saying."""
        if not self.lower_bound or self.gap >= _TELLING_GAP:
            return ""
        if self.gap < _NOTHING:
            return ", the cheapest possible"
        return f", at most {100 * self.gap:.1f} % above the cheapest possible"


# ------------------------------------------------------------------------------------------- gangs


class ShortGang(Struct, frozen=True, gc=False):
    """A gang of which an answer places too few, and why the others have no place."""

    gang: GangDemand
    placed: int
    reasons: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return self.placed / self.gang.least

    @property
    def told(self) -> tuple[str, ...]:
        """What its pods are told."""
        found = f"{self.placed} have a place" if self.placed else "none has a place"
        return (f"gang {self.gang.name}: {self.gang.least} more must start together, and {found}", *self.reasons)


def whole_gangs(
    problem: PlacementProblem, answer: Callable[[PlacementProblem], PlacementSolution]
) -> PlacementSolution:
    """An answer in which every gang has enough places, or none. One that could be whole, but not without what is in
    doubt, gets the first step: what is in doubt most.
    """
    solution, barred = _whole_or_barred(problem, answer)
    doubts = Counter(choice for each in problem.limits if each.is_step for choice in each.choices)
    used = {number for node in solution.nodes if doubts[node.choice] for number, _ in node.contents}
    careful = {each.name for each in problem.gangs if each.is_doubted or each.name in barred or used & {*each.demands}}
    if careful and (doubts or any(each.is_doubted for each in problem.gangs)):
        lasting = replace(problem, limits=tuple(each for each in problem.limits if not each.is_step))
        whole, for_ever = _whole_or_barred(lasting, answer)
        stepping = {each.name: ShortGang(each, 0) for each in problem.gangs if each.name in careful - for_ever.keys()}
        steps = _first_steps(problem, whole, {name: each.gang for name, each in stepping.items()}, doubts)
        rest, barred = _whole_or_barred(_after_steps(_without_gangs(problem, stepping), steps), answer)
        solution = _with_steps(problem, rest, steps, stepping)
    return _with_short_gangs(problem, solution, barred)


def _first_steps(
    problem: PlacementProblem, whole: PlacementSolution, gangs: Mapping[str, GangDemand], doubts: Mapping[int, int]
) -> list[PlannedNode]:
    """Of the nodes that would make these gangs whole, those in doubt most, as many as limits let be bought at a time;
    of a gang that is in doubt itself, one.
    """
    gang_of = {number: name for name, gang in gangs.items() for number in gang.demands}
    own = [(node.choice, tuple(each for each in node.contents if each[0] in gang_of)) for node in whole.nodes]
    most = dict.fromkeys(gangs, 0)
    for choice, contents in own:
        most |= {gang_of[number]: max(most[gang_of[number]], doubts.get(choice, 0)) for number, _ in contents}
    left, steps, begun = problem.limits, list[PlannedNode](), set[str]()
    for choice, contents in own:
        names = {gang_of[number] for number, _ in contents}
        names = {name for name in names if doubts.get(choice, 0) == most[name]}
        is_next = any(not gangs[name].is_doubted or name not in begun for name in names)
        if is_next and all(each.nodes is None or each.nodes > 0 for each in left if choice in each.choices):
            left = tuple(_less(each, problem.choices[choice]) if choice in each.choices else each for each in left)
            steps.append(PlannedNode(choice, contents))
            begun |= names
    return steps


def _less(limit: Limit, choice: Choice) -> Limit:
    """What is left of it after one such node."""
    price = limit.price_per_hour
    return replace(
        limit,
        nodes=None if limit.nodes is None else max(0, limit.nodes - 1),
        resources={name: max(0, left - choice.amounts[name]) for name, left in limit.resources.items()},
        price_per_hour=None if price is None else max(0.0, price - choice.offering.price_per_hour),
    )


def _after_steps(problem: PlacementProblem, steps: Sequence[PlannedNode]) -> PlacementProblem:
    """What is left to be asked once these are bought."""
    limits = problem.limits
    for step in steps:
        bought = problem.choices[step.choice]
        limits = tuple(_less(each, bought) if step.choice in each.choices else each for each in limits)
    return replace(problem, limits=limits)


def _with_steps(
    problem: PlacementProblem,
    rest: PlacementSolution,
    steps: Sequence[PlannedNode],
    stepping: Mapping[str, ShortGang],
) -> PlacementSolution:
    """The answer for all others, and these nodes; nothing is proven of both together."""
    placed = Counter[int]()
    for step in steps:
        placed.update(dict(step.contents))
    left = tuple(
        Unplaced(number, problem.demands[number].count - placed[number], (_IN_STEPS.format(name),))
        for name, each in stepping.items()
        for number in each.gang.demands
        if problem.demands[number].count > placed[number]
    )
    price = sum(problem.choices[step.choice].offering.price_per_hour + problem.node_price_per_hour for step in steps)
    return replace(
        rest,
        kind="IncompletePlacement" if left or rest.unplaced else "AllPlaced",
        nodes=(*rest.nodes, *steps),
        unplaced=(*rest.unplaced, *left),
        price_per_hour=rest.price_per_hour + price,
        lower_bound=rest.lower_bound if not steps else 0.0,
    )


def _whole_or_barred(
    problem: PlacementProblem, answer: Callable[[PlacementProblem], PlacementSolution]
) -> tuple[PlacementSolution, dict[str, ShortGang]]:
    """The answer, and by name the gangs that it leaves out."""
    solution, barred = answer(problem), dict[str, ShortGang]()
    while short := _short_gangs(_without_gangs(problem, barred), solution):
        barred |= {each.gang.name: each for each in short[: max(1, len(short) // 2)]}
        solution = answer(_without_gangs(problem, barred))
    smallest = sorted(barred.values(), key=lambda each: each.gang.least) if len(problem.gangs) > 1 else []
    for each in smallest[:_GANGS_TRIED_AGAIN]:
        others = {name: other for name, other in barred.items() if other is not each}
        asked = _without_gangs(problem, others)
        found = answer(asked)
        if not _short_gangs(asked, found) and _left_out(found) <= _left_out(solution):
            solution, barred = found, others
    return solution, barred


def _left_out(solution: PlacementSolution) -> int:
    return sum(each.count for each in solution.unplaced)


def _short_gangs(problem: PlacementProblem, solution: PlacementSolution) -> tuple[ShortGang, ...]:
    """The one that has the smallest share of what it needs first."""
    left = {each.demand: each for each in solution.unplaced}
    found = []
    for gang in problem.gangs:
        asked = sum(problem.demands[number].count for number in gang.demands)
        missing = [left[number] for number in gang.demands if number in left]
        placed = asked - sum(each.count for each in missing)
        if asked and placed < gang.least:
            reasons = dict.fromkeys(reason for each in missing for reason in each.reasons)
            found.append(ShortGang(gang, placed, tuple(reasons)))
    return tuple(sorted(found, key=lambda each: each.share))


def _without_gangs(problem: PlacementProblem, barred: Mapping[str, ShortGang]) -> PlacementProblem:
    """The same question, as if these gangs asked for nothing."""
    silent = {number for each in barred.values() for number in each.gang.demands}
    demands = (replace(one, count=0) if number in silent else one for number, one in enumerate(problem.demands))
    return replace(problem, demands=tuple(demands))


def _with_short_gangs(
    problem: PlacementProblem, solution: PlacementSolution, barred: Mapping[str, ShortGang]
) -> PlacementSolution:
    """The answer, with all pods of these gangs left out."""
    left = tuple(
        Unplaced(number, problem.demands[number].count, each.told)
        for each in barred.values()
        for number in each.gang.demands
        if problem.demands[number].count
    )
    return replace(solution, kind="IncompletePlacement", unplaced=(*solution.unplaced, *left)) if left else solution
