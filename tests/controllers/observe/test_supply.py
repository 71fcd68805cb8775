"""What the provider lists is believed only as far as it deserves: machines that a list lacks are asked for by their
ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from growth.controllers.observe.supply import Supply
from growth.model.labels import Labels
from growth.model.offering import Machine
from growth.providers.contract import Gone
from growth.sim.clock import SimRuntime, run_virtual
from tests.controllers.act.gatehouse import CLUSTER, Shelf


class Careless(Shelf):
    """Leaves some machines out of its lists, though they are there."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: set[str] = set()
        self.described: list[str] = []

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        return tuple(machine for machine in await super().list(cluster) if machine.name not in self.hidden)

    async def describe(self, machine_id: str) -> Machine | Gone:
        self.described.append(machine_id)
        return await super().describe(machine_id)


def with_machines(test: Callable[[Supply, Careless], Awaitable[None]], count: int = 5) -> None:
    async def run() -> None:
        shelf = Careless()
        for number in range(count):
            shelf.put(f"m{number}")
        supply = Supply(shelf, CLUSTER, SimRuntime("supply"))
        assert await supply.refresh()
        assert shelf.described == []
        await test(supply, shelf)

    run_virtual(run())


def test_an_empty_list_is_not_believed_while_a_machine_that_it_lacks_is_there() -> None:
    async def test(supply: Supply, shelf: Careless) -> None:
        shelf.hidden = {f"m{number}" for number in range(5)}
        before = supply.machines_at
        assert not await supply.refresh()
        assert (len(supply.machines), supply.machines_at) == (5, before)
        shelf.hidden = set()
        assert await supply.refresh()

    with_machines(test)


def test_machines_that_are_gone_are_believed_to_be_and_few_are_asked_for() -> None:
    async def test(supply: Supply, shelf: Careless) -> None:
        shelf.machines = {}
        assert await supply.refresh()
        assert supply.machines == {}
        assert shelf.described == ["id-m0", "id-m2", "id-m4"]

    with_machines(test)


def test_a_list_cut_short_is_noticed_though_another_machine_is_really_gone() -> None:
    async def test(supply: Supply, shelf: Careless) -> None:
        del shelf.machines["id-m0"]
        shelf.hidden = {"m4"}
        assert not await supply.refresh()
        assert "m0" in supply.machines

    with_machines(test)


def test_one_that_is_being_deleted_may_be_missing() -> None:
    async def test(supply: Supply, shelf: Careless) -> None:
        shelf.hidden = {"m0"}
        shelf.machines["id-m0"] = replace(shelf.machines["id-m0"], state="deleting")
        assert await supply.refresh()
        assert "m0" not in supply.machines

    with_machines(test)


def test_a_machine_whose_label_was_taken_off_is_rightly_missing_and_the_rest_of_the_list_holds() -> None:
    async def test(supply: Supply, shelf: Careless) -> None:
        shelf.machines["id-m0"] = replace(shelf.machines["id-m0"], labels=Labels())
        assert await supply.refresh()
        assert (sorted(supply.machines), supply.age_seconds) == (["m1", "m2", "m3", "m4"], 0.0)

    with_machines(test)


def test_while_the_provider_does_not_answer_about_a_missing_machine_nothing_is_concluded() -> None:
    async def test(supply: Supply, shelf: Careless) -> None:
        shelf.machines, shelf.is_silent = {}, True
        assert not await supply.refresh()
        assert len(supply.machines) == 5

    with_machines(test)


def test_a_change_of_credentials_is_seen_and_what_cannot_be_read_stays_as_it_was() -> None:
    async def test(supply: Supply, shelf: Careless) -> None:
        shelf.secrets = {"": "first", "other": "second"}
        assert await supply.refresh()
        before = supply.version
        shelf.secrets = {"other": "third"}
        assert await supply.refresh()
        assert supply.credentials == {"": "first", "other": "third"}
        assert supply.version == before + 1

    with_machines(test)


def test_after_a_change_the_list_is_asked_for_soon_and_then_less_and_less_often() -> None:
    async def run() -> tuple[list[float], list[float]]:
        runtime, asked = SimRuntime("supply"), list[float]()

        class Counting(Careless):
            async def list(self, cluster: str) -> tuple[Machine, ...]:
                asked.append(runtime.monotonic())
                return await super().list(cluster)

        shelf = Counting()
        supply = Supply(shelf, CLUSTER, runtime)
        runtime.spawn("supply", supply.run())
        await runtime.sleep(100.0)
        first, began_at = list(asked), runtime.monotonic()
        asked.clear()
        shelf.put("m0")
        supply.ask_soon()
        await runtime.sleep(40.0)
        return [round(at - first[0]) for at in first], [round(at - began_at) for at in asked]

    first, after_change = run_virtual(run())
    assert first == [0, 5, 15, 35, 65, 95]
    assert after_change == [0, 5, 15, 35]
