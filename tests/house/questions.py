"""Is every question of ARCHITECTURE.md answered where it says? Asked of the table "Where is it decided?"."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from tests.house.tree import ROOT, text_of

HEADING = "## Where is it decided?"
ROW = re.compile(r"^\| (?P<question>[^|`]+\?) \| `(?P<module>[a-z_/]+)` \| `(?P<name>\w+)` \|$", re.MULTILINE)


class Question(NamedTuple):
    """A row of the table."""

    question: str
    module: str
    name: str


def questions(text: str) -> list[Question]:
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    return [Question(*match.groups()) for match in ROW.finditer(section)]


def why_unanswered(asked: Question) -> str | None:
    """The file, or the name in it, that is not there."""
    path = Path("src/growth") / f"{asked.module}.py"
    if not (ROOT / path).exists():
        path = Path("src/growth") / asked.module / "__init__.py"
    if not (ROOT / path).exists():
        return f"{asked.question} no module {asked.module}"
    return None if asked.name in _defined(text_of(path)) else f"{asked.question} no {asked.name} in {asked.module}"


def _defined(source: str) -> set[str]:
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return found
