"""Do the pods around a node attract or repel this one? Required pod affinity and anti-affinity, and the anti-affinity
of running pods.

| rule | the node passes when |
| --- | --- |
| affinity | every term's topology key is on the node, and each such domain has a pod that matches all terms together |
| – the first of its kind | no pod anywhere matches, and the pod matches its own terms: then the keys alone suffice |
| anti-affinity | no term's domain holds a pod that matches the term; a node without the key is free |
| symmetry | no running pod whose anti-affinity matches this pod is in the term's domain |

A term looks at its namespaces together with those its namespace selector matches; with neither, at the pod's own. As in
the scheduler, a namespace selector of a waiting pod that holds for no labels at all (`tier NotIn [x]`) holds for every
namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from msgspec import Struct

from growth.model.labels import NO_LABELS, Labels
from growth.model.pod import PodAffinityTerm, PodShape
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, malformed, refusal
from growth.solver.rules.node_table import ABSENT
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import DomainCounter, NodeRule, Weight
from growth.solver.rules.selectors import Selector, read_selector


class Term(Struct, frozen=True):
    """A term after reading. `names` are the namespaces it looks at; `everywhere` means all of them."""

    topology_key: str
    selector: Selector
    names: frozenset[str]
    namespace_selector: Selector
    everywhere: bool = False

    def matches(self, pod_class: PodClass) -> bool:
        """For a term of a waiting pod, whose namespace selector is resolved into names."""
        return (self.everywhere or pod_class.namespace in self.names) and self.selector.matches(pod_class.labels)

    def repels(self, pod_class: PodClass, namespace_labels: Labels) -> bool:
        """For a term of a running pod: its namespace selector looks at the labels of the waiting pod's namespace."""
        in_view = pod_class.namespace in self.names or self.namespace_selector.matches(namespace_labels)
        return in_view and self.selector.matches(pod_class.labels)

    def __str__(self) -> str:
        return f"{self.selector} on {self.topology_key}"


def why_term_malformed(term: PodAffinityTerm) -> str:
    return read_selector(term.selector).malformed or read_selector(term.namespace_selector).malformed


def why_not_readable(shape: PodShape) -> Reason | None:
    """A waiting pod with any malformed term, even a preferred one, goes nowhere."""
    preferred = (one.term for one in shape.preferred_affinity + shape.preferred_anti_affinity)
    problems = map(why_term_malformed, (*shape.affinity, *shape.anti_affinity, *preferred))
    problem = next(filter(None, problems), "")
    return malformed(Rule.INTER_POD_AFFINITY, f"pod affinity: {problem}") if problem else None


def read_terms(
    terms: Iterable[PodAffinityTerm], own_namespace: str, namespaces: Mapping[str, Labels] | None = None
) -> tuple[Term, ...]:
    """Terms after reading; with `namespaces` (for a waiting pod) the namespace selector is resolved."""
    return tuple(_read_term(term, own_namespace, namespaces) for term in terms)


def _read_term(term: PodAffinityTerm, own_namespace: str, namespaces: Mapping[str, Labels] | None) -> Term:
    names = set(term.namespaces)
    if not names and term.namespace_selector is None:
        names.add(own_namespace)
    selector = read_selector(term.namespace_selector)
    if namespaces is not None and not selector.is_empty and not selector.matches_nothing:
        names.update(name for name, labels in namespaces.items() if selector.matches(labels))
    is_everywhere = selector.matches(NO_LABELS)
    return Term(term.topology_key, read_selector(term.selector), frozenset(names), selector, is_everywhere)


def repelling_terms(shape: PodShape) -> tuple[Term, ...]:
    """The anti-affinity of a running pod; one malformed term makes the scheduler drop them all."""
    if any(why_term_malformed(term) for term in shape.anti_affinity):
        return ()
    return read_terms(shape.anti_affinity, shape.namespace)


def view(terms: Iterable[Term]) -> frozenset[str] | None:
    """The namespaces that terms look at; None for all."""
    names: frozenset[str] = frozenset()
    for term in terms:
        if term.everywhere:
            return None
        names |= term.names
    return names


