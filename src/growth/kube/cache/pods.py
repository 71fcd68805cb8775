"""All pods (by node, by owner, and waiting), and the warm pools of one kind. Filled by reflectors, asked by
`controllers/observe/observer`.

Kept up to date with every change, so that a question costs what has changed since the last one: a node's tuple is made
again only if one of its pods was touched, and 100,000 pods are never walked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType

from msgspec import Raw
from msgspec.structs import replace

from growth.kube.api.resources import PODS, Resource
from growth.kube.cache import Cache
from growth.kube.codec import Codec, Decoded, decode_with
from growth.kube.codec.own import read_warm_pool
from growth.model.pod import Pod
from growth.model.warmpool import WarmPool, WarmPoolKind


class _Groups:
    """Pods by a name they share, as tuples in the order of their keys; only a group that changed is made again."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._touched: dict[str, None] = {}  # groups whose tuple is out of date, in the order they were touched
        self._tuples: dict[str, tuple[Pod, ...]] = {}
        self._view: Mapping[str, tuple[Pod, ...]] = MappingProxyType(self._tuples)

    def put(self, group: str, key: str, pod: Pod) -> None:
        self._pods.setdefault(group, {})[key] = pod
        self._touched[group] = None

    def remove(self, group: str, key: str) -> None:
        self._pods[group].pop(key, None)
        self._touched[group] = None

    def of(self, group: str) -> tuple[Pod, ...]:
        return tuple(self._pods.get(group, {}).values())

    def view(self) -> Mapping[str, tuple[Pod, ...]]:
        if self._touched:
            self._tuples = dict(self._tuples)
            for group in self._touched:
                pods = self._pods[group]
                if pods:
                    self._tuples[group] = tuple(pods[key] for key in sorted(pods))
                else:
                    del self._pods[group]
                    self._tuples.pop(group, None)
            self._touched = {}
            self._view = MappingProxyType(self._tuples)
        return self._view


