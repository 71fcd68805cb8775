"""`growth explain`: what would growth make of this object, and why? With the code that decides in a cluster; it changes
nothing.

| subject | from | answered by |
| --- | --- | --- |
| pod, node | one look at the cluster | `controllers/ask/explain`: where a pod goes, why a node stays |
| nodepool, noderequest, noderemovalrequest | one look at the cluster | `controllers/ask/records` |
| poolautoscaler | a file and the numbers of a pool, or the cluster | `cli/explain/autoscaler` |
| buffer | a file, or one look at the cluster | `cli/explain/buffer` |
| any of them | the snapshot that a page was drawn from | here: `explain_on_page` |
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace

from growth.cli.explain.autoscaler import NOTHING_GIVEN, GivenCounts, explain_file, explain_live, looked_in
from growth.cli.explain.autoscaler import answer_in_cluster as answer_of_autoscaler
from growth.cli.explain.buffer import answer_in_cluster, explain_buffers, show_buffer
from growth.cli.explain.layout import tell
from growth.cli.session import THE_CLUSTER, ClusterAccess, SettingsFile, TextOrJson, look
from growth.controllers.ask.explain import NodeAnswer, PodAnswer, find_pod, why_node, why_pod
from growth.controllers.ask.premises import installed_by, why_nobody_acts
from growth.controllers.ask.records import (
    PoolAnswer,
    RemovalAnswer,
    RequestAnswer,
    why_pool,
    why_removal,
    why_request,
)
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.journal import be_quiet
from growth.model.settings import Settings
from growth.model.snapshot import Memo, Snapshot

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "pod": ("pods", "po"),
    "node": ("nodes", "no"),
    "nodepool": ("nodepools", "np", "pool"),
    "noderequest": ("noderequests", "nr"),
    "noderemovalrequest": ("noderemovalrequests", "nrr", "removal"),
    "poolautoscaler": ("poolautoscalers", "pa", "autoscaler"),
    "buffer": ("buffers", "capacitybuffer", "capacitybuffers", "cb"),
}  # as kubectl knows them


def explain(  # noqa: PLR0913 - every flag is an argument
    subject: Annotated[
        str,
        Parameter(
            help="pod, node, nodepool (np), noderequest (nr), noderemovalrequest (nrr), poolautoscaler (pa), buffer "
            "(cb): one of them, also as pod/NAME."
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
        str, Parameter(name=("--namespace", "-n"), help="Of the pod, autoscaler or buffer in the cluster.")
    ] = "default",
    given: GivenCounts = NOTHING_GIVEN,
    sizing: Annotated[
        Literal["capped", "upstream"] | None, Parameter(help="buffer: default: the setting plans.bufferSizing.")
    ] = None,
    settings: SettingsFile = None,
    access: ClusterAccess = THE_CLUSTER,
    output: TextOrJson = "text",
) -> int:
    """Say what growth would make of an object, and why; end with 1 if it cannot work as it is."""
    kind, name = _asked(subject, name)
    configuration = load_configuration(settings, os.environ, {})
    plans = configuration.plans
    match kind:
        case "buffer":
            sized = replace(plans, buffer_sizing=sizing or plans.buffer_sizing)
            if file is not None:
                return explain_buffers(file, sized.buffer_sizing, output)
            if not name:
                raise ValueError("say which buffer, or which --file the buffers are in")
            key = name if "/" in name else f"{namespace}/{name}"
            return explain_buffer_in_cluster(key, replace(configuration, plans=sized), access, output)
        case "poolautoscaler":
            if file is not None:
                return explain_file(file, given, plans.warm_pools, output)
            if not name:
                raise ValueError("say which autoscaler, or which --file it is in")
            return explain_live(f"{namespace}/{name}", access, given.around, plans.warm_pools, output)
        case _:
            if not name:
                raise ValueError(f"say which {kind}")
            key = f"{namespace}/{name}" if kind == "pod" and "/" not in name else name
            return explain_in_cluster(kind, key, configuration, access, output)


def _asked(subject: str, name: str) -> tuple[str, str]:
    """The kind by its whole name, and the object's: `np default`, `np/default`."""
    if not name:
        subject, _, name = subject.partition("/")
    known = {short: kind for kind, others in _NAMES.items() for short in (kind, *others)}
    if subject.lower() not in known:
        similar = get_close_matches(subject.lower(), known, n=1)
        hint = f"did you mean {similar[0]}? " if similar else ""
        raise ValueError(f"there is nothing to explain about {subject}; {hint}choose from {', '.join(_NAMES)}")
    return known[subject.lower()], name


ClusterAnswer = PodAnswer | NodeAnswer | PoolAnswer | RequestAnswer | RemovalAnswer


