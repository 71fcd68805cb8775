"""Does every room keep its shape? Asked of the folders of src/growth that hold modules: how many there are, who reads
them, what they are called, and whether a README says what the room is for.

| rule | why |
| --- | --- |
| at most 13 modules in a room (a provider 15; model has one noun a file) | a listing is read at one glance |
| a small module that one other module imports moves in with it | a jump that tells nothing is only a jump |
| a public class is defined once in its layer | one name, one meaning |
| no participles and no metaphors as file names | a file is a noun of the domain, or the name of a decision |
| a README of at most 40 lines | question, words, files in reading order |
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.house.tree import ROOT, python_files, text_of

SOURCE: Final = "src/growth"
MOST_MODULES: Final = 13
MOST_OF_A_PROVIDER: Final = 15
SMALL_LINES: Final = 130
LONGEST_README: Final = 40

# Names that end like participles and are nouns: of decisions, and of things.
NOUNS: Final = frozenset({"joining", "listing", "offering", "packing", "provisioning", "scheduling", "waiting"})
METAPHORS: Final = frozenset(
    {"ground", "hands", "lesson", "manners", "moves", "purse", "stage", "thrift", "ways", "warmth", "wishes"}
)

# Small modules with one importer that stay, each with its reason.
TABLES: Final[Mapping[str, str]] = {
    "growth.cli.doctor": "a command is the module of its own name",
    "growth.cli.orphans": "a command is the module of its own name",
    "growth.controllers.observe.warm_pools": "the twin of observe/buffers",
    "growth.sim.scenarios.traces": "a format of its own",
}

# Every row of the plan has a memory of this name, as it has a function `plan`.
OF_EVERY_ROW: Final = frozenset({"Ledger"})


def rooms() -> dict[Path, list[Path]]:
    """Each folder with the modules in it, without `__init__`."""
    found: dict[Path, list[Path]] = defaultdict(list)
    for path in python_files(SOURCE):
        if path.name != "__init__.py":
            found[path.parent].append(path)
    return {room: modules for room, modules in found.items() if room.as_posix() != SOURCE}


def crowded_rooms(found: Mapping[Path, list[Path]]) -> list[str]:
    return [f"{room}: {len(modules)} modules" for room, modules in found.items() if len(modules) > _most(room)]


def _most(room: Path) -> int:
    if room.as_posix() == f"{SOURCE}/model":
        return 1000
    return MOST_OF_A_PROVIDER if room.parent.as_posix() == f"{SOURCE}/providers" else MOST_MODULES


def importers(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Which modules import each module; both by full name."""
    found: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            for imported in _imported(node, sources):
                found[imported].add(name)
    return found


def _imported(node: ast.AST, sources: Mapping[str, str]) -> Iterable[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return {name if name in sources else node.module for name in names} & sources.keys()
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & sources.keys()
    return ()


def lonely_modules(sources: Mapping[str, str]) -> list[str]:
    """Small modules with one importer; rows of the plan, tables and the fronts of rooms excepted."""
    return [
        f"{name} ({len(source.splitlines())} lines) is read by {next(iter(readers))} alone"
        for name, readers in importers(sources).items()
        if (source := sources[name]) and len(readers) == 1 and len(source.splitlines()) < SMALL_LINES
        if name not in TABLES and not _is_row(source)
    ]


def _is_row(source: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "plan" for node in ast.parse(source).body)


def sources() -> dict[str, str]:
    """Modules by their full name, without the fronts of rooms (`__init__`)."""
    return {
        ".".join(path.with_suffix("").parts[1:]): text_of(path)
        for path in python_files(SOURCE)
        if path.name not in {"__init__.py", "__main__.py"}
    }


def classes_with_two_meanings(paths: Iterable[Path]) -> list[str]:
    """Public classes that two modules of one layer define."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.parse(text_of(path)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in OF_EVERY_ROW:
                found[path.parts[2], node.name].append(path.as_posix())
    return [f"{layer}: {name} in {', '.join(places)}" for (layer, name), places in found.items() if len(places) > 1]


def why_not_file_name(path: Path) -> str | None:
    stem = path.stem
    if stem.endswith("ing") and stem not in NOUNS:
        return f"{path}: {stem} is a participle"
    return f"{path}: {stem} is a metaphor" if stem in METAPHORS else None


def readmes_missing_or_long(found: Iterable[Path]) -> list[str]:
    complaints = []
    for room in found:
        readme = ROOT / room / "README.md"
        if not readme.exists():
            complaints.append(f"{room} has no README.md")
        elif len(readme.read_text().splitlines()) > LONGEST_README:
            complaints.append(f"{room}/README.md has more than {LONGEST_README} lines")
    return complaints
