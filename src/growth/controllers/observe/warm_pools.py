"""Which PoolAutoscalers are there, and how do their targets stand? Asked by `controllers/observe/observer` for each
snapshot.

    no PoolAutoscaler ................ one watch, nothing else; where the kind is not installed one warning, and a look now and then
    an autoscaler names a kind ....... one watch on that kind, for all of its objects; kept from then on
    pods in use are told by labels ... pods by their owner, from the one cache of pods; for Deployments a watch on ReplicaSets
    a kind known only by its scale ... a look at a few targets at a time, never more in one sampling interval

Only kinds that the operator allows are watched. Nothing here holds up the rest of growth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from growth.controllers.loop.signal import Signal
from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError, NotFound
from growth.kube.api.resources import POOL_AUTOSCALERS, Resource
from growth.kube.cache import Cache
from growth.kube.cache.pods import PodCache
from growth.kube.cache.warm_pools import WarmPoolCache, resource_of
from growth.kube.codec import Codec
from growth.kube.codec.text import UnreadableError
from growth.kube.codec.warm_pools import read_scale
from growth.kube.watch.reflector import Reflector, Trouble, WatchSettings
from growth.kube.watch.stream import TroubleKind
from growth.model.malformed import Malformed
from growth.model.pod import Pod
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import WarmPoolSettings
from growth.model.snapshot import EMPTY
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.runtime import Runtime, Spawned

_LOOK_SECONDS: Final = 30.0
_READS: Final = 50  # of scales, in one sampling interval


class Scales:
    """Targets of one kind that is known only by its scale subresource, read a few at a time."""

    def __init__(self, client: Client, kind: WarmPoolKind) -> None:
        self.problem = ""
        self.version = 0
        self._client, self._kind = client, kind
        self._wanted: tuple[str, ...] = ()
        self._read: dict[str, WarmPool | None] = {}
        self._next = 0
        self._view: Mapping[str, WarmPool] = EMPTY

    def want(self, keys: Iterable[str]) -> None:
        self._wanted = tuple(sorted(keys))
        self._read = {key: pool for key, pool in self._read.items() if key in self._wanted}

    async def look(self) -> None:
        """At the next few targets, in turn."""
        count = min(_READS, len(self._wanted))
        for key in [self._wanted[(self._next + step) % len(self._wanted)] for step in range(count)]:
            await self._look_at(key)
        self._next = (self._next + count) % max(1, len(self._wanted))
        self._view = MappingProxyType({key: pool for key, pool in self._read.items() if pool is not None})

    async def _look_at(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        try:
            found = read_scale(await self._client.scale(resource_of(self._kind), name, namespace))
            self.problem = ""
        except NotFound:
            found = None
        except (KubeError, UnreadableError) as error:
            self.problem = str(error)
            return
        if key not in self._read or self._read[key] != found:
            self._read[key] = found
            self.version += 1

    def view(self) -> WarmPoolView:
        return WarmPoolView(self._view, all(key in self._read for key in self._wanted), self.problem)


class WarmPoolWatch:
    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        codec: Codec,
        pods: PodCache,
        settings: WarmPoolSettings,
        watching: WatchSettings | None = None,
        report: Callable[[Trouble], None] = lambda _trouble: None,
    ) -> None:
        self.settings = settings
        self._client, self._runtime, self._pods = client, runtime, pods
        self._watching, self._report_on = watching, report
        self.autoscalers: Cache[PoolAutoscaler] = Cache(POOL_AUTOSCALERS, codec, runtime.monotonic)
        self.autoscalers.subscribe(self._tell)
        self._caches: dict[str, WarmPoolCache] = {}
        self._reflectors: dict[str, Reflector] = {}
        self._scales: dict[str, Scales] = {}
        self._tasks: list[Spawned] = []
        self._wake = Signal(runtime)
        self._changed: Callable[[], None] = lambda: None
        self._troubles = 0
        self._counts_pods = False

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changed = callback

    # -------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Until cancelled; then everything that was begun here ends as well."""
        try:
            self._begin(POOL_AUTOSCALERS, self.autoscalers)
            self._tasks.append(self._runtime.spawn("look at scales", self._look_at_scales()))
            while True:
                await self._wake.wait(_LOOK_SECONDS)
                self._wake.clear()
                self._follow()
        finally:
            for task in self._tasks:
                task.cancel()

    def _begin(self, resource: Resource, cache: Cache[Any]) -> Reflector:
        reflector = Reflector(self._client, self._runtime, resource, cache, self._watching, report=self._report)
        self._tasks.append(self._runtime.spawn(f"watch {resource}", reflector.run()))
        return reflector

    def _follow(self) -> None:
        """Watch every kind that is named now."""
        by_scale: dict[str, list[str]] = {}
        for kind, autoscaler in self._targets():
            if kind.reads_scale:
                by_scale.setdefault(kind.name, []).append(
                    f"{autoscaler.namespace}/{autoscaler.spec.scale_target_ref.name}"
                )
                self._scales.setdefault(kind.name, Scales(self._client, kind))
            else:
                self._watch(kind)
            if (
                kind.members == "Pods"
                and autoscaler.spec.capacity_policy is not None
                and autoscaler.spec.capacity_policy.in_use is not None
            ):
                self._counts_pods = True
                if kind.name == DEPLOYMENT.name:
                    self._watch(REPLICA_SET)
        for name, scales in self._scales.items():
            scales.want(by_scale.get(name, ()))

    def _targets(self) -> Iterable[tuple[WarmPoolKind, PoolAutoscaler]]:
        for autoscaler in self.autoscalers.view().values():
            kind = self.settings.kind_of(autoscaler.spec.scale_target_ref)
            if kind is not None:
                yield kind, autoscaler

    def _watch(self, kind: WarmPoolKind) -> None:
        if kind.name not in self._caches:
            cache = self._caches[kind.name] = WarmPoolCache(kind, self._runtime.monotonic)
            cache.subscribe(self._changed_target)
            self._reflectors[kind.name] = self._begin(cache.resource, cache)

    async def _look_at_scales(self) -> None:
        while True:
            await self._runtime.sleep(self.settings.sampling_interval_seconds)
            for scales in self._scales.values():
                before = scales.view()
                await scales.look()
                if scales.view() != before:
                    self._changed()

    def _report(self, trouble: Trouble) -> None:
        self._troubles += 1
        self._report_on(trouble)
        self._changed()

    def _tell(self) -> None:
        self._wake.set()
        self._changed()

    def _changed_target(self) -> None:
        self._changed()

    # -------------------------------------------------------------------------------- what is known

    @property
    def version(self) -> int:
        """Moves with every change: each part only ever grows."""
        caches = sum(cache.version + cache.synced for cache in self._caches.values())
        return (
            self.autoscalers.version + caches + sum(scales.version for scales in self._scales.values()) + self._troubles
        )

    def views(self) -> Mapping[str, WarmPoolView]:
        """The kinds that are named, by their name."""
        found = {name: self._view(cache, self._reflectors[name]) for name, cache in self._caches.items()}
        return MappingProxyType(found | {name: scales.view() for name, scales in self._scales.items()})

    def _view(self, cache: WarmPoolCache, reflector: Reflector) -> WarmPoolView:
        trouble, problem = reflector.trouble, ""
        if trouble is not None and trouble.kind is TroubleKind.MISSING:
            problem = f"{cache.resource} are not served by this cluster in {cache.resource.version}"
        elif trouble is not None and trouble.kind is TroubleKind.FORBIDDEN:
            problem = f"growth may not watch {cache.resource}: grant it list and watch on them, and patch on {cache.resource.plural}/scale"
        return WarmPoolView(cache.view(), cache.synced, problem)

    def pods_by_owner(self) -> Mapping[str, tuple[Pod, ...]]:
        """Kept only where an autoscaler counts pods."""
        return self._pods.by_owner() if self._counts_pods else EMPTY

    def cache(self, resource: Resource) -> Cache[Any] | None:
        return self.autoscalers if resource == POOL_AUTOSCALERS else None

    def malformed(self) -> Iterable[Malformed]:
        return [
            *self.autoscalers.malformed.values(),
            *(each for cache in self._caches.values() for each in cache.malformed.values()),
        ]

    def scaled(self, kind: WarmPoolKind, key: str, uid: str, replicas: int) -> None:
        """We set the replicas of a target."""
        cache = self._caches.get(kind.name)
        if cache is not None:
            cache.scaled(key, uid, replicas)
