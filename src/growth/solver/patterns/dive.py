"""Which whole nodes are bought? Rounding of the pattern program.

Take the whole part of every pattern's share, then the largest fractions, each cut to what is left and filled up again;
solve the program for the rest with a round of new patterns; repeat. Cutting costs little while much is left. When
little is left, `finish` packs it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from growth.solver.arrays import FloatArray, IntArray
from growth.solver.patterns.generate import Generated
from growth.solver.patterns.pricing import fill_nodes
from growth.solver.patterns.stock import Patterns, Stock, openable

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
