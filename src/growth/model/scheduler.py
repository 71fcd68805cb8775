"""Which pods does growth place itself, and how? The settings of its own scheduler, and what it knows of kube-scheduler.

Asked by `plan/flow`, `solver/flow` and whoever asks whose a pod is."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

DEFAULT_SCHEDULER: Final = "default-scheduler"  # what pods carry that name none: kube-scheduler's
LEASE_NAMESPACE: Final = "kube-system"
LEASE_NAME: Final = "kube-scheduler"

Cost = Annotated[int, Meta(ge=0, le=1_000_000)]


class SchedulerSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How growth places pods itself, by min-cost flow. Costs are whole numbers, compared with each other only."""

    enabled: Annotated[
        bool,
        Meta(
            description=(
                "Whether growth binds waiting pods whose `schedulerName` is `name`; `growth run --scheduler` turns it "
                "on."
            )
        ),
    ] = False
    name: Annotated[str, Meta(min_length=1, max_length=63, description="The scheduler name that pods must carry.")] = (
        "growth"
    )
    serves_default: Annotated[
        bool,
        Meta(
            description=(
                "Whether growth also binds pods whose `schedulerName` is `default-scheduler`, as the only scheduler of "
                "a cluster; none of them while kube-scheduler renews its Lease (`growth run --default-scheduler`)."
            )
        ),
    ] = False
    cost_model: Annotated[
        Literal["spread", "pack", "cheapest"],
        Meta(
            description=(
                "What makes a machine cheap: little on it (`spread`), much on it (`pack`), or that it is kept anyway "
                "or costs little (`cheapest`)."
            )
        ),
    ] = "spread"
    load_cost: Annotated[
        Cost, Meta(description="What one more pod of mean size costs on a machine of mean size (`spread`, `pack`).")
    ] = 100
    price_cost: Annotated[
        Cost,
        Meta(
            description=(
                "What one unit of price per hour costs (`cheapest`); shared by the pods that an empty machine holds."
            )
        ),
    ] = 100_000
    soft_taint_cost: Annotated[
        Cost, Meta(description="For each PreferNoSchedule taint of a machine that the pod does not tolerate.")
    ] = 1
    preference_cost: Annotated[
        Cost,
        Meta(
            description="For each unit of weight (1 to 100) of a preference of the pod that the machine does not meet."
        ),
    ] = 1
    waiting_cost: Annotated[
        Cost,
        Meta(
            description="For each minute, of at most an hour, that a pod has waited: who waited longest stays out last."
        ),
    ] = 10
    volume_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=31_536_000,
            description="A pod waits so long on its node for volumes that were asked for; then it is placed again.",
        ),
    ] = 600.0
    preemption: Annotated[
        Literal["Auto", "BuyFirst", "PreemptFirst", "Never"],
        Meta(
            description=(
                "Whether pods of lower priority make way for one that has no place: only where no machine was ordered "
                "for it within half a minute (`BuyFirst`), at once (`PreemptFirst`), or never; `Auto` buys first while "
                "half of the machines that came lately were Ready within two minutes."
            )
        ),
    ] = "Auto"
    improves: Annotated[
        bool,
        Meta(
            description=(
                "Whether running pods of this scheduler are moved, by eviction, where another place costs less by more "
                "than `improvementSaving`."
            )
        ),
    ] = False
    improvement_saving: Annotated[
        Cost,
        Meta(description="How much less another place must cost, by the costs above, before a pod is moved there."),
    ] = 200
    moves_per_minute: Annotated[
        int, Meta(ge=1, le=100, description="How many running pods are moved in a minute at most (`improves`).")
    ] = 1
    pods_per_round: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="How many pods are placed and bound in one round; the others have their turn next.",
        ),
    ] = 2_000
    parallel_binds: Annotated[
        int, Meta(ge=1, le=1_000, description="How many requests that bind pods are under way at a time.")
    ] = 64

    @property
    def stands_in(self) -> bool:
        """Does growth place the pods of kube-scheduler, too?"""
        return self.enabled and self.serves(DEFAULT_SCHEDULER)

    def serves(self, scheduler_name: str) -> bool:
        """Are pods that name this scheduler growth's, as far as the settings say?"""
        return scheduler_name == self.name or (self.serves_default and scheduler_name == DEFAULT_SCHEDULER)


class KubeScheduler(Struct, frozen=True):
    """What is known of kube-scheduler, from the Lease that it renews while it leads."""

    is_known: bool = False  # the Lease was looked for, and what is known of it is fresh
    holder: str = ""  # who renews it; empty: nobody
    until: float = 0.0  # so long it holds without another renewal

    def is_away(self, now: float) -> bool:
        """Is it sure that nobody places the pods of the default scheduler?"""
        return self.is_known and (not self.holder or now >= self.until)
