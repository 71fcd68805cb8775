"""Which whole nodes are bought? Rounding of the pattern program, in four steps:

dive      the whole part of each pattern's share, then the largest fractions, each cut to what is left and filled up
          again; the program is solved for the rest, with new patterns; repeat
finish    little is left: node by node, always the one whose content is worth most for its price; before each node
          the alternative is looked at, to end with nodes that take all that is left
cheapest  every node becomes the cheapest choice that holds its content
repack    nodes that hold least for their price are given back with some others, and their pods are rounded again
          (ruin and recreate); what is cheaper is kept
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.generate import Generated, fill_nodes
from growth.solver.patterns.stock import Budget, Patterns, Stock, openable, rows_agree

BOLDNESS = 0.3  # share of what is left that is fixed in one step beside the whole parts
_LOSS = 0.05  # of a node's price that may be wasted on a cut pattern while better ones wait
_TAIL = 0.02  # of the price: what is left then is built node by node
_NOISE = (0.02, 0.05, 0.1, 0.2, 0.4)
_VARIANTS = 4


@dataclass(slots=True)
class Packing:
    """Nodes decided so far, in groups of equals, and what is left of the pods and of the limits."""

    stock: Stock
    left: FloatArray  # C
    limit_left: FloatArray  # L
    patterns: list[FloatArray] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    price: float = 0.0

    def how_often(self, choice: int) -> float:
        """How many more nodes of a choice the limits allow."""
        return float(openable(self.stock.limit_use[:, choice : choice + 1], self.limit_left)[0])

    def openable(self) -> FloatArray:
        """How many more nodes of each choice the limits allow."""
        return openable(self.stock.limit_use, self.limit_left)

    def take(self, pattern: FloatArray, choice: int, times: int) -> None:
        self.patterns.append(pattern)
        self.choices.append(choice)
        self.times.append(times)
        self._account(pattern, choice, times)

    def give_back(self, number: int, times: int) -> None:
        """So many nodes of a group are not bought after all; an emptied group stays, with no nodes."""
        self.times[number] -= times
        self._account(self.patterns[number], self.choices[number], -times)

    def _account(self, pattern: FloatArray, choice: int, times: int) -> None:
        self.left = self.left - pattern * times
        self.limit_left = self.limit_left - self.stock.limit_use[:, choice] * times
        self.price += float(self.stock.price[choice]) * times

    def rank(self) -> tuple[float, float, int]:
        """The fewer pods are left, the cheaper, and the fewer nodes, the better."""
        return float(self.left.sum()), round(self.price, 9), sum(self.times)

    def copy(self) -> Packing:
        groups = list(self.patterns), list(self.choices), list(self.times)
        return Packing(self.stock, self.left, self.limit_left, *groups, self.price)

    def on(self, stock: Stock, choices: IntArray) -> Packing:
        """The same nodes by the numbers of a larger stock; `choices` says where each choice is there."""
        numbers = [int(choices[choice]) for choice in self.choices]
        return Packing(stock, self.left, self.limit_left, self.patterns, numbers, self.times, self.price)


def dive(generated: Generated, rounds: int, seed: int, packing: Packing, boldness: float = BOLDNESS) -> Packing:
    """Whole nodes for most of what the packing has left; a little stays."""
    master = generated.master
    random = np.random.default_rng(seed + 1)
    master.set_counts(packing.left, packing.limit_left)
    whole_price = master.solve(after_new_patterns=False)
    for _ in range(rounds):
        if not packing.left.any() or not _round(generated, packing, random, boldness):
            break
        if packing.left.any():
            master.set_counts(packing.left, packing.limit_left)
            master.solve(after_new_patterns=False)
            if master.price <= _TAIL * whole_price:
                break
            _fresh_patterns(generated, packing, random)
    return packing


def _fresh_patterns(generated: Generated, packing: Packing, random: np.random.Generator) -> None:
    """One round of patterns that suit what is left."""
    master, stock = generated.master, packing.stock
    open_choices = np.flatnonzero((packing.openable() >= 1) & generated.most.any(axis=1))
    if not len(open_choices):
        return
    variants = int(np.clip(16_000 // max(1, len(open_choices) * len(stock.count)), 2, 8))
    choices = np.tile(open_choices, variants)
    values = np.tile(generated.worths(), (len(choices), 1))
    strengths = [_NOISE[number % len(_NOISE)] for number in range(variants - 1)]
    strength = np.repeat([0.0, *strengths], len(open_choices))[:, None]
    values *= np.exp(strength * random.standard_normal(values.shape))
    found = fill_nodes(stock, choices, values, np.minimum(generated.most[choices], packing.left))
    pays = found @ master.values > master.full_prices()[choices] * (1 + 1e-6)
    if master.add(Patterns(found[pays], choices[pays])):
        master.solve(after_new_patterns=True)


def _round(generated: Generated, packing: Packing, random: np.random.Generator, boldness: float) -> bool:
    """Fix the whole parts and the largest fractions; False if nothing could be fixed."""
    master = generated.master
    shares = master.shares
    whole = np.floor(shares + 1e-6)
    progress = False
    for number in np.flatnonzero(whole):
        progress |= _take_whole(generated, packing, int(number), int(whole[number]))
    fractions = shares - whole
    wanted, got = max(boldness * master.price, 0.0), 0.0
    full_prices = master.full_prices()
    for number in np.argsort(-fractions, kind="stable"):
        if got >= wanted or fractions[number] < 1e-6:
            break
        choice = int(master.choices[number])
        if packing.how_often(choice) < 1:
            continue
        pattern = _cut(generated, packing, master.patterns[number], choice)
        enough = (1 - _LOSS) * full_prices[choice]
        if pattern @ master.values < enough:
            pattern = _refill(generated, packing, choice, random)
        if not pattern.any() or ((progress or got) and pattern @ master.values < enough):
            continue
        packing.take(pattern, choice, 1)
        got += float(packing.stock.price[choice])
    return progress or got > 0


def _take_whole(generated: Generated, packing: Packing, number: int, wanted: int) -> bool:
    """So many nodes of a pattern; where a row runs out on the way, the rest of them do without it and take others
    instead.
    """
    master = generated.master
    choice = int(master.choices[number])
    taken = 0
    while wanted > taken:
        pattern = _cut(generated, packing, master.patterns[number], choice)
        inside = pattern > 0
        if not inside.any() or pattern @ master.values < (1 - _LOSS) * master.full_prices()[choice]:
            break
        enough_pods = np.floor(packing.left[inside] / pattern[inside]).min()
        times = int(min(wanted - taken, packing.how_often(choice), enough_pods))
        if times < 1:
            break
        packing.take(pattern, choice, times)
        taken += times
    return taken > 0


def _refill(generated: Generated, packing: Packing, choice: int, random: np.random.Generator) -> FloatArray:
    """A pattern for the choice from what is left, the best of a few."""
    rows = np.flatnonzero(packing.left)
    values = np.zeros((_VARIANTS, len(packing.left)))
    strength = np.array(_NOISE[:_VARIANTS])[:, None]
    values[:, rows] = generated.worths()[rows] * np.exp(strength * random.standard_normal((_VARIANTS, len(rows))))
    most = np.tile(np.minimum(generated.most[choice], packing.left), (_VARIANTS, 1))
    found = fill_nodes(packing.stock, np.full(_VARIANTS, choice), values, most)
    best: FloatArray = found[int((found @ generated.worths()).argmax())]
    return best


def _cut(generated: Generated, packing: Packing, pattern: FloatArray, choice: int) -> FloatArray:
    """The pattern as far as pods are left for it, filled up with others."""
    kept = np.minimum(pattern, packing.left)
    if (kept == pattern).all():
        return pattern
    most = np.maximum(np.minimum(generated.most[choice], packing.left) - kept, 0)[None]
    added = fill_nodes(packing.stock, np.array([choice]), generated.worths()[None], most, kept[None])
    filled: FloatArray = kept + added[0]
    return filled


_SHARPNESS = (1.0, 1.1, 1.25)  # how much more a dear row counts than a cheap one of the same size
_WORTH_IT = (0.001, 0.004)  # above the program's price: what is worth the first try, and the last
_WORST = 0.06  # share of the nodes that is given back because they hold least
_OTHERS = 0.06  # and at random
_FEWEST, _MOST = 4, 60
_FILLING = 20  # choices × rows that are looked at in the time of one iteration
_PATIENCE = 6  # tries in a row that bring nothing
_MOST_TRIES = 24


class Finisher:
    """Finishes packings of one stock, all its choices at hand; only `tried` ones are filled node by node."""

    def __init__(self, stock: Stock, most: FloatArray, tried: IntArray) -> None:
        self.stock, self.most, self.tried = stock, most, tried

    def finish(self, packing: Packing, values: FloatArray, sharpness: Sequence[float] = _SHARPNESS) -> Packing:
        """Place all that the limits let in, as cheaply as this can."""
        worth = np.maximum(values, 1e-9 * max(1e-9, float(values.max(initial=0.0))))
        best: Packing | None = None
        while packing.left.any():
            ended = self._covered(packing.copy())
            if ended is not None and (best is None or ended.price < best.price - 1e-12):
                best = ended
            if (best is not None and best.price <= packing.price) or not self._one_more(packing, worth, sharpness):
                break
        if best is None or (not packing.left.any() and packing.price < best.price):
            return packing
        return best

    def _one_more(self, packing: Packing, worth: FloatArray, sharpness: Sequence[float]) -> bool:
        stock = self.stock
        waiting = packing.left > 0
        openable = packing.openable()
        choices = self.tried[(openable[self.tried] >= 1) & (self.most[np.ix_(self.tried, waiting)] > 0).any(axis=1)]
        if not len(choices):
            choices = np.flatnonzero((openable >= 1) & (self.most[:, waiting] > 0).any(axis=1))
            if not len(choices):
                return False
        tried = np.tile(choices, len(sharpness))
        powers = np.repeat([worth**power for power in sharpness], len(choices), axis=0)
        found = fill_nodes(stock, tried, powers, np.minimum(self.most[tried], packing.left))
        best = int(((found @ worth) / np.maximum(stock.price[tried], 1e-12)).argmax())
        pattern, choice = found[best], int(tried[best])
        inside = pattern > 0
        if not inside.any():
            return False
        times = int(min(np.floor(packing.left[inside] / pattern[inside]).min(), packing.how_often(choice)))
        packing.take(pattern, choice, max(1, times // 2))
        return True

    def _covered(self, packing: Packing) -> Packing | None:
        """The packing ended by nodes that each take all they may of what is left; None if there are no such nodes."""
        for _ in range(8):
            if not packing.left.any():
                return packing
            row = int(np.flatnonzero(packing.left)[0])
            content = np.where(self.stock.fits, packing.left, 0.0)
            fits = self.stock.fits[:, row] & (content @ self.stock.need <= self.stock.offer).all(axis=1)
            able = np.flatnonzero(fits & (packing.openable() >= 1))
            able = able[(content[able] <= self.most[able]).all(axis=1)]
            able = able[rows_agree(self.stock, content[able], able)]
            if not len(able):
                return None
            best = int(able[np.lexsort((able, -content[able].sum(axis=1), self.stock.price[able]))[0]])
            packing.take(content[best], best, 1)
        return packing if not packing.left.any() else None

    def shrink(self, packing: Packing) -> None:
        """Every node becomes the cheapest choice that holds its content."""
        for number in range(len(packing.times)):
            times = packing.times[number]
            if times:
                pattern, choice = packing.patterns[number], packing.choices[number]
                packing.give_back(number, times)
                packing.take(pattern, self._cheapest(packing, pattern, choice, times), times)

    def _cheapest(self, packing: Packing, pattern: FloatArray, choice: int, times: int) -> int:
        stock = self.stock
        inside = pattern > 0
        able = (pattern @ stock.need <= stock.offer).all(axis=1) & stock.fits[:, inside].all(axis=1)
        able &= stock.price < stock.price[choice] - 1e-12
        cheaper = np.flatnonzero(able & (packing.openable() >= times) & (pattern <= self.most).all(axis=1))
        cheaper = cheaper[rows_agree(stock, np.tile(pattern, (len(cheaper), 1)), cheaper)]
        return int(cheaper[stock.price[cheaper].argmin()]) if len(cheaper) else choice


def repack(
    packing: Packing, generated: Generated, finisher: Finisher, values: FloatArray, program_price: float, budget: Budget
) -> Packing:
    """The packing, or a cheaper one."""
    chosen, seed, master = finisher.tried, budget.seed, generated.master
    random = np.random.default_rng(seed + 2)
    spent, in_vain, began = 0.0, 0, master.iterations
    for attempt in range(_MOST_TRIES):
        enough = program_price * (1 + np.interp(spent, (0, budget.mending_iterations), _WORTH_IT))
        is_near = packing.price <= enough and not packing.left.any()
        if spent >= budget.mending_iterations or in_vain >= _PATIENCE or is_near:
            break
        tried = packing.copy()
        _give_back(tried, values, random)
        small = Packing(master.stock, tried.left, tried.limit_left)
        dived = dive(generated, 6 + attempt % 3, seed + attempt, small)
        again = finisher.finish(dived.on(packing.stock, chosen), values)
        finisher.shrink(again)
        spent = master.iterations - began + (attempt + 1) * len(chosen) * len(values) / _FILLING
        for pattern, choice, times in zip(again.patterns, again.choices, again.times, strict=True):
            if times:
                tried.take(pattern, choice, times)
        in_vain = 0 if tried.rank() < packing.rank() else in_vain + 1
        packing = min(tried, packing, key=Packing.rank)  # of equals the new one: it may lead on
    return packing


def _give_back(packing: Packing, values: FloatArray, random: np.random.Generator) -> None:
    """The worst nodes, and some of the others."""
    groups = np.flatnonzero(packing.times)
    prices = packing.stock.price[[packing.choices[number] for number in groups]]
    worth = np.array([packing.patterns[number] for number in groups]) @ values / np.maximum(prices, 1e-12)
    singles = np.repeat(np.arange(len(groups)), np.array(packing.times)[groups])
    order = singles[np.argsort(worth[singles], kind="stable")]
    worst = order[: int(np.clip(_WORST * len(order), _FEWEST, _MOST))]
    others = random.permutation(order[len(worst) :])[: int(np.clip(_OTHERS * len(order), _FEWEST, _MOST))]
    for number in groups[np.concatenate([worst, others])]:
        packing.give_back(int(number), 1)
