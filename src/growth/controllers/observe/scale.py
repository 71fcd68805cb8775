"""How large are objects that are not under watch? Looked at in turn, for the watches of buffers and of warm pools.

Such objects are named by tenants, so there may be any number of them, and a watch on each would cost more than it
tells:

    a look ......... is a read in the background, behind all other requests and at a pace of its own (`Client`)
    an interval .... has so many looks; the object that waits longest comes first, one of each namespace before the
                     second of any, so what one namespace names takes no turn from another
    a namespace .... whose look takes too long loses its turn; the others go on beside it
    discovery ...... is read once a minute: a group or kind that the server does not name is never asked for

For a warm pool the counts are enough. For a buffer the newest live pod also shows the shape of a chunk; that needs
`get` on the kind's scale, which the operator grants: without it the buffer says which rule is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from growth.controllers.loop.runtime import Signal, work_through
from growth.kube.api.client import Client, ServedResource
from growth.kube.api.errors import Forbidden, KubeError, NotFound
from growth.kube.api.resources import PODS, Resource
from growth.kube.codec import Codec
from growth.kube.codec.buffer import ScaledObject, Workload, known_workload
from growth.kube.codec.own import read_scale
from growth.kube.codec.template import template_of
from growth.model.capacitybuffer import ScalableReference
from growth.model.pod import FINISHED
from growth.model.snapshot import EMPTY
from growth.runtime import Runtime

Found = TypeVar("Found")
Answer = TypeVar("Answer")

READS_PER_SECOND: Final = 20.0  # of all looks together

_LOOK_SECONDS: Final = 10.0  # a look that takes longer is given up
_LEAST_SECONDS: Final = 1.0  # between two intervals, however much is new
_AT_ONCE: Final = 8  # namespaces
_DISCOVERY_SECONDS: Final = 60.0
_PODS_READ: Final = 50
_LIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Poller(Generic[Found]):
    """Looks at the wanted objects in turn, at most `most` of them in one interval. What was read stays known when a
    later look fails.
    """

    def __init__(
        self,
        runtime: Runtime,
        read: Callable[[str], Awaitable[Found]],
        tell: Callable[[], None],
        most: int = 1,
        namespace_of: Callable[[str], str] = lambda key: key.partition("/")[0],
    ) -> None:
        self.known: Mapping[str, Found] = EMPTY
        self.problems: dict[str, str] = {}  # of objects whose latest look failed
        self._runtime, self._read, self._tell, self._most = runtime, read, tell, most
        self._namespace_of = namespace_of
        self._wanted: tuple[str, ...] = ()
        self._found: dict[str, Found | None] = {}  # None: there is no such object
        self._turns: dict[str, int] = {}  # the number of the last look at each
        self._served: dict[str, int] = {}  # the number of the last look that each namespace was given
        self._count = count(1)
        self._news = Signal(runtime)

    @property
    def is_complete(self) -> bool:
        """Every wanted object has been looked at."""
        return self._found.keys() >= set(self._wanted)

    @property
    def problem(self) -> str:
        """Of any object whose latest look failed."""
        return next(iter(self.problems.values()), "")

    def has_looked_at(self, key: str) -> bool:
        return key in self._found

    def want(self, keys: Iterable[str]) -> None:
        wanted = frozenset(keys)
        if not wanted.issubset(self._wanted):
            self._news.set()
        self._wanted = tuple(sorted(wanted))
        self._found = {key: found for key, found in self._found.items() if key in wanted}
        self._turns = {key: turn for key, turn in self._turns.items() if key in wanted}
        self.problems = {key: problem for key, problem in self.problems.items() if key in wanted}

    def learn(self, key: str, found: Found) -> None:
        """We know better than the last look."""
        self._found[key] = found
        self.known = MappingProxyType({**self.known, key: found})
        self._tell()

    async def run(self, interval_seconds: Callable[[], float]) -> None:
        while True:
            self._news.clear()
            await self.look()
            await self._runtime.sleep(_LEAST_SECONDS)
            await self._news.wait(max(0.0, interval_seconds() - _LEAST_SECONDS))

    async def look(self) -> None:
        """One interval."""
        before = (dict(self._found), dict(self.problems))
        queues: dict[str, list[str]] = {}
        for key in self._next():
            queues.setdefault(self._namespace_of(key), []).append(key)
        await work_through(self._runtime, "looks", queues.values(), _AT_ONCE, self._look_at_all)
        if (self._found, self.problems) != before:
            self.known = MappingProxyType({key: found for key, found in self._found.items() if found is not None})
            self._tell()

    def _next(self) -> Iterable[str]:
        """The one that waits longest in each namespace, then the next one of each, as far as it goes; who was served
        last comes last.
        """
        queues: dict[str, list[str]] = {}
        for key in sorted(self._wanted, key=self._turn_of):
            queues.setdefault(self._namespace_of(key), []).append(key)
        served = {name: self._served.get(name, 0) for name in queues}
        places = [(place, served[name], key) for name, keys in queues.items() for place, key in enumerate(keys)]
        chosen = [key for _, _, key in sorted(places)[: self._most]]
        self._served = served | {self._namespace_of(key): next(self._count) for key in chosen}
        return chosen

    def _turn_of(self, key: str) -> int:
        return self._turns.get(key, 0)

    async def _look_at_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                await self._runtime.within(_LOOK_SECONDS, self._look_at(key))
            except TimeoutError:
                self.problems[key] = f"no answer within {_LOOK_SECONDS:.0f} s"
                return

    async def _look_at(self, key: str) -> None:
        self._turns[key] = next(self._count)
        try:
            found: Found | None = await self._read(key)
        except NotFound:
            found = None
        except Exception as error:  # whatever it was: the others are looked at all the same
            self.problems[key] = str(error) or type(error).__name__
            return
        if key in self._wanted:
            self._found[key] = found
        self.problems.pop(key, None)


class Discovery:
    """What the API server serves, asked at most once a minute; an error is an answer for as long."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self._known: dict[tuple[str, ...], tuple[float, Any]] = {}

    async def resource(self, group: str, kind: str) -> Resource | str:
        """Where such objects are served; or why they cannot be asked for. Raises the error of a failed request."""
        versions = {"": ["v1"]} if not group else await self._once((), self._client.groups)
        if group not in versions:
            return f"no API group {group} is served here"
        for version in versions[group]:
            served = await self._served(group, version)
            found = next((each for each in served if each.kind == kind and "/" not in each.name), None)
            if found is None or not found.namespaced:
                continue
            if not any(each.name == f"{found.name}/scale" for each in served):
                return f"{kind} of {group or 'the core group'} has no scale subresource"
            return Resource(group, version, found.name, kind)
        return f"no kind {kind} is served in {group or 'the core group'}"

    async def _served(self, group: str, version: str) -> Sequence[ServedResource]:
        return await self._once((group, version), lambda: self._client.served(group, version))

    async def _once(self, key: tuple[str, ...], ask: Callable[[], Awaitable[Answer]]) -> Answer:
        asked_at, answer = self._known.get(key, (0.0, None))
        if answer is None or self._clock() >= asked_at + _DISCOVERY_SECONDS:
            try:
                answer = await ask()
            except KubeError as error:
                answer = error
            self._known[key] = (self._clock(), answer)
        if isinstance(answer, KubeError):
            raise answer
        return answer  # type: ignore[no-any-return]  # what this key's question gave


