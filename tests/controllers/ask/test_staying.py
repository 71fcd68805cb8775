"""Why a node stays, as a count by check and pool: at every look, told or not; and as an event only when it changes."""

from __future__ import annotations

from growth.controllers.loop.journal import Journal
from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.runtime import SystemRuntime
from growth.model.note import About, Note
from growth.plan.nodes_down.consolidation import STAYING
from growth.solver.reasons import no_nodes
from tests.controllers.loop.test_journal import KeptEvents


def test_every_look_is_counted_and_only_a_change_is_told() -> None:
    events, metrics = KeptEvents(), Metrics(SystemRuntime())
    journal = Journal(events, metrics)  # type: ignore[arg-type]  # a double of the recorder
    node = About("Node", "a", uid="uid-a")
    blocked = Note(node, STAYING, no_nodes().message, fields=(*no_nodes().fields(), ("nodepool", "default")))
    journal.record([blocked])
    journal.record([blocked, Note(node, STAYING, "the node stays for now: the budget is used up")])
    labels = {"check_type": "no_nodes", "nodepool": "default"}
    assert metrics.registry.get_sample_value("growth_safety_check_failures_total", labels) == 2
    assert [event[3] for event in events.events] == [
        "no available nodes for rescheduling",
        "the node stays for now: the budget is used up",
    ]
