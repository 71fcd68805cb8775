"""Do growth and the kube-scheduler say the same of a case? Which nodes fit, the first rule that refuses, and every rule
that does.

| the case | demanded |
| --- | --- |
| all pods and nodes would pass the API server | no pod or node is called malformed, and all answers are equal |
| growth calls an object malformed | a malformed pod fits nowhere, a malformed node takes nothing, with that reason |
| an object is of another type than it should be, in a part growth never reads | growth answers |
| otherwise (the API server would not take it, but it can be read) | all answers are equal |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from growth.cli.fits import Answer, Case, Unanswered, World, answer_line, answer_world, read_case
from growth.kube.codec import Codec

_case = msgspec.json.Decoder(Case)


class Truth(Struct):
    """The oracle's answer."""

    id: Any
    fits: list[str] = []
    fails: dict[str, list[str]] = {}
    every: dict[str, dict[str, list[str]]] = {}
    invalid: str = ""
    unread: bool = False
    error: str = ""

    @property
    def decisive(self) -> set[str]:
        """Rules that alone keep the pod from some node."""
        return {next(iter(refusals)) for refusals in self.every.values() if len(refusals) == 1}


def disagreement(line: bytes, truth: Truth, codec: Codec) -> str:
    """What differs, or nothing."""
    if truth.error:
        answer_line(line, codec)  # the scheduler itself gives up; growth must still answer
        return ""
    world = read_case(_case.decode(line), codec)
    answer = answer_world(truth.id, world)
    if isinstance(answer, Unanswered):
        return f"growth does not answer: {answer.error}"
    problem = _why_forms_differ(world, answer)
    if problem:
        return problem
    if answer.malformed:
        return _why_malformed_is_wrong(world, answer, truth)
    return "" if truth.unread else "; ".join(_differences(answer, truth))


def _why_forms_differ(world: World, answer: Answer) -> str:
    """The answer for all nodes at once and the one by one must be the same."""
    fits = world.neighbours.fits(world.pod_class)
    at_once = [node.name for node, is_fit in zip(world.neighbours.table.nodes, fits, strict=True) if is_fit]
    return "" if at_once == answer.fits else f"at once {at_once} fit, one by one {answer.fits}"


def _why_malformed_is_wrong(world: World, answer: Answer, truth: Truth) -> str:
    told = [text for text in answer.malformed or () if text.startswith(("Pod", "Node"))]
    if told and not truth.invalid:
        return f"called malformed, but the API server takes it: {told}"
    if world.pod.shape.malformed:
        bad = [node for node, every in answer.every.items() if every["Object"][0] != "malformed"]
        return (
            f"a malformed pod fits {answer.fits}, or is refused without saying so on {bad}"
            if answer.fits or bad
            else ""
        )
    broken = [node.name for node in world.neighbours.table.nodes if node.malformed]
    return f"malformed nodes {broken} take pods" if set(broken) & set(answer.fits) else ""


def _differences(answer: Answer, truth: Truth) -> Iterable[str]:
    if sorted(answer.fits) != sorted(truth.fits):
        yield f"growth says {sorted(answer.fits)} fit, the scheduler {sorted(truth.fits)}"
    for node in sorted({*answer.every, *truth.every}):
        ours, theirs = _kinds(answer.every.get(node, {})), _kinds(truth.every.get(node, {}))
        if ours != theirs:
            yield f"{node}: growth refuses by {ours}, the scheduler by {theirs}"
        elif _lacking(answer, node) != _lacking(truth, node):
            yield f"{node}: growth lacks {_lacking(answer, node)}, the scheduler {_lacking(truth, node)}"
    for node in sorted({*answer.fails} & {*truth.fails}):
        if answer.fails[node][0] != truth.fails[node][0]:
            yield f"{node}: growth says {answer.fails[node][0]} first, the scheduler {truth.fails[node][0]}"


def _kinds(every: dict[str, list[str]]) -> dict[str, str]:
    return {str(rule): str(told[0]) for rule, told in every.items()}


def _lacking(told: Answer | Truth, node: str) -> list[str]:
    """Which resources are short, by the words both use."""
    phrases = told.every.get(node, {}).get("NodeResourcesFit", [])[1:]
    return sorted(phrase.split(" (")[0].lower() for phrase in phrases)
