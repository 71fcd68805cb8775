"""The nodes side by side, as columns: one code per node for each label, for its taints and its name, one amount for
each resource.

Asked by every rule, for all nodes at once or for one. A label is looked at by its distinct values, so what a
requirement means is decided once for each value and then spread over the nodes. Nodes are appended and taken off the
end; numbers never move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from growth.model.labels import Requirement
from growth.model.node import Node, Taint
from growth.solver.arrays import Amounts, Codes, Mask

ABSENT: Final = 0  # the code of a node without the label
LARGEST: Final = 2**54  # larger amounts are cut to this: 16 PiB is more than any machine has, and sums stay in range


class Column:
    """One label of all nodes: a code for each node, codes counted from 1 in the order values were first seen."""

    __slots__ = ("_flags", "codes", "codes_one", "key", "values")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.codes: Codes = np.zeros(capacity, np.int32)
        self.codes_one: memoryview[int] = self.codes.data  # the same for one node at a time
        self.values: dict[str, int] = {}
        self._flags: dict[Requirement, Mask] = {}

    def put(self, index: int, value: str | None) -> None:
        code = ABSENT if value is None else self.values.setdefault(value, len(self.values) + 1)
        self.codes[index] = code

    def grow(self, capacity: int) -> None:
        self.codes = np.concatenate((self.codes, np.zeros(capacity - len(self.codes), np.int32)))
        self.codes_one = self.codes.data

    def flags(self, requirement: Requirement, holds: Callable[[Requirement, str | None], bool]) -> Mask:
        """For each code, does the requirement hold? Decided once for each distinct value."""
        known = self._flags.get(requirement)
        if known is None or len(known) != len(self.values) + 1:
            known = self._flags[requirement] = self._decide(requirement, holds)
        return known

    def _decide(self, requirement: Requirement, holds: Callable[[Requirement, str | None], bool]) -> Mask:
        if requirement.operator == "In":  # thousands of distinct values are common (hostname): look up, do not walk
            flags = np.zeros(len(self.values) + 1, np.bool_)
            flags[[self.values[value] for value in requirement.values if value in self.values]] = True
            return flags
        return np.array([holds(requirement, None), *(holds(requirement, value) for value in self.values)], np.bool_)


class NodeTable:
    """All nodes of a question and how their labels, taints and amounts line up."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.nodes: list[Node] = []
        self.index: dict[str, int] = {}
        self._shadowed: list[int | None] = []  # an older node of the same name, which must be out
        self.taint_sets: dict[tuple[Taint, ...], int] = {}
        self.rows: dict[str, int] = {}
        self._capacity = 16
        self._columns: dict[str, Column] = {}
        self.taint_codes: Codes = np.zeros(16, np.int32)
        self.is_unschedulable: Mask = np.zeros(16, np.bool_)
        self.is_malformed: Mask = np.zeros(16, np.bool_)
        self.is_here: Mask = np.zeros(16, np.bool_)  # not taken out by a what-if
        self.free: Amounts = np.zeros(
            (0, 16), np.int64
        )  # allocatable less what is on the node, a row for each resource
        self.free_one: list[memoryview[int]] = []  # the same for one node at a time: numpy is slow at single numbers
        self.each = Column("", 16)  # every node its own domain
        self.everywhere = Column("", 16)  # one domain for all nodes
        self.add_all(list(nodes))

    def __len__(self) -> int:
        return len(self.nodes)

    def add_all(self, nodes: list[Node]) -> range:
        """Append nodes; returns their numbers."""
        first = len(self.nodes)
        self._make_room(first + len(nodes))
        for node in nodes:
            self._add(node)
        return range(first, len(self.nodes))

    def _make_room(self, size: int) -> None:
        if size <= self._capacity:
            return
        capacity = max(size, 2 * self._capacity)
        more = capacity - self._capacity
        self.taint_codes = np.concatenate((self.taint_codes, np.zeros(more, np.int32)))
        self.is_unschedulable = np.concatenate((self.is_unschedulable, np.zeros(more, np.bool_)))
        self.is_malformed = np.concatenate((self.is_malformed, np.zeros(more, np.bool_)))
        self.is_here = np.concatenate((self.is_here, np.zeros(more, np.bool_)))
        self._keep_free(np.concatenate((self.free, np.zeros((len(self.rows), more), np.int64)), axis=1))
        for column in (*self._columns.values(), self.each, self.everywhere):
            column.grow(capacity)
        self._capacity = capacity

    def _add(self, node: Node) -> None:
        index = len(self.nodes)
        self.nodes.append(node)
        self._shadowed.append(self.index.get(node.name))
        self.index[node.name] = index
        self.is_here[index] = True
        self.each.codes[index] = index + 1
        self.everywhere.codes[index] = 1
        for name in node.allocatable:
            self.row(name)
        for name, row in self.rows.items():
            self.free[row, index] = clipped(node.allocatable[name])
        self._describe(index, node)

    def change(self, index: int, node: Node) -> None:
        """The node of the same name has changed; what is on it stays on it."""
        for name in node.allocatable:
            self.row(name)
        before, self.nodes[index] = self.nodes[index], node
        for name, row in self.rows.items():
            self.free[row, index] += clipped(node.allocatable[name]) - clipped(before.allocatable[name])
        self._describe(index, node)

    def _describe(self, index: int, node: Node) -> None:
        self.taint_codes[index] = self.taint_sets.setdefault(node.taints, len(self.taint_sets))
        self.is_unschedulable[index] = node.is_unschedulable
        self.is_malformed[index] = bool(node.malformed)
        for column in self._columns.values():
            column.put(index, node.labels.get(column.key))

    def pop(self) -> Node:
        """Take the last node off."""
        node, shadowed = self.nodes.pop(), self._shadowed.pop()
        del self.index[node.name]
        if shadowed is not None:
            self.index[node.name] = shadowed
        self.is_here[len(self.nodes)] = False
        return node

    def column(self, key: str) -> Column:
        """The label as a column; built when first asked for."""
        known = self._columns.get(key)
        if known is None:
            known = self._columns[key] = Column(key, self._capacity)
            for index, node in enumerate(self.nodes):
                known.put(index, node.labels.get(key))
        return known

    def label_keys(self) -> list[str]:
        """The labels that any rule has looked at."""
        return sorted(self._columns)

    def row(self, name: str) -> int:
        """The row of a resource in `free`; made when first asked for."""
        known = self.rows.get(name)
        if known is None:
            known = self.rows[name] = len(self.rows)
            amounts = np.zeros((1, self._capacity), np.int64)
            amounts[0, : len(self.nodes)] = [clipped(node.allocatable[name]) for node in self.nodes]
            self._keep_free(np.concatenate((self.free, amounts)))
        return known

    def _keep_free(self, free: Amounts) -> None:
        self.free = np.ascontiguousarray(free)
        self.free_one = [memoryview(row) for row in self.free]

    def domain_count(self, column: Column) -> int:
        """How many codes a column can hold now, the absent one included."""
        if column is self.each:
            return self._capacity + 1
        return 2 if column is self.everywhere else len(column.values) + 1


def clipped(amount: int) -> int:
    return max(-LARGEST, min(LARGEST, amount))


def all_true(span: slice) -> Mask:
    return np.ones(span.stop - span.start, np.bool_)


def all_false(span: slice) -> Mask:
    return np.zeros(span.stop - span.start, np.bool_)
