"""Requests stay below the project's limit, what matters goes first, and from a 429 to its reset nothing is asked."""

from __future__ import annotations

import pytest

from growth.model.outcome import Accepted, TryLater
from growth.providers.contract import ProviderError
from growth.providers.hetzner.errors import Limited
from growth.providers.hetzner.quota import Quota, Rank
from growth.sim.clock import SimRuntime, run_virtual
from tests.providers.hetzner.worlds import CLUSTER, Bench, at_hetzner, order


def test_our_share_is_never_exceeded_and_lists_leave_room_for_orders_and_deletions() -> None:
    async def test() -> None:
        runtime = SimRuntime("quota")
        quota = Quota(runtime, 600)
        for _ in range(540):
            await quota.take(Rank.LIST)
        began = runtime.monotonic()
        await quota.take(Rank.DELETE)
        await quota.take(Rank.CREATE)
        assert runtime.monotonic() == began
        await quota.take(Rank.LIST)
        assert runtime.monotonic() > began
        with pytest.raises(Limited):
            await quota.take(Rank.CATALOGUE)

    run_virtual(test())


def test_what_others_use_of_the_project_counts_too() -> None:
    async def test() -> None:
        runtime = SimRuntime("quota")
        quota = Quota(runtime, 3000)
        quota.heard({"ratelimit-limit": "3600", "ratelimit-remaining": "900"}, is_refused=False)
        for _ in range(500):
            await quota.take(Rank.CREATE)
        assert runtime.monotonic() == 0
        with pytest.raises(Limited):
            await quota.take(Rank.LIST)
        quota.heard({"ratelimit-limit": "3600", "ratelimit-remaining": "0"}, is_refused=False)
        began = runtime.monotonic()
        await quota.take(Rank.DELETE)
        assert runtime.monotonic() - began >= 1

    run_virtual(test())


@pytest.mark.parametrize(("headers", "seconds"), [
    ({"ratelimit-reset": "1767225630", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 30.0),
    ({"ratelimit-reset": "1767225630"}, 30.0),
    ({"ratelimit-reset": "1767225630", "date": "Fri, 31 Dec 0001 00:00:00 +2359"}, 45.0),
    ({"ratelimit-reset": "never"}, 45.0),
    ({}, 45.0),
    ({"ratelimit-reset": "99999999999"}, 45.0),
    ({"ratelimit-reset": "inf", "ratelimit-limit": "nan", "ratelimit-remaining": "-inf"}, 45.0),
])  # fmt: skip
def test_a_429_closes_the_line_until_its_reset_by_hetzners_clock_and_for_45_seconds_at_most(
    headers: dict[str, str], seconds: float
) -> None:
    async def test() -> None:
        runtime = SimRuntime("quota")
        quota = Quota(runtime, 3000)
        quota.heard(headers, is_refused=True)
        with pytest.raises(Limited) as caught:
            await quota.take(Rank.DELETE)
        assert caught.value.seconds == pytest.approx(seconds)
        await runtime.sleep(seconds + 0.1)
        await quota.take(Rank.DELETE)

    run_virtual(test())


def test_after_the_reset_that_hetzner_named_everything_may_go_out_again_and_its_next_word_counts() -> None:
    async def test() -> None:
        runtime = SimRuntime("quota")
        quota = Quota(runtime, 3000)
        reset = {"ratelimit-limit": "3600", "ratelimit-remaining": "0", "ratelimit-reset": str(int(runtime.now()) + 30)}
        quota.heard(reset, is_refused=True)
        await runtime.sleep(31)
        began = runtime.monotonic()
        for _ in range(50):
            await quota.take(Rank.LIST)
        assert runtime.monotonic() == began
        quota.heard({"ratelimit-limit": "3600", "ratelimit-remaining": "20"}, is_refused=False)
        with pytest.raises(Limited):
            await quota.take(Rank.LIST)

    run_virtual(test())


def test_in_a_storm_of_429_a_call_is_made_every_45_seconds_at_most_and_orders_come_back_later() -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        storm_ends = bench.runtime.now() + 500
        bench.project.trouble.refused_until = storm_ends
        with pytest.raises(ProviderError):
            await bench.provider.list(CLUSTER)
        calls = len(bench.api.log)
        while bench.runtime.now() < storm_ends:
            outcome = await bench.provider.launch(order("default-pool-2", "uid-2"))
            assert isinstance(outcome, TryLater)
            assert isinstance(await bench.provider.delete(str(server.id)), TryLater)
            for question in (bench.provider.list(CLUSTER), bench.provider.describe(str(server.id))):
                with pytest.raises(ProviderError):
                    await question
            await bench.runtime.sleep(20)
        assert len(bench.api.log) - calls <= 500 / 45 + 1
        await bench.runtime.sleep(60)
        assert isinstance(await bench.provider.launch(order("default-pool-2", "uid-2")), Accepted)

    at_hetzner(test)
