"""Where does every pod go, and what is bought for it, as cheaply as can be? Asked by scale-up, what-if, consolidation
and `growth plan`.

| stage | does |
| --- | --- |
| layout | classes that no rule can tell apart; choices and rooms as arrays |
| bound | the fluid program: a lower bound, and first values of pods |
| areas | which class goes to which zone, where rules look at zones |
| rooms | what stands there, is on its way or is marked takes pods first |
| patterns | column generation, exact pricing where it is cheap, rounding |
| rest | the greedy, for what is left; every node then becomes the cheapest that holds its content |
| proof | the lower bound again, with the values of the pattern program |
| wishes | nodes become others of nearly the same price that their pods prefer |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from growth.solver.arrays import BoolArray, FloatArray, IntArray
from growth.solver.patterns.fluid import select
from growth.solver.patterns.packing import pack, relax
from growth.solver.purchase.answer import planned, price_of, write_answer, write_proof
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.check import check
from growth.solver.purchase.drafting import lay_out
from growth.solver.purchase.greedy import place_all, unit_prices
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.level import take_back_excess
from growth.solver.purchase.lifting import lift, without_areas
from growth.solver.purchase.open_nodes import counts_of, into_bins, open_nodes
from growth.solver.purchase.problem import PlacementProblem, PlacementSolution, Stage, Unplaced
from growth.solver.purchase.proving import Proven, prove_bound
from growth.solver.purchase.remembering import recall, remember
from growth.solver.purchase.rows import RelaxedRows, rows_of
from growth.solver.purchase.thrift import make_cheaper
from growth.solver.purchase.together import place_together, sticks_together
from growth.solver.purchase.wishes import grant_wishes
from growth.solver.purchase.zones import Part, split_by_areas

_DEAR = 1_000.0  # how many times its price a pod is worth: nothing but a limit leaves it out
_FEW_PODS = 500  # for which the greedy is asked whenever a cheaper plan is not ruled out
_FEW_NODES = 800  # beyond that, the greedy takes longer than all the rest
_GOOD_ENOUGH = (
    0.03  # above the bound, or the best expected: nearer than that, the greedy need not be asked for comparison
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to place everything: what stands where, and what is left over."""

    bins: Bins
    left_over: IntArray
    stages: tuple[Stage, ...]
    lessons: tuple[RelaxedRows, ...] = ()
    expected: float = 0.0  # what the programs over patterns cost: about the best there is

    def rank(self) -> tuple[object, ...]:
        """The less important a pod, the sooner it may be left over; then what the least preferred nodes cost, and so on
        up to the most preferred.
        """
        layout = self.bins.layout
        kinds = _kinds(layout)
        missing = [int(self.left_over[kinds == kind].sum()) for kind in range(int(kinds.max(initial=0)) + 1)]
        spent = [0.0] * (int(layout.level.max(initial=0)) + 1)
        for number in planned(self.bins):
            spent[int(layout.level[self.bins.choice[number]])] += float(layout.price[self.bins.choice[number]])
        return (*missing, *(round(price, 9) for price in reversed(spent)))


def solve(problem: PlacementProblem) -> PlacementSolution:
    """The cheapest placement found within the problem's budget, with its proof; where that is asked for, nothing that
    the checker objects to.
    """
    if not any(demand.count for demand in problem.demands):
        return PlacementSolution("NoDemands")
    layout = lay_out(problem)
    solution = _answer(*_best(layout))
    complaints = check(problem, solution) if problem.is_checked else ()
    if complaints:
        plain = _by_greedy(layout)
        solution = replace(_answer(plain, _prove(plain)), complaints=complaints)
        solution = _nothing(problem, complaints) if check(problem, solution) else solution
    return solution


def _nothing(problem: PlacementProblem, complaints: tuple[str, ...]) -> PlacementSolution:
    reasons = (f"the plan that was found is wrong: {complaints[0]}",)
    unplaced = tuple(
        Unplaced(number, demand.count, reasons) for number, demand in enumerate(problem.demands) if demand.count
    )
    return PlacementSolution("IncompletePlacement", unplaced=unplaced, complaints=complaints)


