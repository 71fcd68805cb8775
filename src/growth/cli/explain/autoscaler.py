"""How many replicas would a PoolAutoscaler want, and why? With the very code that sizes pools in a cluster.

From a file it is a calculator: one look, no windows. What is not said to be available or starting is in use; of kinds
whose members leave when claimed it is starting. From a cluster it reads the autoscaler and its target once, and shows
what the status remembers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import yaml
from cyclopts import Parameter
from msgspec import Struct

from growth.cli.session import ClusterAccess, read_text
from growth.kube.api.client import Client
from growth.kube.api.errors import Forbidden, NotFound
from growth.kube.api.resources import PODS, POOL_AUTOSCALERS
from growth.kube.cache.pods import PodCache, resource_of
from growth.kube.codec import Codec
from growth.kube.codec.own import read_scale, read_warm_pool
from growth.kube.codec.text import UnreadableError
from growth.model.malformed import Malformed
from growth.model.poolautoscaler import PoolAutoscaler, Recommendation
from growth.model.settings import WarmPoolSettings
from growth.model.snapshot import EMPTY, Snapshot
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, WarmPool, WarmPoolKind, WarmPoolView
from growth.plan.warm_pools.counts import Owned, PoolCounts, counts_of
from growth.plan.warm_pools.firings import Timetable, schedule_of, timetable
from growth.plan.warm_pools.obstacles import owners_of, target_of, why_not_active
from growth.plan.warm_pools.size import (
    Memory,
    Observation,
    Scaling,
    Watermarks,
    by_bounds,
    by_capacity,
    by_cron,
    watermarks,
)

_FIRINGS = 3  # of each policy
_AT_ONCE = {"observation_window_seconds": 0.0, "scale_up_window_seconds": 0, "scale_down_window_seconds": 0}


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


class Firing(Struct, rename="camel"):
    policy: str
    at: str
    local: str
    replicas: int


class Elsewhere(Struct, rename="camel"):
    """What would happen with another number available."""

    available: int
    desired_replicas: int


class AutoscalerAnswer(Struct, rename="camel", omit_defaults=True):
    """What is said of one autoscaler."""

    autoscaler: str
    target: str
    replicas: int
    available: int
    used: int
    starting: int
    desired_replicas: int
    policy: str
    reason: str
    watermarks: Watermarks | None = None
    limited: str = ""
    problem: str = ""
    next_firings: list[Firing] = []
    at_other_numbers: list[Elsewhere] = []
    last_decision: str = ""
    last_scale_time: str = ""
    recommendations: tuple[Recommendation, ...] = ()


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
    return noun if noun.created_at else msgspec.structs.replace(noun, created_at=time.time())


def _explain_one(autoscaler: PoolAutoscaler, given: GivenCounts, settings: WarmPoolSettings, output: str) -> int:
    obstacle = why_not_active(autoscaler, autoscaler.key, settings)
    if obstacle is not None and obstacle.reason != "Suspended":
        raise ValueError(f"{autoscaler.name}: {obstacle.message}")
    if given.replicas is None:
        raise ValueError("say how many --replicas there are")
    counts, problem = _counted(autoscaler, given, settings), "" if obstacle is None else obstacle.message
    return _show(answer_for(autoscaler, counts, given.around, settings, time.time(), problem), output)


def _counted(autoscaler: PoolAutoscaler, given: GivenCounts, settings: WarmPoolSettings) -> PoolCounts:
    replicas, starting = given.replicas or 0, given.starting or 0
    available = replicas if given.available is None else given.available
    rest = replicas - available - starting
    if min(replicas, available, starting, rest) < 0:
        raise ValueError(f"{available} available and {starting} starting do not fit into {replicas} replicas")
    kind = settings.kind_of(autoscaler.spec.scale_target_ref)
    if kind is not None and kind.members == "Leave":
        return PoolCounts(replicas, available, 0, starting + rest)
    return PoolCounts(replicas, available, rest, starting)


# ----------------------------------------------------------------------------------- from a cluster


class Looked(Struct, frozen=True):
    """An autoscaler and its target in a cluster, at one look; nothing is watched."""

    autoscaler: PoolAutoscaler
    counts: PoolCounts
    problem: str = ""


def explain_live(key: str, access: ClusterAccess, around: int, settings: WarmPoolSettings, output: str) -> int:
    looked = asyncio.run(_look(key, access, settings))
    answer = answer_for(looked.autoscaler, looked.counts, around, settings, time.time(), looked.problem)
    status = looked.autoscaler.status
    answer.last_decision, answer.last_scale_time = status.last_decision, status.last_scale_time or ""
    answer.recommendations = status.recommendations
    return _show(answer, output)


async def _look(key: str, access: ClusterAccess, settings: WarmPoolSettings) -> Looked:
    namespace, _, name = key.partition("/")
    async with access.connect() as (client, runtime):
        return await look(client, name, namespace, settings, runtime.now())


async def look(client: Client, name: str, namespace: str, settings: WarmPoolSettings, now: float) -> Looked:
    """Raises ValueError if there is no such autoscaler, or it cannot be read."""
    autoscaler = await _live_autoscaler(client, name, namespace)
    items, _ = await client.list(POOL_AUTOSCALERS, namespace)
    nouns = (Codec().decode("PoolAutoscaler", item).noun for item in items)
    owners = owners_of([noun for noun in nouns if isinstance(noun, PoolAutoscaler)], settings)
    obstacle = why_not_active(autoscaler, owners.get(target_of(autoscaler, settings), ""), settings)
    problem = obstacle.message if obstacle is not None else ""
    kind = settings.kind_of(autoscaler.spec.scale_target_ref)
    if kind is None:
        return Looked(autoscaler, PoolCounts(0), problem)
    try:
        pool = await _live_pool(client, autoscaler, kind)
    except NotFound:
        return Looked(
            autoscaler, PoolCounts(0), f"there is no {autoscaler.spec.scale_target_ref} in namespace {namespace}"
        )
    except (Forbidden, UnreadableError) as error:
        return Looked(autoscaler, PoolCounts(0), str(error))
    snapshot = await _live_pods(client, autoscaler, kind, now)
    counts = counts_of(autoscaler, pool, kind, snapshot, Owned(snapshot.warm_pools))
    return Looked(autoscaler, counts or PoolCounts(pool.replicas), problem)


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


async def _live_pool(client: Client, autoscaler: PoolAutoscaler, kind: WarmPoolKind) -> WarmPool:
    name, resource = autoscaler.spec.scale_target_ref.name, resource_of(kind)
    if kind.reads_scale:
        return read_scale(await client.scale(resource, name, autoscaler.namespace)).pool
    return read_warm_pool(await client.get(resource, name, autoscaler.namespace), kind)


async def _live_pods(client: Client, autoscaler: PoolAutoscaler, kind: WarmPoolKind, now: float) -> Snapshot:
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


# --------------------------------------------------------------------------------------- the answer


def answer_for(
    autoscaler: PoolAutoscaler,
    counts: PoolCounts,
    around: int,
    settings: WarmPoolSettings,
    now: float,
    problem: str = "",
) -> AutoscalerAnswer:
    """One look, without windows: what the policy asks for at these numbers."""
    policy = autoscaler.spec.capacity_policy
    times = timetable(autoscaler, settings.time_zone, now) if autoscaler.spec.cron_policies and not problem else None
    sized = wanted(autoscaler, counts, settings, now, times)
    marks = None if policy is None else watermarks(policy, counts.replicas, settings.tolerance_percent)
    return AutoscalerAnswer(
        autoscaler=autoscaler.key.lstrip("/"),
        target=str(autoscaler.spec.scale_target_ref),
        replicas=counts.replicas,
        available=counts.available,
        used=counts.used,
        starting=counts.starting,
        desired_replicas=counts.replicas if problem else sized.replicas,
        policy=sized.policy or "cron",
        reason=problem or sized.sentence or f"{counts.replicas} replicas stay until a policy fires",
        watermarks=marks,
        limited=sized.limited,
        problem=problem,
        next_firings=_firings(autoscaler, settings, now) if times is not None else [],
        at_other_numbers=[] if policy is None or problem else _elsewhere(autoscaler, counts, around, settings, now),
    )


def wanted(
    autoscaler: PoolAutoscaler, counts: PoolCounts, settings: WarmPoolSettings, now: float, times: Timetable | None
) -> Scaling:
    spec = autoscaler.spec
    if times is not None:
        return by_cron(spec, counts.replicas, times)
    if spec.capacity_policy is None:
        return by_bounds(spec, counts.replicas)
    at_once = msgspec.structs.replace(settings, **_AT_ONCE)
    policy = msgspec.structs.replace(spec.capacity_policy, scale_up=None, scale_down=None)
    unsteadied = msgspec.structs.replace(autoscaler, spec=msgspec.structs.replace(spec, capacity_policy=policy))
    return by_capacity(unsteadied, counts, Memory(Observation(now).with_sample(now, counts, 0.0)), now, at_once)[0]


def _elsewhere(
    autoscaler: PoolAutoscaler, counts: PoolCounts, around: int, settings: WarmPoolSettings, now: float
) -> list[Elsewhere]:
    """With more or fewer of the same replicas available: the others in use, or starting."""
    answers = []
    for available in range(max(0, counts.available - around), min(counts.replicas, counts.available + around) + 1):
        moved = available - counts.available
        used = max(0, counts.used - moved) if counts.used or not counts.starting else counts.used
        starting = counts.replicas - available - used
        if available != counts.available and starting >= 0:
            other = PoolCounts(counts.replicas, available, used, starting)
            answers.append(Elsewhere(available, wanted(autoscaler, other, settings, now, None).replicas))
    return answers


def _firings(autoscaler: PoolAutoscaler, settings: WarmPoolSettings, now: float) -> list[Firing]:
    found: list[tuple[float, Firing]] = []
    for policy in autoscaler.spec.cron_policies:
        schedule, at = schedule_of(policy, settings.time_zone), now
        for _ in range(_FIRINGS):
            at = schedule.next_after(at)
            moment = datetime.fromtimestamp(at, UTC)
            local = moment.astimezone(schedule.zone).strftime("%a %Y-%m-%d %H:%M %Z")
            universal = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            found.append((at, Firing(policy.name, universal, local, policy.target_replicas)))
    return [firing for _, firing in sorted(found, key=lambda each: each[0])]


def _show(answer: AutoscalerAnswer, output: str) -> int:
    print(msgspec.json.encode(answer).decode() if output == "json" else "\n".join(_lines(answer)))
    return 1 if answer.problem else 0


def _lines(answer: AutoscalerAnswer) -> list[str]:
    counts = f"{answer.available} available, {answer.used} used, {answer.starting} starting"
    lines = [
        f"PoolAutoscaler {answer.autoscaler} of {answer.target}",
        f"  now        {answer.replicas} replicas: {counts}",
        f"  wants      {answer.desired_replicas}" + (f" ({answer.policy})" if not answer.problem else ""),
        f"  because    {answer.reason}",
    ]
    if answer.watermarks is not None:
        marks = answer.watermarks
        lines.append(f"  watermarks up below {marks.lower}, down above {marks.upper}, to {marks.target} available")
    if answer.last_decision:
        scaled = f" (last scaled {answer.last_scale_time})" if answer.last_scale_time else ""
        lines.append(f"  last said  {answer.last_decision}{scaled}")
    lines += [f"  since      {each.at}: {each.replicas} recommended" for each in answer.recommendations]
    lines += [
        f"  fires      {each.local} ({each.at}): {each.policy}, {each.replicas} replicas"
        for each in answer.next_firings
    ]
    lines += [f"  at {each.available:5} available: {each.desired_replicas}" for each in answer.at_other_numbers]
    return lines
