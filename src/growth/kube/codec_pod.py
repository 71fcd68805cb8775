"""Raw bytes to Pod, ten microseconds each. Asked by the caches for every pod of a list and every event of a watch.

Pods of one template differ in name, node and times; the rest repeats byte for byte. So the bytes of all that scheduling can see are
hashed, and a shape that was read once is found again by that hash. Never raises: what cannot be read is said in `shape.malformed`.
"""

from __future__ import annotations

from hashlib import blake2b
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import Raw

from growth.kube.codec_intern import Interned, Memo
from growth.kube.codec_shape import ShapeSource, read_shape
from growth.kube.codec_text import (
    BROKEN,
    MIRROR,
    NULL,
    described,
    read,
    read_annotations,
    read_instant,
    salvage,
    salvage_instant,
    salvage_text,
)
from growth.kube.wire import WireCondition, WireMeta, WireOwner, WirePod, WirePodSpec, WirePodStatus, WireTemplate, WireVolume
from growth.model.labels import NO_LABELS, Labels
from growth.model.pod import Owner, Pod, PodShape

_pod = msgspec.json.Decoder(WirePod)
_template = msgspec.json.Decoder(WireTemplate)
_owners = msgspec.json.Decoder(tuple[WireOwner, ...] | None)
_conditions = msgspec.json.Decoder(tuple[WireCondition, ...] | None)

_NO_META = WireMeta()
_NO_SPEC = WirePodSpec()
_NO_STATUS = WirePodStatus()
_BETWEEN: Final = b"\x1f"  # no JSON text holds this byte


class PodDecoder:
    """Keeps what repeats from pod to pod. One for a process: pods of all caches share their shapes."""

    def __init__(self) -> None:
        self._shapes: Memo[bytes, PodShape] = Memo()
        self._one_shape: Interned[PodShape] = Interned()
        self._owners: Memo[bytes, Owner] = Memo()
        self._annotations: Interned[Labels] = Interned()
        self._instants: Memo[str, float] = Memo()

    def decode(self, raw: Raw | bytes) -> Pod:
        try:
            wire = _pod.decode(raw)
            return self._read(wire.metadata or _NO_META, wire.spec or _NO_SPEC, wire.status or _NO_STATUS)
        except BROKEN as error:
            return _salvaged(raw, described(error))

    def decode_template(self, raw: Raw | bytes, namespace: str) -> PodShape:
        """The shape that pods of this template will have."""
        try:
            wire = _template.decode(raw)
            spec = wire.spec or _NO_SPEC
            labels = (wire.metadata or _NO_META).labels
            return self._one_shape.one(read_shape(ShapeSource(namespace, labels, spec, required_node=spec.node_name or "")))
        except BROKEN as error:
            return PodShape(namespace=namespace, malformed=described(error))

    def _read(self, meta: WireMeta, spec: WirePodSpec, status: WirePodStatus) -> Pod:
        node_name = spec.node_name
        owner = self._owner(meta.owner_references)
        annotations = self._annotations_of(meta.annotations)
        return Pod(
            meta.name or "",
            self._shape(meta, spec, status, bool(node_name) and owner is not None and owner.kind == "DaemonSet"),
            meta.uid or "",
            owner,
            intern(node_name) if node_name else "",
            intern(status.nominated_node_name) if status.nominated_node_name else "",
            intern(status.phase) if status.phase else "Pending",
            self._instant(meta.creation_timestamp, "metadata.creationTimestamp") or 0.0,
            self._instant(meta.deletion_timestamp, "metadata.deletionTimestamp"),
            None if node_name else self._unschedulable_at(meta, status),
            bool(spec.scheduling_gates),
            MIRROR in annotations,
            annotations,
            30 if spec.termination_grace_period_seconds is None else spec.termination_grace_period_seconds,
            _has_local_data(spec.volumes),
            meta.resource_version or "",
        )

    def _shape(self, meta: WireMeta, spec: WirePodSpec, status: WirePodStatus, is_settled_daemon: bool) -> PodShape:
        source = ShapeSource(meta.namespace or "", meta.labels, spec, status, is_settled_daemon)
        if is_settled_daemon:  # its bytes name its node, so they never repeat
            return self._one_shape.one(read_shape(source))
        key = _fingerprint(meta, spec, status)
        return self._shapes.get(key) or self._shapes.put(key, self._one_shape.one(read_shape(source)))

    def _owner(self, raw: Raw) -> Owner | None:
        text = bytes(raw)
        if text == NULL:
            return None
        known = self._owners.get(text)
        if known is not None:
            return known
        for wire in read(_owners, raw, "metadata.ownerReferences") or ():
            if wire.controller:
                return self._owners.put(text, Owner(wire.kind, wire.name, wire.uid, wire.api_version))
        return None

    def _annotations_of(self, raw: Raw) -> Labels:
        found = read_annotations(raw)
        return self._annotations.one(found) if found else NO_LABELS

    def _instant(self, text: str | None, where: str) -> float | None:
        if text is None:
            return None
        known = self._instants.get(text)
        if known is not None:
            return known
        at = read_instant(text, where)
        return None if at is None else self._instants.put(text, at)

    def _unschedulable_at(self, meta: WireMeta, status: WirePodStatus) -> float | None:
        for condition in read(_conditions, status.conditions, "status.conditions") or ():
            if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
                return self._instant(condition.last_transition_time or meta.creation_timestamp, "status.conditions") or 0.0
        return None


