"""How many pods of certain classes stand in each domain? The one kind of number that ports, spread, affinity and
volumes look at.

A domain is the set of nodes that share a label's value, or a single node, or the whole cluster. Adding or removing a
placement changes the numbers it touches and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from growth.solver.arrays import Amounts, Mask
from growth.solver.rules.node_table import ABSENT, Column, NodeTable
from growth.solver.rules.pod_class import PodClass

Weight = Callable[[PodClass], int]
Eligibility = Callable[[slice], Mask]


class DomainCounter:
    """Pods by domain. With an eligibility, only nodes that have it count, and `present` says how many of them each
    domain has.
    """

    __slots__ = (
        "_eligibility",
        "_eligible",
        "_known",
        "_table",
        "changes",
        "column",
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
    ) -> None:
        self._table = table
        self._eligibility = eligibility
        self._eligible: list[bool] = []
        self._known = 0
        self.column = column
        self.weight = weight  # how much one pod of a class counts
        self.namespaces = namespaces  # classes of other namespaces never count; None: any may
        self.sums: Amounts = np.zeros(1, np.int64)
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
            self.present = np.concatenate((self.present, np.zeros(missing, np.int64)))

    def add(self, index: int, amount: int) -> None:
        """So many more (or fewer) on a node."""
        if index >= self._known:
            self.catch_up()
        code = self.column.codes[index]
        if code != ABSENT and (self._eligibility is None or self._eligible[index]):
            self.sums[code] += amount
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
        return int(self.sums[self.column.codes[index]])

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
