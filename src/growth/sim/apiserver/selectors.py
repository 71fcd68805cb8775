"""Which objects does a selector choose? Asked by lists, watches and budgets of the embedded API server, and by lists of
the fake Hetzner, whose label selectors have the same form.

Labels: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`. Fields: `a.b=c`, `a.b!=c`, only on fields that
the kind offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from growth.sim.apiserver.kinds import Json, Kind
from growth.sim.apiserver.refusal import bad_request

LabelTest = Callable[[Mapping[str, str]], bool]
ObjectTest = Callable[[Json], bool]

_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s+\((?P<values>[^)]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<operator>!=|==|=)\s*(?P<value>[^=!\s]*)")
_PRESENCE = re.compile(r"(?P<negation>!?)\s*(?P<key>[^=!\s]+)")


class SelectorError(ValueError):
    """Not a selector."""


def object_test(kind: Kind, labels: str, fields: str) -> ObjectTest | None:
    """Whether a decoded object is chosen; None where everything is."""
    tests = [_field_test(kind, part) for part in _parts(fields)]
    if labels.strip():
        try:
            matches = label_test(labels)
        except SelectorError as error:
            raise bad_request(f"unable to parse requirement: {error}") from None
        tests.insert(0, lambda item: matches(item["metadata"].get("labels") or {}))
    return (lambda item: all(test(item) for test in tests)) if tests else None


def label_test(selector: str) -> LabelTest:
    """Whether labels are chosen by a selector in its written form; an empty one chooses all."""
    tests = [_label_test(part) for part in _parts(selector)]
    return lambda labels: all(test(labels) for test in tests)


def matches_selector(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """A selector as objects carry it (matchLabels, matchExpressions); None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    rules = selector.get("matchExpressions") or ()
    return all(_rule(rule["key"], rule["operator"], set(rule.get("values") or ()))(labels) for rule in rules)


def _parts(selector: str) -> list[str]:
    return [part.strip() for part in _COMMA_OUTSIDE_BRACKETS.split(selector)] if selector.strip() else []


def _label_test(text: str) -> LabelTest:
    if match := _SET.fullmatch(text):
        values = {value.strip() for value in match["values"].split(",")}
        return _rule(match["key"], "In" if match["operator"] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(text):
        return _rule(match["key"], "NotIn" if match["operator"] == "!=" else "In", {match["value"]})
    if match := _PRESENCE.fullmatch(text):
        return _rule(match["key"], "DoesNotExist" if match["negation"] else "Exists", set())
    raise SelectorError(repr(text))


def _rule(key: str, operator: str, values: set[str]) -> LabelTest:
    if operator == "In":
        return lambda labels: labels.get(key) in values
    if operator == "NotIn":
        return lambda labels: labels.get(key) not in values
    return lambda labels: (key in labels) == (operator == "Exists")


def _field_test(kind: Kind, text: str) -> ObjectTest:
    match = _EQUALITY.fullmatch(text)
    if match is None:
        raise bad_request(f"invalid field selector: {text!r}")
    field, value = match["key"], match["value"]
    if field not in ("metadata.name", "metadata.namespace", *kind.selectable_fields):
        raise bad_request(f"field label not supported: {field}")
    return lambda item: (_field(item, field) == value) == (match["operator"] != "!=")


def _field(item: Json, path: str) -> str:
    value: Any = item
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
