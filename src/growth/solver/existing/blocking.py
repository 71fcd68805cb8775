"""Why does a node stay, as data and in one sentence? Asked by the what-if, and by plans that have a reason of their own
to leave a node alone.

The sentence names the pod, the constraint and how many of the nodes that stay refuse for it: `pod myapp/web-abc123
cannot be rescheduled: taint gpu=true:NoSchedule on 3 of 4 remaining nodes is not tolerated; 1 node: insufficient memory
(needs 4Gi, has 1Gi)`. It never decides anything.

| check type | the node stays because |
| --- | --- |
| rescheduling_… | a pod fits on none of the nodes that stay, mostly for this kind of constraint |
| no_nodes, capacity | there is no node to move to; the nodes that stay have too little room for all pods together |
| local_storage, unmanaged_pod, pdb, do_not_disrupt | moving a pod would lose data, lose the pod, or go against somebody's wish |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from growth.model.resources import format_amount
from growth.solver.arrays import IntArray, Mask
from growth.solver.reasons import Kind, Reason
from growth.solver.rules.node_table import NodeTable
from growth.solver.rules.question import Question
from growth.solver.rules.resources import NodeResourcesFit
from growth.solver.rules.rule import NodeRule
from growth.solver.rules.taints import TaintToleration

_RENAMED: Final = {Kind.NODENAME: Kind.NODEAFFINITY, Kind.UNSCHEDULABLE: Kind.TOLERATION}
NO_NODES_TEXT: Final = "no available nodes for rescheduling"


class Block(Struct, frozen=True):
    """Why a node stays."""

    check_type: str  # the label of the metric
    message: str
    pod: str = ""  # namespace/name, where it is about one pod
    constraint_type: str = ""
    constraint: str = ""  # the exact one: gpu=true:NoSchedule
    nodes_checked: int = 0
    available_nodes: int = 0

    def fields(self) -> tuple[tuple[str, str | int], ...]:
        """For the log line."""
        return (
            ("pod", self.pod),
            ("constraintType", self.constraint_type),
            ("constraint", self.constraint),
            ("nodesChecked", self.nodes_checked),
            ("availableNodes", self.available_nodes),
            ("checkType", self.check_type),
        )


class Refused(NamedTuple):
    """So many nodes refuse for one reason."""

    reason: Reason
    nodes: int
    detail: str


def no_nodes() -> Block:
    return Block("no_nodes", NO_NODES_TEXT, constraint_type="no_nodes")


def no_capacity(name: str, needed: int, free: int, headroom: float, available: int) -> Block:
    """All pods together need more of a resource than the nodes that stay have left."""
    needs = f"needs {format_amount(name, needed)}" + (f" with {headroom:.0%} headroom" if headroom else "")
    text = f"insufficient {name} on the {available} remaining node{_plural(available)} ({needs}, has {format_amount(name, max(0, free))})"
    return Block(
        "capacity",
        f"its pods cannot be rescheduled: {text}",
        constraint_type="capacity",
        constraint=name,
        available_nodes=available,
    )


def cannot_move(pod: str, question: Question, table: NodeTable, targets: Mask) -> Block:
    """A pod that none of the targets takes."""
    available = int(targets.sum())
    refused = count_refusals(question, table, targets)
    first = refused[0].reason
    kind = _RENAMED.get(first.kind, first.kind)
    told = "; ".join(_told(each, available) for each in refused)
    message = f"pod {pod} cannot be rescheduled: {told}"
    return Block(f"rescheduling_{kind}", message, pod, str(kind), first.constraint, available, available)


def count_refusals(question: Question, table: NodeTable, targets: Mask) -> list[Refused]:
    """What refuses the targets, the reason of most of them first; among equals in the order of the rules."""
    if question.before:
        return [Refused(question.before[0], int(targets.sum()), question.before[0].detail)]
    found: dict[tuple[Kind, tuple[str, ...]], Refused] = {}
    for rule, refuses in question.refusals(targets):
        for each in _by_phrase(rule, np.flatnonzero(refuses), table):
            key = (each.reason.kind, each.reason.phrases)
            known = found.get(key)
            found[key] = (
                each
                if known is None
                else Refused(
                    known.reason, known.nodes + each.nodes, known.detail if known.detail == each.detail else ""
                )
            )
    return sorted(found.values(), key=lambda each: -each.nodes)


def _by_phrase(rule: NodeRule, numbers: IntArray, table: NodeTable) -> Iterable[Refused]:
    if isinstance(rule, NodeResourcesFit):
        yield from _short(rule, numbers, table)
    elif isinstance(rule, TaintToleration):  # nodes with the same taints refuse alike
        codes, firsts, counts = np.unique(table.taint_codes[numbers], return_index=True, return_counts=True)
        for first, count in sorted(zip(firsts.tolist(), counts.tolist(), strict=True)) if len(codes) else ():
            yield Refused(rule.explain(int(numbers[first])), count, "")
    else:
        for number in numbers.tolist():
            reason = rule.explain(number)
            yield Refused(reason, 1, reason.detail)


def _short(rule: NodeResourcesFit, numbers: IntArray, table: NodeTable) -> Iterable[Refused]:
    """Nodes that lack the same resources count together; told of the roomiest of them."""
    lacks = rule.shortages(numbers)
    for code in np.unique(lacks).tolist():
        members = numbers[lacks == code]
        first = rule.explain(int(members[0])).constraint.split(", ")[0]
        roomiest = int(members[table.free[table.rows[first], members].argmax()])
        reason = rule.explain(roomiest)
        yield Refused(
            reason, len(members), reason.detail if len(members) == 1 else reason.detail.replace("has ", "has at most ")
        )


def _told(refused: Refused, available: int) -> str:
    reason, count, detail = refused
    if reason.kind is Kind.TOLERATION:
        return f"taint {reason.constraint} on {count} of {available} remaining nodes is not tolerated"
    phrase = ", ".join(reason.phrases)
    return f"{count} node{_plural(count)}: {phrase}" + (f" ({detail})" if detail else "")


def _plural(count: int) -> str:
    return "" if count == 1 else "s"
