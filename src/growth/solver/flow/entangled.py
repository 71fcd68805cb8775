"""Where do pods go that look at each other? What a flow cannot express, placed class by class in few steps, each as
large as the rules allow.

| rule | how many in one step |
| --- | --- |
| anti-affinity, host port, disk, attached volume | one into each domain (or machine) that is free |
| affinity, the first of its kind | one; then all the others, where the first is |
| spread over one key | domains rise to one level as far as they have room, at most `maxSkew` above the first full one |
| spread over more keys | as many as each domain may take while the emptiest stays as it is |
| preferred pods, ScheduleAnyway | an eighth, for the costs change with every pod |

Each step is valid in the order in which it raises the lowest first, so the rules hold for every pod when it is placed.

| preference | costs `preferenceCost` times |
| --- | --- |
| preferred affinity | its weight, in a domain without a matching pod |
| preferred anti-affinity | its weight, in a domain with one |
| spread, ScheduleAnyway | 100 / `maxSkew` for each matching pod in the domain |

The preferences of pods that run already are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from growth.model.pod import PodAffinityTerm, PodShape, TopologySpread
from growth.model.scheduler import SchedulerSettings
from growth.solver.arrays import MANY, FloatArray, IntArray, Mask
from growth.solver.flow.work import Member, Work
from growth.solver.rules import Neighbours
from growth.solver.rules.node_table import ABSENT, Column
from growth.solver.rules.pod_affinity import matching, read_terms, view
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import DomainCounter
from growth.solver.rules.spread import Constraint, matching_pods, read_constraint

_MOST_CELLS: Final = 100_000


@dataclass(slots=True)
class DomainLimit:
    """How many pods each domain of a column may take in this step."""

    codes: IntArray  # N
    most: IntArray  # by code
    is_by_machine: bool  # no two machines share a domain


class SpreadNow(NamedTuple):
    """One spread of a class, how many matching pods a domain may hold for one more to go there, and whether the class
    counts itself.
    """

    constraint: Constraint
    counter: DomainCounter
    most: int
    is_own: bool


def place_entangled(work: Work, members: list[Member]) -> None:
    """Classes in order, again and again while any finds a place: some need others to be placed first."""
    moved = True
    while moved:
        moved = False
        for member in members:
            while member.left and _step(work, member):
                moved = True


def _step(work: Work, member: Member) -> int:
    """One step of one class; returns how many were placed."""
    question = work.index.question(member.pod_class)
    own = {id(counter) for counter in work.index.counters_with(member.pod_class)}
    closing = [_closing(work, column) for column in dict.fromkeys(question.closes(lambda counter: id(counter) in own))]
    count = max(1, member.left // 8) if looks_for_pods(member.pod_class.shape) else member.left
    rule, spreads = question.spreads, list[SpreadNow]()
    if rule is not None:
        limits_now = enumerate(rule.constraints)
        spreads = [SpreadNow(*pair, rule.most_in(position), id(pair[1]) in own) for position, pair in limits_now]
    leading = _leading(work, closing, spreads)
    if leading is None:
        limits = closing + [_slack(work, each) for each in spreads if each.is_own]
        return _choose(work, member, question.fits() & work.is_open, limits, count)
    others = [each for each in spreads if each is not leading]
    mask = question.fits(rule) & work.is_open & _within(work, leading, others)
    limits = closing + [_slack(work, each) for each in others if each.is_own]
    capacity = _capacity(work, member, mask, limits, leading.counter.column)
    rising = _limit(work, leading.counter.column, _raised(leading, capacity, count))
    return _choose(work, member, mask, [*limits, rising], count)


def _within(work: Work, leading: SpreadNow, others: list[SpreadNow]) -> Mask:
    """Machines that have the keys of all spreads, and that all but the leading one let in now."""
    mask: Mask = _codes(work, leading.counter.column) != ABSENT
    for each in others:
        codes = _codes(work, each.counter.column)
        mask &= (codes != ABSENT) & (each.counter.sums[codes] <= each.most)
    return mask


def _codes(work: Work, column: Column) -> IntArray:
    return _read(work, column)[0]


def _read(work: Work, column: Column) -> tuple[IntArray, bool]:
    """Its codes, and whether no two machines share one: the same for all steps of a round."""
    known = work.columns.get(id(column))
    if known is None:
        codes: IntArray = column.codes[: len(work.index.table)].astype(np.int64)
        counted = np.bincount(codes[codes != ABSENT], minlength=1)
        known = work.columns[id(column)] = (codes, int(counted.max(initial=0)) <= 1)
    return known


def _limit(work: Work, column: Column, most: IntArray) -> DomainLimit:
    codes, is_by_machine = _read(work, column)
    return DomainLimit(codes, most, is_by_machine)


def _closing(work: Work, column: Column) -> DomainLimit:
    """One into each domain; machines without the label are not held to it."""
    most = np.ones(work.index.table.domain_count(column), np.int64)
    most[ABSENT] = MANY
    return _limit(work, column, most)


def _slack(work: Work, spread: SpreadNow) -> DomainLimit:
    """What each domain may take while the emptiest stays as it is."""
    return _limit(work, spread.counter.column, np.maximum(spread.most - spread.counter.sums + 1, 0))


def _leading(work: Work, closing: list[DomainLimit], spreads: list[SpreadNow]) -> SpreadNow | None:
    """The one spread that may rise level by level: all other limits must be by machine."""
    own = [each for each in spreads if each.is_own]
    wide = [each for each in own if not _read(work, each.counter.column)[1]]
    if any(not limit.is_by_machine for limit in closing) or len(wide) > 1:
        return None
    return wide[0] if wide else own[0] if len(own) == 1 else None


def _by_machine(limits: list[DomainLimit], room: IntArray) -> IntArray:
    for limit in limits:
        if limit.is_by_machine:
            room = np.minimum(room, limit.most[limit.codes])
    return room


def _capacity(work: Work, member: Member, mask: Mask, limits: list[DomainLimit], column: Column) -> IntArray:
    """How many more pods each domain has room for."""
    room = _by_machine(limits, _room(work, member, mask))
    codes, size = _codes(work, column), work.index.table.domain_count(column)
    return np.bincount(codes, weights=np.minimum(room, member.left), minlength=size).astype(np.int64)


def _room(work: Work, member: Member, mask: Mask) -> IntArray:
    room = np.zeros(len(mask), np.int64)
    inside = np.flatnonzero(mask)
    room[inside] = work.fleet.room_on(member.pod_class, inside)
    return room


def _raised(spread: SpreadNow, capacity: IntArray, count: int) -> IntArray:
    """How many pods each domain gets when the lowest are raised first."""
    constraint, size = spread.constraint, len(capacity)
    counts, is_counted = spread.counter.sums[:size], spread.counter.present[:size] > 0
    most = np.where(is_counted, 0, MANY)  # pods in domains that do not count are held to nothing
    within = np.flatnonzero(is_counted)
    here, highest = counts[within], counts[within] + capacity[within]
    fewest = int(highest.min()) if len(within) and len(within) >= constraint.minimum_domains else 0
    highest = np.minimum(highest, fewest + constraint.stated.max_skew)
    low, high = 0, int(highest.max(initial=0))
    while low < high:  # the highest level that `count` pods can reach
        level = (low + high + 1) // 2
        if int(np.maximum(np.minimum(highest, level) - here, 0).sum()) <= count:
            low = level
        else:
            high = level - 1
    gets = np.maximum(np.minimum(highest, low) - here, 0)
    rest = np.flatnonzero((highest > low) & (here <= low))[: max(0, count - int(gets.sum()))]
    gets[rest] += 1
    most[within] = gets
    return most


# ----------------------------------------------------------------------------------- which machines


def _choose(work: Work, member: Member, mask: Mask, limits: list[DomainLimit], count: int) -> int:
    """The cheapest machines within the limits."""
    room = _by_machine(limits, _room(work, member, mask))
    numbers = np.flatnonzero(room > 0)
    if not len(numbers):
        return 0
    costs = work.costs_for([member])
    wide = [limit for limit in limits if not limit.is_by_machine]
    if not wide:
        return work.put_alone(member, numbers, room[numbers], count, costs, *_dislikes(work, member, numbers))
    cells, cell_of = _cells([limit.codes[numbers] for limit in wide])
    first = sum(_dislikes(work, member, numbers), costs.first(costs.unit[numbers], costs.load[numbers], numbers))
    cheapest = np.full(len(cells), np.inf)
    np.minimum.at(cheapest, cell_of, first)
    placed = 0
    for cell in np.argsort(cheapest, kind="stable").tolist():
        codes = cells[cell]
        allowed = min(count - placed, *(int(limit.most[code]) for limit, code in zip(wide, codes, strict=True)))
        if allowed > 0:
            here = numbers[cell_of == cell]
            dislikes = _dislikes(work, member, here)
            taken = work.put_alone(member, here, room[here], allowed, costs, *dislikes)
            for limit, code in zip(wide, codes, strict=True):
                limit.most[code] -= taken
            placed += taken
    return placed


def _cells(codes: list[IntArray]) -> tuple[list[list[int]], IntArray]:
    """The combinations of codes that there are, in their order, and which of them each machine has."""
    together = codes[0]
    for each in codes[1:]:
        together = together * (int(each.max(initial=0)) + 1) + each
    if int(together.max(initial=0)) > _MOST_CELLS:
        _, first, cell_of = np.unique(together, return_index=True, return_inverse=True)
    else:  # the same without sorting
        found = np.zeros(int(together.max(initial=0)) + 1, np.int64)
        found[together[::-1]] = np.arange(len(together))[::-1]
        there = np.flatnonzero(np.bincount(together))
        first, numbers = found[there], np.zeros(len(found), np.int64)
        numbers[there] = np.arange(len(there))
        cell_of = numbers[together]
    return [[int(each[number]) for each in codes] for number in first], cell_of.reshape(-1)


def _dislikes(work: Work, member: Member, numbers: IntArray) -> tuple[FloatArray, FloatArray]:
    """What the pod dislikes about each machine, and about the pods around it."""
    dislike = work.fleet.dislike(member.pod_class, work.settings)[numbers].astype(np.float64)
    return dislike, preference_cost(work.index, member.pod_class, numbers, work.settings)


# -------------------------------------------------------------------------------------- preferences


def looks_for_pods(shape: PodShape) -> bool:
    """Does the pod prefer to be beside other pods, or away from them?"""
    return bool(shape.preferred_affinity or shape.preferred_anti_affinity or any(_soft_spreads(shape)))


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
    """Begin to count for these preferences, before anything is placed: a counter begins with what is in the index."""
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
    term = read_terms((stated,), pod_class.namespace, index.namespaces)[0]
    column = index.table.column(term.topology_key)
    return index.counter(("apart", term), lambda: DomainCounter(index.table, column, matching(term), view([term])))


def _spread_counter(index: Neighbours, pod_class: PodClass, spread: TopologySpread) -> DomainCounter:
    selector, namespace = read_constraint(spread, pod_class.shape).selector, pod_class.namespace
    column, weight = index.table.column(spread.topology_key), matching_pods(selector, namespace)
    key = ("soft spread", namespace, selector, spread.topology_key)
    return index.counter(key, lambda: DomainCounter(index.table, column, weight, frozenset((namespace,))))
