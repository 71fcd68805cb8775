"""How many of the pods that name a group start together? Asked by `controllers/observe/observer` for each snapshot.

    no pod names a group ...... nothing is asked
    the first pod names one ... which version of its kind is served here; one watch on it, kept from then on
    the kind is not served .... asked again now and then; until then what pods say of it means nothing

The kinds are those of `model/gang`. Nothing here holds up anybody but the pods that name a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any, Final

from msgspec.structs import replace

from growth.controllers.observe.optional_watch import OptionalWatch, Watched
from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError, NotFound
from growth.kube.api.resources import PLUGIN_POD_GROUPS, POD_GROUPS, Resource
from growth.kube.cache import Cache
from growth.kube.cache.pods import PodCache
from growth.kube.codec import Codec
from growth.kube.watch.reflector import Trouble, WatchSettings
from growth.kube.watch.stream import TroubleKind
from growth.model.gang import PLUGIN_POD_GROUP, POD_GROUP, PodGroup
from growth.model.malformed import Malformed
from growth.model.snapshot import PodGroups
from growth.runtime import Runtime

GROUP_KINDS: Final = {POD_GROUP: POD_GROUPS, PLUGIN_POD_GROUP: PLUGIN_POD_GROUPS}

_RETRY_SECONDS: Final = 5.0


class PodGroupWatch(OptionalWatch):
    def __init__(
        self, client: Client, runtime: Runtime, codec: Codec, pods: PodCache, report: Callable[[Trouble], None]
    ) -> None:
        super().__init__(client, runtime, report)
        self._codec, self._pods = codec, pods
        self._sought: set[str] = set()
        self._absent: set[str] = set()
        self._kinds: dict[str, Watched] = {}
        self._built: tuple[tuple[object, ...], PodGroups] = ((), PodGroups())

    # -------------------------------------------------------------------------------------- running

    async def _begin(self) -> None:
        self._pods.subscribe(self._look)
        self._look()

    def _look(self) -> None:
        if not self._pods.group_kinds <= self._sought:
            self._wake.set()

    def _follow(self) -> None:
        for kind in sorted(self._pods.group_kinds - self._sought):
            self._sought.add(kind)
            self._spawn(f"look for {kind}", self._seek(kind))

    async def _seek(self, kind: str) -> None:
        """Until the kind is served, and then watched."""
        while kind not in self._kinds:
            seconds = WatchSettings().missing_seconds * (1 + self._runtime.jitter()) / 2
            try:
                resource = await self._served(GROUP_KINDS[kind])
            except KubeError:
                resource, seconds = None, _RETRY_SECONDS
            else:
                self._absent = self._absent - {kind} if resource is not None else self._absent | {kind}
            if resource is not None:
                cache: Cache[PodGroup] = Cache(resource, self._codec, self._runtime.monotonic)
                self._kinds[kind] = self._watch(cache)
                return
            self._tell()
            await self._runtime.sleep(seconds)

    async def _served(self, wanted: Resource) -> Resource | None:
        """The kind in a version that is served here."""
        for version in (await self._client.groups()).get(wanted.group, ()):
            try:
                served = await self._client.served(wanted.group, version)
            except NotFound:
                continue
            if any(each.name == wanted.plural for each in served):
                return replace(wanted, version=version)
        return None

    # -------------------------------------------------------------------------------- what is known

    @property
    def is_answered(self) -> bool:
        """Is it known of every kind that pods name what there is of it, or that nothing can be?"""
        answered = {kind for kind, watched in self._kinds.items() if watched.is_answered}
        return self._pods.group_kinds <= self._absent | answered

    def world(self) -> PodGroups:
        """The same object as before, if nothing has changed."""
        views = {kind: watched.cache.view() for kind, watched in self._kinds.items()}
        absent = frozenset(self._absent | {kind for kind, watched in self._kinds.items() if _is_missing(watched)})
        before, known = self._built
        if len(before) != len(views) or known.absent != absent or not all(map(is_, before, views.values())):
            self._built = (tuple(views.values()), PodGroups(_minimums(views), absent))
        return self._built[1]

    def malformed(self) -> Iterable[Malformed]:
        return [each for watched in self._kinds.values() for each in watched.cache.malformed.values()]


def _is_missing(watched: Watched) -> bool:
    trouble = watched.reflector.trouble
    return trouble is not None and trouble.kind is TroubleKind.MISSING


def _minimums(views: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """By namespace, kind and name, as pods name them."""
    found = {}
    for kind, view in views.items():
        for key, group in view.items():
            namespace, _, name = key.partition("/")
            found[f"{namespace}/{kind}/{name}"] = group.minimum
    return found
