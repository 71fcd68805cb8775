"""Would the pod be too close to its like? Topology spread with DoNotSchedule; ScheduleAnyway never keeps a pod away.

A domain is a value of the topology key among eligible nodes: those that have the keys of all constraints and, as the
policies say, match the pod's node affinity (Honor unless stated) and carry no taint it does not tolerate (Ignore unless
stated). The pod may go where `matching pods in the domain + itself if it matches - the fewest in any domain <=
maxSkew`. With fewer domains than `minDomains` the fewest counts as 0. Pods being deleted are not counted; a selector
that matches everything counts no pods, only the pod itself."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from growth.model.labels import Requirement
from growth.model.pod import PodShape, TopologySpread
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, malformed, refusal
from growth.solver.rules.node_table import ABSENT
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import DomainCounter, NodeRule, Weight
from growth.solver.rules.selectors import Selector, read_selector

_NO_DOMAIN = 2**31 - 1


class Constraint(Struct, frozen=True):
    """One constraint of one class, with the selector after reading."""

    stated: TopologySpread
    selector: Selector
    matches_itself: bool

    @property
    def minimum_domains(self) -> int:
        return 1 if self.stated.min_domains is None else self.stated.min_domains

    def __str__(self) -> str:
        return f"{self.stated.topology_key} (max skew {self.stated.max_skew} of {self.selector})"


def hard_constraints(pod_class: PodClass) -> list[TopologySpread]:
    return [spread for spread in pod_class.shape.spread if spread.when_unsatisfiable == "DoNotSchedule"]


def why_not_spreadable(pod_class: PodClass) -> Reason | None:
    """A selector that cannot be read stops the pod everywhere."""
    problems = (read_selector(spread.selector).malformed for spread in hard_constraints(pod_class))
    problem = next(filter(None, problems), "")
    return malformed(Rule.POD_TOPOLOGY_SPREAD, f"topology spread: {problem}") if problem else None


def read_constraint(spread: TopologySpread, shape: PodShape) -> Constraint:
    selector = read_selector(spread.selector)
    pinned = {key: shape.labels[key] for key in spread.match_label_keys if key in shape.labels}
    if pinned and not selector.matches_nothing:
        added = tuple(Requirement(key, "In", (value,)) for key, value in pinned.items())
        selector = Selector(added + selector.requirements)
    return Constraint(spread, selector, selector.matches(shape.labels))


def matching_pods(selector: Selector, namespace: str) -> Weight:
    def weight(pod_class: PodClass) -> int:
        if selector.is_empty or pod_class.is_leaving or pod_class.namespace != namespace:
            return 0
        return int(selector.matches(pod_class.labels))

    return weight


class PodTopologySpread(NodeRule):
    rule = Rule.POD_TOPOLOGY_SPREAD
    looks_at_pods = True

    def __init__(self, constraints: list[tuple[Constraint, DomainCounter]]) -> None:
        self.constraints = constraints
        self._fewest: dict[int, tuple[int, int]] = {}

    def narrow(self, span: slice, mask: Mask) -> None:
        for position, (_, counter) in enumerate(self.constraints):
            mask &= counter.column.codes[span] != ABSENT
            mask &= counter.on(span) <= self.most_in(position)

    def passes_on(self, index: int) -> bool:
        return all(
            counter.column.codes_one[index] != ABSENT and counter.at(index) <= self.most_in(position)
            for position, (_, counter) in enumerate(self.constraints)
        )

    def most_in(self, position: int) -> int:
        """How many matching pods a domain may hold for one more to go there."""
        constraint = self.constraints[position][0]
        return constraint.stated.max_skew + self._fewest_in(position) - constraint.matches_itself

    def _fewest_in(self, position: int) -> int:
        """Kept until the counter changes."""
        constraint, counter = self.constraints[position]
        known = self._fewest.get(position)
        if known is None or known[0] != counter.changes:
            known = self._fewest[position] = counter.changes, _fewest(constraint, counter)
        return known[1]

    def looks(self, span: slice) -> Iterator[Amounts]:
        for _, counter in self.constraints:
            yield from counter.looks(span)

    def explain(self, index: int) -> Reason:
        for position, (constraint, counter) in enumerate(self.constraints):
            if counter.column.codes[index] == ABSENT:
                text = f"no label {constraint.stated.topology_key} to spread over"
                return refusal(Kind.SPREAD, self.rule, str(constraint), text)
            if counter.at(index) > self.most_in(position):
                text = f"didn't satisfy topology spread over {constraint}"
                detail = f"{counter.at(index)} there, {self._fewest_in(position)} in the emptiest"
                return refusal(Kind.SPREAD, self.rule, str(constraint), text, detail)
        raise AssertionError("asked to explain a node that passes")


def _fewest(constraint: Constraint, counter: DomainCounter) -> int:
    counts = counter.sums[counter.present > 0]
    if len(counts) < constraint.minimum_domains:
        return 0
    return int(counts.min()) if len(counts) else _NO_DOMAIN
