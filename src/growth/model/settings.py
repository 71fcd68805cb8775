"""Every number a plan depends on, in one place, with its default. One settings file, flags and environment lay over it.

Asked by all plans; filled by the command line. Seconds everywhere.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from growth.model.nodepool import PoolLimits

Span = Annotated[float, Meta(ge=0, le=31_536_000)]


class Settings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the core needs to know of its operator's wishes."""

    batch_quiet_seconds: Span = 1.0
    batch_longest_seconds: Span = 10.0
    misses_before_backoff: Annotated[int, Meta(ge=1, le=100)] = 3
    backoff_first_seconds: Span = 30.0
    backoff_longest_seconds: Span = 600.0
    readiness_wait_seconds: Span = 300.0
    unmet_seconds: Span = 120.0
    unmet_longest_seconds: Span = 600.0
    ready_record_seconds: Span = 600.0
    scale_down_delay_seconds: Span = 60.0
    removal_retry_seconds: Span = 60.0
    removal_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    machine_collection_grace_seconds: Span = 600.0
    bind_settle_seconds: Span = 1.0
    priority_cutoff: int = -10
    is_paused: bool = False
    solve_budget_seconds: Annotated[float, Meta(gt=0, le=60)] = 1.0
    node_price_per_hour: Annotated[float, Meta(ge=0)] = 0.0  # what a node costs beside its machine: licences, addresses
    limits: PoolLimits = PoolLimits()  # of all pools together
