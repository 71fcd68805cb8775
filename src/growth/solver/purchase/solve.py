"""Where does every pod go, and what is bought for it, as cheaply as can be? Asked by scale-up, buffers, replacement and
`growth plan`.

| stage | does |
| --- | --- |
| layout | classes that no rule can tell apart; choices and rooms as arrays |
| zones | pods that must share a node are placed; which class goes to which zone, where rules look at zones |
| rooms | nodes that exist, are on their way or are marked take pods first |
| patterns | column generation, exact pricing where it is cheap, rounding; tier by tier |
| best fit | the simple way, which no plan may be dearer than |
| rest | the greedy, for what is left; every node then becomes the cheapest that holds its content |
| even | where pods are spread over nodes: on so many nodes that each hold an even share, if that is cheaper |
| exact | a few pods are placed anew by an exact model, if pods are left over or the plan is dear for what is proven |
| bound | what no plan can undercut, by the values of the fluid program and of the pattern program |
| preferences | nodes become others of nearly the same price that their pods prefer |

Of a gang enough pods get a place, or none: while one has too few, the one with the smallest share asks for nothing, and
the question is put again; at the end some of these are tried once more, the smallest first. One that only limits of
steps keep out is served in steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from growth.solver.arrays import BoolArray, IntArray
from growth.solver.patterns.bound import ProvenBound
from growth.solver.patterns.fluid import select
from growth.solver.patterns.packing import pack, relax
from growth.solver.purchase.answer import prove_bound, write_answer
from growth.solver.purchase.bins import Bins, planned, price_of
from growth.solver.purchase.check import check
from growth.solver.purchase.greedy import open_best, place_by_rules, take_back_excess
from growth.solver.purchase.improve import enlarge, follow_preferences, make_cheaper, place_anew
from growth.solver.purchase.layout import Layout, lay_out, unit_prices
from growth.solver.purchase.open_nodes import by_worth, fill_bins, open_nodes
from growth.solver.purchase.problem import PlacementProblem, PlacementSolution, Stage, Unplaced, whole_gangs
from growth.solver.purchase.rows import Part, RelaxedRows, recall, remember, rows_of
from growth.solver.purchase.tallies import EvenNodes, concerns_no_pods, even_nodes, looks_beyond_node
from growth.solver.purchase.zones import place_together, repeat_in_zones, split_by_zones, sticks_together, without_zones

_DEAR = 1_000.0  # how many times its price a pod is worth: nothing but a limit leaves it out
_FEW_PODS = 500  # for which the greedy is asked whenever a cheaper plan is not ruled out; of more, best fit is as good
_MANY_CLASSES = 300
_MOST_EVEN = 5  # numbers of nodes that are tried for pods that are spread over nodes
_AMPLE_SECONDS = 5.0  # with so much, patterns are far better than best fit; with less they must be compared
_LEAST_SECONDS = 0.5  # a budget below that counts as so much
_PATIENCE = 1.4  # times the budget: nothing is begun that would probably take longer
_NEAR = 0.005  # above the bound: nearer than that, best fit never is
_GOOD_ENOUGH = 0.03  # above the bound: nearer than that, the greedy need not be asked for comparison


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to place everything: what is where, and what is left over."""

    bins: Bins
    left_over: IntArray
    stages: tuple[Stage, ...]
    relaxed: tuple[RelaxedRows, ...] = ()
    parts: tuple[Part, ...] = ()  # all pods, sent to zones before any was placed; empty if that was not done at once

    def rank(self) -> tuple[object, ...]:
        """The less important a pod, the sooner it may be left over; then what the least preferred nodes cost, and so on
        up to the most preferred.
        """
        layout = self.bins.layout
        ranks = _importance(layout)
        missing = [int(self.left_over[ranks == rank].sum()) for rank in range(int(ranks.max(initial=0)) + 1)]
        spent = [0.0] * (int(layout.tier.max(initial=0)) + 1)
        for number in planned(self.bins):
            choice = self.bins.choice[number]
            spent[int(layout.tier[choice])] += float(layout.price[choice])
        return (*missing, *(round(price, 9) for price in reversed(spent)))


