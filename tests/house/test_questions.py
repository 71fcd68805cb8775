from __future__ import annotations

from pathlib import Path

from tests.house.questions import Question, questions, why_unanswered
from tests.house.tree import text_of


def test_the_architecture_answers_at_least_forty_questions_and_every_answer_is_there() -> None:
    asked = questions(text_of(Path("ARCHITECTURE.md")))
    assert len(asked) >= 40
    assert [why for each in asked if (why := why_unanswered(each))] == []


def test_an_answer_that_is_not_there_is_noticed() -> None:
    assert why_unanswered(Question("where?", "plan/world/nodes", "no_such_thing"))
    assert why_unanswered(Question("where?", "plan/no_such_room", "plan"))
