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
| `again_5000` | 5,000 full nodes with 20 pods each: the dearest of ten further looks, 50 pods having changed before
  each; while it lasts the event loop stands still |

`moves` are pods that move, `bought` machines that are bought, for what is saved. Decisions are played out without a
cluster: machines come at once, pods move where the what-if says they fit, empty nodes go. Plans of a peer lie in the
folder that GROWTH_BENCH_DATA names: catalogues, pods, and which node holds which."""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.report import Report, main, measured, parser
from growth.cli.plan.files import read_offerings
from growth.model.action import CreateNodeRequest, MarkScaleDown
from growth.model.labels import HOSTNAME
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, Node
from growth.model.nodepool import DisruptionBudget, NodePool, NodePoolSpec, PoolLimits, ServerTypeChoice
from growth.model.noderequest import NodeRequest, NodeRequestStatus
from growth.model.offering import Machine, Offering
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import consolidation, replacement
from growth.plan.nodes_down.budgets import Recent
from growth.solver.existing.exchange import exchange
from growth.solver.existing.what_if import WhatIf

GIB = 2**30
NOW = 1_800_000_000.0
STEP_SECONDS = 10_000.0  # everything has settled by then
_TIMES_IN_VAIN = 4
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
    loads = [[50 + (number * 7 + each * 13) % 100 for each in range(20)] for number in range(1000)]
    _measure(report, "nodes_1000", loads)
    report.limit("nodes_1000", "cpu_seconds", 2.0)
    _play(report, "replace_1000", _full_but_dear(1000), best=1000 * 0.02, most_decisions=1)
    report.limit("replace_1000", "cpu_seconds", 2.0)
    _look_again(report, "again_5000", 5000)
    report.limit("again_5000", "cpu_seconds", 0.3)
    report.limit("again_5000", "first_cpu_seconds", 5.0)
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
    prices = {2: 0.0125, 8: 0.05, 16: 0.11, 64: 0.44}
    sold = tuple(_sold(f"of-{cores}", cores, price) for cores, price in prices.items())
    return _cluster([[500] * 20], sold, sold[-1])


def _full_but_dear(count: int) -> Snapshot:
    """As full as can be, of a type that costs twice what another of the same size does."""
    cheap, dear = _sold("cheap", CORES, PRICE), _sold("dear", CORES, 2 * PRICE)
    loads = [[150 + (each * 7) % 100 for each in range(20)] for _ in range(count)]
    return _cluster(loads, (cheap, dear), dear, budget="10%")


def _sold(name: str, cores: int, price: float) -> Offering:
    amounts = Resources({"cpu": cores * 1000, "memory": cores * 4 * GIB, "pods": 110})
    return Offering(f"bench-{name}", name, "here", price, amounts)


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


def _look_again(report: Report, case: str, count: int) -> None:
    """As in a cluster that has settled: nothing is left to do, and pods come and go."""
    snapshot = _cluster([[150 + (number * 7 + each * 13) % 100 for each in range(20)] for number in range(count)])
    ledger, spent = consolidation.Ledger(recent=Recent(1.0)), list[float]()
    for look in range(11):
        with measured() as once:
            ledger = consolidation.plan(snapshot, ledger, SETTINGS).ledger
        spent.append(once.cpu_seconds)
        snapshot = replace(_churned(snapshot, look), now=snapshot.now + 60.0)
    report.add(case, cpu_seconds=max(spent[1:]), first_cpu_seconds=spent[0], nodes=count)


def _churned(snapshot: Snapshot, look: int) -> Snapshot:
    """Fifty pods have gone, and others like them are in their places."""
    pods, names = dict(snapshot.pods_by_node), list(snapshot.nodes)
    for name in names[look * 7 :: len(names) // 50][:50]:
        gone, *others = pods[name]
        pods[name] = (*others, replace(gone, name=f"{gone.name}-{look}", uid=f"{gone.name}-{look}"))
    return replace(snapshot, pods_by_node=pods)


def _cluster(
    loads: Sequence[Sequence[int]], sold: tuple[Offering, ...] = (SOLD,), of: Offering = SOLD, budget: str = "100%"
) -> Snapshot:
    nodes, pods = {}, {}
    owner = Owner("ReplicaSet", "web", "uid-web")
    for number, load in enumerate(loads):
        name = f"default-pool-{number:04d}"
        nodes[name] = node_of(name, of, NOW - 9000)
        pods[name] = tuple(_pod(f"p-{number}-{each}", name, cpu, owner) for each, cpu in enumerate(load))
    return _snapshot(nodes, pods, sold, budget)


def _pod(name: str, node: str, cpu: int, owner: Owner) -> Pod:
    shape = PodShape(requests=Resources({"cpu": cpu, "memory": cpu * GIB // 1000}))
    return Pod(name, shape, name, owner, node, phase="Running")


# ----------------------------------------------------------------------------- decisions played out


@dataclass
class Played:
    """A cluster, and what was done to it."""

    snapshot: Snapshot
    settings: Settings
    moves: int = 0
    bought: int = 0
    decisions: int = 0
    dearest_decision_seconds: float = 0.0
    ledger: replacement.Ledger = field(default_factory=lambda: replacement.Ledger(Recent(1.0)))

    @property
    def price_per_hour(self) -> float:
        prices = {each.name: each.price_per_hour for each in self.snapshot.offerings}
        return sum(prices[node.labels[OFFERING_LABEL]] for node in self.snapshot.nodes.values())

    def play(self, most_decisions: int) -> None:
        """Until several attempts in a row have found nothing."""
        in_vain = 0
        while in_vain < _TIMES_IN_VAIN and self.decisions < most_decisions:
            self.decisions += 1
            in_vain = 0 if self._empty() or self._exchange() else in_vain + 1

    def _later(self) -> None:
        now = self.snapshot.now + STEP_SECONDS
        self.snapshot = replace(self.snapshot, now=now, machines_at=now, requests={})

    def _empty(self) -> bool:
        self._later()
        with measured() as spent:
            decision = consolidation.plan(self.snapshot, consolidation.Ledger(recent=Recent(1.0)), self.settings)
        self.dearest_decision_seconds = max(self.dearest_decision_seconds, spent.cpu_seconds)
        return self._carry_out(action.node.name for action in decision.actions if isinstance(action, MarkScaleDown))

    def _exchange(self) -> bool:
        # the nodes are remembered, and asked about later
        self.ledger = replacement.plan(self.snapshot, self.ledger, self.settings).ledger
        self._later()
        with measured() as spent:
            asked = replacement.question(self.snapshot, self.ledger, self.settings)
            answer = None if asked is None else exchange(asked.problem)
            decision = replacement.plan(self.snapshot, self.ledger, self.settings, asked, answer)
        self.dearest_decision_seconds = max(self.dearest_decision_seconds, spent.cpu_seconds)
        self.ledger = decision.ledger
        ordered = [action for action in decision.actions if isinstance(action, CreateNodeRequest)]
        if not ordered:
            return False
        self._arrive(ordered)
        decision = replacement.plan(self.snapshot, self.ledger, self.settings)
        return self._carry_out(action.node.name for action in decision.actions if isinstance(action, MarkScaleDown))

    def _arrive(self, ordered: Iterable[CreateNodeRequest]) -> None:
        before, now = self.snapshot, self.snapshot.now
        nodes, machines, requests = dict(before.nodes), dict(before.machines), dict(before.requests)
        sold = {(each.name, each.location): each for each in before.offerings}
        for action in ordered:
            self.bought += 1
            name = f"default-pool-new-{self.bought:05d}"
            offering = sold[action.spec.target_offering, action.spec.location]
            nodes[name] = node_of(name, offering, now)
            machines[name] = Machine(f"id-{name}", name, offering.name, offering.location)
            ready = NodeRequestStatus("Ready")
            requests[name] = NodeRequest(name, action.spec, ready, name, created_at=now, changed_at=now)
        self.snapshot = replace(before, nodes=nodes, machines=machines, requests=requests)

    def _carry_out(self, names: Iterable[str]) -> bool:
        """The pods of these nodes move as far as they fit; nodes that are empty go."""
        going = list(names)
        everybody = [pod for pods in self.snapshot.pods_by_node.values() for pod in pods]
        what_if = WhatIf.once(self.snapshot.nodes.values(), everybody, headroom=0.0, leaving=going)
        pods = {name: list(some) for name, some in self.snapshot.pods_by_node.items()}
        for name in going:
            verdict = what_if.judge([name])
            if verdict.may_go:
                what_if.keep(verdict)
                self._move(verdict.movers, verdict.targets, pods)
        nodes = {name: node for name, node in self.snapshot.nodes.items() if pods.get(name)}
        pods_by_node = {name: tuple(some) for name, some in pods.items() if some}
        self.snapshot = replace(self.snapshot, nodes=nodes, pods_by_node=pods_by_node)
        return bool(going)

    def _move(self, movers: Iterable[object], targets: Iterable[str], pods: dict[str, list[Pod]]) -> None:
        for mover, target in zip(movers, targets, strict=True):
            pod = getattr(mover, "pod", None)
            if isinstance(pod, Pod):
                here = next(each for each in pods[pod.node_name] if each.uid == pod.uid)
                pods[pod.node_name].remove(here)
                pods.setdefault(target, []).append(replace(here, node_name=target))
                self.moves += 1


# ----------------------------------------------------------------------------------- a peer's plan


def peer_cluster(catalogue: str, mix: str, budget: str = "100%") -> Snapshot | None:
    """What the peer's cheapest plan leaves, in one pool that may be consolidated; None where the data is missing."""
    folder = Path(os.environ.get("GROWTH_BENCH_DATA", "")) / "peer_bench"
    plan = folder / "results" / f"{catalogue}__{mix}.json"
    if not plan.is_file():
        return None
    offered = read_offerings(folder / "catalogs" / f"{catalogue}.json")
    sold = tuple(offering for offering in offered if offering.is_available)
    shapes = {item["metadata"]["name"]: _shape(item) for item in _read(folder / "inputs" / f"{mix}.json")["pods"]}
    by_place = {(each.server_type, each.location): each for each in sold}
    nodes, pods = {}, {}
    for number, planned in enumerate(_read(plan)["cheapestRun"]["nodeList"]):
        name = f"default-pool-{number:05d}"
        nodes[name] = node_of(name, by_place[planned["instanceType"], planned["zone"]], NOW - 9000)
        owner = Owner("ReplicaSet", "web", "uid-web")
        pods[name] = tuple(Pod(each, shapes[each], each, owner, name, phase="Running") for each in planned["pods"])
    return _snapshot(nodes, pods, sold, budget)


