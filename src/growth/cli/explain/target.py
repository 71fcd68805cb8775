"""How do a PoolAutoscaler and its target stand in a cluster, at one look? Asked by `growth explain`; reads a few
objects and watches nothing.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import Forbidden, NotFound
from growth.kube.api.resources import PODS, POOL_AUTOSCALERS
from growth.kube.cache.pods import PodCache
from growth.kube.cache.warm_pools import resource_of
from growth.kube.codec import Codec
from growth.kube.codec.text import UnreadableError
from growth.kube.codec.warm_pools import read_scale, read_warm_pool
from growth.model.malformed import Malformed
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import WarmPoolSettings
from growth.model.snapshot import EMPTY, Snapshot
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.counts import Counts, Owned, counts_of
from growth.plan.warm_pools.obstacles import owners_of, target_of, why_not_active


class Looked(Struct, frozen=True):
    autoscaler: PoolAutoscaler
    counts: Counts
    problem: str = ""


async def look(client: Client, name: str, namespace: str, settings: WarmPoolSettings, now: float) -> Looked:
    """Raises ValueError if there is no such autoscaler, or it cannot be read."""
    autoscaler = await _autoscaler(client, name, namespace)
    items, _ = await client.list(POOL_AUTOSCALERS, namespace)
    codec = Codec()
    rivals = [
        noun
        for noun in (codec.decode("PoolAutoscaler", item).noun for item in items)
        if isinstance(noun, PoolAutoscaler)
    ]
    obstacle = why_not_active(
        autoscaler, owners_of(rivals, settings).get(target_of(autoscaler, settings), ""), settings
    )
    kind = settings.kind_of(autoscaler.spec.scale_target_ref)
    if kind is None:
        return Looked(autoscaler, Counts(0), obstacle.message if obstacle is not None else "")
    try:
        pool = await _pool(client, autoscaler, kind)
    except NotFound:
        return Looked(autoscaler, Counts(0), f"there is no {autoscaler.spec.scale_target_ref} in namespace {namespace}")
    except (Forbidden, UnreadableError) as error:
        return Looked(autoscaler, Counts(0), str(error))
    counts = counts_of(
        autoscaler, pool, kind, snapshot := await _pods(client, autoscaler, kind, now), Owned(snapshot.warm_pools)
    )
    return Looked(autoscaler, counts or Counts(pool.replicas), obstacle.message if obstacle is not None else "")


async def _autoscaler(client: Client, name: str, namespace: str) -> PoolAutoscaler:
    try:
        noun = Codec().decode("PoolAutoscaler", await client.get(POOL_AUTOSCALERS, name, namespace)).noun
    except NotFound:
        raise ValueError(f"there is no PoolAutoscaler {name} in namespace {namespace}") from None
    if isinstance(noun, Malformed):
        raise ValueError(f"PoolAutoscaler {namespace}/{name} cannot be read: {noun.why}")
    if not isinstance(noun, PoolAutoscaler):
        raise TypeError(f"{namespace}/{name} is no PoolAutoscaler")
    return noun


async def _pool(client: Client, autoscaler: PoolAutoscaler, kind: WarmPoolKind) -> WarmPool:
    name, resource = autoscaler.spec.scale_target_ref.name, resource_of(kind)
    if kind.reads_scale:
        return read_scale(await client.scale(resource, name, autoscaler.namespace))
    return read_warm_pool(await client.get(resource, name, autoscaler.namespace), kind)


async def _pods(client: Client, autoscaler: PoolAutoscaler, kind: WarmPoolKind, now: float) -> Snapshot:
    """The pods that may be in use, where labels tell."""
    policy = autoscaler.spec.capacity_policy
    if kind.members != "Pods" or policy is None or policy.in_use is None:
        return Snapshot(now)
    pods, cache = (await client.list(PODS, autoscaler.namespace))[0], PodCache(Codec())
    cache.listed(pods)
    views = EMPTY
    if kind.name == DEPLOYMENT.name:
        items, _ = await client.list(resource_of(REPLICA_SET), autoscaler.namespace)
        sets = (read_warm_pool(msgspec.Raw(item), REPLICA_SET) for item in items)
        views = {REPLICA_SET.name: WarmPoolView({each.key: each for each in sets})}
    return Snapshot(now, warm_pools=views, pods_by_owner=cache.by_owner())
