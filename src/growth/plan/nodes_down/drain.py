"""Which pods leave a node next, and when is a drain taken back? Asked by removal for every node that still has pods.

Pods leave through the Eviction API, a few of each node at a time, those of low priority first, and of these the large
ones, for which room is hardest to find; several nodes drain side by side. A budget that refuses now, or a pod that must
not be disrupted, is waited for, and written down.

| a node that goes only to save money | then |
| --- | --- |
| the pods that are left no longer all fit on other nodes (asked before each batch) | it stays: the mark comes off |
| a pod of its pool waits that fits there by every rule, even when it is empty | it stays: pods cannot be steered |
| not empty after the drain's time | it stays |

Nodes that go for other reasons are waited for: their pods get new machines where they need them.

No pod is evicted from a Ready node without the mark's taint, as when a person wrote the removal or took the taint off:
it would come back, and be evicted over and over. The drain is written down, the mark is set, then pods leave.

| a pod that tolerates the mark (an operator, an agent) comes back after an eviction, so it | |
| --- | --- |
| is work like any other | while a node is judged |
| is written down in the removal's status, and evicted when all others have left | if it was there as the drain began |
| is written down and evicted in the same way | if it came later, and none of its owner was there |
| has returned: it is evicted once, directly before the delete, and does not hold it up | if its owner's was evicted |
| holds it up all the same | if it has returned, and must not be disrupted or its budget allows none |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from growth.model.action import MarkScaleDown
from growth.model.instant import format_instant
from growth.model.labels import TEMPLATE_HASH
from growth.model.node import SCALE_DOWN_TAINT
from growth.model.noderequest import READY, NodeRemovalRequest, NodeRemovalRequestStatus, ToleratingPods
from growth.model.pod import Pod
from growth.model.resources import CPU, MEMORY
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.evictions import Evictability
from growth.plan.nodes_down.attempts import RETURNED, is_irrevocable
from growth.plan.nodes_down.awaited import is_unseen
from growth.plan.nodes_down.budgets import Recent, disruptions_left
from growth.plan.nodes_down.what_if import Emptying
from growth.plan.world.machines import (
    CONSOLIDATED,
    DELETED,
    DRAINING,
    DRIFTED,
    EXPIRED,
    NOT_READY,
    UNHEALTHY,
    pool_of_removal,
)
from growth.plan.world.marks import CONSOLIDATION, CONSOLIDATION_TAINT, SCALE_DOWN, mark_node, mark_of, without_mark
from growth.plan.world.nodes import is_protected_pod, waiting_shapes, would_take
from growth.plan.world.turn import Turn, instant_of
from growth.solver.rules.taints import stays_under

_NAMED_PODS: Final = 3
_MOST_WRITTEN: Final = 1000


class Drains:
    """One look at all drains."""

    def __init__(
        self, snapshot: Snapshot, settings: Settings, not_before: Mapping[str, float], recent: Recent, turn: Turn
    ) -> None:
        self._snapshot, self._settings, self._not_before, self._turn = snapshot, settings, not_before, turn
        self._recent = recent

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

    def why_wait(self, removal: NodeRemovalRequest) -> str:
        """May the pods leave now? growth marks a node before it hands it over, and asks the budgets then. Of what a
        person asks for they are asked here.
        """
        snapshot, node = self._snapshot, self._snapshot.nodes.get(removal.spec.node_name)
        is_begun = removal.status.drain_began_at is not None or not is_asked_for_by_a_person(removal, snapshot)
        if node is None or is_begun or node.pool not in snapshot.pools:
            return ""
        pool, without = snapshot.pools[node.pool], replace(snapshot, removals=self._ahead_of(removal))
        if snapshot.now < self._recent.known_at(pool, self._settings):
            return f"it is not known yet which nodes of NodePool {node.pool} were disrupted lately"
        is_repair = not node.is_ready
        is_allowed = disruptions_left(pool, without, self._settings, self._recent, is_repair=is_repair) > 0
        return "" if is_allowed else f"the disruption budget of NodePool {node.pool} is used up"

    def _ahead_of(self, removal: NodeRemovalRequest) -> dict[str, NodeRemovalRequest]:
        """All others, but for those that wait as this one does and came later: else each would wait for the other."""
        found, turn = {}, (removal.created_at, removal.name)
        for name, each in self._snapshot.removals.items():
            is_begun = each.status.drain_began_at is not None or not is_asked_for_by_a_person(each, self._snapshot)
            if name != removal.name and (is_begun or (each.created_at, each.name) < turn):
                found[name] = each
        return found

    def missing_mark(self, removal: NodeRemovalRequest) -> MarkScaleDown | None:
        """To be set before pods leave: without it they would come back. A stranger's node is not marked."""
        node = self._snapshot.nodes.get(removal.spec.node_name)
        mark = None if node is None else mark_of(node)
        if node is None or not node.pool or not node.is_ready or (mark is not None and mark.has_taint):
            return None
        return mark_node(node, CONSOLIDATION if removal.spec.reason == CONSOLIDATED else SCALE_DOWN, self._snapshot.now)

    def missing_mark_of_asked(self, removal: NodeRemovalRequest) -> MarkScaleDown | None:
        """What growth hands over is marked long before."""
        return self.missing_mark(removal) if is_asked_for_by_a_person(removal, self._snapshot) else None

    def is_unclear(self, removal: NodeRemovalRequest) -> bool:
        """The pods have left a moment ago, and the scheduler has not yet said whether those that replace them have a
        place. Pods that come one after the other keep it no longer than a drain may take.
        """
        snapshot, node = self._snapshot, self._snapshot.nodes.get(removal.spec.node_name)
        is_over = snapshot.now >= removal.created_at + self._settings.drain_seconds
        if removal.spec.reason != CONSOLIDATED or node is None or is_over:
            return False
        is_unclear = any(is_unseen(pod, node.pool, snapshot, self._settings) for pod in snapshot.waiting_pods)
        if is_unclear:
            self._turn.wake(snapshot.now + 1.0)
        return is_unclear

    def _is_wanted(self, name: str) -> bool:
        node = self._snapshot.nodes.get(name)
        shapes = waiting_shapes(self._snapshot, self._settings)
        return node is not None and would_take(without_mark(node), self._snapshot, shapes)

    def why_protected(self, returned: tuple[Pod, ...]) -> str:
        """Why the delete waits for a pod that has come back; empty: it does not."""
        block = next(filter(None, map(self._evictability.why_kept, returned)), None)
        return "" if block is None else f"{block.message}; it came back to the node"

    def last_to_evict(self, removal: NodeRemovalRequest, returned: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Of those that have come back, before the delete is first asked for. Not again when that is put off, by this
        leader or the next: the record says that it was done.
        """
        was_done = any(event.name == RETURNED for event in removal.status.events)
        if was_done or removal.status.removal_attempt or removal.name in self._not_before:
            return ()
        return tuple(pod for pod in returned if pod.deleted_at is None)

    def next_batch(self, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Low priority first, then large ones; no more than may be leaving at once."""
        now = self._snapshot.now
        leaving = sum(pod.deleted_at is not None or self._not_before.get(evicted(pod.uid), 0.0) > now for pod in pods)
        last = [pod for pod in pods if tolerates_marks(pod)]
        turn = [pod for pod in pods if not tolerates_marks(pod)] if len(last) < len(pods) else last
        ready = [pod for pod in turn if pod.deleted_at is None and not is_protected_pod(pod) and self._is_time(pod)]
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


def is_asked_for_by_a_person(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    """The node serves, or did, and carries no mark; growth hands over only marked nodes, and those that never served:
    they are not Ready, and their removals say one of two reasons.
    """
    node, request = snapshot.nodes.get(removal.spec.node_name), snapshot.requests.get(removal.name)
    if node is None or node.is_marked or node.is_starting:
        return False
    has_served = node.is_ready or removal.spec.reason not in (NOT_READY, DELETED)
    return has_served and (request is None or request.phase == READY)


def may_be_taken_back(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    """Nothing is lost by keeping the node, and the provider was never asked without a positive no. What a person asked
    for, and nothing was done about, a person may take back whatever the reason.
    """
    reason, kept = removal.spec.reason, (CONSOLIDATED, UNHEALTHY, EXPIRED, DRIFTED)
    is_second_thought = removal.deleted_at is not None and is_asked_for_by_a_person(removal, snapshot)
    is_optional = reason not in DRAINING or reason in kept or is_second_thought or is_let_go(removal, snapshot)
    return not is_irrevocable(removal) and is_optional


def is_let_go(removal: NodeRemovalRequest, snapshot: Snapshot) -> bool:
    """What serves is left alone with its pool; what never did still goes."""
    pool = snapshot.pools.get(pool_of_removal(removal, snapshot))
    return pool is not None and pool.leaves_its_nodes and removal.spec.reason not in (NOT_READY, DELETED)


def evicted(uid: str) -> str:
    """The ledger's word for a pod whose eviction was accepted a moment ago."""
    return f"evicted/{uid}"


# ---------------------------------------------------------------------- pods that tolerate the mark


def tolerates_marks(pod: Pod) -> bool:
    """Would the scheduler put it back onto a node that is being emptied?"""
    return stays_under((SCALE_DOWN_TAINT, CONSOLIDATION_TAINT), pod.shape.tolerations)


def owner_key(pod: Pod) -> str:
    """What makes the pod anew, in words: of a ReplicaSet its Deployment, which changes them; of a bare pod itself."""
    owner, template = pod.owner, pod.shape.labels.get(TEMPLATE_HASH, "")
    if owner is None:
        return f"Pod {pod.key}"
    if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
        return f"Deployment {pod.namespace}/{owner.name.removesuffix(f'-{template}')}"
    return f"{owner.kind} {pod.namespace}/{owner.name}"


def has_returned(pod: Pod, status: NodeRemovalRequestStatus) -> bool:
    """Did it come back to a node that its owner's pods were evicted from?"""
    began_at = instant_of(status.drain_began_at)
    if began_at is None or pod.created_at < began_at or not tolerates_marks(pod):
        return False
    known = {each.owner: each.pods for each in status.tolerating}
    return pod.uid not in known.get(owner_key(pod), (pod.uid,))


def with_tolerating(status: NodeRemovalRequestStatus, pods: Iterable[Pod], now: float) -> NodeRemovalRequestStatus:
    """With those pods written down that tolerate the mark: all when the drain begins; later, when nothing else is left,
    those that came since and have not returned.
    """
    pods, is_begun = tuple(pods), status.drain_began_at is not None
    tolerant = [pod for pod in pods if tolerates_marks(pod)]
    if is_begun and len(tolerant) < len(pods):
        return status
    known = {each.owner: each.pods for each in status.tolerating}
    for pod in tolerant:
        here = known.get(owner_key(pod), ())
        known[owner_key(pod)] = here if pod.uid in here else (*here, pod.uid)
    tolerating = tuple(ToleratingPods(owner, uids[:_MOST_WRITTEN]) for owner, uids in known.items())[:_MOST_WRITTEN]
    began_at = status.drain_began_at or format_instant(now)
    return replace(status, drain_began_at=began_at, tolerating=tolerating)
