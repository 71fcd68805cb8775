"""All pods: by node, by owner, and waiting. Filled by a reflector, asked by `controllers/observe/observer`.

Kept up to date with every change, so that a question costs what has changed since the last one: a node's tuple is made
again only if one of its pods was touched, and 100,000 pods are never walked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from growth.kube.api.resources import PODS
from growth.kube.cache import Cache
from growth.kube.codec import Codec, Decoded
from growth.model.pod import Pod


class PodCache(Cache[Pod]):
    """Pods in their three orders. Finished pods stay on their node, but do not wait."""

    def __init__(self, codec: Codec, clock: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(PODS, codec, clock)
        self._on_node: dict[str, dict[str, Pod]] = {}
        self._touched: dict[str, None] = {}  # nodes whose tuple is out of date, in the order they were touched
        self._tuples: dict[str, tuple[Pod, ...]] = {}
        self._by_node: Mapping[str, tuple[Pod, ...]] = MappingProxyType({})
        self._waiting: dict[str, Pod] = {}
        self._in_order: tuple[Pod, ...] | None = ()
        self._owned: dict[str, dict[str, Pod]] | None = None  # by the UID of their controller; None until somebody asks
        self._owners_touched: dict[str, None] = {}
        self._by_owner: dict[str, tuple[Pod, ...]] = {}
        self._bound_by_us: dict[str, str] = {}  # UIDs of pods whose binding no event has shown yet, and their nodes

    # --------------------------------------------------------------------------------- what is asked

    def by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Bound pods, finished ones included, by their node and in the order of their keys."""
        if self._touched:
            for node in self._touched:
                self._rebuild(node)
            self._touched = {}
            self._by_node = MappingProxyType(dict(self._tuples))
        return self._by_node

    def waiting(self) -> tuple[Pod, ...]:
        """Neither bound nor finished, oldest first."""
        if self._in_order is None:
            self._in_order = tuple(sorted(self._waiting.values(), key=_age_order))
        return self._in_order

    def by_owner(self) -> Mapping[str, tuple[Pod, ...]]:
        """Pods by the UID of their controller, in the order of their keys. Kept from the first time it is asked."""
        if self._owned is None:
            self._owned = {}
            for key, pod in self.view().items():
                self._put_owned(key, pod)
        if self._owners_touched:
            self._by_owner = dict(self._by_owner)
            for owner in self._owners_touched:
                self._rebuild_owner(owner, self._owned[owner])
            self._owners_touched = {}
        return MappingProxyType(self._by_owner)

    def unschedulable(self) -> tuple[Pod, ...]:
        """Those waiting of which the scheduler has said that no node takes them."""
        return tuple(pod for pod in self.waiting() if pod.unschedulable_at is not None)

    def bound(self, key: str, uid: str, node: str) -> None:
        """We bound this pod: the answer carries no object, so what we know is used until an event shows it.

        A pod that was bound once stays so. Whatever comes without its node is older, except out of a restored etcd.
        """
        pod, before = self.get(key), self.version
        if pod is not None and pod.uid == uid and not pod.node_name:
            self._bound_by_us[uid] = node
            self._take(Decoded(key, pod.resource_version, pod))
        self._tell(before)

    def relisted(self, version: str) -> None:
        if self._bound_by_us and self.is_restored(version):
            forgotten, self._bound_by_us = self._bound_by_us, {}
            for key, pod in self.view().items():
                if pod.uid in forgotten:
                    self._take(Decoded(key, pod.resource_version, replace(pod, node_name="")))
        super().relisted(version)

    # --------------------------------------------------------------------------------------- inside

    def _take(self, decoded: Decoded) -> None:
        pod = decoded.noun
        if self._bound_by_us and isinstance(pod, Pod) and pod.uid in self._bound_by_us:
            if pod.node_name:
                del self._bound_by_us[pod.uid]
            else:
                decoded = decoded._replace(noun=replace(pod, node_name=self._bound_by_us[pod.uid]))
        super()._take(decoded)

    def _replaced(self, key: str, before: Pod | None, after: Pod | None) -> None:
        if before is not None:
            self._take_out(key, before)
            if after is None or after.uid != before.uid:
                self._bound_by_us.pop(before.uid, None)
            if self._owned is not None and before.owner is not None:
                self._owned[before.owner.uid].pop(key, None)
                self._owners_touched[before.owner.uid] = None
        if after is not None:
            self._put_in(key, after)
            self._put_owned(key, after)

    def _put_owned(self, key: str, pod: Pod) -> None:
        if self._owned is not None and pod.owner is not None:
            self._owned.setdefault(pod.owner.uid, {})[key] = pod
            self._owners_touched[pod.owner.uid] = None

    def _rebuild_owner(self, owner: str, pods: dict[str, Pod]) -> None:
        if pods:
            self._by_owner[owner] = tuple(pods[key] for key in sorted(pods))
        elif self._owned is not None:
            del self._owned[owner]
            self._by_owner.pop(owner, None)

    def _put_in(self, key: str, pod: Pod) -> None:
        if pod.node_name:
            self._on_node.setdefault(pod.node_name, {})[key] = pod
            self._touched[pod.node_name] = None
        elif not pod.is_finished:
            self._waiting[key] = pod
            self._in_order = None

    def _take_out(self, key: str, pod: Pod) -> None:
        if pod.node_name:
            del self._on_node[pod.node_name][key]
            self._touched[pod.node_name] = None
        elif not pod.is_finished:
            del self._waiting[key]
            self._in_order = None

    def _rebuild(self, node: str) -> None:
        pods = self._on_node[node]
        if pods:
            self._tuples[node] = tuple(pods[key] for key in sorted(pods))
        else:
            del self._on_node[node]
            self._tuples.pop(node, None)


def _age_order(pod: Pod) -> tuple[float, str]:
    return pod.created_at, pod.key
