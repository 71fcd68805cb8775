"""Pods and pod templates as the API server writes them: only the fields growth reads.

Asked by the codec. What repeats from pod to pod stays raw here, so that it can be recognised by its bytes and read only
once. Every field may be absent or null (a bookmark's pod has null containers). Never holds on to more than one page of
a list."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct, field

NO_RAW = Raw(b"null")


class Wire(Struct, frozen=True, gc=False, rename="camel"):
    """A part of an object, as JSON."""


class _WireIdentity(Wire, frozen=True):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Raw = NO_RAW
    owner_references: Raw = NO_RAW


class WireMeta(_WireIdentity, frozen=True):
    """metadata of any object but a pod."""

    generation: int | None = None
    annotations: Raw = NO_RAW
    finalizers: tuple[str, ...] | None = None


class WireObject(Wire, frozen=True):
    """Any object but a pod."""

    metadata: WireMeta | None = None


_ANNOTATIONS: Final = {
    "do_not_disrupt": "growth.dev/do-not-disrupt",
    "buffer": "growth.dev/buffer",
    "buffer_namespace": "growth.dev/buffer-namespace",
    "karpenter_do_not_disrupt": "karpenter.sh/do-not-disrupt",
    "safe_to_evict": "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "safe_to_evict_local_volumes": "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "deletion_cost": "controller.kubernetes.io/pod-deletion-cost",
    "mirror": "kubernetes.io/config.mirror",
    "gang": "growth.dev/gang",
    "firmament_gang": "firmament-gang-scheduling",
}


class WireAnnotations(Wire, frozen=True, rename=_ANNOTATIONS):
    """The annotations of a pod that growth reads, by name: the others, often long, are passed over."""

    do_not_disrupt: str | None = None
    buffer: str | None = None
    buffer_namespace: str | None = None
    karpenter_do_not_disrupt: str | None = None
    safe_to_evict: str | None = None
    safe_to_evict_local_volumes: str | None = None
    deletion_cost: str | None = None
    mirror: str | None = None
    gang: str | None = None
    firmament_gang: str | None = None


class WirePodMeta(_WireIdentity, frozen=True):
    """metadata of a pod."""

    annotations: WireAnnotations | None = None


class WireOwner(Wire, frozen=True):
    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class WireContainer(Wire, frozen=True):
    name: Raw = NO_RAW
    resources: Raw = NO_RAW
    ports: Raw = NO_RAW
    restart_policy: Raw = NO_RAW


class WirePort(Wire, frozen=True):
    host_port: int | None = None
    container_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = field(default=None, name="hostIP")


class WireQuantities(Wire, frozen=True):
    """resources of a container, of a pod or of a status."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class WireClaimSource(Wire, frozen=True):
    claim_name: str | None = None
    read_only: bool | None = None


class WireClaimTemplateSpec(Wire, frozen=True):
    storage_class_name: str | None = None


class WireClaimTemplate(Wire, frozen=True):
    spec: WireClaimTemplateSpec | None = None


class WireEphemeralSource(Wire, frozen=True):
    volume_claim_template: WireClaimTemplate | None = None


class WireCsiSource(Wire, frozen=True):
    driver: str | None = None
    read_only: bool | None = None


class WireDisk(Wire, frozen=True, rename={"pd_name": "pdName", "volume_id": "volumeID", "read_only": "readOnly"}):
    """A disk named in the pod itself: GCE, EBS, iSCSI or RBD."""

    pd_name: str | None = None
    volume_id: str | None = None
    iqn: str | None = None
    monitors: tuple[str, ...] | None = None
    pool: str | None = None
    image: str | None = None
    read_only: bool | None = None


class WireAny(Wire, frozen=True):
    """Something whose presence alone counts."""


class WireVolume(Wire, frozen=True):
    name: str | None = None
    projected: WireAny | None = None
    config_map: WireAny | None = None
    secret: WireAny | None = None
    persistent_volume_claim: WireClaimSource | None = None
    ephemeral: WireEphemeralSource | None = None
    csi: WireCsiSource | None = None
    empty_dir: WireAny | None = None
    host_path: WireAny | None = None
    gce_persistent_disk: WireDisk | None = None
    aws_elastic_block_store: WireDisk | None = None
    iscsi: WireDisk | None = None
    rbd: WireDisk | None = None


class WireSchedulingGroup(Wire, frozen=True):
    pod_group_name: str | None = None


class WirePodSpec(Wire, frozen=True):
    node_name: str | None = None
    containers: tuple[WireContainer, ...] | None = None
    init_containers: tuple[WireContainer, ...] | None = None
    overhead: Raw = NO_RAW
    resources: Raw = NO_RAW
    tolerations: Raw = NO_RAW
    node_selector: Raw = NO_RAW
    affinity: Raw = NO_RAW
    topology_spread_constraints: Raw = NO_RAW
    volumes: tuple[WireVolume, ...] | None = None
    host_network: Raw = NO_RAW
    scheduling_gates: tuple[WireAny, ...] | None = None
    resource_claims: Raw = NO_RAW
    priority: Raw = NO_RAW
    preemption_policy: Raw = NO_RAW
    scheduler_name: Raw = NO_RAW
    termination_grace_period_seconds: int | None = None
    scheduling_group: WireSchedulingGroup | None = None


class WireContainerStatus(Wire, frozen=True):
    name: Raw = NO_RAW
    resources: Raw = NO_RAW
    allocated_resources: Raw = NO_RAW


class WireCondition(Wire, frozen=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    last_transition_time: str | None = None


class WirePodStatus(Wire, frozen=True):
    phase: str | None = None
    nominated_node_name: str | None = None
    conditions: Raw = NO_RAW
    container_statuses: tuple[WireContainerStatus, ...] | None = None
    init_container_statuses: tuple[WireContainerStatus, ...] | None = None
    resources: Raw = NO_RAW
    allocated_resources: Raw = NO_RAW


class WirePod(Wire, frozen=True):
    metadata: WirePodMeta | None = None
    spec: WirePodSpec | None = None
    status: WirePodStatus | None = None


class WireTemplate(Wire, frozen=True):
    """A pod template: of a DaemonSet, a Deployment, a Job."""

    metadata: WirePodMeta | None = None
    spec: WirePodSpec | None = None
