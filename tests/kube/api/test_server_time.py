"""The API server's clock, as its answers tell it; our own may be wrong, and may step."""

from __future__ import annotations

from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api.server_time import ServerTime, date_of
from growth.runtime import Runtime
from growth.sim.clock import SimRuntime, run_virtual

OURS = SimRuntime  # what the embedded cluster gives a process


def heard(date: float) -> dict[str, str]:
    return {"date": formatdate(int(date), usegmt=True)}


def test_until_an_answer_came_our_own_clock_is_all_there_is_and_then_the_server_is_right_to_a_second() -> None:
    async def story() -> None:
        runtime = OURS("a")
        true = runtime.now()
        runtime.skew_seconds = 3600.0
        time: Runtime = ServerTime(runtime)
        assert time.now() == true + 3600.0
        assert isinstance(time, ServerTime)
        time.hear(heard(true), asked_at=runtime.monotonic())
        assert abs(time.now() - true) <= 1.0
        runtime.skew_seconds = -3600.0
        await time.sleep(20.0)
        assert abs(time.now() - (true + 20.0)) <= 1.0

    run_virtual(story())


def test_answers_that_agree_with_our_clock_move_nothing_however_long_they_took() -> None:
    async def story() -> None:
        runtime = OURS("a")
        time = ServerTime(runtime)
        for wait in (0.0, 0.3, 25.0, 0.9):
            asked_at, written = runtime.monotonic(), runtime.now() + wait / 2
            await runtime.sleep(wait)
            time.hear(heard(written), asked_at)
            assert abs(time.now() - runtime.now()) < 1e-6

    run_virtual(story())


def test_an_answer_that_does_not_say_when_it_was_written_changes_nothing() -> None:
    async def story() -> None:
        runtime = OURS("a")
        time, before = ServerTime(runtime), runtime.now()
        for headers in ({}, {"date": ""}, {"date": "yesterday"}, {"date": "Mon, 99 Foo 2026 00:00:00 GMT"}):
            time.hear(headers, runtime.monotonic())
        assert time.now() == before
        runtime.skew_seconds = 90.0
        assert time.now() == before + 90.0

    run_virtual(story())


@given(
    off=st.floats(-1e7, 1e7),
    answers=st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 30.0), st.floats(0.0, 1.0)), min_size=1),
)
def test_after_any_answers_the_error_is_at_most_what_the_quickest_of_them_leaves_open(
    off: float, answers: list[tuple[float, float, float]]
) -> None:
    async def story() -> None:
        runtime = OURS("a")
        time, true = ServerTime(runtime), runtime.now
        zero = true() - runtime.monotonic()
        runtime.skew_seconds = off
        for pause, takes, share in answers:
            await runtime.sleep(pause)
            asked_at = runtime.monotonic()
            await runtime.sleep(takes)
            time.hear(heard(zero + asked_at + share * takes), asked_at)
        error = abs(time.now() - (zero + runtime.monotonic()))
        assert error <= 1.001 + min(takes for _, takes, _ in answers)

    run_virtual(story())


def test_a_date_is_read_as_coordinated_time() -> None:
    assert date_of(heard(1_767_225_600.7)) == 1_767_225_600.0
