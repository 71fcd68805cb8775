"""What scale-up knows before it asks the solver: `min` is kept by machines that exist (ruling 9), and nodes teach what
an offering really has.
"""

from __future__ import annotations

import pickle

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.instant import format_instant
from growth.model.labels import ZONE
from growth.model.node import Node, Taint
from growth.model.nodepool import PoolLimits, PoolTrials, ServerTypeChoice, Trial
from growth.plan.nodes_up import scale_up
from growth.plan.nodes_up.survey import lacks_minimum
from growth.plan.world.swaps import template_digest
from tests.plan.builders import (
    AT_ONCE,
    NOW,
    amounts,
    applied,
    bound,
    limited,
    machine,
    node,
    notes_by_reason,
    offering,
    orders,
    pod,
    pods,
    pool,
    request,
    run_scale_up,
    world,
)

SMALL = offering("small", 4, 8192, 0.01)
TINY = offering("small", 2, 4096, 0.01)
ZONES = tuple(offering("small", 2, 4096, 0.01, location=zone, labels={ZONE: zone}) for zone in ("a", "b"))
DEAD = node("default-pool-1", of=SMALL, is_ready=False)


def reasons(of_node: Node, *machines: str, **fields: object) -> list[str]:
    listed = [machine(name, SMALL) for name in machines]
    snapshot = world(
        pools=[pool("default", limited("small", 5, 1))], offerings=[SMALL], nodes=[of_node], machines=listed
    )
    snapshot = replace(snapshot, **fields)
    actions = run_scale_up(snapshot).actions
    assert lacks_minimum(snapshot) == bool(actions)
    return [action.spec.reason for action in actions if isinstance(action, CreateNodeRequest)]


def test_ruling_9_a_dead_node_whose_machine_is_surely_gone_keeps_no_minimum() -> None:
    """Seed 174: a machine vanished, its Node stayed, and the pool was one short for ever."""
    assert reasons(DEAD, "default-pool-2") == ["Minimum"]


@pytest.mark.parametrize(
    ("of_node", "machines", "fields"),
    [
        (DEAD, ("default-pool-1",), {}),  # its machine is there
        (DEAD, (), {"machines_at": None}),  # nobody has said yet which machines exist
        (DEAD, ("default-pool-2",), {"machines_at": NOW - 3600}),  # the list is as old as the node
        (replace(DEAD, is_ready=True), ("default-pool-2",), {}),  # it serves, whatever a list says
    ],
)
def test_ruling_9_unknown_is_not_absent(of_node: Node, machines: tuple[str, ...], fields: dict[str, object]) -> None:
    assert reasons(of_node, *machines, **fields) == []


def test_ruling_9_min_is_kept_warm_without_load_and_counts_what_is_on_its_way() -> None:
    of_pool = pool("default", limited("small", 5, least=2))
    snapshot = world(
        (),
        [of_pool],
        [ZONES[1], replace(ZONES[0], price_per_hour=0.008)],
        requests=[request("default-pool-1", ZONES[0])],
    )
    decision = run_scale_up(snapshot)
    (spec,) = orders(decision.actions)
    assert (spec.reason, spec.location, spec.planned_pods) == ("Minimum", "a", ())
    assert run_scale_up(applied(snapshot, decision.actions), decision.ledger).actions == ()


def test_ruling_9_min_keeps_to_the_limits() -> None:
    of_pool = pool("default", limited("small", 5, least=4), limits=PoolLimits(nodes=3))
    assert len(orders(run_scale_up(world((), [of_pool], [SMALL])).actions)) == 3


def test_learned_allocatable_corrects_the_catalogue_for_later_plans() -> None:
    smaller = node("default-pool-1", of=TINY, allocatable=amounts(1.9, 3900, 110))
    full = bound(pod("old", 1.9, 100), smaller.name)
    decision = run_scale_up(world([pod("a", 2, 512), pod("b", 1.9, 512), full], [pool()], [TINY], [smaller]))
    assert [(spec.planned_pods, spec.resources["cpu"]) for spec in orders(decision.actions)] == [
        (("default/b",), "1900m")
    ]
    assert "Pod default/a" in notes_by_reason(decision)["Unplaced"][0]


def test_choices_of_a_pool_keep_their_own_minimum_while_pods_wait() -> None:
    of_pool = pool("default", ServerTypeChoice("small", 1))
    snapshot = world(pods(1, 1), [of_pool], [SMALL])
    first = run_scale_up(snapshot)
    assert [spec.reason for spec in orders(first.actions)] == ["Minimum"]
    second = run_scale_up(applied(snapshot, first.actions), first.ledger)
    assert orders(second.actions) == []  # the pod goes onto the warm machine
    assert len(second.actions) == 1