def solve(problem: PlacementProblem) -> PlacementSolution:
    """The cheapest placement found within the problem's budget, with its proof; where that is asked for, nothing that
    the checker objects to.
    """
    return whole_gangs(problem, _solve)


def solve_greedily(problem: PlacementProblem) -> PlacementSolution:
    """A placement by the greedy alone, without a proof: where the better answer did not come in time."""
    return whole_gangs(problem, _solve_greedily)


def _solve(problem: PlacementProblem) -> PlacementSolution:
    if not any(demand.count for demand in problem.demands):
        return PlacementSolution("NoDemands")
    layout = lay_out(problem)
    solution = _answer(*_best(layout))
    complaints = check(problem, solution) if problem.is_checked else ()
    if complaints:
        plain = _by_greedy(layout)
        solution = structs.replace(_answer(plain, _prove(plain)), complaints=complaints)
        solution = _nothing(problem, complaints) if check(problem, solution) else solution
    return solution


def _solve_greedily(problem: PlacementProblem) -> PlacementSolution:
    if not any(demand.count for demand in problem.demands):
        return PlacementSolution("NoDemands")
    layout = lay_out(problem)
    plain = _by_best_fit(layout)
    solution = write_answer(plain.bins, plain.left_over, _unproven(layout), plain.stages, ())
    complaints = check(problem, solution) if problem.is_checked else ()
    return _nothing(problem, complaints) if complaints else solution


def _nothing(problem: PlacementProblem, complaints: tuple[str, ...]) -> PlacementSolution:
    reasons = (f"the plan that was found is wrong: {complaints[0]}",)
    unplaced = tuple(
        Unplaced(number, demand.count, reasons) for number, demand in enumerate(problem.demands) if demand.count
    )
    return PlacementSolution("IncompletePlacement", unplaced=unplaced, complaints=complaints)


def _best(layout: Layout) -> tuple[Attempt, ProvenBound]:
    """By patterns; where that leaves pods over, or is dear for what is proven, other ways are tried as well. Where
    patterns would take longer than the budget, by best fit alone.
    """
    effort, seconds = _Effort.of(layout), max(_LEAST_SECONDS, layout.problem.budget.seconds)
    most = _PATIENCE * seconds
    if effort.all_of_it - (effort.best_fit if seconds >= _AMPLE_SECONDS else 0.0) > most:
        simple = _by_best_fit(layout)
        has_time = effort.layout + effort.best_fit + effort.proof <= most
        return simple, _prove(simple) if has_time else _unproven(layout)
    best = _by_patterns(layout, is_staged=False)
    bound = _prove(best)
    is_dear = price_of(best.bins) > bound.lower_bound * (1 + _NEAR)
    if layout.count.sum() > _FEW_PODS and is_dear and effort.all_of_it <= most:
        found, best = best, _better(best, [_by_best_fit(layout, best.parts)])
        bound = bound if best is found else _prove(best)
    if best.left_over.any() or not _is_enough(best, bound.lower_bound):
        others = [_by_greedy(layout)] if best.left_over.any() or layout.count.sum() <= _FEW_PODS else [best]
        if best.left_over.any() and _importance(layout).max():
            others.append(_by_patterns(layout, is_staged=True))
        if best.left_over.any() and layout.tier.max(initial=0) and len(layout.limit_bound):
            others.append(_by_patterns(layout, is_staged=False, is_tiered=False))
        others += _by_even_nodes(best, bound.lower_bound)
        found, best = best, _better(best, others)
        bound = bound if best is found else _prove(best)
    anew = _anew(best) if best.left_over.any() or not _is_cheapest(best, bound.lower_bound) else best
    if anew.rank() < best.rank():
        best, bound = anew, _prove(anew)
    return best, bound


