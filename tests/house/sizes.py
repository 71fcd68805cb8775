"""How long are functions and files? Asked by the size rule and by the summary at the end of a test run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from tests.house.tree import python_files, text_of

LONGEST_FUNCTION = 60
LONGEST_FILE = 400


class Function(NamedTuple):
    """A function and where it stands."""

    path: Path
    line: int
    name: str
    lines: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.name} ({self.lines} lines)"


def functions_in(path: Path, source: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(path, node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1)


def file_lines(source: str) -> int:
    return len(source.splitlines())


def too_long_functions(functions: Iterable[Function]) -> list[str]:
    return [str(function) for function in functions if function.lines > LONGEST_FUNCTION]


def too_long_files(sources: Iterable[tuple[Path, str]]) -> list[str]:
    return [f"{path} ({file_lines(source)} lines)" for path, source in sources if file_lines(source) > LONGEST_FILE]


def summary() -> list[str]:
    """Lines for people: how long the functions of each part are, and which files are the largest."""
    lines = [_part_summary(part) for part in ("src", "tests", "bench", "deploy") if python_files(part)]
    largest = sorted(((file_lines(text_of(path)), path.as_posix()) for path in python_files()), reverse=True)[:5]
    return [*lines, "largest files: " + ", ".join(f"{path} {size}" for size, path in largest)]


def _part_summary(part: str) -> str:
    paths = python_files(part)
    lengths = [function.lines for path in paths for function in functions_in(path, text_of(path))]
    total = sum(file_lines(text_of(path)) for path in paths)
    p90 = quantiles(lengths, n=10)[-1] if len(lengths) > 1 else max(lengths, default=0)
    functions = (
        f"{len(lengths)} functions of median {median(lengths or [0]):.0f}, p90 {p90:.0f}, at most "
        f"{max(lengths, default=0)} lines"
    )
    return f"{part}: {len(paths)} files, {total} lines, {functions}"