def _snapshot(
    nodes: dict[str, Node], pods: dict[str, tuple[Pod, ...]], sold: tuple[Offering, ...], budget: str
) -> Snapshot:
    """In one pool, which may be consolidated."""
    types = tuple(ServerTypeChoice(name) for name in dict.fromkeys(each.server_type for each in sold))
    limits, budgets = PoolLimits(nodes=100_000), (DisruptionBudget(budget),)
    pool = NodePool("default", NodePoolSpec(types, limits=limits, consolidation="Full", budgets=budgets))
    return Snapshot(NOW, nodes=nodes, pods_by_node=pods, pools={"default": pool}, offerings=sold, machines_at=NOW)


def node_of(name: str, offering: Offering, created_at: float) -> Node:
    labels = offering.labels.with_items(
        {HOSTNAME: name, POOL_LABEL: "default", OFFERING_LABEL: offering.name, REQUEST_LABEL: name}
    )
    return Node(
        name,
        labels,
        allocatable=offering.allocatable,
        uid=name,
        created_at=created_at,
        pool="default",
        offering=offering.name,
    )


def _shape(item: dict[str, Any]) -> PodShape:
    return PodShape(requests=Resources.parse(item["spec"]["containers"][0]["resources"]["requests"]))


def _read(path: Path) -> Any:
    return msgspec.json.decode(path.read_bytes())


if __name__ == "__main__":
    sys.exit(main(parser(__doc__), run))
