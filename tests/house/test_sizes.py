"""Functions and files stay short enough to read."""

from __future__ import annotations

from pathlib import Path

from tests.house.sizes import LONGEST_FILE, LONGEST_FUNCTION, functions_in, summary, too_long_files, too_long_functions
from tests.house.tree import python_files, text_of


def function_of(lines: int) -> str:
    return "def long():\n" + "    pass\n" * (lines - 1)


def test_no_function_is_longer_than_60_lines() -> None:
    assert (
        too_long_functions(function for path in python_files() for function in functions_in(path, text_of(path))) == []
    )


def test_no_python_file_is_longer_than_400_lines() -> None:
    assert too_long_files((path, text_of(path)) for path in python_files()) == []


def test_a_function_of_61_lines_is_noticed_and_one_of_60_is_not() -> None:
    path = Path("long.py")
    assert too_long_functions(functions_in(path, function_of(LONGEST_FUNCTION))) == []
    assert too_long_functions(functions_in(path, function_of(LONGEST_FUNCTION + 1))) == ["long.py:1 long (61 lines)"]


def test_a_file_of_401_lines_is_noticed_and_one_of_400_is_not() -> None:
    path = Path("long.py")
    assert too_long_files([(path, "pass\n" * LONGEST_FILE)]) == []
    assert too_long_files([(path, "pass\n" * (LONGEST_FILE + 1))]) == ["long.py (401 lines)"]


def test_the_summary_names_each_part_and_the_largest_files() -> None:
    lines = summary()
    assert lines[0].startswith("src: ")
    assert "median" in lines[0]
    assert lines[-1].startswith("largest files: ")
