"""Why may a pod not go to a node, and why does a node stay, in words that people know and that add up over nodes? Asked
by everything that refuses or explains.

A Reason names its constraint exactly; many of them become one sentence:
`0/12 nodes are available: 7 insufficient memory, 5 untolerated taint gpu=true:NoSchedule`. It never decides anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from growth.model.resources import format_amount

_LONGEST_BRIEF: Final = 360
_LONGEST_WORDS: Final = 240


class Kind(StrEnum):
    """What kind of constraint refused: the label of metrics and messages."""

    MALFORMED = "malformed"
    UNSCHEDULABLE = "unschedulable"
    NODENAME = "nodename"
    TOLERATION = "toleration"
    NODESELECTOR = "nodeselector"
    NODEAFFINITY = "nodeaffinity"
    HOSTPORT = "hostport"
    RESOURCES = "resources"
    VOLUME = "volume"
    SPREAD = "spread"
    AFFINITY = "affinity"
    ANTIAFFINITY = "antiaffinity"
    NO_NODES = "no_nodes"


class Rule(StrEnum):
    """Which of kube-scheduler's filters refused; `Object`: the object cannot be read, `Target`: growth itself wants no
    pod there.
    """

    OBJECT = "Object"
    TARGET = "Target"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NAME = "NodeName"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    VOLUME_RESTRICTIONS = "VolumeRestrictions"
    NODE_VOLUME_LIMITS = "NodeVolumeLimits"
    VOLUME_BINDING = "VolumeBinding"
    VOLUME_ZONE = "VolumeZone"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    INTER_POD_AFFINITY = "InterPodAffinity"


class Reason(Struct, frozen=True, gc=False):
    """One refusal of one node, or of the pod itself before any node is looked at."""

    kind: Kind
    rule: Rule
    constraint: str  # the exact constraint: gpu=true:NoSchedule, disktype=ssd, memory
    phrases: tuple[str, ...]  # what adds up over nodes; several only where several resources are short
    detail: str = ""  # what holds for this node alone: needs 4Gi, has 1Gi

    def __str__(self) -> str:
        return ", ".join(self.phrases) + (f" ({self.detail})" if self.detail else "")


def refusal(kind: Kind, rule: Rule, constraint: str, phrase: str, detail: str = "") -> Reason:
    """A Reason with one phrase: nearly all of them."""
    return Reason(kind, rule, constraint, (phrase,), detail)


def malformed(rule: Rule, text: str) -> Reason:
    return refusal(Kind.MALFORMED, rule, text, f"malformed: {text}")


def count_phrases(reasons: Iterable[Reason]) -> dict[str, int]:
    """How many nodes each phrase holds for, the most frequent first."""
    counts = Counter(phrase for reason in reasons for phrase in reason.phrases)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def sentence(phrases: Mapping[str, int], node_count: int) -> str:
    """The sentence kube-scheduler writes, with each constraint spelled out."""
    counted = ", ".join(f"{count} {phrase}" for phrase, count in phrases.items())
    return f"0/{node_count} nodes are available: {counted}" if counted else f"0/{node_count} nodes are available"


def in_brief(counted: Mapping[str, int], total: int, noun: str) -> str:
    """`2 of 3 offerings: untolerated taint gpu=true:NoSchedule; 1: insufficient cpu (needs 4, has 2)`: the most
    frequent reason first, short enough for an event.
    """
    told, length, left = list[str](), 0, total
    for words, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        brief = words if len(words) <= _LONGEST_WORDS else f"{words[: _LONGEST_WORDS - 1]}…"
        if told and length + len(brief) > _LONGEST_BRIEF:
            break
        told.append(f"{count}: {brief}" if told else f"{count} of {total} {noun}: {brief}")
        length, left = length + len(brief), left - count
    return "; ".join([*told, f"{left} for other reasons"] if left > 0 else told)


# --------------------------------------------------------------------------------- why a node stays


class Block(Struct, frozen=True):
    """Why a node stays, as data and in one sentence. It never decides anything.

    | check type | the node stays because |
    | --- | --- |
    | rescheduling_… | a pod fits on none of the nodes that stay, mostly for this kind of constraint |
    | no_nodes, capacity | there is no node to move to; the nodes that stay have too little room for all pods together |
    | local_storage, unmanaged_pod, pdb, do_not_disrupt | moving a pod would lose data, lose the pod, or is not wanted |
    """

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


def no_nodes() -> Block:
    return Block("no_nodes", "no available nodes for rescheduling", constraint_type="no_nodes")


def no_capacity(name: str, needed: int, free: int, headroom: float, available: int) -> Block:
    """All pods together need more of a resource than the nodes that stay have left."""
    needs = f"needs {format_amount(name, needed)}" + (f" with {headroom:.0%} headroom" if headroom else "")
    short = f"insufficient {name} on the {available} remaining node{plural(available)}"
    text = f"its pods cannot be rescheduled: {short} ({needs}, has {format_amount(name, max(0, free))})"
    return Block("capacity", text, "", "capacity", name, available, available)


def plural(count: int) -> str:
    return "" if count == 1 else "s"
