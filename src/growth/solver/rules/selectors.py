"""Does this requirement hold, and is it well-formed? The leaf of every rule that selects: nodes, pods, namespaces,
volumes.

Kubernetes reads a selector before it uses it. One that cannot be read matches nothing, and the reason says what is
malformed:

| operator | malformed when |
| --- | --- |
| any | the key is no label key, or a value no label value (so Gt -5 is malformed: a label value cannot begin with a minus) |
| In, NotIn | there are no values |
| Exists, DoesNotExist | there are values |
| Gt, Lt | there is not exactly one value, or it is no 64-bit integer; outside node selectors always |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from growth.model.labels import LabelSelector, NodeSelectorTerm, Requirement

ON_LABELS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
ON_NODES: Final = (*ON_LABELS, "Gt", "Lt")
NODE_NAME_FIELD: Final = "metadata.name"

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LARGEST = 2**63


def is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    return not value or (len(value) <= 63 and _NAME.fullmatch(value) is not None)


def integer(text: str) -> int | None:
    """A 64-bit decimal integer, or None."""
    if len(text) > 64 or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else None


@lru_cache(maxsize=65_536)
def why_malformed(requirement: Requirement, operators: tuple[str, ...]) -> str:
    """What is wrong with it, or nothing."""
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in operators:
        return f"{requirement}: unknown operator"
    if not is_label_key(key):
        return f"{requirement}: not a label key"
    if operator in ("In", "NotIn") and not values:
        return f"{requirement}: needs values"
    if operator in ("Exists", "DoesNotExist") and values:
        return f"{requirement}: takes no values"
    if operator in ("Gt", "Lt") and (len(values) != 1 or integer(values[0]) is None):
        return f"{requirement}: needs one integer"
    return next((f"{requirement}: {value!r} is not a label value" for value in values if not is_label_value(value)), "")


def holds(requirement: Requirement, value: str | None) -> bool:
    """Does a well-formed requirement hold for the label's value (None: the label is absent)?"""
    operator = requirement.operator
    if operator == "In":
        return value in requirement.values
    if operator == "NotIn":
        return value not in requirement.values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    number, bound = integer(value or ""), integer(requirement.values[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


class Selector(Struct, frozen=True):
    """A label selector after reading: nothing, everything, or all requirements together."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False
    malformed: str = ""

    @property
    def is_empty(self) -> bool:
        """Restricts nothing, so it matches everything."""
        return not self.requirements and not self.matches_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.matches_nothing:
            return False
        return all(holds(requirement, labels.get(requirement.key)) for requirement in self.requirements)


NOTHING: Final = Selector(matches_nothing=True)


@lru_cache(maxsize=65_536)
def read_selector(selector: LabelSelector | None) -> Selector:
    """An absent selector matches nothing, a malformed one as well."""
    if selector is None:
        return NOTHING
    problem = next(filter(None, (why_malformed(requirement, ON_LABELS) for requirement in selector.requirements)), "")
    return Selector(matches_nothing=True, malformed=problem) if problem else Selector(selector.requirements)


@lru_cache(maxsize=65_536)
def why_term_malformed(term: NodeSelectorTerm) -> str:
    """A term of a node selector with one malformed part matches no node."""
    problem = next(filter(None, (why_malformed(requirement, ON_NODES) for requirement in term.expressions)), "")
    return problem or next(filter(None, (_why_field_malformed(field) for field in term.fields)), "")


def _why_field_malformed(field: Requirement) -> str:
    if field.operator not in ("In", "NotIn"):
        return f"{field}: unknown operator for a field"
    return "" if len(field.values) == 1 else f"{field}: a field takes one value"