@dataclass(frozen=True, slots=True)
class _Effort:
    """About how many seconds each way takes, by what there is to look at: measured once, on a busy core. Never looked
    up on a clock, so that the same question has the same answer everywhere.
    """

    layout: float
    best_fit: float
    proof: float
    patterns: float

    @property
    def all_of_it(self) -> float:
        return self.layout + self.best_fit + self.proof + self.patterns

    @staticmethod
    def of(layout: Layout) -> _Effort:
        classes, demands = len(layout.count), len(layout.problem.demands)
        with_rules = sum(not concerns_no_pods(rules) for rules in layout.rules)
        zoned = sum(looks_beyond_node(layout, index) for index in range(classes))
        coarse = 0.25 if classes > _MANY_CLASSES else 0.0
        searching = 0.5 * layout.problem.budget.seconds**0.7 * (2 if zoned else 1)  # larger budgets are seldom used up
        return _Effort(
            layout=0.03 + 4e-5 * demands + 1e-4 * with_rules,
            best_fit=1e-4 * classes + 5e-4 * zoned,
            proof=0.05 + 7e-5 * classes,
            patterns=0.1 + coarse + 1e-4 * classes + 3e-4 * zoned + searching,
        )


def _anew(known: Attempt) -> Attempt:
    """All pods placed by the exact model, where they are few."""
    layout = known.bins.layout
    bins = place_anew(layout, _importance(layout), not known.left_over.any())
    if bins is None:
        return known
    stages = (*known.stages, Stage("exact", price_of(bins)))
    return Attempt(bins, layout.count - bins.placed(), stages, known.relaxed)


def _better(known: Attempt, others: list[Attempt]) -> Attempt:
    """The best of them, with what was found out on the way."""
    best = min(others, key=Attempt.rank)
    if best.rank() >= known.rank():
        return known
    return Attempt(best.bins, best.left_over, known.stages + best.stages, known.relaxed + best.relaxed)


def _prove(attempt: Attempt) -> ProvenBound:
    layout = attempt.bins.layout
    return prove_bound(attempt.bins, layout.count - attempt.left_over, attempt.relaxed, unit_prices(layout) * _DEAR)


def _unproven(layout: Layout) -> ProvenBound:
    """Nothing is known of what a plan must cost."""
    return ProvenBound(0.0, np.zeros(len(layout.count)), np.zeros(len(layout.limit_bound)))


def _answer(attempt: Attempt, bound: ProvenBound) -> PlacementSolution:
    layout = attempt.bins.layout
    if layout.problem.preferences == "Respect":
        follow_preferences(attempt.bins)
    patterns = remember(layout, attempt.relaxed[:1])
    return write_answer(attempt.bins, attempt.left_over, bound, attempt.stages, patterns)


def _is_enough(attempt: Attempt, lower_bound: float) -> bool:
    """Need the greedy not be asked? Only what is proven counts."""
    if attempt.bins.layout.count.sum() <= _FEW_PODS:
        return _is_cheapest(attempt, lower_bound)
    return price_of(attempt.bins) <= lower_bound * (1 + _GOOD_ENOUGH)


def _is_cheapest(attempt: Attempt, lower_bound: float) -> bool:
    """Where some types are preferred to others, the price alone does not say so."""
    has_tiers = bool(attempt.bins.layout.tier.max(initial=0))
    return not has_tiers and price_of(attempt.bins) <= lower_bound * (1 + 1e-6)


def _importance(layout: Layout) -> IntArray:
    """The rank of each class: 0 comes first, virtual pods after all others."""
    keys = [(bool(virtual), -shape.priority) for virtual, shape in zip(layout.is_virtual, layout.shapes, strict=True)]
    ranks = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], dtype=np.int64)


def _by_greedy(layout: Layout) -> Attempt:
    bins = Bins(layout)
    left_over = _place_rest(bins, np.asarray(layout.count))
    return Attempt(bins, left_over, (Stage("greedy", price_of(bins)),))


