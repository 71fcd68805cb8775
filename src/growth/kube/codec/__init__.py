"""The door of the codec: bytes of one object in, noun out. Used by the caches and by all that reads a live object.

    Pod, Node ............ always the noun; its `malformed` says what could not be read
    every other kind ..... the noun, or a Malformed with the reason

Nothing that the API server (or a file) can contain makes this raise. Shapes, labels, owners and amounts that repeat
become one object. Nodes, namespaces, DaemonSets, budgets and priority classes are read here, the other kinds beside. A
node exists whether it can be read or not: one that cannot takes no pods and is never removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from sys import intern
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from growth.kube.codec.buffer import (
    WORKLOADS,
    TemplateText,
    Workload,
    read_capacity_buffer,
    read_limit_range,
    read_pod_template,
    read_resource_quota,
    read_runtime_class,
    read_workload,
)
from growth.kube.codec.own import read_node_pool, read_node_removal_request, read_node_request, read_pool_autoscaler
from growth.kube.codec.pod import Interned, PodDecoder
from growth.kube.codec.rules import label_selector
from growth.kube.codec.template import ContainerRange, RuntimeClass
from growth.kube.codec.text import (
    BROKEN,
    UnreadableError,
    created_at,
    deleted_at,
    describe_error,
    read,
    read_annotations,
    read_optional_instant,
    read_raw_labels,
    salvage,
    salvage_instant,
    salvage_text,
)
from growth.kube.codec.volumes import read_claim, read_storage_class, read_volume, read_volume_node
from growth.kube.codec.wire import WireCondition, WireMeta, WireObject
from growth.kube.codec.wire_cluster import (
    WireBudget,
    WireBudgetSpec,
    WireBudgetStatus,
    WireDaemonSet,
    WireNode,
    WireNodeSpec,
    WireNodeStatus,
    WirePodGroup,
    WirePriorityClass,
)
from growth.model.capacitybuffer import CapacityBuffer, ResourceQuota
from growth.model.disruption import PodDisruptionBudget, PriorityClass
from growth.model.gang import PodGroup
from growth.model.labels import NO_LABELS, Labels
from growth.model.malformed import Malformed
from growth.model.node import Node, Taint
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.pod import Pod, PodShape
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.quantity import QuantityError
from growth.model.resources import NOTHING, Resources
from growth.model.snapshot import DaemonSet
from growth.model.volumes import Claim, StorageClass, Volume, VolumeNode
from growth.model.warmpool import WarmPool

_Cluster: TypeAlias = Pod | Node | Labels | DaemonSet | PodDisruptionBudget | PriorityClass | PodGroup | RuntimeClass
_Storage: TypeAlias = Claim | Volume | StorageClass | VolumeNode
_Own: TypeAlias = NodePool | NodeRequest | NodeRemovalRequest | PoolAutoscaler | WarmPool
_Buffers: TypeAlias = CapacityBuffer | Workload | TemplateText | ContainerRange | ResourceQuota
Noun: TypeAlias = _Cluster | _Storage | _Own | _Buffers | Malformed


class Decoded(NamedTuple):
    """One object: its key (namespace/name, or the name alone), the version it was written with, and what it says."""

    key: str
    resource_version: str
    noun: Noun


class _Identity(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(Struct, frozen=True, gc=False):
    metadata: _Identity


_identified = msgspec.json.Decoder(_Identified)
_namespace = msgspec.json.Decoder(WireObject)
_daemon_set = msgspec.json.Decoder(WireDaemonSet)
_budget = msgspec.json.Decoder(WireBudget)
_pod_group = msgspec.json.Decoder(WirePodGroup)
_priority_class = msgspec.json.Decoder(WirePriorityClass)
_node = msgspec.json.Decoder(WireNode)

_NO_META = WireMeta()
_NO_SPEC = WireNodeSpec()
_NO_STATUS = WireNodeStatus()
_UNKNOWN = WireCondition(status="Unknown")


class Codec:
    """One for each process: it remembers what repeats."""

    def __init__(self, *, compares_tolerations: bool = False) -> None:
        self.pods = PodDecoder(compares_tolerations=compares_tolerations)
        self.nodes = NodeDecoder()
        self._readers: Mapping[str, Callable[[Raw | bytes], Noun]] = {
            "PersistentVolumeClaim": read_claim,
            "PersistentVolume": read_volume,
            "StorageClass": read_storage_class,
            "CSINode": read_volume_node,
            "Namespace": read_namespace,
            "DaemonSet": lambda raw: read_daemon_set(raw, self.pods),
            "PodDisruptionBudget": read_budget,
            "PriorityClass": read_priority_class,
            "PodGroup": read_pod_group,
            "NodePool": read_node_pool,
            "NodeRequest": read_node_request,
            "NodeRemovalRequest": read_node_removal_request,
            "PoolAutoscaler": read_pool_autoscaler,
            "CapacityBuffer": read_capacity_buffer,
            "PodTemplate": read_pod_template,
            "LimitRange": read_limit_range,
            "RuntimeClass": read_runtime_class,
            "ResourceQuota": read_resource_quota,
            **{resource.kind: partial(read_workload, resource=resource) for resource in WORKLOADS},
        }

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("Pod", "Node", *self._readers)

    def decode(self, kind: str, raw: Raw | bytes) -> Decoded:
        """Never raises for what the object holds; an unknown kind is the caller's mistake."""
        if kind == "Pod":
            pod = self.pods.decode(raw)
            return Decoded(f"{pod.shape.namespace}/{pod.name}", pod.resource_version, pod)
        if kind == "Node":
            node = self.nodes.decode(raw)
            return Decoded(node.name, node.resource_version, node)
        return decode_with(kind, raw, self._readers[kind])

    def decode_pod(self, raw: Raw | bytes) -> Pod:
        return self.pods.decode(raw)

    def decode_node(self, raw: Raw | bytes) -> Node:
        return self.nodes.decode(raw)

    def decode_template(self, raw: Raw | bytes, namespace: str) -> PodShape:
        """The shape that the pods of a template will have."""
        return self.pods.decode_template(raw, namespace)


