"""The documents name only what exists, and the rules that say so notice a page that has fallen behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from growth.cli.app import COMMANDS
from tests.house.documents import (
    broken_code_blocks,
    broken_links,
    documents,
    make_targets,
    missing_paths,
    missing_tree_entries,
    unknown_growth_commands,
    unknown_make_targets,
)
from tests.house.tree import text_of

COMMAND_NAMES = frozenset(command.name for command in COMMANDS)
ARCHITECTURE = Path("ARCHITECTURE.md")


def test_every_path_that_a_document_names_exists() -> None:
    assert [f"{document}: {path}" for document in documents() for path in missing_paths(text_of(document))] == []


def test_every_entry_of_the_tree_in_the_architecture_exists() -> None:
    assert missing_tree_entries(text_of(ARCHITECTURE)) == []
    assert "    src/growth/" in text_of(ARCHITECTURE)


def test_every_relative_link_leads_somewhere() -> None:
    assert [
        f"{document}: {link}" for document in documents() for link in broken_links(document, text_of(document))
    ] == []


def test_every_code_block_is_valid_in_its_language() -> None:
    assert [f"{document}: {block}" for document in documents() for block in broken_code_blocks(text_of(document))] == []


def test_every_make_target_that_a_document_names_exists() -> None:
    assert [
        f"{document}: make {target}"
        for document in documents()
        for target in unknown_make_targets(text_of(document), make_targets())
    ] == []


def test_every_growth_command_that_a_document_names_exists() -> None:
    assert [
        f"{document}: growth {name}"
        for document in documents()
        for name in unknown_growth_commands(text_of(document), COMMAND_NAMES)
    ] == []


@pytest.mark.parametrize("span", ["src/growth/attic.py", "kube/telegraph", "tests/attic/", "ATTIC.md"])
def test_a_path_that_is_not_there_is_noticed(span: str) -> None:
    assert missing_paths(f"See `{span}`.") == [span]


@pytest.mark.parametrize(
    "span",
    [
        "src/growth/runtime.py",
        "kube/api/transport",
        "model/",
        "pods/binding",
        "growth.dev/pool",
        "pyproject.toml",
        "/healthz",
        "plan(snapshot)",
    ],
)
def test_a_path_that_is_there_or_none_at_all_passes(span: str) -> None:
    assert missing_paths(f"See `{span}`.") == []


def test_a_tree_is_read_with_its_nesting() -> None:
    tree = (
        "Text\n\n    src/growth/\n      model/     nouns\n      attic/     old things\n        box.py   in it\n"
        "      runtime.py leaf\n    tests/       all\n"
    )
    assert missing_tree_entries(tree) == ["src/growth/attic/", "src/growth/attic/box.py"]


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    text = "[here](README.md#start) [gone](docs/attic.md) [web](https://kubernetes.io) [out](../../secrets.md)"
    assert broken_links(Path("README.md"), text) == ["docs/attic.md", "../../secrets.md"]


def test_a_command_that_is_not_there_is_noticed() -> None:
    text = (
        "Type `make fly` or `growth fly --now`.\n\n```sh\nmake swim   # make no mistake\n.venv/bin/growth swim\n```\n"
    )
    assert unknown_make_targets(text, make_targets()) == ["fly", "swim"]
    assert unknown_growth_commands(text, COMMAND_NAMES) == ["fly", "swim"]


@pytest.mark.parametrize(
    ("language", "code"), [("python", "def plan(:\n"), ("json", "{,}\n"), ("toml", "a = = 1\n"), ("yaml", "a: [1\n")]
)
def test_a_code_block_that_its_language_refuses_is_noticed(language: str, code: str) -> None:
    assert len(broken_code_blocks(f"Text\n\n```{language}\n{code}```\n")) == 1
    assert broken_code_blocks(f"Text\n\n```text\n{code}```\n") == []
