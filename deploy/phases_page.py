"""The page docs/reference/phases.md: what the phases of NodeRequests and NodeRemovalRequests mean and which follow."""

from __future__ import annotations

from growth.model.noderequest import PHASES, TRANSITIONS

INTRODUCTION = """# Phases

growth writes every machine it buys and every node it gives back as an object first. Its `status.phase` says how far
it has come. An arrow that is not on this page is never written. The record is deleted when it has nothing more to say.
"""

CLOSING = """
This page is generated from the code: `python -m deploy.generate`.
"""


def phases_page() -> str:
    return INTRODUCTION + "".join(_chapter(kind) for kind in PHASES) + CLOSING


def _chapter(kind: str) -> str:
    phases = "".join(f"| {phase} | {meaning} |\n" for phase, meaning in PHASES[kind].items())
    arrows = "".join(f"| {each.before} | {each.after} | {each.when} |\n" for each in TRANSITIONS[kind])
    meanings = f"| phase | means |\n| --- | --- |\n{phases}"
    picture = f"![The phases of a {kind} and the arrows between them](phases-{kind.lower()}.svg)\n"
    return f"\n## {kind}\n\n{picture}\n{meanings}\n| from | to | when |\n| --- | --- | --- |\n{arrows}"
