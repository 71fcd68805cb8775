"""One shared listing: cheap at rest, complete when something changed, and not believed when it lies."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.observe.supply import Supply
from growth.providers.contract import ProviderError
from growth.sim.cloud.hetzner.api import FakeRequest
from growth.sim.cloud.hetzner.project import FakeTrouble
from tests.providers.hetzner.worlds import CLUSTER, Bench, at_hetzner, order


async def with_servers(bench: Bench, count: int) -> None:
    """One is bought, the others are like it."""
    first = bench.server(await bench.provider.launch(order()))
    for number in range(1, count):
        labels = {**first.labels, "growth.dev/request-uid": f"uid-{number}"}
        bench.project.create(replace(first, id=0, name=f"default-pool-{number}", labels=labels, status="initializing"))
    await bench.runtime.sleep(60)


def test_a_thousand_machines_at_rest_cost_less_than_600_requests_an_hour() -> None:
    async def test(bench: Bench) -> None:
        bench.api.look_on = lambda _request, _answer: None  # the same answers again and again need no comparing
        await with_servers(bench, 1000)
        supply = Supply(bench.provider, CLUSTER, bench.runtime)
        await supply.refresh()
        assert len(supply.machines) == 1000
        before, oldest = len(bench.api.log), 0.0
        running = bench.runtime.spawn("supply", supply.run())
        for _ in range(360):
            await bench.runtime.sleep(10)
            oldest = max(oldest, bench.runtime.now() - (supply.machines_at or 0.0))
        running.cancel()
        assert len(bench.api.log) - before <= 600
        assert oldest < 150

    at_hetzner(test)


def test_what_vanishes_or_appears_at_rest_is_noticed_at_the_next_question() -> None:
    async def test(bench: Bench) -> None:
        await with_servers(bench, 60)
        await bench.provider.list(CLUSTER)
        gone = next(iter(bench.project.servers))
        bench.project.vanish(gone)
        assert str(gone) not in [machine.machine_id for machine in await bench.provider.list(CLUSTER)]
        like = next(iter(bench.project.servers.values()))
        bench.project.create(replace(like, id=0, name="late-pool-1", status="initializing"))
        assert "late-pool-1" in [machine.name for machine in await bench.provider.list(CLUSTER)]

    at_hetzner(test)


@pytest.mark.parametrize("trouble", [FakeTrouble(empty_lists=1.0), FakeTrouble(stale_lists=1.0)])
def test_a_server_that_a_lying_list_leaves_out_is_asked_for_by_its_id(trouble: FakeTrouble) -> None:
    async def test(bench: Bench) -> None:
        first = bench.server(await bench.provider.launch(order()))
        bench.project.trouble = trouble
        assert [machine.machine_id for machine in await bench.provider.list(CLUSTER)] == [str(first.id)]

    at_hetzner(test)


def test_a_listing_that_named_a_server_wrongly_is_read_anew_when_a_look_shows_its_name() -> None:
    async def test(bench: Bench) -> None:
        await with_servers(bench, 3)
        supply = Supply(bench.provider, CLUSTER, bench.runtime)
        await supply.refresh()
        first = next(iter(bench.project.servers.values()))
        bench.project.servers[first.id] = replace(first, name="nonsense")
        await bench.runtime.sleep(400)  # longer than a listing is trusted
        await bench.provider.list(CLUSTER)
        bench.project.servers[first.id] = first
        assert not await supply.refresh(), "the list lacks a machine that is there"
        assert await supply.refresh()
        assert first.name in supply.machines

    at_hetzner(test)


def test_many_missing_at_once_are_not_believed_until_each_was_asked_for() -> None:
    async def test(bench: Bench) -> None:
        await with_servers(bench, 35)
        assert len(await bench.provider.list(CLUSTER)) == 35
        bench.project.trouble = FakeTrouble(empty_lists=1.0)
        for _ in range(3):
            with pytest.raises(ProviderError, match="missing"):
                await bench.provider.list(CLUSTER)
        bench.project.trouble = FakeTrouble()
        for server_id in list(bench.project.servers)[:25]:
            bench.project.vanish(server_id)
        for _ in range(2):
            with pytest.raises(ProviderError, match="missing"):
                await bench.provider.list(CLUSTER)
        assert len(await bench.provider.list(CLUSTER)) == 10

    at_hetzner(test)


def test_a_token_of_another_project_is_not_taken_for_a_project_without_machines() -> None:
    async def test(bench: Bench) -> None:
        await with_servers(bench, 3)
        await bench.provider.list(CLUSTER)
        ours, bench.project.servers = bench.project.servers, {}
        bench.api.token = "B" * 64
        bench.token_file.write_text("B" * 64)
        for _ in range(2):
            with pytest.raises(ProviderError, match="another project"):
                await bench.provider.list(CLUSTER)
            with pytest.raises(ProviderError, match="another project"):
                await bench.provider.describe(str(next(iter(ours))))
        bench.project.servers = ours
        assert len(await bench.provider.list(CLUSTER)) == 3

    at_hetzner(test)


def test_a_new_token_of_the_same_project_is_taken_at_once() -> None:
    async def test(bench: Bench) -> None:
        await with_servers(bench, 2)
        await bench.provider.list(CLUSTER)
        bench.api.token = "C" * 64
        with pytest.raises(ProviderError, match="unauthorized"):
            await bench.provider.list(CLUSTER)
        bench.token_file.write_text(f"{'C' * 64}\n")
        assert len(await bench.provider.list(CLUSTER)) == 2

    at_hetzner(test)


@pytest.mark.parametrize("content", ["", "two words", "Umlaut-ä"])
def test_a_token_file_without_a_token_says_so_and_does_not_quote_it(content: str) -> None:
    async def test(bench: Bench) -> None:
        bench.token_file.write_text(content)
        with pytest.raises(ProviderError, match="does not hold one token") as caught:
            await bench.provider.list(CLUSTER)
        assert not content or content not in str(caught.value)
        bench.token_file.unlink()
        with pytest.raises(ProviderError, match="token file"):
            await bench.provider.list(CLUSTER)
        assert bench.api.log == []

    at_hetzner(test)


def test_pages_that_do_not_add_up_at_the_first_listing_are_no_list() -> None:
    async def test(bench: Bench) -> None:
        await with_servers(bench, 60)
        answered = bench.api._servers
        calls = 0

        def shifting(request: FakeRequest) -> tuple[dict[str, Any], int]:
            nonlocal calls
            calls += 1
            body, status = answered(request)
            body["servers"] = body["servers"][:-1]
            return body, status

        bench.api._servers = shifting  # type: ignore[method-assign]
        with pytest.raises(ProviderError, match="do not add up"):
            await bench.new_provider().list(CLUSTER)
        assert calls == 6

    at_hetzner(test)


def test_after_an_order_or_a_deletion_everything_is_read_anew_even_if_the_count_is_the_same() -> None:
    async def test(bench: Bench) -> None:
        first = bench.server(await bench.provider.launch(order()))
        await bench.runtime.sleep(30)
        await bench.provider.list(CLUSTER)
        await bench.provider.delete(str(first.id))
        bench.project.trouble = FakeTrouble(lost_after_effect=1.0)
        await bench.provider.launch(order("default-pool-2", "uid-2"))
        bench.project.trouble = FakeTrouble()
        await bench.runtime.sleep(30)
        assert [machine.name for machine in await bench.provider.list(CLUSTER)] == ["default-pool-2"]

    at_hetzner(test)
