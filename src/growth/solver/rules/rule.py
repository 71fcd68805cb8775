"""The form of every rule: which nodes of a span pass, and why one of them does not; and the counters that rules read.

A rule says what it means over a span of nodes; a single node is a span of one. So the quick answer for all nodes and
the exact reason for one come from the same code. Where a search asks pod by pod, a rule also answers for one node from
plain numbers; tests hold the two forms together.

A counter says how many pods of certain classes are in each domain: the one kind of number that ports, spread, affinity
and volumes look at. A domain is the set of nodes that share a label's value, or a single node, or the whole cluster.
Adding or removing a placement changes the numbers it touches and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from growth.model.labels import Requirement
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Reason, Rule
from growth.solver.rules.node_table import ABSENT, Column, NodeTable, all_true
from growth.solver.rules.pod_class import PodClass


class NodeRule:
    """One of kube-scheduler's filters, put to one class of pods. A rule defines `passes`, or `narrow` where that saves
    a mask.
    """

    rule: ClassVar[Rule]
    looks_at_pods: ClassVar[bool] = False  # its answer changes with what is on the nodes

    def passes(self, span: slice) -> Mask:
        """For each node of the span: does this rule let the pod go there?"""
        mask = all_true(span)
        self.narrow(span, mask)
        return mask

    def narrow(self, span: slice, mask: Mask) -> None:
        """Strike out of the mask the nodes of the span that do not pass."""
        mask &= self.passes(span)

    def passes_on(self, index: int) -> bool:
        """The same for one node. Rules that are asked pod by pod answer it from plain numbers."""
        return bool(self.passes(slice(index, index + 1))[0])

    def looks(self, span: slice) -> Iterator[Amounts]:
        """What this rule sees of each node, as numbers: nodes with equal numbers are alike to it, now and after equal
        placements.

        Rules that look at nodes only are seen by their answer.
        """
        yield self.passes(span).astype(np.int64)

    def avoided(self) -> Iterator[DomainCounter]:
        """Counters of which a domain must show 0: a pod that counts in one of them closes its domain for the next of
        its kind.
        """
        return iter(())

    def groups(self, numbers: Amounts) -> list[Amounts]:
        """Of nodes that do not pass: in groups, each of which is refused in the same words."""
        size = int(numbers.max(initial=-1)) + 1
        seen = np.array([look[numbers] for look in self.looks(slice(0, size))])
        return grouped(numbers, np.unique(seen, axis=1, return_inverse=True)[1].reshape(-1))

    def explain(self, index: int, /) -> Reason:
        """Why the node does not pass; only asked for a node that does not."""
        raise NotImplementedError

    def why_not(self, index: int) -> Reason | None:
        return None if self.passes_on(index) else self.explain(index)


Weight = Callable[[PodClass], int]
Eligibility = Callable[[slice], Mask]


def grouped(numbers: Amounts, kinds: Amounts) -> list[Amounts]:
    """Nodes of one kind together, the group of the first node first."""
    return sorted(grouped_by_kind(numbers, kinds), key=lambda group: int(group[0]))


def grouped_by_kind(numbers: Amounts, kinds: Amounts) -> list[Amounts]:
    """The same in the order of kinds."""
    _, counts = np.unique(kinds, return_counts=True)
    return np.split(numbers[np.argsort(kinds, kind="stable")], np.cumsum(counts)[:-1]) if len(numbers) else []


class DomainCounter:
    """Pods by domain. With an eligibility, only nodes that have it count, and `present` says how many of them each
    domain has.
    """

    __slots__ = (
        "_eligibility",
        "_eligible",
        "_known",
        "_sums_one",
        "_table",
        "asked",
        "asked_by",
        "changes",
        "column",
        "heeds_taints",
        "namespaces",
        "present",
        "sums",
        "total",
        "weight",
    )

    def __init__(
        self,
        table: NodeTable,
        column: Column,
        weight: Weight,
        namespaces: frozenset[str] | None = None,
        eligibility: Eligibility | None = None,
        asked: Requirement | None = None,
    ) -> None:
        self._table = table
        self._eligibility = eligibility
        self._eligible: list[bool] = []
        self._known = 0
        self.column = column
        self.weight = weight  # how much one pod of a class counts
        self.namespaces = namespaces  # classes of other namespaces never count; None: any may
        self.asked = asked  # classes that do not meet it never count
        self.asked_by: set[PodClass] = set()  # whose rules it serves
        self.heeds_taints = False  # do taints decide which nodes count?
        self.sums: Amounts = np.zeros(1, np.int64)
        self._sums_one: memoryview[int] = self.sums.data  # the same for one domain at a time
        self.present: Amounts = np.zeros(1, np.int64)
        self.total = 0
        self.changes = 0
        self.catch_up()

    def catch_up(self) -> None:
        """Take in nodes that were appended since."""
        if self._known == len(self._table):
            return
        self._make_room()
        span = slice(self._known, len(self._table))
        self._known = span.stop
        self.changes += 1
        if self._eligibility is not None:
            fresh = self._eligibility(span)
            self._eligible += fresh.tolist()
            np.add.at(self.present, self.column.codes[span][fresh & self._table.is_here[span]], 1)

    def _make_room(self) -> None:
        missing = self._table.domain_count(self.column) - len(self.sums)
        if missing > 0:
            self.sums = np.concatenate((self.sums, np.zeros(missing, np.int64)))
            self._sums_one = self.sums.data
            self.present = np.concatenate((self.present, np.zeros(missing, np.int64)))

    def add(self, index: int, amount: int) -> None:
        """So many more (or fewer) on a node."""
        if index >= self._known:
            self.catch_up()
        code = self.column.codes_one[index]
        if code != ABSENT and (self._eligibility is None or self._eligible[index]):
            self._sums_one[code] += amount
            self.total += amount
            self.changes += 1

    @property
    def knows_nodes(self) -> bool:
        """Does it matter to the counter which nodes there are?"""
        return self._eligibility is not None

    def add_node(self, index: int, amount: int) -> None:
        """The node itself comes (1) or goes (-1); its pods are counted apart."""
        if self._eligibility is not None and index < self._known and self._eligible[index]:
            self.present[self.column.codes[index]] += amount
            self.changes += 1

    def reconsider_node(self, index: int) -> None:
        """The node has changed while it was out."""
        if index < self._known:
            self._make_room()
            if self._eligibility is not None:
                self._eligible[index] = bool(self._eligibility(slice(index, index + 1))[0])

    def forget_node(self, index: int) -> None:
        """The last node is taken off the table; it went before."""
        if index < self._known:
            self._known = index
            del self._eligible[index:]

    def on(self, span: slice) -> Amounts:
        """For each node of the span, the number of its domain; 0 where the label is absent."""
        return self.sums[self.column.codes[span]]

    def at(self, index: int) -> int:
        """The same for one node."""
        return self._sums_one[self.column.codes_one[index]]

    def looks(self, span: slice) -> Iterator[Amounts]:
        """The number of each node's domain; and which domain, where several nodes share one: placing on one then
        changes the other.
        """
        codes = self.column.codes[: len(self._table)]
        yield self.on(span)
        shared = np.bincount(codes, minlength=len(self.sums)) > 1
        shared[ABSENT] = False  # nodes without the label are no domain, and unlike a node alone in its own
        yield np.where(shared[codes[span]], codes[span], np.where(codes[span] == ABSENT, -1, 0)).astype(np.int64)
        if self._eligibility is not None:
            yield np.array(self._eligible[span], np.int64)
