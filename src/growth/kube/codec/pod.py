"""Raw bytes to Pod, ten microseconds each. Asked by the caches for every pod of a list and every event of a watch.

Pods of one template differ in name, node and times; the rest repeats byte for byte. So the bytes of all that scheduling
can see are hashed, and a shape that was read once is found again by that hash. Never raises: what cannot be read is
said in `shape.malformed`. A Memo forgets in two generations, so it stays bounded while pods of ever new templates come
and go; what was forgotten is read again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from hashlib import sha256
from sys import intern
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from growth.kube.codec.shape import ShapeSource, read_shape
from growth.kube.codec.text import (
    BROKEN,
    NULL,
    describe_error,
    read,
    read_instant,
    read_owners,
    salvage,
    salvage_instant,
    salvage_text,
)
from growth.kube.codec.volumes import has_local_data, telling_volumes, volume_uses
from growth.kube.codec.wire import (
    WireAnnotations,
    WireCondition,
    WirePod,
    WirePodMeta,
    WirePodSpec,
    WirePodStatus,
    WireTemplate,
    WireVolume,
)
from growth.model.gang import PLUGIN_LABEL, PLUGIN_POD_GROUP, POD_GROUP
from growth.model.labels import NO_LABELS, Labels
from growth.model.pod import WAITING_FOR_VOLUMES, Owner, Pod, PodShape

_pod = msgspec.json.Decoder(WirePod)
_template = msgspec.json.Decoder(WireTemplate)
_conditions = msgspec.json.Decoder(tuple[WireCondition, ...] | None)

_NO_ANNOTATIONS = WireAnnotations()
_NO_META = WirePodMeta()
_NO_SPEC = WirePodSpec()
_NO_STATUS = WirePodStatus()
_COMPARING: Final = ("Gt", "Lt")
_UNSCHEDULABLE: Final = "Unschedulable"
_UNSCHEDULED: Final = (_UNSCHEDULABLE, WAITING_FOR_VOLUMES)
_MIRROR: Final = "kubernetes.io/config.mirror"
_BETWEEN: Final = b"\x1f"  # no JSON text holds this byte
_SMALLEST_GENERATION: Final = 4096
_LARGEST_GENERATION: Final = 32_768

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class PodDecoder:
    """Keeps what repeats from pod to pod. One for a process: pods of all caches share their shapes."""

    def __init__(self, *, compares_tolerations: bool = False) -> None:
        self._compares_tolerations = compares_tolerations  # does this cluster know the operators Gt and Lt?
        self._shapes: Memo[bytes, PodShape] = Memo()
        self._one_shape: Interned[PodShape] = Interned()
        self._owners: Memo[bytes, Owner] = Memo()
        self._annotations: Interned[Labels] = Interned()
        self._instants: Memo[str, float] = Memo()

    def expect(self, pods: int) -> None:
        """So many pods are there: as much is kept, so that memory follows the cluster and not the time."""
        kept: tuple[Memo[Any, Any], ...] = (self._shapes, self._owners, self._instants)
        for memo in (*kept, self._one_shape.memo, self._annotations.memo):
            memo.limit = min(max(pods, _SMALLEST_GENERATION), _LARGEST_GENERATION)

    def decode(self, raw: Raw | bytes) -> Pod:
        try:
            wire = _pod.decode(raw)
            return self._read(wire.metadata or _NO_META, wire.spec or _NO_SPEC, wire.status or _NO_STATUS)
        except BROKEN as error:
            return _salvaged(raw, describe_error(error))

    def decode_template(self, raw: Raw | bytes, namespace: str) -> PodShape:
        """The shape that pods of this template will have."""
        try:
            wire = _template.decode(raw)
            spec = wire.spec or _NO_SPEC
            labels = (wire.metadata or _NO_META).labels
            source = ShapeSource(namespace, labels, spec, required_node=spec.node_name or "")
            return self._one_shape.one(self._read_shape(source))
        except BROKEN as error:
            return PodShape(namespace=namespace, malformed=describe_error(error))

    def _read(self, meta: WirePodMeta, spec: WirePodSpec, status: WirePodStatus) -> Pod:
        node_name, deleted_at = spec.node_name, meta.deletion_timestamp
        owner = self._owner(meta.owner_references)
        annotations = self._annotations_of(meta.annotations)
        volumes = telling_volumes(spec.volumes) if spec.volumes else ()
        is_settled_daemon = bool(node_name) and owner is not None and owner.kind == "DaemonSet"
        ready = _ready(status) if node_name else None
        unscheduled, since = ("", None) if node_name else self._unscheduled(meta, status)
        shape = self._settled_shape(meta, spec, status) if is_settled_daemon else None
        shape = self._shape(meta, spec, status, volumes) if shape is None else shape
        return Pod(
            meta.name or "",
            shape,
            meta.uid or "",
            owner,
            intern(node_name) if node_name else "",
            intern(status.nominated_node_name) if status.nominated_node_name else "",
            intern(status.phase) if status.phase else "Pending",
            self._instant(meta.creation_timestamp, "metadata.creationTimestamp") if meta.creation_timestamp else 0.0,
            self._instant(deleted_at, "metadata.deletionTimestamp") if deleted_at else None,
            since if unscheduled == _UNSCHEDULABLE else None,
            bool(spec.scheduling_gates),
            _MIRROR in annotations,
            annotations,
            30 if spec.termination_grace_period_seconds is None else spec.termination_grace_period_seconds,
            has_local_data(volumes) if volumes else False,
            meta.resource_version or "",
            ready is not None,
            self._ready_at(ready) if ready is not None and not is_settled_daemon else None,
            _group(spec, shape.labels),
            since if unscheduled == WAITING_FOR_VOLUMES else None,
        )

    def _ready_at(self, ready: WireCondition) -> float | None:
        at = ready.last_transition_time
        return self._instant(at, "status.conditions") if at else None

    def _shape(
        self, meta: WirePodMeta, spec: WirePodSpec, status: WirePodStatus, volumes: Sequence[WireVolume]
    ) -> PodShape:
        key = _fingerprint(meta, spec, status, volumes)
        known = self._shapes.get(key)
        if known is not None:
            return known
        source = ShapeSource(meta.namespace or "", meta.labels, spec, status)
        return self._shapes.put(key, self._one_shape.one(self._read_shape(source)))

    def _settled_shape(self, meta: WirePodMeta, spec: WirePodSpec, status: WirePodStatus) -> PodShape:
        """The shape of a DaemonSet's bound pod: its bytes name the node and never repeat, the shape without it does."""
        source = ShapeSource(meta.namespace or "", meta.labels, spec, status, is_settled_daemon=True)
        return self._one_shape.one(self._read_shape(source))

    def _read_shape(self, source: ShapeSource) -> PodShape:
        """The shape of a pod; a toleration with an operator that the cluster does not know is left out."""
        shape = read_shape(source)
        if self._compares_tolerations or not any(each.operator in _COMPARING for each in shape.tolerations):
            return shape
        known = tuple(each for each in shape.tolerations if each.operator not in _COMPARING)
        return msgspec.structs.replace(shape, tolerations=known)

    def _owner(self, raw: Raw) -> Owner | None:
        text = bytes(raw)
        if text == NULL:
            return None
        known = self._owners.get(text)
        if known is not None:
            return known
        for wire in read_owners(raw):
            if wire.controller:
                return self._owners.put(text, Owner(wire.kind, wire.name, wire.uid, wire.api_version))
        return None

    def _annotations_of(self, wire: WireAnnotations | None) -> Labels:
        if wire is None or wire == _NO_ANNOTATIONS:
            return NO_LABELS
        values = zip(WireAnnotations.__struct_encode_fields__, msgspec.structs.astuple(wire), strict=True)
        return self._annotations.one(Labels({key: value for key, value in values if value is not None}))

    def _instant(self, text: str, where: str) -> float:
        known = self._instants.get(text)
        return self._instants.put(text, read_instant(text, where)) if known is None else known

    def _unscheduled(self, meta: WirePodMeta, status: WirePodStatus) -> tuple[str, float | None]:
        """Why it is not scheduled, in the scheduler's word, and since when; of the words that growth looks at."""
        for condition in read(_conditions, status.conditions, "status.conditions") or ():
            if condition.type == "PodScheduled" and condition.status == "False" and condition.reason in _UNSCHEDULED:
                since = condition.last_transition_time or meta.creation_timestamp
                return condition.reason, self._instant(since, "status.conditions") if since else 0.0
        return "", None


