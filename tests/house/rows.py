"""Do the rows of the plan stay apart? A row is a module of `growth.plan` that defines `plan`; nothing in `growth.plan`
may import one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping


def row_modules(sources: Mapping[str, str]) -> frozenset[str]:
    """Which modules (by full name) are rows."""
    return frozenset(name for name, source in sources.items() if any(_is_plan(node) for node in ast.parse(source).body))


def imports_of_rows(sources: Mapping[str, str]) -> list[str]:
    """A sentence for each module that imports a row."""
    rows = row_modules(sources)
    return [
        f"{name} imports the row {imported}"
        for name, source in sources.items()
        for imported in _imported(source)
        if imported in rows - {name}
    ]


def _is_plan(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "plan"


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
