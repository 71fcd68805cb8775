"""Names say what things are, and the rule notices those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.names import empty_or_shortened_names, why_not_module_name
from tests.house.tree import python_files, text_of


def test_no_module_or_package_has_a_name_that_says_nothing() -> None:
    assert [reason for path in python_files() if (reason := why_not_module_name(path))] == []


def test_no_name_is_an_abbreviation_or_a_manager() -> None:
    assert [f"{path}: {name}" for path in python_files() for name in empty_or_shortened_names(text_of(path))] == []


@pytest.mark.parametrize("path", ["src/growth/utils.py", "src/growth/common/labels.py", "tests/helpers.py"])
def test_an_empty_module_name_is_noticed(path: str) -> None:
    assert why_not_module_name(Path(path)) is not None


@pytest.mark.parametrize(
    "source",
    [
        "class NodeManager: ...",
        "def create_nr(): ...",
        "def create(nrr): ...",
        "for nr in requests: ...",
        "cfg = read()",
        "def wait(request_ctx=None): ...",
    ],
)
def test_an_abbreviation_is_noticed(source: str) -> None:
    assert len(empty_or_shortened_names(source)) == 1


@pytest.mark.parametrize(
    "source",
    ["class NodeRequest: ...", "class ControllerManager: ...", "number_of_requests = 3", "SHORT_NAMES = ['nr', 'nrr']"],
)
def test_a_whole_word_passes(source: str) -> None:
    assert empty_or_shortened_names(source) == []