def _group(spec: WirePodSpec, labels: Labels) -> str:
    """The group it names, with the kind."""
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return intern(f"{POD_GROUP}/{spec.scheduling_group.pod_group_name}")
    name = labels.get(PLUGIN_LABEL)
    return intern(f"{PLUGIN_POD_GROUP}/{name}") if name else ""


def _ready(status: WirePodStatus) -> WireCondition | None:
    conditions = read(_conditions, status.conditions, "status.conditions") or ()
    return next((each for each in conditions if each.type == "Ready" and each.status == "True"), None)


def _fingerprint(meta: WirePodMeta, spec: WirePodSpec, status: WirePodStatus, volumes: Sequence[WireVolume]) -> bytes:
    """A hash that is equal for two pods only if scheduling sees the same of them."""
    parts: list[Raw | bytes] = [
        (meta.namespace or "").encode(),
        meta.labels,
        spec.priority,
        spec.preemption_policy,
        spec.scheduler_name,
        spec.host_network,
        spec.resource_claims,
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
        parts += (container.name, container.resources, container.ports)
    for container in spec.init_containers or ():
        parts += (b"init", container.name, container.restart_policy, container.resources, container.ports)
    for had in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
        parts += (b"status", had.name, had.resources, had.allocated_resources)
    if volumes:
        parts.append(repr(list(volume_uses(volumes))).encode())
    if b"PodResizePending" in bytes(status.conditions):
        parts.append(status.conditions)
    return sha256(_BETWEEN.join(parts)).digest()


def _salvaged(raw: Raw | bytes, why: str) -> Pod:
    """A pod whose JSON is not a pod's: its names and its node, so that it blocks its node and nothing else."""
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


class Memo(Generic[Key, Value]):
    """A bounded mapping: what was not asked for during one whole generation is forgotten."""

    __slots__ = ("_older", "_recent", "limit")

    def __init__(self, limit: int = _SMALLEST_GENERATION) -> None:
        self.limit = limit  # of a generation
        self._recent: dict[Key, Value] = {}
        self._older: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def get(self, key: Key) -> Value | None:
        value = self._recent.get(key)
        if value is None:
            value = self._older.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Key, value: Value) -> Value:
        if len(self._recent) >= self.limit:
            self._older, self._recent = self._recent, {}
        self._recent[key] = value
        return value


class Interned(Generic[Key]):
    """Equal values become one object."""

    __slots__ = ("memo",)

    def __init__(self, limit: int = _SMALLEST_GENERATION) -> None:
        self.memo: Memo[Key, Key] = Memo(limit)

    def one(self, value: Key) -> Key:
        known = self.memo.get(value)
        return known if known is not None else self.memo.put(value, value)
