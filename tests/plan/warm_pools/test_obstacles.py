"""What keeps an autoscaler from working is said on it, and nothing is scaled meanwhile. And what holds for every
autoscaler.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.action import ScaleWarmPool, WritePoolAutoscalerStatus
from growth.model.labels import Labels
from growth.model.pod import Owner, Pod, PodShape
from growth.model.poolautoscaler import CapacityPolicy, PodExpression, PodSelector
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.snapshot import Snapshot
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, STATEFUL_SET, WarmPool, WarmPoolView
from growth.plan.warm_pools import warm_pools
from growth.plan.warm_pools.counts import Owned, PoolCounts, counts_of
from growth.plan.warm_pools.in_use import NOTHING_KEPT
from growth.plan.warm_pools.size import why_not_tolerance
from tests.plan.warm_pools.worlds import NO_WINDOW, NOW, Warm, autoscaler, capacity, cron


@pytest.mark.parametrize(
    "fields",
    [
        {"min_replicas": 5, "max_replicas": 4},
        {"cron_policies": (cron("a", "0 8 * * *", 1),), "capacity_policy": capacity(5)},
        {"cron_policies": (cron("a", "0 8 * * *", 1), cron("a", "0 9 * * *", 1))},
        {"cron_policies": tuple(cron(f"p{each}", "0 8 * * *", 1) for each in range(21))},
        {"capacity_policy": capacity(5, 5)},
        {"capacity_policy": capacity("10%", "10%")},
        {"capacity_policy": CapacityPolicy(5, in_use=PodSelector(match_expressions=(PodExpression("a", "In"),)))},
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    warm = Warm(autoscaler(**{"min_replicas": 3, **fields}))
    assert warm.sync() == 1
    assert warm.condition("ScalingActive") == ("False", "InvalidSpec")
    assert warm.told == ["ScaleBlocked"]


def test_ruling_9_a_kind_that_is_not_allowed_is_never_scaled() -> None:
    warm = Warm(autoscaler(kind="Secret", min_replicas=3))
    assert warm.sync() == 1
    assert warm.condition("ScalingActive") == ("False", "KindNotAllowed")
    assert "Secret.example.org may not be scaled here; allowed are" in warm.status().last_decision


def test_ruling_9_the_operator_can_take_a_kind_away() -> None:
    only = WarmPoolSettings(targets=("Deployment.apps",))
    assert only.kind_of(autoscaler(kind="Deployment").spec.scale_target_ref) == DEPLOYMENT
    assert only.kind_of(autoscaler(kind="StatefulSet").spec.scale_target_ref) is None
    assert WarmPoolSettings().kind_of(autoscaler(kind="StatefulSet").spec.scale_target_ref) == STATEFUL_SET


def test_ruling_8_the_oldest_of_two_autoscalers_wins_and_the_other_says_so() -> None:
    younger, older = autoscaler("a", min_replicas=7), autoscaler("z", min_replicas=5, created_at=NOW - 7200)
    warm = Warm(younger, older)
    assert warm.sync() == 5
    assert warm.condition("ScalingActive", "a") == ("False", "TargetTaken")
    assert "older PoolAutoscaler z" in warm.status("a").last_decision
    del warm.autoscalers["team/z"]
    assert warm.sync() == 7
    assert warm.condition("ScalingActive", "a") == ("True", "BoundsOnly")


def test_ruling_8_of_two_made_in_the_same_second_the_first_by_name_wins() -> None:
    warm = Warm(autoscaler("b", min_replicas=7), autoscaler("a", min_replicas=5))
    assert warm.sync() == 5
    assert warm.condition("ScalingActive", "b") == ("False", "TargetTaken")


def test_an_autoscaler_that_is_being_deleted_keeps_its_target_from_nobody() -> None:
    leaving = autoscaler("z", min_replicas=5, created_at=NOW - 7200, deleted_at=NOW - 60)
    warm = Warm(autoscaler("a", min_replicas=7), leaving)
    assert warm.sync() == 7
    assert warm.condition("ScalingActive", "a") == ("True", "BoundsOnly")


def test_replica_sets_that_cannot_be_read_are_told_and_nothing_is_scaled() -> None:
    policy = CapacityPolicy(3, 0, in_use=PodSelector({"claimed": "yes"}))
    scaler = autoscaler(kind="Deployment", min_replicas=5, capacity_policy=policy)
    pools = {"team/pool": WarmPool("pool", "team", 2, 2, 2, "uid", resource_version="1")}
    views = {DEPLOYMENT.name: WarmPoolView(pools), REPLICA_SET.name: WarmPoolView({}, is_known=False)}
    snapshot = Snapshot(NOW, autoscalers={scaler.key: scaler}, warm_pools=views)
    assert warm_pools.plan(snapshot, warm_pools.Ledger(), Settings()).actions == ()
    views[REPLICA_SET.name] = WarmPoolView({}, is_known=False, problem="growth may not watch replicasets")
    decision = warm_pools.plan(snapshot, warm_pools.Ledger(), Settings())
    (write,) = decision.actions
    assert isinstance(write, WritePoolAutoscalerStatus)
    assert write.status.last_decision == "growth may not watch replicasets"
    assert [note.reason for note in decision.notes] == ["FailedGetScale"]


def test_a_missing_target_is_told_and_found_when_it_comes() -> None:
    warm = Warm(autoscaler(min_replicas=5))
    warm.view = WarmPoolView({})
    warm.sync()
    assert warm.condition("AbleToScale") == ("False", "FailedGetScale")
    assert warm.told == ["FailedGetScale"]
    warm.view = None
    assert warm.sync() == 5
    assert warm.condition("AbleToScale") == ("True", "ReadyForNewScale")


def test_a_missing_kind_is_told() -> None:
    warm = Warm(autoscaler(min_replicas=5))
    warm.view = WarmPoolView({}, is_known=False, problem="desks.example.com are not served by this cluster")
    warm.sync()
    assert warm.status().last_decision == "desks.example.com are not served by this cluster"


def test_ruling_8_a_deleted_autoscaler_leaves_the_count_as_it_is() -> None:
    warm = Warm(autoscaler(min_replicas=5))
    assert warm.sync() == 5
    warm.autoscalers.clear()
    warm.replicas = 2
    assert (warm.sync(), warm.actions) == (2, [])


def test_a_suspended_autoscaler_does_not_even_enforce_its_bounds() -> None:
    warm = Warm(autoscaler(min_replicas=5, suspend=True))
    assert warm.sync() == 1
    assert (warm.status().suspended, warm.told) == (True, [])


def test_a_mistake_about_one_autoscaler_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(scaler: Any, *rest: Any) -> Any:
        if scaler.name == "broken":
            raise ZeroDivisionError
        return counts_of(scaler, *rest)

    monkeypatch.setattr(warm_pools, "counts_of", fails)
    broken, good = autoscaler("broken", target="other", min_replicas=5), autoscaler("good", min_replicas=5)
    warm = Warm(broken, good)
    warm.view = WarmPoolView(
        {"team/pool": WarmPool("pool", "team", 1, uid="uid-pool"), "team/other": WarmPool("other", "team", 1)}
    )
    warm.sync()
    assert [action.target.name for action in warm.actions if isinstance(action, ScaleWarmPool)] == ["pool"]
    assert (warm.notes[0].about.name, warm.notes[0].reason) == ("broken", "ScaleBlocked")
    assert warm.ledger.looked.failed == 1


def test_an_autoscaler_that_was_made_again_remembers_nothing() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5)), replicas=30, settings=WarmPoolSettings())
    for _ in range(70):
        warm.sync(5)
    warm.autoscalers["team/scaler"] = replace(warm.autoscalers["team/scaler"], uid="uid-new")
    assert warm.sync(5) == 30
    memory = warm.ledger.watches["team/scaler"].memory
    assert memory is not None
    assert memory.observation.since_at == warm.now


# ----------------------------------------------------------------------------------------- counting


def pods_of(owner: str, **groups: int) -> tuple[Pod, ...]:
    """So many ready, claimed, starting, finished and leaving pods."""
    labels = {"claimed": Labels({"app": "x", "claimed": "yes"})}
    changes: dict[str, dict[str, Any]] = {
        "starting": {"is_ready": False},
        "finished": {"phase": "Succeeded"},
        "leaving": {"deleted_at": NOW},
    }
    return tuple(
        replace(
            Pod(
                f"{owner}-{group}-{number}",
                PodShape("team", labels.get(group, Labels({"app": "x"}))),
                owner=Owner("ReplicaSet", owner, owner),
                is_ready=True,
            ),
            **changes.get(group, {}),
        )
        for group, count in groups.items()
        for number in range(count)
    )


def test_ruling_2_pods_with_the_declared_label_are_used_and_ready_ones_without_it_available() -> None:
    policy = CapacityPolicy(5, in_use=PodSelector({"claimed": "yes"}))
    replica_sets = WarmPoolView(
        {
            "team/new": WarmPool("new", "team", uid="new", owner_uid="d"),
            "team/old": WarmPool("old", "team", uid="old", owner_uid="d"),
        }
    )
    pods = {
        "new": pods_of("new", ready=3, claimed=2, starting=1, finished=4, leaving=1),
        "old": pods_of("old", claimed=1),
        "else": pods_of("else", claimed=9),
    }
    snapshot = Snapshot(NOW, warm_pools={REPLICA_SET.name: replica_sets}, pods_by_owner=pods)
    scaler, pool = autoscaler(kind="Deployment", capacity_policy=policy), WarmPool("pool", "team", 8, uid="d")
    counts = counts_of(scaler, pool, DEPLOYMENT, snapshot, Owned(snapshot.warm_pools))
    assert counts is not None
    assert replace(counts, kept=NOTHING_KEPT) == PoolCounts(8, available=3, used=3, starting=2)
    assert counts.kept.replicas == 7  # a rollout is under way: none of the seven live ones surely goes first
    unknown = replace(snapshot, warm_pools={})
    assert counts_of(scaler, pool, DEPLOYMENT, unknown, Owned(unknown.warm_pools)) is None
    direct = counts_of(scaler, WarmPool("s", "team", 8, uid="new"), STATEFUL_SET, snapshot, Owned(snapshot.warm_pools))
    assert direct is not None
    assert replace(direct, kept=NOTHING_KEPT) == PoolCounts(8, available=3, used=2, starting=3)


def test_a_deployment_without_a_declared_label_has_no_pods_in_use() -> None:
    scaler, pool = (
        autoscaler(kind="Deployment", capacity_policy=CapacityPolicy(5)),
        WarmPool("pool", "team", 8, available=6),
    )
    assert counts_of(scaler, pool, DEPLOYMENT, Snapshot(NOW), Owned({})) == PoolCounts(
        8, available=6, used=0, starting=2
    )


# --------------------------------------------------------------------------------------- properties

amounts = st.one_of(st.integers(0, 40), st.integers(0, 100).map(lambda each: f"{each}%"))
policies = st.builds(
    CapacityPolicy,
    amounts,
    st.one_of(st.none(), amounts),
    st.none() | st.just(NO_WINDOW),
    st.none() | st.just(NO_WINDOW),
).filter(lambda each: not why_not_tolerance(each, 1000))
steps = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10), st.integers(1, 400)), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(policies, steps, st.integers(0, 20), st.integers(1, 60), st.booleans())
def test_whatever_happens_the_count_stays_within_its_bounds(
    policy: CapacityPolicy, story: list[Any], least: int, span: int, is_slow: bool
) -> None:
    assume(not why_not_tolerance(policy, least + span))
    chosen = WarmPoolSettings() if is_slow else Warm(autoscaler()).settings
    warm = Warm(
        autoscaler(capacity_policy=policy, min_replicas=least, max_replicas=least + span), replicas=3, settings=chosen
    )
    for used, starting, seconds in story:
        warm.used = min(used, warm.replicas)
        warm.starting = min(starting, warm.replicas - warm.used)
        assert least <= warm.sync(seconds) <= least + span
        assert sum(isinstance(action, ScaleWarmPool) for action in warm.actions) <= 1


@settings(max_examples=100, deadline=None)
@given(policies, st.integers(0, 30))
def test_at_rest_it_stays_at_rest(policy: CapacityPolicy, used: int) -> None:
    warm = Warm(
        autoscaler(capacity_policy=replace(policy, scale_up=NO_WINDOW, scale_down=NO_WINDOW), max_replicas=500),
        replicas=used,
    )
    sizes = []
    for _ in range(130):
        warm.used = used
        sizes.append(warm.sync())
    assert len(set(sizes[-10:])) == 1
    warm.sync()
    assert warm.actions == []


def test_a_pass_without_a_reason_touches_nothing() -> None:
    warm = Warm(autoscaler(capacity_policy=capacity(10, 5)), replicas=10, settings=WarmPoolSettings())
    warm.sync()
    snapshot = warm.snapshot
    first = warm_pools.plan(snapshot, warm.ledger, Settings(warm_pools=warm.settings))
    again = warm_pools.plan(
        replace(snapshot, now=snapshot.now + 0.001), first.ledger, Settings(warm_pools=warm.settings)
    )
    assert again.ledger.watches is first.ledger.watches
    assert again.again_at == first.again_at
    assert first.again_at is not None
    assert first.again_at > snapshot.now
