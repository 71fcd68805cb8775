"""What if the cluster were a little different? Changes that people type, tried on a copy of what was seen. Used by
`growth plan --live`; the cluster itself is never changed.

| typed | the copy |
| --- | --- |
| `pool.NAME.max=20` | the pool may have 20 nodes in all, and as many of each type that has a bound of its own |
| `pool.NAME.FIELD=VALUE` | the field of the pool's spec has this value, e.g. `pool.default.limits.pricePerHour=2` |
| `add deployment/NAME=50` | 50 more pods like those of the workload wait; also `deployment/NAMESPACE/NAME` |
| `without node NAME` | the node and its machine are gone, and the pods that worked there wait |

One after the other, each on what the ones before it left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from growth.kube.api.client import Client
from growth.kube.api.errors import NotFound
from growth.kube.api.resources import (
    DEPLOYMENTS,
    JOBS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from growth.kube.codec.manifest import decode_manifest_text
from growth.model.nodepool import NodePool, NodePoolSpec, PoolLimits
from growth.model.pod import Pod
from growth.model.snapshot import Memo, Snapshot

_FORMS: Final = "pool.NAME.max=20, pool.NAME.FIELD=VALUE, add deployment/NAME=50, without node NAME"
_WORKLOADS: Final[Mapping[str, Resource]] = {
    name: resource
    for resource in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, JOBS)
    for name in (resource.kind.lower(), resource.plural)
}
_SHORT: Final = {"deploy": DEPLOYMENTS, "sts": STATEFUL_SETS, "rs": REPLICA_SETS}


class PoolChange(Struct, frozen=True):
    pool: str
    path: tuple[str, ...]
    value: str


class MorePods(Struct, frozen=True):
    resource: Resource
    namespace: str
    name: str
    count: int


class WithoutNode(Struct, frozen=True):
    node: str


Change = PoolChange | MorePods | WithoutNode
Template = Callable[[MorePods], Awaitable[str]]  # the workload and what it refers to, as a manifest


def read_changes(typed: Sequence[str], namespace: str = "default") -> tuple[Change, ...]:
    """Quoted or not: `--what-if add deployment/web=50` means the same as with quotes. Raises ValueError."""
    words, found = [word for text in typed for word in text.split()], list[Change]()
    while words:
        first = words.pop(0)
        if first == "add" and words:
            found.append(_more_pods(words.pop(0), namespace))
        elif first == "without" and len(words) > 1 and words[0] in ("node", "nodes", "no"):
            words.pop(0)
            found.append(WithoutNode(words.pop(0)))
        elif first == "without" and words and words[0].startswith("node/"):
            found.append(WithoutNode(words.pop(0).removeprefix("node/")))
        elif first.startswith("pool."):
            found.append(_pool_change(first))
        else:
            raise ValueError(f"--what-if {' '.join([first, *words])} says nothing; choose from {_FORMS}")
    return tuple(found)


def _more_pods(text: str, namespace: str) -> MorePods:
    what, _, count = text.rpartition("=")
    kind, _, name = what.partition("/")
    resource = _WORKLOADS.get(kind.lower()) or _SHORT.get(kind.lower())
    if resource is None or not name or not count.isdigit():
        kinds = ", ".join(sorted({each.kind.lower() for each in _WORKLOADS.values()}))
        raise ValueError(f"--what-if add {text} says nothing; say KIND/NAME=COUNT, where KIND is one of {kinds}")
    inside, _, bare = name.rpartition("/")
    return MorePods(resource, inside or namespace, bare, int(count))


def _pool_change(text: str) -> PoolChange:
    what, equals, value = text.partition("=")
    _, _, rest = what.partition(".")
    name, _, path = rest.partition(".")
    if not equals or not name or not path:
        raise ValueError(f"--what-if {text} says nothing; say pool.NAME.FIELD=VALUE")
    return PoolChange(name, tuple(path.split(".")), value)


async def changed(snapshot: Snapshot, changes: Sequence[Change], template: Template) -> Snapshot:
    """Raises ValueError where there is no such pool, field, workload or node."""
    for change in changes:
        match change:
            case PoolChange():
                pool = _with_field(_known("NodePool", change.pool, snapshot.pools), change)
                snapshot = replace(snapshot, pools={**snapshot.pools, pool.name: pool})
            case MorePods():
                pods = _pods(change, await template(change), snapshot.now)
                snapshot = replace(snapshot, waiting_pods=(*snapshot.waiting_pods, *pods))
            case WithoutNode():
                snapshot = _without(_known("node", change.node, snapshot.nodes).name, snapshot)
    return replace(snapshot, memo=Memo())


def _known(kind: str, name: str, found: Mapping[str, Any]) -> Any:
    if name in found:
        return found[name]
    similar = get_close_matches(name, found, n=1)
    raise ValueError(f"there is no {kind} {name}" + (f"; did you mean {similar[0]}?" if similar else ""))


# -------------------------------------------------------------------------------------------- a pool


def _with_field(pool: NodePool, change: PoolChange) -> NodePool:
    if change.path == ("max",):
        return replace(pool, spec=_with_most(pool.spec, change.value))
    spec = msgspec.json.decode(msgspec.json.encode(pool.spec))
    inner = spec
    for key in change.path[:-1]:
        inner = inner[_place(key, inner, change)]
    last = _place(change.path[-1], inner, change)
    inner[last] = _value(change.value, inner[last])
    try:
        return replace(pool, spec=msgspec.convert(spec, NodePoolSpec))
    except msgspec.ValidationError as error:
        raise ValueError(f"pool.{pool.name}.{'.'.join(change.path)}={change.value}: {error}") from None


def _place(key: str, inner: Any, change: PoolChange) -> str | int:
    """Where a list is, its places are numbers."""
    if isinstance(inner, dict) and key in inner:
        return key
    if isinstance(inner, list) and key.isdigit() and int(key) < len(inner):
        return int(key)
    choices = f"; choose from max, {', '.join(inner)}" if isinstance(inner, dict) else ""
    raise ValueError(f"a NodePool's spec has no field {'.'.join(change.path)}{choices}")


def _value(text: str, before: Any) -> Any:
    """As YAML reads it; where a text stood before, or prices and amounts do, it stays one."""
    value = yaml.safe_load(text)
    is_text = isinstance(before, str) or (before is None and isinstance(value, float))
    return text if is_text else value


def _with_most(spec: NodePoolSpec, text: str) -> NodePoolSpec:
    if not text.isdigit():
        raise ValueError(f"max={text}: a pool's most nodes are a number")
    most, limits = int(text), spec.limits
    types = tuple(each if each.max is None else replace(each, max=most) for each in spec.server_types)
    return replace(spec, server_types=types, limits=PoolLimits(most, limits.cpu, limits.memory, limits.price_per_hour))


# ---------------------------------------------------------------------------------- pods and nodes


def template_from(client: Client) -> Template:
    """Workloads as the API server knows them."""

    async def read(change: MorePods) -> str:
        try:
            item = msgspec.json.decode(await client.get(change.resource, change.name, change.namespace))
        except NotFound:
            kind = change.resource.kind.lower()
            raise ValueError(f"there is no {kind} {change.namespace}/{change.name}") from None
        counts = "parallelism" if change.resource is JOBS else "replicas"
        typed = {"apiVersion": change.resource.api_version, "kind": change.resource.kind}
        items = [{**item, **typed, "spec": {**item["spec"], counts: change.count}}]
        priority = item["spec"].get("template", {}).get("spec", {}).get("priorityClassName", "")
        if priority:
            found = msgspec.json.decode(await client.get(PRIORITY_CLASSES, priority))
            items.append({**found, "apiVersion": "scheduling.k8s.io/v1", "kind": PRIORITY_CLASSES.kind})
        return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}).decode()

    return read


def _pods(change: MorePods, manifest: str, now: float) -> list[Pod]:
    """The workload's own pods keep their names."""
    made = decode_manifest_text(manifest).pods
    names = (f"{change.name}-what-if-{number}" for number in range(len(made)))
    return [
        replace(pod, name=name, uid=f"{change.namespace}/{name}", created_at=now, unschedulable_at=now)
        for pod, name in zip(made, names, strict=True)
    ]


def _without(name: str, snapshot: Snapshot) -> Snapshot:
    """Its pods come back elsewhere, as their owners would make them anew; what belongs to the node goes with it."""
    stood = snapshot.pods_by_node.get(name, ())
    again = [
        replace(pod, node_name="", nominated_node="", phase="Pending", unschedulable_at=snapshot.now)
        for pod in stood
        if pod.counts_as_work and pod.deleted_at is None
    ]
    parts: dict[str, Any] = {
        field: {key: value for key, value in getattr(snapshot, field).items() if key != name}
        for field in ("nodes", "pods_by_node", "requests", "removals", "machines")
    }
    return replace(snapshot, waiting_pods=(*snapshot.waiting_pods, *again), **parts)
