"""How many modules of the core does a walk cross? Asked by the house rules and people: `python -m tests.house.walks`.

A static call graph over model, solver and plan: a function reaches what it calls by name, the classes it names with
all their methods, and the methods it calls on values if exactly one class it can see has a method of that name. It is
an estimate from above: what is reachable, not what one pod happens to touch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.house.tree import python_files, text_of

CORE: Final = ("src/growth/model", "src/growth/solver", "src/growth/plan")

PENDING_POD: Final = (
    "growth.plan.nodes_up.scale_up:question",
    "growth.plan.nodes_up.scale_up:plan",
    "growth.plan.nodes_up.scale_up:settle",
    "growth.solver.purchase.solve:solve",
    "growth.plan.nodes_up.provisioning:plan",
    "growth.plan.nodes_up.provisioning:settle",
    "growth.plan.nodes_up.joining:plan",
    "growth.plan.nodes_up.joining:settle",
)


class Definition(NamedTuple):
    """A function, method or class and the module it is defined in."""

    module: str
    name: str  # of a method: Class.method

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


class _Module:
    """What a module defines and what its names stand for."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.bodies: dict[str, ast.AST] = {}
        self.classes: dict[str, tuple[str, ...]] = {}
        self.imported: dict[str, tuple[str, str]] = {}  # local name: (module, name there or "")
        for node in tree.body:
            self._define(node)
        for found in ast.walk(tree):
            if isinstance(found, ast.ImportFrom) and found.module:
                self.imported |= {alias.asname or alias.name: (found.module, alias.name) for alias in found.names}

    def _define(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self.bodies[node.name] = node
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            self.bodies[node.name] = ast.Module([each for each in node.body if each not in methods], [])
            self.bodies |= {f"{node.name}.{each.name}": each for each in methods}
            self.classes[node.name] = tuple(each.name for each in methods)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self.bodies |= {each.id: node for each in targets if isinstance(each, ast.Name)}


@cache
def _modules() -> Mapping[str, _Module]:
    found = {}
    for path in python_files(*CORE):
        name = _dotted(path)
        found[name] = _Module(name, ast.parse(text_of(path)))
    return found


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def reachable(starts: Iterable[str]) -> set[Definition]:
    """Every definition of the core that can be reached from these (`module:function`)."""
    waiting = [Definition(*start.split(":")) for start in starts]
    missing = [str(each) for each in waiting if _resolve(each.module, each.name) is None]
    if missing:
        raise LookupError(f"no such function: {', '.join(missing)}")
    seen: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in seen:
            seen.add(definition)
            waiting += _neighbours(definition)
    return seen


def modules_of(definitions: Iterable[Definition]) -> set[str]:
    return {definition.module for definition in definitions}


def _resolve(module: str, name: str) -> Definition | None:
    """Where a name that a module offers is really defined."""
    known = _modules().get(module)
    if known is None:
        return None
    if name in known.bodies:
        return Definition(module, name)
    origin = known.imported.get(name)
    return _resolve(*origin) if origin is not None else None


def _neighbours(definition: Definition) -> Iterator[Definition]:
    module = _modules()[definition.module]
    for node in ast.walk(module.bodies[definition.name]):
        if isinstance(node, ast.Name):
            found = _resolve(module.name, node.id)
            if found is not None:
                yield found
        elif isinstance(node, ast.Attribute):
            yield from _attribute(module, node)


def _attribute(module: _Module, node: ast.Attribute) -> Iterator[Definition]:
    """`module.function`, or a method that only one class in sight has."""
    if isinstance(node.value, ast.Name):
        origin = module.imported.get(node.value.id)
        found = _resolve(f"{origin[0]}.{origin[1]}", node.attr) if origin is not None else None
        if found is not None:
            yield found
            return
    owners = [owner for owner in _classes_in_sight(module.name) if f"{owner.name}.{node.attr}" in _bodies(owner.module)]
    if len(owners) == 1:
        yield Definition(owners[0].module, f"{owners[0].name}.{node.attr}")


def _bodies(module: str) -> Mapping[str, ast.AST]:
    return _modules()[module].bodies


@cache
def _classes_in_sight(module: str) -> tuple[Definition, ...]:
    """Classes of the module itself and of the modules it imports from."""
    known = _modules()[module]
    near = {
        module,
        *(origin for origin, _ in known.imported.values()),
        *(f"{a}.{b}" for a, b in known.imported.values()),
    }
    return tuple(
        Definition(name, each) for name in sorted(near & _modules().keys()) for each in _modules()[name].classes
    )


def main() -> None:
    found = {each for each in reachable(PENDING_POD) if not each.module.startswith("growth.model")}
    rooms: dict[str, int] = {}
    for name in modules_of(found):
        room = ".".join(name.split(".")[1:-1])
        rooms[room] = rooms.get(room, 0) + 1
    for room in sorted(rooms):
        print(f"{rooms[room]:4} {room}")
    print(
        f"{len(modules_of(found)):4} modules and {len(found)} definitions of plan and solver on the walk of a pending "
        "pod"
    )


if __name__ == "__main__":
    main()
