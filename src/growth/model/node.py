"""A node as Kubernetes knows it, its taints, and the names growth writes on it. Asked by every plan."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.model.labels import NO_LABELS, Labels
from growth.model.resources import NOTHING, Resources

POOL_LABEL: Final = "growth.dev/pool"
OFFERING_LABEL: Final = "growth.dev/offering"
REQUEST_LABEL: Final = "growth.dev/node-request"

SCALE_DOWN_AT: Final = "growth.dev/scale-down-at"
DO_NOT_DISRUPT: Final = "growth.dev/do-not-disrupt"
TEMPLATE: Final = "growth.dev/template"  # digest of what its pool put onto it


class Taint(Struct, frozen=True, gc=False):
    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


SCALE_DOWN_TAINT: Final = Taint("growth.dev/scale-down")
STARTUP_TAINT: Final = Taint("growth.dev/unregistered")
NOT_READY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")  # Kubernetes' own


class Node(Struct, frozen=True, gc=False):
    """One node, as its last version says."""

    name: str
    labels: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    uid: str = ""
    annotations: Labels = NO_LABELS  # only those growth reads
    is_unschedulable: bool = False
    is_ready: bool = True
    ready_changed_at: float = 0.0
    created_at: float = 0.0
    deleted_at: float | None = None
    provider_id: str = ""
    resource_version: str = ""
    malformed: str = ""  # what could not be read; such a node takes no pods and is never removed
    pool: str = ""  # the NodePool it belongs to, by its machine or our record; empty: not growth's, and never touched
    offering: str = ""  # what it was bought as, by the same

    @property
    def is_marked(self) -> bool:
        """Marked for scale-down, not yet in removal. On a stranger's node the same taint is a taint like any other."""
        return bool(self.pool) and (SCALE_DOWN_AT in self.annotations or self._has_taint(SCALE_DOWN_TAINT.key))

    @property
    def is_starting(self) -> bool:
        return self._has_taint(STARTUP_TAINT.key)

    def _has_taint(self, key: str) -> bool:
        return bool(self.taints) and any(taint.key == key for taint in self.taints)
