"""How many replicas would a PoolAutoscaler want, and why? With the very code that sizes pools in a cluster.

From a file it is a calculator: one look, no windows. What is not said to be available or starting is in use, where
members of the kind can be. From a cluster it reads the autoscaler and its target once, and shows
what the status remembers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import yaml
from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace

from growth.cli.explain.layout import told_conditions
from growth.cli.explain.wanted import AutoscalerAnswer, answer_for, lines_of
from growth.cli.session import ClusterAccess, read_text
from growth.kube.api.client import Client
from growth.kube.api.errors import Forbidden, NotFound
from growth.kube.api.resources import PODS, POOL_AUTOSCALERS
from growth.kube.cache.pods import PodCache, resource_of
from growth.kube.codec import Codec
from growth.kube.codec.own import read_scale, read_warm_pool
from growth.kube.codec.text import UnreadableError
from growth.model.malformed import Malformed
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.settings import WarmPoolSettings
from growth.model.snapshot import EMPTY, Snapshot
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.counts import Owned, PoolCounts, counts_of
from growth.plan.warm_pools.in_use import NOTHING_KEPT, Kept
from growth.plan.warm_pools.obstacles import (
    owners_of,
    target_of,
    why_not_active,
    why_not_counted,
    why_not_target,
)
from growth.plan.warm_pools.status import NOT_STARTING


@Parameter(name="*")
@dataclass(frozen=True)
class GivenCounts:
    """The flags with which a person says how many replicas a pool has."""

    replicas: Annotated[
        int | None, Parameter(help="poolautoscaler, from a file: how many replicas its target has.")
    ] = None
    available: Annotated[
        int | None, Parameter(help="poolautoscaler, from a file: how many of them are available; default: all.")
    ] = None
    starting: Annotated[
        int | None, Parameter(help="poolautoscaler, from a file: how many of them are starting; default: none.")
    ] = None
    around: Annotated[
        int, Parameter(help="poolautoscaler: how many more numbers of available replicas are shown on either side.")
    ] = 3


NOTHING_GIVEN: Final = GivenCounts()


# -------------------------------------------------------------------------------------- from a file


def explain_file(file: Path, given: GivenCounts, settings: WarmPoolSettings, output: str) -> int:
    items = (item for item in yaml.safe_load_all(read_text(file)) if isinstance(item, dict))
    found = [item for item in items if item.get("kind") == "PoolAutoscaler"]
    if not found:
        raise ValueError(f"{file}: there is no PoolAutoscaler in it")
    codec = Codec()
    return max(_explain_one(_read(codec, item, file), given, settings, output) for item in found)


def _read(codec: Codec, item: object, file: Path) -> PoolAutoscaler:
    noun = codec.decode("PoolAutoscaler", msgspec.json.encode(item)).noun
    if isinstance(noun, Malformed):
        raise ValueError(f"{file}: {noun.why}")
    if not isinstance(noun, PoolAutoscaler):
        raise TypeError(f"{file}: no PoolAutoscaler")
    # of a new one nothing has fired yet
    return noun if noun.created_at else replace(noun, created_at=time.time())


def _explain_one(autoscaler: PoolAutoscaler, given: GivenCounts, settings: WarmPoolSettings, output: str) -> int:
    obstacle = why_not_active(autoscaler, autoscaler.key, settings)
    if obstacle is not None and obstacle.reason != "Suspended":
        raise ValueError(f"{autoscaler.name}: {obstacle.message}")
    if given.replicas is None:
        raise ValueError("say how many --replicas there are")
    counts, problem = counted(autoscaler, given, settings), "" if obstacle is None else obstacle.message
    return _show(answer_for(autoscaler, counts, given.around, settings, time.time(), problem), output)


def counted(autoscaler: PoolAutoscaler, given: GivenCounts, settings: WarmPoolSettings) -> PoolCounts:
    """What is neither available nor said to be starting is used, where members can be. At least those stay: which
    pods they are, and so whether more must stay, a file does not say.
    """
    replicas, starting = given.replicas or 0, given.starting or 0
    available = replicas if given.available is None else given.available
    rest = replicas - available - starting
    if min(replicas, available, starting, rest) < 0:
        raise ValueError(f"{available} available and {starting} starting do not fit into {replicas} replicas")
    kind = settings.kind_of(autoscaler.spec.scale_target_ref)
    is_told = kind is None or kind.members in {"Stay", "Leave"} or autoscaler.spec.pods_in_use is not None
    if is_told and (kind is None or kind.members != "Spare"):
        is_by_pods = kind is not None and kind.members == "Pods"
        kept = Kept(rest, f"{rest} pods are in use") if is_by_pods else NOTHING_KEPT
        return PoolCounts(replicas, available, rest, starting, kept)
    return PoolCounts(replicas, available, 0, starting + rest)


# ----------------------------------------------------------------------------------- from a cluster


class Looked(Struct, frozen=True):
    """An autoscaler and its target in a cluster, at one look; nothing is watched."""

    autoscaler: PoolAutoscaler
    counts: PoolCounts
    problem: str = ""
    stuck: str = ""  # replicas do not start, as the controller found: it adds no more


def explain_live(key: str, access: ClusterAccess, around: int, settings: WarmPoolSettings, output: str) -> int:
    looked = asyncio.run(_look(key, access, settings))
    return _show(answer_in_cluster(looked, around, settings, time.time()), output)


def answer_in_cluster(looked: Looked, around: int, settings: WarmPoolSettings, now: float) -> AutoscalerAnswer:
    """What the policy asks for at this look, and what the controller said last."""
    status = looked.autoscaler.status
    answer = answer_for(looked.autoscaler, looked.counts, around, settings, now, looked.problem, looked.stuck)
    answer.last_decision, answer.last_scale_time = status.last_decision, status.last_scale_time or ""
    answer.recommendations = status.recommendations
    answer.conditions = told_conditions(status.conditions)
    return answer


async def _look(key: str, access: ClusterAccess, settings: WarmPoolSettings) -> Looked:
    namespace, _, name = key.partition("/")
    async with access.connect() as (client, runtime):
        return await look(client, name, namespace, settings, runtime.now())


async def look(client: Client, name: str, namespace: str, settings: WarmPoolSettings, now: float) -> Looked:
    """With no more rights than to read the namespace. Raises ValueError if there is no such autoscaler, or it cannot be
    read.
    """
    autoscaler = await _live_autoscaler(client, name, namespace)
    items, _ = await client.list(POOL_AUTOSCALERS, namespace)
    nouns = (Codec().decode("PoolAutoscaler", item).noun for item in items)
    others = {noun.key: noun for noun in nouns if isinstance(noun, PoolAutoscaler)}
    snapshot, kind = Snapshot(now), settings.kind_of(autoscaler.spec.scale_target_ref)
    if kind is not None:
        snapshot = await _live_pods(client, autoscaler, kind, now)
        views = {**snapshot.warm_pools, kind.name: await _live_view(client, autoscaler, kind)}
        snapshot = replace(snapshot, warm_pools=views)
    autoscalers = {**others, autoscaler.key: autoscaler}
    return looked_in(autoscaler.key, replace(snapshot, autoscalers=autoscalers), settings)


def looked_in(key: str, snapshot: Snapshot, settings: WarmPoolSettings) -> Looked:
    """The same of a snapshot that has the autoscaler, those beside it, its target and the pods of that."""
    autoscaler = snapshot.autoscalers[key]
    target, kind = target_of(autoscaler, settings), settings.kind_of(autoscaler.spec.scale_target_ref)
    view, owner = snapshot.warm_pools.get(target[0]), owners_of(snapshot.autoscalers.values(), settings).get(target, "")
    pool = None if view is None else view.pools.get(target[1])
    obstacle = why_not_active(autoscaler, owner, settings) or why_not_target(autoscaler, view, pool)
    problem = "" if obstacle is None else obstacle.message
    if autoscaler.deleted_at is not None:
        problem = "the autoscaler is being deleted"
    if pool is None or kind is None:
        return Looked(autoscaler, PoolCounts(0), problem)
    counts = counts_of(autoscaler, pool, kind, snapshot, Owned(snapshot.warm_pools))
    if counts is None:
        hidden = why_not_counted(snapshot.warm_pools)
        return Looked(autoscaler, PoolCounts(pool.replicas), problem or ("" if hidden is None else hidden.message))
    able = next((each for each in autoscaler.status.conditions if each.type == "AbleToScale"), None)
    is_stuck = counts.starting and able is not None and able.reason == NOT_STARTING and able.status == "False"
    return Looked(autoscaler, counts, problem, able.message if is_stuck and able is not None else "")


async def _live_autoscaler(client: Client, name: str, namespace: str) -> PoolAutoscaler:
    try:
        noun = Codec().decode("PoolAutoscaler", await client.get(POOL_AUTOSCALERS, name, namespace)).noun
    except NotFound:
        raise ValueError(f"there is no PoolAutoscaler {name} in namespace {namespace}") from None
    if isinstance(noun, Malformed):
        raise ValueError(f"PoolAutoscaler {namespace}/{name} cannot be read: {noun.why}")
    if not isinstance(noun, PoolAutoscaler):
        raise TypeError(f"{namespace}/{name} is no PoolAutoscaler")
    return noun


async def _live_view(client: Client, autoscaler: PoolAutoscaler, kind: WarmPoolKind) -> WarmPoolView:
    """The target alone, as a watch on its kind would know it."""
    name, resource = autoscaler.spec.scale_target_ref.name, resource_of(kind)
    try:
        if kind.reads_scale:
            pool = read_scale(await client.scale(resource, name, autoscaler.namespace)).pool
        else:
            pool = read_warm_pool(await client.get(resource, name, autoscaler.namespace), kind)
    except NotFound:
        return WarmPoolView({})
    except (Forbidden, UnreadableError) as error:
        return WarmPoolView({}, problem=str(error))
    return WarmPoolView({f"{autoscaler.namespace}/{name}": pool})


async def _live_pods(client: Client, autoscaler: PoolAutoscaler, kind: WarmPoolKind, now: float) -> Snapshot:
    """The pods that may be in use, where labels tell."""
    if kind.members != "Pods" or autoscaler.spec.pods_in_use is None:
        return Snapshot(now)
    pods, cache = (await client.list(PODS, autoscaler.namespace))[0], PodCache(Codec())
    cache.listed(pods)
    views = EMPTY
    if kind.name == DEPLOYMENT.name:
        items, _ = await client.list(resource_of(REPLICA_SET), autoscaler.namespace)
        sets = (read_warm_pool(msgspec.Raw(item), REPLICA_SET) for item in items)
        views = {REPLICA_SET.name: WarmPoolView({each.key: each for each in sets})}
    return Snapshot(now, warm_pools=views, pods_by_owner=cache.by_owner())


def _show(answer: AutoscalerAnswer, output: str) -> int:
    print(msgspec.json.encode(answer).decode() if output == "json" else "\n".join(lines_of(answer)))
    return 1 if answer.problem else 0
