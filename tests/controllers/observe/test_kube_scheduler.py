"""Is kube-scheduler there? From its Lease alone, by our own watch of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from growth.controllers.observe.kube_scheduler import first_seen
from growth.kube.api.errors import NotFound
from growth.kube.api.resources import LEASES
from growth.kube.election import Lease, LeaseSpec
from growth.model.instant import format_precise_instant
from growth.model.scheduler import KubeScheduler, SchedulerSettings
from growth.model.settings import Settings
from growth.sim.clock import run_virtual
from tests.controllers.act.gatehouse import Gatehouse

STANDS_IN = Settings(scheduler=SchedulerSettings(enabled=True, serves_default=True))
Step = Callable[[Gatehouse], Awaitable[None]]


def spec(house: Gatehouse, holder: str = "vm-1", ago: float = 0.0) -> dict[str, Any]:
    renewed = format_precise_instant(house.runtime.now() - ago)
    return {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}


async def put(house: Gatehouse, **fields: Any) -> None:
    """Made, or renewed."""
    renewed = {"spec": spec(house, **fields)}
    try:
        await house.client.merge_patch(LEASES, "kube-scheduler", renewed, "kube-system")
    except NotFound:
        await house.put(LEASES, "kube-scheduler", metadata={"namespace": "kube-system"}, **renewed)
    await house.runtime.sleep(1.0)


def is_away(house: Gatehouse) -> bool:
    snapshot = house.observer.snapshot()
    return snapshot.kube_scheduler.is_away(snapshot.now)


def story(tell: Callable[[Gatehouse], Awaitable[None]], before: Step | None = None) -> None:
    async def whole() -> None:
        house = Gatehouse(STANDS_IN)
        if before is not None:
            await before(house)
        await house.supply.refresh()
        await house.open()
        await house.runtime.sleep(1.0)
        await tell(house)

    run_virtual(whole())


def test_without_a_lease_it_is_away() -> None:
    async def tell(house: Gatehouse) -> None:
        assert is_away(house)
        assert house.observer.kube_scheduler.is_answered
        assert house.observer.why_not_sure(150.0) == ()

    story(tell)


def test_while_its_lease_is_renewed_it_is_there_and_that_is_told_and_then_it_is_away() -> None:
    async def tell(house: Gatehouse) -> None:
        version = house.observer.version
        for _ in range(5):
            await put(house)
            assert not is_away(house)
            await house.runtime.sleep(9.0)
        [why] = house.observer.why_not_sure(150.0)
        assert "vm-1 renews the Lease kube-system/kube-scheduler" in why
        assert sum(house.observer.version) == sum(version) + 1, "a renewal wakes nobody"
        await house.runtime.sleep(7.0)
        assert is_away(house)
        assert house.observer.kube_scheduler.why_not_serving() == ""
        await put(house)
        assert not is_away(house)
        await put(house, holder="")
        assert is_away(house)

    story(tell)


@pytest.mark.parametrize(("ago", "away"), [(0.0, False), (30.0, False), (300.0, True)])
def test_a_lease_that_was_there_before_us_is_believed_unless_it_is_old(ago: float, away: bool) -> None:
    async def tell(house: Gatehouse) -> None:
        assert is_away(house) is away
        await house.runtime.sleep(20.0)
        assert is_away(house)

    async def before(house: Gatehouse) -> None:
        await put(house, ago=ago)

    story(tell, before)


def test_a_renewal_counts_however_wrong_the_clock_of_kube_scheduler_is() -> None:
    async def tell(house: Gatehouse) -> None:
        await put(house, ago=3600.0)
        await put(house, ago=3599.0)
        assert not is_away(house)

    story(tell)


def test_while_it_cannot_be_watched_nothing_is_known_and_that_is_told() -> None:
    async def whole() -> None:
        house = Gatehouse(STANDS_IN)
        assert house.observer.snapshot().kube_scheduler == KubeScheduler()
        assert "it is not known whether kube-scheduler" in house.observer.kube_scheduler.why_not_serving()

    run_virtual(whole())


def test_nobody_asks_where_growth_does_not_stand_in_for_it() -> None:
    async def whole() -> None:
        house = Gatehouse()
        assert house.observer.kube_scheduler.why_not_serving() == ""
        assert "watch kube-scheduler's Lease" not in dict(house.observer.watches())

    run_virtual(whole())


def test_a_lease_of_which_nothing_is_known_is_nobodys() -> None:
    assert first_seen(Lease(), 1000.0).is_away(1000.0)
    assert first_seen(Lease(LeaseSpec("vm-1", None, "soon")), 1000.0).is_away(1000.0)
    assert not first_seen(Lease(LeaseSpec("vm-1", 15, format_precise_instant(1000.0))), 1010.0).is_away(1010.0)
