"""Which CapacityBuffers are there, and what do they refer to? Asked by `controllers/observe/observer` for each
snapshot.

    the kind is not served ......... one warning; asked again now and then, so that it is noticed when it comes
    no buffer ...................... one watch, nothing else
    buffers ........................ PodTemplates, LimitRanges, quotas and classes of priority and runtime as well
    a buffer names a workload ...... one watch on that one object; on anything else with a scale, a regular look

Optional by nature: nothing here holds up what is bought for pods. An error is no answer: until buffers have been read
once, and while the size of one that has room is neither read nor remembered (in its status and its PodTemplate), the
world is marked as not known, so that no node is given back that a buffer may need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from growth.controllers.observe.optional_watch import OptionalWatch, Watched
from growth.controllers.observe.scale import ScaledReference
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
from growth.kube.codec.buffer import WORKLOADS, Referenced, ScaledObject, WorldBuilder, known_workload, with_group
from growth.kube.watch.reflector import Selection, Trouble, WatchSettings
from growth.kube.watch.stream import TroubleKind
from growth.model.capacitybuffer import NO_BUFFERS, BufferWorld, CapacityBuffer, ScalableReference, reference_key
from growth.model.decision import About, Note
from growth.model.malformed import Malformed
from growth.runtime import Runtime, Spawned

COMPANIONS: Final = (POD_TEMPLATES, LIMIT_RANGES, RESOURCE_QUOTAS, PRIORITY_CLASSES, RUNTIME_CLASSES)
BUFFER_KINDS: Final = (CAPACITY_BUFFERS, *COMPANIONS, *WORKLOADS)  # all that may be watched for buffers

_SCALE_SECONDS: Final = 15.0  # between two looks at an object that is known by its scale
_RETRY_SECONDS: Final = 5.0
_ABOUT: Final = About("Resource", str(CAPACITY_BUFFERS))


class Follower(Struct):
    """One object that a buffer refers to: a workload under watch, or an object that is looked at by its scale."""

    task: Spawned
    watched: Watched | None = None
    scale: ScaledReference | None = None

    @property
    def is_answered(self) -> bool:
        if self.scale is not None:
            return self.scale.found is not None
        return self.watched is not None and self.watched.is_answered

    @property
    def is_unread(self) -> bool:
        """It could not be read, which says nothing about it."""
        if self.scale is not None:
            found = self.scale.found
            return found is None or found.is_unread
        return self.watched is not None and not (self.watched.reflector.synced or self.watched.reflector.missing)


class BufferWatch(OptionalWatch):
    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        codec: Codec,
        report: Callable[[Trouble], None],
        say: Callable[[Note], None],
    ) -> None:
        super().__init__(client, runtime, report)
        self.resource = CAPACITY_BUFFERS  # in the version that is served here
        self._codec, self._say = codec, say
        self._started_at: float | None = None
        self._is_found = self._is_answered = False
        self._kinds: dict[Resource, Watched] = {}
        self._followers: dict[str, Follower] = {}
        self._builder = WorldBuilder(codec.pods)
        self._built: tuple[object, BufferWorld] | None = None

    # -------------------------------------------------------------------------------------- running

    async def _begin(self) -> None:
        self._started_at = self._runtime.monotonic()
        self.resource = await self._find()
        self._is_found = True
        self._watch_kind(self.resource).cache.subscribe(self._wake.set)

    async def _find(self) -> Resource:
        """The newest version of the kind that is served here; waits until there is one."""
        while True:
            try:
                for resource in (CAPACITY_BUFFERS, CAPACITY_BUFFERS_V1ALPHA1):
                    if await self._is_served(resource):
                        return resource
                message = (
                    "the kind CapacityBuffer is not installed here: there are no buffers until it is "
                    "(growth crds --capacity-buffers)"
                )
                self._answered(Note(_ABOUT, "NoCapacityBuffers", message, "Warning"))
            except Forbidden as error:
                self._answered(Note(_ABOUT, "CannotWatch", str(error), "Warning"))
            except KubeError:
                await self._runtime.sleep(_RETRY_SECONDS)
                continue
            await self._runtime.sleep(WatchSettings().missing_seconds * (1 + self._runtime.jitter()) / 2)

    async def _is_served(self, resource: Resource) -> bool:
        try:
            served = {each.name for each in await self._client.served(resource.group, resource.version)}
        except NotFound:
            return False
        if resource.plural in served and f"{resource.plural}/scale" not in served:
            message = "the CapacityBuffer definition in this cluster has no scale: PoolAutoscalers cannot size buffers"
            self._say(Note(_ABOUT, "NoScaleOnBuffers", message))
        return resource.plural in served

    def _answered(self, note: Note) -> None:
        self._is_answered = True
        self._say(note)
        self._tell()

    def _watch_kind(self, resource: Resource) -> Watched:
        """Follow every object of a kind."""
        watched = self._watch(Cache(resource, self._codec, self._runtime.monotonic))
        self._kinds[resource] = watched
        return watched

    def _follow(self) -> None:
        """Watch what buffers refer to now, and nothing else."""
        wanted = self._references()
        if self._buffers and POD_TEMPLATES not in self._kinds:
            for resource in COMPANIONS:
                self._watch_kind(resource)
        for key in [key for key in self._followers if key not in wanted]:
            self._end(self._followers.pop(key).task)
            self._tell()
        for key, (namespace, reference) in wanted.items():
            if key not in self._followers:
                self._followers[key] = self._follower(namespace, reference)

    def _follower(self, namespace: str, reference: ScalableReference) -> Follower:
        resource = known_workload(reference)
        if resource is None:
            scale = ScaledReference(self._client, namespace, reference, self._tell)
            work = scale.poller.run(self._runtime, lambda: _SCALE_SECONDS * (1 + self._runtime.jitter() / 10))
            return Follower(self._spawn(f"look at {reference.kind} {namespace}/{reference.name}", work), scale=scale)
        chosen = Selection(namespace, fields=f"metadata.name={reference.name}")
        watched = self._watch(Cache(resource, self._codec, self._runtime.monotonic), chosen)
        return Follower(watched.task, watched)

    # -------------------------------------------------------------------------------- what is known

    @property
    def _buffers(self) -> Mapping[str, CapacityBuffer]:
        return self._kinds[self.resource].cache.view() if self._is_found else {}

    def _references(self) -> dict[str, tuple[str, ScalableReference]]:
        """The objects that buffers refer to now, each with its namespace."""
        found = {}
        for buffer in self._buffers.values():
            reference = buffer.spec.scalable_ref
            if reference is not None and reference.name and reference.kind:
                grouped = with_group(reference)
                found[reference_key(buffer.namespace, grouped)] = (buffer.namespace, grouped)
        return found

    def cache(self, resource: Resource) -> Cache[Any] | None:
        return self._kinds[resource].cache if resource in self._kinds else None

    def malformed(self) -> Iterable[Malformed]:
        return self._kinds[self.resource].cache.malformed.values() if self._is_found else ()

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
        if self._started_at is None:
            return True
        if not self._is_found:
            return self._is_answered
        buffers = self._kinds[self.resource]
        if not buffers.cache.synced:
            return buffers.reflector.missing
        if not self._buffers:
            return True
        return (
            POD_TEMPLATES in self._kinds
            and all(key in self._followers for key in self._references())
            and all(_is_told(self._kinds[resource]) for resource in COMPANIONS)
            and all(each.is_answered for each in self._followers.values())
            and not any(self._is_lost(buffer) for buffer in self._buffers.values())
        )

    def _is_lost(self, buffer: CapacityBuffer) -> bool:
        """It had room, and neither what it refers to nor what was remembered of it can be read."""
        reference, templates = buffer.spec.scalable_ref, self._kinds[POD_TEMPLATES]
        if not buffer.status.replicas:
            return False
        if reference is None:
            return not templates.reflector.synced
        follower = self._followers.get(reference_key(buffer.namespace, with_group(reference)))
        is_read = follower is None or not follower.is_unread
        return not is_read and f"{buffer.namespace}/{buffer.template_name}" not in templates.cache.view()

    def _referenced(self, is_known: bool) -> Referenced:
        def all_of(resource: Resource) -> dict[str, Any]:
            return dict(self._kinds[resource].cache.view()) if resource in self._kinds else {}

        watched = [each.watched for each in self._followers.values() if each.watched is not None]
        return Referenced(
            buffers=dict(self._buffers),
            workloads=[workload for each in watched for workload in each.cache.view().values()],
            scaled=self._scaled(),
            templates=all_of(POD_TEMPLATES).values(),
            quotas=all_of(RESOURCE_QUOTAS),
            ranges=all_of(LIMIT_RANGES).values(),
            priority_classes=all_of(PRIORITY_CLASSES).values(),
            runtime_classes=all_of(RUNTIME_CLASSES).values(),
            is_known=is_known,
            unread_templates=self._unread(POD_TEMPLATES),
            unread_quotas=self._unread(RESOURCE_QUOTAS),
        )

    def _unread(self, resource: Resource) -> str:
        """Why a kind could not be read; empty if it was, or is not looked at."""
        watched = self._kinds.get(resource)
        if watched is None or watched.reflector.synced:
            return ""
        trouble = watched.reflector.trouble
        return f"{resource} cannot be read: {trouble.message if trouble else 'not looked at yet'}"

    def _scaled(self) -> dict[str, ScaledObject]:
        """Objects known by their scale, and workloads that cannot be read."""
        found = {}
        for key, follower in self._followers.items():
            if follower.scale is not None:
                found[key] = follower.scale.found or ScaledObject(why="not looked at yet", is_unread=True)
            elif follower.watched is not None and follower.watched.cache.malformed:
                why = "; ".join(str(each) for each in follower.watched.cache.malformed.values())
                found[key] = ScaledObject(why=why)
            elif follower.watched is not None and not follower.watched.reflector.synced:
                trouble, is_unread = follower.watched.reflector.trouble, follower.is_unread
                found[key] = ScaledObject(why=trouble.message if trouble else "not looked at yet", is_unread=is_unread)
        return found


def _is_told(watched: Watched) -> bool:
    """A kind has been read, or growth may not read it: then it does without. What merely fails is asked again."""
    trouble = watched.reflector.trouble
    if watched.cache.resource in (POD_TEMPLATES, RESOURCE_QUOTAS):
        return watched.is_answered  # the plan knows what to do without them
    return watched.reflector.synced or (
        trouble is not None and trouble.kind in (TroubleKind.FORBIDDEN, TroubleKind.MISSING)
    )
