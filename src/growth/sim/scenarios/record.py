"""What does a real cluster look like as a scenario? Reads it, writes nothing into it, and makes a scenario file of it.

Asked by `growth simulate --record`. Only what decides about capacity is taken, field by field: nothing of a container
but its name, image, requests and host ports; never commands, environment, volumes, configuration or secrets.

| of the cluster | becomes |
| --- | --- |
| workloads, DaemonSets, budgets, priority classes, pools, buffers, autoscalers | objects, as they are wanted |
| pods of workloads | nothing: their workload makes them |
| other pods that are not over | pods; those on a node that is recorded stay there |
| nodes that growth did not buy | nodes, with what they offer |
| growth's own nodes | nothing: growth buys what is needed |

Anonymised, every name is another one, the same everywhere in the file, so that selectors still match: of objects,
namespaces, images and containers, and keys and values of labels and taints that Kubernetes, growth and vendors of
devices do not define. Numbers, zones of the catalogue, and true and false stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml

from growth.kube.api import resources as known
from growth.kube.api.client import Client
from growth.kube.api.errors import NotFound
from growth.kube.api.resources import Resource
from growth.model.instant import format_instant
from growth.model.labels import ARCHITECTURE, HOSTNAME, INSTANCE_TYPE, OPERATING_SYSTEM, REGION, ZONE
from growth.model.node import OFFERING_LABEL, POOL_LABEL
from growth.model.nodepool import DEFAULT_POOL
from growth.providers.catalogue import built_in_catalogue
from growth.sim.agents.kubelet import KWOK_ANNOTATION, ready_status
from growth.sim.apiserver.kinds import SANDBOX_SETS, SANDBOX_TEMPLATES, SANDBOX_WARM_POOLS, Json
from growth.sim.clock import START_OF_TIME

_WORKLOADS: Final = (
    known.DEPLOYMENTS,
    known.REPLICA_SETS,
    known.STATEFUL_SETS,
    known.JOBS,
    known.DAEMON_SETS,
    SANDBOX_SETS,
    SANDBOX_WARM_POOLS,
)
_READ: Final = (
    known.NAMESPACES,
    known.PRIORITY_CLASSES,
    known.NODES,
    known.NODE_POOLS,
    *_WORKLOADS,
    known.PODS,
    known.POD_TEMPLATES,
    SANDBOX_TEMPLATES,
    known.POD_DISRUPTION_BUDGETS,
    known.CAPACITY_BUFFERS,
    known.POOL_AUTOSCALERS,
)
_SPEC: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("replicas", "selector", "template"),
    "ReplicaSet": ("replicas", "selector", "template"),
    "StatefulSet": ("replicas", "selector", "template", "podManagementPolicy"),
    "DaemonSet": ("selector", "template"),
    "SandboxSet": ("replicas", "selector", "template"),
    "SandboxWarmPool": ("replicas", "sandboxTemplateRef"),
    "SandboxTemplate": ("podTemplate",),
    "Job": ("parallelism", "completions", "template"),
    "PodDisruptionBudget": ("minAvailable", "maxUnavailable", "selector", "unhealthyPodEvictionPolicy"),
    "CapacityBuffer": ("scalableRef", "podTemplateRef", "replicas", "percentage", "limits", "provisioningStrategy"),
}
_POD: Final = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priorityClassName", "schedulerName"),
    *("hostNetwork", "overhead", "restartPolicy", "terminationGracePeriodSeconds", "preemptionPolicy"),
)
_CONTAINER: Final = ("name", "image", "restartPolicy")
_OF_POOLS_ELSEWHERE: Final = ("providerSettings", "startupTaints", "annotations")  # nobody in the simulation knows them
_READ_ANNOTATIONS: Final = ("growth.dev/", "karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/")
_LABELS_OF_JOBS: Final = ("controller-uid", "job-name", "batch.kubernetes.io/")
_OVER: Final = ("Succeeded", "Failed")


async def read_cluster(client: Client, namespaces: Sequence[str] = ()) -> list[Json]:
    """Every object that a recording needs; a kind that the cluster does not have has none."""
    found: list[Json] = []
    for resource in _READ:
        for namespace in (namespaces or ("",)) if resource.namespaced else ("",):
            found += await _listed(client, resource, namespace)
    return found


async def _listed(client: Client, resource: Resource, namespace: str) -> list[Json]:
    try:
        items, _ = await client.list(resource, namespace)
    except NotFound:
        return []
    return [{**msgspec.json.decode(item), "apiVersion": resource.api_version, "kind": resource.kind} for item in items]


def recorded_scenario(objects: Sequence[Json], *, name: str = "recorded", anonymise: bool = False) -> str:
    """The scenario file."""
    taken = sorted(_taken(objects), key=_place)
    if anonymise:
        taken = _Anonymous(taken).objects()
    scenario = {"name": name, "about": _summary(taken), "duration": "1h", "objects": taken}
    notes = "".join(f"# {note}\n" for note in _notes(taken))
    return notes + yaml.safe_dump(scenario, sort_keys=False, allow_unicode=True, width=120)


def _place(item: Json) -> tuple[int, str, str]:
    order = [resource.kind for resource in _READ]
    return order.index(item["kind"]), item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _summary(taken: Sequence[Json]) -> str:
    kinds = [item["kind"] for item in taken]
    return "A recorded cluster: " + ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) + "."


def _notes(taken: Sequence[Json]) -> Iterable[str]:
    yield "Recorded by growth simulate --record. Workloads start anew: their pods wait until there is a place for them."
    yield "Machines of growth are not recorded; it buys what is needed."
    sold = {each.name.lower() for each in built_in_catalogue().server_types}
    pools = [item for item in taken if item["kind"] == "NodePool"]
    wanted = {each["name"] for item in pools for each in item["spec"].get("serverTypes") or ()}
    if unknown := sorted(each for each in wanted if each.lower() not in sold):
        yield f"The built-in catalogue has no {', '.join(unknown)}: say under `catalogue` what they are."


# -------------------------------------------------------------------------------- what is taken


def _taken(objects: Sequence[Json]) -> Iterable[Json]:
    nodes = {item["metadata"]["name"] for item in objects if item["kind"] == "Node" and not _is_ours(item)}
    made_by = {resource.kind for resource in _WORKLOADS}
    namespaces = {item["metadata"].get("namespace", "") for item in objects}
    for item in objects:
        owners = {owner["kind"] for owner in item["metadata"].get("ownerReferences") or () if owner.get("controller")}
        if "deletionTimestamp" in item["metadata"] or owners & made_by:
            continue
        made = _recorded(item, nodes, namespaces)
        if made is not None:
            yield {"apiVersion": item["apiVersion"], "kind": item["kind"], **made}


def _recorded(item: Json, nodes: set[str], namespaces: set[str]) -> Json | None:
    kind, spec, status = item["kind"], item.get("spec") or {}, item.get("status") or {}
    made: Json = {"metadata": _metadata(item)}
    if kind == "Node":
        return None if _is_ours(item) else _node(item)
    if kind == "Namespace":
        return made if item["metadata"]["name"] in namespaces else None
    if kind == "PriorityClass":
        return {**made, **_some(item, ("value", "globalDefault", "preemptionPolicy"))}
    if kind == "Pod":
        is_over = status.get("phase") in _OVER
        return None if is_over else {**made, "spec": {**_pod_spec(spec), **_where(spec, nodes)}}
    if kind == "PodTemplate":
        return {**made, "template": _template(item.get("template") or {})}
    if kind == "NodePool":
        return {**made, "spec": {key: value for key, value in spec.items() if key not in _OF_POOLS_ELSEWHERE}}
    if kind == "Job" and (any(each["type"] in ("Complete", "Failed") for each in status.get("conditions") or ())):
        return None
    return {**made, "spec": _spec(kind, spec)}


def _spec(kind: str, spec: Json) -> Json:
    found = _some(spec, _SPEC[kind]) if kind in _SPEC else dict(spec)
    return {**found, "template": _template(found["template"])} if found.get("template") else found


def _is_ours(node: Json) -> bool:
    return OFFERING_LABEL in (node["metadata"].get("labels") or {})


def _where(spec: Json, nodes: set[str]) -> Json:
    return {"nodeName": spec["nodeName"]} if spec.get("nodeName") in nodes else {}


def _node(item: Json) -> Json:
    """A node with a kubelet that the simulation plays; one that is not Ready has none."""
    is_ready, metadata = ready_status(item) == "True", _metadata(item)
    if is_ready:
        metadata["annotations"] = {**metadata.get("annotations", {}), KWOK_ANNOTATION: "fake"}
    taints = [
        _some(taint, ("key", "value", "effect"))
        for taint in item["spec"].get("taints") or ()
        if not taint["key"].startswith("node.kubernetes.io/")
    ]
    amounts = _some(item.get("status") or {}, ("capacity", "allocatable"))
    ready = {"type": "Ready", "status": "True" if is_ready else "False", "reason": "Recorded", "message": ""}
    ready["lastTransitionTime"] = format_instant(START_OF_TIME)
    spec = {**_some(item["spec"], ("unschedulable",)), **({"taints": taints} if taints else {})}
    return {"metadata": metadata, "spec": spec, "status": {**amounts, "conditions": [ready]}}


def _metadata(item: Json, given: Json | None = None) -> Json:
    metadata = item["metadata"] if given is None else given
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if not key.startswith(_LABELS_OF_JOBS)
    }
    notes = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if key.startswith(_READ_ANNOTATIONS)
    }
    found = _some(metadata, ("name", "namespace"))
    return {**found, **({"labels": labels} if labels else {}), **({"annotations": notes} if notes else {})}


def _template(template: Json) -> Json:
    return {"metadata": _metadata({}, template.get("metadata") or {}), "spec": _pod_spec(template.get("spec") or {})}


def _pod_spec(spec: Json) -> Json:
    found: Json = {"containers": [_container(each) for each in spec.get("containers") or ()]}
    if spec.get("initContainers"):
        found["initContainers"] = [_container(each) for each in spec["initContainers"]]
    return {**found, **_some(spec, _POD)}


def _container(container: Json) -> Json:
    found = _some(container, _CONTAINER)
    resources = _some(container.get("resources") or {}, ("requests", "limits"))
    ports = [
        _some(each, ("containerPort", "hostPort", "protocol"))
        for each in container.get("ports") or ()
        if each.get("hostPort")
    ]
    return {**found, **({"resources": resources} if resources else {}), **({"ports": ports} if ports else {})}


def _some(item: Json, keys: Iterable[str]) -> Json:
    return {key: item[key] for key in keys if item.get(key) not in (None, {}, [], "")}


# ------------------------------------------------------------------------------------- other names


_KNOWN_DOMAINS: Final = ("kubernetes.io", "k8s.io", "growth.dev", "nvidia.com", "amd.com", "intel.com")
_SAID_BY_ALL: Final = (ARCHITECTURE, OPERATING_SYSTEM, INSTANCE_TYPE, OFFERING_LABEL)
_PLACES: Final = (ZONE, REGION)
_NAME_OF_NAMESPACE: Final = "kubernetes.io/metadata.name"
_KEPT_NAMESPACES: Final = ("", "default", "kube-system")
_KEPT_SCHEDULERS: Final = ("default-scheduler", "growth")
_LABELS: Final = ("labels", "annotations", "matchLabels", "nodeSelector")
_EXPRESSIONS: Final = ("matchExpressions", "matchFields")
_LISTS_OF_KEYS: Final = ("matchLabelKeys", "mismatchLabelKeys")
_TAINTS: Final = ("taints", "tolerations", "startupTaints")
_AMOUNTS: Final = ("requests", "limits", "capacity", "allocatable", "overhead")
_REFERENCES: Final = ("scaleTargetRef", "scalableRef", "podTemplateRef")


class _Anonymous:
    """The same objects under other names; each name has one, in the order in which they are met."""

    def __init__(self, taken: Sequence[Json]) -> None:
        self._taken = taken
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._places = {place.name for place in built_in_catalogue().locations}

    def objects(self) -> list[Json]:
        return [self._object(item) for item in self._taken]

    def _named(self, sort: str, name: str) -> str:
        if (sort, name) not in self._names:
            self._counts[sort] = self._counts.get(sort, 0) + 1
            self._names[sort, name] = f"{sort}-{self._counts[sort]}"
        return self._names[sort, name]

    def _object(self, item: Json) -> Json:
        namespace, kind = item["metadata"].get("namespace", ""), item["kind"]
        rest = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata")}
        metadata: Json = {"name": self._name_of(kind, namespace, item["metadata"]["name"])}
        if namespace:
            metadata["namespace"] = self._namespace(namespace)
        said = {key: value for key, value in item["metadata"].items() if key in ("labels", "annotations")}
        given = {
            "apiVersion": item["apiVersion"],
            "kind": kind,
            "metadata": {**metadata, **self._walk(said, namespace)},
        }
        return {**given, **self._walk(rest, namespace)}

    def _name_of(self, kind: str, namespace: str, name: str) -> str:
        if kind == "Namespace":
            return self._namespace(name)
        if kind == "PriorityClass":
            return self._priority(name)
        if kind == "NodePool":
            return self._pool(name)
        return self._named(kind.lower(), f"{namespace}/{name}" if namespace else name)

    def _pool(self, name: str) -> str:
        """The pool of pods that name none keeps its name."""
        return name if name == DEFAULT_POOL else self._named("pool", name)

    def _namespace(self, name: str) -> str:
        return name if name in _KEPT_NAMESPACES else self._named("namespace", name)

    def _priority(self, name: str) -> str:
        return name if name.startswith("system-") else self._named("priority", name)

    def _key(self, key: str) -> str:
        domain, slash, _ = key.partition("/")
        is_known = any(domain == each or domain.endswith(f".{each}") for each in _KNOWN_DOMAINS)
        is_of_all = key in ("pod-template-hash", "metadata.name") or key.startswith(_READ_ANNOTATIONS)
        return key if (slash and is_known) or is_of_all or key == KWOK_ANNOTATION else self._named("key", key)

    def _value(self, key: str, value: str) -> str:
        if key == POOL_LABEL:
            return self._pool(value)
        if key in (HOSTNAME, "metadata.name"):
            return self._named("node", value)
        if key == _NAME_OF_NAMESPACE:
            return self._namespace(value)
        is_plain = not value or value in ("true", "false", "fake") or value.isdecimal()
        is_said_by_all = key in _SAID_BY_ALL or (key in _PLACES and value in self._places)
        return value if is_plain or is_said_by_all else self._named("value", value)

    def _walk(self, value: Any, namespace: str) -> Any:
        if isinstance(value, list):
            return [self._walk(each, namespace) for each in value]
        if not isinstance(value, dict):
            return value
        return {key: self._part(key, each, namespace) for key, each in value.items()}

    def _part(self, key: str, value: Any, namespace: str) -> Any:
        if key in _AMOUNTS and isinstance(value, dict):
            return {self._resource(name): amount for name, amount in value.items()}
        if key in _REFERENCES:
            return {**value, "name": self._name_of(value.get("kind", "PodTemplate"), namespace, value["name"])}
        if key in _LABELS:
            return {self._key(name): self._value(name, str(each)) for name, each in value.items()}
        if key in ("containers", "initContainers"):
            return [{**self._walk(each, namespace), "name": self._named("container", each["name"])} for each in value]
        one = self._one_of(key)
        if one is None:
            return self._walk(value, namespace)
        return [one(each) for each in value] if isinstance(value, list) else one(value)

    def _policy(self, policy: Json) -> Json:
        return {**policy, "name": self._named("policy", policy["name"])}

    def _one_of(self, key: str) -> Callable[[Any], Any] | None:
        """How what stands under this key is changed, or each of a list; None: there is no name in it."""
        changes: dict[str, Callable[[Any], Any]] = {
            **dict.fromkeys(_EXPRESSIONS, self._expression),
            **dict.fromkeys(_TAINTS, self._taint),
            **dict.fromkeys(_LISTS_OF_KEYS, self._key),
            "cronPolicies": self._policy,
            "image": lambda name: self._named("image", name),
            "nodeName": lambda name: self._named("node", name),
            "schedulerName": lambda name: name if name in _KEPT_SCHEDULERS else self._named("scheduler", name),
            "topologyKey": self._key,
            "priorityClassName": self._priority,
            "namespaces": self._namespace,
            "allowedNamespaces": self._namespace,
        }
        return changes.get(key)

    def _resource(self, name: str) -> str:
        return self._key(name) if "/" in name and not name.startswith("hugepages-") else name

    def _expression(self, expression: Json) -> Json:
        values = [self._value(expression["key"], each) for each in expression.get("values") or ()]
        return {**expression, "key": self._key(expression["key"]), **({"values": values} if values else {})}

    def _taint(self, taint: Json) -> Json:
        changed = dict(taint)
        if taint.get("value"):
            changed["value"] = self._value(taint.get("key", ""), taint["value"])
        if taint.get("key"):
            changed["key"] = self._key(taint["key"])
        return changed
