"""Claims, volumes and what a pod uses of them, from wire to model. Asked by the codec; raises UnreadableError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw

from growth.kube.codec.rules import label_selector, node_terms
from growth.kube.codec.text import all_annotations, controller_uid, deleted_at, read, read_amount, read_raw_labels
from growth.kube.codec.wire import WireDisk, WireMeta, WireVolume
from growth.kube.codec.wire_cluster import (
    WireClaim,
    WireClaimSpec,
    WirePersistentVolume,
    WireStorageClass,
    WireTopologyTerm,
    WireVolumeNode,
    WireVolumeNodeSpec,
    WireVolumeSpec,
)
from growth.model.labels import NodeSelectorTerm, Requirement
from growth.model.pod import VolumeUse
from growth.model.volumes import SELECTED_NODE, AttachLimit, Claim, StorageClass, Volume, VolumeNode

_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

_claim = msgspec.json.Decoder(WireClaim)
_volume = msgspec.json.Decoder(WirePersistentVolume)
_class = msgspec.json.Decoder(WireStorageClass)
_volume_node = msgspec.json.Decoder(WireVolumeNode)

_NO_META = WireMeta()


def telling_volumes(volumes: tuple[WireVolume, ...] | None) -> list[WireVolume]:
    """The volumes that say something of place or data; most pods have none."""
    return [volume for volume in volumes or () if not (volume.projected or volume.config_map or volume.secret)]


def has_local_data(volumes: Iterable[WireVolume]) -> bool:
    return any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes)


def volume_uses(volumes: Iterable[WireVolume]) -> Iterator[VolumeUse]:
    """Volumes that bind a pod to places or keep two pods apart; config maps and secrets do neither."""
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim
            yield VolumeUse(claim=claim.claim_name or "", read_only=bool(claim.read_only))
        elif volume.ephemeral is not None:
            yield _ephemeral(volume)
        elif volume.csi is not None:
            yield VolumeUse(driver=volume.csi.driver or "", read_only=bool(volume.csi.read_only))
        else:
            yield from _disks(volume)


def _ephemeral(volume: WireVolume) -> VolumeUse:
    """`claim` is the volume's name: the claim's own is made of the pod's name and this one."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
    storage_class = template.spec.storage_class_name if template and template.spec else None
    return VolumeUse(claim=volume.name or "", is_ephemeral=True, storage_class=storage_class or "")


def _disks(volume: WireVolume) -> Iterator[VolumeUse]:
    """Two pods must not share a disk on one node, unless both only read it; an EBS disk is never shared."""
    if volume.gce_persistent_disk is not None:
        yield _disk("gce", volume.gce_persistent_disk.pd_name, volume.gce_persistent_disk)
    if volume.aws_elastic_block_store is not None:
        yield VolumeUse(disk=f"ebs:{volume.aws_elastic_block_store.volume_id or ''}")
    if volume.iscsi is not None:
        yield _disk("iscsi", volume.iscsi.iqn, volume.iscsi)
    if volume.rbd is not None:
        for monitor in volume.rbd.monitors or ():  # one monitor in common makes it the same image
            yield _disk("rbd", f"{monitor}/{volume.rbd.pool or 'rbd'}/{volume.rbd.image}", volume.rbd)


def _disk(kind: str, name: str | None, source: WireDisk) -> VolumeUse:
    return VolumeUse(disk=f"{kind}:{name or ''}", read_only=bool(source.read_only))


def read_claim(raw: Raw | bytes) -> Claim:
    wire = read(_claim, raw, "PersistentVolumeClaim")
    meta, spec = wire.metadata or _NO_META, wire.spec or WireClaimSpec()
    phase = wire.status.phase if wire.status else None
    annotations = all_annotations(meta)
    requests = spec.resources.requests if spec.resources else None
    return Claim(
        namespace=meta.namespace or "",
        name=meta.name or "",
        volume=spec.volume_name or "",
        storage_class=annotations.get(_OLD_CLASS, spec.storage_class_name),
        is_bound=bool(spec.volume_name) and _BIND_COMPLETED in annotations,
        is_lost=phase == "Lost",
        access_modes=spec.access_modes or (),
        selected_node=annotations.get(SELECTED_NODE),
        request_bytes=read_amount((requests or {}).get("storage", 0), "spec.resources.requests.storage"),
        deleted_at=deleted_at(meta),
        uid=meta.uid or "",
        selector=label_selector(spec.selector),
        volume_mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        owner_uid=controller_uid(meta),
    )


def read_volume(raw: Raw | bytes) -> Volume:
    wire = read(_volume, raw, "PersistentVolume")
    meta, spec = wire.metadata or _NO_META, wire.spec or WireVolumeSpec()
    driver, handle = _driver_and_handle(spec)
    required = spec.node_affinity.required if spec.node_affinity else None
    annotations = all_annotations(meta)
    return Volume(
        name=meta.name or "",
        labels=read_raw_labels(meta.labels),
        node_affinity=node_terms(required) if required else None,
        driver=driver,
        handle=handle,
        claim=f"{spec.claim_ref.namespace or ''}/{spec.claim_ref.name or ''}" if spec.claim_ref else "",
        storage_class=annotations.get(_OLD_CLASS, spec.storage_class_name or ""),
        phase=(wire.status.phase if wire.status else None) or "Pending",
        capacity_bytes=read_amount((spec.capacity or {}).get("storage", 0), "spec.capacity.storage"),
        access_modes=spec.access_modes or (),
        claim_uid=(spec.claim_ref.uid or "") if spec.claim_ref else "",
        volume_mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        deleted_at=deleted_at(meta),
    )


def _driver_and_handle(spec: WireVolumeSpec) -> tuple[str, str]:
    """In-tree disks count as volumes of the CSI driver that took over from them."""
    if spec.csi is not None:
        return spec.csi.driver or "", spec.csi.volume_handle or ""
    if spec.aws_elastic_block_store is not None:
        return "ebs.csi.aws.com", spec.aws_elastic_block_store.volume_id or ""
    if spec.gce_persistent_disk is not None:
        return "pd.csi.storage.gke.io", spec.gce_persistent_disk.pd_name or ""
    if spec.azure_disk is not None:
        return "disk.csi.azure.com", spec.azure_disk.disk_name or ""
    if spec.cinder is not None:
        return "cinder.csi.openstack.org", spec.cinder.volume_id or ""
    return "", ""


def read_storage_class(raw: Raw | bytes) -> StorageClass:
    wire = read(_class, raw, "StorageClass")
    topologies = wire.allowed_topologies
    return StorageClass(
        name=(wire.metadata or _NO_META).name or "",
        provisioner=wire.provisioner or "",
        waits_for_consumer=wire.volume_binding_mode == "WaitForFirstConsumer",
        allowed_topologies=tuple(_topology(term) for term in topologies) if topologies else None,
    )


def _topology(term: WireTopologyTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(Requirement(one.key, "In", one.values or ()) for one in term.match_label_expressions or ())
    )


def read_volume_node(raw: Raw | bytes) -> VolumeNode:
    wire = read(_volume_node, raw, "CSINode")
    drivers = (wire.spec or WireVolumeNodeSpec()).drivers or ()
    limits = (AttachLimit(driver.name, driver.allocatable.count if driver.allocatable else None) for driver in drivers)
    return VolumeNode((wire.metadata or _NO_META).name or "", tuple(limits))
