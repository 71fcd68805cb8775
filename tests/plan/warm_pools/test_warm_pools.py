"""PoolAutoscaler by capacity: the timelines of the specification, starting replicas, windows, bounds. Rulings by
number.
"""

from __future__ import annotations

import pytest

from growth.model.action import ScaleWarmPool, WritePoolAutoscalerStatus
from growth.model.outcome import Accepted, Conflict, Refused, TryLater, Unknown
from growth.model.poolautoscaler import ScalingRules
from growth.model.settings import WarmPoolSettings
from growth.model.warmpool import SANDBOX_SET, WarmPoolView
from tests.plan.warm_pools.worlds import NO_WINDOW, NOW, Warm, autoscaler, capacity

WITHOUT_WAITING = {"scale_up": NO_WINDOW, "scale_down": NO_WINDOW}


def test_the_timeline_of_absolute_watermarks() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5, **WITHOUT_WAITING)))
    assert warm.sync() == 10
    warm.used = 10
    assert warm.sync() == 20
    warm.used = 20
    assert warm.sync() == 30
    warm.used = 0
    assert [warm.sync() for _ in range(3)] == [10, 10, 10]


def test_the_timeline_of_percentages() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity("70%", "10%", **WITHOUT_WAITING)), replicas=4)
    sizes = [warm.sync()]
    for _ in range(4):
        warm.used = warm.replicas
        sizes.append(warm.sync())
    warm.used = 0
    sizes += [warm.sync() for _ in range(9)]
    assert sizes == [4, 7, 12, 21, 36, 26, 19, 14, 10, 7, 5, 4, 4, 4]


def test_ruling_3_starting_replicas_count_so_that_it_neither_runs_away_nor_stands_still() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity("70%", "10%", **WITHOUT_WAITING)), replicas=4)
    warm.used = 4
    assert warm.sync() == 7
    sizes = []
    for _ in range(6):
        warm.starting = warm.replicas - 4
        sizes.append(warm.sync())
    assert sizes == [9, 11, 11, 11, 11, 11]


def test_ruling_3_replicas_that_do_not_come_up_stop_further_scaling_up() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(5, 1, **WITHOUT_WAITING), max_replicas=100), replicas=5)
    warm.used, warm.starting = 0, 5
    assert warm.sync() == 5
    assert warm.condition("AbleToScale") == ("True", "ReadyForNewScale")
    assert warm.sync(301) == 5
    assert warm.condition("AbleToScale") == ("False", "ReplicasNotStarting")
    warm.used, warm.starting = 4, 1  # four came up and were claimed at once: that is progress
    assert warm.sync() == 9
    warm.starting = 5
    assert warm.sync() == 9
    warm.used, warm.starting = 3, 6  # one died
    warm.sync(301)
    warm.used, warm.starting, warm.replicas = 3, 1, 4
    assert warm.sync(0) == 4  # wanted eight
    assert "scaling up waits for replicas that do not start" in [note.message for note in warm.notes]
    warm.starting, warm.used = 0, 4
    assert warm.sync() == 9


def test_ruling_2_members_that_leave_when_claimed_are_never_used() -> None:
    warm = Warm(
        autoscaler(kind="SandboxSet", capacity_policy=capacity(10, 2, **WITHOUT_WAITING)), replicas=10, kind=SANDBOX_SET
    )
    warm.starting = 7
    assert warm.sync() == 10
    warm.starting, warm.replicas = 0, 5
    assert warm.sync() == 10


def test_ruling_4_with_the_defaults_scaling_up_is_quick_and_down_waits_for_both_windows() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5)), settings=WarmPoolSettings())
    assert warm.sync(1) == 10
    warm.used, went_up_at = 10, None
    for _ in range(20):
        if warm.sync(5) == 20 and went_up_at is None:
            went_up_at = warm.now
    assert went_up_at is not None
    assert went_up_at - NOW <= 60
    released_at, warm.used, went_down_at = warm.now, 0, None
    for _ in range(120):
        if warm.sync(5) == 10 and went_down_at is None:
            went_down_at = warm.now
    assert went_down_at is not None
    assert 300 <= went_down_at - released_at <= 360 + 15
    assert "scaling down waits for its stabilization window (300 s)" in [note.message for note in warm.notes]


def test_ruling_4_means_are_rounded_half_up_and_used_is_the_present_one() -> None:
    settings = WarmPoolSettings(observation_window_seconds=60, sampling_interval_seconds=0.0)
    warm = Warm(autoscaler(capacity_policy=capacity(10, 1, **WITHOUT_WAITING)), replicas=12, settings=settings)
    warm.used = 2
    assert warm.sync() == 12  # 10 available
    warm.used = 5
    assert warm.sync() == 12  # 10 and 7: the mean 8.5 counts as 9
    warm.used = 5
    assert warm.sync() == 15  # 10, 7 and 7: 8; 5 used and 10 more


def test_ruling_5_the_smallest_recommendation_of_the_scale_up_window_counts() -> None:
    warm = Warm(
        autoscaler(capacity_policy=capacity(10, 1, scale_up=ScalingRules(60), scale_down=NO_WINDOW)), replicas=10
    )
    warm.sync()
    warm.used = 5
    assert warm.sync() == 10
    assert warm.condition("ScalingActive") == ("True", "CapacityPolicy")
    assert "not before" in warm.status().last_decision
    warm.used = 8
    assert warm.sync(30) == 10
    assert warm.sync(31) == 15  # the smaller of 15 and 18
    assert warm.sync(60) == 18