def decode_with(kind: str, raw: Raw | bytes, reader: Callable[[Raw | bytes], Noun]) -> Decoded:
    """The noun that the reader makes of the object, or a Malformed."""
    identity = _identity(raw)
    key = f"{identity.namespace}/{identity.name}" if identity.namespace else identity.name
    try:
        return Decoded(key, identity.resource_version, reader(raw))
    except UnreadableError as error:
        name, namespace, uid, version = msgspec.structs.astuple(identity)
        return Decoded(key, version, Malformed(kind, name, str(error), namespace, uid, version))


def _identity(raw: Raw | bytes) -> _Identity:
    try:
        return _identified.decode(raw).metadata
    except BROKEN:
        found = salvage(raw)
        parts = (salvage_text(found, "metadata", field) for field in ("name", "namespace", "uid", "resourceVersion"))
        return _Identity(*parts)


def read_namespace(raw: Raw | bytes) -> Labels:
    return read_raw_labels((read(_namespace, raw, "Namespace").metadata or _NO_META).labels)


def read_daemon_set(raw: Raw | bytes, pods: PodDecoder) -> DaemonSet:
    wire = read(_daemon_set, raw, "DaemonSet")
    meta = wire.metadata or _NO_META
    if wire.spec is None:
        raise UnreadableError("spec: there is none")
    shape = pods.decode_template(wire.spec.template, meta.namespace or "")
    if shape.malformed:
        raise UnreadableError(f"spec.template: {shape.malformed}")
    return DaemonSet(f"{meta.namespace or ''}/{meta.name or ''}", shape)


