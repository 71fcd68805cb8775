"""What does growth know right now? Follows the API server with one cache for each kind and makes snapshots of them.

Asked by the loop (for decisions), the gate (how fresh, which pool, how many nodes are NotReady) and `growth explain`
(one snapshot). A snapshot costs what changed since the last one. The observer translates and never decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from growth.controllers.configuration import cluster_id
from growth.controllers.loop.journal import Journal
from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.supervisor import Work
from growth.controllers.observe.buffers import BufferWatch
from growth.controllers.observe.kube_scheduler import KubeSchedulerWatch
from growth.controllers.observe.pod_groups import PodGroupWatch
from growth.controllers.observe.supply import OwnedNodes, Supply
from growth.controllers.observe.warm_pools import WarmPoolWatch
from growth.kube.api.client import Client
from growth.kube.api.resources import (
    CAPACITY_BUFFERS,
    CSI_NODES,
    DAEMON_SETS,
    NAMESPACES,
    NODE_POOLS,
    NODE_REMOVAL_REQUESTS,
    NODE_REQUESTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from growth.kube.cache import Cache
from growth.kube.cache.pods import PodCache
from growth.kube.codec import Codec
from growth.kube.watch.reflector import Reflector, Trouble
from growth.kube.watch.stream import TroubleKind
from growth.model.decision import About, Note
from growth.model.disruption import PodDisruptionBudget
from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.nodepool import NodePool, PoolTrials
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.settings import Settings
from growth.model.snapshot import DaemonSet, Memo, Snapshot, VolumeWorld
from growth.model.volumes import Claim, StorageClass, Volume, VolumeNode
from growth.model.warmpool import WarmPoolKind
from growth.plan.nodes_down.orphans import is_alone
from growth.plan.pool_status import with_past
from growth.providers.contract import Provider
from growth.runtime import Runtime

WATCHED: Final[tuple[Resource, ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    DAEMON_SETS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    NODE_POOLS,
    NODE_REQUESTS,
    NODE_REMOVAL_REQUESTS,
    POD_DISRUPTION_BUDGETS,
)


class Observer:
    """The caches, the reflectors that fill them, and the provider's word."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        supply: Supply,
        metrics: Metrics,
        settings: Settings | None = None,
        *,
        serves_buffers: bool = True,
        serves_warm_pools: bool = True,
    ) -> None:
        self.supply = supply
        self._memo, self._owned = Memo(), OwnedNodes()
        self._past: tuple[Any, Mapping[str, NodePool], Mapping[str, PoolTrials]] = (None, {}, {})
        self._complaints: tuple[tuple[int, ...], tuple[Note, ...]] = ((), ())  # as of which version
        self._serves_buffers, self._serves_warm_pools = serves_buffers, serves_warm_pools
        settings = settings or Settings()
        self.codec = Codec(compares_tolerations=settings.compares_tolerations)
        self._client, self._runtime, self._metrics = client, runtime, metrics
        clock = runtime.monotonic
        self.pods = PodCache(self.codec, clock)
        self.nodes: Cache[Node] = Cache(NODES, self.codec, clock)
        self.namespaces: Cache[Labels] = Cache(NAMESPACES, self.codec, clock)
        self.daemon_sets: Cache[DaemonSet] = Cache(DAEMON_SETS, self.codec, clock)
        self.claims: Cache[Claim] = Cache(PERSISTENT_VOLUME_CLAIMS, self.codec, clock)
        self.volumes: Cache[Volume] = Cache(PERSISTENT_VOLUMES, self.codec, clock)
        self.storage_classes: Cache[StorageClass] = Cache(STORAGE_CLASSES, self.codec, clock)
        self.volume_nodes: Cache[VolumeNode] = Cache(CSI_NODES, self.codec, clock)
        self.pools: Cache[NodePool] = Cache(NODE_POOLS, self.codec, clock)
        self.requests: Cache[NodeRequest] = Cache(NODE_REQUESTS, self.codec, clock)
        self.removals: Cache[NodeRemovalRequest] = Cache(NODE_REMOVAL_REQUESTS, self.codec, clock)
        self.disruption_budgets: Cache[PodDisruptionBudget] = Cache(POD_DISRUPTION_BUDGETS, self.codec, clock)
        self._caches: dict[Resource, Cache[Any]] = {
            cache.resource: cache for cache in vars(self).values() if isinstance(cache, Cache)
        }
        self._reflectors = [
            Reflector(client, runtime, resource, self._caches[resource], report=self._report) for resource in WATCHED
        ]
        self._journal: Journal | None = None
        self.buffers = BufferWatch(client, runtime, self.codec, self._report, self._say)
        self.warm_pools = WarmPoolWatch(client, runtime, self.codec, self.pods, settings.warm_pools, self._report)
        self.pod_groups = PodGroupWatch(client, runtime, self.codec, self.pods, self._report)
        stands_in = settings.scheduler.stands_in
        self.kube_scheduler = KubeSchedulerWatch(client, runtime, self._report, is_wanted=stands_in)
        self._optional = (self.buffers, self.warm_pools, self.pod_groups, self.kube_scheduler)

    # -------------------------------------------------------------------------------------- running

    def watches(self, journal: Journal | None = None) -> list[tuple[str, Work]]:
        """What follows every kind, each for ever; trouble with one is written to the journal, if there is one."""
        self._journal = journal
        followed: list[tuple[str, Work]] = [("watch pod groups", self.pod_groups.run)]
        if self.kube_scheduler.is_wanted:
            followed.append(("watch kube-scheduler's Lease", self.kube_scheduler.run))
        if self._serves_warm_pools:
            followed.append(("watch warm pools", self.warm_pools.run))
        if self._serves_buffers:
            followed.append(("watch buffers", self.buffers.run))
        return [*((f"watch {reflector.resource}", reflector.run) for reflector in self._reflectors), *followed]

    async def catch_up(self) -> None:
        """Ask what was ordered: whoever led a moment ago may have ordered what our watch has not told us of, and the
        same pods would be bought for twice. Raises KubeError.
        """
        items, _ = await self._client.list(NODE_REQUESTS)
        for item in items:
            self.requests.learned(item)

    def on_change(self, callback: Callable[[], None], on_pods: Callable[[], None] | None = None) -> None:
        """`on_pods` is called instead where nothing but pods has changed."""
        for cache in self._caches.values():
            cache.subscribe((on_pods or callback) if cache is self.pods else callback)
        for other in (self.supply, *self._optional):
            other.on_change(callback)

    def _say(self, note: Note) -> None:
        if self._journal is not None:
            self._journal.record([note])

    def _report(self, trouble: Trouble) -> None:
        about, fields = About("Resource", str(trouble.resource)), (("trouble", str(trouble.kind)),)
        self._say(Note(about, "CannotWatch", trouble.message, "Warning", fields))

    # -------------------------------------------------------------------------------- what is known

    @property
    def is_synced(self) -> bool:
        """Every kind has been listed once and the provider has answered once."""
        return self.supply.machines_at is not None and all(cache.synced for cache in self._caches.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """What has not been heard of yet."""
        kinds = tuple(str(resource) for resource, cache in self._caches.items() if not cache.synced)
        return kinds if self.supply.machines_at is not None else (*kinds, "machines of the provider")

    @property
    def version(self) -> tuple[int, ...]:
        """Moves whenever something a decision could see has changed."""
        caches = [cache.version for cache in self._caches.values()]
        return (self.supply.version, *(each.version for each in self._optional), *caches)

    def snapshot(self) -> Snapshot:
        """This moment. Parts that did not change are the very same objects as in the last snapshot."""
        self.codec.pods.expect(len(self.pods))
        nodes, machines = self._owned.of(self.nodes.view(), self.supply.machines, self.requests.view())
        return Snapshot(
            now=self._runtime.now(),
            nodes=nodes,
            pods_by_node=self.pods.by_node(),
            waiting_pods=self.pods.waiting(),
            lowest_priority=self.pods.lowest_priority(),
            namespaces=self.namespaces.view(),
            daemon_sets=self._daemons(),
            volumes=self._volume_world(),
            pools=self._known_pools(),
            requests=self.requests.view(),
            requests_age_seconds=self.requests.age_seconds or 0.0,
            removals=self.removals.view(),
            disruption_budgets=self.disruption_budgets.view(),
            offerings=self.supply.offerings,
            machines=machines,
            machines_at=self.supply.machines_at,
            no_machines_since=self.supply.empty_since,
            credentials=self.supply.credentials,
            buffers=self.buffers.world(),
            pod_groups=self.pod_groups.world(),
            kube_scheduler=self.kube_scheduler.world(),
            autoscalers=self.warm_pools.autoscalers.view(),
            warm_pools=self.warm_pools.views(),
            pods_by_owner=self.warm_pools.pods_by_owner(),
            memo=self._memo,
        )

    def _known_pools(self) -> Mapping[str, NodePool]:
        if self._past[0] is not (view := self.pools.view()):
            self._past = (view, *with_past(view, self._past[2], self._runtime.now()))
        return self._past[1]

    def _daemons(self) -> tuple[DaemonSet, ...]:
        view = self.daemon_sets.view()
        return self._memo.recall("daemon sets", (view,), lambda: tuple(view.values()), most=1)

    def _volume_world(self) -> VolumeWorld:
        views = (self.claims.view(), self.volumes.view(), self.storage_classes.view(), self.volume_nodes.view())
        return self._memo.recall("volumes", views, lambda: VolumeWorld(*views), most=1)

    def complaints(self) -> tuple[Note, ...]:
        """A note on every object that could not be read, or not wholly; other objects are not affected."""
        if self._complaints[0] != (version := self.version):
            self._complaints = (version, self._complaints_now())
        return self._complaints[1]

    def _complaints_now(self) -> tuple[Note, ...]:
        unread = [each for cache in self._caches.values() for each in cache.malformed.values()]
        unread += [each for watch in self._optional for each in watch.malformed()]
        nodes, pods = self.nodes.damaged.values(), self.pods.damaged.values()
        found = [(About(each.kind, each.name, each.namespace, each.uid), each.why) for each in unread]
        found += [(About("Node", node.name, uid=node.uid), node.malformed) for node in nodes]
        found += [(About("Pod", pod.name, pod.namespace, pod.uid), pod.shape.malformed) for pod in pods]
        return tuple(Note(about, "Malformed", f"cannot be read: {why}", "Warning") for about, why in found)

    def pool(self, name: str) -> NodePool | None:
        return self.pools.get(name)

    def why_stale(self, oldest_seconds: float) -> str:
        """What has not been proved up to date lately: a cache, or the list of machines? Empty: nothing."""
        if self.supply.age_seconds > oldest_seconds:
            because = f": {self.supply.failure}" if self.supply.failure else ""
            return f"the provider's list of machines is more than {oldest_seconds:.0f} s old{because}"
        for reflector in self._reflectors:
            if reflector.age_seconds > oldest_seconds:
                return f"what growth knows of {reflector.resource} is more than {oldest_seconds:.0f} s old"
        return ""

    def why_not_sure(self, oldest_seconds: float) -> tuple[str, ...]:
        """What growth does not know by now, and why: kinds that it cannot follow, and the provider; and what it leaves
        to kube-scheduler. Empty: nothing.
        """
        kinds = _by_reason({one.resource: _why_not_followed(one, oldest_seconds) for one in self._reflectors})
        return (*kinds, *filter(None, [self.supply.why_not_sure(), self.kube_scheduler.why_not_serving()]))

    def why_never_synced(self) -> tuple[str, ...]:
        """Kinds that growth will not know until somebody installs them or grants the right to them. Empty: none."""
        lasting = [one for one in self._reflectors if one.trouble is not None and one.trouble.kind in _LASTING]
        return _by_reason({one.resource: _why_not_followed(one, 0.0) for one in lasting})

    def refresh_metrics(self) -> None:
        for reflector in self._reflectors:
            if reflector.synced:
                self._metrics.cache_age.labels(str(reflector.resource)).set(reflector.age_seconds)
        snapshot = self.snapshot()
        self._metrics.orphans.set(sum(is_alone(machine, snapshot) for machine in snapshot.machines.values()))
        self._metrics.count(snapshot)

    # ----------------------------------------------------------------------------------- our writes

    def learned(self, resource: Resource, body: bytes) -> None:
        candidates = (self._caches.get(resource), self.buffers.cache(resource), self.warm_pools.cache(resource))
        cache = next((each for each in candidates if each is not None), None)  # an empty cache is false
        if cache is not None:
            cache.learned(body)

    def served(self, resource: Resource) -> Resource:
        """The same kind, in the version that is served here."""
        return self.buffers.resource if resource == CAPACITY_BUFFERS else resource

    def forgot(self, resource: Resource, name: str, namespace: str = "") -> None:
        self._caches[resource].forgot(name, namespace)

    def scaled(self, kind: WarmPoolKind, key: str, uid: str, replicas: int) -> None:
        self.warm_pools.scaled(kind, key, uid, replicas)

    def has_node(self, name: str) -> bool:
        return self.nodes.get(name) is not None

    def node_version(self, name: str) -> str:
        """As it was last heard of; empty: not at all."""
        node = self.nodes.get(name)
        return "" if node is None else node.resource_version

    def bound(self, pod: str, uid: str, node: str, asked_at: float) -> None:
        self.pods.bound(pod, uid, node, asked_at)


class CannotLookError(TimeoutError):
    """What of the cluster cannot be seen, and what to do."""


_LASTING: Final = (TroubleKind.MISSING, TroubleKind.FORBIDDEN)  # until somebody does something about it
_TROUBLES: Final = {  # those that last, in the same words for every kind; the log has had the first one's own words
    TroubleKind.MISSING: "the API server does not know this kind; install it (`growth crds`)",
    TroubleKind.FORBIDDEN: "the right to list and watch it is missing (`growth role`)",
    TroubleKind.UNREACHABLE: "the API server does not answer",
}


def _by_reason(reasons: Mapping[Resource, str]) -> tuple[str, ...]:
    """Kinds with the same trouble in one sentence."""
    grouped: dict[str, list[str]] = {}
    for resource, why in reasons.items():
        if why:
            grouped.setdefault(why, []).append(str(resource))
    return tuple(f"{', '.join(kinds)}: {why}" for why, kinds in grouped.items())


def _why_not_followed(reflector: Reflector, oldest_seconds: float) -> str:
    if reflector.trouble is not None:
        return _TROUBLES.get(reflector.trouble.kind, "what the API server answers cannot be used")
    if not reflector.synced:
        return "not listed yet"
    return f"not proved up to date for {oldest_seconds:.0f} s" if reflector.age_seconds > oldest_seconds else ""


_POLL_SECONDS: Final = 0.05
_GATHER_SECONDS: Final = 1.0  # until every kind that is missing is known to be
_BUFFERS_SECONDS: Final = 5.0  # the kind may not be installed


@asynccontextmanager
async def looking(
    client: Client, provider: Provider, installation: str, settings: Settings, seconds: float = 30.0
) -> AsyncIterator[Observer]:
    """An observer that follows the cluster as a running growth's does, and writes nothing; it ends with the block.
    Raise CannotLookError at once where a kind or a right is missing, and after so long where nobody answers.
    """
    runtime = client.runtime
    supply = Supply(provider, await cluster_id(client, installation), runtime)
    observer = Observer(client, runtime, supply, Metrics(runtime), settings)
    works = [*observer.watches(), ("supply", supply.run)]
    tasks = [runtime.spawn(name, work()) for name, work in works]
    try:
        await _wait_until_synced(observer, runtime, seconds)
        yield observer
    finally:
        for task in tasks:
            task.cancel()


async def look_once(
    client: Client, provider: Provider, installation: str, settings: Settings, seconds: float = 30.0
) -> Snapshot:
    """One snapshot, made as a running growth makes it; then the observer ends."""
    async with looking(client, provider, installation, settings, seconds) as observer:
        return observer.snapshot()


async def _wait_until_synced(observer: Observer, runtime: Runtime, seconds: float) -> None:
    began_at = runtime.monotonic()
    while True:
        spent = runtime.monotonic() - began_at
        optional = (observer.buffers, observer.pod_groups, observer.kube_scheduler)
        is_answered = all(each.is_answered for each in optional)
        if observer.is_synced and (is_answered or spent > _BUFFERS_SECONDS):
            return
        if spent > _GATHER_SECONDS and (why_never := observer.why_never_synced()):
            raise CannotLookError("; ".join(why_never))
        if spent > seconds:
            raise CannotLookError(f"no answer within {seconds:.0f} s about: {', '.join(observer.missing)}")
        await runtime.sleep(_POLL_SECONDS)
