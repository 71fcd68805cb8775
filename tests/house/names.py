"""Do names say what things are? Asked of every module, class, function, argument and variable of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

EMPTY_MODULE_NAMES = frozenset({"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers", "impl"})
EMPTY_CLASS_WORDS = frozenset({"Manager", "Helper", "Helpers", "Util", "Utils", "Common", "Misc", "Impl"})
ABBREVIATIONS = frozenset({"nr", "nrs", "nrr", "nrrs", "mgr", "cfg", "ctx", "impl", "util", "utils"})


def why_not_module_name(path: Path) -> str | None:
    empty = [part for part in (*path.parts[:-1], path.stem) if part in EMPTY_MODULE_NAMES]
    return f"{path}: {empty[0]} says nothing" if empty else None


def empty_or_shortened_names(source: str) -> list[str]:
    """A sentence for each defined name that is an abbreviation, or a class named after nothing."""
    return [
        f"line {line}: {name}"
        for line, name in _defined_names(ast.parse(source))
        if _is_shortened(name) or _is_empty_class_name(name)
    ]


def _defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def _is_shortened(name: str) -> bool:
    return any(word in ABBREVIATIONS for word in name.lower().split("_"))


def _is_empty_class_name(name: str) -> bool:
    """`ControllerManager` may name Kubernetes' own kube-controller-manager."""
    words = re.findall(r"[A-Z][a-z0-9]*", name)
    return (
        name[:1].isupper()
        and not name.isupper()
        and any(word in EMPTY_CLASS_WORDS for word in words)
        and "ControllerManager" not in name
    )
