"""The catalogue comes from the API: prices by location with the IPv4 address, architectures, stock, what is no longer
sold, and an honest estimate.
"""

from __future__ import annotations

import pytest

from growth.model.labels import ARCHITECTURE, INSTANCE_TYPE, REGION, ZONE
from growth.model.resources import CPU, MEMORY, PODS
from growth.providers.contract import ProviderError
from growth.providers.hetzner.catalogue import estimate_allocatable
from growth.providers.hetzner.settings import Launch, Reserved
from growth.providers.hetzner.wire import HetznerServerType
from growth.sim.cloud.hetzner.project import FakeTrouble
from tests.providers.hetzner.worlds import Bench, at_hetzner


def test_prices_are_net_by_location_and_contain_the_ipv4_address() -> None:
    async def test(bench: Bench) -> None:
        sold = {(each.name, each.location): each for each in await bench.provider.offerings()}
        assert sold["hetzner-cx33", "fsn1"].price_per_hour == pytest.approx(0.0080 + 0.0008)
        assert sold["hetzner-cx33", "hel1"].price_per_hour == pytest.approx(0.0083 + 0.0008)
        assert sold["hetzner-cx33", "fsn1"].bills_started_hours

    at_hetzner(test)


def test_without_public_ipv4_its_price_is_not_counted() -> None:
    async def test(bench: Bench) -> None:
        sold = {(each.name, each.location): each for each in await bench.provider.offerings()}
        assert sold["hetzner-cx33", "fsn1"].price_per_hour == pytest.approx(0.0080)

    at_hetzner(test, Launch(public_ipv4=False))


def test_cx_is_amd64_and_cax_is_arm64() -> None:
    async def test(bench: Bench) -> None:
        architectures = {each.server_type: each.architecture for each in await bench.provider.offerings()}
        assert (architectures["CX33"], architectures["CAX11"]) == ("amd64", "arm64")

    at_hetzner(test)


def test_what_is_out_of_stock_or_has_ended_is_not_available_and_what_is_gone_is_not_there() -> None:
    async def test(bench: Bench) -> None:
        bench.project.stock = {("cx33", "fsn1"): 0}
        sold = {(each.server_type, each.location): each.is_available for each in await bench.provider.offerings()}
        assert (sold["CX33", "fsn1"], sold["CX33", "nbg1"]) == (False, True)
        assert not sold["CX32", "fsn1"]
        assert not {"CX31", "GEX44"} & {name for name, _ in sold}
        assert bench.provider.catalogue.sold is not None
        assert bench.provider.catalogue.sold.ends["CX32"] == "no longer sold since 2025-12-31T00:00:00+00:00"

    at_hetzner(test)


def test_only_the_wanted_locations_are_offered() -> None:
    async def test(bench: Bench) -> None:
        assert {each.location for each in await bench.provider.offerings()} == {"hel1"}

    at_hetzner(test, locations=("HEL1",))


@pytest.mark.parametrize(("setting", "zone"), [("location", "fsn1"), ("datacenter", "fsn1-dc14")])
def test_the_zone_is_the_location_or_what_the_cloud_controller_writes(setting: str, zone: str) -> None:
    async def test(bench: Bench) -> None:
        [labels] = [
            each.labels
            for each in await bench.provider.offerings()
            if (each.server_type, each.location) == ("CAX11", "fsn1")
        ]
        assert (
            dict(labels).items() >= {ZONE: zone, REGION: "fsn1", INSTANCE_TYPE: "cax11", ARCHITECTURE: "arm64"}.items()
        )

    at_hetzner(test, zone_label=setting)


def test_a_catalogue_that_cannot_be_read_again_serves_a_while_longer() -> None:
    async def test(bench: Bench) -> None:
        before = await bench.provider.offerings()
        bench.project.trouble = FakeTrouble(server_error=1.0)
        assert await bench.provider.offerings() == before
        await bench.runtime.sleep(3601)
        with pytest.raises(ProviderError):
            await bench.provider.offerings()

    at_hetzner(test)


@pytest.mark.parametrize(("reserved", "cpu", "memory"), [
    (Reserved(), 3900, 8 * 2**30 - 8 * 2**30 * 6 // 100 - 100 * 2**20 - 8 * 2**30 // 50),
    (Reserved("500m", "1Gi"), 3500, 8 * 2**30 - 8 * 2**30 * 6 // 100 - 100 * 2**20 - 2**30),
])  # fmt: skip
def test_what_pods_may_use_is_estimated_by_size_or_as_the_kubelets_are_told(
    reserved: Reserved, cpu: int, memory: int
) -> None:
    amounts = estimate_allocatable(HetznerServerType("cx33", 4, 8, 80, "x86", ()), reserved)
    assert (amounts[CPU], amounts[MEMORY], amounts[PODS]) == (cpu, memory, 110)
