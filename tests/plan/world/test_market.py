"""What experience teaches about offerings, and how long an Unmet one is struck out."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.api import LifeEvent
from growth.model.instant import format_instant
from growth.model.nodepool import PoolLimits
from growth.model.noderequest import UNANSWERED
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world import market
from growth.plan.world.market import BELIEF_SECONDS, NOTHING_LEARNED, REMEMBERED_SECONDS, Learned, corrected, struck_out
from tests.plan.builders import MIB, NOW, amounts, node, offering, pool, request, world


def learn(snapshot: Snapshot, known: Learned = NOTHING_LEARNED) -> Learned:
    return market.learn(snapshot, known, snapshot.nodes.values())


GPU = offering("gpu", 8, 16384, 0.5, devices={"example.com/gpu": 1})
PLAIN = offering("plain", 8, 16384, 0.5)


def test_what_real_nodes_lack_is_taken_off_the_catalogue() -> None:
    nodes = [
        node("a", of=GPU, allocatable=amounts(7.9, 16000, 110, example_com__gpu=1)),
        node("b", of=GPU, allocatable=amounts(7.5, 16384, 110, example_com__gpu=1)),
    ]
    learned = learn(world(nodes=nodes, offerings=[GPU]))
    assert learned.lacking == {"sim-gpu": Resources({"cpu": 500, "memory": 384 * MIB})}
    (smaller,) = corrected([GPU], learned)
    assert smaller.allocatable == amounts(7.5, 16000, 110, example_com__gpu=1)


def test_what_was_learned_outlives_the_nodes_for_a_day_and_no_longer() -> None:
    learned = learn(world(nodes=[node("a", of=PLAIN, allocatable=amounts(7.5, 16384, 110))], offerings=[PLAIN]))
    later = learn(world(offerings=[PLAIN], now=NOW + REMEMBERED_SECONDS), learned)
    assert later.lacking == learned.lacking == {"sim-plain": Resources({"cpu": 500})}
    assert learn(world(offerings=[PLAIN], now=NOW + REMEMBERED_SECONDS + 1), later) == NOTHING_LEARNED


@pytest.mark.parametrize(("cores", "believed"), [([1.6], 8), ([1.6, 8], 8), ([7.6, 7.6, 1.6], 7.6), ([1.6, 1.6], 1.6)])
def test_one_sick_machine_spoils_nothing_and_two_of_two_are_believed(cores: list[float], believed: float) -> None:
    nodes = [node(f"n{at}", of=PLAIN, allocatable=amounts(cpu, 16384, 110)) for at, cpu in enumerate(cores)]
    (seen,) = corrected([PLAIN], learn(world(nodes=nodes, offerings=[PLAIN])))
    assert seen.allocatable["cpu"] == believed * 1000


@given(st.lists(st.integers(0, 8000), min_size=1, max_size=9))
def test_what_is_believed_is_what_a_healthy_node_has(cores: list[int]) -> None:
    nodes = [node(f"n{at}", of=PLAIN, allocatable=amounts(cpu / 1000, 16384, 110)) for at, cpu in enumerate(cores)]
    (seen,) = corrected([PLAIN], learn(world(nodes=nodes, offerings=[PLAIN])))
    least = 0.9 * median([8000, *cores])
    assert seen.allocatable["cpu"] == min((each for each in cores if each >= least), default=8000)


def test_a_device_is_believed_missing_only_after_a_while_and_not_of_one_machine() -> None:
    bare = amounts(8, 16384, 110)
    fresh = [node(name, of=GPU, allocatable=bare, ready_changed_at=NOW - BELIEF_SECONDS + 1) for name in "ab"]
    assert learn(world(nodes=fresh, offerings=[GPU])).lacking == {}
    settled = [node(name, of=GPU, allocatable=bare, ready_changed_at=NOW - BELIEF_SECONDS) for name in "ab"]
    assert learn(world(nodes=settled[:1], offerings=[GPU])).lacking == {}
    assert learn(world(nodes=settled, offerings=[GPU])).lacking == {"sim-gpu": Resources({"example.com/gpu": 1})}


def test_nodes_that_say_nothing_teach_nothing() -> None:
    nodes = [
        node("a", of=GPU, allocatable=Resources()),
        node("b", of=GPU, allocatable=amounts(1), is_ready=False),
        node("c", of=GPU, allocatable=amounts(1), malformed="cpu: 'x' is not a quantity"),
        node("d", "", GPU, allocatable=amounts(1)),
    ]
    assert learn(world(nodes=nodes, offerings=[GPU])) == NOTHING_LEARNED


def test_the_longest_unmet_of_a_place_counts_and_an_unreadable_time_counts_from_the_last_change() -> None:
    requests = [
        request("a", GPU, "Unmet", expires_at=format_instant(NOW + 10)),
        request("b", GPU, "Unmet", expires_at=format_instant(NOW + 90)),
        request("c", offering("x", 1, 1, 1), "Unmet", expires_at="never", changed_at=NOW - 20),
        request("d", offering("y", 1, 1, 1), "Unmet", expires_at=format_instant(NOW)),
        request("e", offering("z", 1, 1, 1), "Pending"),
        request(
            "f", offering("w", 1, 1, 1), "Unmet", expires_at=format_instant(NOW + 3700), changed_at=NOW + 3600
        ),  # a clock went back
    ]
    assert struck_out(requests, NOW, 120.0) == {("sim-gpu", "fsn1"): NOW + 90, ("sim-x", "fsn1"): NOW + 100}


@pytest.mark.parametrize(("silent_seconds", "left", "wakes_at"), [(None, 0, None), (59.0, 0, NOW + 1), (60.0, 1, None)])
def test_an_offering_that_is_tried_again_is_not_held_up_by_an_order_that_nobody_answers(
    silent_seconds: float | None, left: int, wakes_at: float | None
) -> None:
    told = [] if silent_seconds is None else [LifeEvent(format_instant(NOW - silent_seconds), UNANSWERED)]
    snapshot = world((), [pool()], [PLAIN], (), [request("a", PLAIN, events=tuple(told))])
    place = ("sim-plain", "fsn1")
    opened = market.open_market(snapshot, ["default"], (PLAIN,), {place: NOW - 1}, Settings())
    assert opened.probations == {place: left}
    assert opened.reopens_at == wakes_at


def test_what_is_tried_again_is_taken_last_where_a_limit_has_room_for_no_more_than_that() -> None:
    """An order without an answer would use it up, and count for ten minutes."""
    for limits, priority in ((PoolLimits(nodes=1), -10_000), (PoolLimits(nodes=2), 0), (PoolLimits(), 0)):
        snapshot = world((), [pool("default", "plain", limits=limits)], [PLAIN])
        struck_at = {("sim-plain", "fsn1"): NOW - 1}
        (choice,) = market.open_market(snapshot, ["default"], (PLAIN,), struck_at, Settings()).choices
        assert choice.type_priority == priority
