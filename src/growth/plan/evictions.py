"""May this pod be evicted? Asked by whoever moves pods: rows that empty nodes, and growth's scheduler.

| pod | may it be evicted |
| --- | --- |
| `growth.dev/do-not-disrupt` or `karpenter.sh/do-not-disrupt` is true, or `safe-to-evict` is false | no |
| needs longer to end than a drain may take | no |
| its PodDisruptionBudget allows none now, or it has several (the API server refuses those) | no |
| `cluster-autoscaler.kubernetes.io/safe-to-evict` is true | yes: none of the rest counts |
| keeps data on the node (emptyDir, hostPath) | no, unless a setting says that such pods may move |
| has no controller that makes it again | no |
| in kube-system, without a PodDisruptionBudget | no |

The Eviction API has the last word on budgets; this is what can be foreseen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from growth.model.disruption import PodDisruptionBudget
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.nodes import is_protected_pod
from growth.solver.reasons import Block
from growth.solver.rules.selectors import guarding

_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_SYSTEM: Final = "kube-system"


class Evictability:
    """The budgets by namespace, and the wishes of pods."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self._settings = settings
        self._budgets: dict[str, list[PodDisruptionBudget]] = {}
        for _, budget in sorted(snapshot.disruption_budgets.items()):
            self._budgets.setdefault(budget.namespace, []).append(budget)

    def why_not_all(self, pods: Iterable[Pod], *, waits_for_budgets: bool = False) -> Block | None:
        """The first reason, in the order of the pods' names."""
        ask = self.why_never if waits_for_budgets else self.why_not
        return next(filter(None, (ask(pod) for pod in sorted(pods, key=lambda each: each.key))), None)

    def why_not(self, pod: Pod) -> Block | None:
        if pod.deleted_at is not None:
            return None
        return self._why_protected(pod) or self._why_over_budget(pod) or self._why_lost(pod)

    def why_not_now(self, pod: Pod) -> Block | None:
        """A wish, or a budget: both may change."""
        return None if pod.deleted_at is not None else self._why_protected(pod) or self._why_over_budget(pod)

    def why_kept(self, pod: Pod) -> Block | None:
        """The same of one whose node goes whatever it takes: that it ends slowly keeps nothing."""
        return None if pod.deleted_at is not None else _why_unwilling(pod) or self._why_over_budget(pod)

    def why_never(self, pod: Pod) -> Block | None:
        """What does not change while a budget recovers."""
        return None if pod.deleted_at is not None else self._why_protected(pod) or self._why_lost(pod)

    def _why_protected(self, pod: Pod) -> Block | None:
        if unwilling := _why_unwilling(pod):
            return unwilling
        if pod.grace_seconds > self._settings.drain_seconds:
            text = f"may take {pod.grace_seconds} s to end, and a drain {self._settings.drain_seconds:.0f} s"
            return block("do_not_disrupt", pod, text, "terminationGracePeriodSeconds")
        return None

    def _why_over_budget(self, pod: Pod) -> Block | None:
        budgets = self.budgets_of(pod)
        if len(budgets) > 1:
            text = f"has {len(budgets)} PodDisruptionBudgets, and the API server evicts no such pod"
            return block("pdb", pod, text, budgets[0].key)
        for budget in budgets:
            if budget.lets_unhealthy_go and pod.phase != "Running":
                continue
            if budget.disruptions_allowed <= 0 or not budget.is_current:
                text = f"is guarded by PodDisruptionBudget {budget.key}, which allows no disruption now"
                return block("pdb", pod, text, budget.key)
        return None

    def budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        return guarding(self._budgets.get(pod.namespace, ()), pod)

    def _why_lost(self, pod: Pod) -> Block | None:
        if pod.annotations.get(_SAFE_TO_EVICT) == "true":
            return None
        if pod.has_local_data and not self._settings.moves_local_data:
            text = "keeps data on the node (emptyDir or hostPath), which would be lost"
            return block("local_storage", pod, text, "local data")
        if pod.owner is None:
            return block("unmanaged_pod", pod, "has no controller: nobody would make it again", "no controller")
        if pod.namespace == _SYSTEM and not self.budgets_of(pod):
            text = "belongs to the system and has no PodDisruptionBudget that says it may move"
            return block("pdb", pod, text, _SYSTEM)
        return None


def _why_unwilling(pod: Pod) -> Block | None:
    if not is_protected_pod(pod):
        return None
    return block("do_not_disrupt", pod, "must not be disrupted (its annotation says so)", "annotation")


def block(check_type: str, pod: Pod, text: str, constraint: str) -> Block:
    return Block(check_type, f"pod {pod.key} {text}", pod.key, check_type, constraint)
