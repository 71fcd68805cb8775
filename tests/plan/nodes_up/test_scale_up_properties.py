"""What holds for every scale-up, whatever the world: no limit is broken, and planning again with its own output in
flight creates nothing.
"""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.decision import Decision
from growth.model.quantity import QuantityError, parse_quantity
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up import scale_up
from growth.plan.nodes_up.demand import identity
from growth.plan.world.limits import members
from tests.plan.builders import AT_ONCE, applied, bound, orders, run_scale_up
from tests.plan.worlds import random_world, seeds

EXAMPLES = 100


def settled_world(seed: int) -> tuple[Snapshot, Decision[scale_up.Ledger]]:
    """A world in which everything that `min` asks for is on its way, and the plan for its pods."""
    snapshot = random_world(seed)
    decision = run_scale_up(snapshot)
    while any(order.reason == "Minimum" for order in orders(decision.actions)):
        snapshot = applied(snapshot, decision.actions)
        decision = run_scale_up(snapshot, decision.ledger)
    return snapshot, decision


def with_lodgers_bound(snapshot: Snapshot, ledger: scale_up.Ledger) -> Snapshot:
    """The scheduler has used the room that growth left to it."""
    sent = {
        pod.key: wait.lodged_on
        for pod in snapshot.waiting_pods
        if (wait := ledger.waits.get(identity(pod))) is not None and wait.lodged_on
    }
    by_node = dict(snapshot.pods_by_node)
    for pod in snapshot.waiting_pods:
        if pod.key in sent:
            by_node[sent[pod.key]] = (*by_node.get(sent[pod.key], ()), bound(pod, sent[pod.key]))
    return replace(
        snapshot, pods_by_node=by_node, waiting_pods=tuple(pod for pod in snapshot.waiting_pods if pod.key not in sent)
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(seeds)
def test_planning_again_with_its_own_output_in_flight_creates_nothing(seed: int) -> None:
    snapshot, decision = settled_world(seed)
    again = run_scale_up(applied(snapshot, decision.actions), decision.ledger)
    assert again.actions == ()


@settings(max_examples=EXAMPLES, deadline=None)
@given(seeds)
def test_a_process_that_has_forgotten_everything_creates_nothing_more_either(seed: int) -> None:
    snapshot, decision = settled_world(seed)
    after = with_lodgers_bound(applied(snapshot, decision.actions), decision.ledger)
    assert orders(run_scale_up(after).actions) == []


@settings(max_examples=EXAMPLES, deadline=None)
@given(seeds)
def test_no_plan_exceeds_a_limit(seed: int) -> None:
    before = random_world(seed)
    decision = run_scale_up(before)
    after = applied(before, decision.actions)
    bought = {spec.pool for spec in orders(decision.actions)}
    for name in bought:
        pool = after.pools[name]
        own = [member for member in members(after) if member.pool == name]
        limits = pool.spec.limits
        assert limits.nodes is None or len(own) <= limits.nodes
        assert limits.cpu is None or sum(member.allocatable["cpu"] for member in own) <= amount(limits.cpu) * 1000
        assert limits.memory is None or sum(member.allocatable["memory"] for member in own) <= amount(limits.memory)
        assert (
            limits.price_per_hour is None
            or sum(member.price_per_hour for member in own) <= float(limits.price_per_hour) + 1e-9
        )
        for choice in pool.spec.server_types:
            of_type = [member for member in own if member.offering == f"sim-{choice.name.lower()}"]
            was = [
                member
                for member in members(before)
                if member.pool == name and member.offering == f"sim-{choice.name.lower()}"
            ]
            assert choice.max is None or len(of_type) <= max(choice.max, len(was))


def amount(text: str) -> Fraction:
    try:
        return parse_quantity(text)
    except QuantityError:
        return Fraction(0)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seeds)
def test_nothing_is_bought_for_a_pool_that_is_paused_going_or_whose_limits_cannot_be_read(seed: int) -> None:
    snapshot = random_world(seed)
    for spec in orders(run_scale_up(snapshot).actions):
        pool = snapshot.pools[spec.pool]
        assert pool.deleted_at is None
        assert not pool.is_paused
        assert pool.spec.limits.memory != "nonsense"


@settings(max_examples=EXAMPLES, deadline=None)
@given(seeds)
def test_every_pod_that_needs_a_place_is_planned_or_told_why_not(seed: int) -> None:
    snapshot, decision = settled_world(seed)
    planned = {key for spec in orders(decision.actions) for key in spec.planned_pods}
    spoken_of = {f"{note.about.namespace}/{note.about.name}" for note in decision.notes}
    lodged = {
        pod.key
        for pod in snapshot.waiting_pods
        if (wait := decision.ledger.waits.get(identity(pod))) is not None and wait.lodged_on
    }
    asked = scale_up.question(snapshot, scale_up.Ledger(batch=None), AT_ONCE)
    for hand in asked.classes if isinstance(asked, scale_up.Question) else ():
        for demand in hand:
            assert demand.pod.key in planned | spoken_of | lodged


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(seeds)
def test_the_same_question_gets_the_same_answer(seed: int) -> None:
    assert run_scale_up(random_world(seed)) == run_scale_up(random_world(seed))


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(seeds)
def test_a_pod_is_planned_onto_one_node_only(seed: int) -> None:
    snapshot, decision = settled_world(seed)
    after = applied(snapshot, decision.actions)
    new = [
        order
        for action in decision.actions
        if isinstance(action, CreateNodeRequest)
        for order in action.spec.planned_pods
    ]
    assert len(new) == len(set(new))
    assert set(new) <= {pod.key for pod in after.waiting_pods}
