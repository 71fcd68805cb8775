"""How large are objects that are known only by their scale subresource? Asked by the watches of buffers and of warm
pools.

They are looked at regularly, since such kinds are many and a watch on each would cost more than it tells. For a warm
pool the counts are enough. For a buffer the newest live pod also shows the shape of a chunk; that needs `get` on the
kind's scale, which the operator grants: without it the buffer says which rule is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from growth.kube.api.client import Client
from growth.kube.api.errors import Forbidden, NotFound
from growth.kube.api.resources import PODS, Resource
from growth.kube.codec.buffer import ScaledObject
from growth.kube.codec.own import read_scale
from growth.kube.codec.template import template_of
from growth.model.capacitybuffer import ScalableReference
from growth.model.snapshot import EMPTY
from growth.runtime import Runtime

Found = TypeVar("Found")

_FINISHED: Final = ("Succeeded", "Failed")


class ScalePoller(Generic[Found]):
    """Looks at the wanted objects in turn, at most `most` of them in one interval. What was read stays known when a
    later look fails.
    """

    def __init__(self, read: Callable[[str], Awaitable[Found]], tell: Callable[[], None], most: int = 1) -> None:
        self.known: Mapping[str, Found] = EMPTY
        self.problem = ""  # of the latest look that failed, until one succeeds
        self._read, self._tell, self._most = read, tell, most
        self._wanted: tuple[str, ...] = ()
        self._found: dict[str, Found | None] = {}  # None: there is no such object
        self._looked_at: frozenset[str] = frozenset()
        self._next = 0

    @property
    def is_complete(self) -> bool:
        """Every wanted object has been looked at."""
        return self._looked_at.issuperset(self._wanted)

    def want(self, keys: Iterable[str]) -> None:
        self._wanted = tuple(sorted(keys))
        self._found = {key: found for key, found in self._found.items() if key in self._wanted}

    def learn(self, key: str, found: Found) -> None:
        """We know better than the last look."""
        self._found[key] = found
        self.known = MappingProxyType({**self.known, key: found})
        self._tell()

    async def run(self, runtime: Runtime, interval_seconds: Callable[[], float]) -> None:
        while True:
            await self.look()
            await runtime.sleep(interval_seconds())

    async def look(self) -> None:
        before, count = (dict(self._found), self.problem), min(self._most, len(self._wanted))
        for key in [self._wanted[(self._next + step) % len(self._wanted)] for step in range(count)]:
            await self._look_at(key)
        self._next = (self._next + count) % max(1, len(self._wanted))
        self._looked_at = frozenset(self._found)
        if (self._found, self.problem) != before:
            self.known = MappingProxyType({key: found for key, found in self._found.items() if found is not None})
            self._tell()

    async def _look_at(self, key: str) -> None:
        try:
            self._found[key], self.problem = await self._read(key), ""
        except NotFound:
            self._found[key] = None
        except Exception as error:  # whatever it was: the others are looked at all the same
            self.problem = str(error) or type(error).__name__


class ScaledReference:
    """One object that a buffer refers to: how many replicas, and of which shape."""

    def __init__(self, client: Client, namespace: str, reference: ScalableReference, tell: Callable[[], None]) -> None:
        self._client, self._namespace, self._reference = client, namespace, reference
        self.poller = ScalePoller(self._look, tell)
        self.poller.want([reference.name])

    @property
    def found(self) -> ScaledObject | None:
        """None: not looked at yet."""
        if self.poller.is_complete:
            return self.poller.known.get(self._reference.name, ScaledObject(is_missing=True))
        problem = self.poller.problem
        return ScaledObject(why=f"cannot be read now: {problem}", is_unread=True) if problem else None

    async def _look(self, name: str) -> ScaledObject:
        try:
            resource = await self._resource()
            return resource if isinstance(resource, ScaledObject) else await self._scaled(resource, name)
        except Forbidden as error:
            return ScaledObject(why=str(error), is_unread=True)

    async def _scaled(self, resource: Resource, name: str) -> ScaledObject:
        try:
            scale = read_scale(await self._client.scale(resource, name, self._namespace))
        except Forbidden:
            rule = f'apiGroups: ["{resource.group}"], resources: ["{resource.plural}/scale"], verbs: ["get"]'
            why = f"growth may not read the scale of {resource}: add the rule {rule} to its role"
            return ScaledObject(why=why, is_unread=True)
        replicas, named = max(0, scale.replicas or 0), f"{self._reference.kind} {name}"  # a zero is left out of a Scale
        if not scale.selector:
            return ScaledObject(replicas, why=f"the scale of {named} names no selector, so its pods cannot be found")
        pods, _ = await self._client.list(PODS, self._namespace, labels=scale.selector)
        newest = newest_live(pods)
        if newest is None:
            why = f"{named} has no live pod to learn a chunk's shape from; a podTemplateRef needs none"
            return ScaledObject(replicas, why=why)
        return ScaledObject(replicas, template_of(newest))

    async def _resource(self) -> Resource | ScaledObject:
        """Where such objects are served; or why they cannot be asked for."""
        group, kind = self._reference.api_group, self._reference.kind
        try:
            versions = await self._client.versions(group) if group else ["v1"]
        except NotFound:
            return ScaledObject(why=f"no API group {group} is served here")
        for version in versions:
            served = await self._client.served(group, version)
            found = next((each for each in served if each.kind == kind and "/" not in each.name), None)
            if found is None or not found.namespaced:
                continue
            if not any(each.name == f"{found.name}/scale" for each in served):
                return ScaledObject(why=f"{kind} of {group or 'the core group'} has no scale subresource")
            return Resource(group, version, found.name, kind)
        return ScaledObject(why=f"no kind {kind} is served in {group or 'the core group'}")


def newest_live(items: Iterable[Raw]) -> dict[str, Any] | None:
    """The pod that was made last, of those that are neither finished nor being deleted."""
    pods: list[dict[str, Any]] = [msgspec.json.decode(item) for item in items]
    live = [
        pod
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") not in _FINISHED
    ]
    made = [(pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]) for pod in live]
    return live[made.index(max(made))] if live else None
