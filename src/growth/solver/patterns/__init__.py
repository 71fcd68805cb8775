"""Which nodes are bought for these rows of equal pods, as cheaply as can be? Column generation on bare numbers: names,
zones and rules between pods have been turned into a `Stock` before (`solver/purchase/rows`)."""

from __future__ import annotations

from msgspec import Struct


class Budget(Struct, frozen=True):
    """How much work may be spent, in units that do not depend on the machine. The defaults are five seconds at most;
    most questions take a fraction of one.
    """

    seconds: float = 5.0  # what all of it shall take at most, on a usual core
    pricing_rounds: int = 60
    simplex_iterations: int = 7_000  # of the program over patterns, while patterns are looked for
    exact_iterations: int = 4_000  # of exact pricing, for nearer bounds and for patterns that greedy pricing misses
    mending_iterations: int = 5_000  # of rounding again what was rounded badly
    seed: int = 0

    @classmethod
    def for_seconds(cls, seconds: float) -> Budget:
        """What takes about so long; easy questions take less."""
        usual = cls()
        share = seconds / usual.seconds
        units = usual.pricing_rounds, usual.simplex_iterations, usual.exact_iterations, usual.mending_iterations
        return cls(seconds, *(max(1, round(unit * share)) for unit in units))
