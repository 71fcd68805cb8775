"""CapacityBuffers and what they refer to, from bytes to nouns: workloads, PodTemplates, LimitRanges, quotas.

Used by the codec and `growth explain`. Workloads and PodTemplates stay text here (`Workload`, `TemplateText`): what
their pods become depends on LimitRanges and classes of priority and runtime, which change on their own. `WorldBuilder`
puts all of it together. Reading raises UnreadableError; a buffer is read as loosely as any definition in a cluster may
allow, and judged by the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from growth.kube.api.resources import DEPLOYMENTS, JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, Resource
from growth.kube.codec.pod import PodDecoder
from growth.kube.codec.template import (
    Admission,
    ContainerRange,
    RuntimeClass,
    clean_template,
    container_range,
    read_template,
)
from growth.kube.codec.text import (
    Json,
    UnreadableError,
    all_annotations,
    created_at,
    deleted_at,
    read,
    read_owners,
    shown,
)
from growth.kube.codec.wire import NO_RAW, WireMeta
from growth.model.api import GroupText, KindName, Name
from growth.model.capacitybuffer import (
    TEMPLATE_DIGEST,
    BufferTemplate,
    BufferWorld,
    CapacityBuffer,
    CapacityBufferSpec,
    CapacityBufferStatus,
    QuotaScope,
    ResourceQuota,
    Scalable,
    ScalableReference,
    StoredTemplate,
    reference_key,
)
from growth.model.disruption import PriorityClass
from growth.model.quantity import QuantityError, milli_value, whole_value

WORKLOADS: Final[tuple[Resource, ...]] = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS, REPLICATION_CONTROLLERS)


class Workload(Struct, frozen=True):
    """A workload whose template growth reads: how many pods it asks for, and of which template."""

    namespace: str
    name: str
    kind: str
    group: str
    replicas: int
    template: str
    resource_version: str = ""


class TemplateText(Struct, frozen=True):
    """A PodTemplate object."""

    namespace: str
    name: str
    template: str
    generation: int = 0
    uid: str = ""
    owner_uid: str = ""
    digest: str = ""
    resource_version: str = ""


class _WireBuffer(Struct):
    metadata: WireMeta
    spec: CapacityBufferSpec | None = None
    status: Raw = NO_RAW


class _WireWorkloadSpec(Struct):
    template: Json | None = None
    replicas: int | None = None
    parallelism: int | None = None


class _WireWorkload(Struct):
    metadata: WireMeta
    spec: _WireWorkloadSpec | None = None


class _WireTemplate(Struct):
    metadata: WireMeta
    template: Json | None = None


class _WireRangeSpec(Struct):
    limits: tuple[Json, ...] | None = None


class _WireRange(Struct):
    metadata: WireMeta
    spec: _WireRangeSpec | None = None


class _WireOverhead(Struct, rename="camel"):
    pod_fixed: dict[str, str | int | float] | None = None


class _WireRunning(Struct, rename="camel"):
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Json, ...] | None = None


class _WireRuntimeClass(Struct):
    metadata: WireMeta
    overhead: _WireOverhead | None = None
    scheduling: _WireRunning | None = None


class _WireExpression(Struct, rename="camel"):
    scope_name: str
    operator: str
    values: tuple[str, ...] | None = None


class _WireScopeSelector(Struct, rename="camel"):
    match_expressions: tuple[_WireExpression, ...] | None = None


class _WireQuotaSpec(Struct, rename="camel"):
    hard: dict[str, str | int | float] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _WireScopeSelector | None = None


class _WireQuotaStatus(Struct):
    hard: dict[str, str | int | float] | None = None
    used: dict[str, str | int | float] | None = None


class _WireQuota(Struct):
    metadata: WireMeta
    spec: _WireQuotaSpec | None = None
    status: _WireQuotaStatus | None = None


_buffer = msgspec.json.Decoder(_WireBuffer)
_buffer_status = msgspec.json.Decoder(CapacityBufferStatus | None)
_workload = msgspec.json.Decoder(_WireWorkload)
_template = msgspec.json.Decoder(_WireTemplate)
_range = msgspec.json.Decoder(_WireRange)
_runtime_class = msgspec.json.Decoder(_WireRuntimeClass)
_quota = msgspec.json.Decoder(_WireQuota)


def read_capacity_buffer(raw: Raw | bytes) -> CapacityBuffer:
    wire = read(_buffer, raw, "CapacityBuffer")
    meta = wire.metadata
    return CapacityBuffer(
        namespace=meta.namespace or "",
        name=meta.name or "",
        spec=wire.spec or CapacityBufferSpec(),
        status=_status(wire.status),
        uid=meta.uid or "",
        generation=meta.generation or 0,
        resource_version=meta.resource_version or "",
        created_at=created_at(meta),
        deleted_at=deleted_at(meta),
    )


def _status(raw: Raw) -> CapacityBufferStatus:
    """A status that growth cannot read counts as none: growth writes a new one."""
    try:
        return read(_buffer_status, raw, "status") or CapacityBufferStatus()
    except UnreadableError:
        return CapacityBufferStatus()


def read_workload(raw: Raw | bytes, resource: Resource) -> Workload:
    """Nil replicas, or nil parallelism of a Job, mean one."""
    wire = read(_workload, raw, resource.kind)
    spec, meta = wire.spec or _WireWorkloadSpec(), wire.metadata
    asked = spec.parallelism if resource is JOBS else spec.replicas
    text = _cleaned(spec.template, "spec.template")
    return Workload(
        meta.namespace or "",
        meta.name or "",
        resource.kind,
        resource.group,
        1 if asked is None else max(0, asked),
        text,
        meta.resource_version or "",
    )


def read_pod_template(raw: Raw | bytes) -> TemplateText:
    wire = read(_template, raw, "PodTemplate")
    meta = wire.metadata
    owners = (each.uid for each in read_owners(meta.owner_references) if each.kind == "CapacityBuffer")
    return TemplateText(
        namespace=meta.namespace or "",
        name=meta.name or "",
        template=_cleaned(wire.template, "template"),
        generation=meta.generation or 0,
        uid=meta.uid or "",
        owner_uid=next(owners, ""),
        digest=all_annotations(meta).get(TEMPLATE_DIGEST, ""),
        resource_version=meta.resource_version or "",
    )


def _cleaned(template: Json | None, where: str) -> str:
    try:
        return clean_template(template or {})
    except (TypeError, AttributeError, ValueError) as error:
        raise UnreadableError(f"{where}: {error}") from None


def read_limit_range(raw: Raw | bytes) -> ContainerRange:
    wire = read(_range, raw, "LimitRange")
    limits = (wire.spec or _WireRangeSpec()).limits or ()
    try:
        return container_range(wire.metadata.namespace or "", wire.metadata.name or "", limits)
    except (TypeError, AttributeError, ValueError) as error:
        raise UnreadableError(f"spec.limits: {error}") from None


def read_runtime_class(raw: Raw | bytes) -> RuntimeClass:
    wire = read(_runtime_class, raw, "RuntimeClass")
    running = wire.scheduling or _WireRunning()
    overhead = (wire.overhead or _WireOverhead()).pod_fixed or {}
    return RuntimeClass(wire.metadata.name or "", overhead, running.node_selector or {}, running.tolerations or ())


def read_resource_quota(raw: Raw | bytes) -> ResourceQuota:
    wire = read(_quota, raw, "ResourceQuota")
    spec, status = wire.spec or _WireQuotaSpec(), wire.status or _WireQuotaStatus()
    chosen = (spec.scope_selector or _WireScopeSelector()).match_expressions or ()
    return ResourceQuota(
        namespace=wire.metadata.namespace or "",
        name=wire.metadata.name or "",
        hard=_amounts(status.hard or spec.hard or {}),
        used=_amounts(status.used or {}),
        scopes=tuple(QuotaScope(name) for name in spec.scopes or ())
        + tuple(QuotaScope(one.scope_name, one.operator, one.values or ()) for one in chosen),
    )


def _amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Amounts by name; cpu, under any name, in millicores."""
    try:
        return {
            name: milli_value(text) if name.rpartition(".")[2] == "cpu" else whole_value(text)
            for name, text in sorted(quantities.items())
        }
    except QuantityError as error:
        raise UnreadableError(f"hard or used: {error}") from None


