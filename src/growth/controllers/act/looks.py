"""What is read live, and for whom one look serves? Used by the gate, and by actions that look at an object before they
write.

| known before a bind, as it was less than a second ago | if not |
| --- | --- |
| our start-up taint is on the node: the scheduler keeps off | Conflict: planned again |
| every pod there is one that the plan counted | TryLater: when the caches know it, planned again |
| the node is there | Conflict: planned again |

Before binds of growth's own scheduler, to nodes that others may use as well, the taint is not asked for: a watch that
lags shows room that is taken, and one that is silent shows nodes that are gone, whose pods would be deleted. The taint
alone does not say that the room is free: pods that tolerate everything come past it, and a user who takes it off lets
in others before growth puts it back. A kubelet rejects what has no room.

The node is read live. Who stands there is read live, too, unless the watch has just shown a bind which we asked for
within the last second: then it has shown all that came before, and the cache is as good as a list. (Lists of nodes with
hundreds of pods took as much of the API server as the binds themselves.) It says nothing about nodes, which come by a
watch of their own. One look at a node serves all pods that are bound to it within a second; those asked for meanwhile
wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, Final, Generic, TypeVar

import msgspec

from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError, NotFound
from growth.kube.api.resources import NODES, PODS, Resource
from growth.kube.cache.pods import PodCache
from growth.model.node import STARTUP_TAINT
from growth.model.outcome import Conflict, TryLater
from growth.model.pod import FINISHED

_LOOK_SECONDS: Final = 1.0  # how long one look at a node serves, before a bind
_UNCOUNTED_SECONDS: Final = 2.0

Seen = TypeVar("Seen")


async def read_live(client: Client, resource: Resource, name: str, namespace: str = "") -> Any:
    """The object as the API server has it now, or None."""
    try:
        return msgspec.json.decode(await client.get(resource, name, namespace))
    except NotFound:
        return None


class _Name(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""


class _Progress(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class _Guest(msgspec.Struct, frozen=True, gc=False):
    """What counts of a pod that stands on a node; a hundred of them are read before each bind."""

    metadata: _Name
    status: _Progress = _Progress()


class _Read:
    """The reads of one object: how many have begun, and what the latest to end brought."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.begun = self.ended = 0
        self.found: Any = None


class SharedReads:
    """Live reads of one kind. Who asks gets what was read after it was asked; many who ask at once share one read."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client, self._resource = client, resource
        self._reads: dict[str, _Read] = {}

    async def read(self, name: str) -> Any:
        """The object, or None."""
        one = self._reads.setdefault(name, _Read())
        begun_before = one.begun
        async with one.lock:
            if one.ended <= begun_before:
                one.begun += 1
                one.found = await read_live(self._client, self._resource, name)
                one.ended = one.begun
            return one.found


Guests = Mapping[str, str]  # pods of one node that have not finished: their keys by UID


class _Look(Generic[Seen]):
    """What was seen of one node, and when."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.at = float("-inf")
        self.seen: Seen | None = None
        self.error: KubeError | None = None  # every bind that waited for this look fails with it


class _Looks(Generic[Seen]):
    """Looks at nodes, each of which serves for a second."""

    def __init__(self, clock: Callable[[], float], read: Callable[[str], Awaitable[Seen]]) -> None:
        self._clock, self._read = clock, read
        self._by_node: dict[str, _Look[Seen]] = {}

    async def at(self, node: str) -> Seen:
        look = self._by_node.setdefault(node, _Look[Seen]())
        if not self._is_new(look):
            async with look.lock:
                if not self._is_new(look):
                    await self._renew(look, node)
        if look.seen is None:
            raise look.error or AssertionError(f"a look at {node} ended without a word")
        return look.seen

    def _is_new(self, look: _Look[Seen]) -> bool:
        return self._clock() - look.at < _LOOK_SECONDS

    async def _renew(self, look: _Look[Seen], node: str) -> None:
        """Looks at other nodes that serve nobody any more are forgotten."""
        kept = self._by_node.items()
        self._by_node = {name: each for name, each in kept if each.lock.locked() or self._is_new(each)}
        began_at = self._clock()
        try:
            look.seen, look.at = await self._read(node), began_at
        except KubeError as error:
            look.seen, look.error, look.at = None, error, self._clock()


class BindGate:
    """The part of the gate before a bind."""

    def __init__(self, client: Client, clock: Callable[[], float], pods: PodCache) -> None:
        self._client, self._clock, self._pods = client, clock, pods
        self._held = _Looks(clock, self._is_held)
        self._there = _Looks(clock, self._is_there)
        self._listed = _Looks(clock, self._guests)

    async def why_not_bind(self, node: str, counted: Set[str]) -> Conflict | TryLater | None:
        """`counted`: UIDs of the pods that the plan counted there."""
        if not await self._held.at(node):
            return Conflict(f"node {node} is no longer held by our start-up taint")
        return await self._why_not_beside(node, counted)

    async def why_not_bind_among(self, node: str, counted: Set[str]) -> Conflict | TryLater | None:
        """To a node that others bind to as well."""
        return await self._why_not_beside(node, counted) or await self.why_gone(node)

    async def why_gone(self, node: str) -> Conflict | None:
        return None if await self._there.at(node) else Conflict(f"node {node} is gone")

    async def _why_not_beside(self, node: str, counted: Set[str]) -> TryLater | None:
        if self._clock() - self._pods.heard_at < _LOOK_SECONDS:
            uncounted = (pod.key for pod in self._pods.on_node(node) if pod.uid not in counted and not pod.is_finished)
        else:
            uncounted = (key for uid, key in (await self._listed.at(node)).items() if uid not in counted)
        key = next(uncounted, "")
        why = f"pod {key} is on node {node}, and the plan has not counted it"
        return TryLater(why, _UNCOUNTED_SECONDS) if key else None

    async def _is_there(self, node: str) -> bool:
        try:
            await self._client.get(NODES, node)
        except NotFound:
            return False
        return True

    async def _is_held(self, node: str) -> bool:
        live = await read_live(self._client, NODES, node)
        taints = live["spec"].get("taints") or () if live is not None else ()
        return any(taint["key"] == STARTUP_TAINT.key for taint in taints)

    async def _guests(self, node: str) -> Guests:
        items, _ = await self._client.list(PODS, fields=f"spec.nodeName={node}")
        guests = (msgspec.json.decode(item, type=_Guest) for item in items)
        return {
            each.metadata.uid: f"{each.metadata.namespace}/{each.metadata.name}"
            for each in guests
            if each.status.phase not in FINISHED
        }
