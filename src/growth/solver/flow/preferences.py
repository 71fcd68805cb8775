"""What does a pod's wish to stand beside others, or away from them, cost on a machine? Asked while pods that look at
each other are placed.

| wish | costs `preferenceCost` times |
| --- | --- |
| preferred affinity | its weight, in a domain without a matching pod |
| preferred anti-affinity | its weight, in a domain with one |
| spread, ScheduleAnyway | 100 / `maxSkew` for each matching pod in the domain |

The wishes of pods that run already are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from growth.model.pod import PodAffinityTerm, PodShape, TopologySpread
from growth.model.settings import SchedulerSettings
from growth.solver.arrays import FloatArray, IntArray
from growth.solver.rules import Neighbours
from growth.solver.rules.node_table import ABSENT
from growth.solver.rules.pod_affinity import Term, matching, read_terms, view
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import DomainCounter
from growth.solver.rules.spread import matching_pods, read_constraint


def looks_for_pods(shape: PodShape) -> bool:
    """Does it wish to stand beside other pods, or away from them?"""
    return bool(shape.preferred_affinity or shape.preferred_anti_affinity or any(True for _ in _soft_spreads(shape)))


def preference_cost(
    index: Neighbours, pod_class: PodClass, numbers: IntArray, settings: SchedulerSettings
) -> FloatArray:
    cost = np.zeros(len(numbers))
    shape = pod_class.shape
    for preferred in shape.preferred_affinity:
        cost += preferred.weight * (_matching_on(_term_counter(index, pod_class, preferred.term), numbers) == 0)
    for preferred in shape.preferred_anti_affinity:
        cost += preferred.weight * (_matching_on(_term_counter(index, pod_class, preferred.term), numbers) > 0)
    for spread in _soft_spreads(shape):
        cost += 100.0 / spread.max_skew * _matching_on(_spread_counter(index, pod_class, spread), numbers)
    return cost * settings.preference_cost


def open_counters(index: Neighbours, pod_class: PodClass) -> None:
    """Begin to count for these wishes: before anything is placed, for a counter begins with what stands in the books."""
    shape = pod_class.shape
    for preferred in (*shape.preferred_affinity, *shape.preferred_anti_affinity):
        _term_counter(index, pod_class, preferred.term)
    for spread in _soft_spreads(shape):
        _spread_counter(index, pod_class, spread)


def _soft_spreads(shape: PodShape) -> Iterator[TopologySpread]:
    return (spread for spread in shape.spread if spread.when_unsatisfiable != "DoNotSchedule")


def _matching_on(counter: DomainCounter, numbers: IntArray) -> IntArray:
    codes = counter.column.codes[numbers]
    counter.catch_up()
    return np.where(codes == ABSENT, 0, counter.sums[codes])


def _term_counter(index: Neighbours, pod_class: PodClass, stated: PodAffinityTerm) -> DomainCounter:
    term: Term = read_terms((stated,), pod_class.namespace, index.namespaces)[0]
    column = index.table.column(term.topology_key)
    return index.counter(("apart", term), lambda: DomainCounter(index.table, column, matching(term), view([term])))


def _spread_counter(index: Neighbours, pod_class: PodClass, spread: TopologySpread) -> DomainCounter:
    selector, namespace = read_constraint(spread, pod_class.shape).selector, pod_class.namespace
    column = index.table.column(spread.topology_key)
    key = ("soft spread", namespace, selector, spread.topology_key)
    return index.counter(
        key, lambda: DomainCounter(index.table, column, matching_pods(selector, namespace), frozenset((namespace,)))
    )
