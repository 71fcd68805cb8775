"""Many machines bought and given back while everything goes wrong: none leaked, none twice, and the price as planned.
By the billing meter.
"""

from __future__ import annotations

import pytest

from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cloud.hetzner.project import FakeTrouble
from tests.providers.hetzner.embedded import Town, in_town

TROUBLE = FakeTrouble(
    lost_before_effect=0.02,
    lost_after_effect=0.05,
    server_error=0.02,
    locked=0.03,
    creation_fails=0.03,
    never_boots=0.05,
    empty_lists=0.02,
    stale_lists=0.05,
)
PODS = 30


async def buy_and_give_back(town: Town, kills: bool) -> None:
    town.project.stock = {("cx33", "fsn1"): 11, ("cx33", "nbg1"): 11}
    town.project.trouble = TROUBLE
    town.cluster.create(
        node_pool("default", {"name": "CX33", "priority": 1}, "CX43"), deployment("web", PODS, cpu="3", memory="2Gi")
    )
    if kills:
        for least in (5, 20):
            await town.wait_for(lambda least=least: len(town.project.meter.bills) >= least, 600)  # type: ignore[misc]
            town.growth.kill()
            town.start()
    await town.wait_for(lambda: town.running() == PODS, 2400)
    town.project.trouble = FakeTrouble()
    await town.wait_for(lambda: set(town.phases()) <= {"Ready", "Unmet", "Deprovisioning"}, 1200)
    await town.cluster.runtime.sleep(700)
    [pool] = town.cluster.objects("NodePool")
    assert len(town.project.servers) == len(town.cluster.objects("Node"))
    assert float(pool["status"]["pricePerHour"]) == pytest.approx(town.project.meter.price_per_hour(), rel=0.02)
    town.project.trouble = TROUBLE
    town.cluster.scale("Deployment", "web", 0)
    await town.cluster.runtime.sleep(400)
    town.project.trouble = FakeTrouble()
    await town.wait_for(town.is_empty, 2400)
    assert town.project.meter.running() == []
    assert town.project.meter.duplicates() == []


def test_machines_bought_and_given_back_under_faults_leave_nothing_behind() -> None:
    async def test(town: Town) -> None:
        await buy_and_give_back(town, kills=False)

    in_town(test)


def test_the_same_when_growth_is_killed_in_the_middle() -> None:
    async def test(town: Town) -> None:
        await buy_and_give_back(town, kills=True)

    in_town(test, seed="killed")


def test_a_storm_of_429_in_the_middle_of_buying_is_waited_out() -> None:
    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 12, cpu="3", memory="2Gi"))
        await town.wait_for(lambda: len(town.project.servers) >= 3, 120)
        ends = town.cluster.runtime.now() + 300
        town.project.trouble.refused_until = ends
        await town.cluster.runtime.sleep(299)
        refused = [one for one in town.cloud.api.log if one.status == 429]
        first = refused[0].at
        assert [one for one in town.cloud.api.log if first + 1 < one.at < ends] == []
        await town.wait_for(lambda: town.running() == 12, 600)
        assert town.project.meter.duplicates() == []

    in_town(test)