@pytest.mark.parametrize(("replicas", "wanted"), [(3, 5), (12, 10), (7, 7)])
def test_ruling_5_bounds_alone_are_enforced_at_once(replicas: int, wanted: int) -> None:
    warm = Warm(autoscaler(min_replicas=5, max_replicas=10), replicas=replicas, settings=WarmPoolSettings())
    assert warm.sync() == wanted
    assert warm.condition("ScalingActive") == ("True", "BoundsOnly")
    assert warm.status().active_policy == "bounds"


def test_ruling_5_bounds_pass_every_window() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5), max_replicas=50), settings=WarmPoolSettings(), replicas=30)
    assert warm.sync() == 30
    warm.edit(max_replicas=20)
    assert warm.sync(1) == 20
    warm.replicas = 40  # somebody scales it by hand
    assert warm.sync(1) == 40  # two writes are ten seconds apart
    assert warm.sync(9) == 20


def test_a_bound_that_decides_is_told() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5, **WITHOUT_WAITING), max_replicas=8))
    assert warm.sync() == 8
    assert warm.condition("ScalingLimited") == ("True", "TooManyReplicas")
    assert warm.status().desired_replicas == 8


def test_nothing_below_what_is_in_use() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(2, 1, **WITHOUT_WAITING)), replicas=50)
    warm.used = 40
    assert warm.sync() == 42


def test_a_restart_does_not_scale_down_before_its_windows_are_full() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5)), replicas=30, settings=WarmPoolSettings())
    for _ in range(50):
        warm.sync(6)
    assert warm.replicas == 30
    warm.restart()
    for _ in range(49):
        assert warm.sync(6) == 30
    for _ in range(20):
        warm.sync(6)
    assert warm.replicas == 10


def test_at_rest_nothing_is_written() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5)), replicas=10, settings=WarmPoolSettings())
    warm.sync()
    writes = 0
    for _ in range(100):
        warm.sync(7)
        writes += len(warm.actions)
    assert writes == 0


def test_every_scaling_is_told_with_its_reason_and_numbers() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5, **WITHOUT_WAITING)))
    warm.sync()
    (note,) = warm.notes
    assert (note.reason, note.severity) == ("ScaledUp", "Normal")
    assert "1 replicas become 10: 1 available is below [5, 15] around 10 of 1, 0 used" in note.message
    status = warm.status()
    assert (status.current_replicas, status.desired_replicas, status.active_policy) == (10, 10, "capacity")
    assert status.last_scale_time is not None
    assert status.observed_generation == 1


def test_the_target_is_scaled_on_the_version_that_was_seen_and_again_after_a_conflict() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5, **WITHOUT_WAITING)), settings=WarmPoolSettings())
    warm.outcome = Conflict("changed")
    assert warm.sync() == 1
    (action,) = warm.actions
    assert isinstance(action, ScaleWarmPool)
    assert (action.target.resource_version, action.target.uid, action.before) == ("1", "uid-pool", 1)
    warm.outcome = Accepted()
    assert warm.sync(9.5) == 1  # not at once
    assert warm.sync(1) == 10


def test_a_refused_scaling_is_told_and_tried_again_a_minute_later() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5, **WITHOUT_WAITING)))
    warm.outcome = Refused("deployments.apps is forbidden")
    warm.sync()
    assert warm.told == ["FailedScale"]
    status = next(action.status for action in warm.actions if isinstance(action, WritePoolAutoscalerStatus))
    assert [(each.type, each.status, each.reason) for each in status.conditions][1] == (
        "AbleToScale",
        "False",
        "FailedScale",
    )
    warm.sync(30)
    assert not any(isinstance(action, ScaleWarmPool) for action in warm.actions)
    warm.sync(31)
    assert any(isinstance(action, ScaleWarmPool) for action in warm.actions)


def test_a_growth_that_only_observes_says_what_it_would_do() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5, **WITHOUT_WAITING)))
    warm.outcome = TryLater("growth only observes", retry_after_seconds=60.0)
    warm.sync()
    assert [
        (note.reason, "1 replicas become 10" in note.message, "only observes" in note.message) for note in warm.notes
    ] == [("ScaleBlocked", True, True)]


def test_a_kind_that_is_not_listed_yet_makes_nobody_say_anything() -> None:
    warm = Warm(autoscaler(min_replicas=5))
    warm.view = WarmPoolView({}, is_known=False)
    assert warm.sync() == 1
    assert (warm.actions, warm.notes) == ([], [])


def test_a_status_that_cannot_be_written_is_not_tried_at_every_look() -> None:
    warm = Warm(autoscaler(suspend=True))
    warm.outcome, tried = Unknown("failed calling webhook"), 0
    for _ in range(300):
        warm.sync(1.0)
        tried += len(warm.actions)
    assert 5 <= tried <= 12
    warm.outcome = Accepted()
    for _ in range(75):
        warm.sync(1.0)
    assert warm.condition("ScalingActive") == ("False", "Suspended")
