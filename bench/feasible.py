"""How long does it take to say who fits where? 1,000 waiting pods in 50 classes, 1,000 nodes in 50 shapes, 20,000 bound
pods.

`all_pairs` is every pod against every node, by class, with the index built first; `again` asks once more, as after a
change. `what_if` takes each of 1,000 nodes with 40 pods out in turn, finds a place for every pod elsewhere, and undoes
it all."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from bench.report import Report, main, measured, parser
from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import HostPort, Pod, PodAffinityTerm, PodShape, Toleration, TopologySpread
from growth.model.resources import Resources
from growth.solver.rules import Neighbours
from growth.solver.rules.pod_class import PodClass

NODES, NODE_SHAPES = 1_000, 50
WAITING, WAITING_CLASSES = 1_000, 50
BOUND, BOUND_TEMPLATES = 20_000, 200
GIB = 2**30
GPU = Taint("gpu", "true")


def run(_: argparse.Namespace) -> Report:
    report = Report("who fits where")
    nodes, bound = make_nodes(), make_bound(BOUND)
    waiting = [Pod(f"new-{number}", make_shape(number % WAITING_CLASSES)) for number in range(WAITING)]
    with measured() as index:
        neighbours = Neighbours(nodes, bound, shapes=[pod.shape for pod in waiting])
    with measured() as pairs:
        classes = [neighbours.class_of_pod(pod) for pod in waiting]
        masks = {pod_class: neighbours.fits(pod_class) for pod_class in dict.fromkeys(classes)}
        fits = np.array([masks[pod_class] for pod_class in classes])
    with measured() as again:
        for pod_class in masks:
            neighbours.fits(pod_class)
    report.add(
        "all_pairs",
        cpu_seconds=index.cpu_seconds + pairs.cpu_seconds,
        index_cpu_seconds=index.cpu_seconds,
        pairs=fits.size,
        fitting=int(fits.sum()),
    )
    report.limit("all_pairs", "cpu_seconds", 0.2)
    report.add("again", cpu_seconds=again.cpu_seconds, pairs=fits.size)
    _measure_what_if(report)
    return report


def make_nodes() -> list[Node]:
    return [_node(number, number % NODE_SHAPES) for number in range(NODES)]


def _node(number: int, shape: int) -> Node:
    name = f"node-{number}"
    labels = {
        HOSTNAME: name,
        ZONE: f"zone-{shape % 3}",
        "disktype": ("ssd", "hdd")[shape % 2],
        "generation": str(shape % 7),
    }
    cores = (32, 48, 64)[shape % 3]
    allocatable = Resources(
        {"cpu": cores * 1000, "memory": cores * 4 * GIB, "pods": 110, "ephemeral-storage": 100 * GIB}
    )
    return Node(name, Labels(labels), (GPU,) if shape % 10 == 0 else (), allocatable)


def make_shape(number: int, extra: dict[str, str] | None = None) -> PodShape:
    """A template: of ten, three plain and one with each kind of rule."""
    app = f"app-{number}"
    likes = LabelSelector((Requirement("app", "In", (app,)),))
    recent = NodeSelectorTerm((Requirement("generation", "Gt", ("1",)), Requirement(ZONE, "In", ("zone-0", "zone-1"))))
    rules: tuple[dict[str, Any], ...] = (
        {},
        {"spread": (TopologySpread(2, ZONE, selector=likes), TopologySpread(3, HOSTNAME, selector=likes))},
        {"anti_affinity": (PodAffinityTerm(HOSTNAME, likes),)},
        {"affinity": (PodAffinityTerm(ZONE, likes),)},
        {"node_affinity": (recent,)},
        {"tolerations": (Toleration("gpu", "Exists"),)},
        {"node_selector": Labels({"disktype": "ssd"})},
        {"host_ports": (HostPort(8000 + number),)},
        {},
        {},
    )
    requests = Resources({"cpu": 100 + number * 37 % 400, "memory": (1 + number % 8) * GIB // 8})
    return PodShape(
        namespace=f"team-{number % 20}",
        labels=Labels({"app": app, **(extra or {})}),
        requests=requests,
        **rules[number % 10],
    )


def make_bound(count: int) -> list[Pod]:
    """Dealt out over the nodes; every tenth template is a StatefulSet's, whose pods all have a label of their own."""
    shapes = [make_shape(number) for number in range(BOUND_TEMPLATES)]
    pods = []
    for number in range(count):
        template = number % BOUND_TEMPLATES
        name = f"bound-{number}"
        shape = (
            make_shape(template, {"statefulset.kubernetes.io/pod-name": name})
            if template % 10 == 9
            else shapes[template]
        )
        pods.append(Pod(name, shape, node_name=f"node-{(number * 7919 + number // BOUND_TEMPLATES) % NODES}"))
    return pods


def _measure_what_if(report: Report) -> None:
    neighbours = Neighbours(make_nodes(), make_bound(40 * NODES))
    search = Search(neighbours)
    search.can_go(0)
    with measured() as spent:
        removable = sum(search.can_go(number) for number in range(NODES))
    report.add("what_if", cpu_seconds=spent.cpu_seconds, pairs=40 * NODES, fitting=removable)


class Search:
    """First fit, trying first where the last pod of the same class went."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._last: dict[int, int] = {}

    def can_go(self, number: int) -> bool:
        """Would all pods of the node find a place elsewhere?"""
        contents = self._neighbours.contents(number)
        with self._neighbours.trial():
            self._neighbours.take_out(number)
            return all(self._place(pod_class) for pod_class, count in contents for _ in range(count))

    def _place(self, pod_class: PodClass) -> bool:
        target = self._last.get(pod_class.number)
        if target is None or not self._neighbours.fits_on(pod_class, target):
            fits = self._neighbours.fits(pod_class)
            target = int(fits.argmax())
            if not fits[target]:
                return False
            self._last[pod_class.number] = target
        self._neighbours.add(pod_class, target)
        return True


if __name__ == "__main__":
    sys.exit(main(parser(__doc__), run))
