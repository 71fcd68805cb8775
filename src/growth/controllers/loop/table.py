"""The table of decisions: which plans run, in which order, and what they are called. Read by the loop; a new decision
is a new row.

The order is that of a pod's life: finish what is on its way before anything new is bought, buy before anything is given
back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from growth.controllers.loop.metrics import Metrics
from growth.plan import pool_status
from growth.plan.buffers import status
from growth.plan.flow import scheduling
from growth.plan.flow.keeper import Keeper, answer_anew
from growth.plan.nodes_down import consolidation, orphans, removal, renewal, replacement, scale_down
from growth.plan.nodes_up import joining, provisioning, scale_up
from growth.plan.warm_pools import warm_pools
from growth.solver.existing.exchange import exchange, no_exchange
from growth.solver.purchase.solve import solve, solve_greedily

Plan = Callable[..., Any]


def measure_warm_pools(metrics: Metrics, ledger: warm_pools.Ledger, seconds: float) -> None:
    metrics.looked_at_warm_pools(ledger.looked.unchanged, ledger.looked.failed, ledger.looked.samples, seconds)


def measure_scale_up(metrics: Metrics, ledger: scale_up.Ledger, _seconds: float) -> None:
    metrics.gap.set(ledger.gap)
    missed = (wait.reason for wait in ledger.waits.values() if wait.reason)
    metrics.count_unplaced(Counter([*missed, *(said.partition(":")[0] for said in ledger.told.values())]))


class Row(Struct, frozen=True):
    """One decision. `question` is set where the solver must answer before the plan can, `keeper` where who answers has
    a memory: it is asked beside the loop, and the plan sees the snapshot of when the answer is there. `measure` is set
    where a look has counts of its own. The name is the label `row` of metrics, so it stays when a module is renamed.
    """

    name: str
    plan: Plan
    settle: Plan
    first_ledger: Callable[[], Any]
    question: Plan | None = None
    answer: Callable[[Any], Any] = solve  # answers the question's problem, in the worker process
    simpler_answer: Callable[[Any], Any] = solve_greedily  # where the answer does not come in time
    keeper: Callable[[], Callable[[Any], Any]] | None = None  # begins who answers the problem's parts, one by one
    measure: Callable[[Metrics, Any, float], None] | None = None  # what is in the ledger after a look, and its seconds


ROWS: Final = (
    Row("provisioning", provisioning.plan, provisioning.settle, provisioning.Ledger),
    Row("realising", joining.plan, joining.settle, joining.Ledger),
    Row(
        "scheduling",
        scheduling.plan,
        scheduling.settle,
        scheduling.Ledger,
        scheduling.question,
        answer_anew,
        keeper=Keeper,
    ),
    Row("scale-up", scale_up.plan, scale_up.settle, scale_up.Ledger, scale_up.question, measure=measure_scale_up),
    Row("scale-down", scale_down.plan, scale_down.settle, scale_down.Ledger),
    Row("consolidation", consolidation.plan, consolidation.settle, consolidation.Ledger),
    Row(
        "replacement",
        replacement.plan,
        replacement.settle,
        replacement.Ledger,
        replacement.question,
        exchange,
        no_exchange,
    ),
    Row("renewal", renewal.plan, renewal.settle, renewal.Ledger, renewal.question, exchange, no_exchange),
    Row("removal", removal.plan, removal.settle, removal.Ledger),
    Row("orphans", orphans.plan, orphans.settle, orphans.Ledger),
    Row("pool status", pool_status.plan, pool_status.settle, pool_status.Ledger),
    Row("buffers", status.plan, status.settle, status.Ledger),
    Row("warm pools", warm_pools.plan, warm_pools.settle, warm_pools.Ledger, measure=measure_warm_pools),
)
