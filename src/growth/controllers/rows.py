"""The table of decisions: which plans run, in which order, and what they are called. Read by the loop; a new decision is a new row.

The order is that of a pod's life: finish what is on its way before anything new is bought, buy before anything is given back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from growth.plan import buffers, consolidation, orphans, poolstatus, provisioning, realising, removal, scaledown, scaleup

Plan = Callable[..., Any]


class Row(Struct, frozen=True):
    """One decision. `question` is set where the solver must answer before the plan can."""

    name: str
    plan: Plan
    settle: Plan
    first_ledger: Callable[[], Any]
    question: Plan | None = None


ROWS: Final = (
    Row("provisioning", provisioning.plan, provisioning.settle, provisioning.Ledger),
    Row("realising", realising.plan, realising.settle, realising.Ledger),
    Row("scale-up", scaleup.plan, scaleup.settle, scaleup.Ledger, scaleup.question),
    Row("scale-down", scaledown.plan, scaledown.settle, scaledown.Ledger),
    Row("consolidation", consolidation.plan, consolidation.settle, consolidation.Ledger),
    Row("removal", removal.plan, removal.settle, removal.Ledger),
    Row("orphans", orphans.plan, orphans.settle, orphans.Ledger),
    Row("pool status", poolstatus.plan, poolstatus.settle, poolstatus.Ledger),
    Row("buffers", buffers.plan, buffers.settle, buffers.Ledger),
)
