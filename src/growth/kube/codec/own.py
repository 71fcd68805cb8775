"""Our own kinds, from bytes to nouns: NodePool, NodeRequest, NodeRemovalRequest. Asked by the codec.

Reading raises UnreadableError: an object that breaks the bounds of its own schema is never guessed at.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from growth.kube.codec.text import (
    UnreadableError,
    created_at,
    deleted_at,
    read,
    read_annotations,
    read_optional_instant,
)
from growth.kube.codec.wire import WireMeta
from growth.model.nodepool import NodePool, NodePoolSpec, NodePoolStatus
from growth.model.noderequest import (
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRemovalRequestStatus,
    NodeRequest,
    NodeRequestSpec,
    NodeRequestStatus,
)

Spec = TypeVar("Spec")
Status = TypeVar("Status")


class OwnObject(Struct, Generic[Spec, Status]):
    """An object of a kind of ours: spec and status are the model's own types."""

    metadata: WireMeta
    spec: Spec
    status: Status | None = None


_pool = msgspec.json.Decoder(OwnObject[NodePoolSpec, NodePoolStatus])
_request = msgspec.json.Decoder(OwnObject[NodeRequestSpec, NodeRequestStatus])
_removal = msgspec.json.Decoder(OwnObject[NodeRemovalRequestSpec, NodeRemovalRequestStatus])


def read_node_pool(raw: Raw | bytes) -> NodePool:
    wire = read(_pool, raw, "NodePool")
    meta = wire.metadata
    return NodePool(
        name=meta.name or "",
        spec=_checked(wire.spec),
        status=wire.status or NodePoolStatus(),
        uid=meta.uid or "",
        generation=meta.generation or 0,
        resource_version=meta.resource_version or "",
        annotations=dict(read_annotations(meta)),
        finalizers=meta.finalizers or (),
        created_at=created_at(meta),
        deleted_at=deleted_at(meta),
    )


def _checked(spec: NodePoolSpec) -> NodePoolSpec:
    """Check what the API server checks by CEL, for objects it has not seen (files, an older schema)."""
    names = [choice.name.lower() for choice in spec.server_types]
    for name in names:
        if names.count(name) > 1:
            raise UnreadableError(f"spec.serverTypes: {name} is named twice")
    for choice in spec.server_types:
        if choice.max is not None and choice.min > choice.max:
            raise UnreadableError(f"spec.serverTypes: {choice.name}: min {choice.min} is larger than max {choice.max}")
    return spec


def read_node_request(raw: Raw | bytes) -> NodeRequest:
    wire = read(_request, raw, "NodeRequest")
    meta, status = wire.metadata, wire.status or NodeRequestStatus()
    made_at = created_at(meta)
    return NodeRequest(
        name=meta.name or "",
        spec=wire.spec,
        status=status,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        finalizers=meta.finalizers or (),
        created_at=made_at,
        deleted_at=deleted_at(meta),
        changed_at=read_optional_instant(status.last_transition_time, "status.lastTransitionTime") or made_at,
    )


def read_node_removal_request(raw: Raw | bytes) -> NodeRemovalRequest:
    wire = read(_removal, raw, "NodeRemovalRequest")
    meta, status = wire.metadata, wire.status or NodeRemovalRequestStatus()
    return NodeRemovalRequest(
        name=meta.name or "",
        spec=wire.spec,
        status=status,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        finalizers=meta.finalizers or (),
        created_at=created_at(meta),
        deleted_at=deleted_at(meta),
        attempted_at=read_optional_instant(status.remove_attempted_at, "status.removeAttemptedAt"),
    )
