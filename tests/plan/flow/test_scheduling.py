"""Given these pods and nodes, this is what growth's own scheduler does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import BindPods, WritePodsUnscheduled
from growth.model.decision import Decision, Settled
from growth.model.noderequest import NodeRemovalRequest
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown
from growth.model.pod import HostPort, Pod
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.flow import scheduling
from growth.plan.flow.keeper import Keeper
from growth.plan.flow.queue import Backoff, after_failure
from growth.plan.flow.scheduling import Ledger, settle
from growth.plan.nodes_up import joining
from tests.plan.builders import NOW, amounts, bound, node, offering, pool, request, world
from tests.plan.builders import pod as any_pod

ON = Settings(scheduler=SchedulerSettings(enabled=True))
TWO = (node("n1"), node("n2"))  # four cores each


def pod(name: str, cpu: float = 1, **fields: Any) -> Pod:
    fields.setdefault("scheduler_name", "growth")
    fields.setdefault("unschedulable_at", None)
    return any_pod(name, cpu, **fields)


def plan(snapshot: Snapshot, ledger: Ledger | None = None, settings: Settings = ON) -> Decision[Ledger]:
    return scheduling.plan_on_the_spot(snapshot, ledger or Ledger(), settings)


def sent(decision: Decision[Ledger]) -> dict[str, str]:
    """Which pod is bound to which node."""
    return {
        one.pod.name: one.node_name
        for action in decision.actions
        if isinstance(action, BindPods)
        for one in action.assignments
    }


def told(decision: Decision[Ledger]) -> dict[str, tuple[str, str]]:
    """What the conditions of pods say: reason and message."""
    return {
        one.pod.name: (one.reason, one.message)
        for action in decision.actions
        if isinstance(action, WritePodsUnscheduled)
        for one in action.pods
    }


def after(snapshot: Snapshot, decision: Decision[Ledger], outcome: Outcome) -> Ledger:
    ledger = decision.ledger
    for action in decision.actions:
        ledger = settle(Settled(action, outcome), snapshot, ledger, ON).ledger
    return ledger


def test_it_does_nothing_unless_it_is_turned_on() -> None:
    decision = plan(world([pod("a")], nodes=TWO), settings=Settings())
    assert (decision.actions, decision.notes) == ((), ())


def test_pods_of_other_schedulers_and_gated_ones_are_left_alone() -> None:
    others = [any_pod("a"), pod("b", is_gated=True), pod("c", deleted_at=NOW), pod("d")]
    assert sent(plan(world(others, nodes=TWO))) == {"d": "n1"}


def test_pods_are_spread_and_bound_in_one_action() -> None:
    decision = plan(world([pod(f"p{number}") for number in range(4)], nodes=TWO))
    assert len(decision.actions) == 1
    assert sorted(sent(decision).values()) == ["n1", "n1", "n2", "n2"]


def test_what_is_bound_already_and_what_others_were_nominated_for_counts() -> None:
    running = [bound(pod(f"r{number}"), "n1") for number in range(3)]
    nominated = any_pod("other", 4, nominated_node="n2")
    decision = plan(world([*running, nominated, pod("a"), pod("b")], nodes=TWO))
    assert sent(decision) == {"a": "n1"}
    assert told(decision)["b"][0] == "Unschedulable"


def test_a_bind_names_the_pods_that_were_counted_on_the_node() -> None:
    nominated, small = any_pod("other", 1, nominated_node="n1"), offering("small", 4, 8192, 0.1)
    requests = [request("n1", small, "Provisioning", planned=["default/planned"])]
    pods = [bound(pod("there"), "n1"), nominated, any_pod("planned"), pod("a", node_selector={"n": "1"})]
    snapshot = world(pods, [pool()], [small], [node("n1", labels={"n": "1"}), node("n2")], requests)
    [action] = [each for each in plan(snapshot).actions if isinstance(each, BindPods)]
    assert {one.pod.name: one.node_name for one in action.assignments} == {"a": "n1"}
    assert {*action.beside["n1"]} >= {each.uid for each in pods[:2]}
    assert "n2" not in action.beside


def test_a_pod_goes_where_it_is_nominated_while_there_is_room() -> None:
    running = [bound(pod(f"r{number}"), "n2") for number in range(3)]
    decision = plan(world([*running, pod("a", nominated_node="n2"), pod("b")], nodes=TWO))
    assert sent(decision) == {"a": "n2", "b": "n1"}


def test_a_pod_planned_onto_a_machine_on_its_way_waits_for_it() -> None:
    small = offering("small", 4, 8192, 0.1)
    asked = world([pod("a")], [pool()], [small], TWO, [request("r1", small, "Provisioning", planned=["default/a"])])
    assert sent(plan(asked)) == {}


def test_realising_binds_it_there_once_the_machine_has_joined() -> None:
    small = offering("small", 4, 8192, 0.1)
    asked = world([pod("a")], [pool()], [small], TWO, [request("r1", small, "Provisioning", planned=["default/a"])])
    assert joining.may_bind(asked.waiting_pods[0], asked.pools["default"], asked, ON.scheduler)
    assert not joining.may_bind(asked.waiting_pods[0], asked.pools["default"], asked, SchedulerSettings())


def test_the_higher_priority_goes_first_and_the_reason_adds_up() -> None:
    decision = plan(world([pod("low", 3), pod("high", 3, priority=5)], nodes=TWO[:1]))
    assert sent(decision) == {"high": "n1"}
    assert told(decision) == {"low": ("Unschedulable", "0/1 nodes are available: 1 insufficient cpu")}
    assert [(note.reason, note.severity) for note in decision.notes] == [("FailedScheduling", "Warning")]


def test_nodes_in_removal_take_nobody() -> None:
    asked = replace(world([pod("a")], nodes=TWO[:1]), removals={"n1": NodeRemovalRequest("n1", None, None)})  # type: ignore[arg-type]
    assert told(plan(asked)) == {"a": ("Unschedulable", "0/1 nodes are available: 1 going away")}


def test_a_node_that_begins_to_go_takes_nobody_from_then_on() -> None:
    ledger = after(world([pod("a")], nodes=TWO), plan(world([pod("a")], nodes=TWO)), Accepted())
    going = (replace(TWO[0], deleted_at=NOW), replace(TWO[1], deleted_at=NOW))
    later = plan(world([bound(pod("a"), "n1"), pod("b"), pod("c", nominated_node="n1")], nodes=going), ledger)
    assert told(later) == dict.fromkeys(("b", "c"), ("Unschedulable", "0/2 nodes are available: 2 going away"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"uses_resource_claims": True}, "growth allocates no resource claims"),
        ({"malformed": "cpu: 'x' is not a quantity"}, "is not a quantity"),
        ({"annotations": {"growth.dev/gang": "train:none"}}, "cannot be read: growth.dev/gang: train:none"),
    ],
)
def test_what_growth_cannot_place_is_left_with_a_reason_that_buys_no_machine(
    fields: dict[str, Any], words: str
) -> None:
    decision = plan(world([pod("a", **fields)], nodes=TWO))
    reason, message = told(decision)["a"]
    assert reason == "SchedulerError"
    assert words in message
    assert plan(world([pod("a", **fields)], nodes=TWO), decision.ledger).actions == ()  # told once


def test_a_gang_starts_with_three_quarters_of_its_members_or_waits() -> None:
    gang = {"annotations": {"growth.dev/gang": "train:75%"}}
    members = [pod(f"m{number}", 4, **gang) for number in range(4)]
    assert told(plan(world(members, nodes=TWO)))["m0"][1].startswith("gang default/train: 3 more must start together")
    assert len(sent(plan(world(members, nodes=(*TWO, node("n3")))))) == 3
    running = [bound(each, f"n{number + 1}") for number, each in enumerate(members[:2])]
    assert len(sent(plan(world([*running, *members[2:]], nodes=(*TWO, node("n3")))))) == 1


# ----------------------------------------------------------------------------------------- outcomes


def test_no_round_begins_while_binds_are_under_way_and_arrivals_are_told() -> None:
    first = world([pod("a")], nodes=TWO)
    decision = plan(first)
    assert plan(world([pod("a"), pod("b")], nodes=TWO), decision.ledger).actions == ()
    ledger = after(first, decision, Accepted())
    later = plan(world([bound(pod("a"), "n1"), pod("b")], nodes=TWO), ledger)
    assert sent(later) == {"b": "n2"}
    assert [(note.reason, note.message) for note in later.notes] == [
        ("Scheduled", "Successfully assigned default/a to n1")
    ]


@pytest.mark.parametrize(
    "outcome", [Conflict("node n1 is gone"), Unknown("no answer"), TryLater("busy"), Refused("no")]
)
def test_no_failure_is_fatal_and_the_pod_is_placed_again(outcome: Outcome) -> None:
    """Also where the node vanished during the solve."""
    first = world([pod("a")], nodes=TWO)
    decision = plan(first)
    ledger = after(first, decision, outcome)
    soon = plan(world([pod("a")], nodes=TWO[1:], now=NOW + 0.1), ledger)
    assert soon.actions == ()
    assert soon.again_at is not None
    again = plan(world([pod("a")], nodes=TWO[1:], now=NOW + 6), soon.ledger)
    assert sent(again) == {"a": "n2"}


def test_a_refused_bind_is_told_on_the_pod() -> None:
    first = world([pod("a")], nodes=TWO)
    later = plan(replace(first, now=NOW + 1), after(first, plan(first), Refused("forbidden")))
    assert [(note.reason, note.message) for note in later.notes] == [
        ("FailedBinding", "could not be bound to n1: forbidden")
    ]


def test_who_found_no_place_is_tried_again_when_something_changes_and_not_sooner_than_its_back_off() -> None:
    full = world([pod("a", 5)], nodes=TWO)
    first = plan(full)
    assert first.again_at is None
    at_rest = plan(replace(full, now=NOW + 100), first.ledger)
    assert (at_rest.actions, at_rest.again_at) == ((), None)
    larger = world([pod("a", 5)], nodes=(*TWO, node("n3", allocatable=amounts(8, 16384, 110))), now=NOW + 0.5)
    waiting = plan(larger, first.ledger)
    assert (waiting.actions, waiting.again_at) == ((), NOW + 1)
    assert sent(plan(replace(larger, now=NOW + 1), waiting.ledger)) == {"a": "n3"}


def test_another_reason_is_told_only_after_a_while() -> None:
    first = plan(world([pod("a", 5)], nodes=TWO))
    assert set(told(first)) == {"a"}
    soon = plan(world([pod("a", 5)], nodes=TWO[:1], now=NOW + 5), first.ledger)
    assert told(soon) == {}
    late = plan(world([pod("a", 5)], nodes=TWO, now=NOW + 40), soon.ledger)
    assert told(late) == {}  # the same as was told first
    other = plan(world([pod("a", 5)], nodes=TWO[:1], now=NOW + 80), late.ledger)
    assert told(other) == {"a": ("Unschedulable", "0/1 nodes are available: 1 insufficient cpu")}


def test_what_could_not_be_told_is_told_again() -> None:
    first = world([pod("a", 5)], nodes=TWO)
    ledger = after(first, plan(first), TryLater("busy"))
    again = plan(world([pod("a", 5)], nodes=TWO[:1], now=NOW + 5), ledger)
    assert set(told(again)) == {"a"}


def test_a_round_takes_so_many_and_the_rest_have_their_turn() -> None:
    few = Settings(scheduler=SchedulerSettings(enabled=True, pods_per_round=2))
    asked = [pod("a"), pod("b"), pod("c")]
    first = plan(world(asked, nodes=TWO), settings=few)
    assert set(sent(first)) == {"a", "b"}
    too_large = [pod("x", 9), pod("y", 9), pod("z")]
    stuck = plan(world(too_large, nodes=TWO), settings=few)
    assert stuck.again_at == NOW
    assert set(sent(plan(world(too_large, nodes=TWO), stuck.ledger, few))) == {"z"}


def test_one_round_asks_for_binds_and_for_conditions_once_each() -> None:
    kinds = {type(action) for action in plan(world([pod("a"), pod("b", 9)], nodes=TWO)).actions}
    assert kinds == {BindPods, WritePodsUnscheduled}


# ----------------------------------------------------------------------------------- the same twice


def rounds(seed: int) -> Iterator[tuple[Snapshot, Snapshot, Ledger]]:
    """A story of nodes that come and go and pods that are bound: each round's snapshot, another one, and the ledger."""
    chance, names = random.Random(seed), [f"n{number}" for number in range(6)]
    here, waiting, running, ledger, now = set(names[:2]), dict[str, Pod](), dict[str, Pod](), Ledger(), NOW
    for step in range(8):
        now += chance.choice((0.0, 2.0, 40.0))
        here ^= {chance.choice(names)}
        waiting |= {f"{step}-{number}": pod(f"{step}-{number}", chance.choice((1, 2, 3))) for number in range(2)}
        running = {name: each for name, each in running.items() if each.node_name in here and chance.random() < 0.8}
        nodes = [node(name) for name in sorted(here)]
        snapshot = world([*running.values(), *waiting.values()], nodes=nodes, now=now)
        yield snapshot, world(waiting.values(), nodes=[node(name) for name in names[3:]], now=now), ledger
        decision = plan(snapshot, ledger)
        ledger = after(snapshot, decision, Accepted())
        running |= {name: bound(waiting.pop(name), on) for name, on in sent(decision).items()}


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_called_twice_with_one_ledger_is_the_same_plan_twice(seed: int) -> None:
    for snapshot, _, ledger in rounds(seed):
        assert plan(snapshot, ledger) == plan(snapshot, ledger)


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_for_another_world_leaves_no_trace_in_the_ledger(seed: int) -> None:
    for snapshot, other, ledger in rounds(seed):
        first = plan(snapshot, ledger)
        plan(other, ledger)
        again = plan(snapshot, ledger)
        assert (again, again.ledger.fleet.changes) == (first, first.ledger.fleet.changes)


