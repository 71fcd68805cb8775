"""What a node is, by one snapshot: the questions of NodeState side by side, and the one price of a node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, LabelSelector, Requirement
from growth.model.node import SCALE_DOWN_TAINT, STARTUP_TAINT
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec, NodeRemovalRequestStatus
from growth.model.pod import HostPort, PodAffinityTerm, VolumeUse
from growth.model.settings import Settings
from growth.plan.world.nodes import (
    NodeState,
    Prices,
    is_kept_by_wish,
    state_of,
    staying_by_kind,
    waiting_shapes,
    would_take,
)
from tests.plan.builders import NOW, bound, machine, node, offering, pod, pool, world

QUESTIONS = ("is_ending", "is_going", "is_surely_going", "is_draining", "is_free", "is_staying", "takes_pods")
HERE, DEAR = offering("small", 4, 8192, 0.01), offering("small", 4, 8192, 0.03, location="ash", labels={ZONE: "ash"})

SETTINGS = Settings()


def removal(reason: str, phase: Any = "Pending", **fields: Any) -> NodeRemovalRequest:
    return NodeRemovalRequest(
        "n", NodeRemovalRequestSpec("n", "default", "", "", reason), NodeRemovalRequestStatus(phase), **fields
    )


MARKED = node("n", taints=(SCALE_DOWN_TAINT,))


@pytest.mark.parametrize(
    ("state", "true"),
    [
        (NodeState(node("n")), {"is_free", "is_staying", "takes_pods"}),
        (NodeState(node("n", is_unschedulable=True)), {"is_free", "is_staying"}),
        (NodeState(node("n", is_ready=False)), {"is_free"}),
        (NodeState(node("n", taints=(STARTUP_TAINT,))), {"is_free"}),
        (NodeState(node("n", malformed="bad")), {"is_staying"}),
        (NodeState(node("n", deleted_at=NOW)), {"is_ending"}),
        (NodeState(MARKED), {"is_going", "takes_pods"}),
        (NodeState(MARKED, removal("Empty")), {"is_going", "is_ending", "is_surely_going"}),
        (NodeState(MARKED, removal("Expired")), {"is_going", "is_ending", "is_surely_going", "is_draining"}),
        (NodeState(MARKED, removal("Consolidated")), {"is_going", "is_ending", "is_draining", "takes_pods"}),
        (
            NodeState(MARKED, removal("Consolidated", "Deprovisioning")),
            {"is_going", "is_ending", "is_surely_going", "is_draining"},
        ),
        (
            NodeState(MARKED, removal("Consolidated", deleted_at=NOW)),
            {"is_going", "is_ending", "is_surely_going", "is_draining"},
        ),
        (NodeState(None, removal("Orphaned")), {"is_going", "is_ending", "is_surely_going"}),
        (NodeState(None), set()),
    ],
)
def test_each_question_has_its_answer(state: NodeState, true: set[str]) -> None:
    assert {question for question in QUESTIONS if getattr(state, question)} == true


def test_a_state_is_read_from_the_objects_of_a_snapshot() -> None:
    snapshot = world(nodes=[MARKED], removals=[removal("Empty")])
    assert state_of("n", snapshot) == NodeState(MARKED, removal("Empty"))
    assert state_of("nobody", snapshot) == NodeState(None)


def test_nodes_that_stay_are_counted_by_pool_and_offering() -> None:
    kinds = [node("a"), node("b"), node("c", is_ready=False), node("d", of_pool=""), MARKED]
    assert staying_by_kind(world(nodes=kinds)) == {("default", "sim-small"): 2}


def test_a_node_costs_what_its_offering_costs_where_its_machine_is() -> None:
    snapshot = world(offerings=[HERE, DEAR], machines=[machine("n", HERE), machine("m", DEAR)])
    prices = Prices(snapshot)
    assert (prices.price(node("n", of=HERE)), prices.price(node("m", of=DEAR))) == (0.01, 0.03)


def test_without_a_machine_the_zone_counts_and_without_a_zone_the_dearest() -> None:
    prices = Prices(world(offerings=[DEAR, HERE]))
    assert prices.price(node("n", of=HERE, labels={ZONE: "fsn1"})) == 0.01
    assert prices.price(node("n", of=HERE)) == 0.03
    assert prices.price(node("n", labels={"growth.dev/offering": "sim-unknown"})) == 0.0


# ------------------------------------------------------------------------------- who waits for a node

NOBODY = LabelSelector((Requirement("app", "In", ("nobody",)),))
HOPELESS: dict[str, dict[str, Any]] = {
    "affinity to nobody": {"affinity": (PodAffinityTerm(HOSTNAME, NOBODY),)},
    "a port that is taken": {"host_ports": (HostPort(80),)},
    "a claim that is missing": {"volumes": (VolumeUse("data"),)},
    "a pool that is missing": {"pool": "nope"},
    "another pool": {"pool": "other"},
    "too large": {"cpu": 500},
    "resource claims": {"uses_resource_claims": True},
    "not worth money": {"priority": -11},
}


@pytest.mark.parametrize("kind", HOPELESS)
def test_a_pod_that_no_rule_lets_onto_a_node_does_not_want_it(kind: str) -> None:
    resident = bound(pod("web", 0.1, 16, host_ports=(HostPort(80),)), "n1")
    waiting = pod("waits", **{"cpu": 0.1, "mib": 16, **HOPELESS[kind]})
    snapshot = world(nodes=[node("n1")], pools=[pool(), pool("other")], pods=[resident, waiting])
    assert not would_take(snapshot.nodes["n1"], snapshot, waiting_shapes(snapshot, SETTINGS))


def test_a_pod_that_fits_wants_a_node_unless_it_is_cordoned() -> None:
    snapshot = world(nodes=[node("n1")], pools=[pool()], pods=[pod("waits", 0.1, 16)])
    assert would_take(snapshot.nodes["n1"], snapshot, waiting_shapes(snapshot, SETTINGS))
    cordoned = replace(snapshot.nodes["n1"], is_unschedulable=True)
    assert not would_take(cordoned, snapshot, waiting_shapes(snapshot, SETTINGS))


@pytest.mark.parametrize(
    ("reason", "is_ready", "is_kept"),
    [
        *((reason, True, True) for reason in ("Empty", "Consolidated", "Expired", "Drifted", "Orphaned")),
        *((reason, False, False) for reason in ("Unhealthy", "NotReady", "Deleted", "PoolDeleted")),
        *((reason, True, True) for reason in ("Unhealthy", "NotReady", "Deleted", "PoolDeleted")),
    ],
)
def test_an_annotation_keeps_a_node_that_works_whoever_wrote_the_removal(
    reason: str, is_ready: bool, is_kept: bool
) -> None:
    wished = node("n", is_ready=is_ready, annotations={"growth.dev/do-not-disrupt": "true"})
    assert is_kept_by_wish(wished, reason) is is_kept
    assert not is_kept_by_wish(node("n", is_ready=is_ready), reason)
