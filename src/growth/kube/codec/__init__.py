"""The door of the codec: bytes of one object in, noun out. Used by the caches and by all that reads a live object.

    Pod, Node ............ always the noun; its `malformed` says what could not be read
    every other kind ..... the noun, or a Malformed with the reason

Nothing that the API server (or a file) can contain makes this raise. Shapes, labels, owners and amounts that repeat
become one object. Namespaces, DaemonSets, budgets and priority classes are read here, the other kinds beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
from growth.kube.codec.node import NodeDecoder
from growth.kube.codec.own import read_node_pool, read_node_removal_request, read_node_request
from growth.kube.codec.pod import PodDecoder
from growth.kube.codec.rules import label_selector
from growth.kube.codec.template import ContainerRange, RuntimeClass
from growth.kube.codec.text import BROKEN, UnreadableError, read, read_raw_labels, salvage, salvage_text
from growth.kube.codec.volumes import read_claim, read_storage_class, read_volume, read_volume_node
from growth.kube.codec.warm_pools import read_pool_autoscaler
from growth.kube.codec.wire import WireMeta, WireObject
from growth.kube.codec.wire_cluster import (
    WireBudget,
    WireBudgetSpec,
    WireBudgetStatus,
    WireDaemonSet,
    WirePriorityClass,
)
from growth.model.capacitybuffer import CapacityBuffer, ResourceQuota
from growth.model.disruption import PodDisruptionBudget, PriorityClass
from growth.model.labels import Labels
from growth.model.malformed import Malformed
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.pod import Pod, PodShape
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.snapshot import DaemonSet
from growth.model.volumes import Claim, StorageClass, Volume, VolumeNode
from growth.model.warmpool import WarmPool

_Cluster: TypeAlias = Pod | Node | Labels | DaemonSet | PodDisruptionBudget | PriorityClass | RuntimeClass
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
_priority_class = msgspec.json.Decoder(WirePriorityClass)

_NO_META = WireMeta()


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
