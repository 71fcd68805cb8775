"""Bugs are planted by name: what was moved or renamed must be noticed at once, not by the seeds."""

from __future__ import annotations

from tests.sim.planting import PLACES, find


def test_every_place_in_which_a_bug_can_be_planted_is_there() -> None:
    gone = [place for place, path in PLACES.items() if not hasattr(*find(path))]
    assert gone == []
