"""How large is an object that is known only by its scale subresource, and what do its pods look like? Asked by
`controllers/observe/buffers`.

Looked at regularly, since such kinds are many and a watch on each would cost more than it tells: the Scale says how
many, its newest live pod says of which shape. Needs `get` on the kind's scale, which the operator grants; without it
the buffer says which rule is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import Forbidden, KubeError, NotFound
from growth.kube.api.resources import PODS, Resource
from growth.kube.codec.buffer import ScaledObject
from growth.kube.codec.template import cleaned
from growth.model.capacitybuffer import ScalableReference
from growth.runtime import Runtime

_LOOK_SECONDS: Final = 15.0
_FINISHED: Final = ("Succeeded", "Failed")


class _Part(Struct, frozen=True):
    replicas: int | None = None
    selector: str = ""


class _Scale(Struct, frozen=True):
    spec: _Part = _Part()
    status: _Part = _Part()


_scale = msgspec.json.Decoder(_Scale)


class ScaleWatch:
    """One object, looked at again and again by `run`."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        namespace: str,
        reference: ScalableReference,
        changed: Callable[[], None],
    ) -> None:
        self.found: ScaledObject | None = None  # None: not looked at yet
        self._client = client
        self._runtime = runtime
        self._namespace = namespace
        self._reference = reference
        self._changed = changed

    async def run(self) -> None:
        while True:
            try:
                found = await self._look()
            except NotFound:
                found = ScaledObject(is_missing=True)
            except Forbidden as error:
                found = ScaledObject(why=str(error))
            except (KubeError, msgspec.DecodeError) as error:
                found = self.found or ScaledObject(why=f"cannot be read now: {error}")  # what was known stands
            if found != self.found:
                self.found = found
                self._changed()
            await self._runtime.sleep(_LOOK_SECONDS * (1 + self._runtime.jitter() / 10))

    async def _look(self) -> ScaledObject:
        resource = await self._resource()
        if isinstance(resource, ScaledObject):
            return resource
        try:
            scale = _scale.decode(await self._client.scale(resource, self._reference.name, self._namespace))
        except Forbidden:
            rule = f'apiGroups: ["{resource.group}"], resources: ["{resource.plural}/scale"], verbs: ["get"]'
            return ScaledObject(why=f"growth may not read the scale of {resource}: add the rule {rule} to its role")
        replicas = 1 if scale.spec.replicas is None else max(0, scale.spec.replicas)
        if not scale.status.selector:
            return ScaledObject(
                replicas, why=f"the scale of {self._named} names no selector, so its pods cannot be found"
            )
        pods, _ = await self._client.list(PODS, self._namespace, labels=scale.status.selector)
        newest = newest_live(pods)
        if newest is None:
            return ScaledObject(
                replicas,
                why=f"{self._named} has no live pod to learn a chunk's shape from; a podTemplateRef needs none",
            )
        return ScaledObject(replicas, cleaned(newest))

    @property
    def _named(self) -> str:
        return f"{self._reference.kind} {self._reference.name}"

    async def _resource(self) -> Resource | ScaledObject:
        """Where such objects live; or why they cannot be asked."""
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
    """The pod that was made last, of those that are neither finished nor going."""
    pods: list[dict[str, Any]] = [msgspec.json.decode(item) for item in items]
    live = [
        pod
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") not in _FINISHED
    ]
    return max(
        live, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]), default=None
    )
