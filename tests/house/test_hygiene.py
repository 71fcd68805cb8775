"""Files speak of the project alone: nothing of one machine, nothing unfinished, no test switched off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.hygiene import PACKAGE_HOSTS, why_not_clean
from tests.house.tree import ROOT, text_files, text_of


def test_no_file_names_a_package_host_or_a_machine_path_or_is_unfinished() -> None:
    assert [reason for path in text_files() for reason in why_not_clean(path, text_of(path))] == []


@pytest.mark.parametrize(
    "line",
    [
        f"--index-url https://{PACKAGE_HOSTS[0]}/simple",
        "cache = '/home" + "/ada/cache'",
        f"path = '{ROOT}/tests'",
        "# TO" + "DO: later",
    ],
)
def test_a_line_that_speaks_of_one_machine_or_of_later_is_noticed(line: str) -> None:
    assert len(why_not_clean(Path("module.py"), line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "~/.cache/growth",
        "src/growth/work/table.py",
        "$HOME/work/",
        "https://github.com/org/home/page",
        "golang.org/x/net v0.1",
    ],
)
def test_an_ordinary_line_passes(line: str) -> None:
    assert why_not_clean(Path("module.py"), line) == []


def test_the_lock_files_carry_a_hash_for_every_package_and_no_address() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lines = text_of(Path(name)).splitlines()
        unhashed = [
            line
            for line, following in zip(lines, [*lines[1:], ""], strict=True)
            if "==" in line and "--hash=sha256:" not in following
        ]
        assert unhashed == []
        assert [line for line in lines if "://" in line or line.startswith("-")] == []
        assert sum("==" in line for line in lines) > 10


def test_the_runtime_lock_is_a_part_of_the_development_lock() -> None:
    pins = [
        {line.split(" ")[0] for line in text_of(Path(name)).splitlines() if "==" in line}
        for name in ("requirements.lock", "requirements-dev.lock")
    ]
    assert pins[0] <= pins[1]
