"""`growth explain`: what would growth make of this object, and why? With the code that decides in a cluster; it changes
nothing.

| subject | from | answered by |
| --- | --- | --- |
| pod, node, nodepool (pool) | one look at the cluster | here: where a pod goes, why a node stays, what a pool can buy |
| poolautoscaler, pa | a file and the numbers of a pool, or the cluster | `cli/explain/autoscaler` |
| buffer | a file | `cli/explain/buffer` |
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace

from growth.cli.explain.autoscaler import NOTHING_GIVEN, GivenCounts, explain_file, explain_live
from growth.cli.explain.buffer import explain_buffers
from growth.cli.session import THE_CLUSTER, ClusterAccess, SettingsFile, provider_of
from growth.controllers.ask.explain import NodeAnswer, PodAnswer, find_pod, why_node, why_pod
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.journal import be_quiet
from growth.controllers.observe.observer import look_once
from growth.model.action import WriteNodePoolStatus
from growth.model.nodepool import NodePoolStatus
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan import pool_status

Subject = Literal["pod", "node", "nodepool", "pool", "poolautoscaler", "pa", "autoscaler", "buffer"]


def explain(  # noqa: PLR0913 - every flag is an argument
    subject: Annotated[
        Subject,
        Parameter(
            help="pod, node, nodepool (pool), poolautoscaler (pa): one of them; buffer: the CapacityBuffers of a file."
        ),
    ],
    name: Annotated[str, Parameter(help="Of the object in the cluster, where no file is given.")] = "",
    /,
    *,
    file: Annotated[
        Path | None,
        Parameter(
            name=("--file", "-f"),
            allow_leading_hyphen=True,
            help="Manifests, with what they refer to; - reads standard input.",
        ),
    ] = None,
    namespace: Annotated[
        str, Parameter(name=("--namespace", "-n"), help="Of the pod or autoscaler in the cluster.")
    ] = "default",
    given: GivenCounts = NOTHING_GIVEN,
    sizing: Annotated[
        Literal["capped", "upstream"] | None, Parameter(help="buffer: default: the setting plans.bufferSizing.")
    ] = None,
    settings: SettingsFile = None,
    access: ClusterAccess = THE_CLUSTER,
    output: Annotated[Literal["text", "json"], Parameter(help="Lines for people, or JSON.")] = "text",
) -> int:
    """Say what growth would make of an object, and why; end with 1 if it cannot work as it is."""
    configuration = load_configuration(settings, os.environ, {})
    plans = configuration.plans
    match subject:
        case "buffer":
            if file is None:
                raise ValueError("say which --file the buffers are in")
            return explain_buffers(file, sizing or plans.buffer_sizing, output)
        case "pod" | "node" | "nodepool" | "pool":
            if not name:
                raise ValueError(f"say which {subject}")
            key = f"{namespace}/{name}" if subject == "pod" and "/" not in name else name
            asked = "nodepool" if subject == "pool" else subject
            return explain_in_cluster(asked, key, configuration, access, output)
        case "poolautoscaler" | "pa" | "autoscaler":
            if file is not None:
                return explain_file(file, given, plans.warm_pools, output)
            if not name:
                raise ValueError("say which autoscaler, or which --file it is in")
            return explain_live(f"{namespace}/{name}", access, given.around, plans.warm_pools, output)


ClusterSubject = Literal["pod", "node", "nodepool"]


class PoolAnswer(Struct, rename="camel", omit_defaults=True):
    """What its status says, or would say."""

    pool: str
    conditions: dict[str, str]
    offerings: dict[str, str]
    nodes: int = 0
    in_flight: int = 0
    price_per_hour: str = "0"


ClusterAnswer = PodAnswer | NodeAnswer | PoolAnswer


def explain_in_cluster(
    subject: ClusterSubject, key: str, configuration: Configuration, access: ClusterAccess, output: str
) -> int:
    be_quiet()
    snapshot = asyncio.run(_look(configuration, access))
    answer = answer_for(subject, key, snapshot, configuration.plans)
    print(msgspec.json.encode(answer).decode() if output == "json" else as_text(answer))
    return 0


async def _look(configuration: Configuration, access: ClusterAccess) -> Snapshot:
    async with access.connect(may_write=lambda: False) as (client, runtime):
        provider = provider_of(configuration)(client, runtime)
        return await look_once(client, runtime, provider, configuration.installation, configuration.plans)


def answer_for(subject: ClusterSubject, key: str, snapshot: Snapshot, settings: Settings) -> ClusterAnswer:
    pod, node = find_pod(key, snapshot) if subject == "pod" else None, snapshot.nodes.get(key)
    if pod is not None:
        return why_pod(pod, snapshot, settings)
    if subject == "node" and node is not None:
        return why_node(node, snapshot, settings)
    if subject == "nodepool" and key in snapshot.pools:
        return _why_pool(key, snapshot, settings)
    raise ValueError(f"there is no {subject} {key}")


def _why_pool(name: str, snapshot: Snapshot, settings: Settings) -> PoolAnswer:
    """Its status is decided again: what is written may be old, or missing."""
    untold = replace(snapshot.pools[name], status=NodePoolStatus())
    world = replace(snapshot, pools={**snapshot.pools, name: untold})
    actions = pool_status.plan(world, pool_status.Ledger(), settings).actions
    writes = [each for each in actions if isinstance(each, WriteNodePoolStatus) and each.pool.name == name]
    status = writes[0].status if writes else untold.status
    conditions = {each.type: f"{each.status}, {each.reason}: {each.message}".rstrip(": ") for each in status.conditions}
    offerings = {
        f"{each.name} {each.location}".strip(): f"{each.state}, {each.price_per_hour} per hour, {each.nodes} nodes"
        for each in status.offerings
    }
    return PoolAnswer(name, conditions, offerings, status.nodes, status.in_flight, status.price_per_hour)


def as_text(answer: ClusterAnswer) -> str:
    """One line for each thing that is known."""
    lines: list[str] = []
    for name, value in msgspec.to_builtins(answer).items():
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {key}: {text}" for key, text in value.items())]
        else:
            lines.append(f"{name}: {', '.join(value) if isinstance(value, list | tuple) else value}")
    return "\n".join(lines)
