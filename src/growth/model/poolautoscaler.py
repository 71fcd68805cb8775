"""PoolAutoscaler: how many replicas a warm pool shall have, by schedule or by what is left available, within bounds.

The spec is the API itself: the CRD is generated from these classes. Asked by the warm-pool plan, the codec and `growth
explain`."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from growth.model.api import Condition, Instant, KindName, LabelKey, LabelValue, Name, Sentence, Word

MOST_POLICIES: Final = 20
MOST_RECOMMENDATIONS: Final = 10
LONGEST_WINDOW_SECONDS: Final = 3600

Replicas = Annotated[int, Meta(ge=0, le=1_000_000)]
Percentage = Annotated[str, Meta(max_length=4, pattern=r"^(100|[1-9]?[0-9])%\Z")]
CountOrShare = Replicas | Percentage
WindowSeconds = Annotated[int, Meta(ge=0, le=LONGEST_WINDOW_SECONDS)]
FiveFields = Annotated[str, Meta(min_length=9, max_length=100, pattern=r"^[0-9A-Za-z*/,#-]+( +[0-9A-Za-z*/,#-]+){4}\Z")]
ZoneName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*\Z")]


class ScaleTarget(Struct, frozen=True, rename="camel"):
    """The object whose replicas are set, in the autoscaler's own namespace."""

    kind: Annotated[KindName, Meta(description="Its kind, such as SandboxSet.")]
    name: Annotated[Name, Meta(description="Its name.")]
    api_version: Annotated[
        str,
        Meta(
            max_length=317,
            pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]*\Z",
            description="Its group and version, such as agents.kruise.io/v1alpha1.",
        ),
    ] = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class CronPolicy(Struct, frozen=True, rename="camel"):
    """At these times, this many."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=63,
            pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z",
            description="Tells the policies apart.",
        ),
    ]
    schedule: Annotated[
        FiveFields, Meta(description="Five cron fields: minute, hour, day of the month, month, weekday.")
    ]
    target_replicas: Annotated[Replicas, Meta(description="How many replicas from then on, within the bounds.")]
    time_zone: Annotated[
        ZoneName | None, Meta(description="IANA name of the schedule's time zone; absent: the setting of growth.")
    ] = None


class ScalingRules(Struct, frozen=True, rename="camel"):
    """How far from the target, and how steadily, before a recommendation is followed."""

    stabilization_window_seconds: Annotated[
        WindowSeconds | None,
        Meta(description="Look back this long: up takes the smallest recommendation, down the largest."),
    ] = None
    tolerance: Annotated[
        CountOrShare | None,
        Meta(description="A tolerance for this direction alone: a count or a share; absent: that of the policy."),
    ] = None


class PodExpression(Struct, frozen=True, rename="camel"):
    """One condition on one label."""

    key: Annotated[LabelKey, Meta(description="The label.")]
    operator: Annotated[
        Word, Meta(pattern=r"^(In|NotIn|Exists|DoesNotExist)\Z", description="In, NotIn, Exists or DoesNotExist.")
    ]
    values: Annotated[tuple[LabelValue, ...], Meta(max_length=50, description="For In and NotIn.")] = ()


class PodSelector(Struct, frozen=True, rename="camel"):
    """Labels that mark a pod."""

    match_labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=50, description="All of these labels.")] = {}
    match_expressions: Annotated[
        tuple[PodExpression, ...], Meta(max_length=50, description="And all of these conditions.")
    ] = ()


class CapacityPolicy(Struct, frozen=True, rename="camel"):
    """Keep this many available: a count, or a share of the replicas."""

    target_available: Annotated[
        CountOrShare, Meta(description="How many replicas shall be available: a count, or a share such as 70%.")
    ]
    tolerance: Annotated[
        CountOrShare | None,
        Meta(
            description=(
                "Nothing happens while this close to the target: a count or a share, smaller than it; absent: the "
                "setting of growth."
            )
        ),
    ] = None
    scale_up: Annotated[ScalingRules | None, Meta(description="Absent: 0 seconds.")] = None
    scale_down: Annotated[ScalingRules | None, Meta(description="Absent: 300 seconds.")] = None
    in_use: Annotated[
        PodSelector | None,
        Meta(
            description=(
                "Pods of a Deployment, ReplicaSet or StatefulSet with these labels are in use. Needed for those kinds, "
                "here or in the spec."
            )
        ),
    ] = None


class PoolAutoscalerSpec(Struct, frozen=True, rename="camel"):
    """How many replicas one target shall have: between two bounds, by schedule, or by what is available."""

    scale_target_ref: Annotated[ScaleTarget, Meta(description="What is scaled.")]
    max_replicas: Annotated[int, Meta(ge=1, le=1_000_000, description="Never more; enforced at once.")]
    min_replicas: Annotated[Replicas, Meta(description="Never fewer; enforced at once.")] = 0
    cron_policies: Annotated[
        tuple[CronPolicy, ...],
        Meta(max_length=MOST_POLICIES, description="Replicas by the clock. Not together with capacityPolicy."),
    ] = ()
    capacity_policy: Annotated[
        CapacityPolicy | None, Meta(description="Replicas by what is available. Not together with cronPolicies.")
    ] = None
    suspend: Annotated[bool, Meta(description="While true nothing is scaled, not even to the bounds.")] = False
    in_use: Annotated[
        PodSelector | None,
        Meta(
            description=(
                "Pods of a Deployment, ReplicaSet or StatefulSet with these labels are in use, and never removed, "
                "whatever the policy. Not together with capacityPolicy.inUse."
            )
        ),
    ] = None

    @property
    def pods_in_use(self) -> PodSelector | None:
        """The labels of pods in use, wherever they are said."""
        return self.in_use or (None if self.capacity_policy is None else self.capacity_policy.in_use)


class AppliedCronPolicy(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of one cron policy."""

    name: Annotated[Word, Meta(description="Its name.")]
    last_schedule_time: Annotated[Instant | None, Meta(description="The last of its times that was acted upon.")] = None
    since: Annotated[
        Instant | None,
        Meta(
            description=(
                "Times up to here are past: acted upon, or before the policy was there or while it was suspended."
            )
        ),
    ] = None
    schedule: Annotated[str, Meta(max_length=170, description="The schedule and zone that this is about.")] = ""
    target_replicas: Annotated[
        Replicas | None, Meta(description="What its last time asked for, while nobody else has scaled since.")
    ] = None
    set_replicas: Annotated[Replicas | None, Meta(description="What was set for it, within the bounds.")] = None


