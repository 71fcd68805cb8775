from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api.pace import Backoff, Lane, Places, Throttle
from growth.sim.clock import SimRuntime, run_virtual


def served(
    lanes: list[Lane], per_second: float, burst: int, cancelled: frozenset[int] = frozenset()
) -> list[tuple[float, Lane, int]]:
    """Ask for a token in each lane at once; when, in which lane and whose turn each came."""
    story: list[tuple[float, Lane, int]] = []

    async def take(throttle: Throttle, lane: Lane, order: int) -> None:
        await throttle.take(lane)
        story.append((asyncio.get_running_loop().time(), lane, order))

    async def scene() -> None:
        throttle = Throttle(SimRuntime("pace"), per_second, burst)
        tasks = [asyncio.create_task(take(throttle, lane, order)) for order, lane in enumerate(lanes)]
        await asyncio.sleep(0)
        for order in sorted(cancelled):
            tasks[order].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(scene())
    return story


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    times = [at for at, _, _ in served([Lane.NORMAL] * 5, per_second=2.0, burst=2)]
    assert [round(at, 6) for at in times] == [0.0, 0.0, 0.5, 1.0, 1.5]


def test_urgent_requests_overtake_those_that_wait() -> None:
    story = served([Lane.BACKGROUND] * 4 + [Lane.NORMAL] * 2 + [Lane.URGENT], per_second=1.0, burst=1)
    assert [lane for _, lane, _ in story] == [
        Lane.BACKGROUND,
        Lane.URGENT,
        Lane.NORMAL,
        Lane.NORMAL,
        Lane.BACKGROUND,
        Lane.BACKGROUND,
        Lane.BACKGROUND,
    ]


def test_while_the_server_asks_for_a_pause_only_urgent_requests_go() -> None:
    story: list[tuple[float, Lane]] = []

    async def take(throttle: Throttle, lane: Lane, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        await throttle.take(lane)
        story.append((round(asyncio.get_running_loop().time(), 3), lane))

    async def scene() -> None:
        throttle = Throttle(SimRuntime("pace"), per_second=100.0, burst=100)
        throttle.pause(2.0)
        throttle.pause(1.0)
        wanted = [(Lane.NORMAL, 0.0), (Lane.URGENT, 0.5), (Lane.BACKGROUND, 0.7), (Lane.URGENT, 0.9), (Lane.NORMAL, 3)]
        await asyncio.gather(*(take(throttle, lane, seconds) for lane, seconds in wanted))

    run_virtual(scene())
    lanes = [Lane.URGENT, Lane.URGENT, Lane.NORMAL, Lane.BACKGROUND, Lane.NORMAL]
    assert story == list(zip([0.5, 0.9, 2.0, 2.0, 3.0], lanes, strict=True))


@given(st.lists(st.sampled_from(Lane), max_size=30), st.integers(1, 5), st.sets(st.integers(0, 29)))
def test_no_more_are_under_way_than_there_are_places_and_every_place_is_given_back(
    lanes: list[Lane], most: int, given_up: set[int]
) -> None:
    under_way: list[Lane] = []

    async def work(places: Places, lane: Lane, order: int) -> None:
        await places.take(lane)
        under_way.append(lane)
        try:
            assert len([each for each in under_way if each is not Lane.URGENT]) <= most
            await asyncio.sleep(1 + order % 3)
        finally:
            under_way.remove(lane)
            places.give_back(lane)

    async def scene() -> None:
        places = Places(most)
        tasks = [asyncio.create_task(work(places, lane, order)) for order, lane in enumerate(lanes)]
        await asyncio.sleep(0)
        for order in given_up & set(range(len(lanes))):
            tasks[order].cancel()
        said = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [each for each in said if isinstance(each, AssertionError)]
        for _ in range(most):
            await asyncio.wait_for(places.take(Lane.NORMAL), 1)

    run_virtual(scene())


def test_an_urgent_request_waits_for_no_place_and_a_more_important_one_goes_first() -> None:
    story: list[str] = []

    async def work(places: Places, lane: Lane) -> None:
        await places.take(lane)
        story.append(lane.name)
        await asyncio.sleep(1)
        places.give_back(lane)

    async def scene() -> None:
        places = Places(1)
        lanes = [Lane.NORMAL, Lane.BACKGROUND, Lane.NORMAL, Lane.URGENT]
        await asyncio.gather(*(work(places, lane) for lane in lanes))

    run_virtual(scene())
    assert story == ["NORMAL", "URGENT", "NORMAL", "BACKGROUND"]


def test_a_request_given_up_costs_no_token() -> None:
    times = [at for at, _, _ in served([Lane.NORMAL] * 3, per_second=1.0, burst=1, cancelled=frozenset({1}))]
    assert [round(at, 6) for at in times] == [0.0, 1.0]


@given(st.lists(st.sampled_from(Lane), max_size=30), st.floats(0.1, 100), st.integers(1, 10))
def test_never_more_than_the_burst_and_the_rate_allow_and_in_turn_within_a_lane(
    lanes: list[Lane], per_second: float, burst: int
) -> None:
    story = served(lanes, per_second, burst)
    assert len(story) == len(lanes)
    for count, (at, _, _) in enumerate(story, start=1):
        assert count <= burst + at * per_second + 0.001
    for lane in Lane:
        turns = [order for _, each, order in story if each is lane]
        assert turns == sorted(turns)


def test_waits_double_to_a_limit_and_begin_anew() -> None:
    async def scene() -> list[float]:
        backoff, times = Backoff(SimRuntime("pace"), 1.0, 4.0), []
        for attempt in range(6):
            if attempt == 5:
                backoff.reset()
            began_at = asyncio.get_running_loop().time()
            await backoff.wait()
            times.append(asyncio.get_running_loop().time() - began_at)
        return times

    waits = run_virtual(scene())
    assert [limit / 2 <= wait <= limit for wait, limit in zip(waits, (1, 2, 4, 4, 4, 1), strict=True)] == [True] * 6


@pytest.mark.parametrize(("asked", "waited"), [(30.0, 30.0), (60.0, 60.0)])
def test_a_wait_is_no_shorter_than_the_server_asked_for(asked: float, waited: float) -> None:
    async def scene() -> float:
        await Backoff(SimRuntime("pace"), 1.0, 4.0).wait(at_least_seconds=asked)
        return asyncio.get_running_loop().time()

    assert run_virtual(scene()) == waited
