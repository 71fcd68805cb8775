"""CapacityBuffer: spare capacity, declared. The standard kind of `autoscaling.x-k8s.io`, and all that sizing one looks
at.

Asked by `plan/buffers/status` and everything that counts virtual pods. The kind is not ours: its definition may come
from elsewhere and be older or looser than ours, so nothing here has bounds. What makes no sense is said on the buffer
by the plan, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from growth.model.api import Condition
from growth.model.pod import PodShape

ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"  # the only strategy growth knows; others are left alone

READY_FOR_PROVISIONING: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
LIMITED_BY_QUOTAS: Final = "LimitedByQuotas"

BUFFER_LABEL: Final = "autoscaling.x-k8s.io/buffer"
BUFFER_NAMESPACE_LABEL: Final = "autoscaling.x-k8s.io/buffer-namespace"
BUFFER_ANNOTATION: Final = "growth.dev/buffer"
BUFFER_NAMESPACE_ANNOTATION: Final = "growth.dev/buffer-namespace"
TEMPLATE_DIGEST: Final = "growth.dev/template-digest"  # on a PodTemplate of ours: what it was made from

VIRTUAL_PRIORITY: Final = -1000  # of virtual pods whose template names no priority


class TemplateReference(Struct, frozen=True, gc=False):
    """A PodTemplate of the same namespace."""

    name: str = ""


class ScalableReference(Struct, frozen=True, gc=False, rename="camel"):
    """A workload of the same namespace."""

    kind: str = ""
    name: str = ""
    api_group: str = ""


class CapacityBufferSpec(Struct, frozen=True, rename="camel"):
    """How much spare room, in chunks of which shape."""

    provisioning_strategy: str | None = None
    pod_template_ref: TemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: dict[str, str | int | float] | None = None


class CapacityBufferStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How it stands. Written by growth."""

    pod_template_ref: TemplateReference | None = None
    replicas: int | None = None
    pod_template_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    provisioning_strategy: str | None = None


class CapacityBuffer(Struct, frozen=True):
    """One buffer, read from the API."""

    namespace: str
    name: str
    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    created_at: float = 0.0
    deleted_at: float | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def strategy(self) -> str:
        return self.spec.provisioning_strategy or ACTIVE_CAPACITY

    @property
    def template_name(self) -> str:
        """Of the PodTemplate that growth writes for a buffer with a scalableRef."""
        return f"capacitybuffer-{self.name}-pod-template"


class BufferTemplate(Struct, frozen=True):
    """A pod template as the API server would admit its pods: defaults, LimitRanges and priority are in the shape."""

    shape: PodShape
    text: str = ""  # JSON of the template: what growth writes into a PodTemplate of its own
    digest: str = ""
    limits: Mapping[str, int] = {}  # effective limits, as quotas count them
    priority_class: str = ""
    has_deadline: bool = False  # quotas call such pods terminating
    refusal: str = ""  # why the API server would refuse such a pod


class Scalable(Struct, frozen=True):
    """What a scalableRef leads to: how many replicas, of which template. `why` is set where that is not known."""

    replicas: int = 0
    template: BufferTemplate | None = None
    is_missing: bool = False
    why: str = ""
    is_unread: bool = False  # an error is no answer: what was known before still holds
    is_awaited: bool = False  # unread because nobody has looked yet: nothing is said of it


class StoredTemplate(Struct, frozen=True):
    """A PodTemplate object."""

    namespace: str
    name: str
    template: BufferTemplate
    generation: int = 0
    uid: str = ""
    owner_uid: str = ""
    digest: str = ""  # of the template it was made from, where growth made it
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class QuotaScope(Struct, frozen=True, gc=False):
    """A ResourceQuota with scopes counts only pods that all of them match."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ResourceQuota(Struct, frozen=True):
    """How much a namespace may ask for in all, and asks for already; cpu in millicores, everything else in units."""

    namespace: str
    name: str
    hard: Mapping[str, int] = {}
    used: Mapping[str, int] = {}
    scopes: tuple[QuotaScope, ...] = ()


class BufferWorld(Struct, frozen=True):
    """All that buffers look at: buffers, templates and quotas by namespace/name, scalables by `reference_key`."""

    buffers: Mapping[str, CapacityBuffer] = {}
    scalables: Mapping[str, Scalable] = {}
    templates: Mapping[str, StoredTemplate] = {}
    quotas: Mapping[str, ResourceQuota] = {}
    is_known: bool = True  # False: there may be buffers, or sizes of them, that have not been read yet
    unread_templates: str = ""  # why PodTemplates could not be read
    unread_quotas: str = ""  # why ResourceQuotas could not be read


NO_BUFFERS: Final = BufferWorld()


def reference_key(namespace: str, reference: ScalableReference) -> str:
    return f"{reference.kind}.{reference.api_group}/{namespace}/{reference.name}"
