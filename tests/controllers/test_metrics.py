"""What growth measures of itself is what is there."""

from __future__ import annotations

from growth.kube.resources import NODE_REQUESTS
from growth.sim.clock import run_virtual
from tests.controllers.gatehouse import Gatehouse


def counted(house: Gatehouse) -> float | None:
    house.observer.refresh_metrics()
    return house.metrics.registry.get_sample_value("growth_orphaned_machines")


def test_a_machine_that_no_object_speaks_of_is_counted_as_orphaned() -> None:
    async def scenario() -> list[float | None]:
        house = Gatehouse()
        house.shelf.put("known")
        house.shelf.put("forgotten")
        await house.open()
        before = counted(house)
        await house.put(NODE_REQUESTS, "known", spec={"pool": "default", "targetOffering": "sim-cx33"})
        return [before, counted(house)]

    assert run_virtual(scenario()) == [2.0, 1.0]
