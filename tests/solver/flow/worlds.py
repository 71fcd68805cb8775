"""Small fleets in a few words, and the independent checker put to a round of flow placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.node import Node, Taint
from growth.model.pod import Pod, PodShape, Toleration
from growth.model.settings import SchedulerSettings
from growth.solver.check import check
from growth.solver.flow import Fleet, Group, Round, place
from growth.solver.problem import DemandClass, Placement, PlacementProblem, PlacementSolution, Room, Unplaced
from tests.solver.worlds import amounts, shape

SPREAD = SchedulerSettings()
Bound = Mapping[str, Sequence[PodShape]]


def machine(name: str, cpu: float = 2, mebibytes: float = 8192, zone: str = "z1", taints: Sequence[Taint] = (), **labels: str) -> Node:
    return Node(name, Labels({HOSTNAME: name, ZONE: zone, **labels}), tuple(taints), amounts(cpu, mebibytes))


def fleet_of(nodes: Sequence[Node], bound: Bound | None = None) -> Fleet:
    fleet = Fleet()
    fleet.follow({node.name: node for node in nodes}, pods_on(bound or {}))
    return fleet


def pods_on(bound: Bound) -> dict[str, tuple[Pod, ...]]:
    return {name: tuple(Pod(f"{name}-{number}", one, node_name=name) for number, one in enumerate(shapes)) for name, shapes in bound.items()}


def group(count: int = 1, cpu: float = 1, mebibytes: float = 1, gang: str = "", waiting_seconds: float = 0.0, **fields: object) -> Group:
    return Group(Pod("new", shape(cpu, mebibytes, **fields)), count, gang, waiting_seconds)  # type: ignore[arg-type]


def placed_by(nodes: Sequence[Node], *groups: Group, bound: Bound | None = None, settings: SchedulerSettings = SPREAD, **gangs: int) -> Round:
    """The round, after the checker has found nothing wrong with it."""
    answer = place(fleet_of(nodes, bound), groups, settings, gangs)
    assert mistakes(nodes, bound or {}, groups, answer) == ()
    return answer


def counts(answer: Round, number: int = 0) -> dict[str, int]:
    """How many pods of a group went to which node."""
    return {one.node: one.count for one in answer.placed if one.group == number}


def left(answer: Round, number: int = 0) -> int:
    return sum(one.count for one in answer.left if one.group == number)


def mistakes(nodes: Sequence[Node], bound: Bound, groups: Sequence[Group], answer: Round) -> tuple[str, ...]:
    """What `solver/check`, which knows nothing of flows, has against the answer."""
    rooms = tuple(Room(node, tuple((one, 1) for one in bound.get(node.name, ()))) for node in nodes)
    numbers = {node.name: number for number, node in enumerate(nodes)}
    problem = PlacementProblem(demands=tuple(DemandClass(each.pod.shape, each.count) for each in groups), rooms=rooms)
    kind = "IncompletePlacement" if answer.left else "AllPlaced" if groups else "NoDemands"
    solution = PlacementSolution(
        kind,  # type: ignore[arg-type]
        placements=tuple(Placement(one.group, numbers[one.node], one.count) for one in answer.placed),
        unplaced=tuple(Unplaced(one.group, one.count, (one.reason,)) for one in answer.left),
    )
    return check(problem, solution)


def soft(key: str, value: str = "") -> Taint:
    return Taint(key, value, "PreferNoSchedule")


def tolerating(key: str, value: str = "", effect: str = "") -> Toleration:
    return Toleration(key, "Equal" if value else "Exists", value, effect)