def _fingerprint(meta: WireMeta, spec: WirePodSpec, status: WirePodStatus) -> bytes:
    """Equal for two pods only if scheduling sees the same."""
    rest = f"{meta.namespace}\x1f{spec.priority}\x1f{spec.scheduler_name}\x1f{spec.host_network}\x1f{bool(spec.resource_claims)}"
    parts: list[Any] = [
        rest.encode(),
        meta.labels,
        spec.overhead,
        spec.resources,
        spec.tolerations,
        spec.node_selector,
        spec.affinity,
        spec.topology_spread_constraints,
        status.resources,
        status.allocated_resources,
    ]
    for container in spec.containers or ():
        parts += ((container.name or "").encode(), container.resources, container.ports)
    for container in spec.init_containers or ():
        parts += (b"init", (container.name or "").encode(), (container.restart_policy or "").encode(), container.resources, container.ports)
    for container_status in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
        parts += (b"status", (container_status.name or "").encode(), container_status.resources, container_status.allocated_resources)
    _add_volumes(parts, spec.volumes)
    if b"PodResizePending" in bytes(status.conditions):
        parts.append(status.conditions)
    return blake2b(_BETWEEN.join(parts), digest_size=16).digest()


def _add_volumes(parts: list[Any], volumes: tuple[WireVolume, ...] | None) -> None:
    for volume in volumes or ():
        if volume.persistent_volume_claim or volume.ephemeral or volume.csi:
            parts += (b"volume", repr(volume).encode())
        elif volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.iscsi or volume.rbd:
            parts += (b"disk", repr(volume).encode())


def _has_local_data(volumes: tuple[WireVolume, ...] | None) -> bool:
    return any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes or ())


def _salvaged(raw: Raw | bytes, why: str) -> Pod:
    """A pod whose JSON is not a pod's: where it is and that it cannot be read, so that it blocks its node and nothing else."""
    found = salvage(raw)
    return Pod(
        salvage_text(found, "metadata", "name"),
        PodShape(namespace=salvage_text(found, "metadata", "namespace"), malformed=why),
        salvage_text(found, "metadata", "uid"),
        node_name=salvage_text(found, "spec", "nodeName"),
        phase=salvage_text(found, "status", "phase") or "Pending",
        created_at=salvage_instant(found, "metadata", "creationTimestamp") or 0.0,
        deleted_at=salvage_instant(found, "metadata", "deletionTimestamp"),
        resource_version=salvage_text(found, "metadata", "resourceVersion"),
    )