def matching_all(terms: tuple[Term, ...]) -> Weight:
    return lambda pod_class: int(all(term.matches(pod_class) for term in terms))


def matching(term: Term) -> Weight:
    return lambda pod_class: int(term.matches(pod_class))


class Repeller(Struct, frozen=True):
    """A term of running pods, and how many of them are in each of its domains."""

    term: Term
    counter: DomainCounter


class InterPodAffinity(NodeRule):
    rule = Rule.INTER_POD_AFFINITY
    looks_at_pods = True

    def __init__(
        self,
        near: list[tuple[Term, DomainCounter]],
        apart: list[tuple[Term, DomainCounter]],
        is_its_own_neighbour: bool,
    ) -> None:
        self._near = near  # counters of pods that match all terms together, by each term's key
        self._apart = apart
        self.repellers: list[Repeller] = []  # grows as running pods bring new terms
        self._is_its_own_neighbour = is_its_own_neighbour

    @property
    def is_idle(self) -> bool:
        """No pod attracts or repels this one: nothing to look at."""
        return not (self.repellers or self._near or self._apart)

    def is_heeded(self, among: Set[PodClass]) -> bool:
        """Does this pod look at others, or does one of these classes repel it?"""
        repelled = any(not repeller.counter.asked_by.isdisjoint(among) for repeller in self.repellers)
        return repelled or bool(self._near or self._apart)

    def narrow(self, span: slice, mask: Mask) -> None:
        is_first = self.is_first()
        for _, counter in self._near:
            mask &= counter.column.codes[span] != ABSENT
            if not is_first:
                mask &= counter.on(span) > 0
        for counter in self._present():
            mask &= counter.on(span) <= 0

    def passes_on(self, index: int) -> bool:
        return self._attracts(index) and all(counter.at(index) <= 0 for counter in self._present())

    def is_first(self) -> bool:
        """No pod anywhere matches, and the pod matches its own terms."""
        return self._is_its_own_neighbour and all(counter.total == 0 for _, counter in self._near)

    def _attracts(self, index: int) -> bool:
        is_first, counters = self.is_first(), (counter for _, counter in self._near)
        return all(one.column.codes[index] != ABSENT and (is_first or one.at(index) > 0) for one in counters)

    def _unattracted(self, index: int) -> Reason:
        """The topology key that the node lacks, or the pods that are not there; several terms mean the same pods."""
        for term, counter in self._near:
            if counter.column.codes[index] == ABSENT:
                text = f"no label {term.topology_key} for pod affinity {term}"
                return refusal(Kind.AFFINITY, self.rule, str(term), text)
        if all(counter.total <= 0 for _, counter in self._near):
            terms = " and ".join(str(term) for term, _ in self._near)
            return refusal(Kind.AFFINITY, self.rule, terms, f"no pod anywhere matches pod affinity {terms}")
        term = next(term for term, counter in self._near if counter.at(index) <= 0)
        return refusal(Kind.AFFINITY, self.rule, str(term), f"didn't match pod affinity {term}")

    def _present(self) -> Iterator[DomainCounter]:
        """Counters of those to avoid, where there are any."""
        for counter in self.avoided():
            if counter.total > 0:
                yield counter

    def avoided(self) -> Iterator[DomainCounter]:
        for _, counter in self._apart:
            yield counter
        for repeller in self.repellers:
            yield repeller.counter

    def looks(self, span: slice) -> Iterator[Amounts]:
        for counter in (*(counter for _, counter in self._near), *self.avoided()):
            yield from counter.looks(span)

    def explain(self, index: int) -> Reason:
        if not self._attracts(index):
            return self._unattracted(index)
        for term, counter in self._apart:
            if counter.at(index) > 0:
                return refusal(Kind.ANTIAFFINITY, self.rule, str(term), f"didn't match pod anti-affinity {term}")
        term = min((repeller.term for repeller in self.repellers if repeller.counter.at(index) > 0), key=str)
        return refusal(Kind.ANTIAFFINITY, self.rule, str(term), f"anti-affinity of running pods: {term}")
