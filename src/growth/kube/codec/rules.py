"""The scheduling rules of a pod, from wire to model: selectors, affinity, spread, tolerations.

Used by `codec/shape`, once for each distinct text. Unknown operators are an UnreadableError here, so the pod says so;
only a toleration keeps its strange operator, because it then simply permits nothing."""

from __future__ import annotations

from typing import Final

from growth.kube.codec.text import UnreadableError, shown
from growth.kube.codec.wire_cluster import (
    WireNodeSelector,
    WireNodeTerm,
    WirePodTerm,
    WireRequirement,
    WireSelector,
    WireSpread,
    WireToleration,
)
from growth.model.labels import Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.pod import PodAffinityTerm, Toleration, TopologySpread

_ON_LABELS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_ON_NODES: Final = (*_ON_LABELS, "Gt", "Lt")


def node_terms(wire: WireNodeSelector) -> tuple[NodeSelectorTerm, ...]:
    return tuple(node_term(term) for term in wire.node_selector_terms or ())


def node_term(wire: WireNodeTerm) -> NodeSelectorTerm:
    expressions, fields = (_requirements(some, _ON_NODES) for some in (wire.match_expressions, wire.match_fields))
    return NodeSelectorTerm(expressions, fields)


def label_selector(wire: WireSelector | None) -> LabelSelector | None:
    """A missing selector stays None (matches nothing); an empty one matches everything."""
    if wire is None:
        return None
    labels = sorted((wire.match_labels or {}).items())
    equal = tuple(Requirement(key, "In", (value,)) for key, value in labels)
    return LabelSelector(equal + _requirements(wire.match_expressions, _ON_LABELS))


def _requirements(wires: tuple[WireRequirement, ...] | None, operators: tuple[str, ...]) -> tuple[Requirement, ...]:
    return tuple(_requirement(wire, operators) for wire in wires or ())


def _requirement(wire: WireRequirement, operators: tuple[str, ...]) -> Requirement:
    operator, key, values = wire.operator, wire.key, wire.values or ()
    if operator not in operators:
        raise UnreadableError(f"unknown operator {shown(operator)} on {shown(key)} (known: {', '.join(operators)})")
    if operator in ("In", "NotIn") and not values:
        raise UnreadableError(f"{operator} on {shown(key)} needs values")
    if operator in ("Exists", "DoesNotExist") and values:
        raise UnreadableError(f"{operator} on {shown(key)} takes no values")
    if operator in ("Gt", "Lt") and len(values) != 1:
        raise UnreadableError(f"{operator} on {shown(key)} takes one value, not {len(values)}")
    return Requirement(key, operator, values)


def pod_term(wire: WirePodTerm, labels: Labels) -> PodAffinityTerm:
    selector = label_selector(wire.label_selector)
    if selector is not None:
        selector = _with_keys(selector, wire.match_label_keys, "In", labels)
        selector = _with_keys(selector, wire.mismatch_label_keys, "NotIn", labels)
    return PodAffinityTerm(wire.topology_key, selector, wire.namespaces or (), label_selector(wire.namespace_selector))


def _with_keys(selector: LabelSelector, keys: tuple[str, ...] | None, operator: str, labels: Labels) -> LabelSelector:
    """As the API server does when a pod is made; a template has not been through that, so it may be done twice."""
    more = tuple(Requirement(key, operator, (labels[key],)) for key in keys or () if key in labels)
    return LabelSelector(selector.requirements + tuple(one for one in more if one not in selector.requirements))


def toleration(wire: WireToleration) -> Toleration:
    return Toleration(
        wire.key or "", wire.operator or "Equal", wire.value or "", wire.effect or "", wire.toleration_seconds
    )


def topology_spread(wire: WireSpread) -> TopologySpread:
    key, otherwise = wire.topology_key, wire.when_unsatisfiable
    if wire.max_skew < 1:
        raise UnreadableError(f"maxSkew {wire.max_skew} on {shown(key)} is not positive")
    if otherwise not in ("DoNotSchedule", "ScheduleAnyway"):
        raise UnreadableError(f"unknown whenUnsatisfiable {shown(otherwise)} on {shown(key)}")
    return TopologySpread(
        wire.max_skew,
        key,
        otherwise,
        label_selector(wire.label_selector),
        wire.min_domains,
        wire.node_affinity_policy or "Honor",
        wire.node_taints_policy or "Ignore",
        wire.match_label_keys or (),
    )