def explain_in_cluster(kind: str, key: str, configuration: Configuration, access: ClusterAccess, output: str) -> int:
    be_quiet()
    snapshot, nobody_acts = asyncio.run(_look(configuration, access))
    answer = with_inaction(answer_for(kind, key, snapshot, configuration.plans), nobody_acts)
    if output == "json":
        print(msgspec.json.encode(answer).decode())
    else:
        tell(answer)
    return 0


def explain_buffer_in_cluster(key: str, configuration: Configuration, access: ClusterAccess, output: str) -> int:
    be_quiet()
    snapshot, _ = asyncio.run(_look(configuration, access))
    if key not in snapshot.buffers.buffers:
        raise ValueError(_missing("buffer", key, snapshot))
    return show_buffer(answer_in_cluster(key, snapshot, configuration.plans), output)


async def _look(configuration: Configuration, access: ClusterAccess) -> tuple[Snapshot, str]:
    """What there is, and why no growth acts on it."""
    async with access.connect(may_write=lambda: False) as (client, runtime):
        seen = await look(client, runtime, configuration)
        return seen, await why_nobody_acts(client, installed_by(configuration))


_RESTS: Final = (
    *("it has its place", "it stays", "growth did not", "growth does nothing", "its node serves"),
    *("it could not be had", "no place", "NodePool", "it buys"),
)  # what is so begins with these, whether or not somebody acts


def with_inaction(answer: ClusterAnswer, nobody_acts: str) -> ClusterAnswer:
    """Where growth would do something, and no growth does anything, that comes first."""
    if not nobody_acts or answer.answer.startswith(_RESTS):
        return answer
    return replace(answer, answer=f"{nobody_acts}; otherwise: {answer.answer}")


def answer_for(kind: str, key: str, snapshot: Snapshot, settings: Settings) -> ClusterAnswer:
    match kind:
        case "pod" if (pod := find_pod(key, snapshot)) is not None:
            return why_pod(pod, snapshot, settings)
        case "node" if key in snapshot.nodes:
            return why_node(snapshot.nodes[key], snapshot, settings)
        case "nodepool" if key in snapshot.pools:
            return why_pool(key, snapshot, settings)
        case "noderequest" if key in snapshot.requests:
            return why_request(snapshot.requests[key], snapshot)
        case "noderemovalrequest" if key in snapshot.removals:
            return why_removal(snapshot.removals[key])
    raise ValueError(_missing(kind, key, snapshot))


def _missing(kind: str, key: str, snapshot: Snapshot) -> str:
    """With the name that was meant, where one is near."""
    bound = (pod for pods in snapshot.pods_by_node.values() for pod in pods)
    names = {
        "pod": [pod.key for pod in (*snapshot.waiting_pods, *bound)],
        "node": list(snapshot.nodes),
        "nodepool": list(snapshot.pools),
        "noderequest": list(snapshot.requests),
        "noderemovalrequest": list(snapshot.removals),
        "buffer": list(snapshot.buffers.buffers),
    }
    similar = get_close_matches(key, names[kind], n=1)
    return f"there is no {kind} {key}" + (f"; did you mean {similar[0]}?" if similar else "")


# ---------------------------------------------------------------------------------------- on the page

_AROUND: Final = 3  # numbers of available replicas on either side


def explain_on_page(kind: str, name: str, snapshot: Snapshot, settings: Settings) -> Mapping[str, Any]:
    """What the page says when somebody clicks on something, from the snapshot that it was drawn from: the sentence
    under `answer`, then what is known. Raises ValueError if it is not there.
    """
    alone = replace(snapshot, memo=Memo())  # asked in a thread of its own
    match kind:
        case "CapacityBuffer" if name in snapshot.buffers.buffers:
            found = answer_in_cluster(name, alone, settings)
            return {"answer": found.message or found.reason, **_known(found, "message")}
        case "PoolAutoscaler" if name in snapshot.autoscalers:
            looked = looked_in(name, snapshot, settings.warm_pools)
            wants = answer_of_autoscaler(looked, _AROUND, settings.warm_pools, snapshot.now)
            return {"answer": wants.reason, **_known(wants, "reason")}
        case "Pod" | "Node" | "NodePool" | "NodeRequest" | "NodeRemovalRequest":
            return _known(answer_for(kind.lower(), name, alone, settings))
    raise ValueError(f"there is no {kind} {name}")


def _known(answer: Struct, *but: str) -> Mapping[str, Any]:
    """What says nothing is left out."""
    found = msgspec.to_builtins(answer)
    return {key: value for key, value in found.items() if key not in but and value not in ("", None, [], {}, ())}
