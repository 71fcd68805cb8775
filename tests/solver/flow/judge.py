"""How good is a round of flow placement? Judged on small random worlds by an exact model of its own, which knows of no
classes and no arcs, and by a scheduler that places one pod after the other.

    python -m tests.solver.flow.judge 2000     what the worlds of these seeds come to, in a table
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import HostPort, PodShape
from growth.solver.arrays import FloatArray, IntArray
from growth.solver.flow import Group, Round, place
from growth.solver.linear import INFINITE, Coefficients, LinearProgram, solve_linear
from tests.solver.flow.worlds import SPREAD, counts, fleet_of, group, machine, mistakes

LOAD_COST = 100.0
_OUT = 1e5  # of a pod that is left: more than everything else together
_DISKS = ("", "ssd", "hdd")
_RESOURCES = ("cpu", "memory", "pods")

FAMILIES = ("one size", "mixed", "ports", "gang", "gangs")


@dataclass(frozen=True)
class World:
    family: str
    nodes: list[Node]
    groups: list[Group]
    gangs: dict[str, int]


def world(family: str, seed: int) -> World:
    chance = random.Random(f"{family} {seed}")
    nodes = [
        machine(f"n{number}", chance.choice([2, 4, 8]), 1024 * chance.choice([4, 8, 16]), disk=chance.choice(_DISKS))
        for number in range(chance.randint(1, 5))
    ]
    size = _size(chance)
    groups = []
    for number in range(chance.randint(1, 5)):
        cpu, mebibytes = size if family == "one size" else _size(chance)
        disk = chance.choice(("", *_DISKS))
        selector = Labels({"disk": disk} if disk else {})
        ports = (HostPort(chance.choice([80, 80, 443])),) if family == "ports" and chance.random() < 0.8 else ()
        gang = {"gang": "g0", "gangs": f"g{number % 3}"}.get(family, "")
        count = chance.randint(1, 3 if family != "one size" else 6)
        groups.append(group(count, cpu, mebibytes, gang, host_ports=ports, node_selector=selector))
    gangs: dict[str, int] = {}
    for each in groups:
        if each.gang:
            gangs[each.gang] = gangs.get(each.gang, 0) + each.count
    return World(family, nodes, groups, gangs)


def _size(chance: random.Random) -> tuple[float, int]:
    return chance.choice([0.5, 1, 1, 1.5, 2, 3]), 512 * chance.choice([1, 2, 3, 4, 6, 8, 12])


# --------------------------------------------------------------------------------- what a world is


def needs(shape: PodShape) -> list[float]:
    return [float(shape.requests["cpu"]), float(shape.requests["memory"]), 1.0]


def has(node: Node) -> list[float]:
    return [float(node.allocatable[name]) for name in _RESOURCES]


def may_go(shape: PodShape, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in shape.node_selector.items())


def taken(world_: World, answer: Round) -> IntArray:
    found = [counts(answer, number) for number in range(len(world_.groups))]
    return np.array([[each.get(node.name, 0) for node in world_.nodes] for each in found])


def unit_of(world_: World) -> tuple[FloatArray, float]:
    """The share of each machine that the mean pod takes, and how many of them a machine of mean size holds."""
    pods = np.array([each.count for each in world_.groups], np.float64)
    mean = pods @ np.array([needs(each.pod.shape) for each in world_.groups]) / pods.sum()
    unit = np.array([max(mean[r] / has(node)[r] for r in range(3)) for node in world_.nodes])
    return unit, float((1 / unit).mean())


def load_cost(world_: World, put: IntArray) -> float:
    """Each machine climbs steps of one mean pod; the k-th costs k of them, by its share of the machine."""
    unit, scale = unit_of(world_)
    total = 0.0
    for column, node in enumerate(world_.nodes):
        used = put[:, column] @ np.array([needs(each.pod.shape) for each in world_.groups])
        steps = max(used[r] / has(node)[r] for r in range(3)) / unit[column]
        whole = int(steps + 1e-9)
        costs = [LOAD_COST * scale * unit[column] * number for number in range(1, whole + 2)]
        total += sum(costs[:whole]) + (steps - whole) * costs[whole]
    return total


# ------------------------------------------------------------------------------ the best there is


def best(world_: World) -> IntArray:
    """As many pods as possible, gangs whole, and then at the least cost."""
    groups, nodes = world_.groups, world_.nodes
    unit, scale = unit_of(world_)
    cost, upper, whole, rows = list[float](), list[float](), list[bool](), list[tuple[dict[int, float], float, float]]()

    def column(price: float, most: float, is_whole: bool) -> int:
        cost.append(price)
        upper.append(most)
        whole.append(is_whole)
        return len(cost) - 1

    put = [[column(0, g.count if may_go(g.pod.shape, n) else 0, True) for n in nodes] for g in groups]
    for g, each in enumerate(groups):
        left = column(_OUT, each.count, True)
        rows.append(({**dict.fromkeys(put[g], 1.0), left: 1.0}, each.count, each.count))
    for n, node in enumerate(nodes):
        for r, amount in enumerate(has(node)):
            rows.append(({put[g][n]: needs(each.pod.shape)[r] / amount for g, each in enumerate(groups)}, -INFINITE, 1))
        steps = [column(LOAD_COST * scale * unit[n] * k, 1, False) for k in range(1, int(1 / unit[n]) + 2)]
        for r, amount in enumerate(has(node)):
            climbed = {put[g][n]: needs(each.pod.shape)[r] / amount / unit[n] for g, each in enumerate(groups)}
            rows.append(({**climbed, **dict.fromkeys(steps, -1.0)}, -INFINITE, 0))
        for port in (80, 443):
            using = [put[g][n] for g, each in enumerate(groups) if port in {p.port for p in each.pod.shape.host_ports}]
            rows.append((dict.fromkeys(using, 1.0), -INFINITE, 1))
    for gang, least in world_.gangs.items():
        start = column(0, 1, True)
        of = [one for g, each in enumerate(groups) if each.gang == gang for one in put[g]]
        rows.append(({**dict.fromkeys(of, 1.0), start: -float(least)}, 0, 0))
    entries = [(row, each, value) for row, (values, _, _) in enumerate(rows) for each, value in values.items()]
    program = LinearProgram(
        np.array(cost), np.array(upper, np.float64), np.array([low for _, low, _ in rows], np.float64),
        np.array([high for _, _, high in rows], np.float64),
        Coefficients(*(np.array(part) for part in zip(*entries, strict=True))), np.array(whole),
    )  # fmt: skip
    found = solve_linear(program, presolve="on", mip_rel_gap=0.0)
    ideal: IntArray = np.rint(found.columns[np.array(put)]).astype(np.int64)
    return ideal


def one_by_one(world_: World) -> int:
    """How many pods a scheduler places that takes one after the other, each onto the emptiest machine."""
    free = [has(node) for node in world_.nodes]
    ports: list[set[int]] = [set() for _ in world_.nodes]
    placed = 0
    for each in world_.groups:
        wanted, own = needs(each.pod.shape), {port.port for port in each.pod.shape.host_ports}
        for _ in range(each.count):
            fitting = [
                n
                for n, node in enumerate(world_.nodes)
                if may_go(each.pod.shape, node)
                and all(wanted[r] <= free[n][r] for r in range(3))
                and not own & ports[n]
            ]
            if not fitting:
                continue
            chosen = max(fitting, key=lambda n: min(free[n][r] / has(world_.nodes[n])[r] for r in range(2)))
            free[chosen] = [free[chosen][r] - wanted[r] for r in range(3)]
            ports[chosen] |= own
            placed += 1
    return placed


@dataclass(frozen=True)
class Verdict:
    seed: int
    placed: int
    possible: int
    one_by_one: int
    cost: float
    least: float


def judged(family: str, seed: int) -> Verdict:
    world_ = world(family, seed)
    answer = place(fleet_of(world_.nodes), world_.groups, SPREAD, world_.gangs)
    assert mistakes(world_.nodes, {}, world_.groups, answer) == ()
    put, ideal = taken(world_, answer), best(world_)
    alone = 0 if world_.gangs else one_by_one(world_)
    return Verdict(seed, int(put.sum()), int(ideal.sum()), alone, load_cost(world_, put), load_cost(world_, ideal))


def table(worlds: int) -> Iterator[str]:
    yield f"{'family':10} {'worlds':>6} {'placed':>7} {'possible':>8} {'by one':>7} {'fewer':>6} {'dearer by':>10}"
    for family in FAMILIES:
        found = [judged(family, seed) for seed in range(worlds)]
        fewer = sum(each.placed < each.possible for each in found)
        full = [each for each in found if each.placed == each.possible and each.least]
        dearer = max(each.cost / each.least - 1 for each in full)
        sums = (sum(getattr(each, name) for each in found) for name in ("placed", "possible", "one_by_one"))
        yield f"{family:10} {worlds:6} {next(sums):7} {next(sums):8} {next(sums):7} {fewer:6} {dearer:10.2%}"


if __name__ == "__main__":
    print("\n".join(table(int(sys.argv[1]))))
