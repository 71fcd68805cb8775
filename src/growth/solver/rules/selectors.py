"""Is a selector well-formed, does it hold, and is a node among those that a pod or a volume asks for by name, label or
field? Asked by every rule that selects nodes, pods, namespaces or volumes.

Kubernetes reads a selector before it uses it. One that cannot be read matches nothing, and the reason says what is
malformed:

| operator | malformed when |
| --- | --- |
| any | the key is no label key, or a value no label value (so Gt -5 is malformed: none begins with a minus) |
| In, NotIn | there are no values |
| Exists, DoesNotExist | there are values |
| Gt, Lt | there is not exactly one value, or it is no 64-bit integer; outside node selectors always |

| asked of a node | matches |
| --- | --- |
| node selector | every pair is a label of the node |
| terms | any one of them; an empty list, and an empty term, match no node |
| a term | all its expressions (labels) and fields (metadata.name); with a malformed part the term matches nothing |
| spec.nodeName | that node |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct

from growth.model.disruption import PodDisruptionBudget
from growth.model.labels import Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.pod import Pod, PodShape
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.node_table import NodeTable, all_false, all_true
from growth.solver.rules.rule import NodeRule, grouped

ON_LABELS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
ON_NODES: Final = (*ON_LABELS, "Gt", "Lt")
NODE_NAME_FIELD: Final = "metadata.name"

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LARGEST = 2**63
_MOST_KINDS = 60  # bits of a number


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

    def __str__(self) -> str:
        """The pods it selects."""
        pods = ", ".join(str(requirement) for requirement in self.requirements) or "any pod"
        return "no pod" if self.matches_nothing else pods


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


# -------------------------------------------------------------------- the nodes that a pod asks for

_Answer = TypeVar("_Answer", bool, Mask)  # for one node, or for many


def selected(table: NodeTable, selector: Labels, span: slice) -> Mask:
    """Nodes that carry every pair of a node selector. Its pairs are compared as they are written."""
    mask = all_true(span)
    for key, value in selector.items():
        mask &= labelled(table, Requirement(key, "In", (value,)), span)
    return mask


def any_term_matches(
    table: NodeTable, terms: Iterable[NodeSelectorTerm], span: slice, with_fields: bool = True
) -> Mask:
    """Nodes that match one of the terms. A volume's terms are matched without fields: the scheduler shows it labels
    only.
    """
    everything = all_true(span)

    def on_field(field: Requirement) -> Mask:
        return _field_matches(table, field, span) if with_fields else everything

    return _any_term(terms, all_false(span), everything, lambda one: labelled(table, one, span), on_field)


def any_term_matches_labels(terms: Iterable[NodeSelectorTerm], labels: Mapping[str, str], name: str = "") -> bool:
    """The same for one node, from its labels and its name; a node without a name is one that is still to be made."""

    def on_field(field: Requirement) -> bool:
        return holds(field, name if field.key == NODE_NAME_FIELD else "")

    return _any_term(terms, False, True, lambda one: holds(one, labels.get(one.key)), on_field)


def _any_term(
    terms: Iterable[NodeSelectorTerm],
    nothing: _Answer,
    everything: _Answer,
    on_label: Callable[[Requirement], _Answer],
    on_field: Callable[[Requirement], _Answer],
) -> _Answer:
    """What terms mean."""
    found = nothing
    for term in terms:
        if not _why_term_never_matches(term):
            matched = everything
            for requirement in term.expressions:
                matched = matched & on_label(requirement)
            for field in term.fields:
                matched = matched & on_field(field)
            found = found | matched
    return found


def _why_term_never_matches(term: NodeSelectorTerm) -> str:
    """A term that matches no node whatever its labels, in words."""
    if not (term.expressions or term.fields):
        return "an empty term, which matches no node"
    problem = why_term_malformed(term)
    return f"{term} (malformed: {problem})" if problem else ""


def labelled(table: NodeTable, requirement: Requirement, span: slice) -> Mask:
    """Nodes for whose label the requirement holds."""
    column = table.column(requirement.key)
    return column.flags(requirement, holds)[column.codes[span]]


def _field_matches(table: NodeTable, field: Requirement, span: slice) -> Mask:
    """Only metadata.name is a field of a node; any other reads as empty. A nameless node has no fields, so none can
    fail.
    """
    wanted = field.values[0]
    is_wanted = all_false(span) if field.key == NODE_NAME_FIELD or wanted else all_true(span)
    named = table.index.get(wanted) if field.key == NODE_NAME_FIELD else None
    if named is not None and span.start <= named < span.stop:
        is_wanted[named - span.start] = True
    mask = is_wanted if field.operator == "In" else ~is_wanted
    nameless = table.index.get("")
    if nameless is not None and span.start <= nameless < span.stop:
        mask[nameless - span.start] = True
    return mask


def eligible(table: NodeTable, shape: PodShape, span: slice) -> Mask:
    """Nodes that the pod's selector and required affinity allow."""
    mask = selected(table, shape.node_selector, span)
    return mask if shape.node_affinity is None else mask & any_term_matches(table, shape.node_affinity, span)


