"""Which pods does a rule look at? Asked when a problem is laid out: every selector is matched against every shape once, never again.

A *tally* counts pods: those that a selector matches in some namespaces, in each domain of a topology key. Anti-affinity, affinity and spread
rules of many pods share tallies, so that a class is known by the tallies it adds to and the bounds it puts on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from growth.model.labels import Labels, LabelSelector, Requirement
from growth.model.pod import PodAffinityTerm, PodShape, TopologySpread

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


class Matcher(Struct, frozen=True, cache_hash=True):
    """Pods in any of the namespaces whose labels every selector matches."""

    namespaces: tuple[str, ...]
    selectors: tuple[LabelSelector | None, ...]


class Tally(Struct, frozen=True, cache_hash=True):
    """A count of matching pods in each domain of a key."""

    key: str
    matcher: Matcher


def matches_requirement(labels: Mapping[str, str], requirement: Requirement) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def matches(labels: Mapping[str, str], selector: LabelSelector | None) -> bool:
    return selector is not None and all(matches_requirement(labels, requirement) for requirement in selector.requirements)


class Namespaces:
    """Resolves the namespaces of a term, with the implicit label every namespace carries."""

    def __init__(self, known: Mapping[str, Labels], shapes: Sequence[PodShape]) -> None:
        names = sorted({*known, *(shape.namespace for shape in shapes)})
        self._labels = {name: {NAMESPACE_NAME: name, **known.get(name, {})} for name in names}

    def of(self, term: PodAffinityTerm, own: str) -> tuple[str, ...]:
        if not term.namespaces and term.namespace_selector is None:
            return (own,)
        selected = {name for name, labels in self._labels.items() if matches(labels, term.namespace_selector)}
        return tuple(sorted({*term.namespaces, *selected}))

    def tally(self, term: PodAffinityTerm, own: str) -> Tally:
        return Tally(term.topology_key, Matcher(self.of(term, own), (term.selector,)))


def spread_tally(spread: TopologySpread, shape: PodShape) -> Tally:
    """What a spread rule counts: the pod's own namespace, and equal values of the keys it names."""
    extra = tuple(Requirement(key, "In", (shape.labels[key],)) for key in spread.match_label_keys if key in shape.labels)
    selector = spread.selector
    if selector is not None and extra:
        selector = LabelSelector(selector.requirements + extra)
    return Tally(spread.topology_key, Matcher((shape.namespace,), (selector,)))


class ShapeIndex:
    """Finds the shapes a matcher matches without looking at all of them."""

    def __init__(self, shapes: Sequence[PodShape]) -> None:
        self._shapes = shapes
        self._by_label: dict[tuple[str, str], list[int]] = {}
        for index, shape in enumerate(shapes):
            for pair in shape.labels.items():
                self._by_label.setdefault(pair, []).append(index)
        self._everything = list(range(len(shapes)))

    def matched_by(self, matcher: Matcher) -> list[int]:
        """Indices, in ascending order."""
        namespaces = frozenset(matcher.namespaces)
        return [
            index
            for index in self._candidates(matcher)
            if self._shapes[index].namespace in namespaces and all(matches(self._shapes[index].labels, selector) for selector in matcher.selectors)
        ]

    def _candidates(self, matcher: Matcher) -> list[int]:
        for selector in matcher.selectors:
            if selector is None:
                return []
            for requirement in selector.requirements:
                if requirement.operator == "In":
                    found = {index for value in requirement.values for index in self._by_label.get((requirement.key, value), ())}
                    return sorted(found)
        return self._everything
