"""What is remembered about snapshots, and for how long."""

from __future__ import annotations

from growth.model.snapshot import Memo


def test_an_answer_is_made_once_as_long_as_its_parts_are_the_very_same() -> None:
    memo, made, nodes = Memo(), list[str](), {"a": 1}

    def make() -> str:
        made.append("answer")
        return "answer"

    assert [memo.recall("who", (nodes, None), make) for _ in range(3)] == ["answer"] * 3
    assert len(made) == 1
    memo.recall("who", (dict(nodes), None), make)  # equal, but another object
    assert len(made) == 2


def test_questions_do_not_push_out_each_others_answers() -> None:
    memo, parts = Memo(), ({"a": 1},)
    memo.recall("who", parts, lambda: "first")
    for number in range(10):
        memo.recall("where", ({"b": number},), lambda: "elsewhere")
    assert memo.recall("who", parts, lambda: "second") == "first"


def test_only_the_latest_answers_to_a_question_are_kept() -> None:
    memo, parts = Memo(), ({"a": 1},)
    memo.recall("who", parts, lambda: "first")
    for number in range(10):
        memo.recall("who", ({"b": number},), lambda: "other")
    assert memo.recall("who", parts, lambda: "second") == "second"


def test_of_many_answers_only_those_are_made_again_whose_part_is_another_object() -> None:
    memo, made = Memo(), list[str]()
    few, many = ("a",), ("b", "c")

    def length(part: tuple[str, ...]) -> int:
        made.append(part[0])
        return len(part)

    first = {"few": few, "many": many}
    assert memo.recall_each("how many", first, length) == {"few": 1, "many": 2}
    assert memo.recall_each("how many", first, length) == {"few": 1, "many": 2}
    assert made == ["a", "b"]
    later = {"few": few, "many": ("d", "e", "f"), "new": ("g",)}
    assert memo.recall_each("how many", later, length) == {"few": 1, "many": 3, "new": 1}
    assert made == ["a", "b", "d", "g"]
    assert memo.recall_each("how many", {"new": later["new"]}, length) == {"new": 1}  # what is gone is forgotten
    assert memo.recall_each("how many", first, length) == {"few": 1, "many": 2}
    assert made == ["a", "b", "d", "g", "a", "b"]