def _by_best_fit(layout: Layout, parts: Sequence[Part] = ()) -> Attempt:
    """Best fit decreasing, the simple way that no plan may be dearer than: the largest pods first, each onto the node
    that has the least left beside it, else onto a new node of the choice where its share costs least. What does not
    find its place so is left to the greedy. `parts`, if it is known where all pods go.
    """
    bins, unit, rank = Bins(layout), unit_prices(layout), _importance(layout)
    remaining = _without_together(bins, np.asarray(layout.count))
    parts = parts or split_by_zones(bins, remaining, unit)
    for part in sorted(parts, key=lambda part: (rank[part.index], -unit[part.index], part.index)):
        for left in fill_bins(bins, [part]):
            open_best(bins, left)
    left_over = _place_rest(bins, layout.count - bins.placed())
    return Attempt(bins, left_over, (Stage("best fit", price_of(bins)),))


def _without_together(bins: Bins, wanted: IntArray) -> IntArray:
    """What remains of these pods when those that must share nodes are placed, as far as they can be."""
    remaining = place_together(bins, wanted)
    remaining[[index for index in np.flatnonzero(remaining) if sticks_together(bins.layout, int(index))]] = 0
    return remaining


def _place_rest(bins: Bins, missing: IntArray) -> IntArray:
    left_over = place_by_rules(bins, missing)
    make_cheaper(bins)
    return left_over


def _by_even_nodes(known: Attempt, lower_bound: float) -> list[Attempt]:
    """A few numbers of nodes for pods that are spread over nodes, as long as they promise to be cheaper."""
    found, least = list[Attempt](), np.inf if known.left_over.any() else price_of(known.bins)
    for even in even_nodes(known.bins.layout, least)[:_MOST_EVEN]:
        if even.estimate < least and least > lower_bound * (1 + _GOOD_ENOUGH):
            found.append(_on_even_nodes(known.bins.layout, even))
            least = least if found[-1].left_over.any() else min(least, price_of(found[-1].bins))
    return found


def _on_even_nodes(layout: Layout, even: EvenNodes) -> Attempt:
    """The share of each node, and what remains by patterns beside it."""
    tried, bins = _by_patterns(even.rest, is_staged=False), Bins(layout)
    for number, content in enumerate(tried.bins.contents):
        if content and number < bins.rooms:
            for index, count in content.items():
                bins.put(index, number, count)
        elif content:
            choice = int(tried.bins.choice[number])
            bins.open_alike(choice, Counter(even.share if even.domains[choice] else {}) + Counter(content), 1)
    cheapest = int(np.where(even.usable, layout.price, np.inf).argmin())
    missing = even.nodes - sum(bool(even.domains[bins.choice[number]]) for number in planned(bins))
    missing = min(missing, int(bins.openable()[cheapest]))
    if missing > 0:
        bins.open_alike(cheapest, even.share, missing)
    bins.keeps_domains = True
    take_back_excess(bins)
    _place_rest(bins, enlarge(bins, layout.count - bins.placed()))
    take_back_excess(bins)
    left_over = layout.count - bins.placed()
    return Attempt(bins, left_over, (*tried.stages, Stage("even", price_of(bins), f"{even.nodes} nodes")), ())


def _by_patterns(layout: Layout, is_staged: bool, is_tiered: bool = True) -> Attempt:
    """All stages of the table above; if staged, for the most important pods first, and then for the others in what is
    left; if not tiered, on all choices at once, so that no limit is spent on a better tier that holds less.
    """
    packer = _Packer(layout, is_tiered)
    bins = packer.bins
    ranks = _importance(layout) if is_staged else np.zeros(len(layout.count), dtype=np.int64)
    left_over, remaining = np.zeros(len(layout.count), dtype=np.int64), list[Part]()
    for rank in range(int(ranks.max()) + 1):
        wanted = np.where(ranks == rank, layout.count, 0)
        remaining = split_by_zones(bins, _without_together(bins, wanted), packer.unit)
        parts = fill_bins(bins, by_worth(bins, remaining, packer.unit))
        placed = int(wanted.sum()) - sum(part.count for part in parts)
        packer.note("rooms", price_of(bins), f"{placed} of {int(wanted.sum())} pods")
        packer.pack(parts)
        missing = wanted - np.where(ranks == rank, bins.placed(), 0)
        left_over += _place_rest(bins, missing)
        packer.note("rest", price_of(bins), f"{int(missing.sum())} pods")
    of_all = () if ranks.any() else tuple(remaining)
    return Attempt(bins, left_over, tuple(packer.stages), tuple(packer.relaxed), of_all)


