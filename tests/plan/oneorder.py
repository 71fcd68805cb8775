"""The steps that tests of provisioning share: one request in a small world, planned and settled."""

from __future__ import annotations

from typing import Any

from growth.model.action import LaunchMachine
from growth.model.decision import Decision, Settled
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec, NodeRequest, RequestPhase
from growth.model.outcome import Outcome
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up import provisioning
from tests.plan.builders import offering, pool, request, world

SMALL = offering("small", 2, 4096, 0.01, location="fsn1")
NAME = "default-pool-1"
SETTINGS = Settings()


def plan(
    snapshot: Snapshot, ledger: provisioning.Ledger | None = None, settings: Settings = SETTINGS
) -> Decision[provisioning.Ledger]:
    """Unless more is said, of a process that has ordered everything itself."""
    return provisioning.plan(snapshot, ledger or provisioning.Ledger(inherited=frozenset()), settings)


def one(phase: RequestPhase = "Pending", **fields: Any) -> NodeRequest:
    return request(NAME, SMALL, phase, **fields)


def removal(name: str = NAME) -> NodeRemovalRequest:
    return NodeRemovalRequest(name, NodeRemovalRequestSpec(name, "default", "sim-small", f"id-{name}"))


def with_one(of_request: NodeRequest, **fields: Any) -> Snapshot:
    fields.setdefault("pools", [pool()])
    fields.setdefault("machines", [])
    return world(offerings=[SMALL], requests=[of_request], **fields)


def settle_launch(
    snapshot: Snapshot, outcome: Outcome, ledger: provisioning.Ledger | None = None
) -> Decision[provisioning.Ledger]:
    decision = plan(snapshot, ledger)
    (action,) = (action for action in decision.actions if isinstance(action, LaunchMachine))
    return provisioning.settle(Settled(action, outcome), snapshot, decision.ledger, SETTINGS)
