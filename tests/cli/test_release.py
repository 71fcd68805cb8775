"""`growth release` says what it let go, what it could not, and what is left for a person."""

from __future__ import annotations

from growth.cli.release import as_text
from growth.controllers.ask.release import Released


def test_what_was_let_go_and_what_was_not_is_listed() -> None:
    released = Released(
        ("NodePool default",), ("NodeRequest a: Forbidden (403): no",), ("node-1: growth.dev/scale-down:NoSchedule",)
    )
    lines = as_text(released).splitlines()
    assert lines[:3] == [
        "released NodePool default",
        "failed   NodeRequest a: Forbidden (403): no",
        "tainted  node-1: growth.dev/scale-down:NoSchedule",
    ]
    assert "kubectl taint node" in lines[3]
    assert lines[4] == "1 released, 1 failed. Nodes and machines were left as they are."


def test_with_nothing_to_let_go_one_line_is_enough() -> None:
    assert as_text(Released()) == "0 released, 0 failed. Nodes and machines were left as they are."
