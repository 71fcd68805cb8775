"""Nodes replaced by cheaper ones: bought first, then the old ones marked; thresholds, budgets, settling times; whatever
goes wrong is undone.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import MarkScaleDown
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.node import Node
from growth.model.nodepool import DisruptionBudget, PoolLimits
from growth.model.noderequest import NodeRequest, NodeRequestSpec
from growth.model.outcome import Accepted, Conflict, Outcome, Unknown
from growth.model.pod import Owner, Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import consolidation, replacement, scale_down
from growth.plan.nodes_down.budgets import Recent
from growth.plan.nodes_down.candidates import Setback
from growth.plan.nodes_up import provisioning
from growth.plan.world.marks import CONSOLIDATION_TAINT
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
MEDIUM = offering("medium", 16, 32768, 0.05)
LARGE = offering("large", 64, 131072, 0.4)
OWNER = Owner("ReplicaSet", "web", "uid-web")
FULL = pool("default", "small", "medium", "large", consolidation="Full", budgets=(DisruptionBudget("100%"),))
SETTINGS = Settings(disruption_window_seconds=0.0)
KNOWN = replacement.Ledger(Recent(NOW - 9000))


def works(name: str, on: str, cpu: float = 1, **fields: Any) -> Pod:
    return bound(pod(name, cpu, 100, owner=fields.pop("owner", OWNER), **fields), on)


def cluster(nodes: list[Node], pods: list[Pod], **fields: Any) -> Snapshot:
    fields.setdefault("pools", [FULL])
    sold = {each.name: each for each in (SMALL, MEDIUM, LARGE)}
    machines = [
        machine(each.name, sold[each.labels["growth.dev/offering"]])
        for each in nodes
        if each.name not in fields.get("no_machine", ())
    ]
    return world(pods=pods, nodes=nodes, offerings=[SMALL, MEDIUM, LARGE], machines=machines, **fields)


def one_large(pods: int = 10, **fields: Any) -> Snapshot:
    return cluster([node("big", of=LARGE)], [works(f"p{number}", "big") for number in range(pods)], **fields)


def decide(
    snapshot: Snapshot, ledger: replacement.Ledger = KNOWN, settings: Settings = SETTINGS
) -> Decision[replacement.Ledger]:
    """As the loop does it, one interval after the nodes were first seen."""
    first = replacement.plan(snapshot, ledger, settings)
    later = replace(snapshot, now=snapshot.now + settings.consolidation_interval_seconds, machines_at=snapshot.now + 30)
    asked = replacement.question(later, first.ledger, settings)
    return replacement.plan(later, first.ledger, settings, asked, None if asked is None else exchange(asked.problem))


def swapped(phase: Any = "Ready", pods: int = 10, new: tuple[str, ...] = ("s1", "s2", "s3"), **fields: Any) -> Snapshot:
    """The large node, and those that were bought for it."""
    requests = [request(name, SMALL, phase, reason="Replacement") for name in new]
    requests = [
        replace(each, spec=replace(each.spec, replaces=("big",)), changed_at=fields.get("now", NOW) - 5)
        for each in requests
    ]
    ready = [node(name, of=SMALL, created_at=NOW - 60) for name in new] if phase == "Ready" else []
    return cluster(
        [node("big", of=LARGE), *ready],
        [works(f"p{number}", "big") for number in range(pods)],
        requests=requests,
        **fields,
    )


def marked(decision: Decision[Any]) -> list[str]:
    return [action.node.name for action in decision.actions if isinstance(action, MarkScaleDown)]


# ------------------------------------------------------------------------------------------- buying


def test_a_large_node_with_little_on_it_is_replaced_by_the_cheapest_set() -> None:
    decision = decide(one_large())
    assert ordered(decision.actions) == ["sim-small"] * 3
    assert {(spec.reason, spec.replaces, spec.planned_pods) for spec in orders(decision.actions)} == {
        ("Replacement", ("big",), ())
    }
    assert notes_by_reason(decision)["Replacing"] == [
        (
            "NodePool default: replaces 1 node (0.4000 per hour) by 3 new (0.0300): saves 0.3700 per hour and moves "
            "10 pods"
        ),
        "Node big: the node goes once cheaper ones are Ready for its pods",
    ]


def test_several_nodes_are_replaced_by_fewer_of_another_kind() -> None:
    dear = replace(SMALL, price_per_hour=0.03)
    names = [f"n{number}" for number in range(4)]
    snapshot = cluster(
        [node(name, of=SMALL) for name in names], [works(f"p{number}", name, 3.5) for number, name in enumerate(names)]
    )
    decision = decide(replace(snapshot, offerings=(dear, MEDIUM, LARGE)))
    assert ordered(decision.actions) == ["sim-medium"]
    assert orders(decision.actions)[0].replaces == tuple(names)


def test_the_nodes_must_have_been_the_same_for_an_interval() -> None:
    first = replacement.plan(one_large(), KNOWN, SETTINGS)
    assert replacement.question(replace(one_large(), now=NOW + 29), first.ledger, SETTINGS) is None
    assert replacement.question(replace(one_large(), now=NOW + 30), first.ledger, SETTINGS) is not None


def test_what_finds_nothing_is_tried_less_and_less_often_until_the_nodes_change() -> None:
    snapshot = cluster([node("a", of=SMALL)], [works("p", "a", 3.5)])
    ledger, asked_at = replacement.plan(snapshot, KNOWN, SETTINGS).ledger, []
    for second in range(0, 4000, 10):
        later = replace(snapshot, now=NOW + second)
        asked = replacement.question(later, ledger, SETTINGS)
        ledger = replacement.plan(
            later, ledger, SETTINGS, asked, None if asked is None else exchange(asked.problem)
        ).ledger
        asked_at += [second] if asked is not None else []
    assert asked_at == [30, 90, 210, 450, 930, 1890, 3810]
    assert decide(replace(one_large(), now=NOW + 4000), ledger).actions


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"pools": [replace(FULL, spec=replace(FULL.spec, consolidation="WhenEmpty"))]},
            "the pool gives back empty nodes only",
        ),
        ({"pools": [replace(FULL, annotations={"growth.dev/paused": "true"})]}, "the pool is paused"),
        ({"pools": []}, "ruling 9: a pool that cannot be read is not touched"),
        ({"pools": [replace(FULL, spec=replace(FULL.spec, budgets=(DisruptionBudget("0"),)))]}, "no budget"),
        (
            {"pools": [replace(FULL, spec=replace(FULL.spec, limits=PoolLimits(nodes=1)))]},
            "no room for more machines under the limit",
        ),
        (
            {
                "pools": [
                    pool(
                        "default",
                        limited("large", 9, 1),
                        "small",
                        consolidation="Full",
                        budgets=(DisruptionBudget("100%"),),
                    )
                ]
            },
            "min",
        ),
        (
            {"requests": [request("x", SMALL, "Provisioning", planned=("default/q",))], "extra": pod("q", 200)},
            "somebody looks for a place",
        ),
        ({"removals": []}, ""),
    ],
)
def test_when_nothing_is_bought(change: dict[str, Any], why: str) -> None:
    extra = change.pop("extra", None)
    snapshot = one_large(**change)
    snapshot = replace(snapshot, waiting_pods=(extra,)) if extra is not None else snapshot
    assert bool(decide(snapshot).actions) is (not why)


@pytest.mark.parametrize(
    "wish",
    [
        {"annotations": {"growth.dev/do-not-disrupt": "true"}},
        {"owner": None},
    ],
)
def test_pods_that_must_not_move_keep_their_node(wish: dict[str, Any]) -> None:
    assert decide(cluster([node("big", of=LARGE)], [works("p", "big", **wish)])).actions == ()


def test_a_young_node_and_one_of_unknown_price_are_left_alone() -> None:
    assert decide(cluster([node("big", of=LARGE, created_at=NOW - 100)], [works("p", "big")])).actions == ()
    assert decide(replace(one_large(), offerings=(SMALL, MEDIUM))).actions == ()


@pytest.mark.parametrize(
    ("settings", "buys"),
    [({"minimum_saving_per_hour": 0.38}, False), ({"minimum_saving_share": 0.95}, False), ({}, True)],
)
def test_too_little_saved_is_not_worth_the_trouble(settings: dict[str, float], buys: bool) -> None:
    assert bool(decide(one_large(), settings=replace(SETTINGS, **settings)).actions) is buys


def test_the_budget_bounds_how_many_go_together() -> None:
    tight = replace(FULL, spec=replace(FULL.spec, budgets=(DisruptionBudget("2"),)))
    names = [f"n{number}" for number in range(6)]
    snapshot = cluster(
        [node(name, of=LARGE) for name in names],
        [works(f"{name}-{number}", name) for name in names for number in range(58)],
        pools=[tight],
    )
    assert all(len(spec.replaces) <= 2 for spec in orders(decide(snapshot).actions))
    assert orders(decide(snapshot).actions)


def test_virtual_pods_cost_a_hundredth_of_a_pod_to_move() -> None:
    asked = replacement.question(
        replace(one_large(), now=NOW + 30), replacement.plan(one_large(), KNOWN, SETTINGS).ledger, SETTINGS
    )
    assert asked is not None
    assert [each.disruption for each in asked.problem.leaving] == [10.0]


def test_a_cluster_at_its_optimum_makes_no_move_in_thirty_days() -> None:
    """Full nodes of the cheapest kind; asked about less and less often, and nothing is ever ordered."""
    names = ["a", "b"]
    pods = [works(f"{name}-{number}", name, 1.9) for name in names for number in range(2)]
    snapshot = cluster([node(name, of=SMALL) for name in names], pods)
    ledger, asked_about = KNOWN, 0
    for half_hour in range(30 * 48):
        later = replace(snapshot, now=NOW + half_hour * 1800.0)
        asked = replacement.question(later, ledger, SETTINGS)
        asked_about += asked is not None
        decision = replacement.plan(later, ledger, SETTINGS, asked, None if asked is None else exchange(asked.problem))
        assert decision.actions == ()
        ledger = decision.ledger
    assert 0 < asked_about <= 30 * 4 + 10


# ------------------------------------------------------------------------------------------- moving


def test_while_machines_come_nothing_moves_and_no_other_node_is_chosen() -> None:
    snapshot = swapped("Provisioning")
    assert replacement.plan(snapshot, KNOWN, SETTINGS).actions == ()
    assert replacement.question(replace(snapshot, now=NOW + 60), KNOWN, SETTINGS) is None
    assert consolidation.plan(snapshot, consolidation.Ledger(recent=Recent(NOW - 9000)), SETTINGS).actions == ()


def test_once_they_are_ready_the_old_node_is_marked_so_that_its_pods_move() -> None:
    decision = replacement.plan(swapped(), KNOWN, SETTINGS)
    (action,) = decision.actions
    assert isinstance(action, MarkScaleDown)
    assert (action.node.name, action.taints, action.scale_down_at) == ("big", (CONSOLIDATION_TAINT,), NOW + 60)


def test_it_survives_a_restart() -> None:
    assert marked(replacement.plan(swapped(), replacement.Ledger(Recent(1.0)), SETTINGS)) == ["big"]


def test_what_was_bought_stays_while_it_is_empty_and_goes_when_the_swap_has_lapsed() -> None:
    none_moves = [works(f"p{number}", "big", owner=None) for number in range(10)]
    fresh = replace(swapped(), pods_by_node={"big": tuple(none_moves)})
    assert scale_down.plan(fresh, scale_down.Ledger(), SETTINGS).actions == ()
    assert replacement.plan(fresh, KNOWN, SETTINGS).actions == ()
    old = replace(fresh, now=NOW + 700)
    assert marked(scale_down.plan(old, scale_down.Ledger(), SETTINGS)) == ["s1", "s2", "s3"]


def test_the_pods_no_longer_fit_so_nothing_is_marked() -> None:
    assert marked(replacement.plan(swapped(pods=13), KNOWN, SETTINGS)) == []


def test_the_purchase_failed_and_the_rest_saves_nothing_so_the_old_node_stays() -> None:
    """One of three came: ten pods do not fit there."""
    came, failed = swapped(new=("s1",)), request("s2", SMALL, "Unmet", reason="Replacement")
    failed = replace(failed, spec=replace(failed.spec, replaces=("big",)))
    snapshot = replace(came, requests={**came.requests, "s2": failed})
    assert replacement.plan(snapshot, KNOWN, SETTINGS).actions == ()
    all_failed = replace(one_large(), requests={"s2": failed})
    assert replacement.plan(all_failed, KNOWN, SETTINGS).actions == ()


def test_hysteresis_half_of_the_saving_suffices_to_go_on() -> None:
    strict = replace(SETTINGS, minimum_saving_per_hour=0.5)
    assert decide(one_large(), settings=strict).actions == ()
    assert marked(replacement.plan(swapped(), KNOWN, strict)) == ["big"]
    assert marked(replacement.plan(swapped(), KNOWN, replace(SETTINGS, minimum_saving_per_hour=0.8))) == []


def test_an_old_node_is_marked_once_only() -> None:
    decision = replacement.plan(swapped(), KNOWN, SETTINGS)
    assert marked(replacement.plan(replace(swapped(), now=NOW + 30), decision.ledger, SETTINGS)) == []
    failed = replacement.settle(Settled(decision.actions[0], Conflict("changed")), swapped(), decision.ledger, SETTINGS)
    assert marked(replacement.plan(replace(swapped(), now=NOW + 30), failed.ledger, SETTINGS)) == ["big"]


def test_after_each_swap_in_a_row_that_was_given_up_the_pool_rests_four_times_as_long() -> None:
    """Otherwise the same machine is bought and given back for ever, because somebody else takes the room on it."""
    at, ledger = NOW, KNOWN
    for rest in (600.0, 2400.0, 9600.0):
        ledger = replacement.plan(swapped(now=at), ledger, SETTINGS).ledger
        over = one_large(now=at + 700)
        given_up = replacement.plan(over, ledger, SETTINGS)
        assert (
            f"no node of NodePool default is replaced before {format_instant(at + 700 + rest)}"
            in notes_by_reason(given_up)["ReplacementGivenUp"][0]
        )
        resting = replace(given_up.ledger, ask_at=at)
        assert replacement.question(replace(over, now=at + 690 + rest), resting, SETTINGS) is None
        at += 700 + rest
        assert replacement.question(replace(over, now=at), resting, SETTINGS) is not None
        ledger = given_up.ledger


def test_an_old_node_that_is_not_ready_any_more_goes_like_any_other() -> None:
    """Then no node of its kind serves; that is no reason for the whole row to fail."""
    snapshot = swapped()
    dead = replace(snapshot.nodes["big"], is_ready=False)
    assert marked(replacement.plan(replace(snapshot, nodes={**snapshot.nodes, "big": dead}), KNOWN, SETTINGS)) == [
        "big"
    ]


def test_a_node_that_was_marked_for_one_swap_is_marked_again_for_the_next() -> None:
    first = replacement.plan(swapped(), KNOWN, SETTINGS)
    assert marked(first) == ["big"]
    given_up = replacement.plan(one_large(now=NOW + 700), first.ledger, SETTINGS)
    assert marked(replacement.plan(swapped(now=NOW + 9000), given_up.ledger, SETTINGS)) == ["big"]


def test_a_swap_that_worked_ends_the_rest_and_one_whose_nodes_still_go_is_not_over() -> None:
    ledger = replacement.plan(swapped(), replace(KNOWN, setbacks={"default": Setback(3, NOW - 1)}), SETTINGS).ledger
    going = cluster([node("big", of=LARGE, taints=(CONSOLIDATION_TAINT,))], [works("p", "big")], now=NOW + 700)
    assert replacement.plan(going, ledger, SETTINGS).ledger.setbacks == {"default": Setback(3, NOW - 1)}
    gone = cluster([node("s1", of=SMALL)], [works("p", "s1")], now=NOW + 800)
    assert replacement.plan(gone, ledger, SETTINGS).ledger.setbacks == {}


@pytest.mark.parametrize("outcome", [Accepted(), Unknown("lost")])
def test_nothing_is_asked_before_an_order_is_seen_that_was_made_or_may_have_been(outcome: Outcome) -> None:
    snapshot = one_large()
    decision = decide(snapshot)
    ledger = decision.ledger
    for action in decision.actions:
        ledger = replacement.settle(Settled(action, outcome), snapshot, ledger, SETTINGS).ledger
    ledger = replace(ledger, ask_at=NOW - 100)
    assert replacement.question(replace(snapshot, now=NOW + 5), ledger, SETTINGS) is None
    assert (
        replacement.question(replace(snapshot, now=NOW + 300, requests_age_seconds=295), ledger, SETTINGS) is None
    )  # the API server is away
    assert replacement.question(replace(snapshot, now=NOW + 300), ledger, SETTINGS) is not None


def test_the_record_of_a_replacement_is_kept_for_the_settling_time() -> None:
    spec = NodeRequestSpec("default", "sim-small", replaces=("big",), reason="Replacement")
    ready: NodeRequest = replace(request("s1", SMALL, "Ready", changed_at=NOW - 650), spec=spec)
    snapshot = cluster([node("s1", of=SMALL)], [works("p", "s1")], requests=[ready])
    assert provisioning.plan(snapshot, provisioning.Ledger(), replace(SETTINGS, settling_seconds=900.0)).actions == ()
    assert provisioning.plan(snapshot, provisioning.Ledger(), SETTINGS).actions != ()


def test_nodes_that_were_bought_to_replace_others_are_no_candidates_while_they_settle() -> None:
    pods = [works(f"p{number}", "s1") for number in range(3)]
    snapshot = cluster([node("s1", of=LARGE, created_at=NOW - 500)], pods)
    assert decide(snapshot).actions == ()
    settled = replace(snapshot, now=NOW + 200)
    assert decide(settled).actions != ()
