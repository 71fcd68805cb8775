"""PoolAutoscaler by the clock: firings, bounds, downtime, suspension, edits. Rulings by number."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.instant import format_instant, parse_instant
from growth.model.outcome import Accepted, Refused, Unknown
from growth.model.poolautoscaler import AppliedCronPolicy, PoolAutoscalerStatus
from tests.plan.warm_pools.worlds import NOW, Warm, autoscaler, cron

DAY = 86_400.0
MORNING, EVENING = cron("morning", "0 8 * * *", 100), cron("evening", "0 20 * * *", 20)


def at(warm: Warm, clock: str, day: str = "2027-03-01") -> int:
    """Decide at this time of that day."""
    return warm.sync(parse_instant(f"{day}T{clock}Z") - warm.now)


def daily(created: str = "06:00:00", **fields: Any) -> Warm:
    policies = fields.pop("cron_policies", (MORNING, EVENING))
    made = autoscaler(cron_policies=policies, created_at=parse_instant(f"2027-03-01T{created}Z"), **fields)
    return Warm(made, replicas=40)


def test_a_day_of_two_policies() -> None:
    warm = daily()
    sizes = [at(warm, clock) for clock in ("06:00:05", "07:59:59", "08:00:00", "12:00:00", "19:59:59", "20:00:01")]
    assert sizes == [40, 40, 100, 100, 100, 20]
    assert at(warm, "08:00:00", "2027-03-02") == 100
    assert warm.told == ["ScaledUp", "ScaledDown", "ScaledUp"]
    assert warm.status().active_policy == "cron/morning"
    assert [(each.name, each.last_schedule_time) for each in warm.status().applied_cron_policies] == [
        ("morning", "2027-03-02T08:00:00Z"), ("evening", "2027-03-01T20:00:00Z"),
    ]  # fmt: skip


def test_bounds_limit_what_a_policy_asks_for() -> None:
    warm = daily(min_replicas=30, max_replicas=50)
    assert [at(warm, clock) for clock in ("06:00:05", "08:00:00", "20:00:00")] == [40, 50, 30]
    assert warm.condition("ScalingLimited") == ("True", "TooFewReplicas")


def test_ruling_6_nothing_fires_for_a_time_before_the_policy_was_created() -> None:
    warm = daily(created="10:00:00", cron_policies=(MORNING,))
    assert [at(warm, "10:00:01"), at(warm, "23:00:00"), at(warm, "08:00:00", "2027-03-02")] == [40, 40, 100]


def test_ruling_6_a_firing_missed_while_growth_was_down_is_applied_when_it_is_back() -> None:
    warm = daily()
    at(warm, "07:00:00")
    warm.restart()
    assert at(warm, "09:00:00") == 100


def test_ruling_6_of_several_missed_firings_only_the_latest_is_applied() -> None:
    warm = daily()
    at(warm, "07:00:00")
    warm.restart()
    assert at(warm, "21:00:00", "2027-03-04") == 20
    assert warm.told == ["ScaledDown"]
    assert at(warm, "22:00:00", "2027-03-04") == 20


def test_ruling_6_between_firings_the_count_holds_even_if_somebody_changed_it() -> None:
    warm = daily()
    at(warm, "08:00:00")
    warm.replicas = 70
    assert [at(warm, "08:00:30"), at(warm, "09:00:00")] == [70, 70]


def test_ruling_6_nothing_fires_for_a_time_while_suspended() -> None:
    warm = daily()
    at(warm, "07:00:00")
    warm.edit(suspend=True)
    assert at(warm, "08:00:00") == 40
    assert (warm.condition("ScalingActive"), warm.status().suspended) == (("False", "Suspended"), True)
    warm.edit(suspend=False)
    assert [at(warm, "09:00:00"), at(warm, "10:00:00"), at(warm, "20:00:00")] == [40, 40, 20]
    assert warm.status().suspended is False


def test_ruling_6_an_edited_schedule_does_not_fire_for_the_past() -> None:
    warm = daily(cron_policies=(MORNING,))
    at(warm, "10:00:00")
    warm.edit(cron_policies=(cron("morning", "0 9 * * *", 60), cron("new", "30 9 * * *", 70)))
    assert [at(warm, "10:00:10"), at(warm, "09:00:00", "2027-03-02"), at(warm, "09:30:00", "2027-03-02")] == [
        100,
        60,
        70,
    ]


def test_a_firing_is_pending_until_the_target_has_been_scaled() -> None:
    warm = daily()
    at(warm, "07:00:00")
    warm.outcome = Refused("forbidden")
    assert at(warm, "08:00:00") == 40
    assert at(warm, "08:00:30") == 40
    warm.restart()
    warm.outcome = Accepted()
    assert at(warm, "08:05:00") == 100


def test_a_firing_for_the_present_number_is_acted_upon_without_scaling() -> None:
    warm = daily(cron_policies=(cron("same", "0 8 * * *", 40),))
    at(warm, "07:00:00")
    assert at(warm, "08:00:00") == 40
    assert warm.told == []
    assert warm.status().applied_cron_policies[0].last_schedule_time == "2027-03-01T08:00:00Z"


def test_of_two_policies_at_one_instant_the_larger_counts() -> None:
    warm = daily(cron_policies=(cron("few", "0 8 * * *", 10), cron("many", "0 8 * * 1", 90)))
    at(warm, "07:00:00")
    assert at(warm, "08:00:00") == 90  # a Monday
    assert at(warm, "08:00:00", "2027-03-02") == 10


def test_ruling_6_summer_time_moves_the_firing() -> None:
    warm = daily(cron_policies=(cron("night", "30 2 * * *", 90, "Europe/Berlin"),))
    at(warm, "12:00:00", "2027-03-27")
    warm.replicas = 40
    assert [at(warm, "00:59:59", "2027-03-28"), at(warm, "01:00:00", "2027-03-28")] == [40, 90]


def test_a_policy_without_a_zone_uses_the_setting() -> None:
    warm = daily(cron_policies=(cron("morning", "0 8 * * *", 100, None),))
    warm.settings = replace(warm.settings, time_zone="Asia/Tokyo")
    assert [at(warm, "08:00:00"), at(warm, "22:59:00"), at(warm, "23:00:00")] == [40, 40, 100]


@pytest.mark.parametrize(
    ("policy", "reason", "event"),
    [
        (cron("a", "0 0 31 2 *", 5), "InvalidSchedule", "ScaleBlocked"),
        (cron("a", "0 0 8 * * *", 5), "InvalidSchedule", "ScaleBlocked"),
        (cron("a", "0 8 * * *", 5, "Mars/Phobos"), "UnknownTimeZone", "UnknownTimeZone"),
    ],
)
def test_a_schedule_or_zone_that_cannot_be_used_stops_syncing_and_is_told_once(
    policy: object, reason: str, event: str
) -> None:
    warm = Warm(autoscaler(cron_policies=(policy,), min_replicas=5), replicas=1)
    assert [warm.sync(), warm.sync(), warm.sync()] == [1, 1, 1]
    assert warm.condition("ScalingActive") == ("False", reason)
    assert warm.told == [event]


def test_nothing_is_written_between_firings() -> None:
    warm = daily()
    at(warm, "08:00:00")
    at(warm, "08:00:20")  # the numbers after it
    writes = 0
    for _ in range(200):
        warm.sync(20)
        writes += len(warm.actions)
    assert writes == 0
    assert warm.now > NOW


def test_ruling_18_a_record_of_a_clock_that_was_ahead_silences_nothing() -> None:
    ahead = PoolAutoscalerStatus(
        applied_cron_policies=(
            AppliedCronPolicy("day", format_instant(NOW + 30 * DAY), format_instant(NOW + 30 * DAY), "0 8 * * * UTC"),
        ),
        observed_generation=1,
    )
    scaler = autoscaler(cron_policies=(cron("day", "0 8 * * *", 100),), status=ahead)
    warm = Warm(scaler, replicas=5)
    sizes = {warm.sync(3600) for _ in range(30)}
    assert sizes == {5, 100}
    assert warm.status().applied_cron_policies[0].since < format_instant(warm.now)


def test_a_bound_that_limits_a_firing_is_said_while_it_does_and_followed_when_it_moves() -> None:
    warm = Warm(autoscaler(cron_policies=(cron("day", "0 8 * * *", 100),), max_replicas=50), replicas=5)
    for _ in range(30):
        warm.sync(3600)
    assert warm.replicas == 50
    assert warm.condition("ScalingLimited") == ("True", "TooManyReplicas")
    warm.edit(max_replicas=80)
    assert warm.sync(20) == 80
    warm.edit(max_replicas=200)
    assert warm.sync(20) == 100
    warm.sync(20)
    assert warm.condition("ScalingLimited") == ("False", "DesiredWithinRange")
    warm.edit(max_replicas=60)
    assert warm.sync(20) == 60
    warm.replicas = 40  # somebody scales it by hand: the count holds from then on
    warm.sync(20)
    warm.edit(max_replicas=200)
    assert warm.sync(20) == 40


def test_a_firing_whose_record_could_not_be_written_is_not_acted_upon_twice() -> None:
    warm = Warm(autoscaler(cron_policies=(cron("a", "5 * * * *", 9),), created_at=NOW - 60), replicas=3)
    assert warm.sync(0.0) == 3
    warm.status_outcome = Unknown("500")
    while warm.replicas != 9:
        warm.sync(30.0)
    warm.replicas = 2
    for _ in range(20):
        warm.sync(15.0)
    assert warm.replicas == 2
    warm.status_outcome = None
    for _ in range(20):
        warm.sync(15.0)
    assert (warm.replicas, warm.status().applied_cron_policies[0].set_replicas) == (2, None)
    warm.restart()
    assert warm.sync() == 2
