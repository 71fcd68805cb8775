"""What a new leader asks before it decides anything."""

from __future__ import annotations

from growth.kube.api.resources import NODE_REQUESTS
from growth.model.api import FINALIZER
from growth.sim.clock import run_virtual
from tests.controllers.act.gatehouse import Gatehouse

SPEC = {"pool": "default", "targetOffering": "sim-cx33", "location": "fsn1", "plannedPods": ["default/a"]}


def test_what_the_last_leader_ordered_is_known_before_any_watch_told_of_it_and_stays_known() -> None:
    async def story() -> None:
        house = Gatehouse()
        await house.supply.refresh()
        await house.put(NODE_REQUESTS, "default-pool-1", metadata={"finalizers": [FINALIZER]}, spec=SPEC)
        assert not house.observer.snapshot().requests  # no watch runs yet
        await house.observer.catch_up()
        [request] = house.observer.snapshot().requests.values()
        assert request.spec.planned_pods == ("default/a",)
        await house.open()
        await house.runtime.sleep(5.0)
        assert list(house.observer.snapshot().requests) == ["default-pool-1"]

    run_virtual(story())
