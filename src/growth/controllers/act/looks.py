"""What is read live, and for whom one look serves? Used by the gate, and by actions that look at an object before they
write.

| read live before a bind | if not |
| --- | --- |
| our start-up taint is on the node: the scheduler keeps off | Conflict: planned again |
| every pod there is one that the plan counted | TryLater: when the caches know it, planned again |

Before binds of growth's own scheduler, to nodes that others may use as well, only the second is asked: a watch that
lags shows room that is taken. One that has shown a bind which we asked for within the last second does not lag: then
it has shown all that came before, and nothing is read (thousands of binds in a row would else read each node). The
taint alone does not say that the room is free: pods that tolerate everything come
past it, and a user who takes it off lets in others before growth puts it back. A kubelet rejects what has no room. The
node is read first, then its pods, so a pod that came before the taint is seen. One look at a node serves all pods that
are bound to it within a second; those asked for meanwhile wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError, NotFound
from growth.kube.api.resources import NODES, PODS, Resource
from growth.kube.cache.pods import PodCache
from growth.model.node import STARTUP_TAINT
from growth.model.outcome import Conflict, TryLater
from growth.model.pod import FINISHED, Pod

_LOOK_SECONDS: Final = 1.0  # how long one look at a node serves, before a bind
_UNCOUNTED_SECONDS: Final = 2.0


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


class _Look:
    """What was seen of one node, and when."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.at = float("-inf")
        self.is_held = False
        self.pods: dict[str, str] = {}  # by UID, those that have not finished
        self.error: KubeError | None = None  # every bind that waited for this look fails with it


class BindGate:
    """The part of the gate before a bind: looks at nodes, and remembers each look for a second."""

    def __init__(self, client: Client, clock: Callable[[], float], pods: PodCache) -> None:
        self._client, self._clock, self._pods = client, clock, pods
        self._looks: dict[tuple[str, bool], _Look] = {}  # by node, and whether our taint was asked for

    async def why_not_bind(self, node: str, beside: Collection[str]) -> Conflict | TryLater | None:
        """`beside`: UIDs of the pods that the plan counted there."""
        look = await self._look_at(node, asks_taint=True)
        if not look.is_held:
            return Conflict(f"node {node} is no longer held by our start-up taint")
        return _why_uncounted(node, look.pods, beside)

    async def why_not_bind_among(self, node: str, beside: Collection[str]) -> TryLater | None:
        if self._clock() - self._pods.heard_at < _LOOK_SECONDS:
            return _why_uncounted(node, _as_guests(self._pods.on_node(node)), beside)
        look = await self._look_at(node, asks_taint=False)
        return _why_uncounted(node, look.pods, beside)

    async def _look_at(self, node: str, *, asks_taint: bool) -> _Look:
        self._looks = {each: look for each, look in self._looks.items() if look.lock.locked() or self._is_fresh(look)}
        look = self._looks.setdefault((node, asks_taint), _Look())
        async with look.lock:
            if not self._is_fresh(look):
                await self._renew(look, node, asks_taint)
        if look.error is not None:
            raise look.error
        return look

    def _is_fresh(self, look: _Look) -> bool:
        return self._clock() - look.at < _LOOK_SECONDS

    async def _renew(self, look: _Look, node: str, asks_taint: bool) -> None:
        began_at = self._clock()
        try:
            look.is_held = asks_taint and await self._is_held(node)
            look.pods = await self._guests(node) if look.is_held or not asks_taint else {}
            look.at, look.error = began_at, None
        except KubeError as error:
            look.at, look.error = self._clock(), error

    async def _is_held(self, node: str) -> bool:
        live = await read_live(self._client, NODES, node)
        taints = live["spec"].get("taints") or () if live is not None else ()
        return any(taint["key"] == STARTUP_TAINT.key for taint in taints)

    async def _guests(self, node: str) -> dict[str, str]:
        items, _ = await self._client.list(PODS, fields=f"spec.nodeName={node}")
        guests = (msgspec.json.decode(item, type=_Guest) for item in items)
        return {
            each.metadata.uid: f"{each.metadata.namespace}/{each.metadata.name}"
            for each in guests
            if each.status.phase not in FINISHED
        }


def _as_guests(pods: Iterable[Pod]) -> dict[str, str]:
    return {pod.uid: pod.key for pod in pods if not pod.is_finished}


def _why_uncounted(node: str, guests: Mapping[str, str], beside: Collection[str]) -> TryLater | None:
    counted = frozenset(beside)
    uncounted = next((key for uid, key in guests.items() if uid not in counted), "")
    why = f"pod {uncounted} is on node {node}, and the plan has not counted it"
    return TryLater(why, _UNCOUNTED_SECONDS) if uncounted else None
