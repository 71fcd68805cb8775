"""Members that leave when claimed: what is missing after a raise is starting, what is missing after a claim is used."""

from __future__ import annotations

from growth.model.poolautoscaler import CapacityStatus, PoolAutoscalerStatus
from growth.model.settings import WarmPoolSettings
from growth.model.warmpool import SANDBOX_SET, WarmPool, WarmPoolView
from growth.plan.warm_pools.counts import first_rise, next_rise
from tests.plan.warm_pools.worlds import NO_WINDOW, SECOND_BY_SECOND, Warm, autoscaler, capacity

LIMIT = 300.0


def pool(replicas: int, available: int, generation: int = 1) -> WarmPool:
    return WarmPool("agents", "team", replicas, available, uid="agents", generation=generation)


class Leaving(Warm):
    """A pool whose members leave; `available` is set by the test."""

    def __init__(self, target: int | str, tolerance: int | str, replicas: int, available: int) -> None:
        policy = capacity(target, tolerance, scale_up=NO_WINDOW, scale_down=NO_WINDOW)
        scaler = autoscaler(kind="SandboxSet", capacity_policy=policy)
        super().__init__(scaler, replicas=replicas, settings=SECOND_BY_SECOND, kind=SANDBOX_SET)
        self.available = available

    def look(self, available: int, seconds: float = 10.0) -> int:
        self.available = available
        seen = WarmPool("pool", "team", self.replicas, available, self.replicas, "uid-pool", resource_version="1")
        self.view = WarmPoolView({"team/pool": seen})
        return self.sync(seconds)


def test_a_new_pool_is_starting() -> None:
    rise = first_rise(pool(10, 3), PoolAutoscalerStatus(), 0.0)
    assert rise.starting(pool(10, 3)) == 7


def test_after_a_restart_the_status_knows_what_was_starting() -> None:
    known = PoolAutoscalerStatus(
        observed_generation=1, current_replicas=10, current_capacity=CapacityStatus(available=3, used=5, starting=2)
    )
    assert first_rise(pool(10, 3), known, 0.0).starting(pool(10, 3)) == 2


def test_what_a_raise_asked_for_is_starting_until_it_came_once() -> None:
    rise = next_rise(first_rise(pool(10, 10), PoolAutoscalerStatus(), 0.0), pool(10, 4), 10.0, LIMIT)
    assert rise.starting(pool(10, 4)) == 0  # six were claimed
    rise = next_rise(rise, pool(17, 4), 20.0, LIMIT)
    assert rise.starting(pool(17, 4)) == 7
    rise = next_rise(rise, pool(17, 9), 30.0, LIMIT)
    assert rise.starting(pool(17, 9)) == 2
    rise = next_rise(rise, pool(17, 1), 40.0, LIMIT)  # claimed again
    assert rise.starting(pool(17, 1)) == 2
    rise = next_rise(rise, pool(17, 11), 50.0, LIMIT)
    assert rise.starting(pool(17, 2)) == 0


def test_after_the_start_limit_they_are_used_if_any_came_and_starting_if_none_did() -> None:
    raised = next_rise(first_rise(pool(5, 5), PoolAutoscalerStatus(), 0.0), pool(9, 0), 10.0, LIMIT)
    assert next_rise(raised, pool(9, 0), 400.0, LIMIT).starting(pool(9, 0)) == 4
    one_came = next_rise(raised, pool(9, 1), 20.0, LIMIT)
    assert next_rise(one_came, pool(9, 0), 400.0, LIMIT).starting(pool(9, 0)) == 0


def test_another_template_starts_all_of_them_again() -> None:
    rise = first_rise(pool(10, 10), PoolAutoscalerStatus(), 0.0)
    rise = next_rise(rise, pool(10, 10, generation=2), 10.0, LIMIT)
    assert rise.starting(pool(10, 4, generation=2)) == 6


def test_a_pool_that_is_lowered_awaits_no_more_than_it_has() -> None:
    rise = next_rise(first_rise(pool(10, 0), PoolAutoscalerStatus(), 0.0), pool(4, 1), 10.0, LIMIT)
    assert rise.starting(pool(4, 1)) == 3


def test_ruling_12_refilling_after_claims_is_used_so_the_pool_grows() -> None:
    warm = Leaving(10, 2, 10, 10)
    assert warm.look(10) == 10
    assert warm.look(3) == 17  # seven were claimed: used 7 and 10 more
    assert warm.look(3) == 17  # seven are starting now


def test_ruling_12_a_share_stops_at_the_first_size_that_is_enough() -> None:
    warm = Leaving("70%", "10%", 4, 4)
    warm.look(4)
    sizes = [warm.look(0) for _ in range(6)]
    assert sizes == [7, 9, 11, 11, 11, 11]


def test_ruling_3_a_pool_whose_members_never_start_does_not_grow_without_end() -> None:
    warm = Leaving("70%", "10%", 10, 0)
    assert {warm.look(0, 60.0) for _ in range(30)} == {10}
    assert warm.condition("AbleToScale") == ("False", "ReplicasNotStarting")


def test_ruling_12_a_pool_that_is_empty_never_shrinks() -> None:
    warm = Leaving("70%", "10%", 100, 100)
    warm.settings = WarmPoolSettings(observation_window_seconds=30.0)
    sizes = [warm.look(0, 30.0) for _ in range(60)]
    assert min(sizes) == 100
    assert sizes == sorted(sizes)