# ------------------------------------------------------------------------- while many nodes are NotReady

SICK = [node(f"default-pool-{number}", of=TINY, is_ready=False, ready_changed_at=NOW - 400) for number in range(4)]


def test_while_the_brake_holds_nothing_is_bought_for_a_minimum() -> None:
    """Two machines of six are missing, and those that are there do not report."""
    listed = [machine(each.name, TINY) for each in SICK]
    snapshot = world(pools=[pool("default", limited("small", 9, 6))], offerings=[TINY], nodes=SICK, machines=listed)
    assert run_scale_up(snapshot).actions == ()
    well = [replace(each, is_ready=True) for each in SICK]
    assert len(orders(run_scale_up(replace(snapshot, nodes={each.name: each for each in well})).actions)) == 2


def test_while_the_brake_holds_three_machines_are_bought_for_waiting_pods_and_the_others_hear_why() -> None:
    waiting = pods(7, 1.5)
    snapshot = world(pools=[pool("default", "small")], offerings=[TINY], nodes=SICK, pods=waiting)
    decision = run_scale_up(snapshot)
    assert len(orders(decision.actions)) == 3
    told = notes_by_reason(decision)["Unplaced"]
    assert len(told) == 4
    assert all("at most 3 machines are bought for NodePool default in 10 minutes" in each for each in told)


def test_nothing_is_bought_for_a_pod_that_fits_on_a_node_that_is_ready_again_and_still_has_its_taint() -> None:
    back = node("default-pool-1", of=TINY, taints=(Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),))
    snapshot = world(pools=[pool("default", "small")], offerings=[TINY], nodes=[back], pods=pods(1, 1.5))
    assert run_scale_up(snapshot).actions == ()
    gone = replace(back, is_ready=False)
    assert run_scale_up(replace(snapshot, nodes={gone.name: gone})).actions


def test_of_what_goes_on_failing_in_a_pool_one_machine_is_tried_once_its_pause_is_over_and_others_work() -> None:
    """Zone a failed three times an hour ago, and zone b has worked since."""
    broken, works = ZONES
    causes = tuple(
        Trial(f"default-pool-{number}", format_instant(NOW - 4000 + number), broken.name, broken.location, "not Ready")
        for number in range(3)
    )
    known = pool("default", limited("small", 9, 4))
    trials = PoolTrials(worked_at=format_instant(NOW - 3000), template=template_digest(known.spec), in_vain=causes)
    known = replace(known, status=replace(known.status, trials=trials))
    for waiting in ((), pods(4, 1.5)):
        asked = known if not waiting else replace(known, spec=replace(known.spec, server_types=(limited("small", 9),)))
        snapshot = world(pods=waiting, pools=[asked], offerings=[broken, works])
        bought = [each.location for each in orders(run_scale_up(snapshot).actions)]
        assert sorted(bought) == ["a", "b", "b", "b"]


def test_pods_that_are_tried_go_before_a_minimum_of_a_type_that_has_just_failed() -> None:
    """One machine at a time may be bought, and a type that has not failed would run them."""
    other = offering("other", 2, 4096, 0.02)
    causes = tuple(
        Trial(f"default-pool-{number}", format_instant(NOW - 60 + number), TINY.name, TINY.location, "not Ready")
        for number in range(2)
    )
    known = pool("default", limited("small", 9, 2), "other")
    known = replace(known, status=replace(known.status, trials=replace(known.status.trials, in_vain=causes)))
    snapshot = world(pods=pods(1, 1.5), pools=[known], offerings=[TINY, other])
    assert [each.target_offering for each in orders(run_scale_up(snapshot).actions)] == [other.name]
    hopeless = world(pods=pods(1, 3.0), pools=[known], offerings=[TINY, other])
    missed = run_scale_up(hopeless)
    assert orders(missed.actions) == []
    assert [each.reason for each in orders(run_scale_up(hopeless, missed.ledger).actions)] == ["Minimum"]
    assert [each.reason for each in orders(run_scale_up(replace(snapshot, waiting_pods=())).actions)] == ["Minimum"]
    sold_out = replace(snapshot, offerings=(TINY,))
    assert [each.reason for each in orders(run_scale_up(sold_out).actions)] == ["Minimum"]


def test_eight_thousand_equal_pods_are_one_small_question_to_the_solver() -> None:
    sizes = []
    for count in (80, 8000):
        asked = scale_up.question(world(pods(count), [pool()], [SMALL]), scale_up.Ledger(), AT_ONCE)
        assert asked is not None
        assert [each.count for each in asked.problem.demands] == [count]
        sizes.append(len(pickle.dumps(asked.problem)))
    assert sizes[1] < 2 * sizes[0]
