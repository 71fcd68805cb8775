"""Worlds that take a second or less; longer ones are in `long/` (`make scenarios`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.playing import broken_in, scenario_files

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", scenario_files(HERE))
def test_the_world_is_as_it_is_expected(path: Path) -> None:
    assert broken_in(path) == ()


def test_every_scenario_is_named_after_its_file() -> None:
    files = sorted(HERE.rglob("*.yaml"))
    assert [path.stem for path in files if f"name: {path.stem}\n" not in path.read_text()] == []
    assert len({path.stem for path in files}) == len(files)
