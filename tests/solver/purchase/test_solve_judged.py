"""Plans for small random problems of every family before an exact judge; more by `python -m tests.solver.judged`."""

from __future__ import annotations

import pytest

from tests.solver.instances import FAMILIES, Family, instance
from tests.solver.judged import judge

_SEEDS = 60
_BLOCKS = 4
_DEARER = 0.05  # than need be, at worst


@pytest.mark.parametrize("block", range(_BLOCKS))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_rule_is_broken_no_bound_too_high_no_pod_left_out_that_could_run(family: Family, block: int) -> None:
    for seed in range(block, _SEEDS, _BLOCKS):
        verdict = judge(instance(family, seed))
        assert verdict.complaints == (), (family, seed)
        assert verdict.dearer <= _DEARER, (family, seed)
