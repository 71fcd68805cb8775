"""Which pods of a pool are in use, and how few replicas may it have without losing one of them? Asked by
`plan/warm_pools/counts`, of pools whose pods say by a label that they are in use; `plan/warm_pools/obstacles` asks
whether the labels can be read.

| kind | scaling down takes | so there stay at least |
| --- | --- | --- |
| StatefulSet | the highest ordinals | as many as reach the highest one in use |
| Deployment, ReplicaSet | by the order below | all but those idle pods that surely go before every pod in use |
| any other | what its own controller chooses: idle ones, or it should not be scaled like this | nothing is kept |

The order of Kubernetes: pods without a node, then by phase, not ready, the smaller `pod-deletion-cost`, more pods of
the same owner on its node, ready for less time. How long counts in powers of two, and within one power the smaller UID
goes first: so a pod surely goes first only if it is younger, and in another power or with the smaller UID. While a
rollout is under way several ReplicaSets shrink at once, and nothing is sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from growth.model.labels import LabelSelector, Requirement
from growth.model.pod import Pod
from growth.model.poolautoscaler import PodSelector
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, STATEFUL_SET, WarmPool, WarmPoolKind
from growth.solver.rules.selectors import Selector, read_selector

_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_SOON_SECONDS: Final = 60.0  # the pods go within this after they were looked at
_NANOSECONDS: Final = 1e9


class Kept(Struct, frozen=True, gc=False):
    """At least so many replicas, and why."""

    replicas: int = 0
    why: str = ""


NOTHING_KEPT: Final = Kept()


class Members(Struct, frozen=True):
    """The live pods of one pool, and which of them are in use."""

    pods: Sequence[Pod]
    in_use: Sequence[Pod]

    @property
    def available(self) -> int:
        """Ready, and not in use."""
        return sum(pod.is_ready for pod in self.pods) - sum(pod.is_ready for pod in self.in_use)


def members_of(pods: Iterable[Pod], wanted: PodSelector) -> Members:
    selector = selector_of(wanted)
    live = [pod for pod in pods if not pod.is_finished and pod.deleted_at is None]
    return Members(live, [pod for pod in live if selector.matches(pod.shape.labels)])


def selector_of(wanted: PodSelector) -> Selector:
    """As rules read it: one that is malformed matches nothing, and says why."""
    labels = tuple(Requirement(key, "In", (value,)) for key, value in sorted(wanted.match_labels.items()))
    expressions = tuple(Requirement(each.key, each.operator, each.values) for each in wanted.match_expressions)
    return read_selector(LabelSelector(labels + expressions))


def kept_for(pool: WarmPool, kind: WarmPoolKind, members: Members, now: float) -> Kept:
    if not members.in_use:
        return NOTHING_KEPT
    if kind.name == STATEFUL_SET.name:
        return _by_ordinal(pool, members)
    if kind.name in (DEPLOYMENT.name, REPLICA_SET.name):
        return _by_order(members, now)
    return NOTHING_KEPT


def _by_ordinal(pool: WarmPool, members: Members) -> Kept:
    last = max(members.in_use, key=_ordinal)
    replicas = _ordinal(last) - pool.first_ordinal + 1
    return Kept(max(0, replicas), f"pod {last.name} is in use, and the highest ordinals go first")


def _ordinal(pod: Pod) -> int:
    digits = pod.name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else -1


def _by_order(members: Members, now: float) -> Kept:
    owners = {pod.owner.uid for pod in members.pods if pod.owner is not None}
    if len(owners) > 1:
        return Kept(len(members.pods), "pods are in use, and a rollout is under way: which pods would go is not sure")
    beside = Counter(pod.node_name for pod in members.pods if pod.node_name)
    order = _Order(beside, now)
    used = {pod.uid for pod in members.in_use}
    idle = [pod for pod in members.pods if pod.uid not in used]
    sure = sum(all(order.is_surely_first(pod, other) for other in members.in_use) for pod in idle)
    hint = f"give pods in use the annotation {_COST} with a number above 0"
    why = f"of {len(idle)} idle pods only {sure} would surely go before those in use: {hint}"
    return Kept(len(members.pods) - sure, why)


class _Order(Struct, frozen=True):
    """In which order a ReplicaSet takes its pods."""

    beside: Counter[str]  # pods of the same owner, by node
    now: float

    def is_surely_first(self, pod: Pod, other: Pod) -> bool:
        ours, theirs = self._rank(pod), self._rank(other)
        if ours != theirs:
            return ours < theirs
        if pod.is_ready and other.is_ready:
            return self._is_younger(pod, other, pod.ready_at, other.ready_at)
        return self._is_younger(pod, other, pod.created_at, other.created_at)

    def _rank(self, pod: Pod) -> tuple[bool, int, bool, int, int]:
        phase = _PHASES.get(pod.phase, 2)
        return bool(pod.node_name), phase, pod.is_ready, _cost(pod), -self.beside[pod.node_name]

    def _is_younger(self, pod: Pod, other: Pod, since: float | None, other_since: float | None) -> bool:
        if since is None or other_since is None or since <= other_since:
            return False
        later = (self.now, self.now + _SOON_SECONDS)
        return pod.uid < other.uid or all(_power(at - since) < _power(at - other_since) for at in later)


def _power(seconds: float) -> int:
    return int(max(0.0, seconds) * _NANOSECONDS).bit_length()


def _cost(pod: Pod) -> int:
    try:
        return int(pod.annotations.get(_COST) or 0)
    except ValueError:
        return 0
