"""How long does it take to place pods by min-cost flow, without binding them?

`machines_12500`: 10,000 waiting pods of 200 classes on 12,500 machines of 40 classes that are partly full, from
nothing: the index is made, too. `one_percent`: the next round, after 100 other pods arrived and 125 machines changed.
`nodes_2700`: 35,000 pods of 100 classes on 2,700 empty nodes. `rules_2700`: the same, a third of the pods with hostname
anti-affinity and a zone spread. `entangled_5000`: 2,000 pods on 5,000 nodes, each a class of its own with both."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from bench.report import Report, main, measured, parser
from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import Pod, PodAffinityTerm, PodShape, Toleration, TopologySpread
from growth.model.resources import Resources
from growth.model.scheduler import SchedulerSettings
from growth.solver.flow import Fleet, Group, Round, place

GIB = 2**30
SETTINGS = SchedulerSettings()


def run(_: argparse.Namespace) -> Report:
    report = Report("placement by min-cost flow")
    _measure_many_machines(report)
    few = _measure_few_nodes(report, "nodes_2700", has_rules=False)
    _measure_few_nodes(report, "rules_2700", has_rules=True)
    _measure_entangled(report)
    report.limit("machines_12500", "cpu_seconds", 1.0)
    report.limit("one_percent", "cpu_seconds", 0.2)
    report.limit("nodes_2700", "cpu_seconds", 3.0)
    report.limit("rules_2700", "cpu_seconds", 3 * few)
    report.limit("entangled_5000", "cpu_seconds", 3.0)
    return report


def _measure_many_machines(report: Report) -> None:
    chance = random.Random(7)
    nodes = {node.name: node for node in (machine(number, number % 40) for number in range(12_500))}
    shapes = [pod_shape(number) for number in range(200)]
    bound = {name: tuple(_bound(chance, shapes, name)) for name in nodes}
    groups = [Group(Pod(f"new-{number}", shape), 50) for number, shape in enumerate(shapes)]
    fleet = Fleet()
    with measured() as spent:
        fleet.follow(nodes, bound, shapes=shapes)
        answer = place(fleet, groups, SETTINGS)
    _tell(report, "machines_12500", spent.cpu_seconds, groups, answer)
    changed = chance.sample(sorted(nodes), 125)
    bound = {**bound, **{name: tuple(_bound(chance, shapes, name)) for name in changed}}
    nodes = {**nodes, **{name: replace(nodes[name], resource_version="2") for name in changed}}
    groups = [Group(Pod(f"more-{number}", shapes[number]), 1) for number in range(0, 200, 2)]
    with measured() as spent:
        fleet.follow(nodes, bound)
        answer = place(fleet, groups, SETTINGS)
    _tell(report, "one_percent", spent.cpu_seconds, groups, answer)


def _measure_few_nodes(report: Report, case: str, *, has_rules: bool) -> float:
    nodes = {node.name: node for node in (machine(number, number % 3) for number in range(2_700))}
    shapes = [
        with_rules(pod_shape(number)) if has_rules and number % 3 == 0 else pod_shape(number) for number in range(100)
    ]
    groups = [Group(Pod(f"new-{number}", shape), 350) for number, shape in enumerate(shapes)]
    fleet = Fleet()
    with measured() as spent:
        fleet.follow(nodes, {}, shapes=shapes)
        answer = place(fleet, groups, SETTINGS)
    _tell(report, case, spent.cpu_seconds, groups, answer)
    return spent.cpu_seconds


def _measure_entangled(report: Report) -> None:
    nodes = {node.name: node for node in (machine(number, number % 3) for number in range(5_000))}
    shapes = [with_rules(pod_shape(number)) for number in range(2_000)]
    groups = [Group(Pod(f"new-{number}", shape), 1) for number, shape in enumerate(shapes)]
    fleet = Fleet()
    with measured() as spent:
        fleet.follow(nodes, {}, shapes=shapes)
        answer = place(fleet, groups, SETTINGS)
    _tell(report, "entangled_5000", spent.cpu_seconds, groups, answer)


def _tell(report: Report, case: str, cpu_seconds: float, groups: Sequence[Group], answer: Round) -> None:
    placed = sum(one.count for one in answer.placed)
    report.add(
        case,
        cpu_seconds=cpu_seconds,
        pods=sum(group.count for group in groups),
        placed=placed,
        left=sum(one.count for one in answer.left),
    )


def machine(number: int, kind: int) -> Node:
    """Of 40 kinds: sizes, disks, zones, and one in ten tainted."""
    name = f"machine-{number}"
    cores = (8, 16, 32, 48)[kind % 4]
    labels = {HOSTNAME: name, ZONE: f"zone-{kind % 3}", "disk": ("ssd", "hdd")[kind % 2], "generation": str(kind % 5)}
    taints = (
        (Taint("gpu", "true"),) if kind % 10 == 9 else (Taint("old", "", "PreferNoSchedule"),) if kind % 10 == 8 else ()
    )
    return Node(name, Labels(labels), taints, Resources({"cpu": cores * 1000, "memory": cores * 4 * GIB, "pods": 110}))


def pod_shape(number: int) -> PodShape:
    """One class of pods: sizes of all proportions; some choose a disk, some tolerate the taint."""
    requests = Resources({"cpu": 100 * (1 + number * 7 % 20), "memory": (1 + number * 5 % 16) * GIB // 4})
    selector = Labels({"disk": "ssd"}) if number % 5 == 0 else Labels()
    tolerations = (Toleration("gpu", "Exists"),) if number % 7 == 0 else ()
    return PodShape(
        labels=Labels({"app": f"app-{number}"}), requests=requests, node_selector=selector, tolerations=tolerations
    )


def with_rules(shape: PodShape) -> PodShape:
    likes = LabelSelector((Requirement("app", "In", (shape.labels["app"],)),))
    return replace(
        shape, spread=(TopologySpread(1, ZONE, selector=likes),), anti_affinity=(PodAffinityTerm(HOSTNAME, likes),)
    )


def _bound(chance: random.Random, shapes: Sequence[PodShape], node: str) -> list[Pod]:
    return [
        Pod(f"{node}-{number}-{chance.random()}", chance.choice(shapes), node_name=node)
        for number in range(chance.randrange(8))
    ]


if __name__ == "__main__":
    sys.exit(main(parser(__doc__), run))
