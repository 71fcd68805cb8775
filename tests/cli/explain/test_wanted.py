"""`growth explain poolautoscaler` says what the controller does: the same number, for thousands of random objects, each
looked at once by the row itself. `GROWTH_CASES=20000` looks at more.
"""

from __future__ import annotations

import os
from random import Random

from msgspec.structs import replace

from growth.cli.explain.autoscaler import GivenCounts, counted
from growth.cli.explain.wanted import answer_for, without_windows
from growth.model.action import ScaleWarmPool
from growth.model.labels import Labels
from growth.model.pod import Owner, Pod, PodShape
from growth.model.poolautoscaler import (
    AppliedCronPolicy,
    CapacityPolicy,
    CapacityStatus,
    CountOrShare,
    PodSelector,
    PoolAutoscaler,
    PoolAutoscalerStatus,
    ScalingRules,
)
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.snapshot import Snapshot
from growth.model.warmpool import CAPACITY_BUFFER, SANDBOX_SET, STATEFUL_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools import warm_pools
from growth.plan.warm_pools.counts import PoolCounts
from growth.plan.warm_pools.obstacles import why_not_active
from tests.plan.warm_pools.worlds import NOW, SECOND_BY_SECOND, STAYING, autoscaler, cron

CASES = int(os.environ.get("GROWTH_CASES", "2000"))
CLAIMED = PodSelector({"claimed": "yes"})
SETTINGS = replace(SECOND_BY_SECOND, kinds=(STAYING,))


def some_amount(chance: Random) -> CountOrShare:
    return chance.randint(0, 20) if chance.random() < 0.5 else f"{chance.randint(0, 100)}%"


def some_policy(chance: Random, in_use: PodSelector | None) -> CapacityPolicy:
    def rules() -> ScalingRules | None:
        own = some_amount(chance) if chance.random() < 0.3 else None
        return ScalingRules(chance.choice([None, 0, 60]), own) if chance.random() < 0.5 else None

    tolerance = some_amount(chance) if chance.random() < 0.7 else None
    return without_windows(CapacityPolicy(some_amount(chance), tolerance, rules(), rules(), in_use))


def some_autoscaler(chance: Random, kind: WarmPoolKind, counts: PoolCounts) -> PoolAutoscaler:
    in_use = CLAIMED if kind is STATEFUL_SET and chance.random() < 0.8 else None
    least, form = chance.randint(0, 10), chance.choice(["bounds", "cron", "capacity", "capacity"])
    known = CapacityStatus(counts.available, counts.used, counts.starting)
    status = PoolAutoscalerStatus(1, current_replicas=counts.replicas, current_capacity=known)
    made = autoscaler(
        kind=kind.kind,
        min_replicas=least,
        max_replicas=least + chance.randint(1, 60),
        status=status,
        created_at=NOW - 9e4,
    )
    spec = replace(made.spec, scale_target_ref=replace(made.spec.scale_target_ref, api_version=f"{kind.group}/v1"))
    if form == "capacity":
        spec = replace(spec, capacity_policy=some_policy(chance, in_use))
    if form == "cron":
        policies = tuple(cron(f"p{n}", f"{chance.randint(0, 59)} */3 * * *", chance.randint(0, 70)) for n in range(2))
        held = AppliedCronPolicy("p0", "2027-01-01T00:00:00Z", "2027-01-14T00:00:00Z", f"{policies[0].schedule} UTC",
                                 chance.randint(0, 70), counts.replicas)  # fmt: skip
        status = replace(status, applied_cron_policies=chance.choice([(), (held,)]))
        spec = replace(spec, cron_policies=policies, in_use=in_use)
    return replace(made, spec=spec, status=status)


def decided(made: PoolAutoscaler, kind: WarmPoolKind, counts: PoolCounts, settings: WarmPoolSettings) -> int:
    """What the row does at its first look."""
    pool = WarmPool(
        "pool",
        "team",
        counts.replicas,
        counts.available,
        counts.replicas - counts.starting,
        "uid",
        resource_version="1",
    )
    groups = [(counts.available, True, False), (counts.used, True, True), (counts.starting, False, False)]
    members = [(is_ready, is_used) for count, is_ready, is_used in groups for _ in range(count)]
    members.sort(key=lambda each: not each[1])  # those in use have the lowest ordinals
    pods = tuple(
        Pod(f"pool-{number}", PodShape("team", Labels({"claimed": "yes"} if is_used else {})), f"{number}",
            Owner("StatefulSet", "pool", "uid"), is_ready=is_ready)
        for number, (is_ready, is_used) in enumerate(members)
    )  # fmt: skip
    snapshot = Snapshot(
        NOW,
        autoscalers={made.key: made},
        warm_pools={kind.name: WarmPoolView({pool.key: pool})},
        pods_by_owner={"uid": pods},
    )
    actions = warm_pools.plan(snapshot, warm_pools.Ledger(), Settings(warm_pools=settings)).actions
    return next((each.replicas for each in actions if isinstance(each, ScaleWarmPool)), counts.replicas)


def test_explain_agrees_with_the_controller() -> None:
    seen = 0
    for case in range(CASES):
        chance = Random(case)
        kind = chance.choice([STAYING, SANDBOX_SET, CAPACITY_BUFFER, STATEFUL_SET])
        parts = [chance.randint(0, 12) for _ in range(3)]
        used = 0 if kind is CAPACITY_BUFFER else parts[1]
        counts = PoolCounts(parts[0] + used + parts[2], parts[0], used, parts[2])
        made = some_autoscaler(chance, kind, counts)
        if why_not_active(made, made.key, SETTINGS) is not None:
            continue
        given = GivenCounts(counts.replicas, counts.available, counts.starting)
        explained = answer_for(made, counted(made, given, SETTINGS), 0, SETTINGS, NOW)
        wanted = decided(made, kind, counts, SETTINGS)
        assert explained.desired_replicas == wanted, (case, made.spec, counts, explained.reason)
        seen += 1
    assert seen > CASES / 3
