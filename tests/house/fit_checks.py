"""Does any part of growth but `solver/rules` decide whether a pod fits a node? Asked of all code that decides; the
simulation is left out: it plays the other side, and its laws look with their own eyes.

| what | why not |
| --- | --- |
| call or define `fits_in`, `how_often_in` | `solver/rules/fit` and `Neighbours` compare: they know what counts |
| import or define a function that compares one selector, taint or node affinity | the same |
| compare `requests` or `allocatable` by size | the same; limits of pools compare orders, in the files named here |

Code of the solver that compares arrays of class amounts works on bare numbers, which `solver/rules` has made or judged;
it is free to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

RULES = "src/growth/solver/rules/"
OTHER_SIDE = "src/growth/sim/"
AMOUNTS = "src/growth/model/resources.py"  # defines the arithmetic that rules use
LIMITS = ("src/growth/plan/world/limits.py", "src/growth/plan/world/market.py")  # pools' limits against what is ordered

ON_AMOUNTS = frozenset({"fits_in", "how_often_in"})
COMPARING = frozenset({"tolerates", "first_untolerated", "holds", "why_term_malformed", "is_eligible"})
SIZES = frozenset({"requests", "allocatable"})
_BY_SIZE = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def is_judged(path: str) -> bool:
    return path.startswith("src/growth/") and not path.startswith((RULES, OTHER_SIDE)) and path != AMOUNTS


def why_a_second_fit_check(source: str, path: str = "") -> list[str]:
    """A sentence for each place where `source` decides by itself whether a pod fits."""
    tree = ast.parse(source)
    return [*_calls(tree), *_imports(tree), *_definitions(tree), *(() if path in LIMITS else _comparisons(tree))]


def _calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ON_AMOUNTS:
            yield f"line {node.lineno}: asks {node.attr}"


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("growth.solver.rules"):
            for alias in node.names:
                if alias.name in COMPARING:
                    yield f"line {node.lineno}: imports {alias.name}"


def _definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_") in ON_AMOUNTS | COMPARING - {
            "holds"
        }:  # a common word
            yield f"line {node.lineno}: defines {node.name}"


def _comparisons(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(each, _BY_SIZE) for each in node.ops):
            sides = [part.attr for side in (node.left, *node.comparators) for part in _own_parts(side)]
            yield from (f"line {node.lineno}: compares {name}" for name in sorted(SIZES & set(sides)))


def _own_parts(side: ast.expr) -> Iterator[ast.Attribute]:
    """Attributes that the side is calculated from; what is handed to a function is that function's business."""
    pending: list[ast.AST] = [side]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Attribute):
            yield part
        if not isinstance(part, ast.Call) or ast.unparse(part.func) in {"sum", "min", "max"}:
            pending.extend(ast.iter_child_nodes(part))
