"""NodePool: which machines may be bought, for whom, and within which limits.

The spec is the API itself: CRDs are generated from these classes, so every string, list and map has a bound.
Asked by scale-up, scale-down and the solver.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from growth.model.api import Condition, Instant, LabelKey, LabelValue, Name, QuantityText, Sentence

DEFAULT_POOL: Final = "default"
ORPHAN_NODES: Final = "growth.dev/orphan-nodes"
PAUSED: Final = "growth.dev/paused"
RELEASE_BRAKE: Final = "growth.dev/release-brake"  # until when nodes are given up although many fail
RETRY: Final = "growth.dev/retry"  # any value that was not there before: buy again, although machines came in vain

Count = Annotated[int, Meta(ge=0, le=100_000)]
Priority = Annotated[int, Meta(ge=-1000, le=1000)]
Seconds = Annotated[int, Meta(ge=0, le=315_360_000)]
PriceText = Annotated[
    str, Meta(max_length=20, pattern=r"^[0-9]+(\.[0-9]+)?\Z", description="Decimal, in the provider's currency.")
]
CronText = Annotated[str, Meta(max_length=100, description="Five cron fields: when this begins to hold.")]
ZoneText = Annotated[str, Meta(max_length=64, description="IANA name of a time zone.")]
BudgetText = Annotated[str, Meta(max_length=5, pattern=r"^([0-9]{1,4}|(100|[0-9]{1,2})%)\Z")]
Consolidation = Literal["Off", "WhenEmpty", "Full"]
NodeLabels = Annotated[dict[LabelKey, LabelValue], Meta(max_length=50)]
NodeAnnotations = Annotated[dict[LabelKey, Annotated[str, Meta(max_length=1024)]], Meta(max_length=50)]
TypeName = Annotated[str, Meta(min_length=1, max_length=63)]


class ServerTypeChoice(Struct, frozen=True, rename="camel"):
    """A server type this pool may use, matched without regard to case."""

    name: Annotated[
        TypeName, Meta(description="Server type as the provider names it, e.g. CAX11; case does not matter.")
    ]
    min: Annotated[Count, Meta(description="Nodes of this type kept even without load.")] = 0
    max: Annotated[
        Count | None, Meta(description="Most nodes of this type, in flight included; absent: no bound of its own.")
    ] = None
    priority: Annotated[
        Priority, Meta(description="A higher priority is used up before a lower one, whatever the price.")
    ] = 0


class PoolTaint(Struct, frozen=True, rename="camel"):
    """A taint, as nodes carry them."""

    key: Annotated[LabelKey, Meta(description="What pods must tolerate.")]
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"], Meta(description="What happens to pods that do not.")
    ]
    value: Annotated[LabelValue, Meta(description="A toleration may ask for this value.")] = ""


Taints = Annotated[tuple[PoolTaint, ...], Meta(max_length=50)]


class PoolLimits(Struct, frozen=True, rename="camel"):
    """Never exceeded, by provider truth."""

    nodes: Annotated[Count | None, Meta(description="Most nodes, in flight included.")] = None
    cpu: Annotated[QuantityText | None, Meta(description="Most cores of all nodes together.")] = None
    memory: Annotated[QuantityText | None, Meta(description="Most memory of all nodes together.")] = None
    price_per_hour: Annotated[
        PriceText | None, Meta(description="Most that all nodes together may cost an hour, in the provider's currency.")
    ] = None


class DisruptionBudget(Struct, frozen=True, rename="camel"):
    """How many nodes may be disrupted at once: a count or a share of the pool."""

    nodes: Annotated[BudgetText, Meta(description="A count, or a share of the pool's nodes such as 10%.")] = "10%"
    schedule: CronText | None = None
    duration_seconds: Annotated[
        Seconds | None, Meta(description="How long it holds after the schedule began; absent without one: always.")
    ] = None
    time_zone: ZoneText | None = None
    window_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Within this long no more nodes with pods go than this lets go at once; absent: the setting of growth."
            )
        ),
    ] = None


class NodePoolSpec(Struct, frozen=True, rename="camel"):
    """What may be bought, for whom, and within which limits."""

    server_types: Annotated[
        tuple[ServerTypeChoice, ...],
        Meta(min_length=1, max_length=100, description="The server types this pool may use."),
    ]
    priority: Annotated[
        Priority, Meta(description="Orders the pools of a pod that may use several: the higher first.")
    ] = 0
    locations: Annotated[
        tuple[TypeName, ...], Meta(max_length=50, description="Only these locations of the provider; empty: all.")
    ] = ()
    architectures: Annotated[
        tuple[Literal["amd64", "arm64"], ...],
        Meta(max_length=2, description="For pods that name none; empty: the pool's only one, or amd64."),
    ] = ()
    labels: Annotated[NodeLabels, Meta(description="Written onto every node of the pool.")] = {}
    annotations: Annotated[NodeAnnotations, Meta(description="Written onto every node of the pool.")] = {}
    taints: Annotated[Taints, Meta(description="Put onto every node of the pool.")] = ()
    startup_taints: Annotated[
        Taints,
        Meta(
            description=(
                "On a node from the start, for others to take off; pods need not tolerate them to be planned onto it."
            )
        ),
    ] = ()
    limits: Annotated[PoolLimits, Meta(description="Never exceeded, by the provider's own count.")] = PoolLimits()
    allowed_namespaces: Annotated[
        tuple[Name, ...], Meta(max_length=100, description="Only pods of these namespaces; empty: all.")
    ] = ()
    budgets: Annotated[
        tuple[DisruptionBudget, ...],
        Meta(max_length=20, description="How many nodes may be disrupted at once; the strictest one counts."),
    ] = (DisruptionBudget(),)
    consolidation: Annotated[
        Consolidation,
        Meta(
            description=(
                "What may be given back: nothing, empty nodes, or also nodes whose pods fit elsewhere more cheaply."
            )
        ),
    ] = "WhenEmpty"
    bind_planned_pods: Annotated[
        bool, Meta(description="Bind pods to the node that was bought for them, before the scheduler sees it.")
    ] = True
    expire_after_seconds: Annotated[Seconds | None, Meta(description="Replace nodes that are older than this.")] = None
    readiness_wait_seconds: Annotated[
        Seconds | None,
        Meta(description="Give up a machine whose node is not Ready after this; absent: the setting of growth."),
    ] = None
    scale_down_delay_seconds: Annotated[
        Seconds | None, Meta(description="How long a node is marked before it goes; absent: the setting of growth.")
    ] = None
    keep_until_hour_end: Annotated[
        bool, Meta(description="Where started hours are billed, give a node back only near the end of one.")
    ] = False
    provider_settings: Annotated[
        Name | None, Meta(description="Name of the provider settings mounted into growth.")
    ] = None


class OfferingStatus(Struct, frozen=True, rename="camel"):
    """How one offering of a pool stands."""

    name: Annotated[str, Meta(max_length=63, description="The provider and the server type.")]
    location: Annotated[str, Meta(max_length=63, description="Where.")]
    state: Annotated[str, Meta(max_length=63, description="Available, Unmet, Unavailable or LimitReached.")]
    price_per_hour: PriceText
    nodes: Annotated[Count, Meta(description="Nodes of this offering.")] = 0


MOST_TRIALS: Final = 40
MOST_MENDINGS: Final = 5  # in a day that are tried at once
MOST_DISRUPTED: Final = 1000  # nodes in a pool's status


class Trial(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A machine that was bought in vain, or that said nothing about whether the pool works."""

    request: Annotated[str, Meta(max_length=253, description="The NodeRequest it was bought by.")]
    at: Annotated[Instant, Meta(description="When that was known.")]
    offering: Annotated[str, Meta(max_length=63, description="What was bought.")] = ""
    location: Annotated[str, Meta(max_length=63, description="Where.")] = ""
    cause: Annotated[Sentence, Meta(description="Why it was in vain; empty: it says nothing either way.")] = ""
    classes: Annotated[
        tuple[Annotated[str, Meta(max_length=63)], ...],
        Meta(max_length=5, description="Which kinds of pods it took none of, as checksums; none of them ran since."),
    ] = ()
    has_worked_since: Annotated[bool, Meta(description="Whether its offering has worked since.")] = False
    ordered_at: Annotated[Instant | None, Meta(description="When it was ordered.")] = None


