"""Plans for small random problems of every family before an exact judge; more by `python -m tests.solver.judged`."""

from __future__ import annotations

import pytest

from tests.solver.instances import FAMILIES, Family, instance
from tests.solver.judged import judge

_SEEDS = 60
_BLOCKS = 4


@pytest.mark.parametrize("block", range(_BLOCKS))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_plan_breaks_a_rule_and_no_bound_is_above_the_optimum(family: Family, block: int) -> None:
    for seed in range(block, _SEEDS, _BLOCKS):
        complaints = judge(instance(family, seed)).complaints
        assert not [one for one in complaints if not one.startswith("left out")], (family, seed)
