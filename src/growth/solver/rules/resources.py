"""Is there enough of everything the pod asks for, a place in the pod count, and are its host ports free?

kube-scheduler counts cpu, memory, ephemeral storage, huge pages, attachable volumes, and names with a prefix (extended
resources); any other name is ignored. What a pod does not ask for may be overcommitted without keeping it away. The
same host port of the same protocol conflicts unless both name different host IPs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from growth.model.pod import HostPort
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, format_amount
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.node_table import NodeTable, clipped
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import DomainCounter, NodeRule, Weight, grouped_by_kind
from growth.solver.rules.selectors import is_label_key

_ALWAYS: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_QUOTA_PREFIX: Final = "requests."
_OWN_DOMAIN: Final = "kubernetes.io/"
_LIMIT: Final = 2**62  # hundreds of pods that ask for more than any machine has: the node is full, nothing overflows
_ORDINARY: Final = 2**40


@lru_cache(maxsize=4096)
def is_counted(name: str) -> bool:
    """Does the scheduler look at this resource at all?"""
    if name in _ALWAYS or name.startswith(("hugepages-", "attachable-volumes-")) or _OWN_DOMAIN in name:
        return True
    return "/" in name and not name.startswith(_QUOTA_PREFIX) and is_label_key(_QUOTA_PREFIX + name)


def counted_needs(requests: Resources) -> dict[str, int]:
    """What one pod takes from a node: its counted requests and one place."""
    return {PODS: 1, **{name: clipped(amount) for name, amount in requests.items() if is_counted(name)}}


class Vector:
    """What one pod takes, lined up with the rows of the table."""

    __slots__ = ("needs", "rows")

    def __init__(self, table: NodeTable, requests: Resources) -> None:
        self.needs = counted_needs(requests)
        self.rows = [(table.row(name), amount) for name, amount in self.needs.items()]

    def take(self, table: NodeTable, index: int, count: int) -> None:
        """So many such pods more (or fewer) on one node."""
        free = table.free_one
        for row, amount in self.rows:
            left = free[row][index] - amount * count
            free[row][index] = left if -_LIMIT < left < _LIMIT else _LIMIT * (1 if left > 0 else -1)

    def take_many(self, table: NodeTable, held: dict[int, int]) -> None:
        """The same for many nodes at once."""
        self.take_each(table, np.array(list(held), np.int64), np.array(list(held.values()), np.int64))

    def take_each(self, table: NodeTable, numbers: Amounts, counts: Amounts) -> None:
        """The same from arrays; no number is there twice."""
        if any(amount > _ORDINARY for _, amount in self.rows):
            for index, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                self.take(table, index, count)
            return
        for row, amount in self.rows:
            table.free[row, numbers] -= amount * counts


class NodeResourcesFit(NodeRule):
    rule = Rule.NODE_RESOURCES_FIT
    looks_at_pods = True

    def __init__(self, table: NodeTable, vector: Vector) -> None:
        self._table = table
        self._asked = [(name, table.row(name), amount) for name, amount in vector.needs.items() if amount > 0]

    def narrow(self, span: slice, mask: Mask) -> None:
        free = self._table.free
        for _, row, amount in self._asked:
            mask &= free[row, span] >= amount

    def passes_on(self, index: int) -> bool:
        free = self._table.free_one
        for _, row, amount in self._asked:  # noqa: SIM110  (a generator costs as much as the answer)
            if free[row][index] < amount:
                return False
        return True

    def looks(self, span: slice) -> Iterator[Amounts]:
        for _, row, _ in self._asked:
            yield self._table.free[row, span]

    def how_often(self, nodes: slice | Amounts) -> Amounts:
        """How many such pods the amounts leave room for on each node of a span, or of some numbers."""
        free = self._table.free
        _, row, amount = self._asked[0]  # the count of pods: every pod asks for it
        counts = free[row, nodes] // amount
        for _, row, amount in self._asked[1:]:
            np.minimum(counts, free[row, nodes] // amount, out=counts)
        return np.maximum(counts, 0)

    def groups(self, numbers: Amounts) -> list[Amounts]:
        """Nodes that lack the same of the resources asked for."""
        lacks = np.zeros(len(numbers), np.int64)
        for position, (_, row, amount) in enumerate(self._asked[:60]):
            lacks |= (self._table.free[row, numbers] < amount).astype(np.int64) << position
        return grouped_by_kind(numbers, lacks)

    def roomiest(self, numbers: Amounts) -> int:
        """Of nodes that lack the same: the one that has most of the first resource they lack."""
        row = next(row for _, row, amount in self._asked if self._table.free[row, numbers[0]] < amount)
        return int(numbers[self._table.free[row, numbers].argmax()])

    def explain(self, index: int) -> Reason:
        """`insufficient memory (needs 4Gi, has 1Gi)`, with the name in front of the amounts where several are short."""
        free = [(name, amount, int(self._table.free[row, index])) for name, row, amount in self._asked]
        short = [(name, amount, has) for name, amount, has in free if has < amount]
        phrases = tuple("too many pods" if name == PODS else f"insufficient {name}" for name, _, _ in short)
        details = [
            f"{name} " * (len(short) > 1)
            + f"needs {format_amount(name, amount)}, has {format_amount(name, max(0, has))}"
            for name, amount, has in short
        ]
        return Reason(Kind.RESOURCES, self.rule, ", ".join(name for name, _, _ in short), phrases, "; ".join(details))


ANY_IP = "0.0.0.0"  # noqa: S104  (the wildcard of the API, nothing is bound here)


def conflicts(one: HostPort, other: HostPort) -> bool:
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.host_ip == other.host_ip or ANY_IP in (one.host_ip, other.host_ip)


def conflicts_with(wanted: HostPort) -> Weight:
    """How many ports of a pod conflict with this one."""

    def weight(pod_class: PodClass) -> int:
        return sum(conflicts(wanted, used) for used in pod_class.shape.host_ports)

    return weight


def describe_port(port: HostPort) -> str:
    text = f"{port.port}/{port.protocol}"
    return text if port.host_ip == ANY_IP else f"{port.host_ip}:{text}"


class NodePorts(NodeRule):
    rule = Rule.NODE_PORTS
    looks_at_pods = True

    def __init__(self, uses: dict[HostPort, DomainCounter]) -> None:
        self._uses = uses  # conflicting uses of each wanted port, by node

    def narrow(self, span: slice, mask: Mask) -> None:
        for counter in self._uses.values():
            mask &= counter.on(span) <= 0

    def passes_on(self, index: int) -> bool:
        return all(counter.at(index) <= 0 for counter in self._uses.values())

    def looks(self, span: slice) -> Iterator[Amounts]:
        for counter in self._uses.values():
            yield from counter.looks(span)

    def avoided(self) -> Iterator[DomainCounter]:
        yield from self._uses.values()

    def explain(self, index: int) -> Reason:
        taken = next(port for port, counter in self._uses.items() if counter.at(index) > 0)
        return refusal(Kind.HOSTPORT, self.rule, describe_port(taken), f"host port {describe_port(taken)} taken")
