"""Nodes that are too old, or made from a template that has changed: replaced within the budgets, bought first, at `max`
with one machine more.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import MarkScaleDown, RegisterNode
from growth.model.decision import Decision, Settled
from growth.model.node import POOL_LABEL, SCALE_DOWN_TAINT, TEMPLATE, Node
from growth.model.nodepool import DisruptionBudget, NodePool, PoolLimits, PoolTaint
from growth.model.offering import Offering
from growth.model.outcome import Accepted, Conflict, Refused, Unknown
from growth.model.pod import Owner, Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import renewal
from growth.plan.nodes_down.budgets import Recent
from growth.plan.nodes_up import provisioning
from growth.plan.world.limits import Tally
from growth.plan.world.swaps import has_drifted, template_digest
from growth.solver.existing.exchange import exchange
from tests.plan.builders import (
    NOW,
    bound,
    limited,
    machine,
    node,
    notes_by_reason,
    offering,
    ordered,
    orders,
    pod,
    pool,
    request,
    world,
)

SMALL = offering("small", 4, 8192, 0.01)
SETTINGS = Settings(disruption_window_seconds=0.0)
KNOWN = renewal.Ledger(Recent(NOW - 9000))
OLD = pool("default", "small", expire_after_seconds=1000, budgets=(DisruptionBudget("1"),))


def works(name: str, on: str, cpu: float = 3) -> Pod:
    return bound(pod(name, cpu, 100, owner=Owner("ReplicaSet", "web", "u")), on)


def cluster(count: int, of_pool: NodePool = OLD, node_fields: dict[str, Any] | None = None, **fields: Any) -> Snapshot:
    """So many nodes that are full, each a little younger than the last."""
    nodes: list[Node] = [
        node(f"n{number}", of=SMALL, **{"created_at": NOW - 5000 + number, **(node_fields or {})})
        for number in range(count)
    ]
    pods = [works(f"p{number}", f"n{number}") for number in range(count)]
    fields.setdefault("pools", [of_pool])
    return world(
        nodes=nodes, pods=pods, offerings=[SMALL], machines=[machine(each.name, SMALL) for each in nodes], **fields
    )


def decide(
    snapshot: Snapshot, ledger: renewal.Ledger = KNOWN, settings: Settings = SETTINGS
) -> Decision[renewal.Ledger]:
    asked = renewal.question(snapshot, ledger, settings)
    return renewal.plan(snapshot, ledger, settings, asked, None if asked is None else exchange(asked.problem))


def marked(decision: Decision[Any]) -> list[str]:
    return [action.node.name for action in decision.actions if isinstance(action, MarkScaleDown)]


def renewing(phase: Any, old: tuple[str, ...] = ("n0",), name: str = "new") -> Any:
    made = request(name, SMALL, phase, reason="Renewal")
    return replace(made, spec=replace(made.spec, replaces=old))


# ------------------------------------------------------------------------------------------- expiry


def test_the_oldest_node_is_replaced_first_and_its_successor_is_bought_before_it_goes() -> None:
    decision = decide(cluster(3))
    (spec,) = orders(decision.actions)
    assert (spec.target_offering, spec.reason, spec.replaces) == ("sim-small", "Renewal", ("n0",))
    assert notes_by_reason(decision) == {
        "Renewing": ["Node n0: the node is replaced: it is older than its pool lets it be"]
    }


def test_a_node_with_a_pod_that_must_not_be_disrupted_is_passed_over_and_holds_up_no_other() -> None:
    snapshot = cluster(3)
    kept = bound(pod("kept", 0.1, 100, annotations={"growth.dev/do-not-disrupt": "true"}), "n0")
    pods = {**snapshot.pods_by_node, "n0": (*snapshot.pods_by_node["n0"], kept)}
    (spec,) = orders(decide(replace(snapshot, pods_by_node=pods)).actions)
    assert spec.replaces == ("n1",)


def test_while_the_successor_comes_no_other_is_begun_beyond_the_budget() -> None:
    snapshot = cluster(3, requests=[renewing("Provisioning")])
    assert decide(snapshot).actions == ()
    two = replace(OLD, spec=replace(OLD.spec, budgets=(DisruptionBudget("2"),)))
    assert orders(decide(cluster(3, two, requests=[renewing("Provisioning")])).actions)[0].replaces == ("n1",)


def test_when_the_successor_is_ready_the_old_node_goes_at_once() -> None:
    snapshot = cluster(3, requests=[renewing("Ready")])
    snapshot = replace(snapshot, nodes={**snapshot.nodes, "new": node("new", of=SMALL, created_at=NOW - 60)})
    (action,) = [each for each in decide(snapshot).actions if isinstance(each, MarkScaleDown)]
    assert (action.node.name, action.taints, action.scale_down_at) == ("n0", (SCALE_DOWN_TAINT,), NOW)


def test_it_survives_a_restart_but_nothing_new_is_begun_before_the_window_is_known() -> None:
    windowed = Settings()
    assert decide(cluster(3), renewal.Ledger(), windowed).actions == ()
    snapshot = cluster(3, requests=[renewing("Ready")])
    snapshot = replace(snapshot, nodes={**snapshot.nodes, "new": node("new", of=SMALL, created_at=NOW - 60)})
    assert marked(decide(snapshot, renewal.Ledger(), windowed)) == ["n0"]


def test_where_there_is_room_nothing_is_bought() -> None:
    snapshot = cluster(2)
    free = node("free", of=SMALL, created_at=NOW - 60)
    decision = decide(replace(snapshot, nodes={**snapshot.nodes, "free": free}))
    assert (ordered(decision.actions), marked(decision)) == ([], ["n0"])


def test_what_cannot_be_bought_leaves_the_node_as_it_is_and_is_tried_again() -> None:
    snapshot = replace(cluster(2), offerings=(replace(SMALL, is_available=False),))
    decision = decide(snapshot)
    assert decision.actions == ()
    assert decision.again_at == NOW + 15
    assert renewal.question(replace(snapshot, now=NOW + 30), decision.ledger, SETTINGS) is None
    assert renewal.question(replace(snapshot, now=NOW + 61), decision.ledger, SETTINGS) is not None


def test_a_young_node_is_looked_at_when_it_is_old() -> None:
    decision = decide(cluster(1, node_fields={"created_at": NOW - 400}))
    assert (decision.actions, decision.again_at) == ((), NOW + 600)


@pytest.mark.parametrize(
    "change",
    [
        {"of_pool": replace(OLD, spec=replace(OLD.spec, budgets=(DisruptionBudget("0"),)))},
        {"of_pool": replace(OLD, annotations={"growth.dev/paused": "true"})},
        {"node_fields": {"annotations": {"growth.dev/do-not-disrupt": "true"}}},
        {"pools": []},
    ],
)
def test_when_nothing_is_replaced(change: dict[str, Any]) -> None:
    assert decide(cluster(2, **change)).actions == ()


def test_budgets_stagger_nodes_that_are_as_old_as_each_other() -> None:
    half = replace(OLD, spec=replace(OLD.spec, budgets=(DisruptionBudget("50%"),)))
    (first, *rest) = orders(decide(cluster(6, half, node_fields={"created_at": NOW - 5000})).actions)
    assert first.replaces == ("n0", "n1", "n2")
    assert len(rest) == 2


# ------------------------------------------------------------------------------------------- at max


def full(most: int, **fields: Any) -> NodePool:
    return pool(
        "default", limited("small", most), expire_after_seconds=1000, budgets=(DisruptionBudget("100%"),), **fields
    )


def test_at_max_one_machine_more_is_bought_and_one_node_at_a_time_goes() -> None:
    (spec,) = orders(decide(cluster(3, full(3))).actions)
    assert spec.replaces == ("n0",)


@pytest.mark.parametrize("reason", ["Renewal", "Replacement"])
def test_at_max_only_a_renewal_is_launched_and_only_inside_the_limits_of_all_pools(reason: str) -> None:
    waiting = request("new", SMALL, "Pending", reason=reason, created_at=NOW - 5)
    snapshot = cluster(3, full(3), requests=[waiting])
    launched = [
        type(action).__name__ for action in provisioning.plan(snapshot, provisioning.Ledger(), SETTINGS).actions
    ]
    assert ("LaunchMachine" in launched) is (reason == "Renewal")
    machines = tuple(
        replace(each, labels=each.labels.with_items({POOL_LABEL: "default"})) for each in snapshot.machines.values()
    )
    sold: tuple[Offering, ...] = (SMALL,)

    def of(most: int) -> dict[str, NodePool]:
        return {"default": full(most)}

    assert bool(Tally(of(3), machines, sold, Settings()).why_over(waiting.spec)) is (reason == "Replacement")
    assert Tally(of(3), machines, sold, Settings(limits=PoolLimits(nodes=3))).why_over(waiting.spec) != ""
    assert Tally(of(2), machines, sold, Settings()).why_over(waiting.spec) != ""  # one more, not two


# -------------------------------------------------------------------------------------------- drift

PLAIN = pool("default", "small", budgets=(DisruptionBudget("1"),))


def made_from(of_pool: NodePool) -> dict[str, Any]:
    return {"annotations": {TEMPLATE: template_digest(of_pool.spec)}}


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": {"tier": "web"}},
        {"annotations": {"note": "x"}},
        {"taints": (PoolTaint("team", "NoSchedule", "a"),)},
        {"startup_taints": (PoolTaint("net", "NoSchedule"),)},
        {"provider_settings": "other"},
        {"locations": ("hel1",)},
    ],
)
def test_a_node_whose_pool_makes_other_nodes_now_is_replaced(changed: dict[str, Any]) -> None:
    now_is = replace(PLAIN, spec=replace(PLAIN.spec, **changed))
    snapshot = cluster(2, now_is, made_from(PLAIN))
    assert has_drifted(snapshot.nodes["n0"], now_is, snapshot)
    assert not has_drifted(snapshot.nodes["n0"], PLAIN, snapshot)


def test_a_digest_is_the_same_in_every_version_that_makes_it_by_the_same_rule() -> None:
    gpu, net = PoolTaint("gpu", "NoSchedule", "a'b"), PoolTaint("x", "NoExecute")
    odd: dict[str, Any] = {
        "labels": {"b": "c"},
        "annotations": {"n": "q\"'"},
        "taints": (gpu,),
        "startup_taints": (gpu, net),
    }
    assert template_digest(pool("default", "a").spec) == "v1-affdf7b365c50c0f"
    assert template_digest(replace(pool("default", "a").spec, provider_settings="s", **odd)) == "v1-9060e62915c139b0"


@pytest.mark.parametrize("digest", ["v0-0123456789abcdef", "v2-9060e62915c139b0", "sha256", "v10-9060e62915c139b0"])
def test_a_digest_of_another_rule_is_no_drift_and_is_written_anew(digest: str) -> None:
    snapshot = cluster(2, PLAIN, {"annotations": {TEMPLATE: digest}})
    assert not has_drifted(snapshot.nodes["n0"], PLAIN, snapshot)
    stamped = [action for action in decide(snapshot).actions if isinstance(action, RegisterNode)]
    assert [dict(action.annotations) for action in stamped] == [{TEMPLATE: template_digest(PLAIN.spec)}] * 2
    assert stamped[0].taints is None
    assert not stamped[0].node.resource_version


def test_drifted_nodes_are_replaced_within_the_budget() -> None:
    now_is = replace(PLAIN, spec=replace(PLAIN.spec, labels={"tier": "web"}))
    decision = decide(cluster(3, now_is, made_from(PLAIN)))
    assert [spec.replaces for spec in orders(decision.actions)] == [("n0",)]
    assert notes_by_reason(decision) == {"Renewing": ["Node n0: the node is replaced: its pool makes other nodes now"]}


def test_limits_budgets_and_a_node_without_a_digest_are_no_drift() -> None:
    now_is = replace(PLAIN, spec=replace(PLAIN.spec, budgets=(), limits=PoolLimits(nodes=9), consolidation="Full"))
    assert decide(cluster(2, now_is, made_from(PLAIN))).actions == ()
    other = replace(PLAIN, spec=replace(PLAIN.spec, labels={"tier": "web"}))
    assert decide(cluster(2, other)).actions == ()


def test_a_type_that_the_pool_no_longer_lists_is_drift() -> None:
    snapshot = cluster(1, pool("default", "medium", budgets=(DisruptionBudget("1"),)))
    assert has_drifted(snapshot.nodes["n0"], snapshot.pools["default"], snapshot)


def test_an_order_must_be_seen_before_the_next_is_made() -> None:
    snapshot = cluster(3)
    decision = decide(snapshot)
    for outcome in (Accepted(), Unknown("lost")):
        settled = renewal.settle(
            Settled(decision.actions[0], outcome),
            snapshot,
            replace(decision.ledger, asked_at=0.0, looked_at=0.0),
            SETTINGS,
        )
        assert (
            renewal.question(replace(snapshot, now=NOW + 20, requests_age_seconds=15), settled.ledger, SETTINGS) is None
        )
        assert renewal.question(replace(snapshot, now=NOW + 40), settled.ledger, SETTINGS) is not None
    assert (
        renewal.settle(Settled(decision.actions[0], Conflict("gone")), snapshot, decision.ledger, SETTINGS).again_at
        == NOW + 10
    )


def test_a_pool_that_refuses_orders_is_left_alone_for_a_minute() -> None:
    snapshot = cluster(3)
    decision = decide(snapshot)
    ledger = replace(decision.ledger, asked_at=0.0, looked_at=0.0)
    settled = renewal.settle(Settled(decision.actions[0], Refused("no quota")), snapshot, ledger, SETTINGS)
    assert [(note.about.kind, note.reason) for note in settled.notes] == [("NodePool", "OrderRefused")]
    soon = renewal.question(replace(snapshot, now=NOW + 40), settled.ledger, SETTINGS)
    assert soon is not None
    assert soon.problem.world.choices == ()
    later = renewal.question(replace(snapshot, now=NOW + 61), settled.ledger, SETTINGS)
    assert later is not None
    assert later.problem.world.choices
