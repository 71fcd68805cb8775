"""An order is made once: it is waited for until it is seen, repeated when it surely was not made, and a pool that
refuses orders is left alone for a while. Told by scale-up; replacement and renewal go the same way.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.decision import Decision, Settled
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up import scale_up
from growth.plan.world.orders import over_limit
from tests.plan.builders import (
    AT_ONCE,
    NOW,
    applied,
    limited,
    node,
    notes_by_reason,
    offering,
    orders,
    pod,
    pool,
    request,
    run_scale_up,
    world,
)

SMALL = offering("small", 2, 4096, 0.01)
REASONS = {"b": "Buffer", "m": "Minimum"}


def first_order() -> tuple[Snapshot, Decision[scale_up.Ledger], CreateNodeRequest]:
    snapshot = world([pod("a")], [pool()], [SMALL])
    decision = run_scale_up(snapshot)
    (action,) = decision.actions
    assert isinstance(action, CreateNodeRequest)
    return snapshot, decision, action


def test_an_accepted_order_is_waited_for_until_it_is_seen_so_that_nothing_is_bought_twice() -> None:
    snapshot, decision, action = first_order()
    settled = scale_up.settle(Settled(action, Accepted()), snapshot, decision.ledger, AT_ONCE)
    assert (settled.actions, settled.again_at) == ((), None)
    unseen = run_scale_up(replace(snapshot, now=NOW + 5), settled.ledger)
    assert (unseen.actions, unseen.again_at) == ((), NOW + 7)
    seen_now = applied(snapshot, decision.actions)
    assert run_scale_up(seen_now, settled.ledger).again_at is None
    given_up = run_scale_up(replace(snapshot, now=NOW + 30), settled.ledger)
    assert len(orders(given_up.actions)) == 1  # somebody deleted it at once


def test_equal_orders_are_counted_when_they_are_waited_for() -> None:
    snapshot = world((), [pool("default", limited("small", 5, least=2))], [SMALL])
    decision = run_scale_up(snapshot)
    ledger = decision.ledger
    for action in decision.actions:
        ledger = scale_up.settle(Settled(action, Accepted()), snapshot, ledger, AT_ONCE).ledger
    one_seen = applied(snapshot, decision.actions[:1])
    assert run_scale_up(one_seen, ledger).actions == ()
    assert run_scale_up(applied(snapshot, decision.actions), ledger).again_at is None


@pytest.mark.parametrize(("outcome", "least"), [(Accepted(), 30), (Unknown("lost"), 10)])
def test_an_order_that_may_have_been_made_is_not_repeated_before_the_api_server_has_proved_that_it_is_not_there(
    outcome: Outcome, least: float
) -> None:
    snapshot, decision, action = first_order()
    ledger = scale_up.settle(Settled(action, outcome), snapshot, decision.ledger, AT_ONCE).ledger
    for seconds in (least - 1, least + 300):  # while the API server is away, time says nothing
        held = run_scale_up(replace(snapshot, now=NOW + seconds, requests_age_seconds=seconds - least + 1), ledger)
        assert (held.actions, held.again_at) == ((), NOW + seconds + 2)
    assert (
        len(orders(run_scale_up(replace(snapshot, now=NOW + least + 300, requests_age_seconds=300), ledger).actions))
        == 1
    )
    assert run_scale_up(applied(snapshot, decision.actions), ledger).again_at is None  # it is seen


@pytest.mark.parametrize(("outcome", "seconds"), [(TryLater("busy", 7.0), 7.0), (Conflict("gone"), 2.0)])
def test_an_order_that_could_not_be_made_is_repeated_after_a_while(outcome: Outcome, seconds: float) -> None:
    snapshot, decision, action = first_order()
    settled = scale_up.settle(Settled(action, outcome), snapshot, decision.ledger, AT_ONCE)
    assert settled.again_at == NOW + seconds
    soon = run_scale_up(replace(snapshot, now=NOW + seconds - 0.1), settled.ledger)
    assert (soon.actions, soon.again_at) == ((), NOW + seconds)
    assert len(orders(run_scale_up(replace(snapshot, now=NOW + seconds), settled.ledger).actions)) == 1


def test_a_pool_whose_orders_are_refused_is_left_alone_for_a_while_and_told() -> None:
    snapshot, decision, action = first_order()
    settled = scale_up.settle(Settled(action, Refused("quota exceeded")), snapshot, decision.ledger, AT_ONCE)
    assert notes_by_reason(settled) == {"OrderRefused": ["NodePool default: a NodeRequest was refused: quota exceeded"]}
    soon = run_scale_up(replace(snapshot, now=NOW + 2), settled.ledger)
    assert soon.actions == ()
    other = replace(
        snapshot,
        now=NOW + 2,
        pools={**snapshot.pools, "b": pool("b")},
        waiting_pods=(*snapshot.waiting_pods, pod("c", pool="b")),
    )
    assert [spec.pool for spec in orders(run_scale_up(other, settled.ledger).actions)] == ["b"]
    assert len(orders(run_scale_up(replace(snapshot, now=NOW + 61), soon.ledger).actions)) == 1


@pytest.mark.parametrize(("sick", "held"), [(0, []), (2, ["b", "d5", "m"]), (5, ["b", "d5", "m"])])
def test_orders_that_were_made_before_the_brake_was_known_and_have_not_left_are_held_to_it(
    sick: int, held: list[str]
) -> None:
    """Three of four may leave for pods, none for a buffer or `min`; one more for pods is on its way."""
    nodes = [node(f"n{number}", is_ready=number >= sick) for number in range(5)]
    made = [request(f"d{number}", SMALL, created_at=NOW - 10 + number) for number in range(3, 6)]
    made += [request("way", SMALL, "Provisioning", created_at=NOW - 20)]
    others = [replace(request(name, SMALL), spec=replace(made[0].spec, reason=why)) for name, why in REASONS.items()]
    assert sorted(over_limit(world([], [pool()], [SMALL], nodes, [*made, *others]), Settings())) == held
