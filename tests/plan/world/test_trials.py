"""How far a pool may be trusted with money, after machines that were of use and machines in vain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.gang import GANG
from growth.model.instant import format_instant
from growth.model.node import STARTUP_TAINT
from growth.model.nodepool import RETRY, NodePool, NodePoolStatus, PoolTrials, Trial
from growth.model.noderequest import NodeRequest
from growth.model.pod import class_checksum
from growth.plan.pool_status import as_written
from growth.plan.world.swaps import template_digest
from growth.plan.world.trials import Standing, standings, trials_of
from growth.plan.world.turn import life_event
from tests.plan.builders import NOW, node, offering, pod, pool, request, shape, world

SMALL = offering("small", 2, 4096, 0.01)
PLACE = (SMALL.name, SMALL.location)
DAY = 86_400.0


def failed(name: str, at: float, **fields: Any) -> NodeRequest:
    event = life_event(at, "nodeNotReady", "no Ready node within 300 s")
    found = request(f"default-pool-{name}", SMALL, "Deprovisioning", changed_at=at, **fields)
    return replace(found, status=replace(found.status, events=(event,)))


def ordered_and_failed(number: int, at: float) -> NodeRequest:
    return replace(failed(str(number), at + 300), created_at=at)


def worked(name: str, at: float) -> NodeRequest:
    return replace(request(f"default-pool-{name}", SMALL, "Ready", changed_at=at), created_at=at)


def in_vain(*ages: float, **fields: Any) -> tuple[Trial, ...]:
    return tuple(
        Trial(f"r{age}", format_instant(NOW - age), SMALL.name, SMALL.location, "no Ready node", **fields)
        for age in ages
    )


def pool_with(**fields: Any) -> NodePool:
    spec = pool().spec
    trials = PoolTrials(generation=1, **{"template": template_digest(spec), **fields})
    return pool(status=NodePoolStatus(trials=trials), generation=1)


def written_of(of: NodePool, requests: Iterable[NodeRequest], now: float, credentials: str = "") -> PoolTrials:
    return as_written(of, trials_of(of, requests, now), now, credentials)


def standing(of: NodePool, *requests: NodeRequest, now: float = NOW, **fields: Any) -> Standing:
    return standings(replace(world(pools=[of], offerings=[SMALL], requests=requests, **fields), now=now))["default"]


def test_a_pool_that_never_had_a_machine_of_use_has_five_on_their_way() -> None:
    new = pool(status=NodePoolStatus())
    assert standing(new).most == 5
    assert standing(new, nodes=[node("default-pool-old", of=SMALL)]).most is None  # it serves: bought before
    assert standing(new, worked("a", NOW - 5)).most is None
    assert standing(pool()).most is None


def test_two_in_a_row_leave_one_at_a_time_and_three_a_pause_that_doubles() -> None:
    assert standing(pool_with(in_vain=in_vain(10))).most is None
    assert standing(pool_with(in_vain=in_vain(20, 10))).most == 1
    third = pool_with(in_vain=in_vain(30, 20, 10))
    assert (standing(third).most, standing(third).until) == (0, NOW - 10 + 300)
    assert standing(third, now=NOW - 10 + 300).most == 1
    ends = [in_vain(900, 890, 880, 500), in_vain(2000, 1990, 1980, 1600, 900)]
    assert [standing(pool_with(in_vain=each)).until for each in ends] == [NOW - 500 + 600, NOW - 900 + 1200]
    for age, number in ((40, 8), (50, 12)):
        spread = tuple(float(age + 8000 * (number - each)) for each in range(3, number))
        long = pool_with(in_vain=in_vain(spread[0] + 20, spread[0] + 10, *spread))
        assert (standing(long).until or 0) <= NOW + 7200


def test_of_many_ordered_together_the_few_that_never_became_ready_are_no_row() -> None:
    ordered = NOW - 400
    many = [replace(worked(f"w{number}", NOW - 300), created_at=ordered) for number in range(30)]
    few = [failed(f"f{number}", NOW - 10 + number / 10, created_at=ordered) for number in range(25)]
    seen = standing(pool_with(), *many, *few)
    assert (seen.pause.in_a_row, seen.most, seen.in_vain) == (0, None, 3)
    assert not seen.is_closed(PLACE, NOW)
    written = written_of(pool_with(), [*many, *few], NOW)
    assert standing(pool_with(in_vain=written.in_vain, worked_ordered_at=written.worked_ordered_at)).most is None


def test_what_was_under_way_when_a_pause_began_does_not_prolong_it() -> None:
    assert standing(pool_with(in_vain=in_vain(30, 20, 10, 5, 2))).until == NOW - 10 + 300


def test_a_success_clears_the_count_of_the_pool_and_of_its_offering() -> None:
    failing = pool_with(in_vain=in_vain(30, 20, 10))
    assert standing(failing, worked("a", NOW - 5)).most is None
    assert standing(failing, worked("a", NOW - 5)).offerings == {}
    assert standing(failing, worked("a", NOW - 15)).most is None  # one failure since
    other = replace(worked("a", NOW - 5), spec=replace(worked("a", NOW).spec, target_offering="sim-other"))
    after = standing(failing, other)
    assert (after.most, after.is_closed(PLACE, NOW), after.is_closed(PLACE, NOW + 300)) == (None, True, False)


def test_twenty_in_a_day_are_the_end_however_often_others_worked() -> None:
    ages = tuple(float(3600 * number) for number in range(20, 0, -1))
    spent = pool_with(in_vain=in_vain(*ages), worked_at=format_instant(NOW - 60))
    assert (standing(spent).most, standing(spent).until) == (0, NOW - 20 * 3600 + DAY)
    assert standing(pool_with(in_vain=in_vain(*ages[1:]), worked_at=format_instant(NOW - 60))).most == 1
    assert standing(spent, now=NOW + 4 * 3600 + 1).most == 1
    mended = pool_with(in_vain=in_vain(*ages), mended_at=format_instant(NOW - 60))
    assert standing(mended).most == 0
    assert standing(pool_with(in_vain=in_vain(*ages[1:]))).most == 0  # the last is kept for who mends it
    assert standing(pool_with(in_vain=in_vain(*ages[1:]), mended_at=format_instant(NOW - 60))).most == 1


def of_zones(**ages: tuple[float, ...]) -> tuple[Trial, ...]:
    return tuple(
        replace(each, location=zone, request=zone + each.request) for zone in ages for each in in_vain(*ages[zone])
    )


def test_an_offering_that_went_on_failing_before_another_one_worked_does_not_pause_the_pool() -> None:
    worked_at = format_instant(NOW - 3500)
    broken = of_zones(b=(9000, 8000, 7000, 600), c=(8900, 7900, 6900, 500), d=(8800, 7800, 6800, 400))
    seen = standing(pool_with(in_vain=broken[:4] + broken[4:7] + broken[8:11], worked_at=worked_at))
    assert (seen.pause.in_a_row, seen.is_failing) == (0, False)
    seen = standing(pool_with(in_vain=broken, worked_at=worked_at))
    assert (seen.in_vain, seen.pause.in_a_row, seen.most) == (12, 0, 8)
    assert all(seen.is_closed((SMALL.name, zone), NOW) for zone in "bcd")
    together = standing(pool_with(in_vain=broken))  # nothing works: all of them speak for the pool
    assert (together.is_failing, together.most) == (True, 0)
    once = of_zones(b=(9000,), c=(8900,), d=(8800,), e=(30, 20, 10))
    assert standing(pool_with(in_vain=once, worked_at=worked_at)).pause.in_a_row == 3  # what worked may work no more


def test_what_fails_beside_what_works_takes_turns_and_leaves_five_of_a_day_to_that() -> None:
    broken = of_zones(b=(9000, 8000, 7000, 600), c=(8900, 7900, 6900, 500), d=(8800, 7800, 6800, 400))
    known = pool_with(in_vain=broken, worked_at=format_instant(NOW - 300))
    turn = (DAY - 9000 + 400) / 3
    ends = [standing(known).offerings[SMALL.name, zone].until for zone in "bcd"]
    assert ends == [NOW - 400 + number * turn for number in (1, 2, 3)]
    more = (*broken, *of_zones(b=(90,), c=(80,), d=(70,)))
    full = standing(replace(known, status=NodePoolStatus(trials=replace(known.status.trials, in_vain=more))))
    assert (full.in_vain, full.most) == (15, 5)
    assert [full.offerings[SMALL.name, zone].until for zone in "bcd"] == [NOW - age + DAY for age in (9000, 8900, 8800)]
    mended = replace(known.status.trials, mended_at=format_instant(NOW - 5))
    tried = standing(replace(known, status=NodePoolStatus(trials=mended)))
    assert not any(tried.is_closed((SMALL.name, zone), NOW) for zone in "bcd")


def test_from_ten_in_a_day_on_what_failed_once_is_taken_last_and_what_failed_twice_has_its_turn() -> None:
    nine = of_zones(b=(9000, 8000, 7000), c=(8900, 7900, 6900), d=(8800, 7800), e=(6700,))
    places = [(SMALL.name, zone) for zone in "de"]
    few = standing(pool_with(in_vain=nine, worked_at=format_instant(NOW - 3500)))
    assert [(few.is_closed(each, NOW), few.demotion(each, NOW)) for each in places] == [(False, 0), (False, 0)]
    ten = (*nine, *of_zones(f=(6600,)))
    many = standing(pool_with(in_vain=ten, worked_at=format_instant(NOW - 3500)))
    assert [(many.is_closed(each, NOW), many.demotion(each, NOW)) for each in places] == [(True, 2), (False, 1)]


def test_a_pool_that_has_worked_meanwhile_is_not_paused_for_hours_by_three_in_a_row() -> None:
    older, newer = of_zones(b=(9000, 8000, 7000), c=(8900, 7900, 6900)), of_zones(d=(50, 40), e=(30,), f=(20,))
    known = pool_with(in_vain=older + newer, worked_at=format_instant(NOW - 3500))
    assert standing(known).until == NOW - 30 + 300
    assert (standing(pool_with(in_vain=older + newer)).until or 0) > NOW + 3600


def test_five_mendings_in_a_day_that_come_after_a_failure_are_tried_at_once() -> None:
    tried = pool_with(in_vain=in_vain(30, 20, 10))
    for number in range(8):
        now = NOW + 1200 * number
        changed = replace(tried, generation=tried.generation + 1)
        mended = replace(changed, status=NodePoolStatus(trials=written_of(changed, (), now)))
        assert (standing(mended, now=now + 1).most == 1) == (number < 5)
        idle = replace(mended, generation=mended.generation + 1)
        assert written_of(idle, (), now + 60).mendings == mended.status.trials.mendings  # nothing failed since
        again = trials_of(mended, [ordered_and_failed(number, now + 750)], now + 1050)
        tried = replace(mended, status=NodePoolStatus(trials=again))
    next_day = replace(tried, generation=99)
    assert written_of(next_day, (), NOW + 1 + DAY).mended_at == format_instant(NOW + 1 + DAY)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 7000), st.booleans()), max_size=40))
def test_whoever_mends_it_whenever_no_more_than_twenty_are_in_vain_in_a_day(turns: list[tuple[float, bool]]) -> None:
    """Each machine that may be ordered is, and fails after five minutes; programs mend the pool again and again."""
    of, now, generation, failures, last = pool_with(), NOW, 1, list[float](), 0.0
    for pause, is_mended in [*turns, *[(3600, False)] * 30]:
        now, generation = now + pause, generation + is_mended
        of = replace(of, generation=generation)
        of = replace(of, status=NodePoolStatus(trials=written_of(of, (), now)))
        if standing(of, now=now).most != 0:
            again = trials_of(of, [ordered_and_failed(len(failures), now)], now + 300)
            now = now + 300
            failures.append(now)
            of = replace(of, status=NodePoolStatus(trials=again))
        assert len([at for at in failures if at > now - DAY]) <= 20
        last = max(last, now - (failures[-1] if failures else NOW))
    assert last <= 6 * 3600  # and it is tried again before long


def test_a_change_of_the_pool_its_credentials_or_the_retry_annotation_mends_it_once() -> None:
    failing = pool_with(in_vain=in_vain(30, 20, 10), credentials="old")
    assert written_of(failing, (), NOW, "old").mended_at is None
    changed = [
        (replace(failing, generation=2), "old"),
        (failing, "new"),
        (replace(failing, annotations={RETRY: "1"}), "old"),
    ]
    for each, credentials in changed:
        written = written_of(each, (), NOW, credentials)
        assert written.mended_at == format_instant(NOW)
        after = replace(each, status=NodePoolStatus(trials=written))
        assert standing(after, now=NOW + 1).most == 1
        assert written_of(after, (), NOW + 60, credentials) == written
        again = standing(after, failed("again", NOW + 300), now=NOW + 310)
        assert (again.most, again.until) == (0, NOW + 600)
    taken_off = replace(failing, status=NodePoolStatus(trials=written_of(changed[2][0], (), NOW, "old")))
    assert written_of(taken_off, (), NOW + 60, "old").mended_at == format_instant(NOW)  # taking it off asks for nothing


def test_records_count_before_they_are_written_and_after_they_are_gone() -> None:
    records = [failed(str(number), NOW - 40 + 10 * number) for number in range(3)]
    assert standing(pool_with(), *records).most == 0
    written = pool_with(in_vain=trials_of(pool_with(), records, NOW).in_vain)
    assert standing(written).most == standing(written, *records).most == 0
    assert standing(written).in_vain == 3


def test_a_clock_that_went_back_counts_a_failure_as_of_now() -> None:
    ahead = pool_with(in_vain=in_vain(-3600, -3610, -3620))
    assert standing(ahead).most == 0
    written = written_of(ahead, (), NOW)
    assert {each.at for each in written.in_vain} == {format_instant(NOW)}


def test_machines_that_are_ready_and_have_taken_no_pod_stop_buying_until_they_are_judged() -> None:
    silent = [
        request(f"default-pool-{number}", SMALL, "Ready", planned=["default/a"], changed_at=NOW - 60)
        for number in range(3)
    ]
    assert standing(pool(), *silent, pods=[pod("a")]).most == 0
    assert standing(pool(), *silent[:2], pods=[pod("a")]).most is None
    assert standing(pool(), *silent).most is None  # the pod is gone


def test_a_class_of_pods_is_known_again_when_it_is_made_anew() -> None:
    one, other = shape(1, 512, labels={"job": "a"}), shape(1, 512, labels={"job": "b"})
    assert class_checksum(one) == class_checksum(other) != class_checksum(shape(2, 512))
    missed = pool_with(in_vain=in_vain(30, 20, 10, classes=("k",)), worked_at=format_instant(NOW - 5))
    assert standing(missed).classes["k"].until == NOW - 10 + 300


@given(st.lists(st.tuples(st.integers(0, 86_000), st.booleans()), max_size=40))
def test_what_is_kept_is_bounded_and_folding_it_again_changes_nothing(history: list[tuple[int, bool]]) -> None:
    requests = [
        worked(str(number), NOW - age) if is_good else failed(str(number), NOW - age)
        for number, (age, is_good) in enumerate(history)
    ]
    first = trials_of(pool_with(), requests, NOW)
    assert len(first.in_vain) <= 40
    again = trials_of(pool_with(in_vain=first.in_vain, worked_at=first.worked_at), requests, NOW)
    assert again.in_vain == first.in_vain


def test_a_machine_that_waits_for_others_of_a_gang_is_of_use_until_it_is_known_better() -> None:
    """Else the others would never be bought. It is not written down: if they never come, it was in vain."""
    gang = [pod(f"p{number}", 1.5, annotations={GANG: "train:3"}) for number in range(3)]
    name, new = "default-pool-1", pool(status=NodePoolStatus())
    coming = request(name, SMALL, "Provisioning", planned=["default/p0"], created_at=NOW - 60)
    come: dict[str, Any] = {"pods": gang, "nodes": [node(name, of=SMALL, taints=(STARTUP_TAINT,))]}
    assert (standing(new, coming, pods=gang).most, standing(new, coming, pods=gang).on_their_way) == (5, 1)
    seen = standing(new, coming, **come)
    assert (seen.most, seen.on_their_way, seen.trials) == (None, 0, new.status.trials)
    doubted = pool_with(in_vain=in_vain(200, 100))
    assert (standing(doubted, coming).most, standing(doubted, coming, **come).most) == (1, None)
    alone: dict[str, Any] = {**come, "pods": [replace(gang[0], annotations={})]}
    assert standing(new, coming, **alone).most == 5
