"""Small fleets in a few words, and the independent checker put to a round of flow placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.node import Node, Taint
from growth.model.pod import Pod, PodShape, Toleration
from growth.model.scheduler import SchedulerSettings
from growth.solver.flow import Fleet, Group, Round, place
from growth.solver.purchase.check import check
from growth.solver.purchase.problem import DemandClass, Placement, PlacementProblem, PlacementSolution, Room, Unplaced
from growth.solver.rules import Neighbours
from tests.solver.worlds import amounts, shape

SPREAD = SchedulerSettings()
Bound = Mapping[str, Sequence[PodShape]]


def machine(
    name: str, cpu: float = 2, mebibytes: float = 8192, zone: str = "z1", taints: Sequence[Taint] = (), **labels: str
) -> Node:
    return Node(name, Labels({HOSTNAME: name, ZONE: zone, **labels}), tuple(taints), amounts(cpu, mebibytes))


def fleet_of(nodes: Sequence[Node], bound: Bound | None = None) -> Fleet:
    fleet = Fleet()
    fleet.follow({node.name: node for node in nodes}, pods_on(bound or {}))
    return fleet


def pods_on(bound: Bound) -> dict[str, tuple[Pod, ...]]:
    return {
        name: tuple(Pod(f"{name}-{number}", one, node_name=name) for number, one in enumerate(shapes))
        for name, shapes in bound.items()
    }


def group(
    count: int = 1, cpu: float = 1, mebibytes: float = 1, gang: str = "", waiting_seconds: float = 0.0, **fields: object
) -> Group:
    return Group(Pod("new", shape(cpu, mebibytes, **fields)), count, gang, waiting_seconds)  # type: ignore[arg-type]


def placed_by(
    nodes: Sequence[Node],
    *groups: Group,
    bound: Bound | None = None,
    settings: SchedulerSettings = SPREAD,
    **gangs: int,
) -> Round:
    """The round, after the checker has found nothing wrong with it."""
    answer = place(fleet_of(nodes, bound), groups, settings, gangs)
    assert mistakes(nodes, bound or {}, groups, answer) == ()
    return answer


def counts(answer: Round, number: int = 0) -> dict[str, int]:
    """How many pods of a group went to which node."""
    found: dict[str, int] = {}
    for one in answer.placed:
        if one.group == number:
            found[one.node] = found.get(one.node, 0) + one.count
    return found


def left(answer: Round, number: int = 0) -> int:
    return sum(one.count for one in answer.left if one.group == number)


def mistakes(nodes: Sequence[Node], bound: Bound, groups: Sequence[Group], answer: Round) -> tuple[str, ...]:
    """What `solver/purchase/check`, which knows nothing of flows, has against the answer."""
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


def refused_in_order(nodes: Sequence[Node], bound: Bound, groups: Sequence[Group], answer: Round) -> list[str]:
    """The answer carried out step by step on an index of its own: whom the rules refuse when it is his turn. Within a
    step the order is free.
    """
    running = [pod for pods in pods_on(bound).values() for pod in pods]
    index, found = Neighbours(nodes, running, shapes=[each.pod.shape for each in groups]), []
    for number, step in groupby(answer.placed, key=lambda one: one.group):
        pod_class = index.class_of(groups[number].pod.shape)
        waiting = [one.node for one in step for _ in range(one.count)]
        while fitting := [node for node in waiting if index.why_not(pod_class, index.table.index[node]) is None]:
            index.add(pod_class, index.table.index[fitting[0]])
            waiting.remove(fitting[0])
        found += [f"group {number} on {node}: {index.why_not(pod_class, index.table.index[node])}" for node in waiting]
    return found


def soft(key: str, value: str = "") -> Taint:
    return Taint(key, value, "PreferNoSchedule")


def tolerating(key: str, value: str = "", effect: str = "") -> Toleration:
    return Toleration(key, "Equal" if value else "Exists", value, effect)
