"""How does a plan read as an answer, why is no place left for the rest, and how near to the optimum is it? Asked at the
end, whatever stage placed the pods.

Counts of classes go back to the demand classes they were made of. Reasons are those of `solver/rules`, asked of what
the plan leaves, and add up over all rooms and all choices. The bound forgets zones, and the order in which anything was
done: rows are classes with everything they may go to; of spreads over nodes it knows what holds in every plan. Two sets
of values are tried, those of the fluid program and those of the pattern program; the better proof counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from growth.model.node import Node
from growth.model.pod import PodShape
from growth.model.resources import PODS, format_amount, sum_resources
from growth.solver.arrays import FloatArray, IntArray, Mask
from growth.solver.patterns.bound import (
    ProvenBound,
    moderate,
    no_bound,
    of_whole_nodes,
    prove,
    prove_whole,
    within_reason,
)
from growth.solver.patterns.fluid import Selected, select
from growth.solver.patterns.knapsack import priced_uppers, sharpen
from growth.solver.patterns.stock import RoomLeft, Stock
from growth.solver.purchase.bins import Bins, planned, price_of
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.problem import (
    Choice,
    Pattern,
    Placement,
    PlacementSolution,
    PlannedNode,
    Proof,
    Stage,
    Unplaced,
    planned_node,
    unmarked,
)
from growth.solver.purchase.rows import (
    RelaxedRows,
    Rows,
    candidate_values,
    everything,
    room_left,
    rows_of,
    true_values,
)
from growth.solver.purchase.tallies import proven_spreads
from growth.solver.reasons import Kind, in_brief
from growth.solver.rules import Neighbours
from growth.solver.rules.question import Question, RefusedNodes

_MOST_PAIRS = 5_000  # of a demand and a kind of new node
_BLOCK = 200
NOT_ASKED = ("why was not asked",)
NOTHING_FOR_SALE = "no offering can be bought"
_EXACT_ROWS = 64
_NEAR = 0.005  # above the bound: of a plan nearer than that, no better proof is looked for


def write_answer(
    bins: Bins, left_over: IntArray, bound: ProvenBound, stages: tuple[Stage, ...], patterns: tuple[Pattern, ...]
) -> PlacementSolution:
    """The solution of what is in the bins; `left_over` pods of each class found no place."""
    layout = bins.layout
    dealer = Dealer(layout)
    placements = dealer.placements(bins)
    nodes = [
        PlannedNode(int(layout.choice_index[bins.choice[number]]), dealer.deal(bins.contents[number]))
        for number in planned(bins)
    ]
    left = [pair for index in np.flatnonzero(left_over) for pair in dealer.deal({int(index): int(left_over[index])})]
    unplaced = _explained(bins, left) if layout.problem.is_explained else [Unplaced(*pair, NOT_ASKED) for pair in left]
    values = [0.0] * len(layout.problem.demands)
    for value, members in zip(bound.values, layout.members, strict=True):
        for demand in members:
            values[demand] = float(value)
    return PlacementSolution(
        "IncompletePlacement" if unplaced else "AllPlaced",
        placements=placements,
        nodes=tuple(nodes),
        unplaced=tuple(sorted(unplaced, key=lambda one: one.demand)),
        price_per_hour=price_of(bins),
        lower_bound=bound.lower_bound,
        stages=stages,
        proof=Proof(tuple(values), tuple(float(price) for price in bound.limit_prices)),
        patterns=patterns,
    )


def _explained(bins: Bins, left: Sequence[tuple[int, int]]) -> list[Unplaced]:
    """Block by block: in an index, every class is looked at by every other."""
    found, blocks = list[Unplaced](), range(0, len(left), _BLOCK)
    for block in (left[start : start + _BLOCK] for start in blocks):
        refusals = Refusals(bins, [demand for demand, _ in block], _MOST_PAIRS // len(blocks))
        found += [Unplaced(demand, count, refusals.why(demand)) for demand, count in block]
    return found


class Dealer:
    """Turns counts of classes into counts of the demand classes they were made of, one demand class after the other:
    those that the question names first get their places first.
    """

    def __init__(self, layout: Layout) -> None:
        demands = layout.problem.demands
        self._left = [
            [[demand, demands[demand].count] for demand in sorted(members)[::-1]] for members in layout.members
        ]

    def deal(self, counts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
        dealt: dict[int, int] = {}
        for index, wanted in sorted(counts.items()):
            left, missing = self._left[index], wanted
            while missing:
                demand, most = left[-1]
                taken = min(most, missing)
                dealt[demand] = dealt.get(demand, 0) + taken
                missing -= taken
                left[-1][1] -= taken
                if not left[-1][1]:
                    left.pop()
        return tuple(sorted(dealt.items()))

    def placements(self, bins: Bins) -> tuple[Placement, ...]:
        """What is in the rooms."""
        found = []
        for room in range(bins.rooms):
            number = int(bins.layout.room_index[room])
            found += [Placement(demand, number, count) for demand, count in self.deal(bins.contents[room])]
        return tuple(sorted(found, key=lambda one: (one.room, one.demand)))


# ---------------------------------------------------------------------------------------- no place


LIMIT_REACHED = "limit reached"
_FITS_ALONE = "it would fit there alone, but no place was found beside the other pods of the plan"


class Refusals:
    """What the rules say against a pod, asked of the cluster as the plan leaves it: on each room, and on a new node of
    each choice. Demands of one class are asked about one by one: they may be kept from the same nodes by different
    rules."""

    def __init__(self, bins: Bins, left_over: Sequence[int], most_pairs: int) -> None:
        layout, problem = bins.layout, bins.layout.problem
        self._bins, self._problem, self._most_pairs = bins, problem, most_pairs
        self._rooms = [problem.rooms[int(number)] for number in layout.room_index]
        self._choices = [problem.choices[int(number)] for number in layout.choice_index]
        self._shapes = {demand: problem.demands[demand].shape for demand in left_over}
        self._index = self._as_planned()
        self._new = self._indexed([self._empty(choice, number) for number, choice in enumerate(self._choices)])
        self._closed: dict[tuple[str, ...], list[str]] = {}  # by pools: why each room takes no pods of theirs
        self._openable = bins.openable()
        self._alike = self._first_alike()
        self._around = self._pods_around()

    def _as_planned(self) -> Neighbours:
        """Rooms and planned nodes, with all that is on them."""
        bins, held = self._bins, [(unmarked(room), list(room.contents)) for room in self._rooms]
        numbers = [*range(bins.rooms), *planned(bins)]
        held += [self._empty(self._choices[int(bins.choice[number])], number) for number in numbers[bins.rooms :]]
        for number, (_, contents) in zip(numbers, held, strict=True):
            contents += [(bins.layout.shapes[index], count) for index, count in bins.contents[number].items()]
        return self._indexed(held)

    @staticmethod
    def _empty(choice: Choice, number: int) -> tuple[Node, list[tuple[PodShape, int]]]:
        """A new node of a choice, with its daemons."""
        return planned_node(choice, number), [(shape, 1) for shape in choice.daemons]

    def _indexed(self, nodes: Sequence[tuple[Node, list[tuple[PodShape, int]]]]) -> Neighbours:
        held: dict[PodShape, dict[int, int]] = {}
        for number, (_, contents) in enumerate(nodes):
            for shape, count in contents:
                of_shape = held.setdefault(shape, {})
                of_shape[number] = of_shape.get(number, 0) + count
        daemons = {shape for choice in self._choices for shape in choice.daemons}
        index = Neighbours(
            [node for node, _ in nodes], volumes=self._problem.volumes, namespaces=self._problem.namespaces,
            shapes=[*self._shapes.values(), *held, *daemons],
        )  # fmt: skip
        for shape in self._shapes.values():
            index.question(index.class_of(shape))  # what it looks at is counted below
        for shape, counts in held.items():
            numbers, pods = np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)
            index.count_in_many(index.class_of(shape), numbers, pods)
        return index

    def _pods_around(self) -> dict[tuple[int, int], str]:
        """By demand and choice: which rule about other pods refuses a new node that is large enough, open to it and
        could be bought. Choices that such rules cannot tell apart are asked about once, and of very many not all.
        """
        index, asked, pairs = self._index, dict[int, list[int]](), 0
        for demand, shape in self._shapes.items():
            if pairs < self._most_pairs and index.question(index.class_of(shape)).is_entangled:
                alone = self._new.question(self._new.class_of(shape)).fits_alone(self._offered(demand))
                fitting = np.flatnonzero(alone & (self._openable > 0))
                alike = {self._alike[choice] for choice in fitting.tolist()}
                pairs += len(alike)
                for choice in alike:
                    asked.setdefault(choice, []).append(demand)
        found = {}
        for choice, demands in sorted(asked.items()):
            with index.trial():
                number = index.add_nodes([planned_node(self._choices[choice], self._bins.size)])[0]
                for shape in self._choices[choice].daemons:
                    index.add(index.class_of(shape), number)
                for demand in demands:
                    reason = index.why_not(index.class_of(self._shapes[demand]), number)
                    if reason is not None:
                        found[demand, choice] = ", ".join(reason.phrases)
        return found

    def _first_alike(self) -> list[int]:
        """For each choice the first that rules about other pods cannot tell from it."""
        first: dict[object, int] = {}
        keys = self._index.table.label_keys()
        return [
            first.setdefault((tuple(choice.labels.get(key) for key in keys), choice.daemons), number)
            for number, choice in enumerate(self._choices)
        ]

    def _offered(self, demand: int) -> Mask:
        pools = self._problem.demands[demand].pools
        return np.array([choice.pool in pools for choice in self._choices], dtype=np.bool_)

    # ------------------------------------------------------------------------------------- in words

    def why(self, demand: int) -> tuple[str, ...]:
        """Why pods of a demand class found no place: what is wrong with them, or a sentence about nodes and one about
        offerings.
        """
        question = self._index.question(self._index.class_of(self._shapes[demand]))
        if question.before:
            return (str(question.before[0]),)
        rooms = (in_brief(self._of_rooms(demand, question), len(self._rooms), "nodes"),) if self._rooms else ()
        return (*rooms, self._of_choices(demand))

    def _of_rooms(self, demand: int, question: Question) -> Counter[str]:
        pools = self._problem.demands[demand].pools
        if pools not in self._closed:
            self._closed[pools] = [room.why_closed(pools) for room in self._rooms]
        asked = np.zeros(len(self._index.table), dtype=np.bool_)
        asked[: len(self._rooms)] = [not why for why in self._closed[pools]]
        told = Counter(filter(None, self._closed[pools]))
        for refused in question.refusals(asked):
            told[str(refused)] += refused.nodes
        return told + Counter({_FITS_ALONE: len(self._rooms) - told.total()})

    def _of_choices(self, demand: int) -> str:
        pools, offered, new = self._problem.demands[demand].pools, self._offered(demand), self._new
        if not offered.any():
            return f"no offering in its pools ({', '.join(pools) or 'none'})" if self._choices else NOTHING_FOR_SALE
        told = Counter[str]()
        question = new.question(new.class_of(self._shapes[demand]))
        for refused in question.refusals(offered, alone=True):
            told[_with_daemons(refused, self._choices[refused.example])] += refused.nodes
        for choice in np.flatnonzero(question.fits_alone(offered)):
            told[self._why_not_bought(demand, int(choice))] += 1
        return in_brief(told, int(offered.sum()), "offerings")

    def _why_not_bought(self, demand: int, choice: int) -> str:
        layout = self._bins.layout
        if self._openable[choice] > 0:
            return self._around.get((demand, self._alike[choice]), _FITS_ALONE)
        limits = zip(layout.limit_name, layout.limit_use[:, choice], self._bins.limit_left, strict=True)
        reached = [name for name, use, left in limits if use > left + 1e-9]
        return f"{LIMIT_REACHED}: {', '.join(reached)}"


def _with_daemons(refused: RefusedNodes, choice: Choice) -> str:
    """Of amounts, also what DaemonSets take of the machine."""
    if refused.reason.kind is not Kind.RESOURCES or not choice.daemons:
        return str(refused)
    taken = {**sum_resources(shape.requests for shape in choice.daemons), PODS: len(choice.daemons)}
    names = [name for name in refused.reason.constraint.split(", ") if name in taken]
    whole = choice.offering.allocatable
    words = [f"{format_amount(name, taken[name])} of {format_amount(name, whole[name])} {name}" for name in names]
    told = f"{refused.detail}; DaemonSets take {', '.join(words)}" if words else refused.detail
    return str(refused._replace(detail=told))


# --------------------------------------------------------------------------------------- the bound


def prove_bound(bins: Bins, placed: IntArray, found: Sequence[RelaxedRows], left_out: FloatArray) -> ProvenBound:
    """What no placement of these pods can undercut, with the values of classes that prove it; `left_out` is the price
    of leaving out a pod of each class.
    """
    layout, proven = bins.layout, proven_spreads(bins.layout, placed)
    rows = rows_of(layout, everything(layout, placed), layout.limit_bound, proven)
    stock = rows.stock
    left = room_left(layout, rows, placed)
    same = next((relaxed for relaxed in found if _is_same(relaxed.rows.stock, stock)), None)
    selected = same.relaxation.selected if same is not None else _select(layout, rows, placed, proven, left, left_out)
    if not len(selected.choices):
        return replace(no_bound(stock), values=np.zeros(len(layout.count)))
    limit_prices = moderate(stock, selected.fluid.limit_prices)
    values = within_reason(stock, selected.fluid.values, limit_prices)
    best = prove(stock, left, _uppers(stock, selected, values, limit_prices, None, 0), values, limit_prices)
    for relaxed in found:
        if 2 * relaxed.rows.stock.count.sum() < placed.sum():
            continue  # about the rest alone: its values prove little
        is_worth_it = (same is None or relaxed is same) and len(stock.count) <= _EXACT_ROWS
        work = layout.problem.budget.exact_iterations if is_worth_it else 0
        for candidate in candidate_values(layout, rows, relaxed, relaxed is same, selected.fluid.values):
            limit_prices = moderate(stock, candidate.of_limits)
            values = within_reason(stock, candidate.of_rows, limit_prices)
            uppers = _uppers(stock, selected, values, limit_prices, candidate.uppers, work)
            other = prove(stock, left, uppers, values, limit_prices)
            best, work = (other if other.lower_bound > best.lower_bound else best), work // 2
    known = same.relaxation.price if same is not None else np.inf  # no values of these pods prove more than that
    if min(price_of(bins), known) > of_whole_nodes(best.lower_bound, stock.price) * (1 + _NEAR):
        of_row = left_out[[group[0].index for group in rows.parts]]
        best = prove_whole(stock, selected.choices, left, of_row, best)
    of_class = np.zeros(len(layout.count))
    for row, group in enumerate(rows.parts):
        of_class[[part.index for part in group]] = best.values[row]
    return replace(best, values=of_class, lower_bound=of_whole_nodes(best.lower_bound, stock.price))


def _is_same(one: Stock, other: Stock) -> bool:
    names = ("need", "count", "cap", "fits", "limit_bound", "adds", "bound")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _select(
    layout: Layout, rows: Rows, placed: IntArray, proven: Mapping[int, float], left: RoomLeft, left_out: FloatArray
) -> Selected:
    """The choices that matter and the fluid program over them; of very many rows, by the program over merged ones."""
    merged = rows_of(layout, everything(layout, placed), layout.limit_bound, proven, may_merge=True)
    left = room_left(layout, merged, placed) if merged.is_coarse else left
    found = select(merged.stock, left_out[[group[0].index for group in merged.parts]], left)
    if not merged.is_coarse:
        return found
    of_class = true_values(layout, merged, found, found.fluid.values)
    values = np.array([of_class[group[0].index] for group in rows.parts])
    return replace(found, fluid=replace(found.fluid, values=values), most=rows.stock.most_on_node())


def _uppers(
    stock: Stock, selected: Selected, values: FloatArray, limit_prices: FloatArray, known: FloatArray | None, work: int
) -> FloatArray:
    """The most that a node of each choice can hold: one choice of each kind is looked at closely, and its equals are
    held to the same.
    """
    uppers = priced_uppers(stock, values, np.minimum(selected.most, stock.count), selected.fluid.resource_prices)
    if known is not None:
        uppers[selected.choices] = np.minimum(uppers[selected.choices], known)
    found: dict[bytes, list[int]] = {}
    for choice in range(len(stock.price)):
        found.setdefault(stock.offer[choice].tobytes() + np.packbits(stock.fits[choice]).tobytes(), []).append(choice)
    kinds = list(found.values())
    firsts = np.array([min(kind, key=lambda choice: (stock.price[choice], choice)) for kind in kinds], dtype=np.int64)
    least = np.array([min(float(uppers[choice]) for choice in kind) for kind in kinds])
    sharp = sharpen(stock.with_choices(firsts), values, selected.most[firsts], limit_prices, least, work).uppers
    for kind, upper in zip(kinds, sharp, strict=True):
        uppers[kind] = np.minimum(uppers[kind], upper)
    return uppers
