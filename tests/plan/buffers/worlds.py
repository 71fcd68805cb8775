"""Buffers for tests of plans: a template, what refers to it, and the world they stand in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from growth.model.capacitybuffer import (
    BufferTemplate,
    BufferWorld,
    CapacityBuffer,
    CapacityBufferSpec,
    ResourceQuota,
    Scalable,
    ScalableReference,
    StoredTemplate,
    TemplateReference,
    reference_key,
)
from growth.model.pod import PodShape
from tests.plan.builders import NOW, shape

WEB = ScalableReference("Deployment", "web", "apps")


def template(cpu: float = 1, mib: int = 1024, of: PodShape | None = None, **fields: Any) -> BufferTemplate:
    return BufferTemplate(of or shape(cpu, mib, priority=-1000), text="{}", digest="first", **fields)


def buffer(
    name: str = "spare", namespace: str = "default", created_at: float = NOW - 600, **spec: Any
) -> CapacityBuffer:
    """For the Deployment web, unless told otherwise."""
    meta = {key: spec.pop(key) for key in ("status", "deleted_at", "generation") if key in spec}
    if "pod_template_ref" not in spec:
        spec.setdefault("scalable_ref", WEB)
    return CapacityBuffer(
        namespace,
        name,
        CapacityBufferSpec(**spec),
        uid=f"uid-{name}",
        resource_version="1",
        created_at=created_at,
        **meta,
    )


def from_template(name: str = "spare", of: str = "chunk", **spec: Any) -> CapacityBuffer:
    return buffer(name, pod_template_ref=TemplateReference(of), **spec)


def stored(
    name: str = "chunk", of: BufferTemplate | None = None, namespace: str = "default", **fields: Any
) -> StoredTemplate:
    return StoredTemplate(namespace, name, of or template(), fields.pop("generation", 1), uid=f"uid-{name}", **fields)


def buffer_world(
    buffers: Iterable[CapacityBuffer],
    of: BufferTemplate | None = None,
    replicas: int = 0,
    templates: Iterable[StoredTemplate] = (),
    quotas: Iterable[ResourceQuota] = (),
    **fields: Any,
) -> BufferWorld:
    """The Deployment web is in every namespace that has a buffer."""
    listed = tuple(buffers)
    scalables = {reference_key(each.namespace, WEB): Scalable(replicas, of or template()) for each in listed}
    fields.setdefault("scalables", scalables)
    return BufferWorld(
        {each.key: each for each in listed},
        templates={each.key: each for each in templates},
        quotas={f"{each.namespace}/{each.name}": each for each in quotas},
        **fields,
    )
