"""How much of what could be saved is saved, by emptying nodes and by replacing them, and what does one decision cost?
Mode Full, headroom 0.

| case | what |
| --- | --- |
| `ten_at_60_percent` | ten nodes that fit into six exactly: one pass, nothing bought |
| `random_100` | 100 nodes at 26 to 31 % with pods of random sizes, against the best that amounts alone allow |
| `one_of_64_cores` | one large node with 10 cores used, against the cheapest set |
| `karpenter_5000` | the plan that Karpenter makes for 5,000 pods on Hetzner's cx types, until nothing more is found;
  needs `GROWTH_BENCH_DATA` |
| `nodes_1000` | one decision over 1,000 nodes with 20 pods each: which can be emptied |
| `replace_1000` | the same, of nodes that are full but of a dear type: which can be replaced |

`moves` are pods that move, `bought` machines that are bought, for what is saved.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence

from bench.exchanging import Played
from bench.peers import full_pool, node_of, peer_cluster
from bench.report import Report, main, measured, parser
from growth.model.action import MarkScaleDown
from growth.model.offering import Offering
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import consolidation
from growth.plan.nodes_down.budgets import Recent

GIB = 2**30
NOW = 1_800_000_000.0
CORES, MEMORY_GIB, PRICE = 4, 16, 0.02
SOLD = Offering(
    "bench-node", "node", "here", PRICE, Resources({"cpu": CORES * 1000, "memory": MEMORY_GIB * GIB, "pods": 110})
)
SETTINGS = Settings(
    scale_down_headroom=0.0, consolidation_headroom=0.0, disruption_window_seconds=0.0, settling_seconds=0.0
)


def run(_: argparse.Namespace) -> Report:
    report = Report("nodes whose pods fit elsewhere, or on cheaper nodes")
    _measure(report, "ten_at_60_percent", [[400] * 6 for _ in range(10)])
    report.limit("ten_at_60_percent", "nodes_after", 6)
    _measure(report, "random_100", _random_loads(100))
    report.limit("random_100", "missed_share", 0.05)
    _play(report, "one_of_64_cores", _one_large(), best=0.0625)
    report.limit("one_of_64_cores", "price_after", 0.0625)
    peer = peer_cluster("hetzner_cx", "generic_5000")
    if peer is not None:
        _play(report, "karpenter_5000", peer, best=8.11)
        report.limit("karpenter_5000", "price_after", 8.4)
        report.limit("karpenter_5000", "cpu_seconds", 2.0)
    _measure(
        report, "nodes_1000", [[50 + (number * 7 + each * 13) % 100 for each in range(20)] for number in range(1000)]
    )
    report.limit("nodes_1000", "cpu_seconds", 2.0)
    _play(report, "replace_1000", _full_but_dear(1000), best=1000 * 0.02, most_decisions=1)
    report.limit("replace_1000", "cpu_seconds", 2.0)
    return report


def _play(report: Report, case: str, snapshot: Snapshot, best: float, most_decisions: int = 100) -> None:
    played = Played(snapshot, SETTINGS)
    before = played.price_per_hour
    played.play(most_decisions)
    after = played.price_per_hour
    report.add(
        case,
        cpu_seconds=played.dearest_decision_seconds,
        nodes=len(snapshot.nodes),
        nodes_after=len(played.snapshot.nodes),
        price_before=before,
        price_after=after,
        saved_per_hour=before - after,
        best_saving_per_hour=before - best,
        missed_share=1 - (before - after) / (before - best),
        moves=played.moves,
        bought=played.bought,
        decisions=played.decisions,
    )


def _one_large() -> Snapshot:
    """Ten cores of small pods on 64; the cheapest set that holds them is one of 8 cores and one of 2."""
    sold = tuple(
        _sold(f"of-{cores}", cores, price) for cores, price in ((2, 0.0125), (8, 0.05), (16, 0.11), (64, 0.44))
    )
    return _cluster([[500] * 20], sold, sold[-1])


def _full_but_dear(count: int) -> Snapshot:
    """As full as can be, of a type that costs twice what another of the same size does."""
    cheap, dear = _sold("cheap", CORES, PRICE), _sold("dear", CORES, 2 * PRICE)
    return _cluster(
        [[150 + (each * 7) % 100 for each in range(20)] for _ in range(count)], (cheap, dear), dear, budget="10%"
    )


def _sold(name: str, cores: int, price: float) -> Offering:
    return Offering(
        f"bench-{name}", name, "here", price, Resources({"cpu": cores * 1000, "memory": cores * 4 * GIB, "pods": 110})
    )


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
        decision = consolidation.plan(snapshot, consolidation.Ledger(recent=Recent(1.0)), SETTINGS)
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
        moves=sum(len(snapshot.pods_by_node[name]) for name in going),
        bought=0,
    )


def _cluster(
    loads: Sequence[Sequence[int]], sold: tuple[Offering, ...] = (SOLD,), of: Offering = SOLD, budget: str = "100%"
) -> Snapshot:
    nodes, pods = {}, {}
    owner = Owner("ReplicaSet", "web", "uid-web")
    for number, load in enumerate(loads):
        name = f"default-pool-{number:04d}"
        nodes[name] = node_of(name, of, NOW - 9000)
        pods[name] = tuple(_pod(f"p-{number}-{each}", name, cpu, owner) for each, cpu in enumerate(load))
    return Snapshot(
        NOW, nodes=nodes, pods_by_node=pods, pools={"default": full_pool(sold, budget)}, offerings=sold, machines_at=NOW
    )


def _pod(name: str, node: str, cpu: int, owner: Owner) -> Pod:
    return Pod(
        name,
        PodShape(requests=Resources({"cpu": cpu, "memory": cpu * GIB // 1000})),
        name,
        owner,
        node,
        phase="Running",
    )


if __name__ == "__main__":
    sys.exit(main(parser(__doc__), run))
