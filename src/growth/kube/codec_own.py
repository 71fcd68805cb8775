"""Our own kinds, from bytes to nouns and back: NodePool, NodeRequest, NodeRemovalRequest. Asked by the codec and by `apply`.

Reading raises UnreadableError: an object that breaks the bounds of its own schema is never guessed at. A status is written whole, as a
merge patch in which what is absent is null, and carries the resourceVersion that was seen: on changed ground it is a Conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from growth.kube.codec_text import UnreadableError, read, read_annotations, read_optional_instant
from growth.kube.wire import WireMeta
from growth.model.action import Seen
from growth.model.api import API_GROUP, API_VERSION, FINALIZER
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


class _WireNodePool(Struct):
    metadata: WireMeta
    spec: NodePoolSpec
    status: NodePoolStatus | None = None


class _WireNodeRequest(Struct):
    metadata: WireMeta
    spec: NodeRequestSpec
    status: NodeRequestStatus | None = None


class _WireNodeRemovalRequest(Struct):
    metadata: WireMeta
    spec: NodeRemovalRequestSpec
    status: NodeRemovalRequestStatus | None = None


_pool = msgspec.json.Decoder(_WireNodePool)
_request = msgspec.json.Decoder(_WireNodeRequest)
_removal = msgspec.json.Decoder(_WireNodeRemovalRequest)


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
        annotations=dict(read_annotations(meta.annotations)),
        finalizers=meta.finalizers or (),
        created_at=_created_at(meta),
        deleted_at=_deleted_at(meta),
    )


def _checked(spec: NodePoolSpec) -> NodePoolSpec:
    """What the API server checks by CEL, for objects that never went through it (files, an older schema)."""
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
    created_at = _created_at(meta)
    return NodeRequest(
        name=meta.name or "",
        spec=wire.spec,
        status=status,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        finalizers=meta.finalizers or (),
        created_at=created_at,
        deleted_at=_deleted_at(meta),
        changed_at=read_optional_instant(status.last_transition_time, "status.lastTransitionTime") or created_at,
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
        created_at=_created_at(meta),
        deleted_at=_deleted_at(meta),
        attempted_at=read_optional_instant(status.remove_attempted_at, "status.removeAttemptedAt"),
    )


def _created_at(meta: WireMeta) -> float:
    return read_optional_instant(meta.creation_timestamp, "metadata.creationTimestamp") or 0.0


def _deleted_at(meta: WireMeta) -> float | None:
    return read_optional_instant(meta.deletion_timestamp, "metadata.deletionTimestamp")


def encode_node_request(name: str, spec: NodeRequestSpec, pool: Seen, labels: Mapping[str, str] | None = None) -> bytes:
    """A new NodeRequest: held by our finalizer and owned by its pool, so that the record outlives a crash but not its pool."""
    owner = {"apiVersion": f"{API_GROUP}/{API_VERSION}", "kind": "NodePool", "name": pool.name, "uid": pool.uid, "controller": True}
    meta = {"name": name, "labels": dict(labels or {}), "finalizers": [FINALIZER], "ownerReferences": [owner] if pool.uid else []}
    return _encode("NodeRequest", meta, spec)


def encode_node_removal_request(name: str, spec: NodeRemovalRequestSpec, labels: Mapping[str, str] | None = None) -> bytes:
    """A new NodeRemovalRequest: held by our finalizer; nobody owns it, because a pool may go before its nodes have."""
    return _encode("NodeRemovalRequest", {"name": name, "labels": dict(labels or {}), "finalizers": [FINALIZER]}, spec)


def encode_node_pool(name: str, spec: NodePoolSpec) -> bytes:
    return _encode("NodePool", {"name": name}, spec)


def _encode(kind: str, meta: dict[str, Any], spec: Struct) -> bytes:
    kept = {key: value for key, value in meta.items() if value}
    return msgspec.json.encode({"apiVersion": f"{API_GROUP}/{API_VERSION}", "kind": kind, "metadata": kept, "spec": spec})


def encode_status_patch(status: Struct, seen: Seen) -> bytes:
    """A merge patch for the status subresource: the status becomes exactly this one, if the object is still the one that was seen."""
    values = msgspec.to_builtins(status)
    whole = {name: values.get(name) for name in status.__struct_encode_fields__}
    return msgspec.json.encode({"metadata": _precondition(seen), "status": whole})


def encode_metadata_patch(seen: Seen, **changes: Any) -> bytes:
    """A merge patch for labels, annotations or finalizers, under the same condition."""
    return msgspec.json.encode({"metadata": {**changes, **_precondition(seen)}})


def _precondition(seen: Seen) -> dict[str, str]:
    known = {"uid": seen.uid, "resourceVersion": seen.resource_version}
    return {key: value for key, value in known.items() if value}
