"""NodePool: which machines may be bought, for whom, and within which limits.

The spec is the API itself: CRDs are generated from these classes, so every string, list and map has a bound.
Asked by scale-up, scale-down and the solver.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from growth.model.api import Condition, LabelKey, LabelValue, Name, QuantityText

DEFAULT_POOL: Final = "default"
ORPHAN_NODES: Final = "growth.dev/orphan-nodes"
PAUSED: Final = "growth.dev/paused"

Count = Annotated[int, Meta(ge=0, le=100_000)]
Priority = Annotated[int, Meta(ge=-1000, le=1000)]
Seconds = Annotated[int, Meta(ge=0, le=315_360_000)]
PriceText = Annotated[str, Meta(max_length=20, pattern=r"^[0-9]+(\.[0-9]+)?$", description="Decimal, in the provider's currency.")]
CronText = Annotated[str, Meta(max_length=100, description="Five cron fields: when this begins to hold.")]
ZoneText = Annotated[str, Meta(max_length=64, description="IANA name of a time zone.")]
TypeName = Annotated[str, Meta(min_length=1, max_length=63)]


class ServerTypeChoice(Struct, frozen=True, rename="camel"):
    """A server type this pool may use, matched without regard to case."""

    name: Annotated[TypeName, Meta(description="Server type as the provider names it, e.g. CAX11; case does not matter.")]
    min: Annotated[Count, Meta(description="Nodes of this type kept even without load.")] = 0
    max: Annotated[Count | None, Meta(description="Most nodes of this type, in flight included; absent: no bound of its own.")] = None
    priority: Annotated[Priority, Meta(description="A higher priority is used up before a lower one, whatever the price.")] = 0


class PoolTaint(Struct, frozen=True, rename="camel"):
    key: LabelKey
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: LabelValue = ""


class PoolLimits(Struct, frozen=True, rename="camel"):
    """Never exceeded, by provider truth."""

    nodes: Count | None = None
    cpu: QuantityText | None = None
    memory: QuantityText | None = None
    price_per_hour: PriceText | None = None


class DisruptionBudget(Struct, frozen=True, rename="camel"):
    """How many nodes may be disrupted at once: a count or a share of the pool."""

    nodes: Annotated[str, Meta(max_length=5, pattern=r"^([0-9]{1,4}|(100|[0-9]{1,2})%)$")] = "10%"
    schedule: CronText | None = None
    duration_seconds: Seconds | None = None
    time_zone: ZoneText | None = None


class NodePoolSpec(Struct, frozen=True, rename="camel"):
    server_types: Annotated[tuple[ServerTypeChoice, ...], Meta(min_length=1, max_length=100)]
    priority: Priority = 0
    locations: Annotated[tuple[TypeName, ...], Meta(max_length=50)] = ()
    architectures: Annotated[tuple[Literal["amd64", "arm64"], ...], Meta(max_length=2)] = ()
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=50)] = {}
    annotations: Annotated[dict[LabelKey, Annotated[str, Meta(max_length=1024)]], Meta(max_length=50)] = {}
    taints: Annotated[tuple[PoolTaint, ...], Meta(max_length=50)] = ()
    startup_taints: Annotated[tuple[PoolTaint, ...], Meta(max_length=50)] = ()
    limits: PoolLimits = PoolLimits()
    allowed_namespaces: Annotated[tuple[Name, ...], Meta(max_length=100, description="Only pods of these namespaces; empty: all.")] = ()
    budgets: Annotated[tuple[DisruptionBudget, ...], Meta(max_length=20)] = (DisruptionBudget(),)
    consolidation: Literal["Off", "WhenEmpty", "Full"] = "WhenEmpty"
    bind_planned_pods: bool = True
    expire_after_seconds: Seconds | None = None
    readiness_wait_seconds: Seconds | None = None
    scale_down_delay_seconds: Seconds | None = None
    keep_until_hour_end: bool = False
    provider_settings: Annotated[Name | None, Meta(description="Name of the provider settings mounted into growth.")] = None


class OfferingStatus(Struct, frozen=True, rename="camel"):
    """How one offering of a pool stands."""

    name: Annotated[str, Meta(max_length=63)]
    location: Annotated[str, Meta(max_length=63)]
    state: Annotated[str, Meta(max_length=63)]  # Available | Unmet | Unavailable | LimitReached
    price_per_hour: PriceText
    nodes: Count = 0


class NodePoolStatus(Struct, frozen=True, rename="camel"):
    nodes: Count = 0
    in_flight: Count = 0
    price_per_hour: PriceText = "0"
    offerings: Annotated[tuple[OfferingStatus, ...], Meta(max_length=1000)] = ()
    conditions: Annotated[tuple[Condition, ...], Meta(max_length=20)] = ()
    observed_generation: int = 0


class NodePool(Struct, frozen=True):
    """One pool, read from the API."""

    name: str
    spec: NodePoolSpec
    status: NodePoolStatus = NodePoolStatus()
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    created_at: float = 0.0
    deleted_at: float | None = None

    @property
    def is_paused(self) -> bool:
        return self.annotations.get(PAUSED) == "true"
