"""Every number a plan depends on, in one place, with its default. One settings file, flags and environment lay over it.

Asked by all plans; filled by the command line. Seconds everywhere.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from growth.model.nodepool import PoolLimits
from growth.model.poolautoscaler import ScaleTarget, WindowSeconds, ZoneName
from growth.model.scheduler import SchedulerSettings
from growth.model.warmpool import KNOWN_KINDS, WarmPoolKind

Span = Annotated[float, Meta(ge=0, le=31_536_000)]
Attempts = Annotated[int, Meta(ge=1, le=100)]
Headroom = Annotated[float, Meta(ge=0, le=10)]


class WarmPoolSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How PoolAutoscalers are served."""

    observation_window_seconds: Annotated[
        float,
        Meta(ge=30, le=300, description="Available replicas are averaged over this long; none goes before it is full."),
    ] = 60.0
    sampling_interval_seconds: Annotated[
        float, Meta(ge=5, le=30, description="Each target is looked at once in this long.")
    ] = 15.0
    tolerance_percent: Annotated[
        int, Meta(ge=0, le=100, description="The tolerance of capacity policies that name none.")
    ] = 10
    scale_up_window_seconds: Annotated[
        WindowSeconds, Meta(description="Stabilization window for scaling up, where the policy names none.")
    ] = 0
    scale_down_window_seconds: Annotated[
        WindowSeconds, Meta(description="Stabilization window for scaling down, where the policy names none.")
    ] = 300
    start_limit_seconds: Annotated[
        Span, Meta(description="While replicas have been starting for longer than this, no more are added.")
    ] = 300.0
    time_zone: Annotated[
        ZoneName,
        Meta(
            description=(
                "The time zone of schedules that name none. Not in the file: that of the process, by the variable "
                "`TZ` or `/etc/localtime`."
            )
        ),
    ] = "UTC"
    targets: Annotated[
        tuple[Annotated[str, Meta(max_length=317)], ...],
        Meta(max_length=50, description="Kinds that may be scaled, as Kind.group; nothing else ever is."),
    ] = tuple(kind.name for kind in KNOWN_KINDS)
    kinds: Annotated[
        tuple[WarmPoolKind, ...],
        Meta(
            max_length=50,
            description="Kinds of your own, each allowed by being here; one with a known kind and group replaces it.",
        ),
    ] = ()

    def kind_of(self, target: ScaleTarget) -> WarmPoolKind | None:
        """How objects of this kind are counted; None if they may not be scaled. Without an apiVersion the kind's name
        alone counts.
        """
        named = (each for each in self.allowed_kinds() if each.kind == target.kind)
        return next((each for each in named if not target.api_version or each.group == target.group), None)

    def allowed_kinds(self) -> tuple[WarmPoolKind, ...]:
        """Every kind that may be scaled."""
        own = {each.name for each in self.kinds}
        return (*(each for each in KNOWN_KINDS if each.name in self.targets and each.name not in own), *self.kinds)


