"""What the API server writes of nodes, volumes, namespaces, DaemonSets, budgets, and of the rules of pods.

Only the fields growth reads, each of which may be absent or null. Used by the codec; the rules (tolerations, affinity,
spread) are read once for each distinct text. Says nothing about what they mean."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from growth.kube.codec.wire import NO_RAW, WireCondition, WireMeta

Quantities = dict[str, str | int | float]


class WireTaint(Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str | None = None


class WireNodeSpec(Struct, frozen=True, gc=False, rename={"provider_id": "providerID"}):
    unschedulable: bool | None = None
    taints: tuple[WireTaint, ...] | None = None
    provider_id: str | None = None


class WireNodeStatus(Struct, frozen=True, gc=False):
    allocatable: Quantities | None = None
    conditions: tuple[WireCondition, ...] | None = None


class WireNode(Struct, frozen=True, gc=False):
    metadata: WireMeta | None = None
    spec: WireNodeSpec | None = None
    status: WireNodeStatus | None = None


class WireClaimSpec(Struct, frozen=True, gc=False, rename="camel"):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: WireClaimResources | None = None
    selector: WireSelector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class WireClaimResources(Struct, frozen=True, gc=False):
    requests: Quantities | None = None


class WireClaimStatus(Struct, frozen=True, gc=False):
    phase: str | None = None


class WireClaim(Struct, frozen=True, gc=False):
    metadata: WireMeta | None = None
    spec: WireClaimSpec | None = None
    status: WireClaimStatus | None = None


class WireVolumeAffinity(Struct, frozen=True, gc=False):
    required: WireNodeSelector | None = None


class WireVolumeCsi(Struct, frozen=True, gc=False, rename="camel"):
    driver: str | None = None
    volume_handle: str | None = None


class WireLegacyDisk(
    Struct, frozen=True, gc=False, rename={"volume_id": "volumeID", "pd_name": "pdName", "disk_name": "diskName"}
):
    volume_id: str | None = None
    pd_name: str | None = None
    disk_name: str | None = None


class WireClaimRef(Struct, frozen=True, gc=False):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class WireVolumeSpec(Struct, frozen=True, gc=False, rename="camel"):
    capacity: Quantities | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: WireClaimRef | None = None
    storage_class_name: str | None = None
    node_affinity: WireVolumeAffinity | None = None
    csi: WireVolumeCsi | None = None
    aws_elastic_block_store: WireLegacyDisk | None = None
    gce_persistent_disk: WireLegacyDisk | None = None
    azure_disk: WireLegacyDisk | None = None
    cinder: WireLegacyDisk | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class WireVolumeStatus(Struct, frozen=True, gc=False):
    phase: str | None = None


class WirePersistentVolume(Struct, frozen=True, gc=False):
    metadata: WireMeta | None = None
    spec: WireVolumeSpec | None = None
    status: WireVolumeStatus | None = None


class WireTopologyExpression(Struct, frozen=True, gc=False):
    key: str
    values: tuple[str, ...] | None = None


class WireTopologyTerm(Struct, frozen=True, gc=False, rename="camel"):
    match_label_expressions: tuple[WireTopologyExpression, ...] | None = None


class WireStorageClass(Struct, frozen=True, gc=False, rename="camel"):
    metadata: WireMeta | None = None
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[WireTopologyTerm, ...] | None = None


class WireDriverLimit(Struct, frozen=True, gc=False):
    count: int | None = None


class WireDriver(Struct, frozen=True, gc=False):
    name: str
    allocatable: WireDriverLimit | None = None


class WireVolumeNodeSpec(Struct, frozen=True, gc=False):
    drivers: tuple[WireDriver, ...] | None = None


class WireVolumeNode(Struct, frozen=True, gc=False):
    metadata: WireMeta | None = None
    spec: WireVolumeNodeSpec | None = None


class WireNamespace(Struct, frozen=True, gc=False):
    metadata: WireMeta | None = None


class WireDaemonSetSpec(Struct, frozen=True, gc=False):
    template: Raw = NO_RAW


class WireDaemonSet(Struct, frozen=True, gc=False):
    metadata: WireMeta | None = None
    spec: WireDaemonSetSpec | None = None


class WireBudgetSpec(Struct, frozen=True, gc=False, rename="camel"):
    selector: WireSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class WireBudgetStatus(Struct, frozen=True, gc=False, rename="camel"):
    disruptions_allowed: int | None = None
    observed_generation: int | None = None


class WireBudget(Struct, frozen=True, gc=False):
    metadata: WireMeta | None = None
    spec: WireBudgetSpec | None = None
    status: WireBudgetStatus | None = None


class WirePriorityClass(Struct, frozen=True, gc=False, rename="camel"):
    metadata: WireMeta | None = None
    value: int | None = None
    global_default: bool | None = None


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
