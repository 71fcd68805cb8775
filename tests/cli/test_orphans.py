"""A person may give back machines that everybody has forgotten, and no others."""

from __future__ import annotations

from growth.cli.orphans import find_orphans, give_back
from growth.kube.api.resources import NODE_REQUESTS, NODES
from growth.model.outcome import Accepted, Conflict, Outcome, Refused
from growth.sim.clock import run_virtual
from tests.controllers.act.gatehouse import CLUSTER, Gatehouse


def test_only_machines_that_nothing_speaks_of_are_orphans() -> None:
    async def play() -> list[str]:
        house = Gatehouse()
        for name in ("forgotten", "joined", "ordered"):
            house.shelf.put(name)
        house.shelf.put("foreign", cluster="somebody-else")
        await house.put(NODES, "joined")
        await house.put(NODE_REQUESTS, "ordered", spec={"pool": "default", "targetOffering": "sim-cx33"})
        return [machine.name for machine in await find_orphans(house.client, house.shelf, CLUSTER)]

    assert run_virtual(play()) == ["forgotten"]


def test_an_orphan_is_looked_at_once_more_before_it_is_given_back() -> None:
    async def play() -> list[Outcome]:
        house = Gatehouse()
        for name in ("stays", "adopted", "swapped", "gone"):
            house.shelf.put(name)
        stays, adopted, swapped, gone = (
            house.shelf.machines[f"id-{name}"] for name in ("stays", "adopted", "swapped", "gone")
        )
        await house.put(NODES, "adopted")
        house.shelf.put("swapped", cluster="somebody-else")
        del house.shelf.machines["id-gone"]
        return [
            await give_back(house.client, house.shelf, CLUSTER, machine) for machine in (stays, adopted, swapped, gone)
        ]

    stays, adopted, swapped, gone = run_virtual(play())
    assert isinstance(stays, Accepted)
    assert isinstance(adopted, Conflict)
    assert isinstance(swapped, Refused)
    assert isinstance(gone, Conflict)
