"""Raw bytes to Node. Asked by the caches for every node of a list and every event of a watch.

Never raises: a node exists whether it can be read or not, so it carries its own `malformed`, takes no pods and is never
removed."""

from __future__ import annotations

from sys import intern

import msgspec
from msgspec import Raw

from growth.kube.codec.pod import Interned
from growth.kube.codec.text import (
    BROKEN,
    UnreadableError,
    created_at,
    deleted_at,
    describe_error,
    read_annotations,
    read_optional_instant,
    read_raw_labels,
    salvage,
    salvage_instant,
    salvage_text,
)
from growth.kube.codec.wire import WireCondition, WireMeta
from growth.kube.codec.wire_cluster import WireNode, WireNodeSpec, WireNodeStatus
from growth.model.labels import NO_LABELS, Labels
from growth.model.node import Node, Taint
from growth.model.quantity import QuantityError
from growth.model.resources import NOTHING, Resources

_node = msgspec.json.Decoder(WireNode)

_NO_META = WireMeta()
_NO_SPEC = WireNodeSpec()
_NO_STATUS = WireNodeStatus()
_UNKNOWN = WireCondition(status="Unknown")


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
