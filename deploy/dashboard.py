"""What should a person see of growth at a glance? The Grafana dashboard, as a table of panels."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

Json = dict[str, Any]

_WIDTH: Final = 8  # of 24
_HEIGHT: Final = 7


class Panel(Struct, frozen=True):
    """One chart: its queries as (PromQL, legend). Both replicas know the objects, so gauges of objects are read with
    max.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"


def _quantile(share: str, metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[5m])))"


PANELS: Final = (
    Panel("Nodes", (("max by (pool, offering) (growth_nodes)", "{{pool}} {{offering}}"),)),
    Panel("Price per hour", (("max by (pool) (sum by (pool, pod) (growth_price_per_hour))", "{{pool}}"),)),
    Panel("Machines bought in an hour", (("sum by (pool) (increase(growth_machines_bought_total[1h]))", "{{pool}}"),)),
    Panel("Machines in vain within a day", (("max by (pool) (growth_machines_in_vain)", "{{pool}}"),)),
    Panel("Money spent in vain within a day", (("max by (pool) (growth_price_in_vain)", "{{pool}}"),)),
    Panel("Failing pools", (("max by (pool) (growth_pool_failing)", "{{pool}}"),)),
    Panel("Pods that need a place", (("max(growth_demands)", "demands"),)),
    Panel("Pods without a place", (("max by (reason) (growth_unplaced)", "{{reason}}"),)),
    Panel("NodeRequests", (("max by (phase) (growth_node_requests)", "{{phase}}"),)),
    Panel("NodeRemovalRequests", (("max by (phase) (growth_node_removal_requests)", "{{phase}}"),)),
    Panel("Orphaned machines", (("max(growth_orphaned_machines)", "machines"),)),
    Panel("Warnings", (('sum by (reason) (increase(growth_notes_total{severity="Warning"}[5m]))', "{{reason}}"),)),
    Panel(
        "From request to Ready",
        (
            (_quantile("0.5", "growth_node_ready_duration_seconds"), "half"),
            (_quantile("0.95", "growth_node_ready_duration_seconds"), "95 %"),
        ),
        "s",
    ),
    Panel(
        "From the decision to remove a node until it is gone, 95 %",
        ((_quantile("0.95", "growth_node_removal_duration_seconds"), "95 %"),),
        "s",
    ),
    Panel("Actions", (("sum by (action, outcome) (rate(growth_actions_total[5m]))", "{{action}} {{outcome}}"),), "ops"),
    Panel(
        "Calls to the provider",
        (("sum by (call, outcome) (rate(growth_provider_calls_total[5m]))", "{{call}} {{outcome}}"),),
        "ops",
    ),
    Panel("Buffers", (("max by (state) (growth_buffers)", "{{state}}"),)),
    Panel(  # the namespace is the buffer's; Prometheus keeps its own under that name
        "Spare pods",
        (("max by (exported_namespace, buffer) (growth_buffer_virtual_pods)", "{{exported_namespace}}/{{buffer}}"),),
    ),
    Panel(
        "Warm pools",
        (("sum by (action, error) (rate(growth_poolautoscaler_reconciliations_total[5m]))", "{{action}} {{error}}"),),
        "ops",
    ),
    Panel("Loop, 99 %", ((_quantile("0.99", "growth_loop_duration_seconds", "row"), "{{row}}"),), "s"),
    Panel("Solver, 99 %", ((_quantile("0.99", "growth_solve_duration_seconds"), "solve"),), "s"),
    Panel("Oldest cache", (("max by (pod) (growth_cache_age_seconds)", "{{pod}}"),), "s"),
    Panel("Errors of growth's own", (("sum by (row) (increase(growth_loop_failures_total[5m]))", "{{row}}"),)),
    Panel("Leading", (("growth_leader", "{{pod}}"),)),
)


def dashboard() -> Json:
    return {
        "uid": "growth",
        "title": "growth",
        "tags": ["growth"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}]
        },
        "panels": [_panel(place, panel) for place, panel in enumerate(PANELS)],
    }


def _panel(place: int, panel: Panel) -> Json:
    row, column = divmod(place, 24 // _WIDTH)
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": source, "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }
