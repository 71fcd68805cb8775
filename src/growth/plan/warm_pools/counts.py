"""How are the replicas of a warm pool spent: used, available, starting? By the table in `model/warmpool`.

Asked by `plan/warm_pools/warm_pools` and `growth explain`. What is neither used nor available is starting, so the three
never exceed the replicas by more than what is on its way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from growth.model.labels import LabelSelector, Requirement
from growth.model.pod import Pod
from growth.model.poolautoscaler import PodSelector, PoolAutoscaler
from growth.model.snapshot import Snapshot
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.solver.rules.selectors import Selector, read_selector


class PoolCounts(Struct, frozen=True, gc=False):
    """One look at one pool."""

    replicas: int
    available: int = 0
    used: int = 0
    starting: int = 0

    @property
    def soon_available(self) -> int:
        """Replicas that are coming up count already: asking for them again would never end."""
        return self.available + self.starting


def counts_of(
    autoscaler: PoolAutoscaler, pool: WarmPool, kind: WarmPoolKind, snapshot: Snapshot, owned: Owned
) -> PoolCounts | None:
    """How the replicas of the pool are spent; None while its pods cannot be found."""
    policy = autoscaler.spec.capacity_policy
    if kind.members == "Pods" and policy is not None and policy.in_use is not None:
        owners = owned.of(pool, kind)
        return None if owners is None else _by_pods(pool, policy.in_use, _pods(owners, snapshot))
    if kind.members == "Stay":
        used = max(0, pool.started - pool.available)
        return _rest_is_starting(pool.replicas, pool.available, used)
    return _rest_is_starting(pool.replicas, pool.available, 0)


def _rest_is_starting(replicas: int, available: int, used: int) -> PoolCounts:
    return PoolCounts(replicas, available, used, max(0, replicas - available - used))


def _by_pods(pool: WarmPool, in_use: PodSelector, pods: Iterator[Pod]) -> PoolCounts:
    selector, used, available = selector_of(in_use), 0, 0
    for pod in pods:
        if pod.is_finished or pod.deleted_at is not None:
            continue
        if selector.matches(pod.shape.labels):
            used += 1
        else:
            available += pod.is_ready
    return _rest_is_starting(pool.replicas, available, used)


def selector_of(wanted: PodSelector) -> Selector:
    """As rules read it: one that is malformed matches nothing, and says why."""
    labels = tuple(Requirement(key, "In", (value,)) for key, value in sorted(wanted.match_labels.items()))
    expressions = tuple(Requirement(each.key, each.operator, each.values) for each in wanted.match_expressions)
    return read_selector(LabelSelector(labels + expressions))


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
