"""Claims, volumes and what binds them to places. Asked by the volume rules; keyed by name in a snapshot."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.model.labels import NO_LABELS, Labels, LabelSelector, NodeSelectorTerm

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"  # on a claim: its provisioner shall make a volume for it


class Claim(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    volume: str = ""  # bound to this PersistentVolume
    storage_class: str | None = None
    is_bound: bool = False
    is_lost: bool = False
    access_modes: tuple[str, ...] = ()
    selected_node: str | None = None  # promised to this node; an empty name is no node
    request_bytes: int = 0
    deleted_at: float | None = None
    uid: str = ""
    selector: LabelSelector | None = None  # of the volumes it accepts
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    owner_uid: str = ""  # of the controlling owner: an ephemeral claim must be its pod's

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Volume(Struct, frozen=True, gc=False):
    """A PersistentVolume. Zone labels and node affinity say where it can be used."""

    name: str
    labels: Labels = NO_LABELS
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    handle: str = ""
    claim: str = ""  # namespace/name it is bound or reserved to
    storage_class: str = ""
    phase: str = "Available"
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    claim_uid: str = ""
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    deleted_at: float | None = None


class StorageClass(Struct, frozen=True, gc=False):
    name: str
    provisioner: str = ""
    waits_for_consumer: bool = False
    allowed_topologies: tuple[NodeSelectorTerm, ...] | None = None


class AttachLimit(Struct, frozen=True, gc=False):
    """A CSINode's statement on one driver; None: no limit."""

    driver: str
    count: int | None = None


class VolumeNode(Struct, frozen=True, gc=False):
    """A CSINode."""

    name: str
    limits: tuple[AttachLimit, ...] = ()
