"""Files of Kubernetes objects to nouns, without a cluster: YAML or JSON, many documents, `kubectl get -o json`.

What the API server would do on the way is done here: a missing namespace is `default`, a priority class becomes its
number, and a Deployment, ReplicaSet, StatefulSet or Job becomes the pods its controller would make. Pods that wait
count as unschedulable, since there is no scheduler to say so. Kinds that growth does not read are counted in `skipped`.
Everything that is wrong is reported at once, each with the number of its document. Used by the CLI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from growth.kube.codec import Codec, Noun
from growth.kube.codec.text import BROKEN, Json, describe_error, salvage_text
from growth.kube.crds import KINDS
from growth.kube.crds.schema import schema_of
from growth.model.api import API_GROUP
from growth.model.disruption import PodDisruptionBudget
from growth.model.labels import Labels
from growth.model.malformed import Malformed
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.pod import Owner, Pod
from growth.model.snapshot import DaemonSet, VolumeWorld
from growth.model.volumes import Claim, StorageClass, Volume, VolumeNode

_CLUSTER_SCOPED: Final = (
    *("Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "PriorityClass"),
    *(kind.resource.kind for kind in KINDS),
)
_COUNTS: Final = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"), "replicas"),
    "Job": "parallelism",
}
_PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_MOST_PODS: Final = 100_000


class ManifestError(ValueError):
    """What is wrong with the file, one line for each thing."""


class Manifest(Struct, frozen=True):
    """What the files say."""

    pods: tuple[Pod, ...] = ()
    nodes: Mapping[str, Node] = {}
    namespaces: Mapping[str, Labels] = {}
    daemon_sets: tuple[DaemonSet, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    volumes: VolumeWorld = VolumeWorld()
    pools: Mapping[str, NodePool] = {}
    requests: Mapping[str, NodeRequest] = {}
    removals: Mapping[str, NodeRemovalRequest] = {}
    skipped: Mapping[str, int] = {}  # kinds that growth does not read, and how many
    problems: tuple[str, ...] = ()  # objects that could not be read, where that was to be borne


class _Document(Struct):
    place: str  # document 2, item 5
    item: Json

    @property
    def kind(self) -> str:
        return str(self.item.get("kind", ""))


class _Loader(yaml.SafeLoader):
    """Times stay texts, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def decode_manifest_text(text: str, codec: Codec | None = None, is_strict: bool = True) -> Manifest:
    """Unless `is_strict`, what cannot be read is named in `problems` and the rest is read."""
    codec, problems = codec or Codec(), list[str]()
    documents = list(_documents(text, problems))
    priorities = _priorities(documents)
    nouns, skipped = list[tuple[str, str, Noun]](), dict[str, int]()
    for document in documents:
        if document.kind in _COUNTS:
            nouns += _pods_of(document, codec, priorities, problems)
        elif document.kind in codec.kinds:
            nouns += _noun_of(document, codec, priorities, problems)
        else:
            skipped[document.kind] = skipped.get(document.kind, 0) + 1
    if problems and (is_strict or not documents):
        raise ManifestError("\n".join(problems))
    return replace(_grouped(nouns, skipped), problems=tuple(problems))


def _documents(text: str, problems: list[str]) -> Iterator[_Document]:
    try:
        roots = _roots(text)
    except (*BROKEN, yaml.YAMLError) as error:
        problems.append(f"neither YAML nor JSON: {describe_error(error)}")
        return
    for number, root in enumerate(roots, 1):
        if root is not None:
            yield from _opened(f"document {number}", root, problems)


def _roots(text: str) -> list[Any]:
    """The documents of a file. JSON is YAML too, but much faster to read as JSON."""
    if text.lstrip().startswith("{"):
        try:
            return [msgspec.json.decode(text)]
        except BROKEN:
            pass  # YAML may begin with a brace as well, and says better what is wrong
    return list(yaml.load_all(text, _Loader))


def _opened(place: str, root: Any, problems: list[str]) -> Iterator[_Document]:
    """The objects of a document: a List is its items; those of a PodList need not say that they are pods."""
    if not isinstance(root, dict) or not isinstance(root.get("kind"), str):
        problems.append(f"{place}: not a Kubernetes object: it has no kind")
    elif root["kind"].endswith("List") and isinstance(root.get("items"), list):
        inner = root["kind"].removesuffix("List")
        implied = {"kind": inner, "apiVersion": root.get("apiVersion", "")} if inner else {}
        for number, item in enumerate(root["items"], 1):
            whole = {**implied, **item} if isinstance(item, dict) else item
            yield from _opened(f"{place}, item {number}", whole, problems)
    else:
        yield _Document(place, root)


def _priorities(documents: list[_Document]) -> dict[str, int]:
    classes = [document.item for document in documents if document.kind == "PriorityClass"]
    found = {salvage_text(item, "metadata", "name"): item.get("value") for item in classes}
    return {**_PRIORITIES, **{name: value for name, value in found.items() if isinstance(value, int)}}