def _best(layout: Layout) -> tuple[Attempt, Proven]:
    """By patterns; where that leaves pods over, or is dear for what is proven, other ways are tried as well."""
    best = _by_patterns(layout, is_staged=False)
    proven = _prove(best)
    if best.left_over.any() or price_of(best.bins) > _enough(best, proven.proof.lower_bound):
        others = [_by_greedy(layout)] if len(planned(best.bins)) <= _FEW_NODES else [best]
        if best.left_over.any() and _kinds(layout).max():
            others.append(_by_patterns(layout, is_staged=True))
        better = min(others, key=Attempt.rank)
        if better.rank() < best.rank():
            best = Attempt(better.bins, better.left_over, best.stages + better.stages, best.lessons + better.lessons)
            proven = _prove(best)
    return best, proven


def _prove(attempt: Attempt) -> Proven:
    layout = attempt.bins.layout
    return prove_bound(attempt.bins, layout.count - attempt.left_over, attempt.lessons, unit_prices(layout) * _DEAR)


def _answer(attempt: Attempt, proven: Proven) -> PlacementSolution:
    layout = attempt.bins.layout
    if layout.problem.preferences == "Respect":
        grant_wishes(attempt.bins)
    told = write_proof(layout, proven.values, proven.proof.limit_prices)
    return write_answer(
        attempt.bins,
        attempt.left_over,
        told,
        proven.proof.lower_bound,
        attempt.stages,
        remember(layout, attempt.lessons[:1]),
    )


def _enough(attempt: Attempt, lower_bound: float) -> float:
    """A price that the greedy need not be asked to beat. For many pods it never beats the programs over patterns where
    those are near their best.
    """
    if attempt.bins.layout.count.sum() <= _FEW_PODS:
        return lower_bound * (1 + 1e-6)
    return (1 + _GOOD_ENOUGH) * max(lower_bound, attempt.expected)


def _kinds(layout: Layout) -> IntArray:
    """How important each class is: 0 comes first, virtual pods after all others."""
    keys = [(bool(virtual), -shape.priority) for virtual, shape in zip(layout.is_virtual, layout.shapes, strict=True)]
    order = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([order[key] for key in keys], dtype=np.int64)


def _by_patterns(layout: Layout, is_staged: bool) -> Attempt:
    """All stages of the table above; if staged, for the most important pods first, and then for the others in what is
    left.
    """
    bins, unit = Bins(layout), unit_prices(layout)
    kinds = _kinds(layout) if is_staged else np.zeros(len(layout.count), dtype=np.int64)
    stages: list[Stage] = []
    lessons: list[RelaxedRows] = []
    expected = 0.0
    left_over = np.zeros(len(layout.count), dtype=np.int64)
    for kind in range(int(kinds.max()) + 1):
        wanted = np.where(kinds == kind, layout.count, 0)
        remaining = place_together(bins, wanted)
        remaining[[index for index in np.flatnonzero(remaining) if sticks_together(layout, int(index))]] = 0
        parts = into_bins(bins, split_by_areas(bins, remaining, unit))
        stages.append(
            Stage(
                "rooms",
                price_of(bins),
                f"{int((wanted - counts_of(parts, len(wanted))).sum())} of {int(wanted.sum())} pods",
            )
        )
        learnt, planned_price = _pack_levels(bins, parts, unit, stages)
        lessons += learnt
        expected += planned_price
        missing = wanted - np.where(kinds == kind, placed_in(bins), 0)
        left_over += _place_rest(bins, missing)
        stages.append(Stage("rest", price_of(bins), f"{int(missing.sum())} pods"))
    return Attempt(bins, left_over, tuple(stages), tuple(lessons), expected)


