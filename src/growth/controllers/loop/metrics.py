"""What growth measures of itself, in Prometheus' words. Written by the loop, apply and the journal; read at /metrics.

Each installation has a registry of its own, so that many can live in one process (the embedded cluster runs several).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, get_args, get_type_hints

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from growth.model.noderequest import RemovalPhase, RequestPhase
from growth.model.outcome import Outcome
from growth.model.resources import CPU, MEMORY
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import BufferPlacement
from growth.plan.nodes_up import waiting
from growth.plan.nodes_up.demand import MALFORMED
from growth.plan.world import pools
from growth.plan.world.brake import Brake
from growth.plan.world.nodes import Prices
from growth.plan.world.pools import by_key
from growth.plan.world.trials import standings
from growth.runtime import Runtime

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BLINKS = (0.00001, 0.0001, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0)
_MINUTES = (5, 15, 30, 60, 120, 300, 600, 1200, 3600)

_OF_BUFFER = ("namespace", "buffer")
_ENDING = ("action", "error")
_BUFFER_STATES = ("Provisioned", "Waiting", "Empty", "Failed")

UNPLACED = (*pools.REASONS, MALFORMED, *waiting.REASONS)


class Performed:
    """An action under measurement; its outcome is filled in when known."""

    outcome: Outcome | None = None


class Metrics:
    """The table of metrics: kind, name, what it counts, labels, buckets. Below it, how they are written."""

    rows: Annotated[Histogram, "growth_loop_duration_seconds", "Time one row of the loop took.", ("row",), _SECONDS]
    failures: Annotated[
        Counter, "growth_loop_failures_total", "Turns that ended in an error of growth's own.", ("row",)
    ]
    solves: Annotated[Histogram, "growth_solve_duration_seconds", "Time one question to the solver took.", (), _SECONDS]
    actions: Annotated[Counter, "growth_actions_total", "Actions performed, by outcome.", ("action", "outcome")]
    action_seconds: Annotated[
        Histogram, "growth_action_duration_seconds", "Time one action took.", ("action",), _SECONDS
    ]
    provider_calls: Annotated[
        Counter, "growth_provider_calls_total", "Calls to the provider, by outcome.", ("call", "outcome")
    ]
    demands: Annotated[
        Gauge,
        "growth_demands",
        "Pods that need a place and that growth may find one for, those with a node on its way included.",
    ]
    unplaced: Annotated[Gauge, "growth_unplaced", "Pods that growth found no place for, by reason.", ("reason",)]
    notes: Annotated[Counter, "growth_notes_total", "What growth had to say, by reason.", ("reason", "severity")]
    safety_failures: Annotated[
        Counter,
        "growth_safety_check_failures_total",
        "Nodes that stayed because a check failed, at each look, by the check.",
        ("check_type", "nodepool"),
    ]
    nodes: Annotated[Gauge, "growth_nodes", "Nodes by pool and offering.", ("pool", "offering")]
    price: Annotated[Gauge, "growth_price_per_hour", "What the nodes cost per hour.", ("pool", "offering")]
    gap: Annotated[
        Gauge,
        "growth_purchase_gap_ratio",
        "How far the last purchase was above the proven lower bound: 0.01 is 1 %. For one or two machines it is large.",
    ]
    bought: Annotated[Counter, "growth_machines_bought_total", "Machines that were ordered and granted.", ("pool",)]
    failing: Annotated[
        Gauge, "growth_pool_failing", "1 while a pool buys nothing, since machines came in vain.", ("pool",)
    ]
    braked: Annotated[
        Gauge, "growth_pool_braked", "1 while many nodes fail, so that none is given up and little bought.", ("pool",)
    ]
    in_vain: Annotated[
        Gauge, "growth_machines_in_vain", "Machines of the last day that were of no use to anybody.", ("pool",)
    ]
    price_in_vain: Annotated[
        Gauge, "growth_price_in_vain", "What these cost, each for one hour: started hours are billed.", ("pool",)
    ]
    requests: Annotated[Gauge, "growth_node_requests", "NodeRequests by phase.", ("phase",)]
    removals: Annotated[Gauge, "growth_node_removal_requests", "NodeRemovalRequests by phase.", ("phase",)]
    orphans: Annotated[Gauge, "growth_orphaned_machines", "Machines of ours that no object speaks of."]
    ready_seconds: Annotated[
        Histogram, "growth_node_ready_duration_seconds", "From request to a Ready node.", ("offering",), _MINUTES
    ]
    removal_seconds: Annotated[
        Histogram,
        "growth_node_removal_duration_seconds",
        "From the decision to remove a node until it and its machine are gone.",
        ("offering",),
        _MINUTES,
    ]
    cache_age: Annotated[
        Gauge, "growth_cache_age_seconds", "Time since a cache was last proved up to date.", ("resource",)
    ]
    buffers: Annotated[Gauge, "growth_buffers", "CapacityBuffers by state.", ("state",)]
    buffer_pods: Annotated[Gauge, "growth_buffer_virtual_pods", "Virtual pods of a CapacityBuffer.", _OF_BUFFER]
    buffer_cpu: Annotated[
        Gauge, "growth_buffer_capacity_cpu_cores", "What the virtual pods that have room ask for.", _OF_BUFFER
    ]
    buffer_memory: Annotated[
        Gauge, "growth_buffer_capacity_memory_bytes", "What the virtual pods that have room ask for.", _OF_BUFFER
    ]
    buffer_nodes: Annotated[Gauge, "growth_buffer_nodes", "Nodes on which a CapacityBuffer has room.", _OF_BUFFER]
    buffer_blocked: Annotated[
        Counter, "growth_buffer_consolidation_blocked_total", "Idle nodes that stayed because a buffer needs them."
    ]
    reconciliations: Annotated[
        Counter,
        "growth_poolautoscaler_reconciliations_total",
        "Looks at a PoolAutoscaler, by what came of them.",
        _ENDING,
    ]
    reconciliation_seconds: Annotated[
        Histogram,
        "growth_poolautoscaler_reconciliation_duration_seconds",
        "Time one look at a PoolAutoscaler took, its write included.",
        _ENDING,
        _BLINKS,
    ]
    observations: Annotated[Counter, "growth_poolautoscaler_observations_total", "Samples taken for capacity policies."]
    leads: Annotated[Gauge, "growth_leader", "1 while this process leads."]
    ready: Annotated[Gauge, "growth_ready", "1 while this process would act if it led, as `/readyz` says."]
    solver_timeouts: Annotated[
        Counter, "growth_solver_timeouts_total", "Questions that the solver did not answer in time.", ("row",)
    ]
    task_restarts: Annotated[
        Counter, "growth_task_restarts_total", "Tasks of growth that ended by a mistake and were begun anew.", ("task",)
    ]

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.registry = CollectorRegistry()
        self._row_series: dict[str, Histogram] = {}
        for attribute, declared in get_type_hints(Metrics, include_extras=True).items():
            kind, name, about, *rest = get_args(declared)
            given = dict(zip(("labelnames", "buckets"), rest, strict=False))
            setattr(self, attribute, kind(name, about, registry=self.registry, **given))
        self._begin()

    def _begin(self) -> None:
        """Series whose labels are known begin at 0: an increase from nothing is no increase."""
        for action in ("scale_up", "scale_down", "none"):
            self.reconciled(action, "none", 0.0, 0)
        self.reconciled("none", "internal", 0.0, 0)
        for call in ("launch", "delete"):
            for outcome in get_args(Outcome):
                self.provider_calls.labels(call, outcome.__name__)
        for call in ("offerings", "list", "describe"):
            for ending in ("Accepted", "ProviderError"):
                self.provider_calls.labels(call, ending)
        self.count_unplaced({})

    def expect(self, rows: Iterable[str], actions: Iterable[str]) -> None:
        """The rows and actions there are."""
        for row in rows:
            self.failures.labels(row)
            self.rows.labels(row)
            self.solver_timeouts.labels(row)
        for action in actions:
            self.action_seconds.labels(action)
            for outcome in get_args(Outcome):
                self.actions.labels(action, outcome.__name__)

    @contextmanager
    def time(self, histogram: Histogram) -> Iterator[None]:
        began_at = self._runtime.monotonic()
        try:
            yield
        finally:
            histogram.observe(self._runtime.monotonic() - began_at)

    def looked(self, row: str, seconds: float) -> None:
        """One look of a row. Its series is kept: to find it by its label takes longer than many a look."""
        if row not in self._row_series:
            self._row_series[row] = self.rows.labels(row)
        self._row_series[row].observe(seconds)

    @contextmanager
    def time_action(self, name: str) -> Iterator[Performed]:
        performed, began_at = Performed(), self._runtime.monotonic()
        try:
            yield performed
        finally:
            self.action_seconds.labels(name).observe(self._runtime.monotonic() - began_at)
            self.actions.labels(name, type(performed.outcome).__name__).inc()

    def count(self, snapshot: Snapshot) -> None:
        """Set the gauges of what there is now; what is no longer there disappears."""
        for gauge in (self.nodes, self.price, self.requests, self.removals):
            gauge.clear()
        prices, found = Prices(snapshot), dict[tuple[str, str], list[float]]()
        for node in snapshot.nodes.values():
            if node.pool:
                found.setdefault((node.pool, node.offering), []).append(prices.price(node))
        for kind, spent in found.items():
            self.nodes.labels(*kind).set(len(spent))
            self.price.labels(*kind).set(sum(spent))
        self._count_in_vain(snapshot)
        for phase in get_args(RequestPhase):
            self.requests.labels(phase)
        for request in snapshot.requests.values():
            self.requests.labels(request.phase).inc()
        for phase in get_args(RemovalPhase):
            self.removals.labels(phase)
        for removal in snapshot.removals.values():
            self.removals.labels(removal.phase).inc()

    def _count_in_vain(self, snapshot: Snapshot) -> None:
        for gauge in (self.failing, self.braked, self.in_vain, self.price_in_vain):
            gauge.clear()
        sold, brake = by_key(snapshot.offerings), Brake(snapshot)
        for name, standing in standings(snapshot).items():
            self.bought.labels(name)
            self.failing.labels(name).set(standing.is_failing)
            self.braked.labels(name).set(bool(brake.why(name)))
            self.in_vain.labels(name).set(len(standing.places_in_vain))
            spent = sum(sold[place].price_per_hour for place in standing.places_in_vain if place in sold)
            self.price_in_vain.labels(name).set(spent)

    def count_unplaced(self, counts: Mapping[str, int]) -> None:
        for reason in UNPLACED:
            self.unplaced.labels(reason).set(counts.get(reason, 0))

    def count_buffers(self, kept: BufferPlacement, *, names_them: bool = False) -> None:
        """Set the gauges of buffers; those that are gone disappear. Without names all count together."""
        for gauge in (self.buffers, self.buffer_pods, self.buffer_cpu, self.buffer_memory, self.buffer_nodes):
            gauge.clear()
        for state in _BUFFER_STATES:
            self.buffers.labels(state)
        for spare in kept.buffers:
            place = (spare.buffer.namespace, spare.buffer.name) if names_them else ("", "")
            standing = kept.standing.get(spare.key, 0)
            self.buffers.labels(_buffer_state(spare.size.reason, spare.count, standing)).inc()
            self.buffer_pods.labels(*place).inc(spare.count)
            self.buffer_cpu.labels(*place).inc(standing * spare.shape.requests[CPU] / 1000)
            self.buffer_memory.labels(*place).inc(standing * spare.shape.requests[MEMORY])
            self.buffer_nodes.labels(*place).inc(sum(spare.key in counts for counts in kept.by_node.values()))

    def reconciled(self, action: str, error: str, seconds: float, count: int = 1) -> None:
        """So many looks at PoolAutoscalers ended like this, after so many seconds each."""
        self.reconciliations.labels(action, error).inc(count)
        histogram = self.reconciliation_seconds.labels(action, error)
        for _ in range(count):
            histogram.observe(seconds)

    def looked_at_warm_pools(self, unchanged: int, failed: int, samples: int, seconds: float) -> None:
        """What one pass over the PoolAutoscalers did, apart from those it scales."""
        each = seconds / unchanged if unchanged else 0.0
        self.reconciled("none", "internal", each, failed)
        self.reconciled("none", "none", each, unchanged - failed)
        self.observations.inc(samples)

    def provider_call(self, call: str, outcome: object) -> None:
        self.provider_calls.labels(call, type(outcome).__name__).inc()


def _buffer_state(reason: str, count: int, standing: int) -> str:
    if reason == "BufferEmpty":
        return "Empty"
    if reason != "AttributesSetSuccessfully":
        return "Failed"
    return "Provisioned" if standing == count else "Waiting"