def _noun_of(
    document: _Document, codec: Codec, priorities: Mapping[str, int], problems: list[str]
) -> Iterator[tuple[str, str, Noun]]:
    item, kind = document.item, document.kind
    if str(item.get("apiVersion", "")).startswith(f"{API_GROUP}/"):
        item = _without_nulls(item)
        problems += (f"{document.place}: {kind}: unknown field {path}" for path in _unknown_fields(kind, item))
    if kind == "Pod":
        _resolve_priority(item.get("spec"), priorities)
    noun = _read(document.place, kind, item, codec, problems)
    if noun is not None:
        yield kind, _key(kind, item), _waiting(noun) if isinstance(noun, Pod) else noun


def _read(place: str, kind: str, item: Json, codec: Codec, problems: list[str]) -> Noun | None:
    """None: it cannot be read, and `problems` says why."""
    try:
        noun = codec.decode(kind, msgspec.json.encode(_placed(kind, item))).noun
    except (*BROKEN, TypeError) as error:
        problems.append(f"{place}: {kind}: {describe_error(error)}")
        return None
    why = "" if _key(kind, item).strip("/") else "metadata.name is missing"
    match noun:
        case Malformed():
            why = noun.why or why
        case Node():
            why = noun.malformed or why
        case Pod():
            why = noun.shape.malformed or why
    if why:
        problems.append(f"{place}: {kind} {_key(kind, item)}: {why}")
        return None
    return noun


def _placed(kind: str, item: Json) -> Json:
    """The object in its namespace, as `kubectl apply` would put it."""
    meta = item.get("metadata")
    if kind in _CLUSTER_SCOPED or not isinstance(meta, dict) or meta.get("namespace"):
        return item
    return {**item, "metadata": {**meta, "namespace": "default"}}


def _key(kind: str, item: Json) -> str:
    meta = item.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = str(meta.get("name") or meta.get("generateName") or "")
    return name if kind in _CLUSTER_SCOPED else f"{meta.get('namespace') or 'default'}/{name}"


def _waiting(pod: Pod) -> Pod:
    if pod.node_name or pod.is_gated or pod.unschedulable_at is not None:
        return pod
    return replace(pod, unschedulable_at=pod.created_at)


def _pods_of(
    document: _Document, codec: Codec, priorities: Mapping[str, int], problems: list[str]
) -> Iterator[tuple[str, str, Noun]]:
    """As many pods as the workload asks for, all of one shape."""
    item, kind = document.item, document.kind
    spec = item.get("spec") if isinstance(item.get("spec"), dict) else {}
    template, count = (spec or {}).get("template"), (spec or {}).get(_COUNTS[kind])
    count = 1 if count is None else count
    if not isinstance(template, dict) or not isinstance(count, int) or not 0 <= count <= _MOST_PODS:
        needs = f"needs a template, and from 0 to {_MOST_PODS} {_COUNTS[kind]}"
        problems.append(f"{document.place}: {kind} {_key(kind, item)}: {needs}")
        return
    _resolve_priority(template.get("spec"), priorities)
    namespace, _, name = _key(kind, item).partition("/")
    metadata = {**(template.get("metadata") or {}), "name": name, "namespace": namespace}
    pod = {"metadata": metadata, "spec": template.get("spec")}
    noun = _read(document.place, "Pod", pod, codec, problems)
    if isinstance(noun, Pod):
        owner = Owner(kind, name)
        for number in range(count):
            yield "Pod", f"{namespace}/{name}-{number}", replace(_waiting(noun), name=f"{name}-{number}", owner=owner)


def _resolve_priority(spec: Any, priorities: Mapping[str, int]) -> None:
    if isinstance(spec, dict) and spec.get("priority") is None and spec.get("priorityClassName") in priorities:
        spec["priority"] = priorities[spec["priorityClassName"]]


def _without_nulls(value: Any) -> Any:
    """Null means absent, as the API server has it."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _unknown_fields(kind: str, item: Json) -> Iterator[str]:
    """Fields that the kind does not have: a misspelt one would otherwise be ignored without a word."""
    known = next((row for row in KINDS if row.resource.kind == kind), None)
    if known is not None:
        yield from _unknown(schema_of(known.spec), item.get("spec"), "spec")


def _unknown(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, part in enumerate(value):
            yield from _unknown(schema.get("items", {}), part, f"{path}[{number}]")
    elif isinstance(value, dict) and "properties" in schema:
        for name, part in value.items():
            inner = schema["properties"].get(name)
            yield from _unknown(inner, part, f"{path}.{name}") if inner else (f"{path}.{name}",)


def _grouped(nouns: list[tuple[str, str, Noun]], skipped: Mapping[str, int]) -> Manifest:
    def of(kind: str) -> dict[str, Any]:
        return {key: noun for found, key, noun in nouns if found == kind}

    claims: dict[str, Claim] = of("PersistentVolumeClaim")
    volumes: dict[str, Volume] = of("PersistentVolume")
    classes: dict[str, StorageClass] = of("StorageClass")
    volume_nodes: dict[str, VolumeNode] = of("CSINode")
    return Manifest(
        pods=tuple(of("Pod").values()),
        nodes=of("Node"),
        namespaces=of("Namespace"),
        daemon_sets=tuple(of("DaemonSet").values()),
        budgets=tuple(of("PodDisruptionBudget").values()),
        volumes=VolumeWorld(claims, volumes, classes, volume_nodes),
        pools=of("NodePool"),
        requests=of("NodeRequest"),
        removals=of("NodeRemovalRequest"),
        skipped=skipped,
    )
