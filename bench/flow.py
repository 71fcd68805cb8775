"""How long does it take to place pods by min-cost flow, without binding them?

`machines_12500`: 10,000 waiting pods of 200 classes on 12,500 machines of 40 classes that are partly full, from
nothing: the index is made, too. `one_percent`: the next round, after 100 other pods arrived and 125 machines changed.
`nodes_2700`: 35,000 pods of 100 classes on 2,700 empty nodes. `rules_2700`: the same, a third of the pods with hostname
anti-affinity and a zone spread. `entangled_5000`: 2,000 pods on 5,000 nodes, each a class of its own with both.
`off_the_loop`: the same as a whole round, with the keeper in its process: how long the event loop stood still at most.
`one_node_changed`: the round after it, when one node was cordoned and one pod came, with what is told and asked."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from bench.report import Report, main, measured, parser
from growth.controllers.loop.runtime import SystemRuntime
from growth.model.action import BindPods
from growth.model.decision import Decision
from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import Pod, PodAffinityTerm, PodShape, Toleration, TopologySpread
from growth.model.resources import Resources
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow import scheduling
from growth.plan.flow.keeper import Keeper, RoundProblem
from growth.solver.flow import Fleet, Group, Round, place
from growth.solver.flow.changes import FleetChange

GIB = 2**30
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
SETTINGS = SchedulerSettings(enabled=True)
ON = Settings(scheduler=SETTINGS)


def run(_: argparse.Namespace) -> Report:
    report = Report("placement by min-cost flow")
    _measure_many_machines(report)
    few = _measure_few_nodes(report, "nodes_2700", has_rules=False)
    _measure_few_nodes(report, "rules_2700", has_rules=True)
    _measure_entangled(report)
    _measure_rounds(report)
    report.limit("machines_12500", "cpu_seconds", 1.0)
    report.limit("one_percent", "cpu_seconds", 0.2)
    report.limit("nodes_2700", "cpu_seconds", 3.0)
    report.limit("rules_2700", "cpu_seconds", 3 * few)
    report.limit("entangled_5000", "cpu_seconds", 3.0)
    report.limit("off_the_loop", "longest_stall_seconds", 0.05)
    report.limit("one_node_changed", "cpu_seconds", 0.05)
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


def _measure_rounds(report: Report) -> None:
    nodes = {node.name: node for node in (machine(number, number % 3) for number in range(5_000))}
    waiting = tuple(_waiting(with_rules(pod_shape(number)), number) for number in range(2_000))
    snapshot = Snapshot(1e9, nodes=nodes, waiting_pods=waiting)
    decision, stall = asyncio.run(_round_beside(snapshot))
    placed = sum(len(action.assignments) for action in decision.actions if isinstance(action, BindPods))
    report.add("off_the_loop", longest_stall_seconds=stall, pods=len(waiting), placed=placed, left=2_000 - placed)
    keeper, ledger = Keeper(), scheduling.Ledger()
    for number in range(3):  # the first is told everything; the second has its own first time for much
        ledger = replace(_round_on_the_spot(keeper, snapshot, ledger).ledger, is_back=True, under_way={})
        name = f"machine-{number}"
        nodes = {**nodes, name: replace(nodes[name], is_unschedulable=True, taints=(CORDONED,))}
        snapshot = replace(snapshot, nodes=nodes, waiting_pods=(_waiting(pod_shape(number), 2_000 + number),))
    with measured() as spent:
        decision = _round_on_the_spot(keeper, snapshot, ledger)
    report.add("one_node_changed", cpu_seconds=spent.cpu_seconds, pods=1, placed=len(decision.actions), left=0)


def _round_on_the_spot(keeper: Keeper, snapshot: Snapshot, ledger: scheduling.Ledger) -> Decision[scheduling.Ledger]:
    asked, answer = scheduling.question(snapshot, ledger, ON), None
    for part in asked.problem.parts() if asked is not None and asked.problem is not None else ():
        answer = keeper(part)
    return scheduling.plan(snapshot, ledger, ON, asked, answer)


async def _round_beside(snapshot: Snapshot) -> tuple[Decision[scheduling.Ledger], float]:
    """A round as the loop does it, and the longest time that the event loop did nothing else."""
    runtime, gaps = SystemRuntime(), list[float]()

    async def beat() -> None:
        while True:
            began_at = runtime.monotonic()
            await runtime.sleep(0.001)
            gaps.append(runtime.monotonic() - began_at - 0.001)

    keeper = runtime.servant(Keeper)
    await keeper.ask(60.0, RoundProblem(FleetChange(), SETTINGS))  # its process is there
    beating = runtime.spawn("beat", beat())
    await runtime.sleep(0.05)
    asked = scheduling.question(snapshot, scheduling.Ledger(), ON)
    answer = None
    for part in asked.problem.parts() if asked is not None and asked.problem is not None else ():
        answer = await keeper.ask(60.0, part)
    decision = scheduling.plan(snapshot, scheduling.Ledger(), ON, asked, answer)
    await runtime.sleep(0.05)
    beating.cancel()
    runtime.close()
    return decision, max(gaps)


def _waiting(shape: PodShape, number: int) -> Pod:
    name = f"pod-{number}"
    return Pod(name, replace(shape, scheduler_name="growth"), uid=name, created_at=1e9)


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
