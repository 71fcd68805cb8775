"""Which whole nodes are bought? Rounding of the pattern program. Asked by `solver/patterns/packing`.

Take the whole part of every pattern's share, then the largest fractions, each cut to what is left and filled up again;
solve the program for the rest with a round of new patterns; repeat. Cutting costs little while much is left. When
little is left, `solver/patterns/finish` takes over."""

from __future__ import annotations

import numpy as np

from growth.solver.arrays import FloatArray
from growth.solver.patterns.carving import Carving
from growth.solver.patterns.generate import Generated
from growth.solver.patterns.pricing import fill_nodes

BOLDNESS = 0.3  # share of what is left that is fixed in one step beside the whole parts
_LOSS = 0.05  # of a node's price that may be wasted on a cut pattern while better ones wait
_TAIL = 0.02  # of the price: what is left then is built node by node
_NOISE = (0.02, 0.05, 0.1, 0.2, 0.4)
_VARIANTS = 4


def dive(generated: Generated, rounds: int, seed: int, carving: Carving, boldness: float = BOLDNESS) -> Carving:
    """Whole nodes for most of what the carving has left; a little stays."""
    master = generated.master
    random = np.random.default_rng(seed + 1)
    master.set_counts(carving.left, carving.limit_left)
    whole_price = master.solve(after_new_patterns=False)
    for _ in range(rounds):
        if not carving.left.any() or not _round(generated, carving, random, boldness):
            break
        if carving.left.any():
            master.set_counts(carving.left, carving.limit_left)
            master.solve(after_new_patterns=False)
            if master.price <= _TAIL * whole_price:
                break
            _fresh_patterns(generated, carving, random)
    return carving


def _fresh_patterns(generated: Generated, carving: Carving, random: np.random.Generator) -> None:
    """One round of patterns that suit what is left."""
    master, stock = generated.master, carving.stock
    open_choices = np.flatnonzero((carving.openable() >= 1) & generated.most.any(axis=1))
    if not len(open_choices):
        return
    variants = int(np.clip(16_000 // max(1, len(open_choices) * len(stock.count)), 2, 8))
    choices = np.tile(open_choices, variants)
    values = np.tile(generated.worths(), (len(choices), 1))
    strength = np.repeat([0.0] + [_NOISE[number % len(_NOISE)] for number in range(variants - 1)], len(open_choices))[
        :, None
    ]
    values *= np.exp(strength * random.standard_normal(values.shape))
    found = fill_nodes(stock, choices, values, np.minimum(generated.most[choices], carving.left))
    pays = found @ master.values > master.full_prices()[choices] * (1 + 1e-6)
    if master.add(found[pays], choices[pays]):
        master.solve(after_new_patterns=True)


def _round(generated: Generated, carving: Carving, random: np.random.Generator, boldness: float) -> bool:
    """Fix the whole parts and the largest fractions; False if nothing could be fixed."""
    master = generated.master
    shares = master.shares
    whole = np.floor(shares + 1e-6)
    progress = False
    for number in np.flatnonzero(whole):
        progress |= _take_whole(generated, carving, int(number), int(whole[number]))
    fractions = shares - whole
    wanted, got = max(boldness * master.price, 0.0), 0.0
    full_prices = master.full_prices()
    for number in np.argsort(-fractions, kind="stable"):
        if got >= wanted or fractions[number] < 1e-6:
            break
        choice = int(master.choices[number])
        if carving.how_often(choice) < 1:
            continue
        pattern = _cut(generated, carving, master.patterns[number], choice)
        enough = (1 - _LOSS) * full_prices[choice]
        if pattern @ master.values < enough:
            pattern = _anew(generated, carving, choice, random)
        if not pattern.any() or ((progress or got) and pattern @ master.values < enough):
            continue
        carving.take(pattern, choice, 1)
        got += float(carving.stock.price[choice])
    return progress or got > 0


def _take_whole(generated: Generated, carving: Carving, number: int, wanted: int) -> bool:
    """So many nodes of a pattern; where a row runs out on the way, the rest of them do without it and take others
    instead.
    """
    master = generated.master
    choice = int(master.choices[number])
    taken = 0
    while wanted > taken:
        pattern = _cut(generated, carving, master.patterns[number], choice)
        inside = pattern > 0
        if not inside.any() or pattern @ master.values < (1 - _LOSS) * master.full_prices()[choice]:
            break
        times = int(
            min(wanted - taken, carving.how_often(choice), np.floor(carving.left[inside] / pattern[inside]).min())
        )
        if times < 1:
            break
        carving.take(pattern, choice, times)
        taken += times
    return taken > 0


def _anew(generated: Generated, carving: Carving, choice: int, random: np.random.Generator) -> FloatArray:
    """A pattern for the choice from what is left, the best of a few."""
    rows = np.flatnonzero(carving.left)
    values = np.zeros((_VARIANTS, len(carving.left)))
    strength = np.array(_NOISE[:_VARIANTS])[:, None]
    values[:, rows] = generated.worths()[rows] * np.exp(strength * random.standard_normal((_VARIANTS, len(rows))))
    found = fill_nodes(
        carving.stock,
        np.full(_VARIANTS, choice),
        values,
        np.tile(np.minimum(generated.most[choice], carving.left), (_VARIANTS, 1)),
    )
    best: FloatArray = found[int((found @ generated.worths()).argmax())]
    return best


def _cut(generated: Generated, carving: Carving, pattern: FloatArray, choice: int) -> FloatArray:
    """The pattern as far as pods are left for it, filled up with others."""
    kept = np.minimum(pattern, carving.left)
    if (kept == pattern).all():
        return pattern
    most = np.minimum(generated.most[choice], carving.left) - kept
    added = fill_nodes(
        carving.stock, np.array([choice]), generated.worths()[None], np.maximum(most, 0)[None], kept[None]
    )
    filled: FloatArray = kept + added[0]
    return filled
