"""Does the pod tolerate the node's taints, and a cordon? Tolerations permit and never require.

| toleration | permits |
| --- | --- |
| effect set | taints of that effect only, whatever the rest says |
| key empty | every key (with Exists; with Equal the value still has to agree) |
| Equal, or no operator | the same value |
| Exists | any value |
| Gt, Lt | a taint whose value is a greater, smaller integer: alpha in Kubernetes, so only where the setting says so |
| any other operator | nothing |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from growth.model.node import Node, Taint
from growth.model.pod import Toleration
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.node_table import NodeTable
from growth.solver.rules.rule import NodeRule, grouped
from growth.solver.rules.selectors import integer

HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
CORDON: Final = Taint("node.kubernetes.io/unschedulable")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Does this one toleration permit this one taint?"""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator in ("Gt", "Lt"):
        return _compares(toleration, taint)
    return toleration.operator == "Exists"


def _compares(toleration: Toleration, taint: Taint) -> bool:
    bound, number = _plain_integer(toleration.value), _plain_integer(taint.value)
    if bound is None or number is None:
        return False
    return number > bound if toleration.operator == "Gt" else number < bound


def _plain_integer(text: str) -> int | None:
    """Without plus sign or leading zeros: taints and tolerations are stricter than labels."""
    return integer(text) if _PLAIN_INTEGER.fullmatch(text) else None


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod away; PreferNoSchedule keeps no pod away."""
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def stays_under(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Does a pod with these tolerations come back to a node that has one of these taints?"""
    return any(tolerates(toleration, taint) for taint in taints for toleration in tolerations)


def count_soft_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate: a cost, never a refusal."""
    soft = (taint for taint in taints if taint.effect == "PreferNoSchedule")
    return sum(1 for taint in soft if not any(tolerates(toleration, taint) for toleration in tolerations))


class TaintToleration(NodeRule):
    rule = Rule.TAINT_TOLERATION

    def __init__(self, table: NodeTable, tolerations: tuple[Toleration, ...]) -> None:
        self._table = table
        self._tolerations = tolerations
        self._flags: Mask = np.zeros(0, np.bool_)

    def passes(self, span: slice) -> Mask:
        if len(self._flags) != len(self._table.taint_sets):
            self._flags = np.array([self._untolerated(taints) is None for taints in self._table.taint_sets], np.bool_)
        return self._flags[self._table.taint_codes[span]]

    def _untolerated(self, taints: tuple[Taint, ...]) -> Taint | None:
        return first_untolerated(taints, self._tolerations)

    def groups(self, numbers: Amounts) -> list[Amounts]:
        return grouped(numbers, self._table.taint_codes[numbers].astype(np.int64))

    def explain(self, index: int) -> Reason:
        taint = self._untolerated(self._table.nodes[index].taints)
        return refusal(Kind.TOLERATION, self.rule, str(taint), f"untolerated taint {taint}")


class NodeUnschedulable(NodeRule):
    rule = Rule.NODE_UNSCHEDULABLE

    def __init__(self, table: NodeTable, tolerations: tuple[Toleration, ...]) -> None:
        self._table = table
        self._tolerates_cordon = any(tolerates(toleration, CORDON) for toleration in tolerations)

    def passes(self, span: slice) -> Mask:
        return ~self._table.is_unschedulable[span] | self._tolerates_cordon

    def explain(self, _index: int) -> Reason:
        return refusal(Kind.UNSCHEDULABLE, self.rule, str(CORDON), "cordoned (spec.unschedulable)")


class Readable(NodeRule):
    """A node that cannot be read takes no pods."""

    rule = Rule.OBJECT

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def passes(self, span: slice) -> Mask:
        return ~self._table.is_malformed[span]

    def explain(self, index: int) -> Reason:
        node: Node = self._table.nodes[index]
        return refusal(Kind.MALFORMED, self.rule, node.malformed, f"malformed node: {node.malformed}")
