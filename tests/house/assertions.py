"""Can this test fail? Asked of every test function: it must assert something, itself or by a function beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ASSERTING_PREFIXES: Final = ("assert_", "check_", "expect_", "verify_", "require_")
ASSERTING_CALLS: Final = frozenset(
    {"raises", "warns", "fail", "run_state_machine_as_test", "wait_until"}
)  # wait_until fails when its time is up
SWITCHED_OFF: Final = frozenset({"skip", "skipif", "xfail"})


def without_assertion(source: str) -> list[str]:
    """The names of test functions that assert nothing."""
    functions = list(_functions(ast.parse(source)))
    asserting = {function.name for function in functions if _asserts(function, frozenset())}
    while (grown := {function.name for function in functions if _asserts(function, frozenset(asserting))}) != asserting:
        asserting = grown
    return [
        f"line {function.lineno}: {function.name}"
        for function in functions
        if function.name.startswith("test_") and function.name not in asserting
    ]


def switched_off_tests(source: str) -> list[str]:
    """Every skip or xfail: `pytest.mark.skip`, `pytest.skip()`, `pytest.importorskip` and their kin."""
    return [
        f"line {node.lineno}: {node.attr}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and (node.attr in SWITCHED_OFF or node.attr == "importorskip")
        and _is_pytest(node.value)
    ]


def _functions(tree: ast.Module) -> Iterator[FunctionNode]:
    return (node for node in ast.walk(tree) if isinstance(node, FunctionNode))


def _asserts(function: FunctionNode, asserting: frozenset[str]) -> bool:
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _calls_assertion(node, asserting))
        for node in ast.walk(function)
    )


def _calls_assertion(call: ast.Call, asserting: frozenset[str]) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name.startswith(ASSERTING_PREFIXES) or name in ASSERTING_CALLS or name in asserting


def _is_pytest(value: ast.expr) -> bool:
    return ast.unparse(value) in {"pytest", "pytest.mark"}
