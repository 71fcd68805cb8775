"""How does a cluster look after growth has had its way with it? Plays decisions of consolidation and replacement out,
without a cluster around them.

Machines come at once, pods move where the what-if says they fit, empty nodes go. Asked by `bench.consolidation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from bench.peers import node_of
from bench.report import measured
from growth.model.action import CreateNodeRequest, MarkScaleDown
from growth.model.node import OFFERING_LABEL
from growth.model.noderequest import NodeRequest, NodeRequestStatus
from growth.model.offering import Machine
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import consolidation, replacement
from growth.plan.nodes_down.budgets import Recent
from growth.solver.existing.exchange import exchange
from growth.solver.existing.what_if import WhatIf

STEP_SECONDS = 10_000.0  # everything has settled by then
_TIMES_IN_VAIN = 4


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
        self.ledger = replacement.plan(
            self.snapshot, self.ledger, self.settings
        ).ledger  # the nodes are remembered, and asked about later
        self._later()
        with measured() as spent:
            asked = replacement.question(self.snapshot, self.ledger, self.settings)
            decision = replacement.plan(
                self.snapshot, self.ledger, self.settings, asked, None if asked is None else exchange(asked.problem)
            )
        self.dearest_decision_seconds = max(self.dearest_decision_seconds, spent.cpu_seconds)
        self.ledger = decision.ledger
        ordered = [action for action in decision.actions if isinstance(action, CreateNodeRequest)]
        if not ordered:
            return False
        self._arrive(ordered)
        decision = replacement.plan(self.snapshot, self.ledger, self.settings)
        return self._carry_out(action.node.name for action in decision.actions if isinstance(action, MarkScaleDown))

    def _arrive(self, ordered: Iterable[CreateNodeRequest]) -> None:
        nodes, machines, requests = (
            dict(self.snapshot.nodes),
            dict(self.snapshot.machines),
            dict(self.snapshot.requests),
        )
        sold = {(each.name, each.location): each for each in self.snapshot.offerings}
        now = self.snapshot.now
        for action in ordered:
            self.bought += 1
            name = f"default-pool-new-{self.bought:05d}"
            offering = sold[action.spec.target_offering, action.spec.location]
            nodes[name] = node_of(name, offering, now)
            machines[name] = Machine(f"id-{name}", name, offering.name, offering.location)
            requests[name] = NodeRequest(
                name, action.spec, NodeRequestStatus("Ready"), name, created_at=now, changed_at=now
            )
        self.snapshot = replace(self.snapshot, nodes=nodes, machines=machines, requests=requests)

    def _carry_out(self, names: Iterable[str]) -> bool:
        """The pods of these nodes move as far as they fit; nodes that are empty go."""
        going = list(names)
        everybody = [pod for pods in self.snapshot.pods_by_node.values() for pod in pods]
        what_if = WhatIf(self.snapshot.nodes.values(), everybody, headroom=0.0, leaving=going)
        pods = {name: list(some) for name, some in self.snapshot.pods_by_node.items()}
        for name in going:
            verdict = what_if.judge([name])
            if verdict.may_go:
                what_if.keep(verdict)
                self._move(verdict.movers, verdict.targets, pods)
        nodes = {name: node for name, node in self.snapshot.nodes.items() if pods.get(name)}
        self.snapshot = replace(
            self.snapshot, nodes=nodes, pods_by_node={name: tuple(some) for name, some in pods.items() if some}
        )
        return bool(going)

    def _move(self, movers: Iterable[object], targets: Iterable[str], pods: dict[str, list[Pod]]) -> None:
        for mover, target in zip(movers, targets, strict=True):
            pod = getattr(mover, "pod", None)
            if isinstance(pod, Pod):
                here = next(each for each in pods[pod.node_name] if each.uid == pod.uid)
                pods[pod.node_name].remove(here)
                pods.setdefault(target, []).append(replace(here, node_name=target))
                self.moves += 1
