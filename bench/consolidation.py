"""How much of what could be saved by emptying nodes is saved, and what does one decision cost? Mode Full, headroom 0, one pass, nothing bought.

`ten_at_60_percent` packs ten nodes into six exactly; `random_100` has 100 nodes at 26 to 31 % with pods of random sizes, against the best that
amounts alone allow; `nodes_1000` is one decision over 1,000 nodes with 20 pods each. Replacing nodes by cheaper ones is not part of it.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence

from bench.report import Report, main, measured, parser
from growth.model.action import MarkScaleDown
from growth.model.labels import HOSTNAME, Labels
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, Node
from growth.model.nodepool import DisruptionBudget, NodePool, NodePoolSpec, ServerTypeChoice
from growth.model.offering import Offering
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan import consolidation

GIB = 2**30
NOW = 1_800_000_000.0
CORES, MEMORY_GIB, PRICE = 4, 16, 0.02
SOLD = Offering("bench-node", "node", "here", PRICE, Resources({"cpu": CORES * 1000, "memory": MEMORY_GIB * GIB, "pods": 110}))
POOL = NodePool("default", NodePoolSpec((ServerTypeChoice("node"),), consolidation="Full", budgets=(DisruptionBudget("100%"),)))
SETTINGS = Settings(scale_down_headroom=0.0, consolidation_headroom=0.0, disruption_window_seconds=0.0, settling_seconds=0.0)


def run(_: argparse.Namespace) -> Report:
    report = Report("nodes whose pods fit elsewhere")
    _measure(report, "ten_at_60_percent", [[400] * 6 for _ in range(10)])
    report.limit("ten_at_60_percent", "nodes_after", 6)
    _measure(report, "random_100", _random_loads(100))
    report.limit("random_100", "missed_share", 0.05)
    _measure(report, "nodes_1000", [[50 + (number * 7 + each * 13) % 100 for each in range(20)] for number in range(1000)])
    report.limit("nodes_1000", "cpu_seconds", 2.0)
    return report


def _random_loads(count: int) -> list[list[int]]:
    """Milli-cores of the pods on each node, 26 to 31 % in all."""
    chance = random.Random("consolidation")
    loads = []
    for _ in range(count):
        target, pods = chance.uniform(0.26, 0.31) * CORES * 1000, list[int]()
        while sum(pods) < target - 50:
            pods.append(min(chance.choice((50, 100, 150, 200, 250, 500)), int(target - sum(pods))))
        loads.append(pods)
    return loads


def _measure(report: Report, case: str, loads: Sequence[Sequence[int]]) -> None:
    snapshot = _cluster(loads)
    with measured() as spent:
        decision = consolidation.plan(snapshot, consolidation.Ledger(known_since=1.0), SETTINGS)
    going = {action.node.name for action in decision.actions if isinstance(action, MarkScaleDown)}
    best = len(loads) - math.ceil(sum(map(sum, loads)) / (CORES * 1000))
    report.add(
        case,
        cpu_seconds=spent.cpu_seconds,
        nodes=len(loads),
        nodes_after=len(loads) - len(going),
        saved_per_hour=len(going) * PRICE,
        best_saving_per_hour=best * PRICE,
        missed_share=1 - len(going) / best if best else 0.0,
        pods_to_move=sum(len(snapshot.pods_by_node[name]) for name in going),
        bought=0,
    )


def _cluster(loads: Sequence[Sequence[int]]) -> Snapshot:
    nodes, pods = {}, {}
    owner = Owner("ReplicaSet", "web", "uid-web")
    for number, load in enumerate(loads):
        name = f"default-pool-{number:04d}"
        labels = Labels({HOSTNAME: name, POOL_LABEL: "default", OFFERING_LABEL: SOLD.name, REQUEST_LABEL: name})
        nodes[name] = Node(name, labels, allocatable=SOLD.allocatable, uid=name, created_at=NOW - 9000)
        pods[name] = tuple(_pod(f"p-{number}-{each}", name, cpu, owner) for each, cpu in enumerate(load))
    return Snapshot(NOW, nodes=nodes, pods_by_node=pods, pools={"default": POOL}, offerings=(SOLD,), machines_at=NOW)


def _pod(name: str, node: str, cpu: int, owner: Owner) -> Pod:
    return Pod(name, PodShape(requests=Resources({"cpu": cpu, "memory": cpu * GIB // 1000})), name, owner, node, phase="Running")


if __name__ == "__main__":
    sys.exit(main(parser(__doc__), run))
