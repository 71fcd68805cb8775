"""How answers look: the sentence first, tables after it, plain where nobody watches; and the names kubectl knows."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from growth.cli import main
from growth.cli.explain.layout import tell
from growth.controllers.ask.explain import why_node, why_pod
from growth.model.settings import Settings
from tests.plan.builders import node, offering, pod, pool, world

SMALL, BIG = offering("small", 2, 4096, 0.01), offering("big", 16, 32768, 0.08)


def told(answer: object, *, is_terminal: bool = False) -> list[str]:
    file = io.StringIO()
    tell(answer, Console(file=file, width=200, force_terminal=is_terminal, highlight=False))  # type: ignore[arg-type]
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_pod_without_a_place_hears_why_what_each_offering_says_and_what_would_help() -> None:
    huge = pod("huge", 8)
    lines = told(why_pod(huge, world((huge,), [pool()], [SMALL, BIG]), Settings()))
    assert lines[0].startswith("pod default/huge: no place for this pod: ")
    table = [" ".join(line.split()) for line in lines]
    assert "pool offering location per hour says" in table
    assert "default sim-small fsn1 0.0100 insufficient cpu" in table
    assert "big among the serverTypes of NodePool default sim-big in fsn1 of NodePool default 0.0800" in table


def test_nothing_is_coloured_where_nobody_watches() -> None:
    empty = node("n", of=SMALL)
    answer = why_node(empty, world((), [pool()], [SMALL], [empty]), Settings())
    assert "\x1b[" not in "".join(told(answer))
    assert "\x1b[" in "".join(told(answer, is_terminal=True))
    assert told(answer)[0].startswith("node n: it is empty")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["explain", "nodepol", "x"], "did you mean nodepool"),
        (["explain", "np"], "say which nodepool"),
        (["explain", "pods/"], "say which pod"),
        (["explain", "deployment", "web"], "choose from pod, node, nodepool"),
    ],
)
def test_kinds_have_the_names_that_kubectl_knows_and_typing_errors_get_choices(
    typed: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == 1
    assert words in capsys.readouterr().err
