"""The warm pools of one kind, as their watch brings them. Filled by a reflector, asked by the observer."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw
from msgspec.structs import replace

from growth.kube.api.resources import Resource
from growth.kube.cache import Cache
from growth.kube.codec import Decoded, decode_with
from growth.kube.codec.warm_pools import read_warm_pool
from growth.model.warmpool import WarmPool, WarmPoolKind


class _Reader:
    """Reads objects of one kind by its counts alone."""

    def __init__(self, kind: WarmPoolKind) -> None:
        self._kind = kind

    def decode(self, kind: str, raw: Raw | bytes) -> Decoded:
        return decode_with(kind, raw, lambda found: read_warm_pool(found, self._kind))


def resource_of(kind: WarmPoolKind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


class WarmPoolCache(Cache[WarmPool]):
    """Objects of one kind that can be scaled."""

    def __init__(self, kind: WarmPoolKind, clock: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(resource_of(kind), _Reader(kind), clock)
        self.kind = kind

    def scaled(self, key: str, uid: str, replicas: int) -> None:
        """We scaled it: the answer is no such object, so what we know is used until the watch brings it."""
        pool, before = self.get(key), self.version
        if pool is not None and pool.uid == uid:
            self._take(Decoded(key, pool.resource_version, replace(pool, replicas=replicas)))
        self._tell(before)