class CapacityStatus(Struct, frozen=True, rename="camel"):
    """How the target's replicas are spent."""

    available: Annotated[Replicas, Meta(description="Ready and not in use.")] = 0
    used: Annotated[Replicas, Meta(description="In use.")] = 0
    starting: Annotated[Replicas, Meta(description="Wanted, and not ready yet.")] = 0


class Recommendation(Struct, frozen=True, rename="camel"):
    """What the capacity policy asked for, from then on."""

    at: Annotated[Instant, Meta(description="Since when.")]
    replicas: Annotated[Replicas, Meta(description="How many replicas.")]


class PoolAutoscalerStatus(Struct, frozen=True, rename="camel"):
    """How the autoscaler stands. Written by growth."""

    observed_generation: Annotated[int, Meta(description="The generation of the spec that this status is about.")] = 0
    last_scale_time: Annotated[Instant | None, Meta(description="When growth last changed the number of replicas.")] = (
        None
    )
    current_replicas: Annotated[Replicas, Meta(description="Replicas of the target.")] = 0
    desired_replicas: Annotated[Replicas, Meta(description="Replicas it shall have.")] = 0
    suspended: Annotated[bool, Meta(description="Whether it is suspended.")] = False
    applied_cron_policies: Annotated[
        tuple[AppliedCronPolicy, ...], Meta(max_length=MOST_POLICIES, description="What became of each cron policy.")
    ] = ()
    current_capacity: Annotated[CapacityStatus, Meta(description="How the target's replicas are spent.")] = (
        CapacityStatus()
    )
    recommendations: Annotated[
        tuple[Recommendation, ...],
        Meta(
            max_length=MOST_RECOMMENDATIONS, description="What the capacity policy asked for lately, the newest last."
        ),
    ] = ()
    active_policy: Annotated[
        str, Meta(max_length=80, description="What decided last: bounds, capacity, or cron/ and the policy's name.")
    ] = ""
    last_decision: Annotated[Sentence, Meta(description="The last decision and why, with its numbers.")] = ""
    conditions: Annotated[
        tuple[Condition, ...], Meta(max_length=10, description="ScalingActive, AbleToScale and ScalingLimited.")
    ] = ()


class PoolAutoscaler(Struct, frozen=True):
    """One autoscaler, read from the API."""

    name: str
    namespace: str
    spec: PoolAutoscalerSpec
    status: PoolAutoscalerStatus = PoolAutoscalerStatus()
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    created_at: float = 0.0
    deleted_at: float | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"
