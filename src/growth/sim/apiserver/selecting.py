"""Which objects does a label or field selector choose? Asked by lists, watches and budgets of the embedded API server.

Labels: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`. Fields: `a.b=c`, `a.b!=c`, only on fields that
the kind offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from growth.sim.apiserver.kinds import Json, Kind
from growth.sim.apiserver.refusal import bad_request

Test = Callable[[Json], bool]

_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s+\((?P<values>[^)]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<operator>!=|==|=)\s*(?P<value>[^=!\s]*)")
_PRESENCE = re.compile(r"(?P<negation>!?)\s*(?P<key>[^=!\s]+)")


def object_test(kind: Kind, labels: str, fields: str) -> Test | None:
    """Whether a decoded object is chosen; None where everything is."""
    tests = [*_label_tests(labels), *_field_tests(kind, fields)]
    return (lambda item: all(test(item) for test in tests)) if tests else None


def _parts(selector: str) -> list[str]:
    return [part.strip() for part in _COMMA_OUTSIDE_BRACKETS.split(selector) if part.strip()]


def _label_tests(selector: str) -> list[Test]:
    return [_on_labels(_requirement(part)) for part in _parts(selector)]


def _on_labels(matches: Callable[[Mapping[str, str]], bool]) -> Test:
    return lambda item: matches(item["metadata"].get("labels") or {})


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.fullmatch(text):
        values = {value.strip() for value in match["values"].split(",")}
        return _matcher(match["key"], "In" if match["operator"] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(text):
        return _matcher(match["key"], "NotIn" if match["operator"] == "!=" else "In", {match["value"]})
    if match := _PRESENCE.fullmatch(text):
        return _matcher(match["key"], "DoesNotExist" if match["negation"] else "Exists", set())
    raise bad_request(f"unable to parse requirement: {text!r}")


def _matcher(key: str, operator: str, values: set[str]) -> Callable[[Mapping[str, str]], bool]:
    if operator == "In":
        return lambda labels: labels.get(key) in values
    if operator == "NotIn":
        return lambda labels: labels.get(key) not in values
    return lambda labels: (key in labels) == (operator == "Exists")


def matches_selector(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """A selector as objects carry it (matchLabels, matchExpressions); None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        _matcher(rule["key"], rule["operator"], set(rule.get("values") or ()))(labels)
        for rule in selector.get("matchExpressions") or ()
    )


def _field_tests(kind: Kind, selector: str) -> list[Test]:
    return [_field_test(kind, part) for part in _parts(selector)]


def _field_test(kind: Kind, text: str) -> Test:
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
