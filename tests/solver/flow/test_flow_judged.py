"""Small random worlds, judged by an exact model of its own and by a scheduler that takes one pod after the other."""

from __future__ import annotations

import pytest

from tests.solver.flow.judge import FAMILIES, judged

_DEARER = {"one size": 1e-6}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_small_world_is_placed_worse_than_the_exact_model_places_it(family: str) -> None:
    for seed in range(20):
        verdict = judged(family, seed)
        assert verdict.placed == verdict.possible, verdict
        assert verdict.placed >= verdict.one_by_one, verdict
        assert verdict.cost <= verdict.least * (1 + _DEARER.get(family, 0.03)) + 1e-6, verdict