class Settings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the core needs to know of its operator's wishes."""

    batch_quiet_seconds: Annotated[
        Span,
        Meta(description="Pods are planned once none has arrived for this long, so that a burst is planned together."),
    ] = 1.0
    batch_longest_seconds: Annotated[
        Span,
        Meta(
            description=(
                "A burst that does not end is planned after this long all the same; one of 200 pods or more with "
                "rules between pods after twice as long, since planned together they need fewer machines."
            )
        ),
    ] = 10.0
    demand: Annotated[
        Literal["BeforeVerdict", "AfterVerdict"],
        Meta(
            description=(
                "BeforeVerdict: a machine may be ordered for a pod that its scheduler has not judged yet, where "
                "growth's rules find no room for it. AfterVerdict: not before PodScheduled=False."
            )
        ),
    ] = "BeforeVerdict"
    schedulers: Annotated[
        tuple[str, ...],
        Meta(description="Of which schedulers growth knows the rules; pods of others wait for their verdict."),
    ] = ("default-scheduler", "growth")
    misses_before_backoff: Annotated[
        Attempts,
        Meta(description="How often in a row a pod may be left without a place before it is tried less often."),
    ] = 3
    backoff_first_seconds: Annotated[
        Span, Meta(description="The first pause of such a pod; each further one is twice as long.")
    ] = 30.0
    backoff_longest_seconds: Annotated[
        Span,
        Meta(
            description="The longest pause. From then on the pod is in BackOff: it is tried again at this pace, and "
            "at once when something changes that could help it."
        ),
    ] = 600.0
    readiness_wait_seconds: Annotated[
        Span,
        Meta(description="A machine whose node is not Ready after this long is given back. A pool may say otherwise."),
    ] = 300.0
    gang_seconds: Annotated[
        Span,
        Meta(
            description=(
                "How long a machine that came for members of a gang waits for the others; after that it opens for all "
                "pods, and the members are told."
            )
        ),
    ] = 600.0
    unmet_seconds: Annotated[
        Span, Meta(description="How long an offering that was sold out is left alone; doubled while it repeats.")
    ] = 120.0
    unmet_longest_seconds: Annotated[Span, Meta(description="The longest time that an offering is left alone.")] = 600.0
    ready_record_seconds: Annotated[
        Span,
        Meta(
            description=(
                "How long the record of a node that became Ready is kept; longer while a pod it was bought for waits "
                "and none like it runs there."
            )
        ),
    ] = 600.0
    scale_down_delay_seconds: Annotated[
        Span, Meta(description="How long an idle node stays marked before it is removed. A pool may say otherwise.")
    ] = 60.0
    scale_down_headroom: Annotated[
        Headroom,
        Meta(
            description=(
                "A node with pods goes only if the nodes that stay have room for this share more than its pods ask for."
            )
        ),
    ] = 0.2
    consolidation_headroom: Annotated[
        Headroom,
        Meta(
            description=(
                "The same once its pods are on the move; with less, the node is kept after all. Also for replacements."
            )
        ),
    ] = 0.05
    consolidation_interval_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="Nodes with pods are looked at once in this long, in pools with `consolidation: Full`.",
        ),
    ] = 30.0
    minimum_saving_per_hour: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Nodes are replaced only if that saves at least this much per hour; once machines are bought, half of "
                "it suffices."
            ),
        ),
    ] = 0.001
    minimum_saving_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description=(
                "And at least this share of what the replaced nodes cost; once machines are bought, half of it "
                "suffices."
            ),
        ),
    ] = 0.05
    settling_seconds: Annotated[
        Span,
        Meta(
            description=(
                "A node is not emptied before it is this old. After an attempt that was taken back its pool rests for "
                "this long, and four times as long after each further one in a row."
            )
        ),
    ] = 600.0
    disruption_window_seconds: Annotated[
        Span,
        Meta(
            description=(
                "Within this time no more nodes with pods are emptied than the budgets allow at once; unknown history "
                "counts as full."
            )
        ),
    ] = 600.0
    repair_after_seconds: Annotated[
        Span,
        Meta(
            description=(
                "A node that has not been Ready for this long is given up and replaced, within the budgets; not while "
                "many are NotReady."
            )
        ),
    ] = 900.0
    drain_seconds: Annotated[
        Span, Meta(description="A node that is not empty after this long is kept, if it was to go only to save money.")
    ] = 900.0
    evictions_at_once: Annotated[
        int, Meta(ge=1, le=1000, description="How many pods of one node may be leaving at a time.")
    ] = 10
    moves_local_data: Annotated[
        bool,
        Meta(description="Whether pods that keep data on their node (emptyDir, hostPath) may be moved, and lose it."),
    ] = False
    removal_retry_seconds: Annotated[
        Span, Meta(description="When the provider refuses to delete a machine, it is asked again after this long.")
    ] = 60.0
    removal_attempts: Annotated[
        Attempts,
        Meta(description="How often the provider is asked before a removal has failed and a person must look."),
    ] = 5
    machine_collection_grace_seconds: Annotated[
        Span,
        Meta(
            description="A machine of ours that belongs to nothing and never had a node is collected after this long."
        ),
    ] = 600.0
    bind_settle_seconds: Annotated[
        Span,
        Meta(description="Time between the last planned pod bound to a new node and the moment other pods may come."),
    ] = 1.0
    priority_cutoff: Annotated[
        int, Meta(description="No machine is bought, and no node kept, for waiting pods of a lower priority than this.")
    ] = -10
    compares_tolerations: Annotated[
        bool,
        Meta(
            description=(
                "Whether the cluster compares taints with tolerations by `Gt` and `Lt` (alpha in Kubernetes); if not, "
                "these tolerate nothing."
            )
        ),
    ] = False
    is_paused: Annotated[
        bool, Meta(description="While true, nothing is bought and nothing is deleted, in any pool.")
    ] = False
    solve_budget_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=60,
            description=(
                "How long one question to the solver may take, on a usual core; then the best plan so far counts, at "
                "worst one by best fit. It counts work, not time, so that answers repeat; most take a fraction."
            ),
        ),
    ] = 5.0
    solve_memory_mib: Annotated[
        int, Meta(ge=100, le=1_000_000, description="MiB that the solving process may keep; if more, it begins anew.")
    ] = 400
    preferences: Annotated[
        Literal["Respect", "Ignore"],
        Meta(
            description=(
                "Whether wishes of pods (preferred affinity, ScheduleAnyway) choose among nodes of nearly the same "
                "price. No node is bought for them."
            )
        ),
    ] = "Respect"
    checks_plans: Annotated[
        bool,
        Meta(
            description=(
                "Whether an independent checker looks at every plan before anything is bought; a wrong one is "
                "replaced by a plain one, and told."
            )
        ),
    ] = False
    buffer_sizing: Annotated[
        Literal["capped", "upstream"],
        Meta(
            description=(
                "How CapacityBuffers are sized: `capped` rounds a percentage down and lets replicas cap it; "
                "`upstream` rounds up and takes the larger."
            )
        ),
    ] = "capped"
    node_price_per_hour: Annotated[
        float, Meta(ge=0, description="What a node costs beside its machine: licences, addresses.")
    ] = 0.0
    limits: Annotated[
        PoolLimits,
        Meta(
            description=(
                "Never exceeded by all pools together: `nodes`, `cpu`, `memory`, `pricePerHour`. Without `nodes` a "
                "pool that has neither a `max` nor limits of its own may have 100."
            )
        ),
    ] = PoolLimits()
    machines_cost_money: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether all pools together may cost 5 an hour where `limits` says no `pricePerHour`. Not in the "
                "file: true at Hetzner, false where machines are only played."
            )
        ),
    ] = None
    warm_pools: Annotated[WarmPoolSettings, Meta(description="How PoolAutoscalers are served: the table below.")] = (
        WarmPoolSettings()
    )
    scheduler: Annotated[
        SchedulerSettings, Meta(description="Whether and how growth places pods itself: the table below.")
    ] = SchedulerSettings()