class ReferenceReader:
    """Reads one object that a buffer refers to: how many replicas, and of which shape."""

    def __init__(self, client: Client, codec: Codec, clock: Callable[[], float]) -> None:
        self._client, self._codec = client, codec
        self._discovery = Discovery(client, clock)

    async def read(self, namespace: str, reference: ScalableReference) -> Workload | ScaledObject:
        try:
            workload = known_workload(reference)
            if workload is not None:
                return await self._workload(workload, namespace, reference.name)
            resource = await self._discovery.resource(reference.api_group, reference.kind)
            if isinstance(resource, str):
                return ScaledObject(why=resource)
            return await self._scaled(resource, namespace, reference.name)
        except Forbidden as error:
            return ScaledObject(why=str(error), is_unread=True)

    async def _workload(self, resource: Resource, namespace: str, name: str) -> Workload | ScaledObject:
        items, _ = await self._client.list(resource, namespace, fields=f"metadata.name={name}")
        if not items:
            return ScaledObject(is_missing=True)
        noun = self._codec.decode(resource.kind, items[0]).noun
        return noun if isinstance(noun, Workload) else ScaledObject(why=str(noun))

    async def _scaled(self, resource: Resource, namespace: str, name: str) -> ScaledObject:
        try:
            scale = read_scale(await self._client.scale(resource, name, namespace))
        except Forbidden:
            rule = f'apiGroups: ["{resource.group}"], resources: ["{resource.plural}/scale"], verbs: ["get"]'
            why = f"growth may not read the scale of {resource}: add the rule {rule} to its role"
            return ScaledObject(why=why, is_unread=True)
        replicas, named = max(0, scale.replicas or 0), f"{resource.kind} {name}"  # a zero is left out of a Scale
        if not scale.selector:
            return ScaledObject(replicas, why=f"the scale of {named} names no selector, so its pods cannot be found")
        newest = newest_live(await self._some_pods(namespace, scale.selector))
        if newest is None:
            why = f"{named} has no live pod to learn a chunk's shape from; a podTemplateRef needs none"
            return ScaledObject(replicas, why=why)
        return ScaledObject(replicas, template_of(newest))

    async def _some_pods(self, namespace: str, labels: str) -> Sequence[Raw]:
        """One page: there may be thousands, and they may be large."""
        async for page in self._client.pages(PODS, namespace, labels, _LIVE, size=_PODS_READ):
            return page.items
        return ()


def newest_live(items: Iterable[Raw]) -> dict[str, Any] | None:
    """The pod that was made last, of those that are neither finished nor being deleted."""
    pods: list[dict[str, Any]] = [msgspec.json.decode(item) for item in items]
    live = [
        pod
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") not in FINISHED
    ]
    made = [(pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]) for pod in live]
    return live[made.index(max(made))] if live else None
