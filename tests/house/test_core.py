"""The core stays pure, and the rule that says so notices when it does not."""

from __future__ import annotations

import pytest

from tests.house.core import CORE, why_not_pure
from tests.house.tree import python_files, text_of


def test_the_core_reads_no_clock_chance_or_file_by_a_side_door() -> None:
    violations = [f"{path}: {reason}" for path in python_files(*CORE) for reason in why_not_pure(text_of(path))]
    assert violations == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("from datetime import datetime\nnow = datetime.now()", "line 2: reads datetime.now"),
        ("import numpy\nnoise = numpy.random.random()", "line 2: reads numpy.random.random"),
        ("noise = np.random.default_rng()", "line 1: calls np.random.default_rng() without a seed"),
        ("key = hash('pool')", "line 1: calls hash()"),
        ("print('placed')", "line 1: calls print()"),
    ],
)
def test_a_side_door_is_noticed(source: str, reason: str) -> None:
    assert why_not_pure(source) == [reason]


@pytest.mark.parametrize(
    "source",
    [
        "import math\nfrom datetime import datetime, timezone\nat = datetime.fromtimestamp(0, timezone.utc)",
        "import numpy\nnoise = numpy.random.default_rng(7).random()",
        "class Key:\n    def __hash__(self):\n        return hash(self.name)",
        "def order(time, random):\n    return time < random",
    ],
)
def test_pure_code_passes(source: str) -> None:
    assert why_not_pure(source) == []