class PoolTrials(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What buying for this pool has come to, in the last day."""

    generation: Annotated[int, Meta(description="The generation of the spec that this is about.")] = 0
    retry: Annotated[str, Meta(max_length=253, description="The value of `growth.dev/retry` when last looked at.")] = ""
    credentials: Annotated[
        str, Meta(max_length=63, description="A checksum of what machines are bought and join with.")
    ] = ""
    mended_at: Annotated[
        Instant | None,
        Meta(
            description="When the spec, the credentials or `growth.dev/retry` last changed, and a try followed at once."
        ),
    ] = None
    mendings: Annotated[
        tuple[Instant, ...],
        Meta(max_length=MOST_MENDINGS, description="Those changes of the last day that came after a failure."),
    ] = ()
    worked_at: Annotated[Instant | None, Meta(description="When a machine last became of use.")] = None
    worked_ordered_at: Annotated[
        Instant | None, Meta(description="When the newest machine that became of use was ordered.")
    ] = None
    template: Annotated[str, Meta(max_length=63, description="The template of that machine, as a checksum.")] = ""
    in_vain: Annotated[
        tuple[Trial, ...],
        Meta(max_length=MOST_TRIALS, description="Machines of the last day that were of no use, the newest last."),
    ] = ()


class DisruptedNode(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node that was marked or drained while it had pods."""

    name: Annotated[str, Meta(max_length=253, description="The node.")]
    gone_at: Annotated[
        Instant | None,
        Meta(description="When it was first seen to be gone, or to stay after all; absent: its pods leave, or will."),
    ] = None
    emptied: Annotated[bool, Meta(description="Pods were evicted from it: that counts although it stays.")] = False


class Exempt(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the pool had when a limit by default first held for it: so much it may have, and replace, for ever."""

    nodes: Annotated[Count | None, Meta(description="Nodes; absent: the pool has limits of its own.")] = None
    price_per_hour: Annotated[
        PriceText | None, Meta(description="What they cost an hour; absent: the settings say how much, or it is free.")
    ] = None


class NodePoolStatus(Struct, frozen=True, rename="camel"):
    """How the pool stands. Written by growth."""

    nodes: Annotated[Count, Meta(description="Nodes that have joined.")] = 0
    in_flight: Annotated[Count, Meta(description="Nodes that are on their way.")] = 0
    price_per_hour: PriceText = "0"
    offerings: Annotated[
        tuple[OfferingStatus, ...], Meta(max_length=1000, description="What the pool may buy, and how that stands.")
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...], Meta(max_length=20, description="Ready tells whether the pool can buy.")
    ] = ()
    observed_generation: Annotated[int, Meta(description="The generation of the spec that this status is about.")] = 0
    trials: Annotated[PoolTrials, Meta(description="Whether the machines that were bought were of use.")] = PoolTrials()
    exempt: Annotated[Exempt, Meta(description="What limits by default do not count.")] = Exempt()
    recorded_since: Annotated[
        Instant | None, Meta(description="Every node with pods that was disrupted since then is in `disrupted`.")
    ] = None
    disrupted: Annotated[
        tuple[DisruptedNode, ...],
        Meta(max_length=MOST_DISRUPTED, description="Nodes that use up disruption budgets, in their windows."),
    ] = ()


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

    @property
    def leaves_its_nodes(self) -> bool:
        """It is being deleted, and its nodes shall go on without it."""
        return self.deleted_at is not None and self.annotations.get(ORPHAN_NODES) == "true"
