"""How long does it take to judge every node of a cluster: may it go, and where do its pods fit?

`nodes_100` has 100 nodes and 1,000 pods, `nodes_1000` 1,000 nodes with 40 pods each, of 200 templates, seven of ten
with a rule between pods or about nodes. `full_1000` is the same cluster with hardly any room: nearly every node stays,
with its reason. Building the index counts."""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Sequence

from msgspec.structs import replace

from bench.feasible import make_bound, make_nodes
from bench.report import MIB, Report, main, measured, parser
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.resources import Resources
from growth.solver.existing.what_if import WhatIf


def run(_: argparse.Namespace) -> Report:
    report = Report("may this node go?")
    nodes, pods = make_nodes(), make_bound(40_000)
    few = nodes[:100]
    _measure(
        report,
        "nodes_100",
        few,
        [replace(pod, node_name=few[number % 100].name) for number, pod in enumerate(pods[:1_000])],
    )
    report.limit("nodes_100", "cpu_seconds", 0.1)
    report.limit("nodes_100", "mib", 10.0)
    _measure(report, "nodes_1000", nodes, pods)
    report.limit("nodes_1000", "cpu_seconds", 0.5)
    _measure(
        report,
        "full_1000",
        [_nearly_full(node, pods_there) for node, pods_there in zip(nodes, _by_node(nodes, pods), strict=True)],
        pods,
    )
    return report


def _measure(report: Report, case: str, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
    with measured() as spent:
        may_go = _judge_each(nodes, pods)
    report.add(
        case, cpu_seconds=spent.cpu_seconds, nodes=len(nodes), pods=len(pods), may_go=may_go, stay=len(nodes) - may_go
    )
    if len(nodes) <= 100:
        tracemalloc.start()
        _judge_each(nodes, pods)
        report.add(case, mib=tracemalloc.get_traced_memory()[1] / MIB)
        tracemalloc.stop()


def _judge_each(nodes: Sequence[Node], pods: Sequence[Pod]) -> int:
    """How many of the nodes may go, each alone."""
    what_if = WhatIf.once(nodes, pods)
    return sum(what_if.judge([node.name]).may_go for node in nodes)


def _by_node(nodes: Sequence[Node], pods: Sequence[Pod]) -> list[list[Pod]]:
    found: dict[str, list[Pod]] = {node.name: [] for node in nodes}
    for pod in pods:
        found[pod.node_name].append(pod)
    return list(found.values())


def _nearly_full(node: Node, pods: Sequence[Pod]) -> Node:
    """One part in 400 is left: all nodes together could take a node's pods, but hardly any single one a pod."""
    used = {name: sum(pod.shape.requests[name] for pod in pods) for name in ("cpu", "memory")}
    return replace(
        node,
        allocatable=Resources({**node.allocatable, **{name: amount + amount // 400 for name, amount in used.items()}}),
    )


if __name__ == "__main__":
    sys.exit(main(parser(__doc__), run))
