"""Worlds that take more than a second. `make scenarios` names this file; `make test` does not find it by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.playing import broken_in, scenario_files


@pytest.mark.parametrize("path", scenario_files(Path(__file__).parent))
def test_the_world_is_as_it_is_expected(path: Path) -> None:
    assert broken_in(path) == ()
