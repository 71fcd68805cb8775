"""Small worlds of warm pools: an autoscaler, its target, and a clock that a test turns. What is scaled is carried out
at once.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from growth.model.action import Action, ScaleWarmPool, WritePoolAutoscalerStatus
from growth.model.decision import Note, Settled
from growth.model.outcome import Accepted, Outcome
from growth.model.poolautoscaler import (
    CapacityPolicy,
    CronPolicy,
    PoolAutoscaler,
    PoolAutoscalerSpec,
    ScaleTarget,
    ScalingRules,
)
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.snapshot import Snapshot
from growth.model.warmpool import KNOWN_KINDS, WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools import warm_pools

NOW = 1_800_000_000.0
SECOND_BY_SECOND = WarmPoolSettings(
    observation_window_seconds=0.0, sampling_interval_seconds=0.0, scale_down_window_seconds=0
)
STAYING = WarmPoolKind("example.com", "v1", "desks", "Desk", "Stay", "status.free", "status.ready")
NO_WINDOW = ScalingRules(0)


def autoscaler(name: str = "scaler", kind: str = "Desk", target: str = "pool", **fields: Any) -> PoolAutoscaler:
    meta = {key: fields.pop(key) for key in ("created_at", "generation", "status", "deleted_at") if key in fields}
    groups = {each.kind: each.group for each in (*KNOWN_KINDS, STAYING)}
    reference = ScaleTarget(kind, target, f"{groups.get(kind, 'example.org')}/v1")
    spec = PoolAutoscalerSpec(reference, fields.pop("max_replicas", 1000), **fields)
    return PoolAutoscaler(
        name,
        "team",
        spec,
        uid=f"uid-{name}",
        resource_version="1",
        **{"created_at": NOW - 3600, "generation": 1, **meta},
    )


def capacity(target: int | str, tolerance: int | str | None = None, **rules: Any) -> CapacityPolicy:
    return CapacityPolicy(target, tolerance, **rules)


def cron(name: str, schedule: str, replicas: int, zone: str | None = "UTC") -> CronPolicy:
    return CronPolicy(name, schedule, replicas, zone)


class Warm:
    """One target in one world. `used` and `starting` are set by the test; the rest of the replicas is available."""

    def __init__(
        self,
        *autoscalers: PoolAutoscaler,
        replicas: int = 1,
        settings: WarmPoolSettings = SECOND_BY_SECOND,
        kind: WarmPoolKind = STAYING,
    ) -> None:
        self.autoscalers = {each.key: each for each in autoscalers}
        self.settings = replace(settings, kinds=(STAYING,))
        self.kind = kind
        self.replicas, self.used, self.starting = replicas, 0, 0
        self.now = NOW
        self.ledger = warm_pools.Ledger()
        self.notes: list[Note] = []
        self.actions: list[Action] = []
        self.outcome: Outcome = Accepted()
        self.status_outcome: Outcome | None = None  # of writes of the status, if it is another
        self.view: WarmPoolView | None = None  # in place of the target, if a test wants another

    @property
    def snapshot(self) -> Snapshot:
        up = self.replicas - self.starting
        pool = WarmPool(
            "pool", "team", self.replicas, max(0, up - self.used), up, "uid-pool", resource_version=f"{self.replicas}"
        )
        view = self.view or WarmPoolView({"team/pool": pool})
        return Snapshot(self.now, autoscalers=dict(self.autoscalers), warm_pools={self.kind.name: view})

    def sync(self, seconds: float = 10.0) -> int:
        """Let time pass, decide, carry out; the replicas afterwards."""
        self.now += seconds
        snapshot, settings = self.snapshot, Settings(warm_pools=self.settings)
        decision = warm_pools.plan(snapshot, self.ledger, settings)
        todo = list(decision.actions)
        self.ledger, self.actions = decision.ledger, []
        self.notes += decision.notes
        while todo:
            action = todo.pop(0)
            self.actions.append(action)
            is_status = isinstance(action, WritePoolAutoscalerStatus)
            outcome = self.status_outcome or self.outcome if is_status else self.outcome
            if isinstance(outcome, Accepted):
                self._perform(action)
            settled = warm_pools.settle(Settled(action, outcome), snapshot, self.ledger, settings)
            self.ledger = settled.ledger
            self.notes += settled.notes
            todo += settled.actions
        return self.replicas

    def _perform(self, action: Action) -> None:
        if isinstance(action, ScaleWarmPool):
            self.replicas = action.replicas
        if isinstance(action, WritePoolAutoscalerStatus):
            key = f"{action.autoscaler.namespace}/{action.autoscaler.name}"
            self.autoscalers[key] = replace(self.autoscalers[key], status=action.status)

    def edit(self, name: str = "scaler", **changes: Any) -> None:
        """As a user would."""
        key = f"team/{name}"
        held = self.autoscalers[key]
        self.autoscalers[key] = replace(held, spec=replace(held.spec, **changes), generation=held.generation + 1)

    def restart(self) -> None:
        self.ledger = warm_pools.Ledger()

    def status(self, name: str = "scaler") -> Any:
        return self.autoscalers[f"team/{name}"].status

    def condition(self, kind: str, name: str = "scaler") -> tuple[str, str]:
        found = next(each for each in self.status(name).conditions if each.type == kind)
        return found.status, found.reason

    @property
    def told(self) -> list[str]:
        return [note.reason for note in self.notes]