def test_a_pod_in_its_back_off_is_tried_with_a_younger_one_once_there_is_room() -> None:
    running, old = bound(pod("running", 4), "n1"), pod("old", 4, created_at=NOW - 60)
    full = world([running, old], nodes=TWO[:1])
    ledger = after(full, plan(full), Accepted())
    assert ledger.backoffs["uid-old"].until > NOW
    young = pod("young", 4, created_at=NOW, host_ports=(HostPort(80),))
    assert sent(plan(world([old, young], nodes=TWO[:1], now=NOW + 0.1), ledger)) == {"old": "n1"}


@pytest.mark.parametrize(("failures", "seconds"), [(0, 1.0), (2, 4.0), (4, 10.0), (5000, 10.0)])
def test_a_pod_that_failed_thousands_of_times_is_tried_every_ten_seconds(failures: int, seconds: float) -> None:
    found = after_failure(Backoff(failures), NOW, 0)
    assert (found.failures, found.until) == (failures + 1, NOW + seconds)


def test_rounds_without_an_answer_are_followed_by_smaller_ones_that_tell_everything() -> None:
    snapshot = world([pod(f"p{number}", 0.01) for number in range(40)], nodes=TWO)
    settings = Settings(scheduler=SchedulerSettings(enabled=True, pods_per_round=32))
    ledger, sizes = Ledger(), []
    for _ in range(3):
        asked = scheduling.question(snapshot, ledger, settings)
        assert asked is not None
        assert asked.problem is not None
        assert len(asked.problem.change.nodes) == 2
        sizes.append(len(asked.queue.due))
        decision = scheduling.plan(snapshot, ledger, settings, asked, None)
        assert decision.actions == ()
        assert decision.again_at == NOW + 1
        ledger = decision.ledger
    assert sizes == [32, 4, 1]
    answered = scheduling.plan_on_the_spot(snapshot, ledger, settings)
    assert len(sent(answered)) == 1
    assert answered.ledger.silences == 3  # as long as more are due than a small round takes


def test_a_keeper_that_is_behind_is_told_everything_in_the_next_look() -> None:
    snapshot = world([pod("a")], nodes=TWO)
    ledger = replace(after(snapshot, plan(snapshot), Accepted()), under_way={})
    asked = scheduling.question(snapshot, ledger, ON)
    assert asked is not None
    assert asked.problem is not None
    assert asked.problem.change.nodes == ()
    behind = Keeper()(asked.problem)
    decision = scheduling.plan(snapshot, ledger, ON, asked, behind)
    assert (behind.is_behind, decision.again_at, decision.ledger.silences) == (True, NOW, 0)
    assert sent(plan(snapshot, replace(decision.ledger, backoffs={}))) == {"a": "n1"}
