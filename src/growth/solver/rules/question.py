"""May a pod of this class go to these nodes? All rules together, in kube-scheduler's order. Asked through `Neighbours`.

| rule | looks at |
| --- | --- |
| (readable), NodeUnschedulable, NodeName, TaintToleration, NodeAffinity | the node |
| NodePorts, NodeResourcesFit | what is on the node |
| VolumeRestrictions, NodeVolumeLimits | claims, disks and attachments in use |
| VolumeBinding, VolumeZone | the node and the volumes |
| PodTopologySpread, InterPodAffinity | pods in the node's domains |

A pod that is malformed, or whose claims are, is refused before any node is looked at. Which rules apply to a class, and
which counters they read, is found out when the class is first asked about. Rules that look at nodes only are answered
once and kept; the others are answered from counters each time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Set
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from growth.model.labels import NO_LABELS, Requirement
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.node_table import ABSENT, Column, all_false, all_true
from growth.solver.rules.placements import Placements
from growth.solver.rules.pod_affinity import (
    InterPodAffinity,
    matching,
    matching_all,
    read_terms,
    view,
    why_not_readable,
)
from growth.solver.rules.pod_class import PodClass, telling
from growth.solver.rules.resources import NodePorts, NodeResourcesFit, Vector, conflicts_with
from growth.solver.rules.rule import DomainCounter, Eligibility, NodeRule, Weight
from growth.solver.rules.selectors import NodeAffinity, NodeName, eligible, why_terms_conflict
from growth.solver.rules.spread import (
    Constraint,
    PodTopologySpread,
    hard_constraints,
    matching_pods,
    read_constraint,
    why_not_spreadable,
)
from growth.solver.rules.taints import NodeUnschedulable, Readable, TaintToleration
from growth.solver.rules.volumes import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
    disk_conflicts,
    users_of,
)

TAKEN_OUT: Final = refusal(Kind.NO_NODES, Rule.TARGET, "", "taken out of the question")


class RefusedNodes(NamedTuple):
    """So many nodes are refused for one reason."""

    reason: Reason
    nodes: int
    detail: str
    example: int  # the number of one of them; of amounts, the roomiest

    def __str__(self) -> str:
        return ", ".join(self.reason.phrases) + (f" ({self.detail})" if self.detail else "")


class Question:
    """The rules for one class."""

    def __init__(self, pod_class: PodClass, placements: Placements) -> None:
        self._class, self._placements, self._table = pod_class, placements, placements.table
        self.before = _refusals_before(pod_class)
        made = _RulesOfClass(pod_class, placements)
        self.amounts, self._around, self._rules, self._counters = made.amounts, made.around, made.rules, made.counters
        self._on_nodes = [rule for rule in self._rules if not rule.looks_at_pods]
        self._on_pods = [rule for rule in self._rules if rule.looks_at_pods and rule is not self._around]
        if not self._around.is_idle:
            self._on_pods.append(self._around)
        self._allowed: Mask = np.zeros(0, np.bool_)  # by the rules that look at nodes only
        self._repellers_seen = 0

    @property
    def is_entangled(self) -> bool:
        """Does placing one such pod change where the next may go, beyond amounts?"""
        return len(self._on_pods) > 1  # amounts alone are looked at by every class

    def is_plain(self, among: Set[PodClass]) -> bool:
        """Among these classes: does nothing but amounts matter to such a pod?"""
        others = sum(rule is not self._around for rule in self._on_pods)
        return others <= 1 and not self._around.is_heeded(among)

    @property
    def is_current(self) -> bool:
        has_seen_nodes = len(self._allowed) == len(self._table.nodes)
        return has_seen_nodes and self._repellers_seen == len(self._placements.repellers)

    def catch_up(self) -> None:
        """Take in nodes and running pods' terms that came since."""
        for counter in self._counters:
            counter.catch_up()
        self._meet_repellers()
        known, size = len(self._allowed), len(self._table)
        if known < size:
            span = slice(known, size)
            fresh = np.ones(size - known, np.bool_)
            for rule in self._on_nodes:
                fresh &= rule.passes(span)
            self._allowed = np.concatenate((self._allowed, fresh))

    def _meet_repellers(self) -> None:
        labels = self._placements.namespaces.get(self._class.namespace, NO_LABELS)
        asked_by = self._placements.repellers_by_label.candidates(self._class.shape.labels, self._repellers_seen)
        for repeller in asked_by:
            if repeller.term.repels(self._class, labels):
                if self._around.is_idle:
                    self._on_pods.append(self._around)
                self._around.repellers.append(repeller)
        self._repellers_seen = len(self._placements.repellers)
        for repeller in self._around.repellers:
            repeller.counter.catch_up()

    def forget_nodes(self, first: int) -> None:
        """Nodes from this number on are gone, or have changed."""
        self._allowed = self._allowed[:first]

    def allowed_by_nodes(self) -> Mask:
        """By the rules that look at nodes only: where may such a pod go, whatever is on the nodes?"""
        return all_false(slice(0, len(self._allowed))) if self.before else self._allowed

    def fits(self, without: NodeRule | None = None) -> Mask:
        """`without` is a rule that is left out: the caller looks at it itself."""
        span = slice(0, len(self._allowed))
        if self.before:
            return all_false(span)
        mask = self._allowed & self._table.is_here[span]
        for rule in self._on_pods:
            if rule is not without:
                rule.narrow(span, mask)
        return mask

    def room(self, without: NodeRule | None = None) -> Amounts:
        fits = self.fits(without)
        return np.where(fits, self.amounts.how_often(slice(0, len(fits))), 0)

    def fits_on(self, index: int) -> bool:
        """The same as `fits` for one node."""
        if self.before or not self._allowed[index] or not self._table.is_here[index]:
            return False
        for rule in self._on_pods:  # noqa: SIM110  (a generator costs as much as the answer)
            if not rule.passes_on(index):
                return False
        return True

    def why_not(self, index: int) -> Reason | None:
        """The first reason, in the scheduler's order."""
        if not self._table.is_here[index]:
            return TAKEN_OUT
        if self.before:
            return self.before[0]
        rules = self._on_pods if self._allowed[index] else self._rules
        return next(filter(None, (rule.why_not(index) for rule in rules)), None)

    def reads(self) -> Iterator[DomainCounter]:
        """The counters that the answer depends on."""
        yield from self._counters
        for repeller in self._around.repellers:
            yield repeller.counter

    def closes(self, counts: Callable[[DomainCounter], bool]) -> Iterator[Column]:
        """Each domain of these columns takes one pod of the class; then the question must be asked again. `counts`:
        does the class count there?
        """
        for rule in self._on_pods:
            yield from (counter.column for counter in rule.avoided() if counts(counter))
        if self._around.is_first():
            yield self._table.everywhere
        if self._class.attaches:
            yield self._table.each

    @property
    def spreads(self) -> PodTopologySpread | None:
        return next((rule for rule in self._on_pods if isinstance(rule, PodTopologySpread)), None)

    def looks(self) -> Iterator[Amounts]:
        """All that this question sees of the nodes."""
        span = slice(0, len(self._allowed))
        yield (self._allowed & self._table.is_here[span]).astype(np.int64)
        for rule in self._on_pods:
            yield from rule.looks(span)

    def all_first_reasons(self) -> Iterator[Reason]:
        """For every node that is here and does not fit: the first reason. Rules are asked for all nodes at once, words
        made only where needed.
        """
        span = slice(0, len(self._allowed))
        left = self._table.is_here[span].copy()
        if self.before:
            yield from itertools.repeat(self.before[0], int(left.sum()))
            return
        for rule in self._rules:
            passes = rule.passes(span)
            for index in np.flatnonzero(left & ~passes):
                yield rule.explain(int(index))
            left &= passes

    def refusals(self, among: Mask, *, alone: bool = False) -> list[RefusedNodes]:
        """What refuses these nodes, the reason of most of them first; among equals in the order of the rules. Nodes
        that are refused alike are asked once. `alone`: by what the node and its amounts say, whatever pods are around.
        """
        if self.before:
            return [RefusedNodes(self.before[0], int(among.sum()), self.before[0].detail, int(among.argmax()))]
        found: dict[tuple[Kind, tuple[str, ...]], RefusedNodes] = {}
        for rule, refused in self._first_to_refuse(among, alone):
            for group in rule.groups(np.flatnonzero(refused)):
                reason, detail, example = _reason_of(rule, group)
                key = (reason.kind, reason.phrases)
                known = found.get(key, RefusedNodes(reason, 0, detail, example))
                detail = detail if detail == known.detail else ""
                found[key] = RefusedNodes(known.reason, known.nodes + len(group), detail, known.example)
        return sorted(found.values(), key=lambda each: -each.nodes)

    def _first_to_refuse(self, among: Mask, alone: bool) -> Iterator[tuple[NodeRule, Mask]]:
        span = slice(0, len(self._allowed))
        left = among[span].copy()
        for rule in self._rules:
            if not alone or not rule.looks_at_pods or rule is self.amounts:
                passes = rule.passes(span)
                refused = left & ~passes
                if refused.any():
                    yield rule, refused
                left &= passes

    def fits_alone(self, among: Mask) -> Mask:
        """Those of the nodes that no rule refuses which looks at the node and its amounts only."""
        span = slice(0, len(self._allowed))
        return among[span] & self.allowed_by_nodes() & self.amounts.passes(span)

    def every_reason(self, index: int) -> list[Reason]:
        if not self._table.is_here[index]:
            return [TAKEN_OUT]
        refused = {reason.rule for reason in self.before}
        reasons = (rule.why_not(index) for rule in self._rules if rule.rule not in refused)
        return [*self.before, *filter(None, reasons)]


