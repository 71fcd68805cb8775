"""The simulated provider keeps the contract whatever its cloud does: outcomes, never guesses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from growth.model.labels import Labels
from growth.model.outcome import Accepted, NoCapacity, Refused, TryLater, Unknown
from growth.providers.catalogue import Catalogue, built_in_catalogue
from growth.providers.contract import Gone, Order, ProviderError
from growth.providers.simulated import CloudError, NodeTemplate, Server, SimulatedProvider
from growth.sim.clock import SimRuntime, run_virtual
from growth.sim.cloud.cloud import Cloud, Trouble


def order(
    name: str = "default-pool-1",
    uid: str = "uid-1",
    cluster: str = "mine",
    offering: str = "sim-cx33",
    location: str = "fsn1",
) -> Order:
    return Order(name, uid, cluster, "default", offering, location, labels=Labels({"growth.dev/pool": "default"}))


def at_the_cloud(
    test: Callable[[Cloud, SimulatedProvider], Awaitable[None]],
    catalogue: Catalogue | None = None,
    quota: int | None = None,
) -> None:
    async def run() -> None:
        runtime = SimRuntime("test")
        cloud = Cloud(catalogue or built_in_catalogue("sim"), runtime, "test", quota=quota)
        await test(cloud, SimulatedProvider(cloud, runtime))

    run_virtual(run())


def test_a_launch_is_accepted_listed_described_and_deleted() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        accepted = await provider.launch(order())
        assert isinstance(accepted, Accepted)
        [machine] = await provider.list("mine")
        assert (machine.machine_id, machine.name, machine.offering, machine.location) == (
            accepted.machine_id,
            "default-pool-1",
            "sim-cx33",
            "fsn1",
        )
        assert (machine.cluster, machine.request_uid, machine.state) == ("mine", "uid-1", "creating")
        assert await provider.list("another") == ()
        assert await provider.describe(machine.machine_id) == machine
        assert isinstance(await provider.delete(machine.machine_id), Accepted)
        assert await provider.describe(machine.machine_id) == Gone()
        assert isinstance(await provider.delete(machine.machine_id), Accepted)

    at_the_cloud(test)


def test_the_same_request_never_gets_two_machines() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        first = await provider.launch(order())
        assert await provider.launch(order()) == first
        assert len(cloud.servers) == 1
        assert isinstance(await provider.launch(order(uid="another")), Refused)
        assert isinstance(await provider.launch(order(cluster="another")), Refused)

    at_the_cloud(test)


def test_an_answer_lost_after_the_effect_is_unknown_and_the_next_launch_adopts() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        cloud.trouble = Trouble(lost_after_effect=1.0)
        assert isinstance(await provider.launch(order()), Unknown)
        cloud.trouble = Trouble()
        [server] = cloud.servers.values()
        assert await provider.launch(order()) == Accepted(server.server_id)

    at_the_cloud(test)


def test_a_taken_name_that_the_cloud_does_not_show_is_unknown() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        await provider.launch(order())
        cloud.trouble = Trouble(empty_lists=1.0)
        assert isinstance(await provider.launch(order()), Unknown)
        cloud.trouble = Trouble(failed_lists=1.0)
        assert isinstance(await provider.launch(order()), Unknown)
        assert len(cloud.servers) == 1

    at_the_cloud(test)


def test_stock_and_quota_are_no_capacity() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        cloud.sold_out["sim-cx33", "fsn1"] = None
        assert isinstance(await provider.launch(order()), NoCapacity)
        assert isinstance(await provider.launch(order(location="nbg1")), Accepted)
        assert isinstance(await provider.launch(order("other", "uid-2", location="hel1")), NoCapacity)

    at_the_cloud(test, quota=1)


def test_a_catalogues_stock_runs_out() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        outcomes = [type(await provider.launch(order(f"m{number}", f"u{number}"))) for number in range(3)]
        assert outcomes == [Accepted, Accepted, NoCapacity]

    catalogue = built_in_catalogue("sim")
    types = tuple(msgspec.structs.replace(one, stock={"fsn1": 2}) for one in catalogue.server_types)
    at_the_cloud(test, msgspec.structs.replace(catalogue, server_types=types))


def test_what_does_not_exist_is_refused() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        assert isinstance(await provider.launch(order(offering="sim-cx99")), Refused)
        assert isinstance(await provider.launch(order(location="mars")), Refused)
        assert await provider.describe("999") == Gone()

    at_the_cloud(test)


def test_nothing_is_concluded_from_errors() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        accepted = await provider.launch(order())
        assert isinstance(accepted, Accepted)
        for trouble in (Trouble(lost_before_effect=1.0), Trouble(server_error=1.0), Trouble(failed_lists=1.0)):
            cloud.trouble = trouble
            with pytest.raises(ProviderError):
                await provider.list("mine")
        for trouble in (Trouble(lost_before_effect=1.0), Trouble(server_error=1.0)):
            cloud.trouble = trouble
            with pytest.raises(ProviderError):
                await provider.describe(accepted.machine_id)
            assert isinstance(await provider.delete(accepted.machine_id), Unknown)
            assert isinstance(await provider.launch(order("x", "y")), Unknown)
        cloud.trouble = Trouble(rate_limited=1.0)
        assert isinstance(await provider.launch(order("x", "y")), TryLater)
        assert isinstance(await provider.delete(accepted.machine_id), TryLater)
        cloud.trouble = Trouble(refuses_delete=1.0)
        assert isinstance(await provider.delete(accepted.machine_id), Refused)
        assert len(cloud.servers) == 1

    at_the_cloud(test)


class Silent(Cloud):
    """A cloud that accepts connections and then says nothing."""

    async def create_server(
        self, name: str, offering: str, location: str, labels: Labels, template: NodeTemplate
    ) -> Server:
        await SimRuntime("silent").sleep(3600)
        raise CloudError("server_error")


def test_a_call_that_hangs_ends_as_unknown() -> None:
    async def run() -> float:
        runtime = SimRuntime("test")
        provider = SimulatedProvider(Silent(built_in_catalogue("sim"), runtime), runtime)
        assert isinstance(await provider.launch(order()), Unknown)
        return runtime.monotonic()

    assert run_virtual(run()) == 30.0


def test_the_meter_counts_seconds_or_started_hours() -> None:
    async def test(cloud: Cloud, provider: SimulatedProvider) -> None:
        accepted = await provider.launch(order())
        assert isinstance(accepted, Accepted)
        began = cloud.bills[accepted.machine_id].began_at
        assert cloud.price_per_hour() == pytest.approx(0.0080)
        bill = cloud.bills[accepted.machine_id]
        assert bill.amount(began + 5400) == pytest.approx(0.0120)
        hourly = msgspec.structs.replace(bill, bills_started_hours=True)
        assert hourly.amount(began + 5400) == pytest.approx(0.0160)
        await provider.delete(accepted.machine_id)
        assert cloud.price_per_hour() == 0
        assert cloud.amount_due() < 0.0001

    at_the_cloud(test)