class PodCache(Cache[Pod]):
    """Pods in their three orders. Finished pods stay on their node, but do not wait."""

    def __init__(self, codec: Codec, clock: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(PODS, codec, clock)
        self._on_node = _Groups()
        self._owned: _Groups | None = None  # by the UID of their controller; None until the first question
        self.group_kinds: set[str] = set()  # kinds of groups that any pod has named
        self._waiting: dict[str, Pod] = {}
        self._in_order: tuple[Pod, ...] | None = ()
        self._priorities = Counter[int]()  # how many bound pods have each
        # UIDs of pods whose binding no event has shown yet: their nodes, and when we asked for it
        self._bound_by_us: dict[str, tuple[str, float]] = {}
        self.heard_at = -inf  # a binding that we asked for then was shown to us, and so was everything before it

    # -------------------------------------------------------------------------------- what is asked

    def by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Bound pods, finished ones included, by their node and in the order of their keys."""
        return self._on_node.view()

    def waiting(self) -> tuple[Pod, ...]:
        """Neither bound nor finished, oldest first."""
        if self._in_order is None:
            self._in_order = tuple(sorted(self._waiting.values(), key=lambda pod: (pod.created_at, pod.key)))
        return self._in_order

    def by_owner(self) -> Mapping[str, tuple[Pod, ...]]:
        """Pods by the UID of their controller, in the order of their keys. Kept from the first time it is asked."""
        if self._owned is None:
            self._owned = _Groups()
            for key, pod in self.view().items():
                if pod.owner is not None:
                    self._owned.put(pod.owner.uid, key, pod)
        return self._owned.view()

    def lowest_priority(self) -> float:
        """Of all bound pods that are not finished; of none: endless."""
        return min(self._priorities, default=inf)

    def unschedulable(self) -> tuple[Pod, ...]:
        """Those waiting of which the scheduler has said that no node takes them."""
        return tuple(pod for pod in self.waiting() if pod.unschedulable_at is not None)

    def on_node(self, name: str) -> tuple[Pod, ...]:
        """Of one node, finished ones included, in no order."""
        return self._on_node.of(name)

    def bound(self, key: str, uid: str, node: str, asked_at: float = -inf) -> None:
        """We bound this pod: the answer carries no object, so what we know is used until an event shows it.

        A pod that was bound once stays so. Whatever comes without its node is older, except out of a restored etcd.
        """
        pod, before = self.get(key), self.version
        if pod is not None and pod.uid == uid and not pod.node_name:
            self._bound_by_us[uid] = (node, asked_at)
            self._take(Decoded(key, pod.resource_version, pod))
        elif pod is not None and pod.uid == uid:  # its event was here before the answer
            self._heard(asked_at)
        self._tell(before)

    def learned(self, body: bytes | Raw) -> None:
        heard_at = self.heard_at
        super().learned(body)
        self.heard_at = heard_at  # an answer to ourselves says nothing about what we have heard

    def relisted(self, version: str) -> None:
        if self._bound_by_us and self.is_restored(version):
            forgotten, self._bound_by_us = self._bound_by_us, {}
            for key, pod in self.view().items():
                if pod.uid in forgotten:
                    self._take(Decoded(key, pod.resource_version, replace(pod, node_name="")))
        super().relisted(version)

    # --------------------------------------------------------------------------------------- inside

    def _heard(self, asked_at: float) -> None:
        if self._seen is None:  # a part of a listing does not say what is in the others
            self.heard_at = max(self.heard_at, asked_at)

    def _take(self, decoded: Decoded) -> None:
        pod = decoded.noun
        if isinstance(pod, Pod) and pod.group:
            self.group_kinds.add(pod.group.partition("/")[0])
        if self._bound_by_us and isinstance(pod, Pod) and pod.uid in self._bound_by_us:
            node, asked_at = self._bound_by_us[pod.uid]
            if pod.node_name:
                del self._bound_by_us[pod.uid]
                self._heard(asked_at)
            else:
                decoded = decoded._replace(noun=replace(pod, node_name=node))
        super()._take(decoded)

    def _replaced(self, key: str, before: Pod | None, after: Pod | None) -> None:
        if before is not None:
            if before.node_name:
                self._on_node.remove(before.node_name, key)
                self._count(before, -1)
            elif not before.is_finished:
                del self._waiting[key]
                self._in_order = None
            if after is None or after.uid != before.uid:
                self._bound_by_us.pop(before.uid, None)
            if self._owned is not None and before.owner is not None:
                self._owned.remove(before.owner.uid, key)
        if after is not None:
            if after.node_name:
                self._on_node.put(after.node_name, key, after)
                self._count(after, 1)
            elif not after.is_finished:
                self._waiting[key] = after
                self._in_order = None
            if self._owned is not None and after.owner is not None:
                self._owned.put(after.owner.uid, key, after)

    def _count(self, pod: Pod, change: int) -> None:
        if not pod.is_finished:
            self._priorities[pod.shape.priority] += change
            if not self._priorities[pod.shape.priority]:
                del self._priorities[pod.shape.priority]


class _Reader:
    """Reads objects of one kind by its counts alone."""

    def __init__(self, kind: WarmPoolKind) -> None:
        self._kind = kind

    def decode(self, kind: str, raw: Raw | bytes) -> Decoded:
        return decode_with(kind, raw, lambda found: read_warm_pool(found, self._kind))


def resource_of(kind: WarmPoolKind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


class WarmPoolCache(Cache[WarmPool]):
    """Objects of one kind that can be scaled."""

    def __init__(self, kind: WarmPoolKind, clock: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(resource_of(kind), _Reader(kind), clock)
        self.kind = kind

    def scaled(self, key: str, uid: str, replicas: int) -> None:
        """We scaled it: the answer is no such object, so what we know is used until the watch brings it."""
        pool, before = self.get(key), self.version
        if pool is not None and pool.uid == uid:
            self._take(Decoded(key, pool.resource_version, replace(pool, replicas=replicas)))
        self._tell(before)
