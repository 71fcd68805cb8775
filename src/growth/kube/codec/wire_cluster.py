"""What the API server writes of nodes, volumes, namespaces, DaemonSets, budgets, and of the rules of pods.

Only the fields growth reads, each of which may be absent or null. Used by the codec; the rules (tolerations, affinity,
spread) are read once for each distinct text. Says nothing about what they mean."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from growth.kube.codec.wire import NO_RAW, Wire, WireCondition, WireObject

Quantities = dict[str, str | int | float]


class WireTaint(Wire, frozen=True):
    key: str
    effect: str
    value: str | None = None


class WireNodeSpec(Wire, frozen=True, rename={"provider_id": "providerID"}):
    unschedulable: bool | None = None
    taints: tuple[WireTaint, ...] | None = None
    provider_id: str | None = None


class WireNodeStatus(Wire, frozen=True):
    allocatable: Quantities | None = None
    conditions: tuple[WireCondition, ...] | None = None


class WireNode(WireObject, frozen=True):
    spec: WireNodeSpec | None = None
    status: WireNodeStatus | None = None


class WireClaimSpec(Wire, frozen=True):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: WireClaimResources | None = None
    selector: WireSelector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class WireClaimResources(Wire, frozen=True):
    requests: Quantities | None = None


class WirePhase(Wire, frozen=True):
    phase: str | None = None


class WireClaim(WireObject, frozen=True):
    spec: WireClaimSpec | None = None
    status: WirePhase | None = None


class WireVolumeAffinity(Wire, frozen=True):
    required: WireNodeSelector | None = None


class WireVolumeCsi(Wire, frozen=True):
    driver: str | None = None
    volume_handle: str | None = None


class WireLegacyDisk(Wire, frozen=True, rename={"volume_id": "volumeID", "pd_name": "pdName", "disk_name": "diskName"}):
    volume_id: str | None = None
    pd_name: str | None = None
    disk_name: str | None = None


class WireClaimRef(Wire, frozen=True):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class WireVolumeSpec(Wire, frozen=True):
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


class WirePersistentVolume(WireObject, frozen=True):
    spec: WireVolumeSpec | None = None
    status: WirePhase | None = None


class WireTopologyExpression(Wire, frozen=True):
    key: str
    values: tuple[str, ...] | None = None


class WireTopologyTerm(Wire, frozen=True):
    match_label_expressions: tuple[WireTopologyExpression, ...] | None = None


class WireStorageClass(WireObject, frozen=True):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[WireTopologyTerm, ...] | None = None


class WireDriverLimit(Wire, frozen=True):
    count: int | None = None


class WireDriver(Wire, frozen=True):
    name: str
    allocatable: WireDriverLimit | None = None


class WireVolumeNodeSpec(Wire, frozen=True):
    drivers: tuple[WireDriver, ...] | None = None


class WireVolumeNode(WireObject, frozen=True):
    spec: WireVolumeNodeSpec | None = None


class WireDaemonSetSpec(Wire, frozen=True):
    template: Raw = NO_RAW


class WireDaemonSet(WireObject, frozen=True):
    spec: WireDaemonSetSpec | None = None


class WireBudgetSpec(Wire, frozen=True):
    selector: WireSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class WireBudgetStatus(Wire, frozen=True):
    disruptions_allowed: int | None = None
    observed_generation: int | None = None


class WireBudget(WireObject, frozen=True):
    spec: WireBudgetSpec | None = None
    status: WireBudgetStatus | None = None


class WireGangPolicy(Wire, frozen=True):
    min_count: int | None = None


class WireGroupPolicy(Wire, frozen=True):
    gang: WireGangPolicy | None = None


class WireGroupSpec(Wire, frozen=True):
    """Of a PodGroup: Kubernetes' own has a policy, that of scheduler-plugins a number."""

    scheduling_policy: WireGroupPolicy | None = None
    min_member: int | None = None


class WirePodGroup(WireObject, frozen=True):
    spec: WireGroupSpec | None = None


class WirePriorityClass(WireObject, frozen=True):
    value: int | None = None
    global_default: bool | None = None


_RULES: Final = {
    "required": "requiredDuringSchedulingIgnoredDuringExecution",
    "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
}


class WireRequirement(Wire, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class WireSelector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[WireRequirement, ...] | None = None


class WireNodeTerm(Wire, frozen=True):
    match_expressions: tuple[WireRequirement, ...] | None = None
    match_fields: tuple[WireRequirement, ...] | None = None


class WireNodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[WireNodeTerm, ...] | None = None


class WirePreferredNode(Wire, frozen=True):
    weight: int
    preference: WireNodeTerm


class WireNodeAffinity(Wire, frozen=True, rename=_RULES):
    required: WireNodeSelector | None = None
    preferred: tuple[WirePreferredNode, ...] | None = None


class WirePodTerm(Wire, frozen=True):
    topology_key: str
    label_selector: WireSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: WireSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WirePreferredPod(Wire, frozen=True):
    weight: int
    pod_affinity_term: WirePodTerm


class WirePodAffinity(Wire, frozen=True, rename=_RULES):
    required: tuple[WirePodTerm, ...] | None = None
    preferred: tuple[WirePreferredPod, ...] | None = None


class WireAffinity(Wire, frozen=True):
    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class WireToleration(Wire, frozen=True):
    """`operator` may be anything: an unknown one permits nothing, and that is for the rules to say."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class WireSpread(Wire, frozen=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str = ""
    label_selector: WireSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None
