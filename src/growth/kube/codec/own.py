"""Our own kinds, and what PoolAutoscalers scale, from bytes to nouns. Asked by the codec and the caches of warm pools.

Reading raises UnreadableError: an object that breaks the bounds of its own schema is never guessed at. Kinds of warm
pools that we know are read field by field; a kind of the user's own is read whole, and only its counts are kept.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from growth.kube.codec.text import (
    UnreadableError,
    controller_uid,
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
from growth.model.poolautoscaler import PoolAutoscaler, PoolAutoscalerSpec, PoolAutoscalerStatus
from growth.model.warmpool import CAPACITY_BUFFER, KNOWN_KINDS, WarmPool, WarmPoolKind, value_at

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


_WITHOUT_CAPACITY = ("RequiresNewCapacity", "NotReadyForProvisioning", "LimitedByPool")


class _WireCondition(Struct, rename="camel"):
    type: str | None = None
    reason: str | None = None


class _WireOrdinals(Struct):
    start: int | None = None


class _WireTargetSpec(Struct, rename="camel"):
    replicas: int | None = None
    ordinals: _WireOrdinals | None = None  # of a StatefulSet


class _WireTargetStatus(Struct, rename="camel"):
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    conditions: tuple[_WireCondition, ...] | None = None


class _WireTarget(Struct):
    metadata: WireMeta
    spec: _WireTargetSpec | None = None
    status: _WireTargetStatus | None = None


_autoscaler = msgspec.json.Decoder(OwnObject[PoolAutoscalerSpec, PoolAutoscalerStatus])
_target = msgspec.json.Decoder(_WireTarget)
_anything = msgspec.json.Decoder(dict[str, Any])

_NO_SPEC, _NO_STATUS = _WireTargetSpec(), _WireTargetStatus()


def read_pool_autoscaler(raw: Raw | bytes) -> PoolAutoscaler:
    wire = read(_autoscaler, raw, "PoolAutoscaler")
    meta = wire.metadata
    return PoolAutoscaler(
        name=meta.name or "",
        namespace=meta.namespace or "",
        spec=wire.spec,
        status=wire.status or PoolAutoscalerStatus(),
        uid=meta.uid or "",
        generation=meta.generation or 0,
        resource_version=meta.resource_version or "",
        created_at=created_at(meta),
        deleted_at=deleted_at(meta),
    )


def read_warm_pool(raw: Raw | bytes, kind: WarmPoolKind) -> WarmPool:
    return _read_known(raw, kind) if kind in KNOWN_KINDS else _read_own(raw, kind)


def _read_known(raw: Raw | bytes, kind: WarmPoolKind) -> WarmPool:
    wire = read(_target, raw, kind.kind)
    spec, status = wire.spec or _NO_SPEC, wire.status or _NO_STATUS
    counts = {
        "status.replicas": status.replicas,
        "status.readyReplicas": status.ready_replicas,
        "status.availableReplicas": status.available_replicas,
    }
    available = counts[kind.available_path] or 0
    lacks = (each.type == "Provisioning" and each.reason in _WITHOUT_CAPACITY for each in status.conditions or ())
    if kind == CAPACITY_BUFFER and any(lacks):
        available = 0  # resolved, but there is no room for all of them yet
    first = (spec.ordinals and spec.ordinals.start) or 0
    return _warm_pool(wire.metadata, spec.replicas or 0, available, status.replicas or 0, first)


def _read_own(raw: Raw | bytes, kind: WarmPoolKind) -> WarmPool:
    found = read(_anything, raw, kind.kind)
    meta = read(_target, raw, kind.kind).metadata if isinstance(found.get("metadata"), dict) else WireMeta()
    return _warm_pool(
        meta, *(_count(found, path) for path in ("spec.replicas", kind.available_path, kind.started_path))
    )


def _count(found: dict[str, Any], path: str) -> int:
    value = value_at(found, path) if path else None
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise UnreadableError(f"{path} is no count")
    return value or 0


def _warm_pool(meta: WireMeta, replicas: int, available: int, started: int, first_ordinal: int = 0) -> WarmPool:
    return WarmPool(
        name=meta.name or "",
        namespace=meta.namespace or "",
        replicas=replicas,
        available=available,
        started=started,
        uid=meta.uid or "",
        owner_uid=controller_uid(meta),
        generation=meta.generation or 0,
        first_ordinal=first_ordinal,
        resource_version=meta.resource_version or "",
    )


class Scale(Struct, frozen=True):
    """What a scale subresource says of an object."""

    pool: WarmPool  # all that has started counts as available, for nothing more is known
    replicas: int | None = None  # that are asked for, if it says so
    selector: str = ""  # of its pods


class _WireScaleStatus(Struct, rename="camel"):
    replicas: int | None = None
    selector: str | None = None


class _WireScale(Struct):
    metadata: WireMeta
    spec: _WireTargetSpec | None = None
    status: _WireScaleStatus | None = None


_scale = msgspec.json.Decoder(_WireScale)


def read_scale(raw: Raw | bytes) -> Scale:
    wire = read(_scale, raw, "Scale")
    spec, status = wire.spec or _NO_SPEC, wire.status or _WireScaleStatus()
    started = status.replicas or 0
    return Scale(_warm_pool(wire.metadata, spec.replicas or 0, started, started), spec.replicas, status.selector or "")
