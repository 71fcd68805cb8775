"""The scheduling rules of a pod as the API server writes them: tolerations, affinity, spread.

Asked by the codec, once for each distinct text. Says nothing about what the rules mean.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

_RULES: Final = {
    "required": "requiredDuringSchedulingIgnoredDuringExecution",
    "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
}


class WireRequirement(Struct, frozen=True, gc=False):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class WireSelector(Struct, frozen=True, gc=False, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[WireRequirement, ...] | None = None


class WireNodeTerm(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[WireRequirement, ...] | None = None
    match_fields: tuple[WireRequirement, ...] | None = None


class WireNodeSelector(Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[WireNodeTerm, ...] | None = None


class WirePreferredNode(Struct, frozen=True, gc=False):
    weight: int
    preference: WireNodeTerm


class WireNodeAffinity(Struct, frozen=True, gc=False, rename=_RULES):
    required: WireNodeSelector | None = None
    preferred: tuple[WirePreferredNode, ...] | None = None


class WirePodTerm(Struct, frozen=True, gc=False, rename="camel"):
    topology_key: str
    label_selector: WireSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: WireSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WirePreferredPod(Struct, frozen=True, gc=False, rename="camel"):
    weight: int
    pod_affinity_term: WirePodTerm


class WirePodAffinity(Struct, frozen=True, gc=False, rename=_RULES):
    required: tuple[WirePodTerm, ...] | None = None
    preferred: tuple[WirePreferredPod, ...] | None = None


class WireAffinity(Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class WireToleration(Struct, frozen=True, gc=False, rename="camel"):
    """`operator` may be anything: an unknown one permits nothing, and that is for the rules to say."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class WireSpread(Struct, frozen=True, gc=False, rename="camel"):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str = ""
    label_selector: WireSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None
