"""Is what the documents name really there? Asked of README, ARCHITECTURE and every page: paths, links, make targets,
growth commands.

A word in `backticks` counts as a path when it begins with a folder of ours or ends like a file of ours;
`kube/watch/reflector` stands for src/growth/kube/watch/reflector.py. In the tree that ARCHITECTURE.md draws, every line
is a path."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from tests.house.tree import ROOT, project_files, text_of

PACKAGES = ("model", "solver", "plan", "kube", "providers", "controllers", "sim", "cli", "web")
FOLDERS = ("src", "tests", "bench", "docs", "deploy", ".ci", ".github", *PACKAGES)
FILE_SUFFIXES = (".py", ".md", ".toml", ".lock", ".yml", ".yaml")

READERS: dict[str, Callable[[str], object]] = {
    "python": ast.parse,
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda code: list(yaml.safe_load_all(code)),
}

CODE_BLOCK = re.compile(r"^(```|~~~)[^\n]*\n.*?^\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK_OF_LANGUAGE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TREE_LINE = re.compile(r"^(?P<indent> {4,})(?P<name>[\w.-]+(?:/[\w.-]+)*/?)(?=\s|$)")


def documents() -> tuple[Path, ...]:
    return tuple(path for path in project_files() if path.suffix == ".md")


def missing_paths(text: str) -> list[str]:
    """Paths in backticks that do not exist."""
    spans = (span.strip() for span in CODE_SPAN.findall(CODE_BLOCK.sub("", text)))
    return [span for span in spans if _looks_like_path(span) and not _exists(span)]


def missing_tree_entries(text: str) -> list[str]:
    """Lines of the indented tree that name nothing. Each deeper line stands inside the nearest shallower folder above
    it.
    """
    missing, open_folders = [], list[tuple[int, str]]()
    for match in filter(None, map(TREE_LINE.match, text.splitlines())):
        indent, name = len(match["indent"]), match["name"]
        open_folders = [(depth, folder) for depth, folder in open_folders if depth < indent]
        path = "".join(folder for _, folder in open_folders) + name
        if name.endswith("/"):
            open_folders.append((indent, name))
        if "/" in path and not (ROOT / path).exists():
            missing.append(path)
    return missing


def broken_links(document: Path, text: str) -> list[str]:
    """Relative links that lead nowhere. Addresses on the web are not followed."""
    targets = (
        target.partition("#")[0]
        for target in LINK.findall(CODE_BLOCK.sub("", text))
        if "://" not in target and not target.startswith("mailto:")
    )
    return [target for target in targets if target and not _inside_project((ROOT / document).parent / target)]


def broken_code_blocks(text: str) -> list[str]:
    """Code blocks that their own language refuses."""
    return [
        f"{language}: {error}"
        for language, code in BLOCK_OF_LANGUAGE.findall(text)
        if (error := _why_not_code(language, code))
    ]


def unknown_make_targets(text: str, targets: frozenset[str]) -> list[str]:
    return [
        target
        for line in _commands(text)
        for target in re.findall(r"\bmake ([a-z0-9]+)", line)
        if target not in targets
    ]


def unknown_growth_commands(text: str, commands: frozenset[str]) -> list[str]:
    return [
        command
        for line in _commands(text)
        for command in re.findall(r"(?:^|[\s/])growth ([a-z]+)\b", line)
        if command not in commands
    ]


def make_targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z0-9]+):", text_of(Path("Makefile")), re.MULTILINE))


def _why_not_code(language: str, code: str) -> str | None:
    try:
        if reader := READERS.get(language):
            reader(code)
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return str(error)
    return None


def _commands(text: str) -> Iterator[str]:
    """What a reader may type: code spans, and the lines of shell blocks."""
    yield from CODE_SPAN.findall(CODE_BLOCK.sub("", text))
    for language, block in BLOCK_OF_LANGUAGE.findall(text):
        if language in {"sh", "bash", "console"}:
            yield from (line.partition("#")[0] for line in block.splitlines())


def _looks_like_path(span: str) -> bool:
    if re.search(r"[\s<>*{}$()=:,|]", span) or span.startswith(("/", "~", "http", "..")):
        return False
    first, slash, _ = span.partition("/")
    return (bool(slash) and first in FOLDERS) or span.endswith(FILE_SUFFIXES)


def _exists(span: str) -> bool:
    places = (ROOT / span, ROOT / "src/growth" / span, ROOT / f"src/growth/{span}.py")
    return any(place.exists() for place in places) or any(path.name == span for path in project_files())


def _inside_project(path: Path) -> bool:
    return path.exists() and path.resolve().is_relative_to(ROOT)