def _reason_of(rule: NodeRule, group: Amounts) -> tuple[Reason, str, int]:
    """Why the rule refuses these nodes. Of amounts, in the words of the roomiest of them."""
    if not isinstance(rule, NodeResourcesFit):
        reason = rule.explain(int(group[0]))
        return reason, reason.detail, int(group[0])
    example = rule.roomiest(group)
    reason = rule.explain(example)
    return reason, reason.detail if len(group) == 1 else reason.detail.replace("has ", "has at most "), example


def _refusals_before(pod_class: PodClass) -> tuple[Reason, ...]:
    """Refusals that no node can change, in the scheduler's order."""
    shape, reasons = pod_class.shape, list[Reason | None]()
    if shape.malformed:
        reasons.append(refusal(Kind.MALFORMED, Rule.OBJECT, shape.malformed, f"malformed pod: {shape.malformed}"))
    reasons += [why_terms_conflict(shape), *pod_class.needs.refusals, why_not_spreadable(pod_class)]
    return tuple(filter(None, (*reasons, why_not_readable(shape))))


class _RulesOfClass:
    """The rules that apply to one class, and the counters that they read."""

    def __init__(self, pod_class: PodClass, placements: Placements) -> None:
        self._class, self._shape = pod_class, pod_class.shape
        self._placements, self._table = placements, placements.table
        self.counters: list[DomainCounter] = []
        self.amounts = NodeResourcesFit(self._table, Vector(self._table, self._shape.requests))
        self.around = self._pods_around()
        self.rules = [*self._about_the_node(), *self._volumes(), *self._spread(), self.around]

    def _about_the_node(self) -> Iterator[NodeRule]:
        shape, table = self._shape, self._table
        yield Readable(table)
        yield NodeUnschedulable(table, shape.tolerations)
        if shape.required_node:
            yield NodeName(table, shape.required_node)
        yield TaintToleration(table, shape.tolerations)
        if shape.node_selector or shape.node_affinity is not None:
            yield NodeAffinity(table, shape)
        ports = {port: self._counter(("port", port), table.each, conflicts_with(port)) for port in shape.host_ports}
        if ports:
            yield NodePorts(ports)
        yield self.amounts

    def _volumes(self) -> Iterator[NodeRule]:
        needs, table = self._class.needs, self._table
        if needs.exclusive or needs.disks:
            users = {one: self._counter(("claim", one), table.everywhere, users_of(one)) for one in needs.exclusive}
            disks = {one.name: self._counter(("disk", one), table.each, disk_conflicts(one)) for one in needs.disks}
            yield VolumeRestrictions(users, disks)
        if needs.attachments or needs.limit_refusal is not None:
            yield NodeVolumeLimits(needs, self._placements.book)
        if needs.bound or needs.waiting:
            yield VolumeBinding(table, needs, self._placements.static_volumes)
        if needs.zones:
            yield VolumeZone(table, needs.zones)

    def _spread(self) -> Iterator[NodeRule]:
        constraints = [read_constraint(spread, self._shape) for spread in hard_constraints(self._class)]
        keys = tuple(sorted({one.stated.topology_key for one in constraints}))
        if constraints:
            yield PodTopologySpread([(one, self._matching(one, keys)) for one in constraints])

    def _matching(self, constraint: Constraint, keys: tuple[str, ...]) -> DomainCounter:
        """Pods that the constraint counts, on nodes that have all keys and that its policies do not leave out."""
        spread, shape, table = constraint.stated, self._shape, self._table
        taints = TaintToleration(table, shape.tolerations) if spread.node_taints_policy == "Honor" else None
        honours_affinity = spread.node_affinity_policy == "Honor"

        def eligibility(span: slice) -> Mask:
            mask = all_true(span)
            for key in keys:
                mask &= table.column(key).codes[span] != ABSENT
            if honours_affinity:
                mask &= eligible(table, shape, span)
            if taints is not None:
                mask &= taints.passes(span)
            return mask

        honoured = (
            (shape.node_selector, shape.node_affinity) if honours_affinity else None,
            shape.tolerations if taints is not None else None,
        )
        key = ("spread", shape.namespace, constraint.selector, spread.topology_key, keys, honoured)
        weight, view = matching_pods(constraint.selector, shape.namespace), frozenset((shape.namespace,))
        asked = telling(constraint.selector.requirements)
        counter = self._counter(key, table.column(spread.topology_key), weight, view, eligibility, asked)
        counter.heeds_taints = taints is not None
        return counter

    def _pods_around(self) -> InterPodAffinity:
        shape, column = self._shape, self._table.column
        near = read_terms(shape.affinity, shape.namespace, self._placements.namespaces)
        apart = read_terms(shape.anti_affinity, shape.namespace, self._placements.namespaces)
        to_seek, to_avoid = [], []
        for term in near:
            key, asked = ("near", near, term.topology_key), telling(term.selector.requirements)
            counter = self._counter(key, column(term.topology_key), matching_all(near), view(near), asked=asked)
            to_seek.append((term, counter))
        for term in apart:
            of_term = column(term.topology_key), matching(term), view([term])
            counter = self._counter(("apart", term), *of_term, asked=telling(term.selector.requirements))
            to_avoid.append((term, counter))
        return InterPodAffinity(to_seek, to_avoid, bool(near) and all(term.matches(self._class) for term in near))

    def _counter(
        self,
        key: Hashable,
        column: Column,
        weight: Weight,
        namespaces: frozenset[str] | None = None,
        eligibility: Eligibility | None = None,
        asked: Requirement | None = None,
    ) -> DomainCounter:
        make = partial(DomainCounter, self._table, column, weight, namespaces, eligibility, asked)
        self.counters.append(self._placements.counter(key, make))
        self.counters[-1].asked_by.add(self._class)
        return self.counters[-1]
