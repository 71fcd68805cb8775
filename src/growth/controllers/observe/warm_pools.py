"""Which PoolAutoscalers are there, and how many replicas do their targets have? Asked by `controllers/observe/observer`
for each snapshot.

    no PoolAutoscaler ........... one watch, nothing else; a warning where the kind is not installed
    an autoscaler names a kind .. one watch on that kind, for all of its objects; kept from then on
    labels tell pods in use ..... pods by owner, from the one cache of pods; for Deployments a watch on ReplicaSets
    a kind known by its scale ... a look at a few targets at a time, never more in one sampling interval, in the
                                  background and fair to namespaces (`controllers/observe/scale`)

Only kinds that the operator allows are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from growth.controllers.observe.optional_watch import OptionalWatch, Watched
from growth.controllers.observe.scale import READS_PER_SECOND, Poller
from growth.kube.api.client import Client
from growth.kube.api.resources import POOL_AUTOSCALERS, Resource
from growth.kube.cache import Cache
from growth.kube.cache.pods import PodCache, WarmPoolCache, resource_of
from growth.kube.codec import Codec
from growth.kube.codec.own import read_scale
from growth.kube.watch.reflector import Trouble
from growth.kube.watch.stream import TroubleKind
from growth.model.malformed import Malformed
from growth.model.pod import Pod
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import WarmPoolSettings
from growth.model.snapshot import EMPTY
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.runtime import Runtime

_READS: Final = 50  # of scales, in one sampling interval


class WarmPoolWatch(OptionalWatch):
    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        codec: Codec,
        pods: PodCache,
        settings: WarmPoolSettings,
        report: Callable[[Trouble], None],
    ) -> None:
        super().__init__(client, runtime, report)
        self.autoscalers: Cache[PoolAutoscaler] = Cache(POOL_AUTOSCALERS, codec, runtime.monotonic)
        self._pods, self._settings = pods, settings
        self._background = client.in_background(READS_PER_SECOND)
        self._kinds: dict[str, Watched] = {}
        self._scales: dict[str, Poller[WarmPool]] = {}
        self._counts_pods = False

    # -------------------------------------------------------------------------------------- running

    async def _begin(self) -> None:
        self.autoscalers.subscribe(self._wake.set)
        self._watch(self.autoscalers)

    def _follow(self) -> None:
        """Watch every kind that is named now."""
        by_scale: dict[str, list[str]] = {name: [] for name in self._scales}
        for autoscaler in self.autoscalers.view().values():
            target = autoscaler.spec.scale_target_ref
            kind = self._settings.kind_of(target)
            if kind is None:
                continue
            if kind.reads_scale:
                by_scale.setdefault(kind.name, []).append(f"{autoscaler.namespace}/{target.name}")
                self._look_at_scales(kind)
            else:
                self._watch_kind(kind)
            if kind.members == "Pods" and autoscaler.spec.pods_in_use is not None:
                self._counts_pods = True
                if kind.name == DEPLOYMENT.name:
                    self._watch_kind(REPLICA_SET)
        for name, keys in by_scale.items():
            self._scales[name].want(keys)

    def _watch_kind(self, kind: WarmPoolKind) -> None:
        if kind.name not in self._kinds:
            self._kinds[kind.name] = self._watch(WarmPoolCache(kind, self._runtime.monotonic))

    def _look_at_scales(self, kind: WarmPoolKind) -> None:
        async def read(key: str) -> WarmPool:
            namespace, _, name = key.partition("/")
            return read_scale(await self._background.scale(resource_of(kind), name, namespace)).pool

        if kind.name not in self._scales:
            poller = self._scales[kind.name] = Poller(self._runtime, read, self._tell, _READS)
            work = poller.run(lambda: self._settings.sampling_interval_seconds)
            self._spawn(f"look at scales of {kind.name}", work)

    # -------------------------------------------------------------------------------- what is known

    def views(self) -> Mapping[str, WarmPoolView]:
        """The kinds that are named, by their name."""
        scaled = {name: WarmPoolView(each.known, each.is_complete, each.problem) for name, each in self._scales.items()}
        return MappingProxyType({name: _view(watched) for name, watched in self._kinds.items()} | scaled)

    def pods_by_owner(self) -> Mapping[str, tuple[Pod, ...]]:
        """Kept only where an autoscaler counts pods."""
        return self._pods.by_owner() if self._counts_pods else EMPTY

    def cache(self, resource: Resource) -> Cache[Any] | None:
        return self.autoscalers if resource == POOL_AUTOSCALERS else None

    def malformed(self) -> Iterable[Malformed]:
        caches = (self.autoscalers, *(watched.cache for watched in self._kinds.values()))
        return [each for cache in caches for each in cache.malformed.values()]

    def scaled(self, kind: WarmPoolKind, key: str, uid: str, replicas: int) -> None:
        """We set the replicas of a target."""
        watched = self._kinds.get(kind.name)
        if watched is not None and isinstance(watched.cache, WarmPoolCache):
            watched.cache.scaled(key, uid, replicas)
        poller = self._scales.get(kind.name)
        pool = None if poller is None else poller.known.get(key)
        if poller is not None and pool is not None and pool.uid == uid:
            poller.learn(key, replace(pool, replicas=replicas))


def _view(watched: Watched) -> WarmPoolView:
    resource, trouble, problem = watched.cache.resource, watched.reflector.trouble, ""
    if trouble is not None and trouble.kind is TroubleKind.MISSING:
        problem = f"{resource} are not served by this cluster in {resource.version}"
    elif trouble is not None and trouble.kind is TroubleKind.FORBIDDEN:
        grant = f"grant it list and watch on them, and patch on {resource.plural}/scale"
        problem = f"growth may not watch {resource}: {grant}"
    elif trouble is not None and not watched.cache.synced:
        problem = f"{resource} cannot be read now: {trouble.message}"
    return WarmPoolView(watched.cache.view(), watched.cache.synced, problem)