class _Packer:
    """Buys nodes for parts of classes by patterns, and keeps what it found out."""

    def __init__(self, layout: Layout, is_tiered: bool) -> None:
        self.layout, self.bins, self.unit = layout, Bins(layout), unit_prices(layout)
        self.tier = layout.tier if is_tiered else np.zeros_like(layout.tier)
        self.stages: list[Stage] = []
        self.relaxed: list[RelaxedRows] = []

    def note(self, name: str, price: float, detail: str) -> None:
        self.stages.append(Stage(name, price, detail))

    def pack(self, parts: list[Part]) -> None:
        """Tier by tier. Parts that can only use a low tier come first: what their nodes have left is for others."""
        tiers = int(self.tier.max(initial=0)) + 1
        best = [self._best_tier(part) for part in parts]
        left: list[Part] = []
        for tier in reversed(range(tiers)):
            left += self._pack_on(tier, [part for part, own in zip(parts, best, strict=True) if own == tier])
        for tier in range(1, tiers):  # limits may have used up the better tiers
            left = self._pack_on(tier, left)

    def _best_tier(self, part: Part) -> int:
        usable = part.choices & (self.layout.need[part.index] <= self.layout.offer).all(axis=1)
        return int(self.tier[usable].min()) if usable.any() else 0

    def _pack_on(self, tier: int, parts: list[Part]) -> list[Part]:
        """Buy nodes of a tier; returns what is left of the parts, with every choice they may use again."""
        left = fill_bins(self.bins, parts) if self.bins.size > self.bins.rooms else parts
        relaxed = self._relax(left, self.tier == tier) if left else []
        if not relaxed:
            return left
        self.relaxed += relaxed
        packing = pack(relaxed[-1].relaxation, self.layout.problem.budget)
        self.note("patterns", packing.price, "; ".join(one.relaxation.detail for one in relaxed))
        choices = {_name_of(replace(part, choices=part.choices & (self.tier == tier))): part.choices for part in left}
        rest = [
            replace(part, choices=choices.get(_name_of(part), self.layout.fits[part.index]))
            for part in open_nodes(self.bins, relaxed[-1].rows, packing)
        ]
        if relaxed[-1].rows.is_coarse and _pods_of(rest) < _pods_of(left):
            return self._pack_on(tier, sorted(rest, key=lambda part: -self.unit[part.index]))
        return rest

    def _relax(self, parts: list[Part], allowed: BoolArray) -> list[RelaxedRows]:
        """The programs over these parts on allowed choices; the last one is about the parts as they are, with zones."""
        layout, bins, budget = self.layout, self.bins, self.layout.problem.budget
        parts = [replace(part, choices=part.choices & allowed) for part in parts]
        rows = rows_of(layout, without_zones(layout, parts, allowed), bins.limit_left, may_merge=True)
        selected = select(rows.stock, self.unit[[group[0].index for group in rows.parts]] * _DEAR)
        if not len(selected.choices):
            return []
        relaxed = RelaxedRows(rows, relax(rows.stock, selected, recall(layout, rows), budget))
        if not any(part.has_zone for part in parts):
            return [relaxed]
        zoned = rows_of(layout, parts, bins.limit_left, may_merge=True)
        selected, known = repeat_in_zones(relaxed, zoned, len(layout.count))
        few = structs.replace(budget, pricing_rounds=budget.pricing_rounds // 4)  # most is known already
        return [relaxed, RelaxedRows(zoned, relax(zoned.stock, selected, known, few))] if len(selected.choices) else []


def _name_of(part: Part) -> tuple[int, bytes, bytes]:
    """What tells a part from all others: its class, and where it may go (each zone of a class is a part)."""
    return part.index, part.choices.tobytes(), part.rooms.tobytes()


def _pods_of(parts: list[Part]) -> int:
    return sum(part.count for part in parts)
