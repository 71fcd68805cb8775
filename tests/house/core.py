"""Does the core read the world by a side door? Asked of model, solver and plan, beside the import contracts of
pyproject.toml.

| what | why not |
| --- | --- |
| open, print, input, eval, exec | the core takes arguments and gives answers, nothing else |
| hash() outside `__hash__` and `__init__` | it differs between processes; a kept hash of a frozen value does no harm |
| datetime.now and its kin | `now` comes with the snapshot |
| numpy.random, except default_rng with a seed | the same question gets the same answer |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

CORE = ("src/growth/model", "src/growth/solver", "src/growth/plan")

FORBIDDEN_CALLS = frozenset({"open", "print", "input", "eval", "exec"})
CLOCKS = frozenset({"datetime.now", "datetime.utcnow", "datetime.today", "date.today"})
CHANCE = re.compile(r"(?:numpy|np)\.random\.(?!default_rng|Generator)\w+")


def why_not_pure(source: str) -> list[str]:
    """A sentence for each place where `source` reaches beyond its arguments."""
    tree = ast.parse(source)
    return [*_calls(tree), *_attributes(tree)]


def _calls(tree: ast.Module) -> Iterator[str]:
    kept_hashes = set(_kept_hashes(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in FORBIDDEN_CALLS or (name == "hash" and node not in kept_hashes):
            yield f"line {node.lineno}: calls {name}()"
        elif name.endswith("default_rng") and not node.args:
            yield f"line {node.lineno}: calls {name}() without a seed"


def _kept_hashes(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in {"__hash__", "__init__"}:
            yield from ast.walk(node)


def _attributes(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in CLOCKS or CHANCE.fullmatch(name):
                yield f"line {node.lineno}: reads {name}"