# ------------------------------------------------------------------------------------- put together


class ScaledObject(Struct, frozen=True):
    """An object of another kind: its size by the scale subresource, its newest live pod as template ("": none)."""

    replicas: int = 0
    template: str = ""
    is_missing: bool = False
    why: str = ""
    is_unread: bool = False
    is_awaited: bool = False


class Referenced(Struct):
    """All that was read: the buffers and the objects they refer to."""

    buffers: Mapping[str, CapacityBuffer] = {}
    workloads: Iterable[Workload] = ()
    scaled: Mapping[str, ScaledObject] = {}  # by reference_key
    templates: Iterable[TemplateText] = ()
    quotas: Mapping[str, ResourceQuota] = {}
    ranges: Iterable[ContainerRange] = ()
    priority_classes: Iterable[PriorityClass] = ()
    runtime_classes: Iterable[RuntimeClass] = ()
    is_known: bool = True
    unread_templates: str = ""
    unread_quotas: str = ""


class WorldBuilder:
    """Makes the world of the buffers; a template is read again only when something it depends on has changed."""

    def __init__(self, pods: PodDecoder) -> None:
        self._pods = pods
        self._admission = Admission()
        self._known: dict[tuple[str, str], BufferTemplate] = {}

    def build(self, found: Referenced) -> BufferWorld:
        classes = {each.name: each for each in found.priority_classes}
        admission = Admission(tuple(found.ranges), classes, {each.name: each for each in found.runtime_classes})
        if admission != self._admission:
            self._admission, self._known = admission, {}
        before, self._known = self._known, {}
        scalables = {}
        for each in found.workloads:
            key = reference_key(each.namespace, ScalableReference(each.kind, each.name, each.group))
            scalables[key] = Scalable(each.replicas, self._template(each.template, each.namespace, before))
        for key, scaled in found.scaled.items():
            template = self._template(scaled.template, key.split("/")[1], before) if scaled.template else None
            told = (scaled.is_missing, scaled.why, scaled.is_unread, scaled.is_awaited)
            scalables[key] = Scalable(scaled.replicas, template, *told)
        templates = {f"{each.namespace}/{each.name}": self._stored(each, before) for each in found.templates}
        buffers = {key: _with_group(buffer) for key, buffer in found.buffers.items()}
        for buffer in found.buffers.values():
            reference = buffer.spec.scalable_ref
            why = why_not_asked_for(reference) if reference is not None else ""
            if reference is not None and why:
                scalables[reference_key(buffer.namespace, with_group(reference))] = Scalable(why=why)
        unread = (found.unread_templates, found.unread_quotas)
        return BufferWorld(buffers, scalables, templates, found.quotas, found.is_known, *unread)

    def _template(self, text: str, namespace: str, before: Mapping[tuple[str, str], BufferTemplate]) -> BufferTemplate:
        key = (namespace, text)
        made = before.get(key) or self._known.get(key) or read_template(text, namespace, self._admission, self._pods)
        self._known[key] = made
        return made

    def _stored(self, each: TemplateText, before: Mapping[tuple[str, str], BufferTemplate]) -> StoredTemplate:
        template = self._template(each.template, each.namespace, before)
        known = (each.generation, each.uid, each.owner_uid, each.digest, each.resource_version)
        return StoredTemplate(each.namespace, each.name, template, *known)


def known_workload(reference: ScalableReference) -> Resource | None:
    """The kind whose template growth reads; a reference may leave out the group of such a kind."""
    for resource in WORKLOADS:
        if reference.kind == resource.kind and reference.api_group in (resource.group, ""):
            return resource
    return None


def why_not_asked_for(reference: ScalableReference) -> str:
    """Nothing that could not be a name is ever sent: the kind's definition may be looser than ours."""
    for field, text, form in (
        ("kind", reference.kind, KindName),
        ("name", reference.name, Name),
        ("apiGroup", reference.api_group, GroupText),
    ):
        try:
            msgspec.convert(text, form)
        except msgspec.ValidationError:
            return f"scalableRef.{field}: {shown(text)} cannot be one"
    return ""


def with_group(reference: ScalableReference) -> ScalableReference:
    known = known_workload(reference)
    return reference if known is None else ScalableReference(reference.kind, reference.name, known.group)


def _with_group(buffer: CapacityBuffer) -> CapacityBuffer:
    reference = buffer.spec.scalable_ref
    if reference is None or with_group(reference) == reference:
        return buffer
    return replace(buffer, spec=replace(buffer.spec, scalable_ref=with_group(reference)))
