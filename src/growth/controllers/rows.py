"""The table of decisions: which plans run, in which order, and what they are called. Read by the loop; a new decision is a new row.

The order is that of a pod's life: finish what is on its way before anything new is bought, buy before anything is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from growth.controllers.metrics import Metrics
from growth.plan import (
    buffers,
    consolidation,
    orphans,
    poolstatus,
    provisioning,
    realising,
    removal,
    renewal,
    replacement,
    scaledown,
    scaleup,
    scheduling,
    warmpools,
)
from growth.solver.existing.exchange import exchange
from growth.solver.purchase.solve import solve

Plan = Callable[..., Any]


def measure_warm_pools(metrics: Metrics, ledger: warmpools.Ledger, seconds: float) -> None:
    metrics.looked_at_warm_pools(ledger.looked.unchanged, ledger.looked.failed, ledger.looked.samples, seconds)


def measure_scale_up(metrics: Metrics, ledger: scaleup.Ledger, _seconds: float) -> None:
    missed = (wait.reason for wait in ledger.waits.values() if not wait.lodged_on)
    metrics.count_unplaced(Counter([*missed, *(said.partition(":")[0] for said in ledger.told.values())]))


class Row(Struct, frozen=True):
    """One decision. `question` is set where the solver must answer before the plan can, `measure` where a pass has counts of its own."""

    name: str
    plan: Plan
    settle: Plan
    first_ledger: Callable[[], Any]
    question: Plan | None = None
    answer: Callable[[Any], Any] = solve  # answers the question's problem, in the worker process
    measure: Callable[[Metrics, Any, float], None] | None = None  # what a pass left in the ledger, and the seconds it took
    without_timers: Callable[[Any], Any] | None = None  # what of a ledger outlives a clock that went back; unset: nothing

    def renewed(self, ledger: Any) -> Any:
        """The ledger after the clock went back."""
        return self.first_ledger() if self.without_timers is None else self.without_timers(ledger)


ROWS: Final = (
    Row("provisioning", provisioning.plan, provisioning.settle, provisioning.Ledger),
    Row("realising", realising.plan, realising.settle, realising.Ledger),
    Row("scheduling", scheduling.plan, scheduling.settle, scheduling.Ledger),
    Row("scale-up", scaleup.plan, scaleup.settle, scaleup.Ledger, scaleup.question, measure=measure_scale_up, without_timers=scaleup.without_timers),
    Row("scale-down", scaledown.plan, scaledown.settle, scaledown.Ledger),
    Row("consolidation", consolidation.plan, consolidation.settle, consolidation.Ledger),
    Row("replacement", replacement.plan, replacement.settle, replacement.Ledger, replacement.question, exchange),
    Row("renewal", renewal.plan, renewal.settle, renewal.Ledger, renewal.question, exchange),
    Row("removal", removal.plan, removal.settle, removal.Ledger),
    Row("orphans", orphans.plan, orphans.settle, orphans.Ledger),
    Row("pool status", poolstatus.plan, poolstatus.settle, poolstatus.Ledger),
    Row("buffers", buffers.plan, buffers.settle, buffers.Ledger),
    Row("warm pools", warmpools.plan, warmpools.settle, warmpools.Ledger, measure=measure_warm_pools),
)
