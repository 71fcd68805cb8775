"""A server in the subnet that the settings name: ordered, attached, started; asked for again where an answer was lost;
given back where it cannot be.
"""

from __future__ import annotations

import msgspec
import pytest

from growth.model.outcome import Accepted, Refused, Unknown
from growth.providers.hetzner.settings import Launch
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cloud.hetzner.inventory import FakeNetwork, FakeSubnet
from growth.sim.cloud.hetzner.project import FakeRefusal, FakeTrouble
from tests.providers.hetzner.embedded import Town, in_town
from tests.providers.hetzner.worlds import Bench, at_hetzner, order

SECOND = Launch(networks=("kube",), subnets={"kube": "10.1.0.0/22"}, public_ipv4=False, public_ipv6=False)


def steps(bench: Bench) -> list[str]:
    return [f"{one.path.rpartition('/')[2]} {one.status}" for one in bench.api.log if one.method == "POST"]


def test_a_server_gets_its_address_in_the_named_subnet_before_it_starts() -> None:
    booted: list[str] = []

    async def test(bench: Bench) -> None:
        bench.project.on_boot = lambda server: booted.append(server.addresses[7001])
        server = bench.server(await bench.provider.launch(order()))
        assert server.addresses == {7001: "10.1.0.2"}
        await bench.runtime.sleep(60)
        assert (server.status, booted) == ("running", ["10.1.0.2"])
        assert steps(bench) == ["servers 201", "attach_to_network 201", "poweron 201"]

    at_hetzner(test, SECOND)


def test_without_a_subnet_the_order_itself_names_the_network_and_any_subnet_of_the_zone_serves() -> None:
    async def test(bench: Bench) -> None:
        assert bench.server(await bench.provider.launch(order())).addresses == {7001: "10.0.0.2"}
        assert steps(bench) == ["servers 201"]

    at_hetzner(test, Launch(networks=("kube",)))


@pytest.mark.parametrize(("network", "ip_range", "why"), [
    ("kube", "10.9.0.0/24", "network kube has no subnet 10.9.0.0/24 for fsn1 (there is: 10.0.0.0/22, 10.1.0.0/22)"),
    # of another zone
    ("kube", "10.2.0.0/24", "network kube has no subnet 10.2.0.0/24 for fsn1 (there is: 10.0.0.0/22, 10.1.0.0/22)"),
    ("nowhere", "10.0.0.0/22", "there is no network nowhere in this project"),
])  # fmt: skip
def test_a_subnet_that_is_not_there_refuses_the_order_before_anything_is_bought(
    network: str, ip_range: str, why: str
) -> None:
    async def test(bench: Bench) -> None:
        assert await bench.provider.launch(order()) == Refused(why)
        assert bench.requests("POST") == 0

    at_hetzner(test, Launch(networks=(network,), subnets={network: ip_range}))


def test_subnets_belong_to_networks_that_are_named() -> None:
    with pytest.raises(msgspec.ValidationError, match="subnets names kube, which is not among networks"):
        msgspec.convert({"subnets": {"kube": "10.0.1.0/24"}}, Launch)


def test_a_full_subnet_gives_the_server_back_says_so_and_costs_no_second_one_for_a_while() -> None:
    async def test(bench: Bench) -> None:
        bench.project.networks[7001] = FakeNetwork(7001, "kube", (FakeSubnet("10.1.0.0/29"),))
        outcomes = [
            await bench.provider.launch(order(f"default-pool-{number}", f"uid-{number}")) for number in range(7)
        ]
        assert [type(outcome) for outcome in outcomes] == [Accepted] * 5 + [Refused] * 2
        assert outcomes[5] == outcomes[6]
        assert "no_subnet_available" in str(outcomes[5])
        assert len(bench.project.meter.bills) == 6
        assert len(bench.project.meter.running()) == 5
        await bench.provider.delete(str(bench.server(outcomes[0]).id))
        await bench.runtime.sleep(901)
        assert isinstance(await bench.provider.launch(order("default-pool-8", "uid-8")), Accepted)

    at_hetzner(test, Launch(networks=("kube",), subnets={"kube": "10.1.0.0/29"}))


@pytest.mark.parametrize(
    "trouble",
    [
        FakeTrouble(lost_after_effect=0.3),
        FakeTrouble(lost_before_effect=0.3),
        FakeTrouble(server_error=0.3),
        FakeTrouble(locked=0.3),
    ],
)
def test_lost_answers_are_asked_for_again_and_every_server_ends_up_running_in_its_subnet(trouble: FakeTrouble) -> None:
    async def test(town: Town) -> None:
        town.project.trouble = trouble
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 12, cpu="3", memory="2Gi"))
        await town.wait_for(lambda: town.running() == 12, 3000)
        town.project.trouble = FakeTrouble()
        await town.wait_for(lambda: len(town.project.meter.running()) == 12, 1500)
        assert all(server.addresses[7001].startswith("10.1.") for server in town.project.servers.values())
        assert town.project.meter.duplicates() == []

    in_town(test, networks=SECOND.networks, subnets=SECOND.subnets)


def test_a_launch_that_finds_its_server_made_but_not_attached_finishes_it() -> None:
    async def test(bench: Bench) -> None:
        attach = bench.project.attach

        def broken(*_: object) -> None:
            raise FakeRefusal(500, "server_error", "internal server error")

        bench.project.attach = broken  # type: ignore[method-assign, assignment]
        unfinished = await bench.provider.launch(order())
        assert isinstance(unfinished, Unknown)
        assert "ordered and not finished" in unfinished.reason
        (server,) = bench.project.servers.values()
        assert (server.status, server.addresses) == ("off", {})
        bench.project.attach = attach  # type: ignore[method-assign]
        assert await bench.new_provider().launch(order()) == Accepted(str(server.id))
        await bench.runtime.sleep(60)
        assert (server.status, server.addresses) == ("running", {7001: "10.1.0.2"})

    at_hetzner(test, SECOND)


@pytest.mark.parametrize("seconds", [0.5 * step for step in range(1, 12)])
def test_wherever_growth_dies_between_order_and_start_the_server_is_finished_and_no_other_bought(
    seconds: float,
) -> None:
    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 1, cpu="3", memory="2Gi"))
        await town.wait_for(lambda: bool(town.project.servers), 60)
        await town.cluster.runtime.sleep(seconds)
        town.growth.kill()
        await town.cluster.runtime.sleep(5)
        town.start()
        await town.wait_for(lambda: town.running() == 1, 200)
        assert len(town.project.meter.bills) == 1

    in_town(test, networks=SECOND.networks, subnets=SECOND.subnets)