def read_budget(raw: Raw | bytes) -> PodDisruptionBudget:
    wire = read(_budget, raw, "PodDisruptionBudget")
    meta, spec, status = wire.metadata or _NO_META, wire.spec or WireBudgetSpec(), wire.status or WireBudgetStatus()
    return PodDisruptionBudget(
        namespace=meta.namespace or "",
        name=meta.name or "",
        selector=label_selector(spec.selector),
        disruptions_allowed=max(0, status.disruptions_allowed or 0),
        is_current=(status.observed_generation or 0) >= (meta.generation or 0),
        lets_unhealthy_go=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        uid=meta.uid or "",
    )


def read_priority_class(raw: Raw | bytes) -> PriorityClass:
    wire = read(_priority_class, raw, "PriorityClass")
    return PriorityClass((wire.metadata or _NO_META).name or "", wire.value or 0, bool(wire.global_default))


def read_pod_group(raw: Raw | bytes) -> PodGroup:
    spec = read(_pod_group, raw, "PodGroup").spec
    if spec is None:
        raise UnreadableError("spec: there is none")
    gang = None if spec.scheduling_policy is None else spec.scheduling_policy.gang
    return PodGroup(max(0, (spec.min_member if gang is None else gang.min_count) or 0))


class NodeDecoder:
    """Nodes of one kind share their allocatable amounts and taints."""

    def __init__(self) -> None:
        self._allocatable: Interned[Resources] = Interned(4096)
        self._taints: Interned[tuple[Taint, ...]] = Interned(4096)

    def decode(self, raw: Raw | bytes) -> Node:
        try:
            wire = _node.decode(raw)
            return self._read(wire.metadata or _NO_META, wire.spec or _NO_SPEC, wire.status or _NO_STATUS)
        except BROKEN as error:
            return _salvaged(raw, describe_error(error))

    def _read(self, meta: WireMeta, spec: WireNodeSpec, status: WireNodeStatus) -> Node:
        labels, bad_labels = _labels(meta)
        allocatable, bad_amount = _allocatable(status)
        ready = next((condition for condition in status.conditions or () if condition.type == "Ready"), _UNKNOWN)
        return Node(
            name=intern(meta.name or ""),
            labels=labels,
            taints=self._taints.one(tuple(Taint(one.key, one.value or "", one.effect) for one in spec.taints or ())),
            allocatable=self._allocatable.one(allocatable),
            uid=meta.uid or "",
            annotations=read_annotations(meta),
            is_unschedulable=bool(spec.unschedulable),
            is_ready=ready.status == "True",
            ready_changed_at=read_optional_instant(ready.last_transition_time, "status.conditions") or 0.0,
            created_at=created_at(meta),
            deleted_at=deleted_at(meta),
            provider_id=spec.provider_id or "",
            resource_version=meta.resource_version or "",
            malformed="; ".join(problem for problem in (bad_labels, bad_amount) if problem),
        )


def _labels(meta: WireMeta) -> tuple[Labels, str]:
    try:
        return read_raw_labels(meta.labels), ""
    except UnreadableError as error:
        return NO_LABELS, str(error)


def _allocatable(status: WireNodeStatus) -> tuple[Resources, str]:
    try:
        return Resources.parse(status.allocatable or {}), ""
    except QuantityError as error:
        return NOTHING, f"status.allocatable: {error}"


def _salvaged(raw: Raw | bytes, why: str) -> Node:
    """A node whose JSON is not a node's: its names and times, so that it is known to exist."""
    found = salvage(raw)
    labels = found.get("metadata", {}).get("labels") if isinstance(found.get("metadata"), dict) else None
    texts = {key: value for key, value in labels.items() if isinstance(value, str)} if isinstance(labels, dict) else {}
    return Node(
        name=salvage_text(found, "metadata", "name"),
        labels=Labels(texts),
        uid=salvage_text(found, "metadata", "uid"),
        is_ready=False,
        created_at=salvage_instant(found, "metadata", "creationTimestamp") or 0.0,
        deleted_at=salvage_instant(found, "metadata", "deletionTimestamp"),
        provider_id=salvage_text(found, "spec", "providerID"),
        resource_version=salvage_text(found, "metadata", "resourceVersion"),
        malformed=why,
    )
