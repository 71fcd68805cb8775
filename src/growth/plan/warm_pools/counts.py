"""How are the replicas of a warm pool spent: used, available, starting? By the table in `model/warmpool`.

Asked by `plan/warm_pools/warm_pools` and `growth explain`. What is neither used nor available is starting, so the three
never exceed the replicas by more than what is on its way out.

Members that leave when they are claimed are missing for one of two reasons, and the object does not say which:

| missing after | counts as |
| --- | --- |
| a raise (whoever asked for it), the creation, a change of the template | starting, as many as were asked for |
| those have come, one by one; or some have, and the start limit has passed | used: claimed, and being replaced |
| none has come at all | starting: they do not start, and more would not either |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Sparing
from growth.model.pod import Pod
from growth.model.poolautoscaler import PodSelector, PoolAutoscaler, PoolAutoscalerStatus
from growth.model.snapshot import Snapshot
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.in_use import NOTHING_KEPT, Kept, kept_for, members_of


class PoolCounts(Struct, frozen=True, gc=False):
    """One look at one pool."""

    replicas: int
    available: int = 0
    used: int = 0
    starting: int = 0
    kept: Kept = NOTHING_KEPT  # fewer replicas would take some that are in use

    @property
    def soon_available(self) -> int:
        """Replicas that are coming up count already: asking for them again would never end."""
        return self.available + self.starting


class Rise(Struct, frozen=True, gc=False):
    """Of a pool whose members leave when claimed: how many of those asked for have not come yet."""

    replicas: int
    generation: int
    available: int  # at the last look
    highest: int  # available at most, since they were asked for
    awaited: int
    since_at: float
    has_come: bool = False  # any, since then

    def starting(self, pool: WarmPool) -> int:
        return max(0, min(self.awaited, pool.replicas - pool.available))


def first_rise(pool: WarmPool, status: PoolAutoscalerStatus, now: float) -> Rise:
    """Of a pool that was not looked at before, or before a restart: then the status knows what was starting."""
    missing = max(0, pool.replicas - pool.available)
    is_known = status.current_replicas == pool.replicas and status.observed_generation > 0
    awaited = min(missing, status.current_capacity.starting) if is_known else missing
    return Rise(pool.replicas, pool.generation, pool.available, pool.available, awaited, now)


def next_rise(rise: Rise, pool: WarmPool, now: float, limit_seconds: float) -> Rise:
    """After another look at the pool."""
    available, raised = pool.available, pool.replicas - rise.replicas
    came = max(0, available - rise.highest)
    after = replace(
        rise,
        replicas=pool.replicas,
        generation=pool.generation,
        available=available,
        highest=max(available, rise.highest),
        awaited=max(0, rise.awaited - came),
        has_come=rise.has_come or available > rise.available,
    )
    if raised > 0:
        awaited = min(max(0, pool.replicas - available), after.awaited + raised)
        return replace(after, awaited=awaited, highest=available, since_at=now, has_come=False)
    if raised < 0:
        return replace(after, awaited=max(0, min(after.awaited, pool.replicas - available)))
    if pool.generation != rise.generation:  # another template: all of them are made again
        return replace(after, awaited=pool.replicas, highest=available, since_at=now, has_come=False)
    if after.has_come and now - after.since_at >= limit_seconds:
        return replace(after, awaited=0)
    return after


def counts_of(
    autoscaler: PoolAutoscaler,
    pool: WarmPool,
    kind: WarmPoolKind,
    snapshot: Snapshot,
    owned: Owned,
    rise: Rise | None = None,
) -> PoolCounts | None:
    """How the replicas of the pool are spent; None while its pods cannot be found. `rise` is what is remembered of a
    pool whose members leave.
    """
    in_use, available = autoscaler.spec.pods_in_use, min(pool.available, pool.replicas)
    if kind.members == "Pods" and in_use is not None:
        owners = owned.of(pool, kind)
        return None if owners is None else _by_pods(pool, kind, in_use, _pods(owners, snapshot), snapshot.now)
    if kind.members == "Stay":
        return _rest_is_starting(pool.replicas, available, max(0, pool.started - pool.available))
    if kind.members == "Leave":
        known = rise or first_rise(pool, autoscaler.status, snapshot.now)
        return _rest_is_starting(pool.replicas, available, pool.replicas - available - known.starting(pool))
    return _rest_is_starting(pool.replicas, available, 0)


def _rest_is_starting(replicas: int, available: int, used: int, kept: Kept = NOTHING_KEPT) -> PoolCounts:
    return PoolCounts(replicas, available, used, max(0, replicas - available - used), kept)


def _by_pods(pool: WarmPool, kind: WarmPoolKind, in_use: PodSelector, pods: Iterator[Pod], now: float) -> PoolCounts:
    members = members_of(pods, in_use)
    used, kept = len(members.in_use), kept_for(pool, kind, members, now)
    return _rest_is_starting(pool.replicas, members.available, used, kept)


def sparing_of(
    autoscaler: PoolAutoscaler, pool: WarmPool, kind: WarmPoolKind, snapshot: Snapshot, owned: Owned
) -> Sparing | None:
    """The pods in use that are known of, for a last look before fewer replicas are asked for; None: nothing tells."""
    in_use, owners = autoscaler.spec.pods_in_use, owned.of(pool, kind)
    if kind.members != "Pods" or in_use is None or owners is None:
        return None
    known = members_of(_pods(owners, snapshot), in_use).in_use
    return Sparing(in_use, owners, tuple(pod.uid for pod in known))


def _pods(owners: tuple[str, ...], snapshot: Snapshot) -> Iterator[Pod]:
    return (pod for owner in owners for pod in snapshot.pods_by_owner.get(owner, ()))


class Owned:
    """Which controllers own the pods of a pool: itself, or the ReplicaSets of a Deployment. Made for one pass, filled
    when first asked.
    """

    def __init__(self, warm_pools: Mapping[str, WarmPoolView]) -> None:
        self._replica_sets = warm_pools.get(REPLICA_SET.name)
        self._by_deployment: dict[str, list[str]] | None = None

    def of(self, pool: WarmPool, kind: WarmPoolKind) -> tuple[str, ...] | None:
        """UIDs; None while ReplicaSets are not known."""
        if kind.name != DEPLOYMENT.name:
            return (pool.uid,)
        if self._replica_sets is None or not self._replica_sets.is_known:
            return None
        if self._by_deployment is None:
            self._by_deployment = {}
            for replica_set in self._replica_sets.pools.values():
                self._by_deployment.setdefault(replica_set.owner_uid, []).append(replica_set.uid)
        return tuple(self._by_deployment.get(pool.uid, ()))
