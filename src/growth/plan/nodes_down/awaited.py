"""Which waiting pods hold up nodes that could go? Asked by renewal and replacement, by every what-if, and by removal
before it deletes. A pod that growth is not about to place stops nothing.

| a pod waits | then |
| --- | --- |
| a node is on its way for it | the pools it may use are left as they are |
| for less than two minutes, found unschedulable, and a machine that could hold it may be bought | the same |
| for a scheduler that growth knows, or for less than two minutes | it holds room on the nodes that stay |
| since a few seconds, and its scheduler has not looked at it | an emptied node that it may use is not deleted yet |
"""

from __future__ import annotations

from typing import Final

from growth.model.pod import Pod, PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.giving_way import could_hold
from growth.plan.world.limits import allowances_now
from growth.plan.world.market import PoolReader, open_market, orders_possible
from growth.plan.world.nodes import may_be_placed
from growth.plan.world.pools import pools_for

_PLACED_WITHIN_SECONDS: Final = 120.0  # a pod for which nothing is on its way by then has no place
_LOOKED_AT_SECONDS: Final = 10.0  # by then the scheduler has looked at a new pod; one it passes over holds nothing up


def awaiting_pools(snapshot: Snapshot, settings: Settings) -> frozenset[str]:
    """Pools that a pod may use which growth is about to place. Pods that are made again and again, and that no machine
    could hold, are new each time and hopeless all the same.
    """
    planned = {key for each in snapshot.requests.values() if each.is_in_flight for key in each.planned_pods}
    waiting = [
        pod for pod in snapshot.waiting_pods if pod.unschedulable_at is not None and may_be_placed(pod, settings)
    ]
    new = {pod.shape for pod in waiting if _is_new(pod, snapshot) and pod.key not in planned}
    coming = {pod.shape for pod in waiting if pod.key in planned}
    found = {name for shape in coming for name in pools_for(shape, snapshot.pools).names}
    return frozenset(found | (_pools_with_hope(new, snapshot, settings) if new else set()))


def _pools_with_hope(shapes: set[PodShape], snapshot: Snapshot, settings: Settings) -> set[str]:
    """All pools of a shape for which something that could hold it is for sale, within the limits."""
    market = open_market(snapshot, tuple(snapshot.pools), snapshot.offerings, {}, settings)
    possible = orders_possible(market, (*allowances_now(snapshot, settings), *market.bounds))
    names = [f"{each.pool} {each.offering.name} {each.offering.location}" for each in market.choices]
    buyable = [choice for choice, name in zip(market.choices, names, strict=True) if possible[name] > 0]
    reader, found = PoolReader(snapshot.pools, snapshot.offerings), set[str]()
    for shape in shapes:
        match, wished = reader.read(shape)
        if any(each.pool in match.names and could_hold(each, wished) for each in buyable):
            found |= set(match.names)
    return found


def holds_room(pod: Pod, snapshot: Snapshot, settings: Settings) -> bool:
    """Is the room it would take on nodes that stay no longer free? One that only others could place has its time."""
    if pod.deleted_at is not None or pod.is_gated:
        return False
    is_known = _is_known(pod, settings) and not pod.shape.uses_resource_claims
    return is_known or _is_new(pod, snapshot)


def is_unseen(pod: Pod, pool: str, snapshot: Snapshot, settings: Settings) -> bool:
    """Did it come a moment ago, and may its scheduler yet put it onto a node of this pool?"""
    is_fresh = snapshot.now - _LOOKED_AT_SECONDS < pod.created_at <= snapshot.now
    if not is_fresh or pod.unschedulable_at is not None or pod.deleted_at is not None or pod.is_gated:
        return False
    return _is_known(pod, settings) and pool in pools_for(pod.shape, snapshot.pools).names


def _is_known(pod: Pod, settings: Settings) -> bool:
    """Does growth know the rules of its scheduler?"""
    return pod.shape.scheduler_name in settings.schedulers or settings.scheduler.serves(pod.shape.scheduler_name)


def _is_new(pod: Pod, snapshot: Snapshot) -> bool:
    return snapshot.now - pod.created_at < _PLACED_WITHIN_SECONDS
