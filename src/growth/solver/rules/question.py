"""May a pod of this class go to these nodes? All rules together, in kube-scheduler's order. Asked through `Neighbours`.

| rule | looks at |
| --- | --- |
| (readable), NodeUnschedulable, NodeName, TaintToleration, NodeAffinity | the node |
| NodePorts, NodeResourcesFit | what is on the node |
| VolumeRestrictions, NodeVolumeLimits | claims, disks and attachments in use |
| VolumeBinding, VolumeZone | the node and the volumes |
| PodTopologySpread, InterPodAffinity | pods in the node's domains |

A pod that is malformed, or whose claims are, is refused before any node is looked at. Rules that look at nodes only are
answered once and kept; the others are answered from counters each time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.assembly import assemble, refused_before
from growth.solver.rules.counters import DomainCounter
from growth.solver.rules.node_table import Column
from growth.solver.rules.pod_affinity import InterPodAffinity
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.resources import NodeResourcesFit
from growth.solver.rules.rule import NodeRule, all_false
from growth.solver.rules.spread import PodTopologySpread

if TYPE_CHECKING:
    from growth.solver.rules.neighbours import Neighbours


TAKEN_OUT: Final = refusal(Kind.NO_NODES, Rule.TARGET, "", "taken out of the question")


class Question:
    """The rules for one class."""

    def __init__(self, pod_class: PodClass, neighbours: Neighbours) -> None:
        self._class = pod_class
        self._neighbours = neighbours
        self.before: tuple[Reason, ...] = refused_before(pod_class)
        assembled = assemble(pod_class, neighbours)
        self._counters = assembled.counters
        self._rules = assembled.rules
        self._standing = [rule for rule in assembled.rules if not rule.looks_at_pods]
        self._moving = [rule for rule in assembled.rules if rule.looks_at_pods and rule is not assembled.around]
        if not assembled.around.is_idle:
            self._moving.append(assembled.around)
        self._fit: NodeResourcesFit = assembled.fit
        self._around: InterPodAffinity = assembled.around
        self._allowed: Mask = np.zeros(0, np.bool_)
        self._repellers_seen = 0

    @property
    def is_entangled(self) -> bool:
        """Does placing one such pod change where the next may go, beyond amounts?"""
        return len(self._moving) > 1  # amounts alone are looked at by every class

    @property
    def is_current(self) -> bool:
        return len(self._allowed) == len(self._neighbours.table.nodes) and self._repellers_seen == len(
            self._neighbours.repellers
        )

    def catch_up(self) -> None:
        """Take in nodes and running pods' terms that came since."""
        for counter in self._counters:
            counter.catch_up()
        self._meet_repellers()
        known, size = len(self._allowed), len(self._neighbours.table)
        if known < size:
            span = slice(known, size)
            fresh = np.ones(size - known, np.bool_)
            for rule in self._standing:
                fresh &= rule.passes(span)
            self._allowed = np.concatenate((self._allowed, fresh))

    def _meet_repellers(self) -> None:
        labels = self._neighbours.namespace_labels(self._class.namespace)
        for repeller in self._neighbours.repellers[self._repellers_seen :]:
            if repeller.term.repels(self._class, labels):
                if self._around.is_idle:
                    self._moving.append(self._around)
                self._around.repellers.append(repeller)
        self._repellers_seen = len(self._neighbours.repellers)
        for repeller in self._around.repellers:
            repeller.counter.catch_up()

    def forget_nodes(self, first: int) -> None:
        """Nodes from this number on are gone, or have changed."""
        self._allowed = self._allowed[:first]

    def fits(self, without: NodeRule | None = None) -> Mask:
        """`without` is a rule that is left out: its asker keeps it himself."""
        span = slice(0, len(self._allowed))
        if self.before:
            return all_false(span)
        mask = self._allowed & self._neighbours.table.is_here[span]
        for rule in self._moving:
            if rule is not without:
                rule.narrow(span, mask)
        return mask

    def room(self, without: NodeRule | None = None) -> Amounts:
        fits = self.fits(without)
        return np.where(fits, self._fit.how_often(slice(0, len(fits))), 0)

    def fits_on(self, index: int) -> bool:
        """The same as `fits` for one node."""
        if self.before or not self._allowed[index] or not self._neighbours.table.is_here[index]:
            return False
        for rule in self._moving:  # noqa: SIM110  (a generator costs as much as the answer)
            if not rule.passes_on(index):
                return False
        return True

    def why_not(self, index: int) -> Reason | None:
        """The first reason, in the scheduler's order."""
        if not self._neighbours.table.is_here[index]:
            return TAKEN_OUT
        if self.before:
            return self.before[0]
        rules = self._moving if self._allowed[index] else self._rules
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
        for rule in self._moving:
            yield from (counter.column for counter in rule.avoided() if counts(counter))
        if self._around.is_first():
            yield self._neighbours.table.everywhere
        if self._class.attaches:
            yield self._neighbours.table.each

    @property
    def amounts(self) -> NodeResourcesFit:
        return self._fit

    @property
    def spreads(self) -> PodTopologySpread | None:
        return next((rule for rule in self._moving if isinstance(rule, PodTopologySpread)), None)

    def looks(self) -> Iterator[Amounts]:
        """All that this question sees of the nodes."""
        span = slice(0, len(self._allowed))
        yield (self._allowed & self._neighbours.table.is_here[span]).astype(np.int64)
        for rule in self._moving:
            yield from rule.looks(span)

    def all_first_reasons(self) -> Iterator[Reason]:
        """For every node that is here and does not fit: the first reason. Rules are asked for all nodes at once, words
        made only where needed.
        """
        span = slice(0, len(self._allowed))
        left = self._neighbours.table.is_here[span].copy()
        if self.before:
            yield from itertools.repeat(self.before[0], int(left.sum()))
            return
        for rule in self._rules:
            passes = rule.passes(span)
            for index in np.flatnonzero(left & ~passes):
                yield rule.explain(int(index))
            left &= passes

    def refusals(self, among: Mask) -> Iterator[tuple[NodeRule, Mask]]:
        """Rule by rule: the nodes of `among` that this rule is the first to refuse. Nothing where the pod itself is
        refused (`before`).
        """
        span = slice(0, len(self._allowed))
        left = among[span].copy()
        for rule in self._rules if not self.before else ():
            passes = rule.passes(span)
            refused = left & ~passes
            if refused.any():
                yield rule, refused
            left &= passes

    def every_reason(self, index: int) -> list[Reason]:
        if not self._neighbours.table.is_here[index]:
            return [TAKEN_OUT]
        refused = {reason.rule for reason in self.before}
        reasons = (rule.why_not(index) for rule in self._rules if rule.rule not in refused)
        return [*self.before, *filter(None, reasons)]
