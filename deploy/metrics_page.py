"""The page docs/reference/metrics.md: every metric with its kind, labels and meaning, read from the registry that
serves them.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.runtime import SystemRuntime
from growth.plan.nodes_up import waiting
from growth.plan.nodes_up.demand import MALFORMED
from growth.plan.world import pools

INTRODUCTION = """# Metrics

`growth run` serves them for Prometheus at `/metrics` on its listening port. Series whose labels are known begin at 0. \
A process that does not lead shows
what there is, and decides nothing: read gauges with `max`. Dashboard and alerts of the chart are made from these.

| metric | kind | labels | meaning |
| --- | --- | --- | --- |
"""

REASONS = {
    pools.NO_POOL: "names no NodePool, and there is none called `default`",
    pools.MISSING_POOL: "names a NodePool that does not exist",
    pools.NAMESPACE_NOT_ALLOWED: "its NodePool does not serve its namespace",
    MALFORMED: "cannot be read",
    waiting.LIMITED: "a limit leaves no room for the machine it needs",
    waiting.RULES: "rules between pods keep it off everything that could be bought",
    waiting.NOT_FOR_SALE: "what would hold it is Unmet, out of stock, or its pool is paused or going",
    waiting.NOTHING_FITS: "nothing its pools list would hold it",
}

ENDING = """
## Why a pod is unplaced

The label `reason` of `growth_unplaced`. The pod's events say it in full.

| reason | the pod |
| --- | --- |
"""

CLOSING = """
## The process itself

On Linux also what Prometheus clients tell of any process: `process_cpu_seconds_total`, \
`process_resident_memory_bytes`, \
`process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds`.

This page is generated from the code: `python -m deploy.generate`.
"""


def names() -> dict[str, MetricWrapperBase]:
    """Every metric by the name under which it is served."""
    found = [metric for metric in vars(Metrics(SystemRuntime())).values() if isinstance(metric, MetricWrapperBase)]
    return {metric._name + ("_total" if isinstance(metric, Counter) else ""): metric for metric in found}


def metrics_page() -> str:
    rows = "".join(
        f"| `{name}` | {_kind(metric)} | {_labels(metric)} | {metric._documentation} |\n"
        for name, metric in sorted(names().items())
    )
    reasons = "".join(f"| {reason} | {meaning} |\n" for reason, meaning in REASONS.items())
    return INTRODUCTION + rows + ENDING + reasons + CLOSING


def _kind(metric: MetricWrapperBase) -> str:
    return next(
        word
        for kind, word in ((Counter, "counter"), (Gauge, "gauge"), (Histogram, "histogram"))
        if isinstance(metric, kind)
    )


def _labels(metric: MetricWrapperBase) -> str:
    return ", ".join(f"`{label}`" for label in metric._labelnames)