def _pack_levels(
    bins: Bins, parts: list[Part], unit: FloatArray, stages: list[Stage]
) -> tuple[list[RelaxedRows], float]:
    """Nodes for parts, level by level. Who can only use a low level comes first: what its nodes have left is there for
    the others.

    Returns what was learnt, and what the programs over patterns cost in sum.
    """
    layout = bins.layout
    levels = int(layout.level.max(initial=0)) + 1
    lessons: list[RelaxedRows] = []
    expected = 0.0

    def pack_on(level: int, chosen: list[Part]) -> list[Part]:
        nonlocal expected
        left = into_bins(bins, chosen) if bins.size > bins.rooms else chosen
        relaxed = _relax(bins, left, layout.level == level, unit) if left else []
        if not relaxed:
            return left
        lessons.extend(relaxed)
        expected += relaxed[-1].relaxation.price
        packing = pack(relaxed[-1].relaxation, layout.problem.budget)
        stages.append(Stage("patterns", packing.price, "; ".join(one.relaxation.detail for one in relaxed)))
        return _as_before(open_nodes(bins, relaxed[-1].rows, packing), left)

    best = [_best_level(layout, part) for part in parts]
    left = [
        part
        for level in reversed(range(levels))
        for part in pack_on(level, [part for part, own in zip(parts, best, strict=True) if own == level])
    ]
    for level in range(1, levels):  # limits may have used up the better levels
        left = pack_on(level, left)
    return lessons, expected


def _best_level(layout: Layout, part: Part) -> int:
    usable = part.choices & (layout.need[part.index] <= layout.offer).all(axis=1)
    return int(layout.level[usable].min()) if usable.any() else 0


def _as_before(left: list[Part], parts: list[Part]) -> list[Part]:
    """Parts that are left, with every choice they may use again."""
    choices = {(part.index, part.rooms.tobytes(), part.is_settled): part.choices for part in parts}
    return [
        Part(
            part.index,
            part.count,
            choices[part.index, part.rooms.tobytes(), part.is_settled],
            part.rooms,
            part.is_settled,
        )
        for part in left
    ]


def _place_rest(bins: Bins, missing: IntArray) -> IntArray:
    """The greedy for all that is missing; what turns out to break a rule in the end is taken back and gets one more
    chance.
    """
    left_over = place_all(bins, missing)
    taken_back = take_back_excess(bins)
    if taken_back.any():
        left_over = place_all(bins, left_over + taken_back)
        left_over = left_over + take_back_excess(bins)
    make_cheaper(bins)
    return left_over


def _by_greedy(layout: Layout) -> Attempt:
    bins = Bins(layout)
    left_over = _place_rest(bins, np.asarray(layout.count))
    return Attempt(bins, left_over, (Stage("greedy", price_of(bins)),))


def _relax(bins: Bins, parts: list[Part], allowed: BoolArray, unit: FloatArray) -> list[RelaxedRows]:
    """Lessons about these parts on allowed choices; the last one is about the parts as they are, zones and all."""
    layout, budget = bins.layout, bins.layout.problem.budget
    parts = [Part(part.index, part.count, part.choices & allowed, part.rooms, part.is_settled) for part in parts]
    open_parts = without_areas(layout, parts, allowed)
    rows = rows_of(layout, open_parts, bins.limit_left)
    selected = select(rows.stock, unit[[group[0].index for group in rows.parts]] * _DEAR)
    if not len(selected.choices):
        return []
    relaxed = RelaxedRows(rows, relax(rows.stock, selected, recall(layout, rows), budget))
    if not any(part.is_settled for part in parts):
        return [relaxed]
    zoned = rows_of(layout, parts, bins.limit_left)
    lifted, known = lift(relaxed, zoned, len(layout.count))
    few = replace(budget, pricing_rounds=budget.pricing_rounds // 4)  # most is known already
    return [relaxed, RelaxedRows(zoned, relax(zoned.stock, lifted, known, few))] if len(lifted.choices) else []


def placed_in(bins: Bins) -> IntArray:
    counts = np.zeros(len(bins.layout.count), dtype=np.int64)
    for content in bins.contents:
        for index, count in content.items():
            counts[index] += count
    return counts
