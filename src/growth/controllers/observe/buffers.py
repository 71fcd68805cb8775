"""Which CapacityBuffers are there, and what do they refer to? Asked by `controllers/observe/observer` for each
snapshot.

    the kind is not served ......... one warning; asked again now and then, so that it is noticed when it comes
    no buffer ...................... one watch, nothing else
    buffers ........................ PodTemplates, LimitRanges, quotas and classes of priority and runtime as well
    a buffer names a workload ...... one watch on that one object, for the first twenty, dealt in turn to namespaces
    anything else that it names .... a regular look, in the background (`controllers/observe/scale`)

Optional by nature: nothing here holds up what is bought for pods. An error is no answer: until buffers have been read
once, and while the size of one that has room is neither read nor remembered (in its status and its PodTemplate), the
world is marked as not known, so that no node is given back that a buffer may need. The
buffers of one namespace are waited for for a quarter of an hour, and then for as much in a day (`Patience`): whoever
may write there must not keep everybody's nodes. A buffer that never had room is not waited for: it holds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from growth.controllers.observe.optional_watch import OptionalWatch, Watched
from growth.controllers.observe.scale import READS_PER_SECOND, Poller, ReferenceReader
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
    Workload,
    WorldBuilder,
    known_workload,
    why_not_asked_for,
    with_group,
)
from growth.kube.watch.reflector import Selection, Trouble, WatchSettings
from growth.kube.watch.stream import TroubleKind
from growth.model.capacitybuffer import NO_BUFFERS, BufferWorld, CapacityBuffer, ScalableReference, reference_key
from growth.model.decision import About, Note
from growth.model.malformed import Malformed
from growth.plan.world.turn import about
from growth.runtime import Runtime

COMPANIONS: Final = (POD_TEMPLATES, LIMIT_RANGES, RESOURCE_QUOTAS, PRIORITY_CLASSES, RUNTIME_CLASSES)
BUFFER_KINDS: Final = (CAPACITY_BUFFERS, *COMPANIONS, *WORKLOADS)  # all that may be watched for buffers

_MOST_WATCHES: Final = 20  # of single objects, whatever buffers name
_LOOKS: Final = 60  # in one interval
_LOOK_SECONDS: Final = 15.0  # from one interval to the next
_RETRY_SECONDS: Final = 5.0
_ABOUT: Final = About("Resource", str(CAPACITY_BUFFERS))
_PATIENCE_SECONDS: Final = 900.0
_PATIENCE_A_SECOND: Final = _PATIENCE_SECONDS / 86_400  # that comes back
_AWAITED: Final = ScaledObject(why="not looked at yet", is_unread=True, is_awaited=True)

References = dict[str, tuple[str, ScalableReference]]  # by reference_key, each with its namespace


class Patience:
    """Whose lost buffers are waited for? Those of namespaces that were not waited for too long already."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._looked_at = clock, clock()
        self._lost = frozenset[str]()
        self._spent: dict[str, float] = {}  # seconds, by namespace

    def awaited(self, lost: frozenset[str]) -> frozenset[str]:
        """Of the namespaces that have lost buffers now; looks that are far apart count as one long wait."""
        now = self._clock()
        passed, self._looked_at = now - self._looked_at, now
        spent = {name: seconds - passed * _PATIENCE_A_SECOND for name, seconds in self._spent.items()}
        spent |= {name: self._spent.get(name, 0.0) + passed for name in self._lost}
        self._lost = lost
        self._spent = {name: min(seconds, _PATIENCE_SECONDS) for name, seconds in spent.items() if seconds > 0}
        return frozenset(name for name in lost if self._spent.get(name, 0.0) < _PATIENCE_SECONDS)


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
        self._wanted: References = {}  # what is followed now
        self._watched: dict[str, Watched] = {}  # a few of them, each under a watch of its own
        self._background = client.in_background(READS_PER_SECOND)
        self._reader = ReferenceReader(self._background, codec, runtime.monotonic)
        self._looks = Poller(runtime, self._look_at, self._tell, _LOOKS, lambda key: key.split("/")[1])
        self._builder = WorldBuilder(codec.pods)
        self._built: tuple[object, BufferWorld] | None = None
        self._patience = Patience(runtime.monotonic)

    # -------------------------------------------------------------------------------------- running

    async def _begin(self) -> None:
        self._started_at = self._runtime.monotonic()
        self.resource = await self._find()
        self._is_found = True
        self._watch_kind(self.resource).cache.subscribe(self._wake.set)
        work = self._looks.run(lambda: _LOOK_SECONDS * (1 + self._runtime.jitter() / 10))
        self._spawn("look at what buffers name", work)

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
        if self._buffers and POD_TEMPLATES not in self._kinds:
            for resource in COMPANIONS:
                self._watch_kind(resource)
        wanted = self._references()
        chosen = _dealt(wanted, _MOST_WATCHES)
        for key in [key for key in self._watched if key not in chosen]:
            self._unwatch(key, is_wanted=key in wanted)
        for key in chosen:
            if key not in self._watched:
                self._watched[key] = self._watch_object(*wanted[key])
        if wanted != self._wanted:
            self._wanted = wanted
            self._tell()
        self._looks.want(key for key in wanted if key not in chosen or self._is_handed_over(key))

    def _watch_object(self, namespace: str, reference: ScalableReference) -> Watched:
        resource = known_workload(reference)
        if resource is None:
            raise AssertionError("only known workloads are watched")
        chosen = Selection(namespace, fields=f"metadata.name={reference.name}")
        cache: Cache[Any] = Cache(resource, self._codec, self._runtime.monotonic)
        return self._watch(cache, chosen, self._background)

    def _unwatch(self, key: str, *, is_wanted: bool) -> None:
        """What the watch knew stays known until the first look."""
        watched = self._watched.pop(key)
        self._end(watched.task)
        for workload in watched.cache.view().values() if is_wanted else ():
            self._looks.learn(key, workload)
        self._tell()

    def _is_handed_over(self, key: str) -> bool:
        """It was looked at, and its watch has not answered yet."""
        return self._looks.has_looked_at(key) and not self._watched[key].is_answered

    async def _look_at(self, key: str) -> Workload | ScaledObject:
        return await self._reader.read(*self._wanted[key])

    # -------------------------------------------------------------------------------- what is known

    @property
    def _buffers(self) -> Mapping[str, CapacityBuffer]:
        return self._kinds[self.resource].cache.view() if self._is_found else {}

    def _references(self) -> References:
        """The objects that buffers refer to now, as far as they can be asked for."""
        found = {}
        for buffer in self._buffers.values():
            reference = buffer.spec.scalable_ref
            if reference is not None and not why_not_asked_for(reference):
                grouped = with_group(reference)
                found[reference_key(buffer.namespace, grouped)] = (buffer.namespace, grouped)
        return found

    @property
    def is_answered(self) -> bool:
        """Everything that buffers refer to has been read once, or could not be."""
        return self._is_read and all(key in self._wanted for key in self._references()) and not self._awaited()

    def _awaited(self) -> list[str]:
        return [key for key in self._wanted if self._object(key) is _AWAITED]

    def _object(self, key: str) -> Workload | ScaledObject:
        """What is known of an object that a buffer refers to: by its watch, or else by a look."""
        watched = self._watched.get(key)
        if watched is not None and watched.cache.malformed:
            return ScaledObject(why="; ".join(str(each) for each in watched.cache.malformed.values()))
        if watched is not None and watched.reflector.synced:
            return next(iter(watched.cache.view().values()), ScaledObject(is_missing=True))
        if self._looks.has_looked_at(key):
            return self._looks.known.get(key, ScaledObject(is_missing=True))
        if watched is not None and watched.reflector.trouble is not None:
            return ScaledObject(why=watched.reflector.trouble.message, is_unread=not watched.reflector.missing)
        problem = self._looks.problems.get(key)
        return ScaledObject(why=f"cannot be read now: {problem}", is_unread=True) if problem else _AWAITED

    def cache(self, resource: Resource) -> Cache[Any] | None:
        return self._kinds[resource].cache if resource in self._kinds else None

    def malformed(self) -> Iterable[Malformed]:
        return self._kinds[self.resource].cache.malformed.values() if self._is_found else ()

    def world(self) -> BufferWorld:
        """The same object until something in it changes."""
        if self._started_at is None:
            return NO_BUFFERS
        lost = self._lost()
        awaited = self._patience.awaited(frozenset(each.namespace for each in lost))
        stamp = (self.version, self._is_read, awaited)
        if self._built is None or self._built[0] != stamp:
            self._built = (stamp, self._builder.build(self._referenced(self._is_read and not awaited)))
            self._tell_of(lost, awaited)
        return self._built[1]

    def _lost(self) -> list[CapacityBuffer]:
        if POD_TEMPLATES not in self._kinds:
            return []
        return [each for each in self._buffers.values() if self._is_lost(each)]

    def _tell_of(self, lost: Iterable[CapacityBuffer], awaited: frozenset[str]) -> None:
        """On one buffer of each namespace."""
        for buffer in {each.namespace: each for each in lost}.values():
            text = "what this buffer refers to cannot be read, and how much room it had is not known: "
            if buffer.namespace in awaited:
                text += f"no node is given back meanwhile, for at most {_PATIENCE_SECONDS / 60:.0f} minutes"
            else:
                text += "nodes are given back without regard to it, since others were held up for long enough"
            self._say(Note(about(buffer), "RoomNotKnown", text, "Warning"))

    @property
    def _is_read(self) -> bool:
        """Buffers themselves, and what all of them need."""
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
            and all(_is_told(self._kinds[resource]) for resource in COMPANIONS)
            and (
                self._kinds[POD_TEMPLATES].reflector.synced
                or not any(map(_has_room_by_template, buffers.cache.view().values()))
            )
        )

    def _is_lost(self, buffer: CapacityBuffer) -> bool:
        """It had room, and neither what it refers to nor what was remembered of it can be read."""
        reference, templates = buffer.spec.scalable_ref, self._kinds[POD_TEMPLATES].cache.view()
        if not buffer.status.replicas or reference is None or why_not_asked_for(reference):
            return False
        if f"{buffer.namespace}/{buffer.template_name}" in templates:
            return False
        found = self._object(reference_key(buffer.namespace, with_group(reference)))
        return isinstance(found, ScaledObject) and found.is_unread

    def _referenced(self, is_known: bool) -> Referenced:
        def all_of(resource: Resource) -> dict[str, Any]:
            return dict(self._kinds[resource].cache.view()) if resource in self._kinds else {}

        found = {key: self._object(key) for key in self._references()}
        return Referenced(
            buffers=dict(self._buffers),
            workloads=[each for each in found.values() if isinstance(each, Workload)],
            scaled={key: each for key, each in found.items() if isinstance(each, ScaledObject)},
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


def _dealt(wanted: References, most: int) -> frozenset[str]:
    """The workloads that get a watch of their own: one of each namespace, then a second of each, while there are any
    left.
    """
    places, counts = [], dict[str, int]()
    for key, (namespace, reference) in sorted(wanted.items()):
        if known_workload(reference) is not None:
            places.append((counts.setdefault(namespace, 0), key))
            counts[namespace] += 1
    return frozenset(key for _, key in sorted(places)[:most])


def _has_room_by_template(buffer: CapacityBuffer) -> bool:
    return bool(buffer.status.replicas) and buffer.spec.scalable_ref is None


def _is_told(watched: Watched) -> bool:
    """A kind has been read, or growth may not read it: then it does without. What merely fails is asked again."""
    trouble = watched.reflector.trouble
    if watched.cache.resource in (POD_TEMPLATES, RESOURCE_QUOTAS):
        return watched.is_answered  # the plan knows what to do without them
    return watched.reflector.synced or (
        trouble is not None and trouble.kind in (TroubleKind.FORBIDDEN, TroubleKind.MISSING)
    )
