"""Writes to one target: ten seconds apart, backed off and told when they fail, rarer when somebody undoes them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from growth.model.action import ScaleWarmPool
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown
from tests.plan.warm_pools.worlds import NO_WINDOW, NOW, Warm, autoscaler, capacity


def writes(warm: Warm, seconds: int, step: float = 1.0) -> list[float]:
    """When the target was written."""
    found = []
    for _ in range(int(seconds / step)):
        warm.sync(step)
        found += [warm.now - NOW for action in warm.actions if isinstance(action, ScaleWarmPool)]
    return found


@pytest.mark.parametrize(
    "outcome", [Conflict("moved on"), Unknown("no answer"), TryLater("busy"), Refused("forbidden")], ids=str
)
def test_ruling_16_a_write_that_fails_is_backed_off_and_told(outcome: Outcome) -> None:
    warm = Warm(autoscaler(min_replicas=4))
    warm.outcome = outcome
    found = writes(warm, 1800)
    assert len(found) <= 10
    assert all(later - earlier >= 10 for earlier, later in pairwise(found))
    assert found[-1] - found[-2] == 300
    assert set(warm.told) <= {"FailedScale", "ScaleBlocked"}
    assert len(warm.told) >= 7


def test_the_condition_says_why_and_is_cleared_by_a_write_that_succeeds() -> None:
    warm = Warm(autoscaler(min_replicas=4))
    warm.outcome = Conflict("the scale is not there")
    for _ in range(3):
        warm.sync(20)
    warm.outcome = Accepted()
    status = warm.sync(0)
    warm.sync(60)
    assert warm.replicas == 4
    assert status is not None
    assert warm.condition("AbleToScale") == ("True", "ReadyForNewScale")


def test_one_conflict_is_everyday_life_and_told_to_nobody() -> None:
    warm = Warm(autoscaler(min_replicas=4))
    warm.outcome = Conflict("moved on")
    warm.sync()
    assert warm.told == []


def test_ruling_16_somebody_who_undoes_it_is_not_fought_at_full_speed() -> None:
    warm = Warm(autoscaler(max_replicas=2), replicas=10)
    found = []
    for _ in range(300):
        warm.replicas = 10
        found += writes(warm, 1)
    assert 5 <= len(found) <= 9
    assert all(later - earlier >= 10 for earlier, later in pairwise(found))
    assert [note.message for note in warm.notes if note.reason == "ScaleBlocked"] == [
        "somebody else keeps changing the replicas of Desk pool: growth sets 2, but more rarely"
    ]


def test_ruling_16_ten_seconds_also_across_a_restart_and_another_autoscaler() -> None:
    warm = Warm(autoscaler(min_replicas=4))
    warm.sync()
    warm.edit(min_replicas=6)
    warm.restart()
    assert warm.sync(3) == 4
    assert warm.sync(8) == 6
    warm.autoscalers = {each.key: each for each in [autoscaler("other", min_replicas=9)]}
    assert warm.sync(3) == 6
    assert warm.sync(8) == 9


def test_ruling_15_a_count_changed_by_hand_begins_the_observation_anew() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity("70%", "10%", scale_down=NO_WINDOW)), replicas=100)
    warm.settings = warm.settings.__class__(kinds=warm.settings.kinds)
    for _ in range(2):
        warm.sync(15)
    warm.replicas = 10
    for _ in range(3):
        assert warm.sync(15) == 10  # neither up for being above, nor by what was
    for _ in range(10):
        warm.sync(15)
    assert warm.replicas < 10
    assert "ScaledUp" not in warm.told