def is_eligible(shape: PodShape, labels: Labels, name: str = "") -> bool:
    """The same for one node."""
    if any(labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    return shape.node_affinity is None or any_term_matches_labels(shape.node_affinity, labels, name)


def why_terms_conflict(shape: PodShape) -> Reason | None:
    """Each term asks for two different nodes by name: no node is even looked at."""
    names: set[str] = set()
    for term in shape.node_affinity or ():
        wanted = [set(field.values) for field in term.fields if field.key == NODE_NAME_FIELD and field.operator == "In"]
        if not wanted:
            return None
        names |= set.intersection(*wanted)
    if names or not shape.node_affinity:
        return None
    text = describe_terms(shape.node_affinity)
    return refusal(Kind.NODEAFFINITY, Rule.NODE_AFFINITY, text, f"node affinity contradicts itself: {text}")


NO_TERMS: Final = "an empty list of terms, which matches no node"


def describe_terms(terms: tuple[NodeSelectorTerm, ...]) -> str:
    return " or ".join(_why_term_never_matches(term) or str(term) for term in terms) or NO_TERMS


class NodeAffinity(NodeRule):
    rule = Rule.NODE_AFFINITY

    def __init__(self, table: NodeTable, shape: PodShape) -> None:
        self._table, self._shape = table, shape

    def passes(self, span: slice) -> Mask:
        return eligible(self._table, self._shape, span)

    def groups(self, numbers: Amounts) -> list[Amounts]:
        """Nodes that lack the same pairs of the selector; of those that have them all, the same expressions."""
        span, kinds = slice(0, len(self._table)), np.zeros(len(numbers), np.int64)
        has_labels = selected(self._table, self._shape.node_selector, span)[numbers]
        pairs = [labelled(self._table, pair, span)[numbers] for pair in self._pairs()]
        asked = [self._holds(one, is_field, span)[numbers] | ~has_labels for one, is_field in self._expressions()]
        for position, row in enumerate((pairs + asked)[:_MOST_KINDS]):
            kinds |= row.astype(np.int64) << position
        return grouped(numbers, kinds)

    def _pairs(self) -> list[Requirement]:
        return [Requirement(key, "In", (value,)) for key, value in self._shape.node_selector.items()]

    def _expressions(self) -> list[tuple[Requirement, bool]]:
        """Of terms that can match at all; and whether it is about a field."""
        terms = [term for term in self._shape.node_affinity or () if not _why_term_never_matches(term)]
        return [pair for term in terms for pair in _parts(term)]

    def _holds(self, requirement: Requirement, is_field: bool, span: slice) -> Mask:
        look = _field_matches if is_field else labelled
        return look(self._table, requirement, span)

    def explain(self, index: int) -> Reason:
        """Only what does not hold is named."""
        one = slice(index, index + 1)
        missing = [pair for pair in self._pairs() if not labelled(self._table, pair, one)[0]]
        if missing:
            text = ",".join(f"{pair.key}={pair.values[0]}" for pair in missing)
            return refusal(Kind.NODESELECTOR, self.rule, text, f"didn't match node selector {text}")
        words = [_why_term_never_matches(term) or self._broken(term, one) for term in self._shape.node_affinity or ()]
        text = " or ".join(dict.fromkeys(words)) or NO_TERMS
        return refusal(Kind.NODEAFFINITY, self.rule, text, f"didn't match node affinity {text}")

    def _broken(self, term: NodeSelectorTerm, one: slice) -> str:
        return " and ".join(str(part) for part, is_field in _parts(term) if not self._holds(part, is_field, one)[0])


def _parts(term: NodeSelectorTerm) -> list[tuple[Requirement, bool]]:
    """Its requirements, and whether each is about a field."""
    return [*((one, False) for one in term.expressions), *((one, True) for one in term.fields)]


class NodeName(NodeRule):
    rule = Rule.NODE_NAME

    def __init__(self, table: NodeTable, name: str) -> None:
        self._table, self._name = table, name

    def passes(self, span: slice) -> Mask:
        mask = all_false(span)
        named = self._table.index.get(self._name)
        if named is not None and span.start <= named < span.stop:
            mask[named - span.start] = True
        return mask

    def explain(self, _index: int) -> Reason:
        return refusal(Kind.NODENAME, self.rule, self._name, f"not the requested node {self._name}")


def guarding(budgets: Iterable[PodDisruptionBudget], pod: Pod) -> list[PodDisruptionBudget]:
    """Those of the budgets that the pod is counted in."""
    own = (each for each in budgets if each.namespace == pod.namespace)
    return [each for each in own if read_selector(each.selector).matches(pod.shape.labels)]
