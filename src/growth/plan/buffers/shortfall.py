"""Why is nothing bought for a buffer that lacks room? Asked by the buffers' status; scale-up finds the same out from
the solver.

| what stands in the way | said |
| --- | --- |
| it may use no pool | why |
| no server type of its pools can hold a chunk | the types are too small, or selectors and taints keep it away |
| all that could is Unmet, out of stock, or its pool buys nothing | that |
| limits leave no room for one more node | that |
"""

from __future__ import annotations

from collections.abc import Mapping

from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.virtual_pods import Spare
from growth.plan.world.limits import allowances, members
from growth.plan.world.market import Market, open_market, orders_possible
from growth.plan.world.pools import choice_labels, daemon_shapes, offerings_of, serving_taints, why_not_buying
from growth.solver.purchase.problem import Choice
from growth.solver.rules.fit import free_amounts, is_enough, may_run_on


class Shortfall:
    """Looks at pools and limits once, and only if some buffer lacks room."""

    def __init__(self, snapshot: Snapshot, settings: Settings, missing: Mapping[str, int]) -> None:
        self._snapshot, self._settings = snapshot, settings
        self._market, self._possible = Market((), {}, None), dict[str, int]()
        if missing:
            self._market = open_market(snapshot, tuple(snapshot.pools), snapshot.offerings, {}, settings)
            self._possible = orders_possible(
                self._market, allowances(snapshot.pools, settings.limits, members(snapshot))
            )

    def why_not_bought(self, spare: Spare) -> str:
        """Empty: it can be bought, and will be."""
        pools = ", ".join(spare.pools)
        if not spare.pools:
            return spare.problem
        closed = [why_not_buying(self._snapshot.pools[name], self._settings.is_paused) for name in spare.pools]
        if all(closed):
            return "; ".join(dict.fromkeys(closed))
        if not any(self._can_hold(spare, name) for name in spare.pools):
            return f"no server type of NodePool {pools} can hold a chunk that asks for {spare.shape.requests}"
        fitting = [
            choice for choice in self._market.choices if choice.pool in spare.pools and _has_room_for(choice, spare)
        ]
        if not fitting:
            return f"everything in NodePool {pools} that could hold a chunk is Unmet or out of stock"
        orders = (
            self._possible[f"{choice.pool} {choice.offering.name} {choice.offering.location}"] for choice in fitting
        )
        return "" if any(orders) else f"the limits of NodePool {pools} leave no room for one more node"

    def _can_hold(self, spare: Spare, name: str) -> bool:
        pool = self._snapshot.pools[name]
        for offering in offerings_of(pool, self._snapshot.offerings):
            labels, taints = choice_labels(pool, offering), serving_taints(pool)
            free = free_amounts(offering.allocatable, daemon_shapes(self._snapshot.daemon_sets, labels, taints))
            if is_enough(free, spare.shape) and may_run_on(spare.shape, labels, taints):
                return True
        return False


def _has_room_for(choice: Choice, spare: Spare) -> bool:
    free = free_amounts(choice.offering.allocatable, choice.daemons)
    return is_enough(free, spare.shape) and may_run_on(spare.shape, choice.labels, choice.taints)
