"""May growth bind a pod to this node right now? The part of the gate that stands before a bind, asked on live data
however old the caches are.

| read live | if not |
| --- | --- |
| our start-up taint is on the node: the scheduler keeps off | Conflict: planned again |
| every pod there is one that the plan counted | TryLater: when the caches know it, planned again |

The taint alone does not say that the room is free: pods that tolerate everything come past it, and a user who takes it
off lets in others before growth puts it back. A kubelet rejects what has no room. The node is read first, then its
pods, so whoever came before the taint is seen. One look serves all pods that are bound in one breath; those who ask
meanwhile wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError, NotFound
from growth.kube.api.resources import NODES, PODS
from growth.kube.codec import Codec
from growth.model.node import STARTUP_TAINT
from growth.model.outcome import Conflict, Outcome, TryLater
from growth.model.pod import Pod

_BREATH_SECONDS: Final = 1.0
_UNCOUNTED_SECONDS: Final = 2.0


class _Look:
    """What was seen of one node, and when."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.at = float("-inf")
        self.is_held = False
        self.pods: tuple[Pod, ...] = ()
        self.error: KubeError | None = None  # all who waited for this look fail with it, instead of one after the other


class BindGate:
    """Looks at nodes, and remembers each look for a breath."""

    def __init__(self, client: Client, codec: Codec, clock: Callable[[], float]) -> None:
        self._client, self._codec, self._clock = client, codec, clock
        self._looks: dict[str, _Look] = {}

    async def why_not_bind(self, node: str, beside: Collection[str]) -> Outcome | None:
        """`beside`: UIDs of the pods that the plan counted there."""
        look = await self._look_at(node)
        if look.error is not None:
            raise look.error
        if not look.is_held:
            return Conflict(f"node {node} is no longer held by our start-up taint")
        uncounted = next((pod.key for pod in look.pods if pod.uid not in beside), "")
        return (
            TryLater(f"pod {uncounted} is on node {node}, and the plan has not counted it", _UNCOUNTED_SECONDS)
            if uncounted
            else None
        )

    async def _look_at(self, node: str) -> _Look:
        self._looks = {
            name: look for name, look in self._looks.items() if look.lock.locked() or self._is_of_this_breath(look)
        }
        look = self._looks.setdefault(node, _Look())
        async with look.lock:
            if not self._is_of_this_breath(look):
                await self._renew(look, node)
        return look

    def _is_of_this_breath(self, look: _Look) -> bool:
        return self._clock() - look.at < _BREATH_SECONDS

    async def _renew(self, look: _Look, node: str) -> None:
        began_at = self._clock()
        try:
            look.is_held = await self._is_held(node)
            look.pods = await self._pods_on(node) if look.is_held else ()
            look.at, look.error = began_at, None
        except KubeError as error:
            look.at, look.error = self._clock(), error

    async def _is_held(self, node: str) -> bool:
        try:
            live: Any = msgspec.json.decode(await self._client.get(NODES, node))
        except NotFound:
            return False
        return any(taint["key"] == STARTUP_TAINT.key for taint in live["spec"].get("taints") or ())

    async def _pods_on(self, node: str) -> tuple[Pod, ...]:
        items, _ = await self._client.list(PODS, fields=f"spec.nodeName={node}")
        pods = (self._codec.decode_pod(item) for item in items)
        return tuple(pod for pod in pods if not pod.is_finished)
