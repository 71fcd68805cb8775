"""A PodDisruptionBudget: how many pods of a workload may go now, by the cluster's own count. Asked by scale-down and
removal.
"""

from __future__ import annotations

from msgspec import Struct

from growth.model.labels import LabelSelector


class PodDisruptionBudget(Struct, frozen=True, gc=False):
    """The eviction API has the last word; this is what can be foreseen."""

    namespace: str
    name: str
    selector: LabelSelector | None = None  # None matches no pod, an empty one every pod of the namespace
    disruptions_allowed: int = 0
    is_current: bool = True  # the count is of the budget as it is now, not of an older generation
    lets_unhealthy_go: bool = False  # unhealthyPodEvictionPolicy: AlwaysAllow
    uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PriorityClass(Struct, frozen=True, gc=False):
    """What a template's priorityClassName will become as a number."""

    name: str
    value: int = 0
    is_default: bool = False
