"""Which pods leave a node next, and when is a drain taken back? Asked by removal for every node that still has pods.

Pods leave through the Eviction API, a few of each node at a time, those of low priority first, and of these the large
ones, for which room is hardest to find; several nodes drain side by side. A budget that refuses now, or a pod that must
not be disrupted, is waited for, and written down.

| a node that goes only to save money | then |
| --- | --- |
| the pods that are left no longer all fit on other nodes (asked before each batch) | it stays: the mark comes off |
| a pod waits that would fit on it, even when it is empty | it stays: where replaced pods go cannot be steered |
| not empty after the drain's time | it stays |

Nodes that go for other reasons are waited for: their pods get new machines where they need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from growth.model.noderequest import NodeRemovalRequest
from growth.model.pod import Pod
from growth.model.resources import CPU, MEMORY
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.what_if import Emptying, Evictability
from growth.plan.world.machines import CONSOLIDATED
from growth.plan.world.marks import without_mark
from growth.plan.world.nodes import is_protected_pod, waiting_shapes, would_take
from growth.plan.world.turn import Turn

_NAMED_PODS: Final = 3
_LOOKED_AT_SECONDS: Final = 10.0  # by then the scheduler has looked at a new pod; one it passes over holds nothing up


class Drains:
    """One look at all drains."""

    def __init__(self, snapshot: Snapshot, settings: Settings, not_before: Mapping[str, float], turn: Turn) -> None:
        self._snapshot, self._settings, self._not_before, self._turn = snapshot, settings, not_before, turn

    @cached_property
    def _emptying(self) -> Emptying:
        """Made only when a batch is about to leave: it looks at the whole cluster."""
        return Emptying(self._snapshot, self._settings, self._settings.consolidation_headroom)

    @cached_property
    def _evictability(self) -> Evictability:
        return Evictability(self._snapshot, self._settings)

    def why_take_back(self, removal: NodeRemovalRequest, pods: tuple[Pod, ...]) -> str:
        """Empty: go on."""
        if removal.spec.reason != CONSOLIDATED:
            return ""
        if self._is_wanted(removal.spec.node_name):
            return "a pod waits that fits there"
        return self._why_not_in_time(removal, pods) if pods else ""

    def _why_not_in_time(self, removal: NodeRemovalRequest, pods: tuple[Pod, ...]) -> str:
        ends_at = min(removal.created_at, self._snapshot.now) + self._settings.drain_seconds
        if self._snapshot.now >= ends_at:
            return f"it was not empty after {self._settings.drain_seconds:.0f} s: {self.waits_for(pods)}"
        self._turn.wake(ends_at)
        if not self.next_batch(pods):
            return ""
        block = self._emptying.why_stuck(removal.spec.node_name, waits_for_budgets=True)
        return "" if block is None else block.message

    def is_unclear(self, removal: NodeRemovalRequest) -> bool:
        """The pods have left a moment ago, and the scheduler has not yet said whether those that replace them have a
        place.
        """
        if removal.spec.reason != CONSOLIDATED:
            return False
        now = self._snapshot.now
        fresh = [pod for pod in self._snapshot.waiting_pods if now - _LOOKED_AT_SECONDS < pod.created_at <= now]
        is_unclear = any(pod.unschedulable_at is None and pod.deleted_at is None and not pod.is_gated for pod in fresh)
        if is_unclear:
            self._turn.wake(now + 1.0)
        return is_unclear

    def _is_wanted(self, name: str) -> bool:
        node = self._snapshot.nodes.get(name)
        return node is not None and would_take(without_mark(node), self._snapshot, waiting_shapes(self._snapshot))

    def next_batch(self, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Low priority first, then large ones; no more than may be leaving at once."""
        now = self._snapshot.now
        leaving = sum(pod.deleted_at is not None or self._not_before.get(evicted(pod.uid), 0.0) > now for pod in pods)
        ready = [pod for pod in pods if pod.deleted_at is None and not is_protected_pod(pod) and self._is_time(pod)]
        ready.sort(key=lambda pod: (pod.shape.priority, -pod.shape.requests[CPU], -pod.shape.requests[MEMORY], pod.key))
        return tuple(ready[: max(0, self._settings.evictions_at_once - leaving)])

    def _is_time(self, pod: Pod) -> bool:
        at = max(self._not_before.get(pod.uid, 0.0), self._not_before.get(evicted(pod.uid), 0.0))
        if at > self._snapshot.now:
            self._turn.wake(at)
        return at <= self._snapshot.now

    def waits_for(self, pods: tuple[Pod, ...]) -> str:
        named = ", ".join(sorted(pod.key for pod in pods)[:_NAMED_PODS])
        text = f"{len(pods)} pods to leave: {named}{', …' if len(pods) > _NAMED_PODS else ''}"
        blocks = map(self._evictability.why_not_now, sorted(pods, key=lambda each: each.key))
        blocked = next((block for block in blocks if block is not None), None)
        return text if blocked is None else f"{text}; {blocked.message}"


def evicted(uid: str) -> str:
    """The ledger's word for a pod whose eviction was accepted a moment ago."""
    return f"evicted/{uid}"
