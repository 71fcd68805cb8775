"""Which CapacityBuffers are there, and what do they refer to? Asked by `controllers/observe/observer` for each
snapshot.

    the kind is not served ......... one warning; asked again now and then, so that it is noticed when it comes
    no buffer ...................... one watch, nothing else
    buffers ........................ PodTemplates, LimitRanges, quotas and classes of priority and runtime as well
    a buffer names a workload ...... one watch on that one object; on anything else with a scale, a regular look

Optional by nature: nothing here holds up the rest of growth. Until the first answers are there the world is marked as
not known, so that no node is given back that a buffer may need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from growth.controllers.loop.signal import Signal
from growth.controllers.observe.scale import ScaleWatch
from growth.kube.api.client import Client
from growth.kube.api.errors import Forbidden, KubeError, NotFound
from growth.kube.api.resources import (
    CAPACITY_BUFFERS,
    CAPACITY_BUFFERS_V1ALPHA1,
    LIMIT_RANGES,
    POD_TEMPLATES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    Resource,
)
from growth.kube.cache import Cache
from growth.kube.codec import Codec
from growth.kube.codec.buffer import (
    WORKLOADS,
    Referenced,
    ScaledObject,
    TemplateText,
    WorldBuilder,
    known_workload,
    with_group,
)
from growth.kube.codec.template import ContainerRange, RuntimeClass
from growth.kube.watch.reflector import Reflector, Selection, Trouble, WatchSettings
from growth.model.capacitybuffer import (
    NO_BUFFERS,
    BufferWorld,
    CapacityBuffer,
    ResourceQuota,
    ScalableReference,
    reference_key,
)
from growth.model.disruption import PriorityClass
from growth.model.malformed import Malformed
from growth.model.note import About, Note
from growth.runtime import Runtime, Spawned

COMPANIONS: Final[tuple[Resource, ...]] = (
    POD_TEMPLATES,
    LIMIT_RANGES,
    RESOURCE_QUOTAS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
)
BUFFER_KINDS: Final[tuple[Resource, ...]] = (
    CAPACITY_BUFFERS,
    *COMPANIONS,
    *WORKLOADS,
)  # all that may be watched for buffers

_LOOK_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 5.0
_KNOWN_AFTER_SECONDS: Final = 60.0  # whatever has not answered by then does not hold up scale-down any longer
_ABOUT: Final = About("Resource", str(CAPACITY_BUFFERS))


class Follower(Struct):
    """One referenced object under watch."""

    task: Spawned
    reflector: Reflector | None = None
    cache: Cache[Any] | None = None
    scale: ScaleWatch | None = None

    @property
    def is_answered(self) -> bool:
        if self.scale is not None:
            return self.scale.found is not None
        return self.reflector is not None and (self.reflector.synced or self.reflector.trouble is not None)


class BufferWatch:
    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        codec: Codec,
        watching: WatchSettings | None,
        report: Callable[[Trouble], None],
        tell: Callable[[Note], None],
    ) -> None:
        self.version = 0
        self.resource = CAPACITY_BUFFERS  # in the version that is served here
        self._client, self._runtime, self._codec = client, runtime, codec
        self._watching, self._report, self._say = watching, report, tell
        self._started_at: float | None = None
        self._is_found = self._is_answered = False
        self._caches: dict[Resource, Cache[Any]] = {}
        self._reflectors: dict[Resource, Reflector] = {}
        self._followers: dict[str, Follower] = {}
        self._tasks: list[Spawned] = []
        self._wake = Signal(runtime)
        self._changed: Callable[[], None] = lambda: None
        self._builder = WorldBuilder(codec.pods)
        self._built: tuple[object, BufferWorld] | None = None

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changed = callback

    # -------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Until cancelled; then everything that was begun here ends as well."""
        self._started_at = self._runtime.monotonic()
        try:
            await self._run()
        finally:
            for task in (*self._tasks, *(follower.task for follower in self._followers.values())):
                task.cancel()

    async def _run(self) -> None:
        self.resource = await self._find()
        self._is_found = True
        self._watch_all(self.resource)
        while True:
            await self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()
            self._follow()

    async def _find(self) -> Resource:
        """The newest version of the kind that is served here; waits until there is one."""
        while True:
            try:
                for resource in (CAPACITY_BUFFERS, CAPACITY_BUFFERS_V1ALPHA1):
                    if await self._is_served(resource):
                        return resource
                message = "the kind CapacityBuffer is not installed here: there are no buffers until it is (growth crds --capacity-buffers)"
                self._answered(Note(_ABOUT, "NoCapacityBuffers", message, "Warning"))
            except Forbidden as error:
                self._answered(Note(_ABOUT, "CannotWatch", str(error), "Warning"))
            except KubeError:
                await self._runtime.sleep(_RETRY_SECONDS)
                continue
            await self._runtime.sleep(
                (self._watching or WatchSettings()).missing_seconds * (1 + self._runtime.jitter()) / 2
            )

    async def _is_served(self, resource: Resource) -> bool:
        try:
            served = {each.name for each in await self._client.served(resource.group, resource.version)}
        except NotFound:
            return False
        if resource.plural in served and f"{resource.plural}/scale" not in served:
            self._say(
                Note(
                    _ABOUT,
                    "NoScaleOnBuffers",
                    "the CapacityBuffer definition in this cluster has no scale: PoolAutoscalers cannot size buffers",
                )
            )
        return resource.plural in served

    def _answered(self, note: Note) -> None:
        self._is_answered = True
        self._say(note)
        self._tell()

    def _watch_all(self, resource: Resource) -> None:
        """Follow every object of a kind."""
        cache: Cache[Any] = Cache(resource, self._codec, self._runtime.monotonic)
        cache.subscribe(self._tell)
        self._caches[resource] = cache
        self._reflectors[resource] = Reflector(
            self._client, self._runtime, resource, cache, self._watching, report=self._report
        )
        self._tasks.append(self._runtime.spawn(f"watch {resource}", self._reflectors[resource].run()))

    def _follow(self) -> None:
        """Watch what buffers refer to now, and nothing else."""
        buffers: list[CapacityBuffer] = list(self._caches[self.resource].view().values())
        if buffers and POD_TEMPLATES not in self._caches:
            for resource in COMPANIONS:
                self._watch_all(resource)
        wanted = {}
        for buffer in buffers:
            reference = buffer.spec.scalable_ref
            if reference is not None and reference.name and reference.kind:
                wanted[reference_key(buffer.namespace, with_group(reference))] = (
                    buffer.namespace,
                    with_group(reference),
                )
        for key in [key for key in self._followers if key not in wanted]:
            self._followers.pop(key).task.cancel()
            self._tell()
        for key, (namespace, reference) in wanted.items():
            if key not in self._followers:
                self._followers[key] = self._follower(namespace, reference)

    def _follower(self, namespace: str, reference: ScalableReference) -> Follower:
        resource = known_workload(reference)
        if resource is None:
            scale = ScaleWatch(self._client, self._runtime, namespace, reference, self._tell)
            return Follower(
                self._runtime.spawn(f"look at {reference.kind} {namespace}/{reference.name}", scale.run()), scale=scale
            )
        cache: Cache[Any] = Cache(resource, self._codec, self._runtime.monotonic)
        cache.subscribe(self._tell)
        chosen = Selection(namespace, fields=f"metadata.name={reference.name}")
        reflector = Reflector(
            self._client, self._runtime, resource, cache, self._watching, selection=chosen, report=self._report
        )
        task = self._runtime.spawn(f"watch {resource} {namespace}/{reference.name}", reflector.run())
        return Follower(task, reflector, cache)

    def _tell(self) -> None:
        self.version += 1
        self._wake.set()
        self._changed()

    # -------------------------------------------------------------------------------- what is known

    def cache(self, resource: Resource) -> Cache[Any] | None:
        return self._caches.get(resource)

    def malformed(self) -> Iterable[Malformed]:
        return self._caches[self.resource].malformed.values() if self._is_found else ()

    def world(self) -> BufferWorld:
        """The same object until something in it changes."""
        if self._started_at is None:
            return NO_BUFFERS
        stamp = (self.version, self._is_known)
        if self._built is None or self._built[0] != stamp:
            self._built = (stamp, self._builder.build(self._referenced(stamp[1])))
        return self._built[1]

    @property
    def _is_known(self) -> bool:
        if self._started_at is None or self._runtime.monotonic() - self._started_at > _KNOWN_AFTER_SECONDS:
            return True
        if not self._is_found:
            return self._is_answered
        buffers = self._caches[self.resource]
        if not buffers.synced:
            return self._reflectors[self.resource].missing
        if not len(buffers):
            return True
        is_following = all(key in self._followers for key in self._wanted_keys())
        companions = POD_TEMPLATES in self._caches and all(
            each.synced or each.trouble for each in self._reflectors.values()
        )
        return is_following and companions and all(follower.is_answered for follower in self._followers.values())

    def _wanted_keys(self) -> list[str]:
        references = [
            (buffer.namespace, buffer.spec.scalable_ref) for buffer in self._caches[self.resource].view().values()
        ]
        return [
            reference_key(namespace, with_group(each))
            for namespace, each in references
            if each is not None and each.name and each.kind
        ]

    def _referenced(self, is_known: bool) -> Referenced:
        def all_of(resource: Resource) -> dict[str, Any]:
            cache = self._caches.get(resource)
            return {} if cache is None else dict(cache.view())

        templates: dict[str, TemplateText] = all_of(POD_TEMPLATES)
        ranges: dict[str, ContainerRange] = all_of(LIMIT_RANGES)
        quotas: dict[str, ResourceQuota] = all_of(RESOURCE_QUOTAS)
        classes: dict[str, PriorityClass] = all_of(PRIORITY_CLASSES)
        runtimes: dict[str, RuntimeClass] = all_of(RUNTIME_CLASSES)
        workloads = [
            each
            for follower in self._followers.values()
            if follower.cache is not None
            for each in follower.cache.view().values()
        ]
        return Referenced(
            buffers=all_of(self.resource) if self._is_found else {},
            workloads=workloads,
            scaled=self._scaled(),
            templates=templates.values(),
            quotas=quotas,
            ranges=ranges.values(),
            priority_classes=classes.values(),
            runtime_classes=runtimes.values(),
            is_known=is_known,
        )

    def _scaled(self) -> dict[str, ScaledObject]:
        """Objects known by their scale, and workloads that cannot be read."""
        found = {}
        for key, follower in self._followers.items():
            if follower.scale is not None:
                found[key] = follower.scale.found or ScaledObject(why="not looked at yet")
            elif follower.cache is not None and follower.cache.malformed:
                found[key] = ScaledObject(why="; ".join(str(each) for each in follower.cache.malformed.values()))
            elif follower.reflector is not None and not follower.reflector.synced:
                found[key] = ScaledObject(
                    why=follower.reflector.trouble.message if follower.reflector.trouble else "not looked at yet"
                )
        return found
